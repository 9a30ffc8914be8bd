//! Every value a run depends on. The defaults are the paper's, or where it is silent, those of the
//! authors' code.
//!
//! A configuration is put together in layers - defaults, a TOML file, command-line options, single
//! assignments `key=value` - each of which may name only keys that exist.

use cmdp::nearest;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::algorithm::{ALGORITHMS, Algorithm, Learner};
use crate::ppo::PpoConfig;
use crate::sac::SacConfig;

/// Every value a run depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The task's name.
    pub task: String,
    /// The algorithm's name, as in [`ALGORITHMS`].
    pub algorithm: String,
    /// Environment steps of the whole run, tests not counted. Paper: 1e6.
    pub steps: u64,
    /// The seed of all randomness.
    pub seed: u64,
    /// The constraints in force, as text. Paper: mean torque at most 0.4.
    pub constraints: Vec<String>,
    /// How the learner gathers experience and when it learns.
    pub learner: LearnerConfig,
    /// The networks and updates of all learners but PPO's.
    pub sac: SacConfig,
    /// The learner of PPO and IPO.
    pub ppo: PpoConfig,
    /// The population, for algorithms that have one.
    pub evolution: EvolutionConfig,
    /// The replay buffer.
    pub replay: ReplayConfig,
    /// The Lagrange multipliers.
    pub multipliers: MultiplierConfig,
    /// Tests during training.
    pub test: TestConfig,
}

/// How the learner gathers experience and when it learns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnerConfig {
    /// Episodes the learner plays in each generation. Authors' code: 5.
    pub episodes: usize,
    /// Transitions that must be stored before the first update. Authors' code: 5000.
    pub learning_starts: usize,
    /// Updates for each environment step; fewer is faster and learns less. Authors' code: 1.
    pub grad_steps_per_env_step: f64,
}

/// The population.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvolutionConfig {
    /// Actors μ in the population. Authors' code: 10.
    pub population: usize,
    /// Actors that pass on unchanged; more keeps more and explores less. Authors' code: 2.
    pub elites: usize,
    /// Entrants of a tournament; more favours the best. Authors' code: 3.
    pub tournament: usize,
    /// Stochastic ranking's tolerance P_f: how often reward decides although a constraint is
    /// broken. Runarsson & Yao: 0.45.
    pub pf: f64,
    /// The probability p_m that an actor mutates. Paper: 0.9.
    pub mutation: f64,
    /// Generations ω between two copies of the learner into the population. Paper: 1.
    pub sync_period: u64,
}

/// The replay buffer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayConfig {
    /// Transitions kept, the newest. Paper: 1e6.
    pub capacity: usize,
}

/// The Lagrange multipliers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultiplierConfig {
    /// The learner's multiplier at the start, and the fixed one. Paper: 0.001.
    pub lambda: f64,
    /// An actor's own multiplier starts uniformly between 0 and this. Paper: 1.
    pub actor_lambda: f64,
    /// Learning rate η of adaptive multipliers; more reacts faster and overshoots. Paper: 1e-5.
    pub eta: f64,
    /// Episodes whose J_C the constraint buffer keeps, the newest. Paper: 100.
    pub buffer: usize,
    /// Episodes drawn from it for one update of an actor's multiplier. Paper: 32.
    pub buffer_batch: usize,
}

