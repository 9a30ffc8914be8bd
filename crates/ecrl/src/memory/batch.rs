//! What was just played, and its advantages by generalised advantage estimation.

use serde::{Deserialize, Serialize};

use crate::collect::remote::floats;
use crate::state::{StateError, Walk};

/// What was played and is being learnt from, step after step, environment after environment.
///
/// A signal is what a critic predicts the sum of: the reward, and where they have critics each cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Batch {
    /// Observations as they came.
    #[serde(with = "floats")]
    pub obs: Vec<f32>,
    /// The observations after them.
    #[serde(with = "floats")]
    pub next_obs: Vec<f32>,
    /// What was drawn: u, or the number of a choice.
    #[serde(with = "floats")]
    pub draws: Vec<f32>,
    /// Of each signal, its number in every step.
    pub signals: Vec<Vec<f32>>,
    /// 1 where nothing can follow.
    #[serde(with = "floats")]
    pub terminated: Vec<f32>,
    /// 1 where the next row does not follow: the episode ended, or the environment's rows do.
    #[serde(with = "floats")]
    pub last: Vec<f32>,
    /// log π of what was drawn, by the policy that drew it.
    #[serde(skip)]
    pub log_prob: Vec<f32>,
    /// Of each signal, what its critic said.
    #[serde(skip)]
    pub values: Vec<Vec<f32>>,
    /// Of each signal, the advantages.
    #[serde(skip)]
    pub advantages: Vec<Vec<f32>>,
    /// Of each signal, what its critic should say.
    #[serde(skip)]
    pub returns: Vec<Vec<f32>>,
}

impl Batch {
    /// The number of steps.
    pub fn rows(&self) -> usize {
        self.last.len()
    }

    /// Adds another environment's rows.
    pub fn append(&mut self, other: Self) {
        self.obs.extend(other.obs);
        self.next_obs.extend(other.next_obs);
        self.draws.extend(other.draws);
        self.terminated.extend(other.terminated);
        self.last.extend(other.last);
        self.signals.resize(other.signals.len(), Vec::new());
        self.signals.iter_mut().zip(other.signals).for_each(|(all, more)| all.extend(more));
    }

    /// Brings the mean of a signal to 0: for the cost of a constraint on its mean over an episode.
    ///
    /// Costs are seldom below 0, so that every further step costs, and to end early looks cheap although
    /// it does not lower the mean. The slope of `Σ c / T` is that of `Σ (c - J_C) / T`, and in rows that
    /// all count the same J_C is their mean.
    pub fn centre(&mut self, signal: usize) {
        let numbers = &mut self.signals[signal];
        let sum: f64 = numbers.iter().map(|&x| f64::from(x)).sum();
        let mean = (sum / numbers.len() as f64) as f32;
        numbers.iter_mut().for_each(|x| *x -= mean);
    }

    /// Walks every number, given how many an observation and an action have, and how many signals
    /// there are once anything was played; returns how many rows there are after it.
    pub fn walk(
        &mut self,
        walk: &mut Walk,
        [obs, actions, expected]: [usize; 3],
    ) -> Result<usize, StateError> {
        let mut size = (self.rows(), self.signals.len());
        let (rows, signals) = walk.peek("batch.size", size)?;
        walk.fitting("batch.size", &mut size, "rows of these signals", |(rows, signals), _| {
            let fits = rows.checked_mul(obs.max(actions)).is_some() && *signals == expected;
            if *rows == 0 { *signals == 0 } else { fits }
        })?;
        for (name, width, numbers) in [
            ("obs", obs, &mut self.obs),
            ("next_obs", obs, &mut self.next_obs),
            ("draws", actions, &mut self.draws),
            ("terminated", 1, &mut self.terminated),
            ("last", 1, &mut self.last),
            ("log_prob", 1, &mut self.log_prob),
        ] {
            walk.list(&format!("batch.{name}"), rows * width, numbers)?;
        }
        for (name, all) in [
            ("signal", &mut self.signals),
            ("value", &mut self.values),
            ("advantage", &mut self.advantages),
            ("return", &mut self.returns),
        ] {
            if walk.is_loading() {
                all.resize(signals, Vec::new());
            }
            let mut none = Vec::new();
            for i in 0..signals {
                let numbers = all.get_mut(i).unwrap_or(&mut none);
                walk.list(&format!("batch.{name}{i}"), rows, numbers)?;
            }
        }
        Ok(rows)
    }
}

