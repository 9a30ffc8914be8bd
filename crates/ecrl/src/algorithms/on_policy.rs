//! PPO's family: algorithms that learn from what they have just played, and then forget it.
//!
//! A generation is a batch: several environments play side by side, each going on where it was, and
//! everything they played is learnt from for some epochs. What one of the family adds to PPO is a
//! [`Variant`]: another objective or another step for the policy, and what that needs to know of the
//! constraints.

use cmdp::{Aggregate, Constraint, EnvSpec, Episode, Rng};
use nets::Mlp;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, Build, Collected, Preset, Setup};
use crate::collect::episodes::{excess, mean, mean_costs};
use crate::collect::segments::Segment;
use crate::config::{ConfigError, Section};
use crate::context::{Context, Stream};
pub use crate::learners::ppo::KL;
use crate::learners::ppo::{ActorCriticConfig, CLIPPED, Ppo, PpoConfig};
use crate::learners::{ACTOR_LOSS, CRITIC_LOSS, ENTROPY};
use crate::memory::batch::Batch;
use crate::metrics::{
    About, EXCESS, Figures, Metric, ROLLOUT_COST, ROLLOUT_REWARD, Record, UNSTABLE,
};
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

/// What an algorithm of the family adds to PPO.
pub trait Variant: Send + Sized + 'static {
    /// The sections of its configuration.
    type Section: Section;
    /// Whether it sees costs.
    const USES_COSTS: bool;
    /// The version of its state; raised when an older one would be misread.
    const STATE_VERSION: u32 = 1;
    /// Whether the policy that played is remembered, to tell how far the policy is from it.
    const REMEMBERS: bool = false;
    /// What its policy's updates record.
    const UPDATES: &'static [&'static About] =
        &[&ACTOR_LOSS.about, &ENTROPY.about, &KL.about, &CLIPPED.about];
    /// What it records beside that and the critics' loss.
    const METRICS: &'static [&'static About] = &[];

    /// The learner's values.
    fn ppo(section: &Self::Section) -> PpoConfig;

    /// Whether costs that it sees have critics, and so advantages.
    fn has_critics(section: &Self::Section) -> bool {
        let _ = section;
        Self::USES_COSTS
    }

    /// A new one; the thresholds in `spec` leave the margin.
    fn new(section: &Self::Section, spec: &EnvSpec, rng: &mut Rng) -> Result<Self, ConfigError>;

    /// Takes note of the episodes that ended in what is about to be learnt from.
    fn observe(&mut self, ended: &[Episode]) {
        let _ = ended;
    }

    /// Changes what was played before it is learnt from; costs without critics are gone afterwards.
    fn shape(&mut self, batch: &mut Batch) {
        let _ = batch;
    }

    /// Takes note of what is about to be learnt from, once its advantages are known.
    fn begin(&mut self, ppo: &Ppo) {
        let _ = ppo;
    }

    /// Takes note of how far the policy has moved, before every epoch but the first.
    fn next_epoch(&mut self, ppo: &mut Ppo) {
        let _ = ppo;
    }

    /// One update.
    fn update(&mut self, ppo: &mut Ppo, part: Part) -> Figures;

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

/// Updates that followed the cost alone.
pub static RECOVERY: Metric<f64> = Metric::new(
    "recovery",
    "train/recovery",
    "share",
    "The share of the policy's steps that a constraint broken too far decided: cpo follows its cost alone, \
     pcpo's projection leads out of the trust region",
);

/// What one update is about.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// The rows of the minibatch.
    pub rows: &'a [usize],
    /// The learning rate.
    pub rate: f64,
    /// Whether it is the first on what was just played.
    pub first: bool,
}

/// A constraint as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// J_C, the mean over episodes that ended.
    pub value: f64,
    /// What one step's cost more in every step adds to it: 1 for a constraint on the mean cost, and for one
    /// on the sum the mean length of an episode.
    pub length: f64,
}

impl Standing {
    /// Every constraint by the episodes that ended; none without episodes.
    pub fn of(ended: &[Episode], constraints: &[Constraint]) -> Option<Vec<Self>> {
        let values: Vec<Vec<f64>> = ended.iter().map(|e| e.constraint_values()).collect();
        let steps = mean(ended.iter().map(|e| e.steps() as f64));
        let standing = constraints.iter().zip(mean_costs(&values, constraints.len()));
        let standing = standing.map(|(constraint, value)| {
            let sum = constraint.aggregate == Aggregate::Sum;
            Self { value, length: if sum { steps } else { 1.0 } }
        });
        (!ended.is_empty()).then(|| standing.collect())
    }
}