/// Tests during training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestConfig {
    /// Episodes of one test. Paper: 5.
    pub episodes: usize,
    /// Environment steps after which the next generation is tested; 0 tests every one.
    pub every: u64,
    /// Whether tests draw actions, as the authors' code does, instead of taking the mean action.
    pub sample: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            task: String::new(),
            algorithm: "ecrl".into(),
            steps: 1_000_000,
            seed: 0,
            constraints: vec!["torque<=0.4".into()],
            learner: LearnerConfig {
                episodes: 5,
                learning_starts: 5000,
                grad_steps_per_env_step: 1.0,
            },
            sac: SacConfig::default(),
            ppo: PpoConfig::default(),
            evolution: EvolutionConfig {
                population: 10,
                elites: 2,
                tournament: 3,
                pf: 0.45,
                mutation: 0.9,
                sync_period: 1,
            },
            replay: ReplayConfig { capacity: 1_000_000 },
            multipliers: MultiplierConfig {
                lambda: 0.001,
                actor_lambda: 1.0,
                eta: 1e-5,
                buffer: 100,
                buffer_batch: 32,
            },
            test: TestConfig { episodes: 5, every: 1000, sample: false },
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// Not TOML.
    #[error("not valid TOML: {0}")]
    Syntax(String),
    /// A key that does not exist.
    #[error("unknown key '{key}': {hint}")]
    UnknownKey {
        /// The key given.
        key: String,
        /// What may have been meant.
        hint: String,
    },
    /// A bare key that stands for several.
    #[error("key '{key}' could be {candidates}: expected one of them")]
    Ambiguous {
        /// The key given.
        key: String,
        /// What it could be.
        candidates: String,
    },
    /// An assignment without `=`.
    #[error("'{0}': expected key=value")]
    Assignment(String),
    /// A value of the wrong type.
    #[error("{0}")]
    Type(String),
    /// An algorithm that does not exist.
    #[error("unknown algorithm '{name}': {hint}")]
    UnknownAlgorithm {
        /// The name given.
        name: String,
        /// What may have been meant.
        hint: String,
    },
    /// A value out of range.
    #[error("{key} is {value}; expected {expected}")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },
}

/// A configuration in the making: only what was given, over the defaults.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Layers(Table);

impl Layers {
    /// Adds all of a TOML file's values.
    pub fn toml(&mut self, text: &str) -> Result<(), ConfigError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(0, |s| text[..s.start].matches('\n').count() + 1);
            ConfigError::Syntax(format!("line {line}: {}", error.message()))
        })?;
        for (path, value) in leaves(&table, "") {
            let path = resolve(&path, false)?;
            if value.is_table() {
                return Err(ConfigError::Type(format!("{path}: expected a value, got a section")));
            }
            self.put(&path, value);
        }
        Ok(())
    }

    /// Sets one value by its dotted path.
    pub fn set(&mut self, path: &str, value: impl Into<Value>) {
        self.put(path, value.into());
    }

    /// Adds one `key=value`. The key may be a field's bare name where only one field has it.
    pub fn assign(&mut self, assignment: &str) -> Result<(), ConfigError> {
        let (key, text) =
            assignment.split_once('=').ok_or_else(|| ConfigError::Assignment(assignment.into()))?;
        let path = resolve(key.trim(), true)?;
        let text = text.trim();
        // What is not a TOML value by itself is meant as a string.
        let value = format!("v = {text}").parse::<Table>().ok().and_then(|mut t| t.remove("v"));
        let value = value.unwrap_or_else(|| Value::String(text.into()));
        if value.is_table() {
            return Err(ConfigError::Type(format!("{path}: expected a single value, got a table")));
        }
        self.put(&path, value);
        Ok(())
    }

    fn put(&mut self, path: &str, value: Value) {
        let mut table = &mut self.0;
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                table.insert(part.into(), value);
                return;
            }
            let entry = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
            table = entry.as_table_mut().expect("paths come from the configuration's own shape");
        }
    }

    /// The configuration these values give over the defaults.
    pub fn build(&self) -> Result<Config, ConfigError> {
        let mut all = Self(defaults());
        for (path, value) in leaves(&self.0, "") {
            let value = fitting(value, lookup(&all.0, &path));
            all.put(&path, value);
            // One at a time, so that the message can name the key.
            all.0.clone().try_into::<Config>().map_err(|error| {
                ConfigError::Type(format!("{path}: {}", error.message().replace('\n', " ")))
            })?;
        }
        let config: Config = all
            .0
            .try_into()
            .map_err(|error: toml::de::Error| ConfigError::Type(error.message().into()))?;
        config.validate()?;
        Ok(config)
    }
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

