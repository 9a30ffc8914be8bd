//! A learner with a replay buffer: it plays episodes of its own, remembers what everybody played, and
//! takes as many updates as the steps played ask for.

use std::borrow::Cow;

use cmdp::{Constraint, EnvSpec, Rng};
use nets::Mlp;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Collected, Preset};
use crate::collect::episodes::{Choice, Rollout, constraint_values, excess, mean, mean_costs};
use crate::config::{ConfigError, range};
use crate::context::{Context, Stream};
use crate::learners::critic::Price;
use crate::learners::{ACTOR_LOSS, CRITIC_LOSS};
use crate::memory::replay::Replay;
use crate::metrics::{
    About, EXCESS, Figures, Metric, ROLLOUT_COST, ROLLOUT_REWARD, Record, UNSTABLE,
};
use crate::state::{StateError, Walk};

/// Transitions stored.
pub static REPLAY: Metric<u64> =
    Metric::new("replay", "train/replay", "transitions", "Transitions in the replay buffer");

/// What it records, beside what its learner does.
pub static METRICS: [&About; 3] = [&REPLAY.about, &CRITIC_LOSS.about, &ACTOR_LOSS.about];

/// Who learns from a replay buffer.
pub trait Learner: Send {
    /// The policy: a network from an observation to `[μ, log σ]`.
    fn actor(&self) -> Cow<'_, Mlp>;

    /// Takes a policy to start from.
    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError>;

    /// One update on a batch drawn from a replay buffer, all randomness from two generators.
    fn update(&mut self, replay: &Replay, price: Price, rngs: &mut [Rng; 2]) -> Figures;

    /// Walks everything that lasts.
    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError>;
}

/// Small networks and batches.
pub const QUICK: Preset = Preset {
    name: "quick",
    help: "small networks and batches: to see that something works, not how well",
    toml: &["[sac]\nhidden = [64, 64]\nbatch = 128\n[learner]\nlearning_starts = 1000\n"],
};

/// Where the authors' code differs from the usual values.
pub const AUTHORS: Preset = Preset {
    name: "authors",
    help: "with choices of the authors' code instead of the paper's: see docs/paper.md",
    toml: &[],
};

/// Of those, what concerns the learner.
pub const AUTHORS_LEARNER: &str =
    "[learner]\ncatch_up = true\ntime_limit_terminates = true\n[test]\nsample = true\n";

/// How the learner gathers experience and when it learns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnerConfig {
    /// Episodes the learner plays in each generation. Authors' code: 5.
    pub episodes: usize,
    /// Transitions that must be stored before the first update. Authors' code: 5000.
    pub learning_starts: usize,
    /// Updates for each environment step; fewer is faster and learns less. Authors' code: 1.
    pub grad_steps_per_env_step: f64,
    /// Whether the steps before the first update ask for updates, too, as in the authors' code.
    pub catch_up: bool,
    /// Whether the time limit counts as the task's end, as in the authors' code: then nothing is
    /// expected after it.
    pub time_limit_terminates: bool,
}

impl Default for LearnerConfig {
    fn default() -> Self {
        Self {
            episodes: 5,
            learning_starts: 5000,
            grad_steps_per_env_step: 1.0,
            catch_up: false,
            time_limit_terminates: false,
        }
    }
}

/// The replay buffer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayConfig {
    /// Transitions kept, the newest. Paper: 1e6.
    pub capacity: usize,
}

impl Default for ReplayConfig {
    fn default() -> Self {
        Self { capacity: 1_000_000 }
    }
}

/// Checks every value of such a learner against its range.
pub fn validate(learner: &LearnerConfig, replay: &ReplayConfig) -> Result<(), ConfigError> {
    range::many("learner.episodes", learner.episodes)?;
    range::check(
        (1..=replay.capacity).contains(&learner.learning_starts),
        "learner.learning_starts",
        learner.learning_starts,
        "at least 1 and at most replay.capacity",
    )?;
    range::check(
        (0.0..=1000.0).contains(&learner.grad_steps_per_env_step),
        "learner.grad_steps_per_env_step",
        learner.grad_steps_per_env_step,
        "a number from 0 to 1000",
    )
}

/// What everybody played, and how much of it was learnt from.
pub struct Experience {
    config: LearnerConfig,
    /// What everybody played.
    pub replay: Replay,
    /// Environment steps that ask for updates.
    learnt_steps: u64,
    /// Whether there are transitions enough to learn from.
    pub learning: bool,
}

impl Experience {
    /// None yet.
    pub fn new(config: LearnerConfig, replay: &ReplayConfig, spec: &EnvSpec) -> Self {
        let (obs, action) = (spec.observation, spec.action);
        let replay = Replay::new(replay.capacity, obs, action, spec.constraints.len());
        Self { config, replay, learnt_steps: 0, learning: false }
    }

    /// How it is gathered.
    pub fn config(&self) -> &LearnerConfig {
        &self.config
    }

