//! The training loop, whatever the method: play, learn, test, keep the best; pause and go on
//! anywhere, to the bit.
//!
//! What a generation plays and how it is learnt from is up to the method: [`Evolution`] is Algorithm
//! 1 of the paper and serves every algorithm that learns from a replay buffer, [`OnPolicy`] those
//! that learn from what they have just played.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use cmdp::{Constraint, ConstraintError, Env, EnvSpec};
use nets::Mlp;
use nets::store::{Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::algorithm::Learner;
use crate::config::{Config, ConfigError, Layers};
use crate::constraint::{feasible, violation};
use crate::evolution::Evolution;
use crate::on_policy::OnPolicy;
use crate::policy::{About, Policy};
use crate::record::{Census, Figures, Generation, Times};
use crate::replay::Replay;
use crate::rollout::{Choice, Rollout, Stage, Ticket};

/// The streams of randomness of a run; a key is `[seed, stream, generation, index]`.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    Init,
    Population,
    Learner,
    Evolution,
    Update,
    Multipliers,
    TestLearner,
    TestChampion,
    Start,
    Order,
}

/// The best policy so far: the highest reward of those that kept every constraint, or until there
/// is one, the smallest violation.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// The policy.
    pub policy: Policy,
    /// Its mean return.
    pub reward: f64,
    /// Its mean J_C.
    pub cost: Vec<f64>,
    /// Its violation φ.
    pub violation: f64,
}

/// Training that cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A bad configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A bad constraint.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// Threads cannot be had.
    #[error("cannot start threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// A number is not finite any more.
    #[error("update {step}: {tensor} is not finite any more; kept the last policy that was")]
    NotFinite {
        /// The update in which it was seen.
        step: u64,
        /// The first tensor found.
        tensor: String,
    },
}

/// What a generation plays and how it is learnt from.
pub(crate) trait Method: Any + Send {
    /// The first half of a generation: everybody plays.
    fn play(&mut self, arena: &mut Arena) -> Pending;

    /// One of the updates that a generation asks for; called in the pool.
    fn update(&mut self, arena: &Arena) -> Figures;

    /// The end of a generation, after its last update; `means` are over its updates.
    fn conclude(&mut self, arena: &Arena, record: &mut Generation, means: Option<Figures>);

    /// The learner's policy: a network from an observation to `[μ, log σ]`.
    fn actor(&self) -> Mlp;

    /// The first of the generation's ranking.
    fn champion(&self) -> Option<Mlp> {
        None
    }

    /// The population of the last generation.
    fn census(&self) -> Option<&Census> {
        None
    }

    /// The name of the first tensor that holds a number that is not finite.
    fn broken_tensor(&self) -> Option<String>;

    /// The replay buffer, if there is one.
    fn replay(&self) -> Option<&Replay> {
        None
    }

    /// The replay buffer, to take note that it was stored.
    fn replay_mut(&mut self) -> Option<&mut Replay> {
        None
    }

    /// Adds all tensors to a store; returns everything else but the replay buffer.
    fn save(&self, store: &mut Store) -> Value;

    /// Goes back to what [`save`](Self::save) stored and to a replay buffer. All is checked before
    /// anything changes.
    fn load(&mut self, store: &Store, rest: Value, replay: StoredReplay) -> Result<(), String>;
}

/// A replay buffer as it comes from disk.
#[derive(Debug, Default)]
pub struct StoredReplay {
    /// The rows, in segments.
    pub segments: Vec<Vec<f32>>,
    /// How many there are.
    pub len: usize,
    /// Where the next one goes.
    pub next: usize,
}

/// A generation that has been played and is being learnt from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pending {
    /// What is known of it so far.
    pub record: Generation,
    /// Environment steps it took.
    pub steps: u64,
    /// Updates it asks for.
    pub updates: u64,
    done: u64,
    /// Sums over the updates done.
    figures: Figures,
}

impl Pending {
    pub fn new(record: Generation, steps: u64, updates: u64) -> Self {
        Self { record, steps, updates, done: 0, figures: Figures::default() }
    }
}

