//! Configurations of format 1, which had the sections of all algorithms at once.

use toml::{Table, Value};

use super::{Config, lookup, paths, put};

/// The sections that every file of format 1 had.
const SECTIONS: [&str; 6] = ["learner", "sac", "ppo", "evolution", "replay", "multipliers"];
/// Keys that have another name now.
const RENAMED: [(&str, &str); 4] = [
    ("ppo.layers", "ppo.hidden"),
    ("ppo.discount", "ppo.gamma"),
    ("ppo.minibatch", "ppo.batch"),
    ("ppo.barrier", "ipo.barrier"),
];

/// Makes a whole file of format 1 one of today; what its algorithm has no use for had no effect and
/// is left out. Anything else stays as it is.
pub fn translate(table: &mut Table) {
    let whole = SECTIONS.iter().all(|name| table.get(*name).is_some_and(Value::is_table));
    let algorithm = table.get("algorithm").and_then(Value::as_str);
    let defaults = algorithm.and_then(|name| Config::new(name).ok());
    let (true, false, Some(defaults)) = (whole, table.contains_key("format"), defaults) else {
        return;
    };
    let mut renamed = table.clone();
    for (old, new) in RENAMED {
        if let Some(value) = lookup(table, old) {
            put(&mut renamed, new, value.clone());
        }
    }
    table.clear();
    for path in paths(&defaults.table()) {
        if let Some(value) = lookup(&renamed, &path) {
            put(table, &path, value.clone());
        }
    }
}
