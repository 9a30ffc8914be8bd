//! Violations, the Lagrange multipliers that answer them, and the buffer of past episodes.

use std::collections::VecDeque;

use cmdp::{Constraint, Rng};
use rand::RngExt as _;
use serde::{Deserialize, Serialize};

use crate::algorithm::Multipliers;
use crate::config::MultiplierConfig;

/// How far values J_C are outside their constraints: `φ = Σ_i max(0, J_Ci - ε_i)²`, infinite where a
/// value is not a number.
pub fn violation(values: &[f64], constraints: &[Constraint]) -> f64 {
    let excess = values.iter().zip(constraints).map(|(&value, c)| match c.is_kept_by(value) {
        true => 0.0,
        false if value.is_nan() => f64::INFINITY,
        false => value - c.threshold,
    });
    excess.map(|x| x * x).sum()
}

/// Whether every constraint is kept.
pub fn feasible(values: &[f64], constraints: &[Constraint]) -> bool {
    values.iter().zip(constraints).all(|(value, c)| c.is_kept_by(*value))
}

/// One step of gradient ascent on the multipliers: `λ_i ← max(0, λ_i + η·mean(J_Ci - ε_i))` over
/// episodes, each given by its values J_C. Without episodes nothing changes.
pub fn raise<'a>(
    lambda: &mut [f64],
    eta: f64,
    episodes: impl IntoIterator<Item = &'a [f64]>,
    constraints: &[Constraint],
) {
    let mut excess = vec![0.0; lambda.len()];
    let mut count = 0.0;
    for values in episodes {
        count += 1.0;
        for ((sum, value), c) in excess.iter_mut().zip(values).zip(constraints) {
            *sum += value - c.threshold;
        }
    }
    if count > 0.0 {
        for (lambda, sum) in lambda.iter_mut().zip(excess) {
            *lambda = (*lambda + eta * sum / count).max(0.0);
        }
    }
}

/// The constraint buffer B_C: the values J_C of the last episodes, whoever played them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConstraintBuffer {
    capacity: usize,
    episodes: VecDeque<Vec<f64>>,
}

impl ConstraintBuffer {
    /// An empty buffer for `capacity` episodes.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, episodes: VecDeque::new() }
    }

    /// Adds an episode, in place of the oldest when the buffer is full.
    pub fn push(&mut self, values: Vec<f64>) {
        if self.episodes.len() == self.capacity {
            self.episodes.pop_front();
        }
        self.episodes.push_back(values);
    }

    /// A batch drawn uniformly, with replacement; empty while the buffer is.
    pub fn sample(&self, batch: usize, rng: &mut Rng) -> Vec<&[f64]> {
        let count = if self.episodes.is_empty() { 0 } else { batch };
        (0..count).map(|_| &self.episodes[rng.random_range(0..self.episodes.len())][..]).collect()
    }
}

/// The multipliers of a run, and how they answer violations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lagrange {
    rule: Multipliers,
    eta: f64,
    batch: usize,
    /// The learner's, λ_π.
    learner: Vec<f64>,
    /// Those of each slot of the population, λ_k.
    slots: Vec<Vec<f64>>,
    /// B_C.
    buffer: ConstraintBuffer,
}

impl Lagrange {
    /// The multipliers at the start of a run.
    pub fn new(
        rule: Multipliers,
        config: &MultiplierConfig,
        constraints: usize,
        slots: usize,
        rng: &mut Rng,
    ) -> Self {
        let start = if rule == Multipliers::None { 0.0 } else { config.lambda };
        let own = |rng: &mut Rng| {
            (0..constraints).map(|_| config.actor_lambda * rng.random::<f64>()).collect()
        };
        Self {
            rule,
            eta: config.eta,
            batch: config.buffer_batch,
            learner: vec![start; constraints],
            slots: (0..slots).map(|_| own(rng)).collect(),
            buffer: ConstraintBuffer::new(config.buffer),
        }
    }

