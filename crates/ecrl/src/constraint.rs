//! Violations, and the Lagrange multipliers that answer them.

use cmdp::Constraint;

/// How far values J_C are outside their constraints: `φ = Σ_i max(0, J_Ci - ε_i)²`.
pub fn violation(values: &[f64], constraints: &[Constraint]) -> f64 {
    let excess = values.iter().zip(constraints).map(|(value, c)| (value - c.threshold).max(0.0));
    excess.map(|x| x * x).sum()
}

/// Whether every constraint is kept.
pub fn feasible(values: &[f64], constraints: &[Constraint]) -> bool {
    values.iter().zip(constraints).all(|(value, c)| *value <= c.threshold)
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

#[cfg(test)]
mod tests {
    use super::*;
    use cmdp::Aggregate;

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
