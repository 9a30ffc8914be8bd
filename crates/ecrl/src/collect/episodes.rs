//! Whole episodes.

use std::time::{Duration, Instant};

use cmdp::{Constraint, Env, EnvSpec, Episode, Fault, Rng, Step};
use nets::Mlp;
use serde::{Deserialize, Serialize};

use super::head::Head;
use super::remote::floats;
use super::segments::fault;
use crate::memory::replay::{Replay, Transition};

/// How an actor chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Choice {
    /// Draws from its distribution.
    Sample,
    /// Takes the mean action, or the most likely one.
    Mean,
}

/// One episode to be played.
#[derive(Debug, Clone, Copy)]
pub struct Ticket<'a> {
    /// Who plays.
    pub actor: &'a Mlp,
    /// The key of all its randomness.
    pub key: [u64; 4],
}

/// One episode as it was played.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    /// Its return and constraint values.
    pub episode: Episode,
    /// Whether the simulation broke down.
    pub unstable: bool,
    /// What ended it where it cannot be learnt from.
    pub fault: Option<Fault>,
    /// How long the environment took, and the whole episode.
    pub times: [Duration; 2],
    terminated: bool,
    /// One more row than there are steps.
    #[serde(with = "floats")]
    pub(super) obs: Vec<f32>,
    #[serde(with = "floats")]
    actions: Vec<f32>,
    #[serde(with = "floats")]
    rewards: Vec<f32>,
    #[serde(with = "floats")]
    costs: Vec<f32>,
}

impl Rollout {
    /// Of every step, row after row: the reward, then each cost.
    pub fn signals(&self) -> Vec<f32> {
        let cost = self.costs.len() / self.rewards.len().max(1);
        let rows = self.rewards.iter().enumerate();
        rows.flat_map(|(t, reward)| {
            [*reward].into_iter().chain(row(&self.costs, t, cost).iter().copied())
        })
        .collect()
    }

    /// Every observation that was acted on, row after row.
    pub fn observations(&self) -> &[f32] {
        let width = self.obs.len() / (self.rewards.len() + 1);
        &self.obs[..self.obs.len() - width]
    }

    /// Stores every transition with the multipliers in force; the last as a terminated one if it was,
    /// or whatever ended it if `always_terminates`. Returns how many were stored.
    pub fn remember(
        &self,
        replay: &mut Replay,
        multipliers: &[f64],
        always_terminates: bool,
    ) -> usize {
        let mut stored = 0;
        let steps = self.rewards.len();
        let lambda: Vec<f32> = multipliers.iter().map(|&x| x as f32).collect();
        let obs = self.obs.len() / (steps + 1);
        let (action, cost) = (self.actions.len() / steps, self.costs.len() / steps);
        for t in 0..steps {
            // A policy that has broken down must not poison the critics.
            if row(&self.actions, t, action).iter().any(|a| !a.is_finite()) {
                continue;
            }
            stored += 1;
            replay.push(Transition {
                obs: row(&self.obs, t, obs),
                action: row(&self.actions, t, action),
                reward: self.rewards[t],
                costs: row(&self.costs, t, cost),
                multipliers: &lambda,
                next_obs: row(&self.obs, t + 1, obs),
                terminated: (self.terminated || always_terminates) && t + 1 == steps,
            });
        }
        stored
    }
}

/// J_C of every episode.
pub fn constraint_values<'a>(played: impl IntoIterator<Item = &'a Rollout>) -> Vec<Vec<f64>> {
    played.into_iter().map(|rollout| rollout.episode.constraint_values()).collect()
}

/// The mean, which is not a number of none.
pub fn mean(numbers: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = numbers.len() as f64;
    numbers.sum::<f64>() / count
}

/// The mean over episodes of each constraint's value.
pub fn mean_costs(episodes: &[Vec<f64>], constraints: usize) -> Vec<f64> {
    (0..constraints).map(|i| mean(episodes.iter().map(|values| values[i]))).collect()
}

/// For each constraint, how far outside of it some episodes were: the sum of max(0, J_C - ε) times
/// their steps.
pub fn excess<'a>(
    episodes: impl IntoIterator<Item = &'a Episode>,
    constraints: &[Constraint],
) -> Vec<f64> {
    let mut sums = vec![0.0; constraints.len()];
    for episode in episodes {
        let values = episode.constraint_values();
        for ((sum, value), constraint) in sums.iter_mut().zip(values).zip(constraints) {
            *sum += (value - constraint.threshold).max(0.0) * episode.steps() as f64;
        }
    }
    sums
}