/// The advantage of the Lagrangian, `(A - Σ_i w_i A_i) / (1 + Σ_i w_i)`; the reward's was divided by `scale`,
/// and so the costs' are.
pub fn lagrangian(advantage: &[f32], scale: f32, costs: &[Vec<f32>], weights: &[f64]) -> Vec<f32> {
    let whole = 1.0 + weights.iter().sum::<f64>() as f32;
    let mut advantage: Vec<f32> = advantage.iter().map(|a| a / whole).collect();
    for (weight, costs) in weights.iter().zip(costs) {
        let weight = *weight as f32 / (whole * scale);
        advantage.iter_mut().zip(costs).for_each(|(a, cost)| *a -= weight * cost);
    }
    advantage
}

/// Smaller networks, advantages that are estimated once and normalised, and a margin.
pub const FAST: Preset = Preset {
    name: "fast",
    help: "smaller networks, fewer estimates and a margin to every threshold: several times as fast",
    toml: &[
        "[ppo]\nhidden = [64, 64]\nrecompute_advantages = false\nnormalise_advantages = true\nmargin = 0.1\n",
    ],
};

/// The learner, and what a variant adds.
pub struct OnPolicy<V> {
    ppo: Ppo,
    variant: V,
    /// Constraints whose costs it sees.
    costs: usize,
    /// Updates of the current generation so far.
    done: usize,
    /// The order of the rows in the current epoch.
    order: Vec<usize>,
}

impl<V: Variant> Build for OnPolicy<V> {
    type Section = V::Section;
    const STATE_VERSION: u32 = V::STATE_VERSION;
    const TAKES_CHOICES: bool = true;
    /// Playing takes most of the time: five episodes after every batch would be more than half of a run.
    const TEST_SHARE: f64 = 0.08;

    fn metrics() -> Vec<&'static About> {
        [&[&CRITIC_LOSS.about], V::UPDATES, V::METRICS].concat()
    }

    fn new(section: V::Section, setup: Setup) -> Result<Self, TrainError> {
        let Setup { spec, rng } = setup;
        let config = V::ppo(&section);
        let costs = if V::USES_COSTS { spec.constraints.len() } else { 0 };
        let aims = aiming(spec, config.actor_critic.margin);
        let critics = if V::has_critics(&section) { costs } else { 0 };
        let ppo = Ppo::new(config, spec, critics, rng);
        Ok(Self {
            ppo: if V::REMEMBERS { ppo.remembering() } else { ppo },
            variant: V::new(&section, &aims, rng)?,
            costs,
            done: 0,
            order: Vec::new(),
        })
    }
}

/// The task with thresholds that leave a margin, which is what a variant sees of it.
fn aiming(spec: &EnvSpec, margin: f64) -> EnvSpec {
    let mut spec = spec.clone();
    for constraint in &mut spec.constraints {
        constraint.threshold -= margin * constraint.threshold.abs();
    }
    spec
}

impl<V: Variant> OnPolicy<V> {
    /// The learner's values.
    pub fn config(&self) -> &ActorCriticConfig {
        &self.ppo.config().actor_critic
    }

    /// What the policy's entropy weighs.
    #[cfg(test)]
    pub fn entropy_coef(&self) -> f64 {
        self.ppo.config().entropy_coef
    }

    /// Has the policy's entropy weigh so much from now on.
    pub fn explore(&mut self, entropy_coef: f64) {
        self.ppo.explore(entropy_coef);
    }

    fn per_epoch(&self) -> usize {
        self.ppo.rows().div_ceil(self.config().batch)
    }

    /// How many costs it sees.
    pub fn costs(&self) -> usize {
        self.costs
    }

    /// What it adds to PPO.
    pub fn variant(&self) -> &V {
        &self.variant
    }

