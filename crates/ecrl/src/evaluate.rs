//! A policy's worth, with its mean action or with sampled ones.

use cmdp::{Constraint, Env};
use nets::Mlp;
use serde::Serialize;

use std::sync::Arc;

use crate::collect::episodes::{Choice, Rollout, Ticket};
use crate::collect::stage::{Stage, Threads};
use crate::context::Stream;
use crate::trainer::TrainError;

/// What the episodes of an evaluation brought.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// Episodes played.
    pub episodes: usize,
    /// The mean return.
    pub reward_mean: f64,
    /// Its standard deviation over episodes.
    pub reward_sd: f64,
    /// The mean length in steps.
    pub steps_mean: f64,
    /// Every constraint in turn.
    pub constraints: Vec<ConstraintEvaluation>,
    /// Whether the mean J_C keeps every constraint.
    pub feasible: bool,
    /// The share of episodes that kept every constraint.
    pub feasible_share: f64,
    /// Every episode.
    pub each: Vec<EpisodeEvaluation>,
}

/// One episode of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpisodeEvaluation {
    /// The state it started in, as [`Env::capture`] gives it.
    pub start: Option<Vec<f64>>,
    /// Its return.
    pub reward: f64,
    /// Its length.
    pub steps: usize,
    /// J_C of every constraint.
    pub constraints: Vec<f64>,
}

/// How one constraint was kept.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConstraintEvaluation {
    /// The constraint, as text.
    pub constraint: String,
    /// The mean J_C.
    pub mean: f64,
    /// Its standard deviation over episodes.
    pub sd: f64,
    /// The threshold ε.
    pub threshold: f64,
}

/// The key of all randomness of an evaluation's episode.
pub fn key(seed: u64, episode: u64) -> [u64; 4] {
    [seed, Stream::Evaluation as u64, 0, episode]
}

/// Plays `episodes` episodes in the given environments, one for each thread.
pub fn evaluate(
    actor: &Mlp,
    mut envs: Vec<Box<dyn Env>>,
    episodes: usize,
    seed: u64,
    choice: Choice,
) -> Result<Evaluation, TrainError> {
    let tickets = tickets(actor, episodes, seed);
    let mut start = |ticket: &Ticket| {
        let env = &mut envs[0];
        let mut obs = vec![0.0; env.spec().observation];
        env.reset(&mut cmdp::rng(ticket.key), &mut obs);
        env.capture()
    };
    let starts: Vec<Option<Vec<f64>>> = tickets.iter().map(&mut start).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(envs.len()).build()?;
    let mut threads = Threads::new(envs, Vec::new(), Arc::new(pool));
    let played = threads.play(&tickets, choice);
    summary(&played, starts, &threads.spec().constraints)
}

/// The same, wherever it is played; the starts are not known then.
pub fn evaluate_on(
    actor: &Mlp,
    stage: &mut dyn Stage,
    episodes: usize,
    seed: u64,
    choice: Choice,
) -> Result<Evaluation, TrainError> {
    let played = stage.play(&tickets(actor, episodes, seed), choice);
    summary(&played, vec![None; episodes], &stage.spec().constraints)
}

fn tickets(actor: &Mlp, episodes: usize, seed: u64) -> Vec<Ticket<'_>> {
    (0..episodes as u64).map(|i| Ticket { actor, key: key(seed, i) }).collect()
}

fn summary(
    played: &[Rollout],
    starts: Vec<Option<Vec<f64>>>,
    constraints: &[Constraint],
) -> Result<Evaluation, TrainError> {
    if let Some(fault) = played.iter().find_map(|rollout| rollout.fault.clone()) {
        return Err(fault.into());
    }
    let episodes = played.len();
    let rewards: Vec<f64> = played.iter().map(|r| r.episode.reward()).collect();
    let steps: Vec<f64> = played.iter().map(|r| r.episode.steps() as f64).collect();
    let evaluated: Vec<ConstraintEvaluation> = constraints
        .iter()
        .enumerate()
        .map(|(i, c)| {
            let values: Vec<f64> =
                played.iter().map(|r| r.episode.constraint_values()[i]).collect();
            let (mean, sd) = mean_sd(&values);
            ConstraintEvaluation { constraint: c.to_string(), mean, sd, threshold: c.threshold }
        })
        .collect();
    let (reward_mean, reward_sd) = mean_sd(&rewards);
    let kept = played.iter().filter(|r| r.episode.is_feasible()).count();
    Ok(Evaluation {
        episodes,
        reward_mean,
        reward_sd,
        steps_mean: mean_sd(&steps).0,
        feasible: evaluated.iter().all(|c| c.mean <= c.threshold),
        constraints: evaluated,
        feasible_share: kept as f64 / episodes as f64,
        each: starts
            .into_iter()
            .zip(played)
            .map(|(start, rollout)| EpisodeEvaluation {
                start,
                reward: rollout.episode.reward(),
                steps: rollout.episode.steps(),
                constraints: rollout.episode.constraint_values(),
            })
            .collect(),
    })
}

/// The mean and the sample standard deviation, which is 0 of a single number.
fn mean_sd(numbers: &[f64]) -> (f64, f64) {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    let squares: f64 = numbers.iter().map(|x| (x - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0).max(1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_by_hand() {
        assert_eq!(mean_sd(&[1.0, 3.0, 5.0]), (3.0, 2.0));
        assert_eq!(mean_sd(&[7.0]), (7.0, 0.0));
    }
}
