//! Experiments: every task with every algorithm and every seed, and the paper's three figures as
//! such grids.

use std::fmt;
use std::str::FromStr;

use ecrl::config::{Config, ConfigError, Layers};
use serde::Deserialize;

/// An algorithm and values of its own, written as `erl-shaped lambda=0.1`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
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

/// A figure of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Reward against constraint: fixed penalties from too small to too large.
    Dilemma,
    /// ECRL beside the state of the art.
    Compare,
    /// ECRL beside its parts.
    Ablation,
}

impl Figure {
    /// All figures.
    pub const ALL: [Self; 3] = [Self::Dilemma, Self::Compare, Self::Ablation];

    /// What it compares.
    pub fn variants(self) -> Vec<Variant> {
        const PENALTIES: [&str; 8] = ["1e-5", "1e-4", "1e-3", "1e-2", "0.1", "1", "10", "100"];
        let texts: Vec<String> = match self {
            Self::Dilemma => {
                let shaped = PENALTIES.iter().map(|lambda| format!("erl-shaped lambda={lambda}"));
                ["erl", "rcpo-erl"].map(str::to_owned).into_iter().chain(shaped).collect()
            }
            Self::Compare => ["ecrl", "rcpo", "ipo", "rcpo-erl", "erl-shaped lambda=1e-3", "erl"]
                .map(str::to_owned)
                .to_vec(),
            Self::Ablation => ["ecrl", "sr", "sr-shaped", "bc"].map(str::to_owned).to_vec(),
        };
        texts.iter().map(|text| text.parse().expect("our own")).collect()
    }
}

/// Seeds: so many from 0 on, or these.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Seeds {
    /// 0, 1, ...
    Count(u64),
    /// These.
    List(Vec<u64>),
}

/// Every task with every variant and every seed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
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
    /// A run of it has a bad configuration.
    #[error("{run}: {error}")]
    Config {
        /// The run.
        run: String,
        /// What is wrong.
        error: ConfigError,
    },
    /// A value for all runs that none has a use for.
    #[error("set: '{0}' applies to none of the algorithms")]
    Set(String),
    /// A run of it has a task or constraints that are not known.
    #[error("{0}")]
    Task(String),
}

/// What a grid must know of tasks.
pub trait Tasks {
    /// The constraints in force where a grid names none.
    fn usual_constraints(&self) -> Vec<String>;

    /// Writes the names of a run's task and constraints as its environments will.
    fn resolve(&self, config: &mut Config) -> Result<(), String>;
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
        let mut jobs: Vec<Job> = Vec::new();
        let mut applied = vec![false; self.set.len()];
        for &seed in &seeds {
            for task in &self.tasks {
                for variant in &self.algorithms {
                    let job = self.job(task, variant, seed, tasks, &mut applied)?;
                    if jobs.iter().all(|other| other.name != job.name) {
                        jobs.push(job);
                    }
                }
            }
        }
        match self.set.iter().zip(applied).find(|(_, applied)| !applied) {
            Some((text, _)) => Err(GridError::Set(text.clone())),
            None => Ok(jobs),
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
        let build = |applied: &mut [bool]| -> Result<Config, ConfigError> {
            let mut layers = Layers::default();
            layers.set("task", task);
            layers.set("constraints", tasks.usual_constraints());
            layers.set("algorithm", variant.algorithm.as_str());
            layers.set("seed", seed as i64);
            if let Some(steps) = self.steps {
                layers.set("steps", steps);
            }
            if let Some(constraints) = &self.constraints {
                layers.set("constraints", constraints.clone());
            }
            for (text, applied) in self.set.iter().zip(applied) {
                if applies(&layers, text, variant)? {
                    layers.assign(text)?;
                    *applied = true;
                }
            }
            variant.set.iter().try_for_each(|text| layers.assign(text))?;
            layers.build()
        };
        let mut config =
            build(applied).map_err(|error| GridError::Config { run: name(task), error })?;
        tasks.resolve(&mut config).map_err(GridError::Task)?;
        let (task, name) = (&config.task, name(&config.task));
        let mut arguments: Vec<String> =
            ["train", task, "--algo", &variant.algorithm].map(str::to_owned).to_vec();
        arguments.extend(["--steps".into(), config.steps.to_string()]);
        arguments.extend(["--seed".into(), seed.to_string()]);
        match self.constraints.as_deref() {
            None => {}
            Some([]) => arguments.extend(["--constraint".into(), "none".into()]),
            Some(all) => {
                arguments.extend(all.iter().flat_map(|c| ["--constraint".into(), c.clone()]));
            }
        }
        let changes = config.changes();
        arguments.extend(changes.into_iter().flat_map(|text| ["--set".into(), text]));
        Ok(Job { name, config, arguments })
    }
}

/// Whether a value for all runs is one that this run has a use for.
fn applies(layers: &Layers, text: &str, variant: &Variant) -> Result<bool, ConfigError> {
    let mut trial = layers.clone();
    trial.assign(text)?;
    variant.set.iter().try_for_each(|text| trial.assign(text))?;
    let key = text.split('=').next().unwrap_or_default().trim();
    Ok(!matches!(trial.build(), Err(ConfigError::DoesNotApply { key: other, .. }) if other == key))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Any;

    impl Tasks for Any {
        fn usual_constraints(&self) -> Vec<String> {
            vec!["mean(torque)<=0.4".into()]
        }

        fn resolve(&self, _: &mut Config) -> Result<(), String> {
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
        let expected = "train ant --algo erl-shaped --steps 100000 --seed 3 --set batch=64 \
            --set lambda=0.1";
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
        let none = jobs(&Grid::parse(&text("lambda=0.1")).unwrap()).unwrap_err();
        assert_eq!(none.to_string(), "set: 'lambda=0.1' applies to none of the algorithms");
        let slip = jobs(&Grid::parse(&text("bacth=1")).unwrap()).unwrap_err().to_string();
        assert!(slip.contains("unknown key 'bacth'"), "{slip}");
    }

    #[test]
    fn the_papers_figures() {
        let counts = Figure::ALL.map(|figure| figure.variants().len());
        assert_eq!(counts, [10, 6, 4]);
        // What two figures share is run once.
        let algorithms: Vec<Variant> = Figure::ALL.iter().flat_map(|f| f.variants()).collect();
        let (tasks, seeds) = (vec!["hopper".into()], Seeds::Count(2));
        let grid = Grid { tasks, algorithms, seeds, steps: None, constraints: None, set: vec![] };
        // 20 in all, less ecrl, erl, rcpo-erl and erl-shaped lambda=1e-3, which come twice.
        assert_eq!(jobs(&grid).unwrap().len(), 2 * 16);
    }

    #[test]
    fn bad_grids_are_refused_by_name() {
        let error = |text: &str| {
            let jobs = Grid::parse(text).and_then(|grid| jobs(&grid));
            jobs.unwrap_err().to_string()
        };
        let all = "tasks = ['hopper']\nalgorithms = ['ecrl']\n";
        assert_eq!(error(&format!("{all}seeds = 0")), "seeds: expected at least one");
        assert!(error(&format!("{all}seeds = 1\nfoo = 1")).contains("unknown field `foo`"));
        let text = "tasks = ['hopper']\nalgorithms = ['ecrl alfa=1']\nseeds = 1";
        assert!(error(text).starts_with("hopper-ecrl_alfa=1-0: "), "{}", error(text));
        assert!(error("tasks = [1]").starts_with("line 1: "), "{}", error("tasks = [1]"));
    }
}
