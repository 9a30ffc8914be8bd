//! TRPO: the step up the reward that keeps the policy near the one that played.
//!
//! ```text
//! x = sqrt(2δ/gᵀH⁻¹g)·H⁻¹g
//! ```
//!
//! `trpo-lag` goes up the Lagrangian, `(A_r - Σ_i w_i A_i)/(1 + Σ_i w_i)`, with multipliers that follow a rule
//! of `multipliers/`; as in `ppo-lag`, w_i is λ_i times the deviation of the reward's advantages over that of the cost's.
//!
//! 1. Schulman et al., Trust Region Policy Optimization, ICML 2015.
//! 2. Ray, Achiam & Amodei, Benchmarking Safe Exploration in Deep Reinforcement Learning, 2019.

use cmdp::{EnvSpec, Episode, Rng};
use serde::{Deserialize, Serialize};

use crate::algorithm::Definition;
use crate::config::{ConfigError, Pace, Section};
use crate::learners::ppo::{ActorCriticConfig, Ppo, PpoConfig};
use crate::learners::trust_region::Problem;
use crate::metrics::{About, Figures, Record};
use crate::multipliers::{LAMBDA_LEARNER, Lambdas, Rule};
use crate::state::{StateError, Walk};

use super::on_policy::{OnPolicy, Part, Variant, lagrangian};
use super::trust_region::{STEPS, Stepped, TrustRegionConfig, improve};

/// `trpo`
pub static TRPO: Definition<OnPolicy<Reward>> = Definition {
    name: "trpo",
    description: "steps within a trust region, by reward alone (Schulman et al., 2015)",
    defaults: TrustRegionSection::default,
    presets: &[],
};

/// `trpo-lag`
pub static TRPO_LAG: Definition<OnPolicy<Lagrangian>> = Definition {
    name: "trpo-lag",
    description: "TRPO with a Lagrange multiplier on each constraint (Ray et al., 2019)",
    defaults: LagSection::default,
    presets: &[],
};

/// The values of the whole family: batches large enough to tell how a constraint stands.
pub fn batches() -> ActorCriticConfig {
    ActorCriticConfig { collect: 4096, batch: 128, lr: 1e-3, ..ActorCriticConfig::default() }
}

/// The configuration of those without multipliers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrustRegionSection {
    /// Networks, batches and critics.
    pub actor_critic: ActorCriticConfig,
    /// The policy's steps.
    pub trust_region: TrustRegionConfig,
}

impl Default for TrustRegionSection {
    fn default() -> Self {
        Self { actor_critic: batches(), trust_region: TrustRegionConfig::default() }
    }
}

impl Section for TrustRegionSection {
    fn validate(&self) -> Result<(), ConfigError> {
        self.actor_critic.validate()?;
        self.trust_region.validate()
    }

    fn pace(&self) -> Pace {
        self.actor_critic.pace()
    }

    fn changeable() -> Vec<&'static str> {
        [&ActorCriticConfig::CHANGEABLE[..], &TrustRegionConfig::CHANGEABLE].concat()
    }
}

/// The configuration with multipliers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LagSection {
    /// Networks, batches and critics.
    pub actor_critic: ActorCriticConfig,
    /// The policy's steps.
    pub trust_region: TrustRegionConfig,
    /// The multipliers of the constraints.
    pub multipliers: Rule,
}

impl Default for LagSection {
    fn default() -> Self {
        let TrustRegionSection { actor_critic, trust_region } = TrustRegionSection::default();
        Self { actor_critic, trust_region, multipliers: Rule::relative() }
    }
}

impl Section for LagSection {
    fn validate(&self) -> Result<(), ConfigError> {
        self.actor_critic.validate()?;
        self.trust_region.validate()?;
        self.multipliers.validate_alone()
    }

    fn pace(&self) -> Pace {
        self.actor_critic.pace()
    }

    fn changeable() -> Vec<&'static str> {
        [&TrustRegionSection::changeable()[..], &[Rule::CHANGEABLE]].concat()
    }
}

/// The reward and nothing else.
pub struct Reward {
    config: TrustRegionConfig,
    stepped: Stepped,
}

impl Variant for Reward {
    type Section = TrustRegionSection;
    const USES_COSTS: bool = false;
    const UPDATES: &'static [&'static About] = &[];
    const METRICS: &'static [&'static About] = STEPS;

    fn ppo(section: &TrustRegionSection) -> PpoConfig {
        section.actor_critic.ppo()
    }

    fn new(section: &TrustRegionSection, _: &EnvSpec, _: &mut Rng) -> Result<Self, ConfigError> {
        Ok(Self { config: section.trust_region.clone(), stepped: Stepped::default() })
    }

    fn update(&mut self, ppo: &mut Ppo, Part { rows, rate, first }: Part) -> Figures {
        if first {
            let advantages = ppo.advantages().0.to_vec();
            self.stepped = improve(ppo, &self.config, &advantages, &[], Problem::free);
        }
        ppo.update_critics(rows, rate)
    }

    fn conclude(&self, record: &mut Record) {
        self.stepped.note(record);
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.stepped.walk(walk)
    }
}

/// The Lagrangian.
pub struct Lagrangian {
    config: TrustRegionConfig,
    lambdas: Lambdas,
    stepped: Stepped,
}

impl Variant for Lagrangian {
    type Section = LagSection;
    const USES_COSTS: bool = true;
    const UPDATES: &'static [&'static About] = &[];
    const METRICS: &'static [&'static About] =
        &[STEPS[0], STEPS[1], STEPS[2], &LAMBDA_LEARNER.about];

    fn ppo(section: &LagSection) -> PpoConfig {
        section.actor_critic.ppo()
    }

    fn new(section: &LagSection, spec: &EnvSpec, rng: &mut Rng) -> Result<Self, ConfigError> {
        let lambdas = Lambdas::new(&section.multipliers, spec, rng)?;
        Ok(Self { config: section.trust_region.clone(), lambdas, stepped: Stepped::default() })
    }

    fn observe(&mut self, ended: &[Episode]) {
        self.lambdas.answer(ended);
    }

    fn begin(&mut self, ppo: &Ppo) {
        self.lambdas.measure(&ppo.spreads());
    }

    fn update(&mut self, ppo: &mut Ppo, Part { rows, rate, first }: Part) -> Figures {
        if first {
            let (reward, costs) = ppo.advantages();
            let advantages = lagrangian(reward, 1.0, costs, &self.lambdas.weights());
            self.stepped = improve(ppo, &self.config, &advantages, &[], Problem::free);
        }
        ppo.update_critics(rows, rate)
    }

    fn conclude(&self, record: &mut Record) {
        self.stepped.note(record);
        self.lambdas.note(record);
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.lambdas.walk(walk)?;
        self.stepped.walk(walk)
    }
}
