//! PDAC: Borkar's actor-critic for constrained problems, plain policy gradients on several time scales.
//!
//! Of every small batch, once,
//!
//! ```text
//! critics   descend  mean (V_i - R_i)²                                   at the rate a_n
//! policy    descends -mean ρ·( A_r - Σ_i w_i A_i ) / ( 1 + Σ_i w_i )     at the rate b_n
//! λ_i       ← max( 0, λ_i + c_n·min( 1, mean(J_Ci - ε_i)/ε_i ) )
//! a_n, b_n  = a, b·( 1 + n/h )^-p      c_n = c·( 1 + n/h )^-q      p < q
//! ```
//!
//! so that in the end the critics and the policy see multipliers that stand still, and the multipliers see a
//! policy that has settled: the condition under which it converges. Steps follow Adam. As in `ppo-lag`, w_i is
//! λ_i times the reward's unit over the cost's.
//!
//! 1. Borkar, An Actor-Critic Algorithm for Constrained Markov Decision Processes, Systems & Control Letters
//!    54, 2005.

use cmdp::{EnvSpec, Episode, Rng};
use serde::{Deserialize, Serialize};

use crate::algorithm::Definition;
use crate::config::{ConfigError, Pace, Section, range};
use crate::learners::ppo::{ActorCriticConfig, Objective, Ppo, PpoConfig, Terms};
use crate::learners::{ACTOR_LOSS, ENTROPY};
use crate::metrics::{About, Figures, Record};
use crate::multipliers::{Ascent, Each, LAMBDA_LEARNER, Multipliers as _};
use crate::state::{StateError, Walk};

use super::on_policy::{KL, OnPolicy, Part, Variant, lagrangian, weights};

/// `pdac`
pub static PDAC: Definition<OnPolicy<Pdac>> = Definition {
    name: "pdac",
    description: "primal-dual actor-critic on several time scales (Borkar, 2005)",
    defaults: PdacSection::default,
    presets: &[],
};

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PdacSection {
    /// Networks, batches and critics; its learning rate is that of the critics, a.
    pub actor_critic: ActorCriticConfig,
    /// The time scales.
    pub pdac: PdacConfig,
}

/// The time scales.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PdacConfig {
    /// Learning rate of the policy, b.
    pub actor_lr: f64,
    /// λ at the start.
    pub lambda: Each,
    /// Rate of the multipliers, c; more reacts faster and overshoots.
    pub eta: f64,
    /// How fast the rates of critics and policy fall, p.
    pub fast: f64,
    /// How fast that of the multipliers does, q; must be more.
    pub slow: f64,
    /// Batches after which rates begin to fall in earnest, h.
    pub horizon: f64,
}

impl Default for PdacSection {
    fn default() -> Self {
        Self {
            actor_critic: ActorCriticConfig {
                collect: 512,
                epochs: 1,
                batch: 512,
                lr: 3e-3,
                lr_decay: false,
                ..ActorCriticConfig::default()
            },
            pdac: PdacConfig {
                actor_lr: 1e-3,
                lambda: 0.001.into(),
                eta: 0.02,
                fast: 0.55,
                slow: 0.8,
                horizon: 500.0,
            },
        }
    }
}

impl Section for PdacSection {
    fn validate(&self) -> Result<(), ConfigError> {
        let PdacConfig { actor_lr, lambda, eta, fast, slow, horizon } = &self.pdac;
        self.actor_critic.validate()?;
        range::positive("pdac.actor_lr", *actor_lr)?;
        lambda.validate("pdac.lambda")?;
        range::not_negative("pdac.eta", *eta)?;
        range::check(
            (0.0..=1.0).contains(fast) && fast < slow,
            "pdac.fast",
            fast,
            "a number from 0 to 1 and below pdac.slow",
        )?;
        range::check((0.0..=1.0).contains(slow), "pdac.slow", slow, "a number from 0 to 1")?;
        range::positive("pdac.horizon", *horizon)
    }

    fn pace(&self) -> Pace {
        self.actor_critic.pace()
    }

    fn changeable() -> Vec<&'static str> {
        let own = ["pdac.actor_lr", "pdac.eta", "pdac.fast", "pdac.slow", "pdac.horizon"];
        [&ActorCriticConfig::CHANGEABLE[..], &own].concat()
    }
}

/// The Lagrangian, and how far time has come.
pub struct Pdac {
    config: PdacConfig,
    constraints: Vec<cmdp::Constraint>,
    lambda: Vec<f64>,
    /// n
    batches: u64,
}

impl Pdac {
    /// ( 1 + n/h )^-power
    fn fallen(&self, power: f64) -> f64 {
        (1.0 + self.batches as f64 / self.config.horizon).powf(-power)
    }
}

impl Objective for Pdac {
    fn loss(&self, terms: &mut Terms) {
        let weights = weights(&self.lambda, terms.units);
        let advantage = lagrangian(terms.advantage, terms.scale, terms.costs, weights);
        let count = terms.count();
        for ((slope, ratio), a) in terms.slopes.iter_mut().zip(terms.ratios).zip(advantage) {
            *slope -= ratio * a / count as f32;
            terms.loss -= f64::from(ratio * a) / count;
        }
    }
}

impl Variant for Pdac {
    type Section = PdacSection;
    const USES_COSTS: bool = true;
    const UPDATES: &'static [&'static About] = &[&ACTOR_LOSS.about, &ENTROPY.about, &KL.about];
    const METRICS: &'static [&'static About] = &[&LAMBDA_LEARNER.about];

    fn ppo(section: &PdacSection) -> PpoConfig {
        section.actor_critic.ppo()
    }

    fn new(section: &PdacSection, spec: &EnvSpec, _: &mut Rng) -> Result<Self, ConfigError> {
        let constraints = spec.constraints.clone();
        let lambda = section.pdac.lambda.of("pdac.lambda", constraints.len())?;
        Ok(Self { config: section.pdac.clone(), constraints, lambda, batches: 0 })
    }

    fn observe(&mut self, ended: &[Episode]) {
        self.batches += 1;
        let values: Vec<Vec<f64>> = ended.iter().map(Episode::constraint_values).collect();
        let rate = vec![self.config.eta * self.fallen(self.config.slow); self.lambda.len()];
        let mut ascent = Ascent::new(std::mem::take(&mut self.lambda), rate).relative();
        ascent.step(&values, &self.constraints);
        self.lambda = ascent.of_learner().to_vec();
    }

    fn update(&mut self, ppo: &mut Ppo, Part { rows, rate, .. }: Part) -> Figures {
        let fallen = self.fallen(self.config.fast);
        // However the critics' rate falls otherwise, the policy's falls along.
        let whole = rate / ppo.config().lr;
        ppo.update_at(rows, [whole * fallen * self.config.actor_lr, fallen * rate], self)
    }

    fn conclude(&self, record: &mut Record) {
        record.set(&LAMBDA_LEARNER, self.lambda.clone());
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        walk.numbers("lambda", &mut self.lambda)?;
        walk.plain("batches", &mut self.batches)
    }
}
