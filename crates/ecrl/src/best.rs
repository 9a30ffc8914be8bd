//! How policies did in tests, and the best of a run: feasible first, rewarding second.
//!
//! A policy has two faces: its mean action, which a robot is shipped with, and the actions it samples,
//! which it is trained, ranked and multiplied on. It is feasible if both are.

use cmdp::Constraint;
use nets::Mlp;
use serde::{Deserialize, Serialize};

/// How one face of a policy did, on the mean over some episodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The return.
    pub reward: f64,
    /// J_C of every constraint.
    pub cost: Vec<f64>,
}

/// How a policy did when it was tested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    /// Environment steps taken until then.
    pub env_steps: u64,
    /// With its mean action.
    pub mean: Outcome,
    /// With sampled actions.
    pub sampled: Outcome,
    /// The violation φ of the worse of both.
    pub violation: f64,
}

impl TestResult {
    /// Both faces under some constraints.
    pub fn new(
        env_steps: u64,
        mean: Outcome,
        sampled: Outcome,
        constraints: &[Constraint],
    ) -> Self {
        let violation = |face: &Outcome| Constraint::violation(constraints, &face.cost);
        let violation = violation(&mean).max(violation(&sampled));
        Self { env_steps, mean, sampled, violation }
    }

    /// Whether both faces kept every constraint.
    pub fn is_feasible(&self) -> bool {
        self.violation == 0.0
    }

    /// Feasible first, then the mean action's reward; of those that are not, the less violating.
    pub fn is_better_than(&self, other: &Self) -> bool {
        match self.is_feasible() && other.is_feasible() {
            true => self.mean.reward > other.mean.reward,
            false => self.violation < other.violation,
        }
    }
}

/// A policy and how it did.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// The policy.
    pub actor: Mlp,
    /// How it did.
    pub result: TestResult,
}

impl Best {
    /// Keeps a policy if it is better than the best so far; returns whether it is.
    pub fn keep(best: &mut Option<Self>, actor: &Mlp, result: TestResult) -> bool {
        let better = best.as_ref().is_none_or(|best| result.is_better_than(&best.result));
        if better {
            *best = Some(Self { actor: actor.clone(), result });
        }
        better
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmdp::Aggregate;
    use nets::Activation;

    #[test]
    fn the_best_policy_is_feasible_with_both_faces_first_and_rewarding_second() {
        let constraints =
            [Constraint { name: "force".into(), aggregate: Aggregate::Mean, threshold: 0.1 }];
        let (mut best, actor) = (None, Mlp::zeros(&[1, 2], Activation::Relu));
        let mut keep = |reward: f64, cost: f64, sampled: f64| {
            let mean = Outcome { reward, cost: vec![cost] };
            let sampled = Outcome { reward: -reward, cost: vec![sampled] };
            Best::keep(&mut best, &actor, TestResult::new(0, mean, sampled, &constraints))
        };
        assert!(keep(5.0, 0.9, 0.0)); // the first, whatever it is
        assert!(keep(1.0, 0.5, 0.3)); // less violation of the worse face
        assert!(!keep(9.0, 0.0, 0.6));
        assert!(keep(-3.0, 0.1, 0.1)); // feasible
        assert!(!keep(9.0, 0.11, 0.0) && !keep(9.0, 0.0, 0.11)); // one face is not
        assert!(!keep(-3.0, 0.0, 0.0)); // as feasible, no better
        assert!(keep(-2.0, 0.1, 0.0));
        let best = best.unwrap().result;
        assert_eq!((best.mean.reward, best.violation, best.mean.cost), (-2.0, 0.0, vec![0.1]));
    }
}
