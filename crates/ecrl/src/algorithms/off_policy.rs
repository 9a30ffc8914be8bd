//! A learner with a replay buffer that plays alone.
//!
//! A generation is some episodes of its own, and then the updates that their steps ask for. What an algorithm
//! adds is a [`Pricing`]: what costs count for when it learns, and how that answers what was played.

use cmdp::EnvSpec;
use nets::Mlp;

use crate::algorithm::{Algorithm, Build, Collected, Setup};
use crate::collect::episodes::Rollout;
use crate::config::{ConfigError, Section};
use crate::context::Context;
use crate::learners::off_policy::{self, Learner, OffPolicy};
use crate::memory::replay::Replay;
use crate::metrics::{About, Figures, Record};
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

/// What costs count for to a learner.
pub trait Pricing<L>: Send + Sized + 'static {
    /// The sections of the algorithm's configuration.
    type Section: Section;

    /// What it and the learner record beside the losses of actor and critics.
    fn metrics() -> Vec<&'static About>;

    /// A new one, with its learner.
    fn new(section: Self::Section, setup: Setup) -> Result<(OffPolicy<L>, Self), TrainError>;

    /// The multipliers that transitions are stored with; none where those of the update count.
    fn stored(&self) -> Option<&[f64]> {
        None
    }

    /// Takes note of what was played; before the first update nothing answers it.
    fn observe(&mut self, played: &[Rollout], spec: &EnvSpec, learning: bool);

    /// One update.
    fn update(&mut self, learner: &mut OffPolicy<L>, context: &Context) -> Figures;

    /// The end of a generation; notes what there is to tell.
    fn conclude(&mut self, spec: &EnvSpec, learning: bool, record: &mut Record);

    /// Walks everything that lasts.
    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError>;
}

/// The learner, and what costs count for.
pub struct Alone<L, P> {
    learner: OffPolicy<L>,
    pricing: P,
}

impl<L: Learner + 'static, P: Pricing<L>> Build for Alone<L, P> {
    type Section = P::Section;

    fn metrics() -> Vec<&'static About> {
        [&off_policy::METRICS[..], &P::metrics()].concat()
    }

    fn new(section: P::Section, setup: Setup) -> Result<Self, TrainError> {
        let (learner, pricing) = P::new(section, setup)?;
        Ok(Self { learner, pricing })
    }
}

impl<L: Learner + 'static, P: Pricing<L>> Algorithm for Alone<L, P> {
    fn collect(&mut self, context: &mut Context, record: &mut Record) -> Collected {
        let none = vec![0.0; context.spec.constraints.len()];
        let played = self.learner.play(context, self.pricing.stored().unwrap_or(&none), record);
        let collected = self.learner.conclude_play(context, &played, record);
        self.pricing.observe(&played, &context.spec, self.learner.experience.learning);
        collected
    }

    fn update(&mut self, context: &Context) -> Figures {
        self.pricing.update(&mut self.learner, context)
    }

    fn conclude(&mut self, context: &Context, record: &mut Record) {
        self.pricing.conclude(&context.spec, self.learner.experience.learning, record);
    }

    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        self.learner.start_from(actor)
    }

    fn longest_generation(&self, spec: &EnvSpec) -> u64 {
        (self.learner.episodes() * spec.max_steps) as u64
    }

    fn actor(&self) -> Mlp {
        self.learner.actor().into_owned()
    }

    fn replay(&self) -> Option<&Replay> {
        Some(&self.learner.experience.replay)
    }

    fn replay_mut(&mut self) -> Option<&mut Replay> {
        Some(&mut self.learner.experience.replay)
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.learner.walk(walk)?;
        self.pricing.walk(walk)
    }
}
