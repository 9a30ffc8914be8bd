//! Ascent whose steps grow shorter: the slowest time scale of an actor-critic on several.
//!
//! ```text
//! λ_i ← max( 0, λ_i + η·( 1 + n/h )^-q·min( 4, mean(J_Ci - ε_i)/ε_i ) )
//! ```

use cmdp::Constraint;

use crate::state::{StateError, Walk};

use super::{Multipliers, relative_errors};

/// The learner's λ, for everyone.
#[derive(Debug, Clone, PartialEq)]
pub struct Falling {
    lambda: Vec<f64>,
    eta: Vec<f64>,
    power: f64,
    horizon: f64,
    /// n
    updates: u64,
}

impl Falling {
    /// λ and η of each constraint, q and h.
    pub fn new(lambda: Vec<f64>, eta: Vec<f64>, power: f64, horizon: f64) -> Self {
        Self { lambda, eta, power, horizon, updates: 0 }
    }
}

/// ( 1 + n/h )^-q
pub fn fallen(n: u64, horizon: f64, power: f64) -> f64 {
    (1.0 + n as f64 / horizon).powf(-power)
}

impl Multipliers for Falling {
    fn of_learner(&self) -> &[f64] {
        &self.lambda
    }

    fn update_learner(&mut self, generation: &[Vec<f64>], constraints: &[Constraint]) {
        let Some(errors) = relative_errors(generation, constraints) else { return };
        let rate = fallen(self.updates, self.horizon, self.power);
        for ((lambda, eta), error) in self.lambda.iter_mut().zip(&self.eta).zip(errors) {
            *lambda = (*lambda + eta * rate * error).max(0.0);
        }
        self.updates += 1;
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        walk.numbers("lambda", &mut self.lambda)?;
        walk.plain("lambda.updates", &mut self.updates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmdp::Aggregate;

    #[test]
    fn steps_grow_shorter() {
        let constraints =
            [Constraint { name: "c".into(), aggregate: Aggregate::Sum, threshold: 10.0 }];
        let mut falling = Falling::new(vec![0.0], vec![0.5], 2.0, 1.0);
        falling.update_learner(&[], &constraints);
        assert_eq!(falling.of_learner(), [0.0], "nothing has ended");
        // 0.5·1·1, then 0.5·(1/4)·4, then 0.5·(1/9)·-1.
        falling.update_learner(&[vec![20.0]], &constraints);
        assert_eq!(falling.of_learner(), [0.5]);
        falling.update_learner(&[vec![90.0]], &constraints);
        assert_eq!(falling.of_learner(), [1.0]);
        falling.update_learner(&[vec![0.0]], &constraints);
        assert!((falling.of_learner()[0] - (1.0 - 0.5 / 9.0)).abs() < 1e-12);
    }
}
