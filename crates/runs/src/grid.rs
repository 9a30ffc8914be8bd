//! Grids: every task with every algorithm and every seed.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use ecrl::config::{Config, ConfigError, Layers};
use serde::{Deserialize, Serialize};

/// An algorithm and values of its own, written as `erl-shaped lambda=0.1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Variant {
    /// The algorithm's name.
    pub algorithm: String,
    /// Assignments, as after `--set`.
    pub set: Vec<String>,
}

impl TryFrom<String> for Variant {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Variant> for String {
    fn from(variant: Variant) -> Self {
        variant.to_string()
    }
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace().map(str::to_owned);
        let algorithm =
            words.next().ok_or("expected an algorithm, as in 'erl-shaped lambda=0.1'")?;
        Ok(Self { algorithm, set: words.collect() })
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.algorithm)?;
        self.set.iter().try_for_each(|assignment| write!(f, " {assignment}"))
    }
}

/// Seeds: so many from 0 on, or these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Seeds {
    /// 0, 1, ...
    Count(u64),
    /// These.
    List(Vec<u64>),
}

/// Every task with every variant and every seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// The tasks.
    pub tasks: Vec<String>,
    /// The algorithms, with values of their own.
    pub algorithms: Vec<Variant>,
    /// The seeds.
    pub seeds: Seeds,
    /// Environment steps of each run.
    pub steps: Option<f64>,
    /// The constraints of each run.
    pub constraints: Option<Vec<String>>,
    /// Assignments for all runs that have a use for them, as after `--set`.
    #[serde(default)]
    pub set: Vec<String>,
}

/// Seeds at the most, where they are counted.
const MOST_SEEDS: u64 = 10_000;

/// One run of a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its folder within the experiment's.
    pub name: String,
    /// Every value of it.
    pub config: Config,
    /// What makes it, after `ecrl`, without where it goes.
    pub arguments: Vec<String>,
}

/// A grid that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum GridError {
    /// The file is not a grid.
    #[error("{0}")]
    Toml(String),
    /// There is nothing in it.
    #[error("{0}: expected at least one")]
    Empty(&'static str),
    /// More seeds than anybody has time for.
    #[error("seeds is {0}; expected 1 to {MOST_SEEDS}, or a list")]
    Seeds(u64),
    /// A run of it has a bad configuration.
    #[error("{run}: {error}")]
    Config {
        /// The run.
        run: String,
        /// What is wrong.
        error: ConfigError,
    },
    /// Two runs of it would have the same folder.
    #[error("two runs are called {name}: {differences}")]
    Twice {
        /// The folder.
        name: String,
        /// What differs.
        differences: String,
    },
    /// A value for all runs that none has a use for.
    #[error("set: '{0}' applies to none of the algorithms")]
    Set(String),
    /// Not a part of it.
    #[error("the shard is '{0}'; expected I/N with I from 1 to N, as in 2/4")]
    Shard(String),
    /// A run of it has a task or constraints that are not known.
    #[error("{0}")]
    Task(String),
}

/// The constraints in force where none are named, until their task is known.
pub const USUAL: &str = "usual";

/// What a grid must know of tasks.
pub trait Tasks {
    /// Writes the names of a run's task and constraints as its environments will; [`USUAL`] for constraints are
    /// the task's own.
    fn resolve(&self, config: &mut Config) -> Result<(), String>;
}

/// Every `n`-th of some runs, from the `i`-th on, written `i/n`: for `n` machines.
pub fn shard<T>(jobs: Vec<T>, text: &str) -> Result<Vec<T>, GridError> {
    let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match parts.filter(|(i, n): &(usize, usize)| (1..=*n).contains(i)) {
        Some((i, n)) => Ok(jobs.into_iter().skip(i - 1).step_by(n).collect()),
        None => Err(GridError::Shard(text.into())),
    }
}

