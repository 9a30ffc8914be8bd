//! PPO-Lagrangian: PPO with a Lagrange multiplier on each constraint.
//!
//! The policy ascends the advantage of the Lagrangian, with advantages A_i of the costs by critics of
//! their own, as IPO has them:
//!
//! ```text
//! A = ( A_r - Σ_i w_i A_i ) / ( 1 + Σ_i w_i )        w_i = λ_i·d_r/d_i        -mean min( ρA, clip(ρ) A )
//! ```
//!
//! where d are deviations of advantages, smoothed over batches: λ has no unit, and 1 means that a cost weighs as
//! much as the reward, whatever they are measured in. The multipliers follow a rule of `multipliers/` over the
//! episodes that ended in what was just played: for `ppo-lag` ascent by the error divided by the threshold, `λ_i ← max(0, λ_i + η·mean(J_Ci -
//! ε_i)/ε_i)`; for `ppo-pid` a PID controller.
//!
//! 1. Ray, Achiam & Amodei, Benchmarking Safe Exploration in Deep Reinforcement Learning, 2019.
//! 2. Stooke, Achiam & Abbeel, Responsive Safety in Reinforcement Learning by PID Lagrangian Methods, ICML
//!    2020.

use cmdp::{EnvSpec, Episode, Rng};
use serde::{Deserialize, Serialize};

use crate::algorithm::Definition;
use crate::config::{ConfigError, Pace, Section};
use crate::learners::ppo::{Objective, Ppo, PpoConfig, Terms};
use crate::metrics::{About, Figures, Record};
use crate::multipliers::{LAMBDA_LEARNER, Lambdas, Rule};
use crate::state::{StateError, Walk};

use super::on_policy::{OnPolicy, Part, Variant, lagrangian};

/// `ppo-lag`
pub static PPO_LAG: Definition<OnPolicy<Lagrangian>> = Definition {
    name: "ppo-lag",
    description: "PPO with a Lagrange multiplier on each constraint (Ray et al., 2019)",
    defaults: || LagSection::new(Rule::relative()),
    presets: &[],
};

/// `ppo-pid`
pub static PPO_PID: Definition<OnPolicy<Lagrangian>> = Definition {
    name: "ppo-pid",
    description: "PPO with Lagrange multipliers by a PID controller (Stooke et al., 2020)",
    defaults: || LagSection::new(Rule::pid()),
    presets: &[],
};

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LagSection {
    /// The learner.
    pub ppo: PpoConfig,
    /// The multipliers of the constraints.
    pub multipliers: Rule,
}

impl LagSection {
    /// The usual values with a rule.
    pub fn new(multipliers: Rule) -> Self {
        Self { ppo: PpoConfig::fast(), multipliers }
    }
}

impl Section for LagSection {
    fn validate(&self) -> Result<(), ConfigError> {
        self.ppo.validate()?;
        self.multipliers.validate_alone()
    }

    fn pace(&self) -> Pace {
        self.ppo.pace()
    }

    fn changeable() -> Vec<&'static str> {
        [&PpoConfig::CHANGEABLE[..], &[Rule::CHANGEABLE]].concat()
    }
}

/// The Lagrangian.
pub struct Lagrangian {
    lambdas: Lambdas,
}

impl Objective for Lagrangian {
    fn loss(&self, terms: &mut Terms) {
        terms.clipped(
            &lagrangian(terms.advantage, terms.scale, terms.costs, &self.lambdas.weights()),
            1.0,
        );
    }
}

impl Variant for Lagrangian {
    type Section = LagSection;
    const USES_COSTS: bool = true;
    const STATE_VERSION: u32 = 2;
    const METRICS: &'static [&'static About] = &[&LAMBDA_LEARNER.about];

    fn ppo(section: &LagSection) -> PpoConfig {
        section.ppo.clone()
    }

    fn new(section: &LagSection, spec: &EnvSpec, rng: &mut Rng) -> Result<Self, ConfigError> {
        Ok(Self { lambdas: Lambdas::new(&section.multipliers, spec, rng)? })
    }

    fn observe(&mut self, ended: &[Episode]) {
        self.lambdas.answer(ended);
    }

    fn begin(&mut self, ppo: &Ppo) {
        self.lambdas.measure(&ppo.spreads());
    }

    fn update(&mut self, ppo: &mut Ppo, Part { rows, rate, .. }: Part) -> Figures {
        ppo.update(rows, rate, self)
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
    use crate::learners::ppo::tests::{by_hand, by_hand_scaled};
    use cmdp::{Constraint, Env as _, PointMass};

    fn lagrangian(lambda: f64) -> Lagrangian {
        let constraints = Constraint::parse_all(&["force<=0.5"], &PointMass::COSTS).unwrap();
        let (task, rule) =
            (PointMass::new(constraints).unwrap(), Rule::Fixed { lambda: lambda.into() });
        let lambdas = Lambdas::new(&rule, task.spec(), &mut cmdp::rng([0; 4])).unwrap();
        Lagrangian { lambdas }
    }

    #[test]
    fn the_lagrangian_by_hand() {
        // λ = 3: A = (1 - 3·2)/4 = -1.25 and (-1 + 3·1)/4 = 0.5.
        // min(2·-1.25, 1.2·-1.25) = -2.5; min(0.5·0.5, 0.8·0.5) = 0.25; mean -1.125.
        let losses = by_hand(&[2.0, 0.5], &[1.0, -1.0], &[2.0, -1.0], &lagrangian(3.0));
        assert!((losses.actor - 1.125).abs() < 1e-6, "{losses:?}");
        // The same advantages, the reward's and its alone divided by 2: so is everything.
        let advantage = (&[0.5, -0.5][..], 2.0);
        let losses = by_hand_scaled(&[2.0, 0.5], advantage, &[2.0, -1.0], &lagrangian(3.0));
        assert!((losses.actor - 1.125 / 2.0).abs() < 1e-6, "{losses:?}");
        // λ = 0 is PPO: 0.2, see there.
        let losses = by_hand(&[2.0, 0.5], &[1.0, -1.0], &[2.0, -1.0], &lagrangian(0.0));
        assert!((losses.actor + 0.2).abs() < 1e-6, "{losses:?}");
    }
}
