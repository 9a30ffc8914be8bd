//! A learner's multipliers together with the constraints that they answer, and what they weigh.
//!
//! λ has no unit: 1 means that a cost weighs as much as the reward, whatever the two are measured in. The weight
//! of a cost is `w_i = λ_i·d_r/d_i`, where d are deviations of advantages, smoothed over some batches; so the same
//! rates serve a mean torque of 0.4 and a sum of 25.

use cmdp::{Constraint, EnvSpec, Episode, Rng};

use crate::config::ConfigError;
use crate::metrics::Record;
use crate::state::{StateError, Walk};

use super::{LAMBDA_LEARNER, Multipliers, Rule};

/// How much of the deviations so far is kept with each batch.
const KEPT: f64 = 0.95;
/// Deviations below are taken for this: a cost that hardly varies is not blown up.
const LEAST: f64 = 1e-2;

/// A learner's multipliers.
pub struct Lambdas {
    constraints: Vec<Constraint>,
    multipliers: Box<dyn Multipliers>,
    /// Deviations of the advantages of the reward and of each cost; empty before the first batch.
    spreads: Vec<f64>,
}

impl Lambdas {
    /// By a rule, for the constraints of a task.
    pub fn new(rule: &Rule, spec: &EnvSpec, rng: &mut Rng) -> Result<Self, ConfigError> {
        let constraints = spec.constraints.clone();
        let multipliers = rule.build(constraints.len(), 0, rng)?;
        Ok(Self { constraints, multipliers, spreads: Vec::new() })
    }

    /// One for each constraint.
    pub fn get(&self) -> &[f64] {
        self.multipliers.of_learner()
    }

    /// They answer episodes that ended.
    pub fn answer(&mut self, ended: &[Episode]) {
        let values: Vec<Vec<f64>> = ended.iter().map(Episode::constraint_values).collect();
        self.multipliers.update_learner(&values, &self.constraints);
    }

    /// Takes note of how far the advantages of a batch spread: the reward's, then each cost's.
    pub fn measure(&mut self, spreads: &[f64]) {
        if self.spreads.is_empty() {
            self.spreads = spreads.to_vec();
        }
        for (own, new) in self.spreads.iter_mut().zip(spreads) {
            *own = KEPT * *own + (1.0 - KEPT) * new;
        }
    }

    /// What each cost weighs, the reward weighing 1.
    pub fn weights(&self) -> Vec<f64> {
        let Some((reward, costs)) = self.spreads.split_first() else { return self.get().to_vec() };
        let weight = |(lambda, cost): (&f64, &f64)| lambda * reward.max(LEAST) / cost.max(LEAST);
        self.get().iter().zip(costs).map(weight).collect()
    }

    /// Each over the deviation of its cost's advantages.
    pub fn per_deviation(&self) -> Vec<f64> {
        let spreads = self.spreads.iter().skip(1).map(|cost| cost.max(LEAST));
        self.get().iter().zip(spreads.chain(std::iter::repeat(1.0))).map(|(l, d)| l / d).collect()
    }

    /// Notes them.
    pub fn note(&self, record: &mut Record) {
        record.set(&LAMBDA_LEARNER, self.get().to_vec());
    }

    /// Walks everything that lasts.
    pub fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.multipliers.walk(walk)?;
        let signals = 1 + self.constraints.len();
        walk.fitting("spreads", &mut self.spreads, "a deviation of each signal", |stored, _| {
            let fits = stored.is_empty() || stored.len() == signals;
            fits && stored.iter().all(|x| x.is_finite())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmdp::{Aggregate, Env as _, PointMass, Step};

    fn lambdas(rule: &Rule) -> Lambdas {
        let constraint =
            Constraint { name: "force".into(), aggregate: Aggregate::Mean, threshold: 0.5 };
        let task = PointMass::new(vec![constraint]).unwrap();
        Lambdas::new(rule, task.spec(), &mut cmdp::rng([0; 4])).unwrap()
    }

    #[test]
    fn they_follow_the_episodes_that_ended() {
        let mut lambdas = lambdas(&Rule::Ascent { lambda: 0.25.into(), eta: 2.0.into() });
        lambdas.answer(&[]);
        assert_eq!(lambdas.get(), [0.25], "none has ended");
        let step = Step { reward: 0.0, terminated: false, truncated: false, unstable: false };
        let episodes = [0.75, 1.0].map(|cost| {
            let mut episode = Episode::new(&lambdas.constraints);
            episode.push(&step, &[cost]);
            episode
        });
        lambdas.answer(&episodes);
        // 0.25 + 2·mean(0.25, 0.5)
        assert_eq!(lambdas.get(), [1.0]);
    }

    #[test]
    fn a_multiplier_of_one_weighs_as_much_as_the_reward() {
        let mut lambdas = lambdas(&Rule::Fixed { lambda: 0.5.into() });
        assert_eq!(lambdas.weights(), [0.5], "nothing is known yet");
        assert_eq!(lambdas.per_deviation(), [0.5]);
        lambdas.measure(&[8.0, 0.25]);
        assert_eq!(lambdas.weights(), [0.5 * 32.0]);
        assert_eq!(lambdas.per_deviation(), [2.0]);
        // Smoothed: 0.95·8 + 0.05·4, 0.95·0.25 + 0.05·0.45.
        lambdas.measure(&[4.0, 0.45]);
        assert!((lambdas.weights()[0] - 0.5 * 7.8 / 0.26).abs() < 1e-12);
        // A cost that does not vary.
        (0..500).for_each(|_| lambdas.measure(&[4.0, 0.0]));
        assert!((lambdas.weights()[0] - 0.5 * 4.0 / 0.01).abs() < 1e-6);
    }
}
