//! Who makes the runs of an experiment: processes of this machine, or the engine of many.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ExperimentError;
use super::call::Call;
use super::local::Local;
use super::ray::Ray;
use super::slurm::Slurm;

/// What a launcher says of a run that it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says {
    /// It will be started, or again; and why it is not yet.
    Waiting(String),
    /// It is under way, on this machine.
    Running(String),
    /// Nobody is at it any more, for this reason if that is a fault.
    Ended(Option<String>),
}

/// Makes the runs of a call. However it does, it has each of them made by the same command, [`Call::command`], which
/// trains it, goes on with it or finds it done: so whatever is started twice, or again, does no harm.
pub trait Launcher {
    /// How many more runs it takes now.
    fn room(&self, call: &Call) -> usize {
        let _ = call;
        usize::MAX
    }

    /// Takes runs of the call, by their places in its grid and their names, to be made as soon as may be.
    fn start(&mut self, call: &Call, runs: &[(usize, &str)]) -> Result<(), ExperimentError>;

    /// What is known of runs that it was given, by this process or an earlier one. An end may be told once, or
    /// as long as the engine remembers it.
    fn look(&mut self, call: &Call) -> Result<HashMap<usize, Says>, ExperimentError>;

    /// Asks all runs under way to store what they have and end, and starts no others.
    fn stop(&mut self, call: &Call) -> Result<(), ExperimentError>;

    /// How long to wait before looking again.
    fn pause(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// The launchers there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Engine {
    /// Processes of this machine.
    Local,
    /// The cluster's queue.
    Slurm,
    /// Ray, at an address as Ray takes it; without one, the one found there, or one begun for it.
    Ray(String),
}

impl Engine {
    /// Its launcher; `program` is the `ecrl` command that makes runs, with arguments that come before all others.
    pub fn launcher(&self, program: Vec<OsString>) -> Box<dyn Launcher> {
        match self {
            Self::Local => Box::new(Local::new(program)),
            Self::Slurm => Box::new(Slurm::new(program)),
            Self::Ray(address) => Box::new(Ray::new(address.clone(), program)),
        }
    }

    /// Whether runs end when whoever asked for them does.
    pub fn waits(&self) -> bool {
        *self != Self::Slurm
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "local" => Ok(Self::Local),
            "slurm" => Ok(Self::Slurm),
            "ray" => Ok(Self::Ray(String::new())),
            address if address.starts_with("ray://") => Ok(Self::Ray(address.into())),
            _ => Err("expected local, slurm, ray or ray://HOST:PORT".into()),
        }
    }
}

impl TryFrom<String> for Engine {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Engine> for String {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Local => "local".into(),
            Engine::Slurm => "slurm".into(),
            Engine::Ray(address) if address.is_empty() => "ray".into(),
            Engine::Ray(address) => address,
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "this machine",
            Self::Slurm => "Slurm",
            Self::Ray(_) => "Ray",
        })
    }
}
