//! PDAC: Borkar's actor-critic for constrained problems, plain policy gradients on several time scales.
//!
//! Of every small batch, once,
//!
//! ```text
//! critics   descend  mean (V_i - R_i)²                                   at the rate a_n
//! policy    descends -mean ρ·( A_r - Σ_i w_i A_i ) / ( 1 + Σ_i w_i )     at the rate b_n
//! λ_i       ← max( 0, λ_i + c_n·min( 4, mean(J_Ci - ε_i)/ε_i ) )         w_i = λ_i·d_r/d_i
//! a_n, b_n  = a, b·( 1 + n/h )^-p      c_n = c·( 1 + n/h )^-q      p < q
//! ```
//!
//! so that in the end the critics and the policy see multipliers that stand still, and the multipliers see a
//! policy that has settled: the condition under which it converges. Steps follow Adam; w_i is as in `ppo-lag`.
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
use crate::multipliers::falling::fallen;
use crate::multipliers::{LAMBDA_LEARNER, Lambdas, Rule};
use crate::state::{StateError, Walk};

use super::on_policy::{KL, OnPolicy, Part, Variant, lagrangian};

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
    /// The time scale of critics and policy.
    pub pdac: PdacConfig,
    /// That of the multipliers.
    pub multipliers: Rule,
}

/// The time scale of critics and policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PdacConfig {
    /// Learning rate of the policy, b.
    pub actor_lr: f64,
    /// How fast the rates of critics and policy fall, p; less than that of the multipliers.
    pub power: f64,
    /// Batches after which they begin to fall in earnest, h.
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
            pdac: PdacConfig { actor_lr: 1e-3, power: 0.55, horizon: 500.0 },
            multipliers: Rule::falling(),
        }
    }
}

impl Section for PdacSection {
    fn validate(&self) -> Result<(), ConfigError> {
        self.actor_critic.validate()?;
        range::positive("pdac.actor_lr", self.pdac.actor_lr)?;
        range::share("pdac.power", self.pdac.power)?;
        range::positive("pdac.horizon", self.pdac.horizon)?;
        self.multipliers.validate_alone()?;
        // Two time scales: the multipliers must come to see a policy that has settled.
        let slower = |q: f64| {
            let p = self.pdac.power;
            range::check(p < q, "pdac.power", p, "a number below multipliers.power")
        };
        match self.multipliers {
            Rule::Falling { power, .. } => slower(power),
            _ => Ok(()),
        }
    }

    fn pace(&self) -> Pace {
        self.actor_critic.pace()
    }

    fn changeable() -> Vec<&'static str> {
        let own = ["pdac.actor_lr", "pdac.power", "pdac.horizon", Rule::CHANGEABLE];
        [&ActorCriticConfig::CHANGEABLE[..], &own].concat()
    }
}

/// The Lagrangian, and how far time has come.
pub struct Pdac {
    config: PdacConfig,
    lambdas: Lambdas,
    /// n
    batches: u64,
}

impl Objective for Pdac {
    fn loss(&self, terms: &mut Terms) {
        let weights = self.lambdas.weights();
        let advantage = lagrangian(terms.advantage, terms.scale, terms.costs, &weights);
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

    fn new(section: &PdacSection, spec: &EnvSpec, rng: &mut Rng) -> Result<Self, ConfigError> {
        let lambdas = Lambdas::new(&section.multipliers, spec, rng)?;
        Ok(Self { config: section.pdac.clone(), lambdas, batches: 0 })
    }

    fn observe(&mut self, ended: &[Episode]) {
        self.batches += 1;
        self.lambdas.answer(ended);
    }

    fn begin(&mut self, ppo: &Ppo) {
        self.lambdas.measure(&ppo.spreads());
    }

    fn update(&mut self, ppo: &mut Ppo, Part { rows, rate, .. }: Part) -> Figures {
        let PdacConfig { actor_lr, power, horizon } = self.config;
        let fallen = fallen(self.batches, horizon, power);
        // However the critics' rate falls otherwise, the policy's falls along.
        let whole = rate / ppo.config().actor_critic.lr;
        ppo.update_at(rows, [whole * fallen * actor_lr, fallen * rate], self)
    }

    fn conclude(&self, record: &mut Record) {
        self.lambdas.note(record);
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.lambdas.walk(walk)?;
        walk.plain("batches", &mut self.batches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_multipliers_are_on_the_slower_time_scale() {
        let with = |power, multipliers| {
            let mut section = PdacSection { multipliers, ..PdacSection::default() };
            section.pdac.power = power;
            section.validate()
        };
        assert_eq!(with(0.79, Rule::falling()), Ok(()));
        let error = with(0.8, Rule::falling()).unwrap_err().to_string();
        assert!(error.contains("pdac.power") && error.contains("multipliers.power"), "{error}");
        assert_eq!(with(0.9, Rule::relative()), Ok(()), "which does not fall");
    }
}
