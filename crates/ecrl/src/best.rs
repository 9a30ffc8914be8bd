//! The best policy of a run: feasible first, rewarding second.

use cmdp::Constraint;
use nets::Mlp;
use serde::{Deserialize, Serialize};

/// The best policy so far: the highest reward of those that kept every constraint, or until there
/// is one, the smallest violation.
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

/// How a policy did when it was tested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    /// Environment steps taken until then.
    pub env_steps: u64,
    /// Its mean return.
    pub reward: f64,
    /// Its mean J_C.
    pub cost: Vec<f64>,
    /// Its violation φ.
    pub violation: f64,
}

impl TestResult {
    /// A mean return and mean J_C under some constraints.
    pub fn new(env_steps: u64, reward: f64, cost: Vec<f64>, constraints: &[Constraint]) -> Self {
        let violation = Constraint::violation(constraints, &cost);
        Self { env_steps, reward, cost, violation }
    }

    /// Whether it kept every constraint.
    pub fn is_feasible(&self) -> bool {
        self.violation == 0.0
    }

    fn is_better_than(&self, other: &Self) -> bool {
        match self.is_feasible() && other.is_feasible() {
            true => self.reward > other.reward,
            false => self.violation < other.violation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmdp::Aggregate;
    use nets::Activation;

    #[test]
    fn the_best_policy_is_feasible_first_and_rewarding_second() {
        let constraints =
            [Constraint { name: "force".into(), aggregate: Aggregate::Mean, threshold: 0.1 }];
        let (mut best, actor) = (None, Mlp::zeros(&[1, 2], Activation::Relu));
        let mut keep = |reward: f64, cost: f64| {
            Best::keep(&mut best, &actor, TestResult::new(0, reward, vec![cost], &constraints))
        };
        assert!(keep(5.0, 0.9)); // the first, whatever it is
        assert!(keep(1.0, 0.5)); // less violation
        assert!(!keep(9.0, 0.6));
        assert!(keep(-3.0, 0.1)); // feasible
        assert!(!keep(9.0, 0.11));
        assert!(!keep(-3.0, 0.0)); // as feasible, no better
        assert!(keep(-2.0, 0.1));
        let best = best.unwrap().result;
        assert_eq!((best.reward, best.violation, best.cost), (-2.0, 0.0, vec![0.1]));
    }
}
