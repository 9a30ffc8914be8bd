//! The training loop: Algorithm 1 of the paper, with the choices of [`Algorithm`].

use std::time::Instant;

use cmdp::{Constraint, ConstraintError, Env, EnvSpec};
use nets::store::Store;
use nets::{Activation, Mlp};
use serde::{Deserialize, Serialize};

use crate::algorithm::Algorithm;
use crate::config::{Config, ConfigError, Layers};
use crate::constraint::{Lagrange, feasible, violation};
use crate::policy::{About, Policy};
use crate::ranking::Ranking;
use crate::record::{Census, Fate, Fates, Generation, Individual, Times};
use crate::replay::Replay;
use crate::rollout::{Choice, Rollout, Stage, Ticket};
use crate::sac::{Losses, Sac};
use crate::variation::{Descent, Origin, vary};

/// The streams of randomness of a run; a key is `[seed, stream, generation, index]`.
#[derive(Clone, Copy)]
enum Stream {
    Init,
    Population,
    Learner,
    Evolution,
    Update,
    Multipliers,
    TestLearner,
    TestChampion,
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

/// A generation that has been played and is being learnt from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Pending {
    /// What is known of it so far.
    record: Generation,
    /// B_C^g: J_C of its episodes.
    values: Vec<Vec<f64>>,
    steps: u64,
    /// Whether there are transitions enough to learn from.
    learning: bool,
    /// The first and the last slot of the ranking.
    first: Option<usize>,
    last: Option<usize>,
    updates: u64,
    done: u64,
    /// Sums over the updates done.
    losses: Losses,
}

/// What a checkpoint holds beside tensors. There is no random state: every generator comes from a
/// key that these counters name.
#[derive(Debug, Serialize, Deserialize)]
struct Counters {
    config: String,
    generation: u64,
    pending: Option<Pending>,
    env_steps: u64,
    learnt_steps: u64,
    grad_steps: u64,
    adam_steps: Vec<u64>,
    tested_at: Option<u64>,
    times: Times,
    lagrange: Lagrange,
    descents: Vec<Descent>,
    injected: Option<usize>,
    fates: Fates,
    census: Option<Census>,
    /// The best policy's origin, reward, cost and violation; its tensors lie beside.
    best: Option<(About, f64, Vec<f64>, f64)>,
}