    /// Takes over what it played; says how many updates that asks for.
    pub fn take(&mut self, segment: Segment, constraints: &[Constraint]) -> Collected {
        self.variant.observe(&segment.ended);
        let mut batch = segment.batch;
        for (i, constraint) in constraints.iter().enumerate().take(self.costs) {
            if constraint.aggregate == Aggregate::Mean {
                batch.centre(1 + i);
            }
        }
        self.variant.shape(&mut batch);
        self.ppo.learn_from(batch);
        self.variant.begin(&self.ppo);
        self.done = 0;
        Collected {
            steps: self.ppo.rows() as u64,
            updates: (self.config().epochs * self.per_epoch()) as u64,
        }
    }

    /// One of the updates.
    pub fn update_at(&mut self, moment: Moment) -> Figures {
        if self.done >= self.config().epochs * self.per_epoch() {
            return Figures::new(); // it has learnt all; others, or a state, ask for more
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
            self.order.shuffle(&mut moment.rng(epoch));
        }
        let ActorCriticConfig { batch, lr, lr_decay, .. } = *self.config();
        let rows = self.order.chunks(batch).nth(part).expect("a minibatch");
        let rate = lr * if lr_decay { moment.left } else { 1.0 };
        let part = Part { rows, rate, first: self.done == 0 };
        let figures = self.variant.update(&mut self.ppo, part);
        self.done += 1;
        figures
    }

    /// What follows the last update on what was played.
    pub fn end_generation(&mut self) {
        self.ppo.absorb();
        self.order.clear();
    }

    /// The steps it learns from.
    pub fn rows(&self) -> usize {
        self.ppo.rows()
    }

    /// Forgets what was played, where it will not play again.
    pub fn forget(&mut self) {
        self.ppo.forget();
    }
}

impl<V: Variant> Algorithm for OnPolicy<V> {
    fn collect(&mut self, context: &mut Context, record: &mut Record) -> Collected {
        let (actor, steps) = (self.ppo.actor(), self.config().collect);
        let mut played = context.go_on(std::slice::from_ref(&actor), steps, self.costs);
        let segment = played.pop().expect("what the one actor played");
        let ended = &segment.ended;
        if !ended.is_empty() {
            let values: Vec<Vec<f64>> = ended.iter().map(|e| e.constraint_values()).collect();
            record.set(&ROLLOUT_REWARD, mean(ended.iter().map(|e| e.reward())));
            record.set(&ROLLOUT_COST, mean_costs(&values, context.spec.constraints.len()));
        }
        record.set(&EXCESS, excess(ended, &context.spec.constraints));
        record.set(&UNSTABLE, segment.unstable as u64);
        self.take(segment, &context.spec.constraints)
    }

    fn update(&mut self, context: &Context) -> Figures {
        self.update_at(Moment::of(context, self.ppo.rows() as u64))
    }

    fn conclude(&mut self, _context: &Context, record: &mut Record) {
        self.end_generation();
        self.variant.conclude(record);
    }

    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        self.ppo.start_from(actor)
    }

    fn longest_generation(&self, _: &EnvSpec) -> u64 {
        self.config().collect as u64
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

/// Where a run stands when a learner learns.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    key: [u64; 4],
    /// How much of the run was left before the generation.
    left: f64,
}

impl Moment {
    /// In a generation that took so many steps.
    pub fn of(context: &Context, steps: u64) -> Self {
        let before = context.env_steps.saturating_sub(steps);
        let left = (1.0 - before as f64 / context.config.steps as f64).max(0.0);
        Self { key: context.key(Stream::Order, 0), left }
    }

    /// The same for one of several learners.
    pub fn of_learner(mut self, number: usize) -> Self {
        self.key[3] = (number as u64) << 32;
        self
    }

    fn rng(self, epoch: usize) -> Rng {
        let [seed, stream, generation, index] = self.key;
        cmdp::rng([seed, stream, generation, index + epoch as u64])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmdp::{Env as _, PointMass};

    #[test]
    fn a_margin_lowers_thresholds_of_any_sign() {
        let texts = ["mean(force)<=0.5", "sum(force)<=-2"];
        let constraints = Constraint::parse_all(&texts, &PointMass::COSTS).unwrap();
        let task = PointMass::new(constraints).unwrap();
        let aims = aiming(task.spec(), 0.25);
        let thresholds: Vec<f64> = aims.constraints.iter().map(|c| c.threshold).collect();
        assert_eq!(thresholds, [0.375, -2.5]);
        assert_eq!(aiming(task.spec(), 0.0), *task.spec());
    }
}
