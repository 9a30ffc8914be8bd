//! Every value a run depends on: what all runs have, and the sections of the algorithm chosen.
//!
//! A configuration is put together in layers - the algorithm's defaults, a preset of it, a TOML file,
//! single assignments `key=value` - each of which may name only keys that the algorithm has.

mod compare;
mod error;
mod old;
pub mod range;
#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub use error::ConfigError;
pub(crate) use error::hint;

use crate::algorithm::Row;
use crate::algorithms;
use crate::until::Until;

/// The version of the file's format.
const FORMAT: u32 = 2;

/// Steps of a run: far beyond what anybody lives to see.
pub const MOST_STEPS: u64 = 1_000_000_000_000_000;

/// A share of tests that bounds nothing, for algorithms whose updates take far longer than tests do.
pub const UNBOUNDED: f64 = 1e9;

/// Every value a run depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The version of the format, which is 2.
    pub format: u32,
    /// The task's name. A [`Trainer`](crate::trainer::Trainer) takes it from the environment.
    pub task: String,
    /// The algorithm's name, as in [`ALGORITHMS`](algorithms::ALGORITHMS).
    pub algorithm: String,
    /// Environment steps of the whole run, tests not counted. Paper: 1e6.
    pub steps: u64,
    /// The seed of all randomness.
    pub seed: u64,
    /// The constraints in force, as text: what environments are made with. A trainer takes them from
    /// the environments.
    pub constraints: Vec<String>,
    /// The checksum of the policy that training starts from; empty where it starts from nothing.
    #[serde(default)]
    pub start: String,
    /// What the environments are, as JSON, where they are none of this program's; else empty.
    #[serde(default)]
    pub environment: String,
    /// Tests during training.
    pub test: TestConfig,
    /// The sections of the algorithm.
    #[serde(flatten)]
    pub sections: Table,
}

/// Tests during training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestConfig {
    /// Episodes of one test. Paper: 5.
    pub episodes: usize,
    /// Environment steps after which the next generation is tested; 0 tests every one.
    pub every: u64,
    /// Whether sampled actions are tested in episodes of their own, as in the authors' code; otherwise
    /// training episodes tell of them until the end of the run: the learner's own, and the one that the
    /// champion was ranked by.
    pub sample: bool,
    /// Environment steps after which the best that was tested since is tested again, on fresh starts
    /// and with both faces, to become the best of the run; the end of the run does so, too.
    pub retest_every: u64,
    /// Episodes of that test, for each face.
    pub retest_episodes: usize,
    /// Steps that tests may take for each step of training, half of them for second tests, until the end of
    /// the run, which is always tested; 1e9 is no bound.
    pub share: f64,
    /// The run ends with the first test that meets all of these, as `reward>=3000`; see
    /// [`Until`].
    #[serde(default)]
    pub until: Vec<String>,
}

/// The keys that every run is given; a label of its values leaves them out.
const GIVEN: [&str; 7] =
    ["format", "task", "algorithm", "steps", "seed", "constraints", "environment"];

/// How an algorithm plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pace {
    /// Environments that run side by side, each going on where it was.
    pub running: usize,
    /// Whether a run of more steps is another run from the start on.
    pub length_matters: bool,
}

/// The sections of an algorithm's configuration: plain structs, whose values are the usual ones where
/// none is given.
pub trait Section: Clone + Serialize + DeserializeOwned {
    /// Checks every value against its range.
    fn validate(&self) -> Result<(), ConfigError>;

    /// How it plays; the usual is whole episodes.
    fn pace(&self) -> Pace {
        Pace::default()
    }

    /// The keys whose values may change in the midst of a run, because no state has their shape.
    fn changeable() -> Vec<&'static str>;
}

impl Config {
    /// The usual values of an algorithm.
    pub fn new(algorithm: &str) -> Result<Self, ConfigError> {
        let row = algorithms::find(algorithm)?;
        Ok(Self {
            format: FORMAT,
            task: String::new(),
            algorithm: row.name().into(),
            steps: 1_000_000,
            seed: 0,
            constraints: Vec::new(),
            start: String::new(),
            environment: String::new(),
            test: TestConfig {
                episodes: 5,
                every: 1000,
                sample: false,
                retest_every: 50_000,
                retest_episodes: 20,
                share: row.test_share(),
                until: Vec::new(),
            },
            sections: row.defaults(),
        })
    }