/// A training run.
pub struct Trainer {
    config: Config,
    algorithm: &'static Algorithm,
    spec: EnvSpec,
    pool: rayon::ThreadPool,
    stage: Stage,
    sac: Sac,
    replay: Replay,
    population: Vec<Mlp>,
    /// Where each actor of the population comes from.
    descents: Vec<Descent>,
    lagrange: Lagrange,
    /// The slot that holds a copy of the learner that has not been ranked yet.
    injected: Option<usize>,
    fates: Fates,
    census: Option<Census>,
    generation: u64,
    pending: Option<Pending>,
    env_steps: u64,
    /// Environment steps of the generations that were learnt from.
    learnt_steps: u64,
    grad_steps: u64,
    tested_at: Option<u64>,
    best: Option<Best>,
    /// Whether a number is not finite any more, and the actor before that.
    broken: bool,
    last_good: Mlp,
    started: Instant,
    times: Times,
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
        let (obs, action, constraints) = (spec.observation, spec.action, spec.constraints.len());
        let mut rng = cmdp::rng([config.seed, Stream::Init as u64, 0, 0]);
        let sac = Sac::new(config.sac.clone(), obs, action, &mut rng);
        let evolution = &config.evolution;
        let size = if algorithm.ranking.is_some() { evolution.population } else { 0 };
        let population: Vec<Mlp> =
            (0..size).map(|_| Sac::new_actor(&config.sac.hidden, obs, action, &mut rng)).collect();
        let rule = algorithm.multipliers;
        let lagrange = Lagrange::new(rule, &config.multipliers, constraints, size, &mut rng);
        Ok(Self {
            replay: Replay::new(config.replay.capacity, obs, action, constraints),
            lagrange,
            last_good: sac.actor().clone(),
            descents: vec![Descent::without_parents(Origin::Initial); size],
            population,
            injected: None,
            fates: Fates::default(),
            census: None,
            config,
            algorithm,
            spec,
            pool,
            stage: Stage::new(envs),
            sac,
            generation: 0,
            pending: None,
            env_steps: 0,
            learnt_steps: 0,
            grad_steps: 0,
            broken: false,
            tested_at: None,
            best: None,
            started: Instant::now(),
            times: Times::default(),
        })
    }

    /// The values in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The constraints in force.
    pub fn constraints(&self) -> &[Constraint] {
        &self.spec.constraints
    }

    /// Environment steps so far.
    pub fn env_steps(&self) -> u64 {
        self.env_steps
    }

    /// Updates so far.
    pub fn grad_steps(&self) -> u64 {
        self.grad_steps
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
        self.census.as_ref()
    }

    /// Where the time went so far.
    pub fn times(&self) -> Times {
        let total = self.times.total + self.started.elapsed().as_secs_f64();
        Times { total, ..self.times }
    }

    /// The replay buffer.
    pub fn replay(&self) -> &Replay {
        &self.replay
    }

    /// The replay buffer, to take note that it was stored.
    pub(crate) fn replay_mut(&mut self) -> &mut Replay {
        &mut self.replay
    }

    /// Everything but the replay buffer, for a checkpoint.
    pub fn state(&self) -> Store {
        let mut store = Store::default();
        let adam_steps = self.sac.save(&mut store);
        for (slot, actor) in self.population.iter().enumerate() {
            store.add_mlp(&format!("population{slot}"), actor);
        }
        store.add_mlp("last_good", &self.last_good);
        if let Some(best) = &self.best {
            store.add_mlp("best", &best.policy.actor);
        }
        let best = self.best.as_ref();
        let counters = Counters {
            config: self.config.to_toml(),
            generation: self.generation,
            pending: self.pending.clone(),
            env_steps: self.env_steps,
            learnt_steps: self.learnt_steps,
            grad_steps: self.grad_steps,
            adam_steps,
            tested_at: self.tested_at,
            times: self.times(),
            lagrange: self.lagrange.clone(),
            descents: self.descents.clone(),
            injected: self.injected,
            fates: self.fates,
            census: self.census.clone(),
            best: best.map(|b| (b.policy.about.clone(), b.reward, b.cost.clone(), b.violation)),
        };
        store.about = serde_json::to_string(&counters).expect("plain data");
        store
    }

    /// Brings a fresh trainer to a state that [`state`](Self::state) gave and a replay buffer. All
    /// is checked before anything changes.
    pub fn restore(
        &mut self,
        state: &Store,
        segments: Vec<Vec<f32>>,
        len: usize,
        next: usize,
    ) -> Result<(), String> {
        let counters: Counters = serde_json::from_str(&state.about).map_err(|e| e.to_string())?;
        let mut layers = Layers::default();
        let config = layers.toml(&counters.config).and_then(|()| layers.build());
        let config = config.map_err(|e| e.to_string())?;
        // More steps may be asked for; everything else must be as it was.
        if (Config { steps: self.config.steps, ..config }) != self.config {
            return Err("it belongs to another configuration".into());
        }
        let net = |name: &str, like: &Mlp| {
            state.mlp(name, like.sizes(), Activation::Relu).map_err(|e| e.to_string())
        };
        let mut sac = self.sac.clone();
        sac.load(state, &counters.adam_steps).map_err(|e| e.to_string())?;
        let slots = self.population.iter().enumerate();
        let population = slots
            .map(|(slot, actor)| net(&format!("population{slot}"), actor))
            .collect::<Result<Vec<_>, _>>()?;
        let last_good = net("last_good", &self.last_good)?;
        let best = match counters.best {
            None => None,
            Some((about, reward, cost, violation)) => {
                let policy = Policy { actor: net("best", sac.actor())?, about };
                Some(Best { policy, reward, cost, violation })
            }
        };
        if counters.descents.len() != population.len() {
            return Err("its population has another size".into());
        }
        if !self.replay.restore(segments, len, next) {
            return Err("its replay buffer has another size".into());
        }
        (self.sac, self.population, self.last_good, self.best) = (sac, population, last_good, best);
        self.generation = counters.generation;
        self.pending = counters.pending;
        self.env_steps = counters.env_steps;
        self.learnt_steps = counters.learnt_steps;
        self.grad_steps = counters.grad_steps;
        self.tested_at = counters.tested_at;
        self.times = counters.times;
        self.lagrange = counters.lagrange;
        self.descents = counters.descents;
        self.injected = counters.injected;
        self.fates = counters.fates;
        self.census = counters.census;
        self.started = Instant::now();
        Ok(())
    }

    /// The learner's policy. After [`TrainError::NotFinite`], the last that was sound.
    pub fn policy(&self) -> Policy {
        let actor = if self.broken { &self.last_good } else { self.sac.actor() };
        Policy { actor: actor.clone(), about: self.about() }
    }

    fn about(&self) -> About {
        let Config { task, algorithm, seed, constraints, .. } = &self.config;
        About { env_steps: self.env_steps, ..About::new(task, algorithm, *seed, constraints) }
    }

    fn key(&self, stream: Stream, index: u64) -> [u64; 4] {
        [self.config.seed, stream as u64, self.generation, index]
    }

    /// One generation: lines 7-30 of Algorithm 1.
    ///
    /// `progress` is told after every update how many steps have been taken and learnt from. Where
    /// it returns false, the generation pauses and `None` comes back; the next call goes on with it,
    /// and what comes of it is the same to the bit.
    pub fn generation(
        &mut self,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Generation>, TrainError> {
        Ok(if self.play_and_learn(progress)? { self.conclude() } else { None })
    }

    /// The first part of [`generation`](Self::generation), up to its last update; returns whether
    /// that was reached.
    pub fn play_and_learn(
        &mut self,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool, TrainError> {
        let mut pending = match self.pending.take() {
            Some(pending) => pending,
            None => self.play_generation(),
        };
        let learnt = self.learn(&mut pending, progress); // SAC on r - λ·c
        self.pending = Some(pending);
        learnt
    }

    /// The second part of [`generation`](Self::generation): multipliers, the learner's copy, a test.
    /// Only here does it matter whether the run ends with this generation: a checkpoint made before
    /// serves a longer run as well.
    pub fn conclude(&mut self) -> Option<Generation> {
        let pending = self.pending.take()?;
        if pending.learning {
            self.lagrange.raise_learner(&pending.values, &self.spec.constraints);
        }
        if self.generation.is_multiple_of(self.config.evolution.sync_period)
            && let Some(last) = pending.last
        {
            self.inject_learner(last); // and raise that slot's multiplier
        }
        Some(self.finish(pending))
    }

    /// Whether the current generation is the last.
    pub fn is_last(&self) -> bool {
        self.env_steps >= self.config.steps
    }

    /// The first half of a generation: everybody plays, and the next population is made.
    fn play_generation(&mut self) -> Pending {
        self.generation += 1;
        let population = self.play_population(); // every actor, one episode, in parallel
        for (slot, rollout) in population.iter().enumerate() {
            rollout.remember(&mut self.replay, self.lagrange.of_slot(slot));
        }
        let lambdas: Vec<Vec<f64>> =
            (0..population.len()).map(|slot| self.lagrange.of_slot(slot).to_vec()).collect();
        let ranked = self.rank(&population);
        let fate = self.vary(&population, &ranked); // elites stay, the rest change
        let learner = self.play_learner();
        for rollout in &learner {
            rollout.remember(&mut self.replay, self.lagrange.of_learner());
        }
        let values = constraint_values(population.iter().chain(&learner)); // B_C^g
        self.lagrange.remember(&values);

        let everyone = || population.iter().chain(&learner);
        let steps: usize = everyone().map(|r| r.episode.steps()).sum();
        self.env_steps += steps as u64;
        let learning = self.replay.len() >= self.config.learner.learning_starts;
        let constraints = self.spec.constraints.len();
        let (played, rolled) = (constraint_values(&population), constraint_values(&learner));
        let some = |values: Vec<f64>| (!population.is_empty()).then_some(values);
        let share = |sum: f64| (!population.is_empty()).then(|| sum / population.len() as f64);
        let kept = population.iter().filter(|r| r.episode.is_feasible()).count() as f64;
        let record = Generation {
            generation: self.generation,
            env_steps: self.env_steps,
            rollout_reward: mean(learner.iter().map(|r| r.episode.reward())),
            rollout_cost: mean_costs(&rolled, constraints),
            population_reward_mean: share(population.iter().map(|r| r.episode.reward()).sum()),
            population_cost_mean: some(mean_costs(&played, constraints)),
            population_feasible: share(kept),
            lambda_mean: some(mean_costs(&lambdas, constraints)),
            learner_copy: fate,
            unstable: everyone().filter(|r| r.unstable).count(),
            replay: self.replay.len(),
            ..Generation::default()
        };
        let updates = if learning { self.updates_due(steps) } else { 0 };
        let (first, last) = (ranked.first().copied(), ranked.last().copied());
        self.last_good.params_mut().copy_from_slice(self.sac.actor().params());
        let losses = Losses::default();
        Pending {
            record,
            values,
            steps: steps as u64,
            learning,
            first,
            last,
            updates,
            done: 0,
            losses,
        }
    }

    /// The updates that a generation's steps ask for; counted from the start of the run, so that
    /// fractions of an update add up.
    fn updates_due(&mut self, steps: usize) -> u64 {
        self.learnt_steps += steps as u64;
        let ratio = self.config.learner.grad_steps_per_env_step;
        ((self.learnt_steps as f64 * ratio).round() as u64).saturating_sub(self.grad_steps)
    }

    /// What a generation brought, and a test if one is due.
    fn finish(&mut self, pending: Pending) -> Generation {
        let Pending { mut record, losses, done, first, .. } = pending;
        let losses = (done > 0).then(|| losses.divided_by(done as f64));
        record.grad_steps = self.grad_steps;
        record.lambda_learner = self.lagrange.of_learner().to_vec();
        record.critic_loss = losses.map(|l| (l.critic[0] + l.critic[1]) / 2.0);
        record.actor_loss = losses.map(|l| l.actor);
        record.entropy = losses.map(|l| l.entropy);
        if self.test_is_due() {
            self.test(&mut record, first);
        }
        record.times = self.times();
        record.seconds = record.times.total;
        record
    }

    fn play_population(&mut self) -> Vec<Rollout> {
        let tickets: Vec<Ticket> = self
            .population
            .iter()
            .enumerate()
            .map(|(i, actor)| Ticket { actor, key: self.key(Stream::Population, i as u64) })
            .collect();
        let (played, physics) = self.play(&tickets, Choice::Sample);
        self.times.physics += physics;
        played
    }

    fn play_learner(&mut self) -> Vec<Rollout> {
        let episodes = self.config.learner.episodes;
        let tickets = self.tickets(self.sac.actor(), Stream::Learner, episodes);
        let (played, physics) = self.play(&tickets, Choice::Sample);
        self.times.physics += physics;
        played
    }

    fn tickets<'a>(&self, actor: &'a Mlp, stream: Stream, episodes: usize) -> Vec<Ticket<'a>> {
        (0..episodes as u64).map(|i| Ticket { actor, key: self.key(stream, i) }).collect()
    }

    /// Plays the tickets; returns the episodes, and the seconds that the environments took of it.
    fn play(&self, tickets: &[Ticket], choice: Choice) -> (Vec<Rollout>, f64) {
        let start = Instant::now();
        let played = self.pool.install(|| self.stage.play(tickets, choice));
        let seconds = start.elapsed().as_secs_f64();
        // Threads play at once: take the environments' share of all episodes.
        let sum = |i: usize| played.iter().map(|r| r.times[i].as_secs_f64()).sum::<f64>();
        let share = sum(0) / sum(1).max(f64::MIN_POSITIVE);
        (played, seconds * share)
    }

    fn rank(&self, population: &[Rollout]) -> Vec<usize> {
        let rewards: Vec<f64> = population.iter().map(|r| r.episode.reward()).collect();
        let violations: Vec<f64> = constraint_values(population)
            .iter()
            .map(|values| violation(values, &self.spec.constraints))
            .collect();
        let mut rng = cmdp::rng(self.key(Stream::Evolution, 0));
        let order = |ranking: Ranking| {
            ranking.order(&rewards, &violations, self.config.evolution.pf, &mut rng)
        };
        self.algorithm.ranking.map(order).unwrap_or_default()
    }

    /// Makes the next population, and notes who was who in this one.
    fn vary(&mut self, played: &[Rollout], ranked: &[usize]) -> Option<Fate> {
        if ranked.is_empty() {
            return None;
        }
        let elites = self.config.evolution.elites;
        let mut rng = cmdp::rng(self.key(Stream::Evolution, 1));
        let next = vary(&mut self.population, ranked, &self.config.evolution, &mut rng);
        let descents = std::mem::replace(&mut self.descents, next);
        let fate = self.injected.take().map(|slot| match self.descents[slot].origin {
            Origin::Elite => Fate::Elite,
            Origin::Winner => Fate::Selected,
            _ => Fate::Discarded,
        });
        match fate {
            Some(Fate::Elite) => self.fates.elite += 1,
            Some(Fate::Selected) => self.fates.selected += 1,
            Some(Fate::Discarded) => self.fates.discarded += 1,
            None => {}
        }
        let individuals = ranked.iter().enumerate().map(|(rank, &slot)| {
            let episode = &played[slot].episode;
            let cost = episode.constraint_values();
            Individual {
                slot,
                rank,
                elite: rank < elites,
                reward: episode.reward(),
                violation: violation(&cost, &self.spec.constraints),
                cost,
                lambda: self.lagrange.of_slot(slot).to_vec(),
                descent: descents[slot].clone(),
            }
        });
        self.census = Some(Census {
            generation: self.generation,
            learner_copies: self.fates,
            individuals: individuals.collect(),
        });
        fate
    }

    /// The learner takes the slot of the lowest-ranked, never an elite's; the slot's multipliers
    /// answer the violations in a batch of past episodes.
    fn inject_learner(&mut self, slot: usize) {
        self.population[slot].params_mut().copy_from_slice(self.sac.actor().params());
        self.descents[slot] = Descent::without_parents(Origin::Learner);
        self.injected = Some(slot);
        let mut rng = cmdp::rng(self.key(Stream::Multipliers, 0));
        self.lagrange.raise_slot(slot, &self.spec.constraints, &mut rng);
    }

    /// The updates that are still to be done; returns whether all are.
    fn learn(
        &mut self,
        pending: &mut Pending,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool, TrainError> {
        let start = Instant::now();
        let (seed, stream) = (self.config.seed, Stream::Update as u64);
        let mut go_on = true;
        while pending.done < pending.updates && go_on {
            let key = |half| [seed, stream, self.grad_steps, half];
            let mut rngs = [cmdp::rng(key(0)), cmdp::rng(key(1))];
            let (sac, replay) = (&mut self.sac, &self.replay);
            let losses = self.pool.install(|| sac.update(replay, &mut rngs));
            self.grad_steps += 1;
            pending.done += 1;
            // A loss shows most troubles at once; a weight behind a ReLU may not reach it.
            let last = pending.done == pending.updates;
            let broken = if losses.are_finite() { None } else { Some("a loss".into()) };
            if (broken.is_some() || last)
                && let Some(tensor) = self.sac.broken_tensor().or(broken)
            {
                self.broken = true;
                return Err(TrainError::NotFinite { step: self.grad_steps, tensor });
            }
            pending.losses.add(&losses);
            let share = pending.done as f64 / pending.updates as f64;
            let learnt = (pending.steps as f64 * share) as u64;
            go_on = progress(self.env_steps - pending.steps + learnt);
        }
        self.times.updates += start.elapsed().as_secs_f64();
        Ok(pending.done == pending.updates)
    }

    fn test_is_due(&self) -> bool {
        let every = self.config.test.every;
        self.is_done() || self.tested_at.is_none_or(|at| self.env_steps >= at + every)
    }

    /// Tests the learner and the champion, and keeps who is the best so far.
    fn test(&mut self, record: &mut Generation, champion: Option<usize>) {
        self.tested_at = Some(self.env_steps);
        let learner = self.sac.actor().clone();
        let (reward, cost) = self.tested(&learner, Stream::TestLearner);
        record.learner_reward = Some(reward);
        record.feasible = Some(feasible(&cost, &self.spec.constraints));
        record.learner_cost = Some(cost.clone());
        record.new_best = self.keep_if_best(&learner, reward, cost);
        if let Some(slot) = champion {
            // An elite: variation has left it as it was ranked.
            let champion = self.population[slot].clone();
            let (reward, cost) = self.tested(&champion, Stream::TestChampion);
            record.champion_reward = Some(reward);
            record.champion_cost = Some(cost.clone());
            record.new_best |= self.keep_if_best(&champion, reward, cost);
        }
        record.best_reward = self.best.as_ref().map(|best| best.reward);
        record.best_feasible = self.best.as_ref().map(|best| best.violation == 0.0);
    }

    /// An actor's mean return and mean J_C.
    fn tested(&mut self, actor: &Mlp, stream: Stream) -> (f64, Vec<f64>) {
        let choice = if self.config.test.sample { Choice::Sample } else { Choice::Mean };
        let tickets = self.tickets(actor, stream, self.config.test.episodes);
        let (played, physics) = self.play(&tickets, choice);
        self.times.physics += physics;
        let reward = mean(played.iter().map(|r| r.episode.reward()));
        (reward, mean_costs(&constraint_values(&played), self.spec.constraints.len()))
    }

    fn keep_if_best(&mut self, actor: &Mlp, reward: f64, cost: Vec<f64>) -> bool {
        let violation = violation(&cost, &self.spec.constraints);
        let better = self.best.as_ref().is_none_or(|best| {
            if violation == 0.0 && best.violation == 0.0 {
                reward > best.reward
            } else {
                violation < best.violation
            }
        });
        if better {
            let about = About { reward: Some(reward), cost: Some(cost.clone()), ..self.about() };
            let policy = Policy { actor: actor.clone(), about };
            self.best = Some(Best { policy, reward, cost, violation });
        }
        better
    }
}

