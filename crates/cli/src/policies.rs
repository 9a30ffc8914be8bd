//! Which policy a command is about: one of a run's, or a file of its own.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use robots::{AnyTask, Body};
use runs::policy::Policy;
use runs::{directory, read};

use crate::environment;
use crate::failure::Failure;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// The most rewarding that kept every constraint both ways, or else the least violating
    Best,
    /// The learner at the end of training
    Final,
}

/// The policy that a command is about.
#[derive(Args)]
pub struct PolicyArgs {
    /// The run directory, or a policy by itself: a .safetensors file
    run: PathBuf,
    /// Which of the run's policies [default: best]
    #[arg(long, value_enum)]
    policy: Option<Which>,
    /// The task of your own that it acts in, for a policy by itself: its file, or a run of it
    #[arg(long, value_name = "FILE")]
    task: Option<String>,
}

/// A policy and where it acts.
pub struct Chosen {
    /// The file.
    pub path: PathBuf,
    pub policy: Policy,
    pub task: AnyTask,
    pub constraints: Vec<String>,
}

impl Which {
    /// The file within a run.
    fn file(self) -> &'static str {
        match self {
            Self::Best => directory::BEST,
            Self::Final => directory::POLICY,
        }
    }

    /// Where it is, if it is there.
    fn path(self, run: &Path) -> Result<PathBuf, Failure> {
        let path = run.join(self.file());
        if self == Self::Best && !path.exists() && run.join(Self::Final.file()).exists() {
            let text = format!(
                "{}: not there yet: the best is chosen now and then and at the end; --policy final takes \
                 the learner",
                path.display()
            );
            return Err(Failure::input(text));
        }
        Ok(path)
    }
}

/// The best policy of a run, and its robot.
pub fn best_of(run: &Path) -> Result<(Box<dyn Body>, Policy), Failure> {
    let config = read::config(run)?;
    let robot = environment::robot(&environment::of_run(run, &config)?, &config.constraints)?;
    let policy = Policy::load(&run.join(directory::BEST), robot.spec())?;
    Ok((robot, policy))
}

impl PolicyArgs {
    /// The file.
    fn path(&self) -> Result<PathBuf, Failure> {
        let bare =
            self.run.is_file() && self.run.extension().is_some_and(|end| end == "safetensors");
        match (bare, self.policy) {
            (true, Some(_)) => {
                let file = self.run.display();
                let text =
                    format!("--policy: {file} is a policy by itself; expected a run with it");
                Err(Failure::input(text))
            }
            (true, None) => Ok(self.run.clone()),
            (false, which) => {
                read::config(&self.run)?;
                which.unwrap_or(Which::Best).path(&self.run)
            }
        }
    }

    /// Reads it, wherever it acts.
    pub fn open(&self) -> Result<Policy, Failure> {
        Ok(Policy::open(&self.path()?)?)
    }

    /// Reads it and where it acts; under other constraints than those it was trained with where there are
    /// some, or under none where that is "none".
    pub fn choose(&self, other: &[String]) -> Result<Chosen, Failure> {
        let path = self.path()?;
        // A run says what it is; of a policy by itself, only the file does.
        let (task, trained) = match path == self.run {
            true => {
                let Policy { about, .. } = Policy::open(&path)?;
                let task = environment::of_policy(&about, &path, self.task.as_deref())?;
                (task, about.constraints)
            }
            false => {
                if let Some(task) = &self.task {
                    let text = format!("--task {task}: a run keeps its own copy; expected none");
                    return Err(Failure::input(text));
                }
                let config = read::config(&self.run)?;
                (environment::of_run(&self.run, &config)?, config.constraints)
            }
        };
        let constraints = match other {
            [] => trained,
            [none] if none == "none" => Vec::new(),
            _ => other.to_vec(),
        };
        let robot = environment::robot(&task, &constraints)?;
        let policy = Policy::load(&path, robot.spec())?;
        Ok(Chosen { path, policy, task, constraints })
    }
}

impl Chosen {
    /// The robot that it moves.
    pub fn robot(&self) -> Result<Box<dyn Body>, Failure> {
        environment::robot(&self.task, &self.constraints)
    }
}