    /// The algorithm's row.
    pub fn row(&self) -> Result<&'static dyn Row, ConfigError> {
        algorithms::find(&self.algorithm)
    }

    /// The algorithm's sections as it sees them.
    pub fn section<S: Section>(&self) -> Result<S, ConfigError> {
        self.sections.clone().try_into().map_err(type_error)
    }

    /// Whether a run of more steps is another run from the start on.
    pub fn length_matters(&self) -> bool {
        self.row().is_ok_and(|row| row.pace(&self.sections).length_matters)
    }

    /// Environments that it has running side by side, each going on where it was.
    pub fn running(&self) -> usize {
        self.row().map_or(0, |row| row.pace(&self.sections).running)
    }

    /// The values that differ from the algorithm's defaults, as assignments; but for what every run
    /// is given: its task, algorithm, steps, seed and constraints.
    pub fn changes(&self) -> Vec<String> {
        let Ok(defaults) = Self::new(&self.algorithm) else { return Vec::new() };
        let (defaults, table) = (defaults.table(), self.table());
        let known = paths(&table);
        let changed = leaves(&table, "").into_iter().filter(|(path, value)| {
            !GIVEN.contains(&path.as_str()) && lookup(&defaults, path) != Some(value)
        });
        changed
            .map(|(path, value)| {
                let last = last(&path);
                let unique = resolve(last, true, &known).is_ok_and(|p| p == Some(path.clone()));
                let key = if unique { last } else { &path };
                format!("{key}={}", value.to_string().replace(' ', ""))
            })
            .collect()
    }

    /// The algorithm with what distinguishes it: values that differ from its defaults, by the name of
    /// a preset where it has all of that, and a fixed λ whatever it is.
    pub fn label(&self) -> String {
        let mut words = vec![self.algorithm.clone()];
        let rule = |key: &str| self.sections.get("multipliers").and_then(|rule| rule.get(key));
        let mut changes = self.changes();
        for preset in self.row().map_or(&[][..], |row| row.presets()) {
            let mut layers = Layers::default();
            layers.set("algorithm", self.algorithm.as_str()).preset(preset.name);
            let values = layers.build().map(|config| config.changes()).unwrap_or_default();
            if !values.is_empty() && values.iter().all(|value| changes.contains(value)) {
                changes.retain(|change| !values.contains(change));
                words.push(format!("preset={}", preset.name));
            }
        }
        if let (Some("fixed"), Some(lambda)) =
            (rule("rule").and_then(Value::as_str), rule("lambda"))
            && !changes.iter().any(|change| change.starts_with("lambda="))
        {
            words.push(format!("lambda={lambda}"));
        }
        words.extend(changes);
        words.join(" ")
    }

    /// The configuration as a TOML file.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.table()).expect("a configuration is a table")
    }

    fn table(&self) -> Table {
        Table::try_from(self).expect("a configuration is a table")
    }

    /// Checks every value against its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let row = self.row()?;
        let fits = (1..=MOST_STEPS).contains(&self.steps);
        range::check(fits, "steps", self.steps, "1 to 1e15")?;
        range::many("test.episodes", self.test.episodes)?;
        range::many("test.retest_episodes", self.test.retest_episodes)?;
        range::not_negative("test.share", self.test.share)?;
        Until::parse_all(&self.test.until)?;
        row.validate(&self.sections)
    }
}

/// A value that was given.
#[derive(Debug, Clone, PartialEq)]
struct Given {
    key: String,
    value: Value,
    /// Whether the key may be a field's bare name.
    bare: bool,
    /// The file it comes from.
    source: Option<String>,
    /// The algorithm that the file names.
    of: Option<String>,
}

/// A configuration in the making: only what was given, over the algorithm's defaults.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Layers {
    given: Vec<Given>,
    preset: Option<String>,
}

impl Layers {
    /// Adds all of a TOML file's values.
    pub fn toml(&mut self, text: &str) -> Result<(), ConfigError> {
        let given = parse(text, None)?;
        self.given.extend(given);
        Ok(())
    }