    /// Whether another run's multipliers could stand here.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        let sizes = |l: &Self| (l.learner.len(), l.slots.iter().map(Vec::len).collect::<Vec<_>>());
        let episodes = |l: &Self| l.buffer.episodes.iter().all(|v| v.len() == l.learner.len());
        sizes(self) == sizes(other) && episodes(self)
    }

    /// What the learner's transitions are shaped with.
    pub fn of_learner(&self) -> &[f64] {
        &self.learner
    }

    /// What the transitions of a slot's actor are shaped with.
    pub fn of_slot(&self, slot: usize) -> &[f64] {
        match self.rule {
            Multipliers::PerActor => &self.slots[slot],
            Multipliers::None | Multipliers::Fixed | Multipliers::Adaptive => &self.learner,
        }
    }

    /// Adds the episodes of a generation to B_C.
    pub fn remember(&mut self, generation: &[Vec<f64>]) {
        generation.iter().for_each(|values| self.buffer.push(values.clone()));
    }

    /// The learner's multipliers answer the violations of a generation, B_C^g.
    pub fn raise_learner(&mut self, generation: &[Vec<f64>], constraints: &[Constraint]) {
        if matches!(self.rule, Multipliers::Adaptive | Multipliers::PerActor) {
            let episodes = generation.iter().map(Vec::as_slice);
            raise(&mut self.learner, self.eta, episodes, constraints);
        }
    }

    /// A slot's multipliers answer the violations in a batch drawn from B_C.
    pub fn raise_slot(&mut self, slot: usize, constraints: &[Constraint], rng: &mut Rng) {
        if self.rule == Multipliers::PerActor {
            let batch = self.buffer.sample(self.batch, rng);
            raise(&mut self.slots[slot], self.eta, batch, constraints);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmdp::Aggregate;

    #[test]
    fn the_buffer_keeps_the_newest_and_draws_from_all_it_keeps() {
        let mut buffer = ConstraintBuffer::new(3);
        let mut rng = cmdp::rng([1; 4]);
        assert!(buffer.sample(5, &mut rng).is_empty());
        (0..5).for_each(|i| buffer.push(vec![f64::from(i)]));
        let drawn = buffer.sample(3000, &mut rng);
        for i in 0..5 {
            let count = drawn.iter().filter(|values| values[0] == f64::from(i)).count();
            assert!(if i < 2 { count == 0 } else { (850..1150).contains(&count) }, "{i}: {count}");
        }
    }

    fn constraints() -> [Constraint; 2] {
        let make = |name: &str, aggregate, threshold| Constraint {
            name: name.into(),
            aggregate,
            threshold,
        };
        [make("torque", Aggregate::Mean, 0.4), make("velocity", Aggregate::Sum, 25.0)]
    }

    #[test]
    fn violations_add_up_over_constraints() {
        assert_eq!(violation(&[0.4, 25.0], &constraints()), 0.0);
        assert_eq!(violation(&[0.0, 27.0], &constraints()), 4.0);
        assert!((violation(&[0.9, 26.0], &constraints()) - 1.25).abs() < 1e-12);
        assert!(feasible(&[0.4, 25.0], &constraints()));
        assert!(!feasible(&[0.4, 25.1], &constraints()));
        assert_eq!(violation(&[f64::NAN, 0.0], &constraints()), f64::INFINITY);
        assert!(feasible(&[], &[]) && violation(&[], &[]) == 0.0);
    }

    #[test]
    fn each_multiplier_follows_its_own_constraint_and_never_falls_below_zero() {
        let mut lambda = [0.1, 0.1];
        let episodes = [[0.6, 20.0], [0.8, 10.0]];
        raise(&mut lambda, 0.5, episodes.iter().map(|v| &v[..]), &constraints());
        // 0.1 + 0.5·mean(0.2, 0.4) and max(0, 0.1 + 0.5·mean(-5, -15)).
        assert!((lambda[0] - 0.25).abs() < 1e-12);
        assert_eq!(lambda[1], 0.0);
        raise(&mut lambda, 0.5, [], &constraints());
        assert!((lambda[0] - 0.25).abs() < 1e-12);
    }
}
