//! PPO on hopper: a batch played and learnt from, beside the robot alone.

use std::time::{Duration, Instant};

use cmdp::Env;
use ecrl::config::Layers;
use ecrl::trainer::{TrainError, Trainer};
use robots::{AnyTask, RobotError};
use serde::Serialize;

use crate::tasks::Bench;

/// What was measured of PPO; figures are medians over rounds, each of which plays a batch and learns
/// from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PpoReport {
    /// Units of the hidden layers.
    pub hidden: [usize; 2],
    /// Threads in use.
    pub threads: usize,
    /// Environment steps a second while playing.
    pub collect_steps_per_s: f64,
    /// The same over what the robot alone makes on as many threads, in the same round.
    pub collect_of_task: f64,
    /// Milliseconds of one update on a minibatch.
    pub ms_per_minibatch: f64,
    /// Environment steps a second, played and learnt from.
    pub steps_per_s: f64,
}

/// Measures PPO on hopper with small networks (`--preset fast`) and with its usual ones.
pub fn ppo(threads: usize, rounds: usize) -> Result<Vec<PpoReport>, TrainError> {
    [[64, 64], [256, 256]].into_iter().map(|hidden| of(hidden, threads, rounds)).collect()
}

fn of(hidden: [usize; 2], threads: usize, rounds: usize) -> Result<PpoReport, TrainError> {
    let mut layers = Layers::default();
    layers.set("algorithm", "ppo");
    layers.preset("fast");
    layers.toml(&format!("[ppo]\nhidden = {hidden:?}\n"))?;
    let mut config = layers.build()?;
    config.steps = ecrl::config::MOST_STEPS;
    config.test.every = config.steps / 2;
    let task = AnyTask::find("hopper").expect("a task");
    let make =
        || -> Result<Box<dyn Env>, RobotError> { Ok(task.robot(task.default_constraints())?) };
    let alone = Bench { threads, duration: Duration::from_millis(50), rounds: 1 };
    let mut trainer = Trainer::new(config, threads, make)?;
    trainer.generation(&mut |_| true)?; // caches, and the one test
    let mut measured = Vec::new();
    for _ in 0..rounds {
        let robot = alone.run(&task).map_err(|error| TrainError::Env(Box::new(error)))?;
        let start = Instant::now();
        let before = (trainer.env_steps(), trainer.grad_steps(), trainer.times().updates);
        trainer.generation(&mut |_| true)?;
        let seconds = start.elapsed().as_secs_f64();
        let steps = (trainer.env_steps() - before.0) as f64;
        let updates = trainer.times().updates - before.2;
        let minibatches = (trainer.grad_steps() - before.1) as f64;
        let playing = steps / (seconds - updates);
        let per_minibatch = 1e3 * updates / minibatches;
        measured.push([playing, playing / robot.all_threads, per_minibatch, steps / seconds]);
    }
    let [collect_steps_per_s, collect_of_task, ms_per_minibatch, steps_per_s] =
        std::array::from_fn(|i| cmdp::median(measured.iter().map(|round| round[i])));
    Ok(PpoReport {
        hidden,
        threads,
        collect_steps_per_s,
        collect_of_task,
        ms_per_minibatch,
        steps_per_s,
    })
}
