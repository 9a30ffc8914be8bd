//! RCPO on PPO: PPO on a reward that is shaped by Lagrange multipliers.
//!
//! One critic learns the return of the shaped reward, and PPO ascends its advantage:
//!
//! ```text
//! r - Σ_i w_i c_i        w_i = λ_i, or where `scaled` λ_i·d_r/d_i
//! ```
//!
//! where d are deviations of the reward and of the cost of a step, smoothed over batches: then λ has no unit, and the
//! same rates serve a mean torque of 0.4 and a sum of 25. The multipliers follow a rule of `multipliers/`, slowly
//! against what the critic and the policy learn. As in all of the family, the cost of a constraint on a mean is
//! centred first.
//!
//! 1. Tessler, Mankowitz & Mannor, Reward Constrained Policy Optimization, ICLR 2019.

use cmdp::{EnvSpec, Episode, Rng};
use serde::{Deserialize, Serialize};

use crate::algorithm::Definition;
use crate::config::{ConfigError, Pace, Section};
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
    defaults: || {
        let LagSection { ppo, multipliers } = LagSection::new(Rule::relative());
        RcpoSection { ppo, multipliers, rcpo: RcpoConfig::default() }
    },
    presets: &[],
};

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RcpoSection {
    /// The learner.
    pub ppo: PpoConfig,
    /// The multipliers of the constraints.
    pub multipliers: Rule,
    /// What they weigh.
    pub rcpo: RcpoConfig,
}

/// What multipliers weigh.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RcpoConfig {
    /// Whether λ has no unit, by the deviations of the reward and of the cost of a step; otherwise it is reward for
    /// cost. It then comes to keep a cost that is small beside the reward, such as a torque, and may react too fast for
    /// one that is rare.
    pub scaled: bool,
}

impl Section for RcpoSection {
    fn validate(&self) -> Result<(), ConfigError> {
        self.ppo.validate()?;
        self.multipliers.validate_alone()
    }

    fn pace(&self) -> Pace {
        self.ppo.pace()
    }

    fn changeable() -> Vec<&'static str> {
        LagSection::changeable()
    }
}

/// The shaped reward.
pub struct Shaped {
    lambdas: Lambdas,
    scaled: bool,
}

impl Variant for Shaped {
    type Section = RcpoSection;
    const USES_COSTS: bool = true;
    const METRICS: &'static [&'static About] = &[&LAMBDA_LEARNER.about];

    fn ppo(section: &RcpoSection) -> PpoConfig {
        section.ppo.clone()
    }

    fn has_critics(_: &RcpoSection) -> bool {
        false
    }

    fn new(section: &RcpoSection, spec: &EnvSpec, rng: &mut Rng) -> Result<Self, ConfigError> {
        let lambdas = Lambdas::new(&section.multipliers, spec, rng)?;
        Ok(Self { lambdas, scaled: section.rcpo.scaled })
    }

    fn observe(&mut self, ended: &[Episode]) {
        self.lambdas.answer(ended);
    }

    fn shape(&mut self, batch: &mut Batch) {
        if self.scaled {
            let spreads: Vec<f64> = batch.signals.iter().map(|signal| deviation(signal)).collect();
            self.lambdas.measure(&spreads);
        }
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
        let batch = Batch {
            signals: vec![vec![1.0, 2.0], vec![0.25, -0.25], vec![1.0, 3.0]],
            ..Batch::default()
        };
        let (mut shaped, mut plain, mut scaled) =
            (Shaped { lambdas, scaled: false }, batch.clone(), batch);
        shaped.shape(&mut plain);
        // 1 - 0.5 - 0.5, 2 + 0.5 - 1.5; the costs are gone.
        assert_eq!(plain.signals, [[0.0, 1.0]]);
        shaped.scaled = true;
        shaped.shape(&mut scaled);
        // Deviations 0.5, 0.25, 1: weights 2·2 and 0.5·0.5. 1 - 1 - 0.25, 2 + 1 - 0.75.
        assert_eq!(scaled.signals, [[-0.25, 2.25]]);
    }
}