fn defaults() -> Table {
    Table::try_from(Config::default()).expect("a configuration is a table")
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

/// The dotted path that a key stands for.
fn resolve(key: &str, bare: bool) -> Result<String, ConfigError> {
    let known: Vec<String> = leaves(&defaults(), "").into_iter().map(|(path, _)| path).collect();
    if known.iter().any(|path| path == key) {
        return Ok(key.into());
    }
    let last = |path: &str| path.rsplit('.').next().unwrap_or(path).to_owned();
    if bare {
        let matches: Vec<&String> = known.iter().filter(|path| last(path) == key).collect();
        match matches.as_slice() {
            [] => {}
            [path] => return Ok((*path).clone()),
            _ => {
                let candidates: Vec<&str> = matches.iter().map(|path| path.as_str()).collect();
                return Err(ConfigError::Ambiguous {
                    key: key.into(),
                    candidates: candidates.join(" or "),
                });
            }
        }
    }
    // A slip is usually in the last part: compare that too.
    let by_path = nearest(key, known.iter().map(String::as_str));
    let wanted = last(key);
    let names: Vec<String> = known.iter().map(|path| last(path)).collect();
    let by_name = nearest(&wanted, names.iter().map(String::as_str))
        .first()
        .and_then(|name| known.iter().find(|path| last(path) == **name));
    let best = by_name.map(String::as_str).or(by_path.first().copied());
    let hint = match best {
        Some(best) => format!("did you mean '{best}'?"),
        None => format!("expected one of: {}", known.join(", ")),
    };
    Err(ConfigError::UnknownKey { key: key.into(), hint })
}

impl Config {
    /// The row of the table of algorithms.
    pub fn algorithm(&self) -> Result<&'static Algorithm, ConfigError> {
        ALGORITHMS.iter().find(|a| a.name == self.algorithm).ok_or_else(|| {
            let names = || ALGORITHMS.iter().map(|a| a.name);
            let hint = match nearest(&self.algorithm, names()).first() {
                Some(best) => format!("did you mean '{best}'?"),
                None => format!("expected one of: {}", names().collect::<Vec<_>>().join(", ")),
            };
            ConfigError::UnknownAlgorithm { name: self.algorithm.clone(), hint }
        })
    }

    /// Whether a run of more steps is another run from the start on.
    pub fn length_matters(&self) -> bool {
        let on_policy = self.algorithm().is_ok_and(|a| matches!(a.learner, Learner::Ppo { .. }));
        on_policy && self.ppo.lr_decay
    }

    /// The values that differ from the defaults, as assignments; but for what every run is given:
    /// its task, algorithm, steps, seed and constraints.
    pub fn changes(&self) -> Vec<String> {
        let table = Table::try_from(self).expect("a configuration is a table");
        let defaults = defaults();
        let given = ["task", "algorithm", "steps", "seed", "constraints"];
        let changed = leaves(&table, "").into_iter().filter(|(path, value)| {
            !given.contains(&path.as_str()) && lookup(&defaults, path) != Some(value)
        });
        changed
            .map(|(path, value)| {
                let last = path.rsplit('.').next().unwrap_or(&path);
                let key = if resolve(last, true).is_ok_and(|p| p == path) { last } else { &path };
                format!("{key}={}", value.to_string().replace(' ', ""))
            })
            .collect()
    }

    /// The configuration as a TOML file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a configuration is a table")
    }

    /// Checks every value against its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.algorithm()?;
        let Self { learner, sac, ppo, evolution, replay, multipliers, test, .. } = self;
        let check = |ok: bool, key, value: &dyn std::fmt::Display, expected| match ok {
            true => Ok(()),
            false => Err(ConfigError::Range { key, value: value.to_string(), expected }),
        };
        let positive = |x: f64| x > 0.0 && x.is_finite();
        // Far beyond use; above, memory would run out before anybody could say why.
        const MANY: usize = 10_000;
        check(self.steps > 0, "steps", &self.steps, "at least 1")?;
        check(
            (1..=MANY).contains(&learner.episodes),
            "learner.episodes",
            &learner.episodes,
            "1 to 10000",
        )?;
        check(
            (1..=replay.capacity).contains(&learner.learning_starts),
            "learner.learning_starts",
            &learner.learning_starts,
            "at least 1 and at most replay.capacity",
        )?;
        check(
            (0.0..=1000.0).contains(&learner.grad_steps_per_env_step),
            "learner.grad_steps_per_env_step",
            &learner.grad_steps_per_env_step,
            "a number from 0 to 1000",
        )?;
        let layers = |layers: &[usize]| {
            (1..=16).contains(&layers.len()) && layers.iter().all(|n| (1..=MANY).contains(n))
        };
        for (key, units) in [("sac.hidden", &sac.hidden), ("ppo.layers", &ppo.layers)] {
            let shown = format!("{units:?}");
            check(layers(units), key, &shown, "1 to 16 layers of 1 to 10000 units")?;
        }
        check(
            (2..=replay.capacity.min(1_000_000)).contains(&sac.batch),
            "sac.batch",
            &sac.batch,
            "at least 2 and at most replay.capacity or 1000000",
        )?;
        check((0.0..=1.0).contains(&sac.gamma), "sac.gamma", &sac.gamma, "a number from 0 to 1")?;
        check(
            sac.tau > 0.0 && sac.tau <= 1.0,
            "sac.tau",
            &sac.tau,
            "a number above 0 and at most 1",
        )?;
        check(
            sac.alpha >= 0.0 && sac.alpha.is_finite(),
            "sac.alpha",
            &sac.alpha,
            "a number from 0 on",
        )?;
        check(positive(sac.actor_lr), "sac.actor_lr", &sac.actor_lr, "a number above 0")?;
        check(positive(sac.critic_lr), "sac.critic_lr", &sac.critic_lr, "a number above 0")?;
        check((1..=1000).contains(&ppo.envs), "ppo.envs", &ppo.envs, "1 to 1000")?;
        check(
            (ppo.envs..=1_000_000).contains(&ppo.collect),
            "ppo.collect",
            &ppo.collect,
            "at least ppo.envs and at most 1000000",
        )?;
        check((1..=MANY).contains(&ppo.epochs), "ppo.epochs", &ppo.epochs, "1 to 10000")?;
        check(
            (1..=ppo.collect).contains(&ppo.minibatch),
            "ppo.minibatch",
            &ppo.minibatch,
            "at least 1 and at most ppo.collect",
        )?;
        for (key, value) in [
            ("ppo.lr", ppo.lr),
            ("ppo.max_grad_norm", ppo.max_grad_norm),
            ("ppo.barrier", ppo.barrier),
        ] {
            check(positive(value), key, &value, "a number above 0")?;
        }
        for (key, value) in [("ppo.discount", ppo.discount), ("ppo.gae", ppo.gae)] {
            check((0.0..=1.0).contains(&value), key, &value, "a number from 0 to 1")?;
        }
        check(ppo.clip > 0.0 && ppo.clip < 1.0, "ppo.clip", &ppo.clip, "a number between 0 and 1")?;
        for (key, value) in
            [("ppo.value_coef", ppo.value_coef), ("ppo.entropy_coef", ppo.entropy_coef)]
        {
            check(value >= 0.0 && value.is_finite(), key, &value, "a number from 0 on")?;
        }
        check(
            (-20.0..=2.0).contains(&ppo.log_sigma),
            "ppo.log_sigma",
            &ppo.log_sigma,
            "a number from -20 to 2",
        )?;
        check(
            (2..=MANY).contains(&evolution.population),
            "evolution.population",
            &evolution.population,
            "2 to 10000",
        )?;
        check(
            (1..evolution.population).contains(&evolution.elites),
            "evolution.elites",
            &evolution.elites,
            "at least 1 and fewer than evolution.population",
        )?;
        check(
            (1..=MANY).contains(&evolution.tournament),
            "evolution.tournament",
            &evolution.tournament,
            "1 to 10000",
        )?;
        check(
            (0.0..=1.0).contains(&evolution.pf),
            "evolution.pf",
            &evolution.pf,
            "a number from 0 to 1",
        )?;
        check(
            (0.0..=1.0).contains(&evolution.mutation),
            "evolution.mutation",
            &evolution.mutation,
            "a number from 0 to 1",
        )?;
        check(
            evolution.sync_period > 0,
            "evolution.sync_period",
            &evolution.sync_period,
            "at least 1",
        )?;
        check(
            multipliers.actor_lambda >= 0.0 && multipliers.actor_lambda.is_finite(),
            "multipliers.actor_lambda",
            &multipliers.actor_lambda,
            "a number from 0 on",
        )?;
        check(multipliers.buffer > 0, "multipliers.buffer", &multipliers.buffer, "at least 1")?;
        check(
            (1..=multipliers.buffer).contains(&multipliers.buffer_batch),
            "multipliers.buffer_batch",
            &multipliers.buffer_batch,
            "at least 1 and at most multipliers.buffer",
        )?;
        check(
            multipliers.lambda >= 0.0 && multipliers.lambda.is_finite(),
            "multipliers.lambda",
            &multipliers.lambda,
            "a number from 0 on",
        )?;
        check(
            multipliers.eta >= 0.0 && multipliers.eta.is_finite(),
            "multipliers.eta",
            &multipliers.eta,
            "a number from 0 on",
        )?;
        check((1..=MANY).contains(&test.episodes), "test.episodes", &test.episodes, "1 to 10000")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(assignments: &[&str]) -> Result<Config, String> {
        let mut layers = Layers::default();
        for assignment in assignments {
            layers.assign(assignment).map_err(|e| e.to_string())?;
        }
        layers.build().map_err(|e| e.to_string())
    }

    #[test]
    fn the_defaults_are_valid_and_survive_a_round_trip() {
        let config = built(&[]).unwrap();
        assert_eq!(config, Config::default());
        let mut layers = Layers::default();
        layers.toml(&config.to_toml()).unwrap();
        assert_eq!(layers.build().unwrap(), config);
    }

    #[test]
    fn later_layers_win_and_bare_names_are_enough() {
        let mut layers = Layers::default();
        layers.toml("steps = 500\n[sac]\nalpha = 0.2\nbatch = 64\n").unwrap();
        layers.assign("alpha=1").unwrap();
        layers.assign("sac.hidden=[32, 32]").unwrap();
        layers.assign("grad_steps_per_env_step=0.5").unwrap();
        layers.set("algorithm", "sac");
        let config = layers.build().unwrap();
        assert_eq!((config.steps, config.sac.alpha, config.sac.batch), (500, 1.0, 64));
        assert_eq!(config.sac.hidden, [32, 32]);
        assert_eq!(config.learner.grad_steps_per_env_step, 0.5);
        assert_eq!(config.algorithm, "sac");
        assert_eq!(built(&["steps=1e6"]).unwrap().steps, 1_000_000);
    }

    #[test]
    fn mistakes_are_told_by_key() {
        for (assignment, expected) in [
            ("alpah=1", "unknown key 'alpah': did you mean 'sac.alpha'?"),
            ("sac.bacth=1", "unknown key 'sac.bacth': did you mean 'sac.batch'?"),
            (
                "episodes=3",
                "key 'episodes' could be learner.episodes or test.episodes: expected one of them",
            ),
            ("alpha", "'alpha': expected key=value"),
            ("alpha=x", "sac.alpha: invalid type: string \"x\", expected f64"),
            ("batch=1.5", "sac.batch: invalid type: floating point `1.5`, expected usize"),
            ("batch=-1", "sac.batch: invalid value: integer `-1`, expected usize"),
            (
                "batch=1",
                "sac.batch is 1; expected at least 2 and at most replay.capacity or 1000000",
            ),
            ("alpha={a=1}", "sac.alpha: expected a single value, got a table"),
            ("population=1e12", "evolution.population is 1000000000000; expected 2 to 10000"),
            ("gamma=1.5", "sac.gamma is 1.5; expected a number from 0 to 1"),
            ("alpha=nan", "sac.alpha is NaN; expected a number from 0 on"),
            ("hidden=[]", "sac.hidden is []; expected 1 to 16 layers of 1 to 10000 units"),
            (
                "capacity=100",
                "learner.learning_starts is 5000; expected at least 1 and at most replay.capacity",
            ),
            (
                "elites=10",
                "evolution.elites is 10; expected at least 1 and fewer than evolution.population",
            ),
            (
                "buffer_batch=200",
                "multipliers.buffer_batch is 200; expected at least 1 and at most multipliers.buffer",
            ),
            ("pf=-1", "evolution.pf is -1; expected a number from 0 to 1"),
            ("algorithm=rpco", "unknown algorithm 'rpco': did you mean 'rcpo'?"),
        ] {
            assert_eq!(built(&[assignment]).unwrap_err(), expected);
        }
        let mut layers = Layers::default();
        let message = layers.toml("steps = 5\nsteps = 6\n").unwrap_err().to_string();
        assert!(message.starts_with("not valid TOML: line 2"), "{message}");
        layers.toml("[sac]\n# alpha = 1\n").unwrap(); // an empty section is no mistake
        let message = layers.toml("[sac.alpha]\nx = 1\n").unwrap_err().to_string();
        assert!(message.starts_with("unknown key 'sac.alpha.x'"), "{message}");
        let message = layers.toml("[sca]\nalpha = 1\n").unwrap_err().to_string();
        assert_eq!(message, "unknown key 'sca.alpha': did you mean 'sac.alpha'?");
    }
}
