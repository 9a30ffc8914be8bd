//! PPO on hopper: a batch played and learnt from.

use std::time::Instant;

use cmdp::Env;
use ecrl::config::Config;
use ecrl::trainer::{TrainError, Trainer};
use robots::{Robot, RobotError, Task};
use serde::Serialize;

/// What was measured of PPO; figures are medians over rounds, each of which plays a batch and learns
/// from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PpoReport {
    /// Threads in use.
    pub threads: usize,
    /// Environment steps a second while playing.
    pub collect_steps_per_s: f64,
    /// Milliseconds of one update on a minibatch.
    pub ms_per_minibatch: f64,
    /// Environment steps a second, played and learnt from.
    pub steps_per_s: f64,
}

/// Measures PPO with its usual values on hopper.
pub fn ppo(threads: usize, rounds: usize) -> Result<PpoReport, TrainError> {
    let mut config = Config { steps: ecrl::config::MOST_STEPS, ..Config::new("ppo")? };
    config.test.every = config.steps / 2;
    let task = Task::find("hopper").expect("a task");
    let make = || -> Result<Box<dyn Env>, RobotError> {
        Ok(Box::new(Robot::new(task, Task::default_constraints())?))
    };
    let mut trainer = Trainer::new(config, threads, make)?;
    trainer.generation(&mut |_| true)?; // caches, and the one test
    let mut measured = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        let before = (trainer.env_steps(), trainer.grad_steps(), trainer.times().updates);
        trainer.generation(&mut |_| true)?;
        let seconds = start.elapsed().as_secs_f64();
        let steps = (trainer.env_steps() - before.0) as f64;
        let updates = trainer.times().updates - before.2;
        let minibatches = (trainer.grad_steps() - before.1) as f64;
        measured.push([steps / (seconds - updates), 1e3 * updates / minibatches, steps / seconds]);
    }
    let [collect_steps_per_s, ms_per_minibatch, steps_per_s] =
        std::array::from_fn(|i| cmdp::median(measured.iter().map(|round| round[i])));
    Ok(PpoReport { threads, collect_steps_per_s, ms_per_minibatch, steps_per_s })
}
