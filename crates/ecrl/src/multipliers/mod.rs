//! How Lagrange multipliers λ answer violations: who owns them, and how they move.
//!
//! A [`Rule`] is a value of the configuration; what it makes, [`Multipliers`], is a part that any
//! algorithm can hold. Every constraint has a multiplier of its own.

mod ascent;
mod each;
pub(crate) mod falling;
mod fixed;
mod lambdas;
mod per_actor;
mod pid;

use cmdp::{Constraint, Rng};
use serde::{Deserialize, Serialize};

pub use ascent::Ascent;
pub use each::Each;
pub use falling::Falling;
pub use fixed::Fixed;
pub use lambdas::Lambdas;
pub use per_actor::PerActor;
pub use pid::{Gains, Pid};

use crate::config::{ConfigError, range};
use crate::metrics::Metric;
use crate::state::{StateError, Walk};

const LAMBDA: &str = "multipliers.lambda";
const ACTOR_LAMBDA: &str = "multipliers.actor_lambda";
const ETA: &str = "multipliers.eta";

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

/// Of each constraint the sum of J_C - ε over episodes, and how many there are.
fn excesses<'a>(
    episodes: impl IntoIterator<Item = &'a Vec<f64>>,
    constraints: &[Constraint],
) -> (Vec<f64>, f64) {
    let (mut sums, mut count) = (vec![0.0; constraints.len()], 0.0);
    for values in episodes {
        count += 1.0;
        for ((sum, value), c) in sums.iter_mut().zip(values).zip(constraints) {
            *sum += value - c.threshold;
        }
    }
    (sums, count)
}

/// The most that an error counts, in thresholds: λ is not to run away while a robot that does not know its
/// constraint yet breaks it thirtyfold. With 1 it answered too late, and swung.
const MOST: f64 = 4.0;

/// Of each constraint the mean of (J_C - ε)/|ε| over episodes (or of J_C - ε, where ε is 0), at most 4. None
/// without episodes.
pub(crate) fn relative_errors<'a>(
    episodes: impl IntoIterator<Item = &'a Vec<f64>>,
    constraints: &[Constraint],
) -> Option<Vec<f64>> {
    let (sums, count) = excesses(episodes, constraints);
    let unit = |c: &Constraint| if c.threshold == 0.0 { 1.0 } else { c.threshold.abs() };
    let errors = sums.iter().zip(constraints).map(|(sum, c)| (sum / (count * unit(c))).min(MOST));
    (count > 0.0).then(|| errors.collect())
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
        lambda: Each,
    },
    /// The learner's, by gradient ascent, for everyone.
    Ascent {
        /// λ at the start. Paper: 0.001.
        #[serde(default = "lambda")]
        lambda: Each,
        /// Learning rate η; more reacts faster and overshoots. Paper: 1e-5.
        #[serde(default = "eta")]
        eta: Each,
    },
    /// The same by the error divided by the threshold, at most 4, so that one η serves bounds of any size.
    Relative {
        /// λ at the start.
        #[serde(default = "lambda")]
        lambda: Each,
        /// Learning rate η; more reacts faster and overshoots.
        #[serde(default = "relative_eta")]
        eta: Each,
    },
    /// The same by steps that grow shorter, as (1 + n/horizon)^-power.
    Falling {
        /// λ at the start.
        #[serde(default = "lambda")]
        lambda: Each,
        /// Learning rate η at the start.
        #[serde(default = "relative_eta")]
        eta: Each,
        /// How fast it falls.
        #[serde(default = "power")]
        power: f64,
        /// Updates after which it begins to fall in earnest.
        #[serde(default = "horizon")]
        horizon: f64,
    },
    /// A PID controller, on the same error: see its gains.
    Pid {
        /// λ at the start.
        #[serde(default = "lambda")]
        lambda: Each,
        /// The gains.
        #[serde(flatten)]
        gains: Gains,
    },
    /// Each actor its own, by gradient ascent on a batch from the constraint buffer; the learner has
    /// its own, too.
    PerActor {
        /// The learner's λ at the start. Paper: 0.001.
        #[serde(default = "lambda")]
        lambda: Each,
        /// An actor's λ starts uniformly between 0 and this. Paper: 1.
        #[serde(default = "actor_lambda")]
        actor_lambda: Each,
        /// Learning rate η; more reacts faster and overshoots. Paper: 1e-5.
        #[serde(default = "eta")]
        eta: Each,
        /// Episodes whose J_C the constraint buffer keeps, the newest. Paper: 100.
        #[serde(default = "buffer")]
        buffer: usize,
        /// Episodes drawn from it for one update of an actor's λ. Paper: 32.
        #[serde(default = "buffer_batch")]
        buffer_batch: usize,
    },
}

fn lambda() -> Each {
    0.001.into()
}

fn actor_lambda() -> Each {
    1.0.into()
}

