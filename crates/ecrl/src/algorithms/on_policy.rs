//! PPO's family: algorithms that learn from what they have just played, and then forget it.
//!
//! A generation is a batch: several environments play side by side, each going on where it was, and
//! everything they played is learnt from for some epochs. What one of the family adds to PPO is a
//! [`Variant`]: another objective for the policy, and what that needs to know of the constraints.

use cmdp::{Aggregate, EnvSpec, Episode, Rng};
use nets::Mlp;
use rand::seq::SliceRandom as _;

use crate::algorithm::{Algorithm, Build, Collected, Preset, Setup};
use crate::collect::episodes::{excess, mean, mean_costs};
use crate::config::{ConfigError, Section};
use crate::context::{Context, Stream};
use crate::learners::ppo::{CLIPPED, KL, Objective, Ppo, PpoConfig};
use crate::learners::{ACTOR_LOSS, CRITIC_LOSS, ENTROPY};
use crate::metrics::{About, EXCESS, Figures, ROLLOUT_COST, ROLLOUT_REWARD, Record, UNSTABLE};
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

/// What an algorithm of the family adds to PPO.
pub trait Variant: Objective + Send + Sized + 'static {
    /// The sections of its configuration.
    type Section: Section;
    /// Whether costs have critics, and so advantages.
    const USES_COSTS: bool;
    /// What it records, beside what PPO does.
    const METRICS: &'static [&'static About] = &[];

    /// PPO's values.
    fn ppo(section: &Self::Section) -> &PpoConfig;

    /// A new one.
    fn new(section: &Self::Section, spec: &EnvSpec, rng: &mut Rng) -> Result<Self, ConfigError>;

    /// Takes note of the episodes that ended in what is about to be learnt from.
    fn observe(&mut self, ended: &[Episode]) {
        let _ = ended;
    }

    /// Takes note of how far the policy has moved, before every epoch but the first.
    fn next_epoch(&mut self, ppo: &mut Ppo) {
        let _ = ppo;
    }

    /// Notes what there is to tell at the end of a generation.
    fn conclude(&self, record: &mut Record) {
        let _ = record;
    }

    /// Walks everything that lasts.
    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        let _ = walk;
        Ok(())
    }
}

/// Smaller networks, and advantages that are estimated once and normalised.
pub const FAST: Preset = Preset {
    name: "fast",
    help: "smaller networks and fewer estimates: several times as fast, for a first look",
    toml: &[
        "[ppo]\nhidden = [64, 64]\nrecompute_advantages = false\nnormalise_advantages = true\n",
    ],
};

/// The learner, and what a variant adds.
pub struct OnPolicy<V> {
    ppo: Ppo,
    variant: V,
    /// Constraints whose costs have critics.
    costs: usize,
    /// Updates of the current generation so far.
    done: usize,
    /// The order of the rows in the current epoch.
    order: Vec<usize>,
}

impl<V: Variant> Build for OnPolicy<V> {
    type Section = V::Section;
    const TAKES_CHOICES: bool = true;

    fn metrics() -> Vec<&'static About> {
        let ppo = [&CRITIC_LOSS, &ACTOR_LOSS, &ENTROPY, &KL, &CLIPPED].map(|metric| &metric.about);
        [&ppo, V::METRICS].concat()
    }

    fn new(section: V::Section, setup: Setup) -> Result<Self, TrainError> {
        let Setup { spec, rng } = setup;
        let config = V::ppo(&section).clone();
        let costs = if V::USES_COSTS { spec.constraints.len() } else { 0 };
        Ok(Self {
            ppo: Ppo::new(config, spec, costs, rng),
            variant: V::new(&section, spec, rng)?,
            costs,
            done: 0,
            order: Vec::new(),
        })
    }
}

impl<V: Variant> OnPolicy<V> {
    fn per_epoch(&self) -> usize {
        self.ppo.rows().div_ceil(self.ppo.config().batch)
    }
}

impl<V: Variant> Algorithm for OnPolicy<V> {
    fn collect(&mut self, context: &mut Context, record: &mut Record) -> Collected {
        let (actor, steps) = (self.ppo.actor(), self.ppo.config().collect);
        let segment = context.go_on(&actor, steps, self.costs);
        let ended = &segment.ended;
        if !ended.is_empty() {
            let values: Vec<Vec<f64>> = ended.iter().map(|e| e.constraint_values()).collect();
            record.set(&ROLLOUT_REWARD, mean(ended.iter().map(|e| e.reward())));
            record.set(&ROLLOUT_COST, mean_costs(&values, context.spec.constraints.len()));
        }
        record.set(&EXCESS, excess(ended, &context.spec.constraints));
        record.set(&UNSTABLE, segment.unstable as u64);
        self.variant.observe(ended);
        let mut batch = segment.batch;
        for (i, constraint) in context.spec.constraints.iter().enumerate().take(self.costs) {
            if constraint.aggregate == Aggregate::Mean {
                batch.centre(1 + i);
            }
        }
        self.ppo.learn_from(batch);
        self.done = 0;
        Collected {
            steps: self.ppo.rows() as u64,
            updates: (self.ppo.config().epochs * self.per_epoch()) as u64,
        }
    }

    fn update(&mut self, context: &Context) -> Figures {
        if self.ppo.rows() == 0 {
            return Figures::new(); // a state that asks for updates of nothing
        }
        let (epoch, part) = (self.done / self.per_epoch(), self.done % self.per_epoch());
        if part == 0 && epoch > 0 {
            if self.ppo.config().recompute_advantages {
                self.ppo.estimate();
            }
            self.variant.next_epoch(&mut self.ppo);
        }
        if part == 0 || self.order.is_empty() {
            self.order = (0..self.ppo.rows()).collect();
            self.order.shuffle(&mut cmdp::rng(context.key(Stream::Order, epoch as u64)));
        }
        let config = self.ppo.config();
        let rows = self.order.chunks(config.batch).nth(part).expect("a minibatch");
        // What had been played before this batch.
        let before = context.env_steps - self.ppo.rows() as u64;
        let left = (1.0 - before as f64 / context.config.steps as f64).max(0.0);
        let rate = config.lr * if config.lr_decay { left } else { 1.0 };
        let figures = self.ppo.update(rows, rate, &self.variant);
        self.done += 1;
        figures
    }

    fn conclude(&mut self, _context: &Context, record: &mut Record) {
        self.ppo.absorb();
        self.order.clear();
        self.variant.conclude(record);
    }

    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        self.ppo.start_from(actor)
    }

    fn longest_generation(&self, _: &EnvSpec) -> u64 {
        self.ppo.config().collect as u64
    }

    fn actor(&self) -> Mlp {
        self.ppo.actor()
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.ppo.walk(walk)?;
        self.variant.walk(walk)?;
        walk.plain("done", &mut self.done)?;
        if walk.is_loading() {
            self.order.clear();
        }
        Ok(())
    }
}