impl Grid {
    /// Reads a grid from a TOML file's text.
    pub fn parse(text: &str) -> Result<Self, GridError> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start].lines().count().max(1));
            let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            GridError::Toml(format!("{line}{}", error.message().replace('\n', " ")))
        })
    }

    /// All runs, the first seed's first.
    pub fn jobs(&self, tasks: &dyn Tasks) -> Result<Vec<Job>, GridError> {
        if let Seeds::Count(count) = self.seeds
            && count > MOST_SEEDS
        {
            return Err(GridError::Seeds(count));
        }
        let seeds: Vec<u64> = match &self.seeds {
            Seeds::Count(count) => (0..*count).collect(),
            Seeds::List(seeds) => seeds.clone(),
        };
        for (name, empty) in [
            ("tasks", self.tasks.is_empty()),
            ("algorithms", self.algorithms.is_empty()),
            ("seeds", seeds.is_empty()),
        ] {
            if empty {
                return Err(GridError::Empty(name));
            }
        }
        let (mut jobs, mut named) = (Vec::<Job>::new(), HashMap::<String, usize>::new());
        let mut applied = vec![false; self.set.len()];
        for &seed in &seeds {
            for task in &self.tasks {
                for variant in &self.algorithms {
                    let job = self.job(task, variant, seed, tasks, &mut applied)?;
                    match named.get(&job.name).map(|&at| &jobs[at]) {
                        None => {
                            named.insert(job.name.clone(), jobs.len());
                            jobs.push(job);
                        }
                        Some(other) if other.config == job.config => {}
                        Some(other) => {
                            let differences = job.config.differences(&other.config).join("; ");
                            return Err(GridError::Twice { name: job.name, differences });
                        }
                    }
                }
            }
        }
        match self.set.iter().zip(applied).find(|(_, applied)| !applied) {
            Some((text, _)) => Err(GridError::Set(text.clone())),
            None => Ok(jobs),
        }
    }

    /// How the runs of a variant are labelled.
    pub fn label(&self, variant: &Variant) -> Result<String, GridError> {
        let named = |error| GridError::Config { run: variant.to_string(), error };
        let mut applied = vec![false; self.set.len()];
        let config = self.config("", variant, 0, &mut applied).map_err(named)?;
        Ok(config.label())
    }

    /// The configuration of a run, with as many of the values for all as it has a use for; notes
    /// which those are.
    fn config(
        &self,
        task: &str,
        variant: &Variant,
        seed: u64,
        applied: &mut [bool],
    ) -> Result<Config, ConfigError> {
        let mut layers = Layers::default();
        layers.set("task", task);
        layers.set("constraints", vec![USUAL.to_owned()]);
        layers.set("algorithm", variant.algorithm.as_str());
        layers.set("seed", seed as i64);
        if let Some(steps) = self.steps {
            layers.set("steps", steps);
        }
        if let Some(constraints) = &self.constraints {
            layers.set("constraints", constraints.clone());
        }
        let mut used: Vec<usize> = (0..self.set.len()).collect();
        loop {
            let mut all = layers.clone();
            let set = used.iter().map(|&i| &self.set[i]).chain(&variant.set);
            set.into_iter().try_for_each(|text| all.assign(text))?;
            let built = all.build();
            let unused = match &built {
                Err(ConfigError::DoesNotApply { key, .. }) => Some(key.as_str()),
                Err(ConfigError::UnknownPreset { .. }) => Some("preset"),
                _ => None,
            };
            let key = |i: usize| self.set[i].split('=').next().unwrap_or_default().trim();
            // Without what it has no use for, once more.
            match used.iter().position(|&i| Some(key(i)) == unused) {
                Some(at) => _ = used.remove(at),
                None => {
                    used.iter().for_each(|&i| applied[i] = true);
                    return built;
                }
            }
        }
    }

    fn job(
        &self,
        task: &str,
        variant: &Variant,
        seed: u64,
        tasks: &dyn Tasks,
        applied: &mut [bool],
    ) -> Result<Job, GridError> {
        let name =
            |task: &str| format!("{task}-{}-{seed}", variant.to_string().replace([' ', '/'], "_"));
        let mut config = self
            .config(task, variant, seed, applied)
            .map_err(|error| GridError::Config { run: name(task), error })?;
        tasks.resolve(&mut config).map_err(GridError::Task)?;
        let Config { task: called, algorithm, steps, seed, constraints, .. } = &config;
        // A file is given as it was.
        let task = if config.environment.is_empty() { called } else { task };
        let mut arguments: Vec<String> =
            ["train", task, "--algo", algorithm].map(str::to_owned).to_vec();
        arguments.extend(["--steps".into(), steps.to_string()]);
        arguments.extend(["--seed".into(), seed.to_string()]);
        match &constraints[..] {
            [] => arguments.extend(["--constraint".into(), "none".into()]),
            all => arguments.extend(all.iter().flat_map(|c| ["--constraint".into(), c.clone()])),
        }
        let changes = config.changes();
        arguments.extend(changes.into_iter().flat_map(|text| ["--set".into(), text]));
        let name = name(called);
        Ok(Job { name, config, arguments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Any;

    impl Tasks for Any {
        fn resolve(&self, config: &mut Config) -> Result<(), String> {
            if config.constraints == [USUAL] {
                config.constraints = vec!["mean(torque)<=0.4".into()];
            }
            Ok(())
        }
    }

    fn jobs(grid: &Grid) -> Result<Vec<Job>, GridError> {
        grid.jobs(&Any)
    }

    #[test]
    fn a_file_becomes_runs() {
        let grid = Grid::parse(
            r#"
            tasks = ["hopper", "ant"]
            algorithms = ["ecrl", "erl-shaped lambda=0.1", "ecrl pf=0.2"]
            seeds = [3, 7]
            steps = 1e5
            set = ["batch=64"]
            "#,
        )
        .unwrap();
        let jobs = jobs(&grid).unwrap();
        assert_eq!(jobs.len(), 2 * 3 * 2);
        let job = &jobs[4];
        assert_eq!(job.name, "ant-erl-shaped_lambda=0.1-3");
        assert_eq!((job.config.steps, job.config.seed), (100_000, 3));
        assert_eq!(job.config.changes(), ["batch=64", "lambda=0.1"]);
        assert_eq!(job.config.constraints, ["mean(torque)<=0.4"]);
        let expected = "train ant --algo erl-shaped --steps 100000 --seed 3 --constraint \
            mean(torque)<=0.4 --set batch=64 --set lambda=0.1";
        assert_eq!(job.arguments.join(" "), expected);
    }

    #[test]
    fn values_for_all_runs_reach_those_that_have_a_use_for_them() {
        let text = |set: &str| {
            format!("tasks = ['a']\nalgorithms = ['erl', 'ipo']\nseeds = 1\nset = ['{set}']")
        };
        let both = jobs(&Grid::parse(&text("batch=32")).unwrap()).unwrap();
        assert!(both.iter().all(|job| job.config.changes() == ["batch=32"]));
        let one = jobs(&Grid::parse(&text("clip=0.1")).unwrap()).unwrap();
        let changes: Vec<Vec<String>> = one.iter().map(|job| job.config.changes()).collect();
        assert_eq!(changes, [vec![], vec!["clip=0.1".to_owned()]]);
        // In whichever order, and whoever brings what it takes.
        let text_of = |algorithms: &str, set: &str| {
            format!("tasks = ['a']\nalgorithms = {algorithms}\nseeds = 1\nset = {set}")
        };
        let changes = |algorithms: &str, set: &str| -> Vec<Vec<String>> {
            let grid = Grid::parse(&text_of(algorithms, set)).unwrap();
            jobs(&grid).unwrap().iter().map(|job| job.config.changes()).collect()
        };
        let found = changes("['erl', 'ipo']", "['pf=0.3', 'ranking=stochastic']");
        assert_eq!(found, [vec!["ranking=\"stochastic\"", "pf=0.3", "early_stop=true"], vec![]]);
        let found = changes("['ecrl', 'ecrl ranking=reward']", "['pf=0.3']");
        assert_eq!(found, [vec!["pf=0.3"], vec!["ranking=\"reward\""]]);
        assert_eq!(changes("['ecrl', 'ipo']", "['preset=quick']")[1], Vec::<String>::new());
        let none = jobs(&Grid::parse(&text("lambda=0.1")).unwrap()).unwrap_err();
        assert_eq!(none.to_string(), "set: 'lambda=0.1' applies to none of the algorithms");
        let slip = jobs(&Grid::parse(&text("bacth=1")).unwrap()).unwrap_err().to_string();
        assert!(slip.contains("unknown key 'bacth'"), "{slip}");
    }

    #[test]
    fn a_variant_may_have_a_seed_and_constraints_of_its_own() {
        let text = "tasks = ['a']\nalgorithms = ['ppo seed=5', 'ppo constraints=[\"mean(x)<=1\"]']\n\
                    seeds = 1";
        let jobs = jobs(&Grid::parse(text).unwrap()).unwrap();
        assert!(jobs[0].arguments.join(" ").contains("--seed 5 --constraint mean(torque)<=0.4"));
        assert!(jobs[1].arguments.join(" ").contains("--seed 0 --constraint mean(x)<=1"));
    }

    #[test]
    fn bad_grids_are_refused_by_name() {
        let error = |text: &str| {
            let jobs = Grid::parse(text).and_then(|grid| jobs(&grid));
            jobs.unwrap_err().to_string()
        };
        let all = "tasks = ['hopper']\nalgorithms = ['ecrl']\n";
        assert_eq!(error(&format!("{all}seeds = 0")), "seeds: expected at least one");
        let many = "seeds is 9000000000000000000; expected 1 to 10000, or a list";
        assert_eq!(error(&format!("{all}seeds = 9000000000000000000")), many);
        assert!(error(&format!("{all}seeds = 1\nfoo = 1")).contains("unknown field `foo`"));
        let text = "tasks = ['hopper']\nalgorithms = ['ecrl alfa=1']\nseeds = 1";
        assert!(error(text).starts_with("hopper-ecrl_alfa=1-0: "), "{}", error(text));
        assert!(error("tasks = [1]").starts_with("line 1: "), "{}", error("tasks = [1]"));
    }
}
