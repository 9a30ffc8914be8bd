//! `--workers`: episodes are played elsewhere, by actors of a Ray cluster.

use std::ffi::OsString;
use std::sync::Arc;

use cmdp::Env;
use ecrl::collect::stage::{MakeStage, Stage, Threads};
use ecrl::config::Config;
use ecrl::trainer::BoxError;
use rayon::ThreadPool;
use robots::AnyTask;
use robots::own::OwnTask;
use runs::players;
use serde::{Deserialize, Serialize};

use crate::environment::{self, robot};
use crate::failure::Failure;

/// Where the players are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workers {
    /// The cluster's address, as Ray takes it; empty for the one found here, or one begun for it.
    address: String,
}

impl std::str::FromStr for Workers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ray" => Ok(Self { address: String::new() }),
            address if address.starts_with("ray://") => Ok(Self { address: address.into() }),
            _ => Err("expected ray or ray://HOST:PORT".into()),
        }
    }
}

/// Plays a task here, on the threads of the training, or elsewhere.
pub struct Stages {
    /// The task.
    pub task: AnyTask,
    /// Where, if not here.
    pub workers: Option<Workers>,
    /// How many players, if not one for every processor there.
    pub players: Option<usize>,
    /// How another process does what this one does.
    pub program: Vec<OsString>,
}

impl MakeStage for Stages {
    fn stage(
        &mut self,
        config: &Config,
        pool: &Arc<ThreadPool>,
        running: usize,
    ) -> Result<Box<dyn Stage>, BoxError> {
        let Some(workers) = &self.workers else {
            return environment::make(self.task.clone()).stage(config, pool, running);
        };
        let spec = robot(&self.task, &config.constraints)?.spec().clone();
        let (task, constraints) = (self.task.name().to_owned(), config.constraints.clone());
        let copy = environment::copy(&self.task, "").map(|copy| (copy.text, copy.model));
        let payload = |numbers| {
            let (text, model) = copy.clone().unzip();
            let (task, constraints) = (task.clone(), constraints.clone());
            let head = serde_json::to_vec(&Head { task, constraints, text, numbers });
            let mut bytes = head.expect("plain data");
            bytes.push(b'\n');
            bytes.extend(model.unwrap_or_default());
            bytes
        };
        let started =
            players::start(&workers.address, &self.program, self.players, spec, running, payload);
        let stage = started.map_err(|error| Failure::run(format!("--workers: {error}")))?;
        Ok(Box::new(stage))
    }
}

/// What a player is made of, on one line; after it comes the model of a user's own task.
#[derive(Serialize, Deserialize)]
struct Head {
    task: String,
    constraints: Vec<String>,
    /// The text of a user's own task.
    text: Option<String>,
    /// The numbers of its running environments.
    numbers: Vec<u64>,
}

/// The stage of a player, from what it is made of.
pub fn player(made_of: &[u8]) -> Result<Box<dyn Stage>, String> {
    let end = made_of.iter().position(|byte| *byte == b'\n').ok_or("it is none of ours")?;
    let head = serde_json::from_slice(&made_of[..end]).map_err(|error| error.to_string())?;
    let Head { task, constraints, text, numbers } = head;
    let task = match text {
        Some(text) => {
            let own = OwnTask::of_copy(&task, &task, text, &made_of[end + 1..]);
            AnyTask::Own(own.map_err(|error| error.to_string())?)
        }
        None => AnyTask::find(&task).map_err(|error| error.to_string())?,
    };
    let env = || -> Result<Box<dyn Env>, String> {
        Ok(robot(&task, &constraints).map_err(|failure| failure.message)?)
    };
    let running: Vec<_> =
        numbers.into_iter().map(|number| Ok((env()?, number))).collect::<Result<_, String>>()?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let pool = pool.map_err(|error| error.to_string())?;
    Ok(Box::new(Threads::numbered(vec![env()?], running, Arc::new(pool))))
}
