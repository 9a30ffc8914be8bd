//! How Lagrange multipliers λ answer violations: who owns them, and how they move.
//!
//! A [`Rule`] is a value of the configuration; what it makes, [`Multipliers`], is a part that any
//! algorithm can hold. Every constraint has a multiplier of its own.

mod ascent;
mod fixed;
mod per_actor;

use cmdp::{Constraint, Rng};
use serde::{Deserialize, Serialize};

pub use ascent::Ascent;
pub use fixed::Fixed;
pub use per_actor::PerActor;

use crate::config::{ConfigError, range};
use crate::metrics::Metric;
use crate::state::{StateError, Walk};

/// The learner's multipliers.
pub static LAMBDA_LEARNER: Metric<Vec<f64>> =
    Metric::new("lambda_learner", "lambda", "λ", "The learner's multipliers after the generation");

/// A preset's part: the values of the authors' code.
pub const AUTHORS_ASCENT: &str = "[multipliers]\nlambda = 1e-4\neta = 1e-4\n";

/// The multipliers of a run.
pub trait Multipliers: Send + Sync {
    /// The learner's, λ_π.
    fn of_learner(&self) -> &[f64];

    /// Those of a slot of the population, λ_k.
    fn of_actor(&self, slot: usize) -> &[f64] {
        let _ = slot;
        self.of_learner()
    }

    /// Takes note of the episodes of a generation, each by its values J_C.
    fn remember(&mut self, generation: &[Vec<f64>]) {
        let _ = generation;
    }

    /// The learner's answer the episodes of a generation.
    fn update_learner(&mut self, generation: &[Vec<f64>], constraints: &[Constraint]) {
        let (_, _) = (generation, constraints);
    }

    /// A slot's answer what was remembered.
    fn update_actor(&mut self, slot: usize, constraints: &[Constraint], rng: &mut Rng) {
        let (_, _, _) = (slot, constraints, rng);
    }

    /// Walks everything that lasts.
    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError>;
}

/// Who owns multipliers and how they move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum Rule {
    /// λ = 0: constraints are measured and nothing else.
    None,
    /// The same for everyone, throughout.
    Fixed {
        /// λ. Paper: 0.001.
        #[serde(default = "lambda")]
        lambda: f64,
    },
    /// The learner's, by gradient ascent, for everyone.
    Ascent {
        /// λ at the start. Paper: 0.001.
        #[serde(default = "lambda")]
        lambda: f64,
        /// Learning rate η; more reacts faster and overshoots. Paper: 1e-5.
        #[serde(default = "eta")]
        eta: f64,
    },
    /// Each actor its own, by gradient ascent on a batch from the constraint buffer; the learner has
    /// its own, too.
    PerActor {
        /// The learner's λ at the start. Paper: 0.001.
        #[serde(default = "lambda")]
        lambda: f64,
        /// An actor's λ starts uniformly between 0 and this. Paper: 1.
        #[serde(default = "actor_lambda")]
        actor_lambda: f64,
        /// Learning rate η; more reacts faster and overshoots. Paper: 1e-5.
        #[serde(default = "eta")]
        eta: f64,
        /// Episodes whose J_C the constraint buffer keeps, the newest. Paper: 100.
        #[serde(default = "buffer")]
        buffer: usize,
        /// Episodes drawn from it for one update of an actor's λ. Paper: 32.
        #[serde(default = "buffer_batch")]
        buffer_batch: usize,
    },
}

fn lambda() -> f64 {
    0.001
}

fn actor_lambda() -> f64 {
    1.0
}

fn eta() -> f64 {
    1e-5
}

fn buffer() -> usize {
    100
}

fn buffer_batch() -> usize {
    32
}

impl Rule {
    /// A fixed λ, the paper's.
    pub fn fixed() -> Self {
        Self::Fixed { lambda: lambda() }
    }

    /// The paper's ascent.
    pub fn ascent() -> Self {
        Self::Ascent { lambda: lambda(), eta: eta() }
    }

    /// The paper's own.
    pub fn per_actor() -> Self {
        Self::PerActor {
            lambda: lambda(),
            actor_lambda: actor_lambda(),
            eta: eta(),
            buffer: buffer(),
            buffer_batch: buffer_batch(),
        }
    }

    /// Checks every value against its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match *self {
            Self::None => Ok(()),
            Self::Fixed { lambda } => range::not_negative("multipliers.lambda", lambda),
            Self::Ascent { lambda, eta } => {
                range::not_negative("multipliers.lambda", lambda)?;
                range::not_negative("multipliers.eta", eta)
            }
            Self::PerActor { lambda, actor_lambda, eta, buffer, buffer_batch } => {
                range::not_negative("multipliers.actor_lambda", actor_lambda)?;
                range::check(buffer > 0, "multipliers.buffer", buffer, "at least 1")?;
                range::check(
                    (1..=buffer).contains(&buffer_batch),
                    "multipliers.buffer_batch",
                    buffer_batch,
                    "at least 1 and at most multipliers.buffer",
                )?;
                range::not_negative("multipliers.lambda", lambda)?;
                range::not_negative("multipliers.eta", eta)
            }
        }
    }

    /// The same for algorithms without a population, which has no actors to own any.
    pub fn validate_alone(&self) -> Result<(), ConfigError> {
        let alone = !matches!(self, Self::PerActor { .. });
        range::check(
            alone,
            "multipliers.rule",
            "per-actor",
            "none, fixed or ascent: no population",
        )?;
        self.validate()
    }

    /// The multipliers at the start of a run, for so many constraints and slots of a population.
    pub fn build(&self, constraints: usize, slots: usize, rng: &mut Rng) -> Box<dyn Multipliers> {
        match *self {
            Self::None => Box::new(Fixed::new(0.0, constraints)),
            Self::Fixed { lambda } => Box::new(Fixed::new(lambda, constraints)),
            Self::Ascent { lambda, eta } => Box::new(Ascent::new(lambda, eta, constraints)),
            Self::PerActor { lambda, actor_lambda, eta, buffer, buffer_batch } => {
                let learner = Ascent::new(lambda, eta, constraints);
                Box::new(PerActor::new(learner, actor_lambda, slots, buffer, buffer_batch, rng))
            }
        }
    }
}