/// Generalised advantage estimation: `A_t = δ_t + γλ A_{t+1}`, `δ_t = r_t + γ V(s_{t+1}) - V(s_t)`;
/// nothing follows a terminated step, and A stops at the last step of an episode or of the rows.
pub fn advantages(
    signal: &[f32],
    [values, next]: [&[f32]; 2],
    [terminated, last]: [&[f32]; 2],
    [discount, gae]: [f32; 2],
) -> Vec<f32> {
    let mut advantages = vec![0.0; signal.len()];
    let mut following = 0.0;
    for t in (0..signal.len()).rev() {
        let delta = signal[t] + discount * (1.0 - terminated[t]) * next[t] - values[t];
        following = delta + discount * gae * (1.0 - last[t]) * following;
        advantages[t] = following;
    }
    advantages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advantages_worked_by_hand() {
        // Two steps, terminated; two steps, truncated; one step, cut off by the end of the rows.
        let signal = [1.0, 2.0, 3.0, 4.0, 5.0];
        let values = [10.0, 20.0, 30.0, 40.0, 50.0];
        let next = [20.0, 7.0, 40.0, 8.0, 9.0];
        let terminated = [0.0, 1.0, 0.0, 0.0, 0.0];
        let last = [0.0, 1.0, 0.0, 1.0, 1.0];
        let found = advantages(&signal, [&values, &next], [&terminated, &last], [0.5, 0.5]);
        // δ: 1+10-10, 2-20, 3+20-30, 4+4-40, 5+4.5-50; then A_t = δ_t + A_{t+1}/4 within an episode.
        assert_eq!(found, [1.0 - 4.5, -18.0, -7.0 - 8.0, -32.0, -40.5]);
    }

    #[test]
    fn a_centred_cost_makes_an_early_end_neither_cheap_nor_dear() {
        // Two episodes that cost 0.5 in every step: one of three steps and one that ends after the first.
        let mut batch = Batch { signals: vec![vec![1.0; 4], vec![0.5; 4]], ..Batch::default() };
        let (terminated, zero) = ([0.0, 0.0, 1.0, 1.0], [0.0; 4]);
        let advantages = |signal: &[f32]| {
            advantages(signal, [&zero, &zero], [&terminated, &terminated], [1.0, 1.0])
        };
        // As it is, the long one seems to cost three times as much.
        assert_eq!(advantages(&batch.signals[1]), [1.5, 1.0, 0.5, 0.5]);
        batch.centre(1);
        assert_eq!(advantages(&batch.signals[1]), [0.0; 4]);
        assert_eq!(batch.signals[0], [1.0; 4]);
        // What does cost more than the mean is dear, however long the episode.
        batch.signals[1] = vec![0.25, 0.25, 1.0, 0.5];
        batch.centre(1);
        assert_eq!(advantages(&batch.signals[1]), [0.0, 0.25, 0.5, 0.0]);
    }

    #[test]
    fn a_batch_of_another_shape_is_refused_and_changes_nothing() {
        let played = || Batch {
            obs: vec![1.0, 2.0],
            next_obs: vec![3.0, 4.0],
            draws: vec![5.0],
            terminated: vec![0.0],
            last: vec![1.0],
            log_prob: vec![0.5],
            signals: vec![vec![6.0]],
            values: vec![vec![7.0]],
            advantages: vec![vec![8.0]],
            returns: vec![vec![9.0]],
        };
        let (mut first, sizes) = (played(), [2, 1, 1]);
        let store = Walk::save(|walk| first.walk(walk, sizes).map(drop)).unwrap();
        let mut second = Batch::default();
        Walk::load(&store, |walk| second.walk(walk, sizes).map(drop)).unwrap();
        assert_eq!(second, played());
        for size in [(1u64, 0u64), (1, 2), (0, 1), (1, u64::MAX), (u64::MAX, 1), (2, 1)] {
            let mut bytes = Vec::new();
            ciborium::into_writer(&size, &mut bytes).unwrap();
            let mut crafted = store.clone();
            crafted.add_bytes("batch.size", bytes);
            let mut third = Batch::default();
            let loaded = Walk::load(&crafted, |walk| third.walk(walk, sizes).map(drop));
            assert!(loaded.is_err(), "{size:?}");
            assert_eq!(third, Batch::default());
        }
    }
}
