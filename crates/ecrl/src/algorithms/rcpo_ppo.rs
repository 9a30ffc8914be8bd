//! RCPO on PPO: PPO on a reward that is shaped by Lagrange multipliers.
//!
//! One critic learns the return of the shaped reward, and PPO ascends its advantage:
//!
//! ```text
//! r - Σ_i w_i c_i        w_i = λ_i·d_r/d_i
//! ```
//!
//! where d are deviations of the reward and of the cost of a step, smoothed over batches: λ has no unit, and the same
//! rates serve a mean torque of 0.4 and a sum of 25. The multipliers follow a rule of `multipliers/`, slowly against
//! what the critic and the policy learn. As in all of the family, the cost of a constraint on a mean is centred first.
//!
//! 1. Tessler, Mankowitz & Mannor, Reward Constrained Policy Optimization, ICLR 2019.

use cmdp::{EnvSpec, Episode, Rng};

use crate::algorithm::Definition;
use crate::config::ConfigError;
use crate::learners::ppo::{Ppo, PpoConfig, deviation};
use crate::memory::batch::Batch;
use crate::metrics::{About, Figures, Record};
use crate::multipliers::{LAMBDA_LEARNER, Lambdas, Rule};
use crate::state::{StateError, Walk};

use super::on_policy::{OnPolicy, Part, Variant};
use super::ppo::Reward;
use super::ppo_lag::LagSection;

/// `rcpo-ppo`
pub static RCPO_PPO: Definition<OnPolicy<Shaped>> = Definition {
    name: "rcpo-ppo",
    description: "PPO with an adaptive penalty in the reward (Tessler et al., 2019)",
    defaults: || LagSection::new(Rule::relative()),
    presets: &[],
};

/// The shaped reward.
pub struct Shaped {
    lambdas: Lambdas,
}

impl Variant for Shaped {
    type Section = LagSection;
    const USES_COSTS: bool = true;
    const STATE_VERSION: u32 = 2;
    const METRICS: &'static [&'static About] = &[&LAMBDA_LEARNER.about];

    fn ppo(section: &LagSection) -> PpoConfig {
        section.ppo.clone()
    }

    fn has_critics(_: &LagSection) -> bool {
        false
    }

    fn new(section: &LagSection, spec: &EnvSpec, rng: &mut Rng) -> Result<Self, ConfigError> {
        Ok(Self { lambdas: Lambdas::new(&section.multipliers, spec, rng)? })
    }

    fn observe(&mut self, ended: &[Episode]) {
        self.lambdas.answer(ended);
    }

    fn shape(&mut self, batch: &mut Batch) {
        let spreads: Vec<f64> = batch.signals.iter().map(|signal| deviation(signal)).collect();
        self.lambdas.measure(&spreads);
        let (reward, costs) = batch.signals.split_at_mut(1);
        for (weight, costs) in self.lambdas.weights().iter().zip(costs) {
            reward[0].iter_mut().zip(costs).for_each(|(r, c)| *r -= *weight as f32 * *c);
        }
        batch.signals.truncate(1);
    }

    fn update(&mut self, ppo: &mut Ppo, Part { rows, rate, .. }: Part) -> Figures {
        ppo.update(rows, rate, &Reward)
    }

    fn conclude(&self, record: &mut Record) {
        self.lambdas.note(record);
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.lambdas.walk(walk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multipliers::Each;
    use cmdp::{Constraint, Env as _, PointMass};

    #[test]
    fn the_reward_is_shaped_by_hand() {
        let texts = ["force<=0.1", "sum(force)<=5"];
        let constraints = Constraint::parse_all(&texts, &PointMass::COSTS).unwrap();
        let task = PointMass::new(constraints).unwrap();
        let rule = Rule::Fixed { lambda: Each::List(vec![2.0, 0.5]) };
        let lambdas = Lambdas::new(&rule, task.spec(), &mut cmdp::rng([0; 4])).unwrap();
        let mut batch = Batch {
            signals: vec![vec![1.0, 2.0], vec![0.25, -0.25], vec![1.0, 3.0]],
            ..Batch::default()
        };
        Shaped { lambdas }.shape(&mut batch);
        // Deviations 0.5, 0.25, 1: weights 2·2 and 0.5·0.5. 1 - 1 - 0.25, 2 + 1 - 0.75; the costs are gone.
        assert_eq!(batch.signals, [[-0.25, 2.25]]);
    }
}