    /// Adds all values of a TOML file of that name.
    pub fn file(&mut self, name: &str, text: &str) -> Result<(), ConfigError> {
        let given = parse(text, Some(name)).map_err(|error| error.within(name))?;
        self.given.extend(given);
        Ok(())
    }

    /// Sets one value by its dotted path.
    pub fn set(&mut self, path: &str, value: impl Into<Value>) -> &mut Self {
        let (key, value) = (path.into(), value.into());
        self.given.push(Given { key, value, bare: false, source: None, of: None });
        self
    }

    /// Takes the algorithm's values of that name, under all others.
    pub fn preset(&mut self, name: &str) -> &mut Self {
        self.preset = Some(name.into());
        self
    }

    /// Adds one `key=value`. The key may be a field's bare name where only one field has it, or
    /// `preset`.
    pub fn assign(&mut self, assignment: &str) -> Result<(), ConfigError> {
        let (key, text) =
            assignment.split_once('=').ok_or_else(|| ConfigError::Assignment(assignment.into()))?;
        let (key, text) = (key.trim(), text.trim());
        if key == "preset" {
            self.preset(text);
            return Ok(());
        }
        // What is not a TOML value by itself is meant as a string.
        let value = format!("v = {text}").parse::<Table>().ok().and_then(|mut t| t.remove("v"));
        let value = value.unwrap_or_else(|| Value::String(text.into()));
        self.given.push(Given { key: key.into(), value, bare: true, source: None, of: None });
        Ok(())
    }

    /// The configuration these values give. Of a file that names another algorithm than the one chosen
    /// in the end, only what differs from that algorithm's own values counts.
    pub fn build(&self) -> Result<Config, ConfigError> {
        let chosen = self.given.iter().rev().find(|given| given.key == "algorithm");
        let name = chosen.map_or(Some(algorithms::DEFAULT), |given| given.value.as_str());
        let name = name.unwrap_or_default();
        let row = algorithms::find(name)?;
        for given in self.given.iter().filter(|given| given.key == "format") {
            if given.value.as_integer() != Some(FORMAT.into()) {
                let found = given.value.to_string();
                let error = ConfigError::Format { found, expected: FORMAT };
                return Err(error.from(&given.source));
            }
        }
        let parts = self.preset.as_deref().map(|name| row.preset(name)).transpose()?;
        let parts = parts.unwrap_or_default().iter().map(|part| parse(part, None));
        let preset: Vec<Given> = parts.collect::<Result<Vec<_>, _>>()?.concat();
        let mut table = Config::new(name)?.table();
        // What a whole file says that its algorithm would have had anyway.
        let usual = |given: &Given| {
            let defaults = given.of.as_deref().and_then(|of| Config::new(of).ok());
            let usual = defaults.and_then(|c| lookup(&c.table(), &given.key).cloned());
            usual.as_ref() == Some(&fitting(given.value.clone(), usual.as_ref()))
        };
        let other = |given: &Given| given.of.as_deref().is_some_and(|of| of != name);
        let given = preset.iter().chain(&self.given);
        let given = given.filter(|g| !other(g) || !(g.key == "algorithm" || usual(g)));
        let mut pending: Vec<&Given> = given.collect();
        let mut paths_given: Vec<(String, &Given)> = Vec::new();
        // A value may bring keys of its own, as a ranking does: what has no place yet waits.
        while !pending.is_empty() {
            let (mut waiting, before) = (Vec::new(), pending.len());
            for given in pending {
                let found = resolve(&given.key, given.bare, &paths(&table));
                match found.map_err(|error| error.from(&given.source))? {
                    None => waiting.push(given),
                    Some(path) => {
                        table = with(table, &path, given, row)?;
                        paths_given.push((path, given));
                    }
                }
            }
            if waiting.len() == before {
                let error = unknown(&waiting[0].key, row, &paths(&table));
                return Err(error.from(&waiting[0].source));
            }
            pending = waiting;
        }
        for (path, given) in &paths_given {
            if lookup(&table, path).is_none() && !usual(given) {
                let error = unknown(&given.key, row, &paths(&table));
                return Err(error.from(&given.source));
            }
        }
        let config: Config = table.try_into().map_err(type_error)?;
        config.validate()?;
        Ok(config)
    }
}