/// J_C of every episode.
fn constraint_values<'a>(played: impl IntoIterator<Item = &'a Rollout>) -> Vec<Vec<f64>> {
    played.into_iter().map(|rollout| rollout.episode.constraint_values()).collect()
}

fn mean(numbers: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = numbers.len() as f64;
    numbers.sum::<f64>() / count
}

/// The mean over episodes of each constraint's value.
fn mean_costs(episodes: &[Vec<f64>], constraints: usize) -> Vec<f64> {
    (0..constraints).map(|i| mean(episodes.iter().map(|values| values[i]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layers;
    use cmdp::PointMass;

    fn trainer(algorithm: &str, more: &str) -> Trainer {
        let mut layers = Layers::default();
        let small = "task = \"point-mass\"\nconstraints = [\"force<=0.1\"]\n";
        let config = "[sac]\nhidden = [16]\nbatch = 16\n[learner]\nlearning_starts = 500\n";
        layers.toml(&format!("{small}{config}{more}")).unwrap();
        layers.set("algorithm", algorithm);
        let config = layers.build().unwrap();
        let constraints = Constraint::parse_all(&config.constraints, &PointMass::COSTS).unwrap();
        let make = || -> Result<Box<dyn Env>, TrainError> {
            Ok(Box::new(PointMass::new(constraints.clone())?))
        };
        Trainer::new(config, 2, make).unwrap()
    }

    fn step(trainer: &mut Trainer) -> Generation {
        trainer.generation(&mut |_| true).unwrap().unwrap()
    }

    /// The multipliers stored with transitions from `first` on, each named once, in order.
    fn stored(trainer: &Trainer, first: usize) -> Vec<f32> {
        let mut all: Vec<f32> =
            (first..trainer.replay.len()).map(|i| trainer.replay.get(i).multipliers[0]).collect();
        all.dedup();
        all
    }

    fn slots(trainer: &Trainer) -> Vec<Vec<f64>> {
        (0..10).map(|slot| trainer.lagrange.of_slot(slot).to_vec()).collect()
    }

    fn single(lambda: &[Vec<f64>]) -> Vec<f32> {
        lambda.iter().map(|values| values[0] as f32).collect()
    }

    #[test]
    fn every_transition_keeps_the_multiplier_it_was_collected_with() {
        for algorithm in ["ecrl", "bc"] {
            let mut trainer = trainer(algorithm, "[multipliers]\neta = 0.1\n");
            let (mut expected, mut first) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                expected.extend(single(&slots(&trainer)));
                expected.push(trainer.lagrange.of_learner()[0] as f32);
                first.push(slots(&trainer));
                step(&mut trainer);
            }
            assert_eq!(stored(&trainer, 0), expected, "{algorithm}");
            // Each generation raises the one slot that the learner took.
            for pair in first.windows(2) {
                let changed = pair[0].iter().zip(&pair[1]).filter(|(a, b)| a != b).count();
                assert_eq!(changed, 1, "{algorithm}");
            }
            let distinct = &first[0];
            assert!(distinct.iter().all(|l| (0.0..1.0).contains(&l[0])), "{distinct:?}");
        }
    }

    #[test]
    fn the_other_algorithms_store_one_multiplier_for_all() {
        for (algorithm, expected) in
            [("erl", 0.0), ("sr", 0.0), ("sac", 0.0), ("erl-shaped", 0.25), ("sr-shaped", 0.25)]
        {
            let mut trainer = trainer(algorithm, "[multipliers]\nlambda = 0.25\neta = 0.1\n");
            (0..3).for_each(|_| _ = step(&mut trainer));
            assert_eq!(stored(&trainer, 0), [expected], "{algorithm}");
        }
        for algorithm in ["rcpo-erl", "rcpo"] {
            let mut trainer = trainer(algorithm, "[multipliers]\nlambda = 0.25\neta = 0.1\n");
            for _ in 0..4 {
                let (first, lambda) =
                    (trainer.replay.len(), trainer.lagrange.of_learner()[0] as f32);
                step(&mut trainer);
                assert_eq!(stored(&trainer, first), [lambda], "{algorithm}");
            }
            assert_ne!(trainer.lagrange.of_learner(), [0.25], "{algorithm}");
        }
    }

    #[test]
    fn the_learner_joins_the_population_every_sync_period_and_never_on_an_elite() {
        let mut trainer = trainer("ecrl", "[evolution]\nsync_period = 2\n");
        let mut fates = 0;
        for n in 1..=30 {
            let record = step(&mut trainer);
            let census = trainer.census.clone().unwrap();
            let learners: Vec<&Individual> = census
                .individuals
                .iter()
                .filter(|one| one.descent.origin == Origin::Learner)
                .collect();
            // Injected at the end of an even generation, ranked in the odd one that follows.
            assert_eq!(learners.len(), usize::from(n % 2 == 1 && n > 1), "generation {n}");
            assert_eq!(record.learner_copy.is_some(), n % 2 == 1 && n > 1);
            fates += u64::from(record.learner_copy.is_some());
            if n % 2 == 0 {
                let slot = trainer.injected.unwrap();
                let last = census.individuals.last().unwrap();
                assert!(!last.elite && last.slot == slot);
                assert_eq!(trainer.population[slot].params(), trainer.sac.actor().params());
            }
        }
        let Fates { elite, selected, discarded } = trainer.fates;
        assert_eq!(elite + selected + discarded, fates);
    }

    #[test]
    fn the_champion_is_tested_as_it_was_ranked() {
        let mut trainer = trainer("ecrl", "[test]\nevery = 0\n");
        for _ in 0..5 {
            let before = trainer.population.clone();
            let record = step(&mut trainer);
            let first = trainer.census.as_ref().unwrap().individuals[0].slot;
            assert_eq!(trainer.population[first], before[first]);
            assert!(record.champion_reward.is_some());
        }
    }

    #[test]
    fn the_best_policy_is_feasible_first_and_rewarding_second() {
        let mut trainer = trainer("sac", "");
        let actor = trainer.sac.actor().clone();
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

    #[test]
    fn gradient_steps_follow_the_configured_ratio() {
        let mut trainer = trainer("ecrl", "grad_steps_per_env_step = 0.25\n");
        let records: Vec<Generation> = (0..3).map(|_| step(&mut trainer)).collect();
        let steps = records[2].env_steps - records[1].env_steps;
        let updates = records[2].grad_steps - records[1].grad_steps;
        assert_eq!(updates, (steps as f64 / 4.0).round() as u64);
    }
}