/// What a checkpoint holds beside tensors. There is no random state: every generator comes from a
/// key that these counters name.
#[derive(Debug, Serialize, Deserialize)]
struct Counters {
    config: String,
    generation: u64,
    pending: Option<Pending>,
    env_steps: u64,
    grad_steps: u64,
    tested_at: Option<u64>,
    times: Times,
    /// The best policy's origin, reward, cost and violation; its tensors lie beside.
    best: Option<(About, f64, Vec<f64>, f64)>,
    method: Value,
}

/// Where everybody plays, and what all methods count.
pub(crate) struct Arena {
    pub config: Config,
    pub spec: EnvSpec,
    pub pool: Arc<rayon::ThreadPool>,
    pub generation: u64,
    pub env_steps: u64,
    pub grad_steps: u64,
    /// Up to when `started` was set.
    pub times: Times,
    stage: Stage,
}

impl Arena {
    pub fn key(&self, stream: Stream, index: u64) -> [u64; 4] {
        [self.config.seed, stream as u64, self.generation, index]
    }

    pub fn tickets<'a>(&self, actor: &'a Mlp, stream: Stream, episodes: usize) -> Vec<Ticket<'a>> {
        (0..episodes as u64).map(|i| Ticket { actor, key: self.key(stream, i) }).collect()
    }

    /// Plays the tickets; the episodes come back in the same order.
    pub fn play(&mut self, tickets: &[Ticket], choice: Choice) -> Vec<Rollout> {
        let start = Instant::now();
        let played = self.pool.install(|| self.stage.play(tickets, choice));
        let seconds = start.elapsed().as_secs_f64();
        // Threads play at once: take the environments' share of all episodes.
        let sum = |i: usize| played.iter().map(|r| r.times[i].as_secs_f64()).sum::<f64>();
        self.times.physics += seconds * sum(0) / sum(1).max(f64::MIN_POSITIVE);
        played
    }

    /// An actor's mean return and mean J_C.
    fn tested(&mut self, actor: &Mlp, stream: Stream) -> (f64, Vec<f64>) {
        let choice = if self.config.test.sample { Choice::Sample } else { Choice::Mean };
        let tickets = self.tickets(actor, stream, self.config.test.episodes);
        let played = self.play(&tickets, choice);
        let reward = mean(played.iter().map(|r| r.episode.reward()));
        (reward, mean_costs(&constraint_values(&played), self.spec.constraints.len()))
    }

    fn about(&self) -> About {
        let Config { task, algorithm, seed, constraints, .. } = &self.config;
        About { env_steps: self.env_steps, ..About::new(task, algorithm, *seed, constraints) }
    }
}

/// A training run.
pub struct Trainer {
    arena: Arena,
    pub(crate) method: Box<dyn Method>,
    pending: Option<Pending>,
    tested_at: Option<u64>,
    best: Option<Best>,
    /// Whether a number is not finite any more, and the actor before that.
    broken: bool,
    last_good: Mlp,
    started: Instant,
}

impl Trainer {
    /// A run of `config` on `threads` threads, in as many environments as `make` makes.
    pub fn new<E>(
        config: Config,
        threads: usize,
        mut make: impl FnMut() -> Result<Box<dyn Env>, E>,
    ) -> Result<Self, E>
    where
        E: From<TrainError>,
    {
        config.validate().map_err(TrainError::from)?;
        let algorithm = config.algorithm().map_err(TrainError::from)?;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(TrainError::from)?;
        let envs = (0..threads.max(1)).map(|_| make()).collect::<Result<Vec<_>, E>>()?;
        let spec = envs[0].spec().clone();
        let mut rng = cmdp::rng([config.seed, Stream::Init as u64, 0, 0]);
        let method: Box<dyn Method> = match algorithm.learner {
            Learner::Sac => Box::new(Evolution::new(&config, algorithm, &spec, &mut rng)),
            Learner::Ppo { barrier } => {
                let seats = (0..config.ppo.envs).map(|_| make()).collect::<Result<Vec<_>, E>>()?;
                Box::new(OnPolicy::new(&config, barrier, &spec, seats, &mut rng))
            }
        };
        Ok(Self {
            arena: Arena {
                config,
                spec,
                pool: Arc::new(pool),
                stage: Stage::new(envs),
                generation: 0,
                env_steps: 0,
                grad_steps: 0,
                times: Times::default(),
            },
            last_good: method.actor(),
            method,
            pending: None,
            tested_at: None,
            best: None,
            broken: false,
            started: Instant::now(),
        })
    }

