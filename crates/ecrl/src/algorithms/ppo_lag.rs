//! PPO-Lagrangian: PPO with a Lagrange multiplier on each constraint.
//!
//! The policy ascends the advantage of the Lagrangian, with advantages A_i of the costs by critics of
//! their own, as IPO has them:
//!
//! ```text
//! A = ( A_r - Σ_i λ_i A_i ) / ( 1 + Σ_i λ_i )          -mean min( ρA, clip(ρ, 1-c, 1+c) A )
//! ```
//!
//! and the multipliers follow a rule of `multipliers/`, by default the paper's ascent over the episodes
//! that ended in what was just played: `λ_i ← max(0, λ_i + η·mean(J_Ci - ε_i))`.
//!
//! 1. Ray, Achiam & Amodei, Benchmarking Safe Exploration in Deep Reinforcement Learning, 2019.

use cmdp::{Constraint, EnvSpec, Episode, Rng};
use serde::{Deserialize, Serialize};

use crate::algorithm::Definition;
use crate::config::{ConfigError, Section};
use crate::learners::ppo::{Objective, Ppo, PpoConfig, Terms};
use crate::metrics::{About, Figures, Record};
use crate::multipliers::{LAMBDA_LEARNER, Multipliers, Rule};
use crate::state::{StateError, Walk};

use super::on_policy::{OnPolicy, Part, Variant, lagrangian};

/// `ppo-lag`
pub static PPO_LAG: Definition<OnPolicy<Lagrangian>> = Definition {
    name: "ppo-lag",
    description: "PPO with a Lagrange multiplier on each constraint (Ray et al., 2019)",
    defaults: LagSection::default,
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

impl Default for LagSection {
    fn default() -> Self {
        // A batch of 2048 steps moves λ once: the paper's η of 1e-5 would leave it where it is.
        Self {
            ppo: PpoConfig::fast(),
            multipliers: Rule::Ascent { lambda: 0.001.into(), eta: 1.0.into() },
        }
    }
}

impl Section for LagSection {
    fn validate(&self) -> Result<(), ConfigError> {
        self.ppo.validate()?;
        self.multipliers.validate_alone()
    }

    fn length_matters(&self) -> bool {
        self.ppo.lr_decay
    }

    fn running(&self) -> usize {
        self.ppo.envs
    }

    fn changeable() -> Vec<&'static str> {
        [&PpoConfig::CHANGEABLE[..], &[Rule::CHANGEABLE]].concat()
    }
}

/// The Lagrangian.
pub struct Lagrangian {
    constraints: Vec<Constraint>,
    multipliers: Box<dyn Multipliers>,
}

impl Objective for Lagrangian {
    fn loss(&self, terms: &mut Terms) {
        let lambdas = self.multipliers.of_learner();
        terms.clipped(&lagrangian(terms.advantage, terms.scale, terms.costs, lambdas), 1.0);
    }
}

impl Variant for Lagrangian {
    type Section = LagSection;
    const USES_COSTS: bool = true;
    const METRICS: &'static [&'static About] = &[&LAMBDA_LEARNER.about];

    fn ppo(section: &LagSection) -> &PpoConfig {
        &section.ppo
    }

    fn new(section: &LagSection, spec: &EnvSpec, rng: &mut Rng) -> Result<Self, ConfigError> {
        let constraints = spec.constraints.clone();
        let multipliers = section.multipliers.build(constraints.len(), 0, rng)?;
        Ok(Self { multipliers, constraints })
    }

    fn observe(&mut self, ended: &[Episode]) {
        let values: Vec<Vec<f64>> = ended.iter().map(Episode::constraint_values).collect();
        self.multipliers.update_learner(&values, &self.constraints);
    }

    fn update(&mut self, ppo: &mut Ppo, Part { rows, rate, .. }: Part) -> Figures {
        ppo.update(rows, rate, self)
    }

    fn conclude(&self, record: &mut Record) {
        record.set(&LAMBDA_LEARNER, self.multipliers.of_learner().to_vec());
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.multipliers.walk(walk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learners::ppo::tests::{by_hand, by_hand_scaled};
    use cmdp::{Aggregate, Step};

    fn lagrangian(lambda: f64, eta: f64) -> Lagrangian {
        let constraint =
            Constraint { name: "c".into(), aggregate: Aggregate::Mean, threshold: 0.5 };
        let rule = Rule::Ascent { lambda: lambda.into(), eta: eta.into() };
        let multipliers = rule.build(1, 0, &mut cmdp::rng([0; 4])).unwrap();
        Lagrangian { constraints: vec![constraint], multipliers }
    }

    #[test]
    fn the_lagrangian_by_hand() {
        // λ = 3: A = (1 - 3·2)/4 = -1.25 and (-1 + 3·1)/4 = 0.5.
        // min(2·-1.25, 1.2·-1.25) = -2.5; min(0.5·0.5, 0.8·0.5) = 0.25; mean -1.125.
        let losses = by_hand(&[2.0, 0.5], &[1.0, -1.0], &[2.0, -1.0], &lagrangian(3.0, 0.0));
        assert!((losses.actor - 1.125).abs() < 1e-6, "{losses:?}");
        // The same advantages, the reward's and its alone divided by 2: so is everything.
        let advantage = (&[0.5, -0.5][..], 2.0);
        let losses = by_hand_scaled(&[2.0, 0.5], advantage, &[2.0, -1.0], &lagrangian(3.0, 0.0));
        assert!((losses.actor - 1.125 / 2.0).abs() < 1e-6, "{losses:?}");
        // λ = 0 is PPO: 0.2, see there.
        let losses = by_hand(&[2.0, 0.5], &[1.0, -1.0], &[2.0, -1.0], &lagrangian(0.0, 0.0));
        assert!((losses.actor + 0.2).abs() < 1e-6, "{losses:?}");
    }

    #[test]
    fn the_multiplier_follows_the_episodes_that_ended() {
        let mut lagrangian = lagrangian(0.25, 2.0);
        lagrangian.observe(&[]);
        assert_eq!(lagrangian.multipliers.of_learner(), [0.25], "none has ended");
        let step = Step { reward: 0.0, terminated: false, truncated: false, unstable: false };
        let episodes = [0.75, 1.0].map(|cost| {
            let mut episode = Episode::new(&lagrangian.constraints);
            episode.push(&step, &[cost]);
            episode
        });
        lagrangian.observe(&episodes);
        // 0.25 + 2·mean(0.25, 0.5)
        assert_eq!(lagrangian.multipliers.of_learner(), [1.0]);
    }
}
