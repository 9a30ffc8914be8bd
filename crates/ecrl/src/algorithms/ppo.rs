//! PPO by reward alone: the unconstrained reference of the on-policy family.
//!
//! ```text
//! -mean min( ρA, clip(ρ, 1-c, 1+c) A ) - entropy_coef·H + value_coef·mean (V - R)²
//! ```
//!
//! 1. Schulman et al., Proximal Policy Optimization Algorithms, 2017.

use cmdp::{EnvSpec, Rng};
use serde::{Deserialize, Serialize};

use crate::algorithm::{Definition, PAPER};
use crate::config::{ConfigError, Pace, Section};
use crate::learners::ppo::{Objective, Ppo, PpoConfig, Terms};
use crate::metrics::Figures;

use super::on_policy::{FAST, OnPolicy, Part, Variant};

/// `ppo`
pub static PPO: Definition<OnPolicy<Reward>> = Definition {
    name: "ppo",
    description: "PPO by reward alone (Schulman et al., 2017)",
    defaults: PpoSection::default,
    presets: &[PAPER, FAST],
};

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PpoSection {
    /// The learner.
    pub ppo: PpoConfig,
}

impl Section for PpoSection {
    fn validate(&self) -> Result<(), ConfigError> {
        self.ppo.validate()
    }

    fn pace(&self) -> Pace {
        self.ppo.pace()
    }

    fn changeable() -> Vec<&'static str> {
        PpoConfig::CHANGEABLE.to_vec()
    }
}

/// The reward and nothing else.
pub struct Reward;

impl Objective for Reward {
    fn loss(&self, terms: &mut Terms) {
        terms.clipped(terms.advantage, 1.0);
    }
}

impl Variant for Reward {
    type Section = PpoSection;
    const USES_COSTS: bool = false;

    fn ppo(section: &PpoSection) -> PpoConfig {
        section.ppo.clone()
    }

    fn new(_: &PpoSection, _: &EnvSpec, _: &mut Rng) -> Result<Self, ConfigError> {
        Ok(Self)
    }

    fn update(&mut self, ppo: &mut Ppo, Part { rows, rate, .. }: Part) -> Figures {
        ppo.update(rows, rate, self)
    }
}
