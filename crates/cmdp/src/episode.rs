//! One episode's return and constraint values, added up step by step.

use crate::{Constraint, Step};

/// Adds up the steps of one episode.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Episode {
    constraints: Vec<Constraint>,
    cost_sums: Vec<f64>,
    reward: f64,
    steps: usize,
}

impl Episode {
    /// An episode before its first step.
    pub fn new(constraints: &[Constraint]) -> Self {
        Self {
            constraints: constraints.to_vec(),
            cost_sums: vec![0.0; constraints.len()],
            reward: 0.0,
            steps: 0,
        }
    }

    /// Counts one step and its costs, one for each constraint.
    pub fn push(&mut self, step: &Step, costs: &[f64]) {
        assert_eq!(costs.len(), self.cost_sums.len(), "one cost for each constraint");
        self.reward += step.reward;
        self.steps += 1;
        for (sum, cost) in self.cost_sums.iter_mut().zip(costs) {
            *sum += cost;
        }
    }

    /// Its return, steps and sums of costs so far, for [`resumed`](Self::resumed).
    pub fn state(&self) -> (f64, usize, &[f64]) {
        (self.reward, self.steps, &self.cost_sums)
    }

    /// An episode of the same constraints that has come as far as a state says; `None` where that
    /// has another number of costs.
    pub fn resumed(&self, reward: f64, steps: usize, cost_sums: Vec<f64>) -> Option<Self> {
        let constraints = self.constraints.clone();
        (cost_sums.len() == constraints.len()).then_some(Self {
            constraints,
            cost_sums,
            reward,
            steps,
        })
    }

    /// The return: the sum of all rewards.
    pub fn reward(&self) -> f64 {
        self.reward
    }

    /// The number of steps so far.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// J_C of every constraint.
    pub fn constraint_values(&self) -> Vec<f64> {
        let values = self.constraints.iter().zip(&self.cost_sums);
        values.map(|(c, &sum)| c.aggregate.of(sum, self.steps)).collect()
    }

    /// Whether every constraint is kept: J_C ≤ ε.
    pub fn is_feasible(&self) -> bool {
        Constraint::all_kept(&self.constraints, &self.constraint_values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Aggregate;

    fn constraint(aggregate: Aggregate, threshold: f64) -> Constraint {
        Constraint { name: "c".into(), aggregate, threshold }
    }

    fn step(reward: f64) -> Step {
        Step { reward, terminated: false, truncated: false, unstable: false }
    }

    #[test]
    fn mean_divides_by_the_length_and_sum_does_not() {
        let constraints = [constraint(Aggregate::Mean, 0.5), constraint(Aggregate::Sum, 2.5)];
        let mut episode = Episode::new(&constraints);
        for (reward, costs) in [(1.0, [0.25, 1.0]), (2.0, [0.5, 0.0]), (-0.5, [0.75, 1.0])] {
            episode.push(&step(reward), &costs);
        }
        assert_eq!((episode.reward(), episode.steps()), (2.5, 3));
        assert_eq!(episode.constraint_values(), [0.5, 2.0]);
    }

    #[test]
    fn feasible_includes_the_threshold_and_needs_every_constraint() {
        let mut episode =
            Episode::new(&[constraint(Aggregate::Mean, 0.5), constraint(Aggregate::Sum, 1.0)]);
        episode.push(&step(0.0), &[0.5, 1.0]);
        assert!(episode.is_feasible());
        episode.push(&step(0.0), &[0.5, 0.5]);
        assert!(!episode.is_feasible());
    }

    #[test]
    fn an_empty_episode_has_cost_nothing() {
        let episode = Episode::new(&[constraint(Aggregate::Mean, 0.0)]);
        assert_eq!(episode.constraint_values(), [0.0]);
        assert!(episode.is_feasible());
    }
}