fn row(numbers: &[f32], index: usize, width: usize) -> &[f32] {
    &numbers[index * width..(index + 1) * width]
}

/// Plays one episode.
pub fn play(env: &mut dyn Env, ticket: &Ticket, choice: Choice) -> Rollout {
    let spec = env.spec().clone();
    let mut obs = vec![0.0; spec.observation];
    let mut costs = vec![0.0; spec.constraints.len()];
    let mut player = Player::new(&spec, ticket, choice);
    let start = Instant::now();
    env.reset(&mut player.rng, &mut obs);
    player.rollout.times[0] = start.elapsed();
    player.rollout.fault = fault(env, &spec, &obs, 0.0, &[]);
    loop {
        let action = player.act(&obs);
        let start = Instant::now();
        let step = env.step(action, &mut obs, &mut costs);
        let time = start.elapsed();
        let fault = fault(env, &spec, &obs, step.reward, &costs);
        if player.note(&step, &obs, &costs, fault, time) {
            return player.end();
        }
    }
}

/// Who plays one episode, whatever it is played in: acts and takes note.
pub struct Player<'a> {
    actor: &'a Mlp,
    choice: Choice,
    head: Head,
    /// All its randomness; the start of the episode draws from it first.
    pub rng: Rng,
    action: Vec<f32>,
    draw: Vec<f32>,
    scratch: Vec<f32>,
    begun: Instant,
    rollout: Rollout,
}

impl<'a> Player<'a> {
    /// Before the first step.
    pub fn new(spec: &EnvSpec, ticket: &Ticket<'a>, choice: Choice) -> Self {
        Self {
            actor: ticket.actor,
            choice,
            head: Head::of(spec),
            rng: cmdp::rng(ticket.key),
            action: vec![0.0; spec.action],
            draw: vec![0.0; spec.action],
            scratch: Vec::new(),
            begun: Instant::now(),
            rollout: Rollout {
                episode: Episode::new(&spec.constraints),
                unstable: false,
                fault: None,
                times: [Duration::ZERO; 2],
                terminated: false,
                obs: vec![],
                actions: vec![],
                rewards: vec![],
                costs: vec![],
            },
        }
    }

    /// What it does where it observes this.
    pub fn act(&mut self, obs: &[f64]) -> &[f32] {
        let first = self.rollout.obs.len();
        self.rollout.obs.extend(obs.iter().map(|&x| x as f32));
        let head = self.actor.forward_one(&self.rollout.obs[first..], &mut self.scratch);
        match self.choice {
            Choice::Mean => self.head.settle(head, &mut self.action),
            Choice::Sample => {
                self.head.draw(head, &mut self.rng, &mut self.draw, &mut self.action);
            }
        }
        &self.action
    }

    /// Takes note of what came of it and how long that took; returns whether the episode is over.
    pub fn note(
        &mut self,
        step: &Step,
        obs: &[f64],
        costs: &[f64],
        fault: Option<Fault>,
        time: Duration,
    ) -> bool {
        let rollout = &mut self.rollout;
        rollout.times[0] += time;
        rollout.episode.push(step, costs);
        rollout.actions.extend(&self.action);
        rollout.rewards.push(step.reward as f32);
        rollout.costs.extend(costs.iter().map(|&c| c as f32));
        rollout.unstable |= step.unstable;
        rollout.fault = rollout.fault.take().or(fault);
        let over = step.is_last() || rollout.fault.is_some();
        if over {
            rollout.terminated = step.terminated;
            rollout.obs.extend(obs.iter().map(|&x| x as f32));
            rollout.times[1] = self.begun.elapsed();
        }
        over
    }

    /// The episode, once it is over.
    pub fn end(self) -> Rollout {
        self.rollout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_excess_of_episodes_by_hand() {
        let text = ["mean(a)<=0.5", "sum(b)<=3"];
        let constraints = text.map(|text| text.parse::<Constraint>().unwrap());
        let step = Step { reward: 0.0, terminated: false, truncated: false, unstable: false };
        let episode = |costs: &[[f64; 2]]| {
            let mut episode = Episode::new(&constraints);
            costs.iter().for_each(|costs| episode.push(&step, costs));
            episode
        };
        // Means 0.75 and 0.25, sums 6 and 2; two steps and one.
        let played = [episode(&[[1.0, 4.0], [0.5, 2.0]]), episode(&[[0.25, 2.0]])];
        assert_eq!(excess(&played, &constraints), [0.25 * 2.0, 3.0 * 2.0]);
    }
}
