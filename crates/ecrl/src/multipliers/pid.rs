//! A PID controller: λ answers how far a constraint is broken now (proportional), how long it has been
//! (integral) and how fast it gets worse (derivative).
//!
//! ```text
//! e = min( 4, mean(J_C - ε)/s )        s = |ε|, or 1 where ε = 0
//! ē ← m·ē + (1 - m)·e        I ← max(0, I + k_I·e)        D = max(0, ē - ē of d updates ago)
//! λ = max(0, k_P·ē + I + k_D·D)
//! ```
//!
//! The integral alone is gradient ascent, which overshoots and swings; the other two damp it. The error is
//! divided by the threshold, so that the same gains serve a mean torque of 0.4 and a sum of 25.
//!
//! 1. Stooke, Achiam & Abbeel, Responsive Safety in Reinforcement Learning by PID Lagrangian Methods, ICML
//!    2020.

use std::collections::VecDeque;

use cmdp::Constraint;
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, range};
use crate::state::{StateError, Walk};

use super::{Multipliers, relative_errors};

/// The gains.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gains {
    /// Gain of the error as it is now; more damps swings and passes on noise.
    pub kp: f64,
    /// Gain of errors added up; more reacts faster and overshoots.
    pub ki: f64,
    /// Gain of the error's rise; more brakes earlier.
    pub kd: f64,
    /// How much of the last error, smoothed, is kept for the first and the last of these; 0 keeps none.
    pub smoothing: f64,
    /// Updates over which the rise is measured.
    pub delay: usize,
}

impl Default for Gains {
    fn default() -> Self {
        Self { kp: 0.2, ki: 0.02, kd: 0.2, smoothing: 0.9, delay: 10 }
    }
}

impl Gains {
    /// Checks every value against its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        range::not_negative("multipliers.kp", self.kp)?;
        range::not_negative("multipliers.ki", self.ki)?;
        range::not_negative("multipliers.kd", self.kd)?;
        range::check(
            (0.0..1.0).contains(&self.smoothing),
            "multipliers.smoothing",
            self.smoothing,
            "a number from 0 on and below 1",
        )?;
        range::many("multipliers.delay", self.delay)
    }
}

/// The learner's λ, for everyone.
#[derive(Debug, Clone, PartialEq)]
pub struct Pid {
    gains: Gains,
    state: State,
}

/// What lasts; each has an entry for each constraint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct State {
    lambda: Vec<f64>,
    integral: Vec<f64>,
    /// ē of the last updates, the newest last.
    errors: VecDeque<Vec<f64>>,
}

impl Pid {
    /// Multipliers that start at λ.
    pub fn new(lambda: Vec<f64>, gains: Gains) -> Self {
        let state = State { integral: lambda.clone(), lambda, errors: VecDeque::new() };
        Self { gains, state }
    }
}

impl Multipliers for Pid {
    fn of_learner(&self) -> &[f64] {
        &self.state.lambda
    }

    fn update_learner(&mut self, generation: &[Vec<f64>], constraints: &[Constraint]) {
        let Some(now) = relative_errors(generation, constraints) else { return };
        let Self { gains, state: State { lambda, integral, errors } } = self;
        let mean = |before: &Vec<f64>| -> Vec<f64> {
            let pairs = before.iter().zip(&now);
            pairs.map(|(old, new)| gains.smoothing * old + (1.0 - gains.smoothing) * new).collect()
        };
        let smoothed = errors.back().map_or_else(|| now.clone(), mean);
        errors.push_back(smoothed.clone());
        while errors.len() > gains.delay + 1 {
            errors.pop_front();
        }
        for i in 0..lambda.len() {
            integral[i] = (integral[i] + gains.ki * now[i]).max(0.0);
            let rise = (smoothed[i] - errors[0][i]).max(0.0);
            lambda[i] = (gains.kp * smoothed[i] + integral[i] + gains.kd * rise).max(0.0);
        }
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        walk.numbers("lambda", &mut self.state.lambda)?;
        let (count, most) = (self.state.lambda.len(), self.gains.delay + 1);
        let finite =
            move |numbers: &[f64]| numbers.len() == count && numbers.iter().all(|x| x.is_finite());
        walk.fitting("pid", &mut self.state, "errors of as many constraints", |stored, _| {
            finite(&stored.lambda)
                && finite(&stored.integral)
                && stored.errors.len() <= most
                && stored.errors.iter().all(|errors| finite(errors))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmdp::Aggregate;

    fn constraint(threshold: f64) -> Constraint {
        Constraint { name: "c".into(), aggregate: Aggregate::Sum, threshold }
    }

    #[test]
    fn three_updates_by_hand() {
        let gains = Gains { kp: 2.0, ki: 0.5, kd: 4.0, smoothing: 0.5, delay: 1 };
        let (mut pid, constraints) = (Pid::new(vec![0.25], gains), [constraint(10.0)]);
        pid.update_learner(&[], &constraints);
        assert_eq!(pid.of_learner(), [0.25], "nothing has ended");
        // e = 0.5, the mean of 0 and 1: ē = 0.5, I = 0.25 + 0.25, D = 0.
        pid.update_learner(&[vec![10.0], vec![20.0]], &constraints);
        assert_eq!(pid.of_learner(), [1.0 + 0.5]);
        // e = 4, and not 5: ē = 2.25, I = 2.5, D = 1.75.
        pid.update_learner(&[vec![60.0]], &constraints);
        assert_eq!(pid.of_learner(), [4.5 + 2.5 + 7.0]);
        // e = -1: ē = 0.625, I = 2, and a fall is no rise.
        pid.update_learner(&[vec![0.0]], &constraints);
        assert_eq!(pid.of_learner(), [1.25 + 2.0]);
        // e = -1 five times more: λ and I end at 0 and not below.
        (0..5).for_each(|_| pid.update_learner(&[vec![0.0]], &constraints));
        assert_eq!((pid.of_learner(), pid.state.integral[0]), (&[0.0][..], 0.0));
    }

    #[test]
    fn each_constraint_is_measured_by_its_own_threshold() {
        let gains = Gains { kp: 1.0, ki: 0.0, kd: 0.0, smoothing: 0.0, delay: 1 };
        let mut pid = Pid::new(vec![0.0; 3], gains);
        let constraints = [constraint(0.5), constraint(25.0), constraint(0.0)];
        pid.update_learner(&[vec![0.75, 37.5, 0.25]], &constraints);
        assert_eq!(pid.of_learner(), [0.5, 0.5, 0.25]);
    }
}
