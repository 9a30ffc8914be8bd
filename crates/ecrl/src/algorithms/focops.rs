//! FOCOPS: the best policy near the one that played, found among all policies, then brought back to those
//! that the network can be.
//!
//! Within a divergence δ the best policy is known, `π* ∝ π_old·exp( (A_r - Σ_i w_i A_i)/τ )`; the network
//! descends its divergence from that in minibatches, in states where it has not left the region yet:
//!
//! ```text
//! mean [ D ≤ δ ]·( D - ρA/τ )        A = ( A_r - Σ_i w_i A_i ) / ( 1 + Σ_i w_i )        D = KL(π, π_old)
//! ```
//!
//! with A brought to mean 0 and deviation 1 in a minibatch. The multipliers follow a rule of
//! `multipliers/`; as in `ppo-lag`, w_i is λ_i times the deviation of the reward's advantages over that of the cost's.
//!
//! 1. Zhang, Vuong & Ross, First Order Constrained Optimization in Policy Space, NeurIPS 2020.

use cmdp::{EnvSpec, Episode, Rng};
use serde::{Deserialize, Serialize};

use crate::algorithm::Definition;
use crate::config::{ConfigError, Pace, Section, range};
use crate::learners::ppo::{ActorCriticConfig, Objective, Ppo, PpoConfig, Terms, normalise};
use crate::learners::{ACTOR_LOSS, ENTROPY};
use crate::metrics::{About, Figures, Metric, Record};
use crate::multipliers::{LAMBDA_LEARNER, Lambdas, Rule};
use crate::state::{StateError, Walk};

use super::on_policy::{KL, OnPolicy, Part, Variant, lagrangian};

/// `focops`
pub static FOCOPS: Definition<OnPolicy<Focops>> = Definition {
    name: "focops",
    description: "the best of all policies near by, brought back to the network's (Zhang et al., 2020)",
    defaults: FocopsSection::default,
    presets: &[],
};

/// Rows that have left the region.
pub(super) static LEFT: Metric<f64> = Metric::new(
    "left",
    "train/left",
    "share",
    "The share of samples in whose states the policy has moved further than δ, which are left alone",
);

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FocopsSection {
    /// Networks, batches and critics.
    pub actor_critic: ActorCriticConfig,
    /// The objective.
    pub focops: FocopsConfig,
    /// The multipliers of the constraints.
    pub multipliers: Rule,
}

/// The objective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FocopsConfig {
    /// How far the policy may move in a state.
    pub delta: f64,
    /// Temperature τ; less follows advantages further. Its paper: 1.5.
    pub temperature: f64,
}

impl Default for FocopsSection {
    fn default() -> Self {
        Self {
            actor_critic: ActorCriticConfig::default(),
            focops: FocopsConfig { delta: 0.02, temperature: 1.5 },
            multipliers: Rule::relative(),
        }
    }
}

impl Section for FocopsSection {
    fn validate(&self) -> Result<(), ConfigError> {
        self.actor_critic.validate()?;
        range::positive("focops.delta", self.focops.delta)?;
        range::positive("focops.temperature", self.focops.temperature)?;
        self.multipliers.validate_alone()
    }

    fn pace(&self) -> Pace {
        self.actor_critic.pace()
    }

    fn changeable() -> Vec<&'static str> {
        let own = ["focops.delta", "focops.temperature", Rule::CHANGEABLE];
        [&ActorCriticConfig::CHANGEABLE[..], &own].concat()
    }
}

/// The objective, and the multipliers in force.
pub struct Focops {
    pub(crate) config: FocopsConfig,
    pub(crate) lambdas: Lambdas,
}

impl Objective for Focops {
    fn loss(&self, terms: &mut Terms) {
        let FocopsConfig { delta, temperature } = self.config;
        let (delta, factor) = (delta as f32, 1.0 / temperature as f32);
        let weights = self.lambdas.weights();
        let mut advantage = lagrangian(terms.advantage, terms.scale, terms.costs, &weights);
        normalise(&mut advantage);
        let count = terms.count();
        let mut left = 0.0;
        for (row, a) in advantage.iter().enumerate() {
            let (apart, drawn) = (terms.divergences[row], factor * terms.ratios[row] * a);
            if apart > delta {
                left += 1.0;
                continue;
            }
            terms.loss += f64::from(apart - drawn) / count;
            terms.slopes[row] -= drawn / count as f32;
            terms.d_divergences[row] += 1.0 / count as f32;
        }
        terms.figures.push((&LEFT, left / count));
    }
}

impl Variant for Focops {
    type Section = FocopsSection;
    const USES_COSTS: bool = true;
    const REMEMBERS: bool = true;
    const UPDATES: &'static [&'static About] =
        &[&ACTOR_LOSS.about, &ENTROPY.about, &KL.about, &LEFT.about];
    const METRICS: &'static [&'static About] = &[&LAMBDA_LEARNER.about];

    fn ppo(section: &FocopsSection) -> PpoConfig {
        // It is the Lagrangian's advantages that are normalised.
        PpoConfig { normalise_advantages: false, ..section.actor_critic.ppo() }
    }

    fn new(section: &FocopsSection, spec: &EnvSpec, rng: &mut Rng) -> Result<Self, ConfigError> {
        let lambdas = Lambdas::new(&section.multipliers, spec, rng)?;
        Ok(Self { config: section.focops.clone(), lambdas })
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
