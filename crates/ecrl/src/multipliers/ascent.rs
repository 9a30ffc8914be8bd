//! Gradient ascent on the Lagrangian: `λ_i ← max(0, λ_i + η·mean(J_Ci - ε_i))` over episodes; or by the
//! error divided by its threshold, `min(4, mean(J_Ci - ε_i)/ε_i)`, so that one η serves bounds of any size.

use cmdp::Constraint;

use crate::state::{StateError, Walk};

use super::{Multipliers, excesses, relative_errors};

/// The learner's λ, for everyone.
#[derive(Debug, Clone, PartialEq)]
pub struct Ascent {
    lambda: Vec<f64>,
    eta: Vec<f64>,
    relative: bool,
}

impl Ascent {
    /// λ and η of each constraint.
    pub fn new(lambda: Vec<f64>, eta: Vec<f64>) -> Self {
        Self { lambda, eta, relative: false }
    }

    /// The same by errors divided by their thresholds.
    pub fn relative(self) -> Self {
        Self { relative: true, ..self }
    }

    /// With multipliers of its own.
    pub fn with(&self, lambda: Vec<f64>) -> Self {
        Self { lambda, ..self.clone() }
    }

    /// One step, over episodes given by their values J_C. Without episodes nothing changes.
    pub fn step<'a>(
        &mut self,
        episodes: impl IntoIterator<Item = &'a Vec<f64>>,
        constraints: &[Constraint],
    ) {
        let pairs = self.lambda.iter_mut().zip(&self.eta);
        if self.relative {
            let errors = relative_errors(episodes, constraints).unwrap_or_default();
            pairs.zip(errors).for_each(|((lambda, eta), e)| *lambda = (*lambda + eta * e).max(0.0));
            return;
        }
        let (sums, count) = excesses(episodes, constraints);
        if count > 0.0 {
            for ((lambda, eta), sum) in pairs.zip(sums) {
                *lambda = (*lambda + eta * sum / count).max(0.0);
            }
        }
    }

    /// Walks the multipliers under a name.
    pub fn walk_as(&mut self, name: &str, walk: &mut Walk) -> Result<(), StateError> {
        walk.numbers(name, &mut self.lambda)
    }
}

impl Multipliers for Ascent {
    fn of_learner(&self) -> &[f64] {
        &self.lambda
    }

    fn update_learner(&mut self, generation: &[Vec<f64>], constraints: &[Constraint]) {
        self.step(generation, constraints);
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.walk_as("lambda", walk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmdp::Aggregate;

    #[test]
    fn each_multiplier_follows_its_own_constraint_and_never_falls_below_zero() {
        let make = |name: &str, aggregate, threshold| Constraint {
            name: name.into(),
            aggregate,
            threshold,
        };
        let constraints =
            [make("torque", Aggregate::Mean, 0.4), make("velocity", Aggregate::Sum, 25.0)];
        let mut ascent = Ascent::new(vec![0.1, 0.1], vec![0.5, 0.5]);
        let episodes = [vec![0.6, 20.0], vec![0.8, 10.0]];
        ascent.step(&episodes, &constraints);
        // 0.1 + 0.5·mean(0.2, 0.4) and max(0, 0.1 + 0.5·mean(-5, -15)).
        assert!((ascent.lambda[0] - 0.25).abs() < 1e-12);
        assert_eq!(ascent.lambda[1], 0.0);
        ascent.step([], &constraints);
        assert!((ascent.lambda[0] - 0.25).abs() < 1e-12);
        // Each with a rate of its own: 0.1 + 0.5·0.3, 9 - 0.2·10.
        let mut ascent = Ascent::new(vec![0.1, 9.0], vec![0.5, 0.2]);
        ascent.step(&episodes, &constraints);
        assert!((ascent.lambda[0] - 0.25).abs() < 1e-12 && (ascent.lambda[1] - 7.0).abs() < 1e-12);
        // By errors divided by 0.4 and 25: 0.1 + 0.5·0.75, 9 - 0.2·0.4.
        let mut ascent = Ascent::new(vec![0.1, 9.0], vec![0.5, 0.2]).relative();
        ascent.step(&episodes, &constraints);
        let expected = [0.475, 8.92];
        assert!(ascent.lambda.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12));
        // Broken by nine thresholds counts as four.
        ascent.step(&[vec![4.0, 25.0]], &constraints);
        let expected = [2.475, 8.92];
        assert!(ascent.lambda.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12));
    }
}