    /// The values in force.
    pub fn config(&self) -> &Config {
        &self.arena.config
    }

    /// The constraints in force.
    pub fn constraints(&self) -> &[Constraint] {
        &self.arena.spec.constraints
    }

    /// Environment steps so far.
    pub fn env_steps(&self) -> u64 {
        self.arena.env_steps
    }

    /// Updates so far.
    pub fn grad_steps(&self) -> u64 {
        self.arena.grad_steps
    }

    /// Whether the current generation is the last.
    pub fn is_last(&self) -> bool {
        self.arena.env_steps >= self.arena.config.steps
    }

    /// Whether all steps have been taken and learnt from.
    pub fn is_done(&self) -> bool {
        self.is_last() && self.pending.is_none()
    }

    /// The best policy so far.
    pub fn best(&self) -> Option<&Best> {
        self.best.as_ref()
    }

    /// The population of the last generation, for algorithms that have one.
    pub fn census(&self) -> Option<&Census> {
        self.method.census()
    }

    /// Where the time went so far.
    pub fn times(&self) -> Times {
        let total = self.arena.times.total + self.started.elapsed().as_secs_f64();
        Times { total, ..self.arena.times }
    }

    /// The replay buffer, for algorithms that have one.
    pub fn replay(&self) -> Option<&Replay> {
        self.method.replay()
    }

    /// The replay buffer, to take note that it was stored.
    pub(crate) fn replay_mut(&mut self) -> Option<&mut Replay> {
        self.method.replay_mut()
    }

    /// The learner's policy. After [`TrainError::NotFinite`], the last that was sound.
    pub fn policy(&self) -> Policy {
        let actor = if self.broken { self.last_good.clone() } else { self.method.actor() };
        Policy { actor, about: self.arena.about() }
    }

    /// Everything but the replay buffer, for a checkpoint.
    pub fn state(&self) -> Store {
        let mut store = Store::default();
        let method = self.method.save(&mut store);
        store.add_mlp("last_good", &self.last_good);
        let best = self.best.as_ref();
        if let Some(best) = best {
            store.add_mlp("best", &best.policy.actor);
        }
        let counters = Counters {
            config: self.arena.config.to_toml(),
            generation: self.arena.generation,
            pending: self.pending.clone(),
            env_steps: self.arena.env_steps,
            grad_steps: self.arena.grad_steps,
            tested_at: self.tested_at,
            times: self.times(),
            best: best.map(|b| (b.policy.about.clone(), b.reward, b.cost.clone(), b.violation)),
            method,
        };
        store.about = serde_json::to_string(&counters).expect("plain data");
        store
    }

    /// Brings a fresh trainer to a state that [`state`](Self::state) gave and a replay buffer. All
    /// is checked before anything changes.
    pub fn restore(&mut self, state: &Store, replay: StoredReplay) -> Result<(), String> {
        let counters: Counters = serde_json::from_str(&state.about).map_err(|e| e.to_string())?;
        let mut layers = Layers::default();
        let config = layers.toml(&counters.config).and_then(|()| layers.build());
        let config = config.map_err(|e| e.to_string())?;
        // More steps may be asked for; everything else must be as it was.
        if (Config { steps: self.arena.config.steps, ..config }) != self.arena.config {
            return Err("it belongs to another configuration".into());
        }
        let text = |error: StoreError| error.to_string();
        let last_good = state.mlp_like("last_good", &self.last_good).map_err(text)?;
        let best = match counters.best {
            None => None,
            Some((about, reward, cost, violation)) => {
                let actor = state.mlp_like("best", &self.last_good).map_err(text)?;
                Some(Best { policy: Policy { actor, about }, reward, cost, violation })
            }
        };
        self.method.load(state, counters.method, replay)?;
        (self.last_good, self.best) = (last_good, best);
        self.arena.generation = counters.generation;
        self.arena.env_steps = counters.env_steps;
        self.arena.grad_steps = counters.grad_steps;
        self.arena.times = counters.times;
        self.pending = counters.pending;
        self.tested_at = counters.tested_at;
        self.started = Instant::now();
        Ok(())
    }

