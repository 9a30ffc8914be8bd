//! Evolution strategies on a robot: how busy threads are, and what a generation takes beside its episodes.

use std::sync::Arc;
use std::time::Instant;

use cmdp::Env;
use ecrl::config::Layers;
use ecrl::population::es::{Es, utilities};
use ecrl::trainer::{TrainError, Trainer};
use nets::{Activation, Mlp};
use robots::{AnyTask, RobotError};
use serde::Serialize;

/// What was measured; figures are medians over rounds, each of which plays and learns from a generation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EsReport {
    /// The robot.
    pub task: String,
    /// Threads in use.
    pub threads: usize,
    /// Episodes of a generation.
    pub episodes: usize,
    /// Environment steps a second.
    pub steps_per_s: f64,
    /// Processor time over the time that as many threads had.
    pub busy: f64,
    /// What drawing perturbations and taking the step took, over the whole.
    pub strategy: f64,
}

/// Measures `es` with its usual values.
pub fn es(task: &AnyTask, threads: usize, rounds: usize) -> Result<EsReport, TrainError> {
    let mut layers = Layers::default();
    layers.set("algorithm", "es");
    let mut config = layers.build()?;
    config.steps = ecrl::config::MOST_STEPS;
    config.test.every = config.steps / 2;
    let make =
        || -> Result<Box<dyn Env>, RobotError> { Ok(task.robot(task.default_constraints())?) };
    let mut trainer = Trainer::new(config, threads, make)?;
    trainer.generation(&mut |_| true)?; // caches, and the one test
    let sizes = [trainer.spec().observation, 64, 64, trainer.spec().action];
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?);
    let mut strategy = Es::new(Mlp::zeros(&sizes, Activation::Tanh), 0.01);
    let mut measured = Vec::new();
    let mut episodes = 0;
    for round in 0..rounds as u64 {
        let before = (trainer.env_steps(), processor_time(), Instant::now());
        trainer.generation(&mut |_| true)?;
        let seconds = before.2.elapsed().as_secs_f64();
        let busy = (processor_time() - before.1) / (seconds * threads as f64);
        let steps = (trainer.env_steps() - before.0) as f64;
        let perturbed = trainer.census().map_or(0, |census| census.individuals.len());
        episodes = perturbed + 1;
        let alone = Instant::now();
        pool.install(|| {
            let key = |pair| [0, 0, round, pair];
            let asked = strategy.ask(perturbed as u64 / 2, 0.05, key);
            let ranked: Vec<usize> = (0..asked.len()).collect();
            strategy.tell(&utilities(&ranked), 0.005, key);
        });
        measured.push([steps / seconds, busy, alone.elapsed().as_secs_f64() / seconds]);
    }
    let [steps_per_s, busy, strategy] =
        std::array::from_fn(|i| cmdp::median(measured.iter().map(|round| round[i])));
    let task = task.name().to_owned();
    Ok(EsReport { task, threads, episodes, steps_per_s, busy, strategy })
}

/// Seconds of processor time that this process has had, on all its threads.
fn processor_time() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program may hold spaces; after it, user and system time are the 12th and 13th.
    let after = stat.rsplit(") ").next().unwrap_or_default();
    let ticks = after.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS_PER_SECOND
}
