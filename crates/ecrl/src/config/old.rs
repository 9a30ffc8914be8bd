//! Configurations of format 1, which had the sections of all algorithms at once.

use toml::{Table, Value};

use super::{Config, last, lookup, paths, put};
use crate::algorithms;

/// Every key of format 1, by section.
const KEYS: [(&str, &str); 8] = [
    ("", "task algorithm steps seed constraints"),
    ("learner", "episodes learning_starts grad_steps_per_env_step"),
    ("sac", "hidden batch gamma tau alpha actor_lr critic_lr"),
    (
        "ppo",
        "layers envs collect epochs minibatch lr lr_decay discount gae clip value_coef value_clip \
         entropy_coef max_grad_norm recompute_advantages normalise_advantages log_sigma barrier",
    ),
    ("evolution", "population elites tournament pf mutation sync_period"),
    ("replay", "capacity"),
    ("multipliers", "lambda actor_lambda eta buffer buffer_batch"),
    ("test", "episodes every sample"),
];
/// Keys that have another name now.
const RENAMED: [(&str, &str); 4] = [
    ("ppo.layers", "ppo.hidden"),
    ("ppo.discount", "ppo.gamma"),
    ("ppo.minibatch", "ppo.batch"),
    ("ppo.barrier", "ipo.barrier"),
];

/// What became of a key of format 1.
pub fn renamed(key: &str) -> Option<String> {
    let found = RENAMED.iter().find(|(old, _)| *old == key || last(old) == key);
    found.map(|(_, new)| format!("it is called '{new}' now"))
}

/// Makes a whole file of format 1 one of today; what its algorithm has no use for had no effect and
/// is left out. Anything else stays as it is.
pub fn translate(table: &mut Table) {
    let mut sections = KEYS.iter().map(|(section, _)| *section).filter(|name| !name.is_empty());
    let whole = sections.all(|name| table.get(name).is_some_and(Value::is_table));
    let algorithm = table.get("algorithm").map_or(Some(algorithms::DEFAULT), Value::as_str);
    let defaults = algorithm.and_then(|name| Config::new(name).ok());
    let (true, false, Some(defaults)) = (whole, table.contains_key("format"), defaults) else {
        return;
    };
    let known = |path: &str| {
        let (section, key) = path.rsplit_once('.').unwrap_or(("", path));
        KEYS.iter().any(|(name, keys)| *name == section && keys.split(' ').any(|k| k == key))
    };
    let old = std::mem::take(table);
    let applicable = paths(&defaults.table());
    for path in paths(&old) {
        let new = RENAMED.iter().find(|(old, _)| *old == path).map_or(&path[..], |(_, new)| new);
        // What nobody knows is a slip, to be told as any other.
        if applicable.iter().any(|key| key == new) || !known(&path) {
            put(table, new, lookup(&old, &path).expect("its own path").clone());
        }
    }
}