    /// One generation: lines 7-30 of Algorithm 1.
    ///
    /// `progress` is told after every update how many steps have been taken and learnt from. Where
    /// it returns false, the generation pauses and `None` comes back; the next call goes on with it,
    /// and what comes of it is the same to the bit. It runs on a thread of the pool: the caller must
    /// hold no lock that it needs, such as stdout's.
    pub fn generation(
        &mut self,
        progress: &mut (dyn FnMut(u64) -> bool + Send),
    ) -> Result<Option<Generation>, TrainError> {
        Ok(if self.play_and_learn(progress)? { self.conclude() } else { None })
    }

    /// The first part of [`generation`](Self::generation), up to its last update; returns whether
    /// that was reached.
    pub fn play_and_learn(
        &mut self,
        progress: &mut (dyn FnMut(u64) -> bool + Send),
    ) -> Result<bool, TrainError> {
        let mut pending = match self.pending.take() {
            Some(pending) => pending,
            None => {
                self.arena.generation += 1;
                self.last_good = self.method.actor();
                self.method.play(&mut self.arena)
            }
        };
        // All at once: it takes as long as a small update to reach a thread of the pool.
        let pool = Arc::clone(&self.arena.pool);
        let learnt = pool.install(|| self.learn(&mut pending, progress));
        self.pending = Some(pending);
        learnt
    }

    /// The second part of [`generation`](Self::generation): what the method does after its last
    /// update, and a test. Only here does it matter whether the run ends with this generation: a
    /// checkpoint made before serves a longer run as well.
    pub fn conclude(&mut self) -> Option<Generation> {
        let Pending { mut record, figures, done, .. } = self.pending.take()?;
        let means = (done > 0).then(|| figures.divided_by(done as f64));
        record.grad_steps = self.arena.grad_steps;
        record.critic_loss = means.map(|m| m.critic);
        record.actor_loss = means.map(|m| m.actor);
        record.entropy = means.map(|m| m.entropy);
        self.method.conclude(&self.arena, &mut record, means);
        let due = |at: u64| self.arena.env_steps >= at + self.arena.config.test.every;
        if self.is_done() || self.tested_at.is_none_or(due) {
            self.test(&mut record);
        }
        record.times = self.times();
        record.seconds = record.times.total;
        Some(record)
    }

    /// The updates that are still to be done; returns whether all are.
    fn learn(
        &mut self,
        pending: &mut Pending,
        progress: &mut (dyn FnMut(u64) -> bool + Send),
    ) -> Result<bool, TrainError> {
        let start = Instant::now();
        let mut go_on = true;
        while pending.done < pending.updates && go_on {
            let figures = self.method.update(&self.arena);
            self.arena.grad_steps += 1;
            pending.done += 1;
            // A loss shows most troubles at once; a weight behind a ReLU may not reach it.
            let last = pending.done == pending.updates;
            let broken = if figures.are_finite() { None } else { Some("a loss".into()) };
            if (broken.is_some() || last)
                && let Some(tensor) = self.method.broken_tensor().or(broken)
            {
                self.broken = true;
                return Err(TrainError::NotFinite { step: self.arena.grad_steps, tensor });
            }
            pending.figures.add(&figures);
            let share = pending.done as f64 / pending.updates as f64;
            let learnt = (pending.steps as f64 * share) as u64;
            go_on = progress(self.arena.env_steps - pending.steps + learnt);
        }
        self.arena.times.updates += start.elapsed().as_secs_f64();
        Ok(pending.done == pending.updates)
    }

