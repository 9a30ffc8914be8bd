//! A learner's multipliers together with the constraints that they answer.

use cmdp::{Constraint, EnvSpec, Episode, Rng};

use crate::config::ConfigError;
use crate::metrics::Record;
use crate::state::{StateError, Walk};

use super::{LAMBDA_LEARNER, Multipliers, Rule};

/// A learner's multipliers.
pub struct Lambdas {
    constraints: Vec<Constraint>,
    multipliers: Box<dyn Multipliers>,
}

impl Lambdas {
    /// By a rule, for the constraints of a task.
    pub fn new(rule: &Rule, spec: &EnvSpec, rng: &mut Rng) -> Result<Self, ConfigError> {
        let constraints = spec.constraints.clone();
        let multipliers = rule.build(constraints.len(), 0, rng)?;
        Ok(Self { constraints, multipliers })
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

    /// Notes them.
    pub fn note(&self, record: &mut Record) {
        record.set(&LAMBDA_LEARNER, self.get().to_vec());
    }

    /// Walks everything that lasts.
    pub fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.multipliers.walk(walk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmdp::{Aggregate, Env as _, PointMass, Step};

    #[test]
    fn they_follow_the_episodes_that_ended() {
        let constraint =
            Constraint { name: "force".into(), aggregate: Aggregate::Mean, threshold: 0.5 };
        let task = PointMass::new(vec![constraint]).unwrap();
        let rule = Rule::Ascent { lambda: 0.25.into(), eta: 2.0.into() };
        let mut lambdas = Lambdas::new(&rule, task.spec(), &mut cmdp::rng([0; 4])).unwrap();
        lambdas.answer(&[]);
        assert_eq!(lambdas.get(), [0.25], "none has ended");
        let step = Step { reward: 0.0, terminated: false, truncated: false, unstable: false };
        let episodes = [0.75, 1.0].map(|cost| {
            let mut episode = Episode::new(&task.spec().constraints);
            episode.push(&step, &[cost]);
            episode
        });
        lambdas.answer(&episodes);
        // 0.25 + 2·mean(0.25, 0.5)
        assert_eq!(lambdas.get(), [1.0]);
    }
}