fn eta() -> Each {
    1e-5.into()
}

fn relative_eta() -> Each {
    0.02.into()
}

fn power() -> f64 {
    0.8
}

fn horizon() -> f64 {
    500.0
}

fn buffer() -> usize {
    100
}

fn buffer_batch() -> usize {
    32
}

impl Rule {
    /// The key whose value may change in the midst of a run.
    pub const CHANGEABLE: &'static str = ETA;

    /// What it may be, as it is written.
    pub const NAMES: [&'static str; 7] =
        ["none", "fixed", "ascent", "relative", "falling", "pid", "per-actor"];

    /// A fixed λ, the paper's.
    pub fn fixed() -> Self {
        Self::Fixed { lambda: lambda() }
    }

    /// The paper's ascent.
    pub fn ascent() -> Self {
        Self::Ascent { lambda: lambda(), eta: eta() }
    }

    /// Ascent by errors divided by their thresholds.
    pub fn relative() -> Self {
        Self::Relative { lambda: lambda(), eta: relative_eta() }
    }

    /// The same by steps that grow shorter.
    pub fn falling() -> Self {
        let (lambda, eta) = (lambda(), relative_eta());
        Self::Falling { lambda, eta, power: power(), horizon: horizon() }
    }

    /// The PID controller.
    pub fn pid() -> Self {
        Self::Pid { lambda: lambda(), gains: Gains::default() }
    }

    /// The same from so many times the learner's λ at the start.
    pub fn from_times(mut self, factor: f64) -> Self {
        match &mut self {
            Self::None => {}
            Self::Fixed { lambda }
            | Self::Ascent { lambda, .. }
            | Self::Relative { lambda, .. }
            | Self::Falling { lambda, .. }
            | Self::Pid { lambda, .. }
            | Self::PerActor { lambda, .. } => *lambda = lambda.times(factor),
        }
        self
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
        match self {
            Self::None => Ok(()),
            Self::Fixed { lambda } => lambda.validate(LAMBDA),
            Self::Ascent { lambda, eta } | Self::Relative { lambda, eta } => {
                lambda.validate(LAMBDA)?;
                eta.validate(ETA)
            }
            Self::Falling { lambda, eta, power, horizon } => {
                lambda.validate(LAMBDA)?;
                eta.validate(ETA)?;
                range::share("multipliers.power", *power)?;
                range::positive("multipliers.horizon", *horizon)
            }
            Self::Pid { lambda, gains } => {
                lambda.validate(LAMBDA)?;
                gains.validate()
            }
            Self::PerActor { lambda, actor_lambda, eta, buffer, buffer_batch } => {
                actor_lambda.validate(ACTOR_LAMBDA)?;
                let fits = (1..=1_000_000).contains(buffer);
                range::check(fits, "multipliers.buffer", buffer, "1 to 1000000")?;
                range::check(
                    (1..=*buffer).contains(buffer_batch),
                    "multipliers.buffer_batch",
                    buffer_batch,
                    "at least 1 and at most multipliers.buffer",
                )?;
                lambda.validate(LAMBDA)?;
                eta.validate(ETA)
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
            "none, fixed, ascent, relative, falling or pid; only actors of a lasting population have their own",
        )?;
        self.validate()
    }

    /// The multipliers at the start of a run, for so many constraints and slots of a population.
    pub fn build(
        &self,
        constraints: usize,
        slots: usize,
        rng: &mut Rng,
    ) -> Result<Box<dyn Multipliers>, ConfigError> {
        let ascent = |lambda: &Each, eta: &Each| {
            Ok::<_, ConfigError>(Ascent::new(
                lambda.of(LAMBDA, constraints)?,
                eta.of(ETA, constraints)?,
            ))
        };
        Ok(match self {
            Self::None => Box::new(Fixed::new(vec![0.0; constraints])),
            Self::Fixed { lambda } => Box::new(Fixed::new(lambda.of(LAMBDA, constraints)?)),
            Self::Ascent { lambda, eta } => Box::new(ascent(lambda, eta)?),
            Self::Relative { lambda, eta } => Box::new(ascent(lambda, eta)?.relative()),
            Self::Falling { lambda, eta, power, horizon } => {
                let (lambda, eta) = (lambda.of(LAMBDA, constraints)?, eta.of(ETA, constraints)?);
                Box::new(Falling::new(lambda, eta, *power, *horizon))
            }
            Self::Pid { lambda, gains } => {
                Box::new(Pid::new(lambda.of(LAMBDA, constraints)?, *gains))
            }
            Self::PerActor { lambda, actor_lambda, eta, buffer, buffer_batch } => {
                let (learner, most) =
                    (ascent(lambda, eta)?, actor_lambda.of(ACTOR_LAMBDA, constraints)?);
                Box::new(PerActor::new(learner, &most, slots, *buffer, *buffer_batch, rng))
            }
        })
    }
}