    /// Tests the learner and the champion, and keeps who is the best so far.
    fn test(&mut self, record: &mut Generation) {
        self.tested_at = Some(self.arena.env_steps);
        let learner = self.method.actor();
        let (reward, cost) = self.arena.tested(&learner, Stream::TestLearner);
        record.learner_reward = Some(reward);
        record.feasible = Some(feasible(&cost, &self.arena.spec.constraints));
        record.learner_cost = Some(cost.clone());
        record.new_best = self.keep_if_best(&learner, reward, cost);
        if let Some(champion) = self.method.champion() {
            let (reward, cost) = self.arena.tested(&champion, Stream::TestChampion);
            record.champion_reward = Some(reward);
            record.champion_cost = Some(cost.clone());
            record.new_best |= self.keep_if_best(&champion, reward, cost);
        }
        record.best_reward = self.best.as_ref().map(|best| best.reward);
        record.best_feasible = self.best.as_ref().map(|best| best.violation == 0.0);
    }

    fn keep_if_best(&mut self, actor: &Mlp, reward: f64, cost: Vec<f64>) -> bool {
        let violation = violation(&cost, &self.arena.spec.constraints);
        let better = self.best.as_ref().is_none_or(|best| {
            if violation == 0.0 && best.violation == 0.0 {
                reward > best.reward
            } else {
                violation < best.violation
            }
        });
        if better {
            let about =
                About { reward: Some(reward), cost: Some(cost.clone()), ..self.arena.about() };
            let policy = Policy { actor: actor.clone(), about };
            self.best = Some(Best { policy, reward, cost, violation });
        }
        better
    }
}

/// J_C of every episode.
pub(crate) fn constraint_values<'a>(
    played: impl IntoIterator<Item = &'a Rollout>,
) -> Vec<Vec<f64>> {
    played.into_iter().map(|rollout| rollout.episode.constraint_values()).collect()
}

pub(crate) fn mean(numbers: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = numbers.len() as f64;
    numbers.sum::<f64>() / count
}

/// The mean over episodes of each constraint's value.
pub(crate) fn mean_costs(episodes: &[Vec<f64>], constraints: usize) -> Vec<f64> {
    (0..constraints).map(|i| mean(episodes.iter().map(|values| values[i]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmdp::PointMass;

    fn trainer() -> Trainer {
        let mut layers = Layers::default();
        layers
            .toml("task = 'point-mass'\nalgorithm = 'sac'\nconstraints = ['force<=0.1']")
            .unwrap();
        let constraints = Constraint::parse_all(&["force<=0.1"], &PointMass::COSTS).unwrap();
        let make = || -> Result<Box<dyn Env>, TrainError> {
            Ok(Box::new(PointMass::new(constraints.clone())?))
        };
        Trainer::new(layers.build().unwrap(), 1, make).unwrap()
    }

    #[test]
    fn the_best_policy_is_feasible_first_and_rewarding_second() {
        let mut trainer = trainer();
        let actor = trainer.method.actor();
        let mut keep = |reward: f64, cost: f64| trainer.keep_if_best(&actor, reward, vec![cost]);
        assert!(keep(5.0, 0.9)); // the first, whatever it is
        assert!(keep(1.0, 0.5)); // less violation
        assert!(!keep(9.0, 0.6));
        assert!(keep(-3.0, 0.1)); // feasible
        assert!(!keep(9.0, 0.11));
        assert!(!keep(-3.0, 0.0)); // as feasible, no better
        assert!(keep(-2.0, 0.1));
        let best = trainer.best().unwrap();
        assert_eq!((best.reward, best.violation), (-2.0, 0.0));
        assert_eq!(best.policy.about.cost, Some(vec![0.1]));
    }
}