    /// Stores every transition of an episode, whoever played it, with the multipliers in force; returns how many
    /// there are.
    pub fn remember(&mut self, rollout: &Rollout, multipliers: &[f64]) -> usize {
        rollout.remember(&mut self.replay, multipliers, self.config.time_limit_terminates)
    }

    /// Counts a generation's steps, once everybody has played; returns how many of them ask for updates.
    pub fn count(&mut self, steps: u64, record: &mut Record) -> u64 {
        record.set(&REPLAY, self.replay.len() as u64);
        self.learning = self.replay.len() >= self.config.learning_starts;
        let asking = if self.learning || self.config.catch_up { steps } else { 0 };
        self.learnt_steps += asking;
        asking
    }

    /// The updates that a generation's steps ask for, once everybody has played; counted from the
    /// start of the run, so that fractions of an update add up.
    pub fn updates_due(&mut self, context: &Context, steps: u64, record: &mut Record) -> u64 {
        self.count(steps, record);
        let due = self.learnt_steps as f64 * self.config.grad_steps_per_env_step;
        if self.learning { (due.round() as u64).saturating_sub(context.grad_steps) } else { 0 }
    }

    /// Walks everything that lasts but the replay buffer.
    pub fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        walk.plain("learnt_steps", &mut self.learnt_steps)?;
        walk.plain("learning", &mut self.learning)
    }
}

/// A learner with its replay buffer.
pub struct OffPolicy<L> {
    learner: L,
    /// What it learns from.
    pub experience: Experience,
}

impl<L: Learner> OffPolicy<L> {
    /// With an empty replay buffer.
    pub fn new(config: LearnerConfig, learner: L, replay: &ReplayConfig, spec: &EnvSpec) -> Self {
        Self { learner, experience: Experience::new(config, replay, spec) }
    }

    /// Takes a policy to start from.
    pub fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        self.learner.start_from(actor)
    }

    /// Episodes it plays in a generation.
    pub fn episodes(&self) -> usize {
        self.experience.config.episodes
    }

    /// Who learns.
    pub fn learner(&self) -> &L {
        &self.learner
    }

    /// Who learns, to be changed by others than updates.
    pub fn learner_mut(&mut self) -> &mut L {
        &mut self.learner
    }

    /// The policy.
    pub fn actor(&self) -> Cow<'_, Mlp> {
        self.learner.actor()
    }

    /// Plays its episodes, stores every transition with the multipliers in force, and notes what came
    /// of it.
    pub fn play(
        &mut self,
        context: &mut Context,
        multipliers: &[f64],
        record: &mut Record,
    ) -> Vec<Rollout> {
        let (actor, episodes) = (self.learner.actor(), self.episodes());
        let played = context.play_several(&actor, episodes, Stream::Learner, Choice::Sample);
        for rollout in &played {
            self.experience.remember(rollout, multipliers);
        }
        note_play(&played, context.spec.constraints.len(), record);
        played
    }

    /// Notes what came of it where nobody else plays, and how many updates that asks for.
    pub fn conclude_play(
        &mut self,
        context: &Context,
        played: &[Rollout],
        record: &mut Record,
    ) -> Collected {
        let steps = note_episodes(played.iter(), &context.spec.constraints, record);
        Collected { steps, updates: self.updates_due(context, steps, record) }
    }

    /// See [`Experience::updates_due`].
    pub fn updates_due(&mut self, context: &Context, steps: u64, record: &mut Record) -> u64 {
        self.experience.updates_due(context, steps, record)
    }

    /// One update.
    pub fn update(&mut self, context: &Context, price: Price) -> Figures {
        let key = |half| [context.config.seed, Stream::Update as u64, context.grad_steps, half];
        let mut rngs = [cmdp::rng(key(0)), cmdp::rng(key(1))];
        self.learner.update(&self.experience.replay, price, &mut rngs)
    }

    /// Walks everything that lasts but the replay buffer.
    pub fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.learner.walk(walk)?;
        self.experience.walk(walk)
    }
}

/// Notes what came of a learner's own episodes.
pub fn note_play(played: &[Rollout], constraints: usize, record: &mut Record) {
    record.set(&ROLLOUT_REWARD, mean(played.iter().map(|r| r.episode.reward())));
    record.set(&ROLLOUT_COST, mean_costs(&constraint_values(played), constraints));
}

/// Notes what is to be told of all episodes of a generation; returns their steps.
pub fn note_episodes<'a>(
    played: impl Iterator<Item = &'a Rollout> + Clone,
    constraints: &[Constraint],
    record: &mut Record,
) -> u64 {
    record.set(&EXCESS, excess(played.clone().map(|r| &r.episode), constraints));
    record.set(&UNSTABLE, played.clone().filter(|r| r.unstable).count() as u64);
    played.map(|r| r.episode.steps() as u64).sum()
}