/// A table with one more value in it, complete again; so that the message names the key, one at a
/// time.
fn with(mut table: Table, path: &str, given: &Given, row: &dyn Row) -> Result<Table, ConfigError> {
    let named = |error: String| ConfigError::Type(format!("{path}: {error}")).from(&given.source);
    if given.value.is_table() {
        return Err(named("expected a single value, got a section".into()));
    }
    let value = fitting(given.value.clone(), lookup(&table, path));
    put(&mut table, path, value);
    let text = |error: toml::de::Error| named(error.message().replace('\n', " "));
    let mut config: Config = table.try_into().map_err(text)?;
    config.sections = row.complete(config.sections).map_err(text)?;
    Ok(config.table())
}

fn parse(text: &str, source: Option<&str>) -> Result<Vec<Given>, ConfigError> {
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(0, |s| text[..s.start].matches('\n').count() + 1);
        ConfigError::Syntax(format!("line {line}: {}", error.message()))
    })?;
    old::translate(&mut table);
    let source = source.map(str::to_owned);
    let of = table.get("algorithm").and_then(Value::as_str).map(str::to_owned);
    let given = leaves(&table, "").into_iter().map(|(key, value)| Given {
        key,
        value,
        bare: false,
        source: source.clone(),
        of: of.clone(),
    });
    Ok(given.collect())
}

fn type_error(error: toml::de::Error) -> ConfigError {
    ConfigError::Type(error.message().replace('\n', " "))
}

fn unknown(key: &str, row: &dyn Row, known: &[String]) -> ConfigError {
    let known = || known.iter().map(String::as_str).filter(|path| *path != "format");
    // A key of another algorithm is no slip.
    let elsewhere = algorithms::ALGORITHMS
        .iter()
        .any(|other| paths(&other.defaults()).iter().any(|path| path == key || last(path) == key));
    if elsewhere {
        let (algorithm, keys) = (row.name(), known().collect::<Vec<_>>().join(", "));
        return ConfigError::DoesNotApply { key: key.into(), algorithm, keys };
    }
    let hint = old::renamed(key).unwrap_or_else(|| hint(key, known()));
    ConfigError::UnknownKey { key: key.into(), hint }
}

/// Whole numbers and numbers with a fraction stand for each other where the value allows it:
/// `steps = 1e6`, `alpha = 1`.
fn fitting(value: Value, like: Option<&Value>) -> Value {
    match (&value, like) {
        (Value::Integer(i), Some(Value::Float(_))) => Value::Float(*i as f64),
        (Value::Float(x), Some(Value::Integer(_))) if x.fract() == 0.0 && x.abs() < 9e15 => {
            Value::Integer(*x as i64)
        }
        _ => value,
    }
}

fn put(table: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        None => _ = table.insert(path.into(), value),
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
            put(inner.as_table_mut().expect("paths come from the table's own shape"), rest, value);
        }
    }
}

fn lookup<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
    let value = table.get(first)?;
    rest.map_or(Some(value), |rest| lookup(value.as_table()?, rest))
}

/// Every value that is not a table, by its dotted path.
fn leaves(table: &Table, prefix: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(inner) => found.extend(leaves(inner, &path)),
            _ => found.push((path, value.clone())),
        }
    }
    found
}

/// The dotted path of every value.
pub(crate) fn paths(table: &Table) -> Vec<String> {
    leaves(table, "").into_iter().map(|(path, _)| path).collect()
}

/// The last part of a dotted path.
pub(crate) fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// The dotted path that a key stands for.
fn resolve(key: &str, bare: bool, known: &[String]) -> Result<Option<String>, ConfigError> {
    if known.iter().any(|path| path == key) {
        return Ok(Some(key.into()));
    }
    let matches: Vec<&str> =
        known.iter().map(String::as_str).filter(|path| bare && last(path) == key).collect();
    match matches[..] {
        [] => Ok(None),
        [path] => Ok(Some(path.into())),
        _ => {
            let candidates = matches.join(" or ");
            Err(ConfigError::Ambiguous { key: key.into(), candidates })
        }
    }
}
