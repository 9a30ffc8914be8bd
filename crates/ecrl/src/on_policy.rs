//! Algorithms that learn from what they have just played, and then forget it: PPO and IPO.
//!
//! A generation is a batch: several environments play side by side, each going on where it was, and
//! everything they played is learnt from for some epochs.

use std::time::{Duration, Instant};

use cmdp::{Constraint, Env, EnvSpec, Episode, Rng};
use nets::Mlp;
use nets::store::Store;
use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use rand_distr::StandardNormal;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::Config;
use crate::ppo::{Batch, Ppo, PpoState};
use crate::record::{Figures, Generation};
use crate::trainer::{Arena, Method, Pending, StoredReplay, Stream, mean, mean_costs};

/// The learner and the environments it plays in.
pub(crate) struct OnPolicy {
    ppo: Ppo,
    /// Whether there is a barrier.
    barrier: bool,
    seats: Vec<Seat>,
    /// Updates of the current generation so far.
    done: usize,
    /// The order of the rows in the current epoch.
    order: Vec<usize>,
}

/// An environment and the episode under way in it.
struct Seat {
    env: Box<dyn Env>,
    number: u64,
    obs: Vec<f64>,
    episode: Episode,
    /// Episodes begun.
    begun: u64,
}

/// What a seat brought.
#[derive(Default)]
struct Played {
    batch: Batch,
    ended: Vec<Episode>,
    unstable: usize,
    /// How long the environment took, and everything.
    times: [Duration; 2],
}

/// Everything that is no tensor.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    ppo: PpoState,
    seats: Vec<SeatState>,
    done: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct SeatState {
    env: Vec<f64>,
    begun: u64,
    reward: f64,
    steps: usize,
    cost_sums: Vec<f64>,
}

impl OnPolicy {
    /// A learner that plays in `envs`; with a barrier, IPO.
    pub fn new(
        config: &Config,
        barrier: bool,
        spec: &EnvSpec,
        envs: Vec<Box<dyn Env>>,
        rng: &mut Rng,
    ) -> Self {
        let constraints: &[Constraint] = if barrier { &spec.constraints } else { &[] };
        let seats = envs.into_iter().zip(0..).map(|(env, number)| Seat {
            env,
            number,
            obs: vec![0.0; spec.observation],
            episode: Episode::new(&spec.constraints),
            begun: 0,
        });
        Self {
            ppo: Ppo::new(config.ppo.clone(), spec.observation, spec.action, constraints, rng),
            barrier,
            seats: seats.collect(),
            done: 0,
            order: Vec::new(),
        }
    }

    fn per_epoch(&self, arena: &Arena) -> usize {
        self.ppo.rows().div_ceil(arena.config.ppo.minibatch)
    }
}

impl Seat {
    /// Plays some steps, from one episode into the next.
    fn play(
        &mut self,
        actor: &Mlp,
        steps: usize,
        signals: usize,
        seed: u64,
        key: [u64; 4],
    ) -> Played {
        let begun = Instant::now();
        let spec = self.env.spec().clone();
        let mut rng = cmdp::rng(key);
        let mut costs = vec![0.0; spec.constraints.len()];
        let mut action = vec![0.0; spec.action];
        let mut scratch = Vec::new();
        let mut played = Played::default();
        let batch = &mut played.batch;
        batch.signals = vec![Vec::with_capacity(steps); signals];
        if self.begun == 0 {
            self.reset(seed);
        }
        for step in 1..=steps {
            let first = batch.obs.len();
            batch.obs.extend(self.obs.iter().map(|&x| x as f32));
            let head = actor.forward_one(&batch.obs[first..], &mut scratch);
            let (means, log_sigma) = head.split_at(spec.action);
            for ((action, mean), log_sigma) in action.iter_mut().zip(means).zip(log_sigma) {
                let noise: f32 = rng.sample(StandardNormal);
                let draw = mean + log_sigma.exp() * noise;
                batch.draws.push(draw);
                *action = draw.tanh();
            }
            let start = Instant::now();
            let brought = self.env.step(&action, &mut self.obs, &mut costs);
            played.times[0] += start.elapsed();
            self.episode.push(&brought, &costs);
            let numbers = [brought.reward].into_iter().chain(costs.iter().copied());
            for (signal, number) in batch.signals.iter_mut().zip(numbers) {
                signal.push(number as f32);
            }
            batch.next_obs.extend(self.obs.iter().map(|&x| x as f32));
            let flag = |is: bool| f32::from(u8::from(is));
            batch.terminated.push(flag(brought.terminated));
            batch.last.push(flag(brought.is_last() || step == steps));
            played.unstable += usize::from(brought.unstable);
            if brought.is_last() {
                let next = Episode::new(&spec.constraints);
                played.ended.push(std::mem::replace(&mut self.episode, next));
                self.reset(seed);
            }
        }
        played.times[1] = begun.elapsed();
        played
    }

    fn reset(&mut self, seed: u64) {
        let mut rng = cmdp::rng([seed, Stream::Start as u64, self.number, self.begun]);
        self.begun += 1;
        self.env.reset(&mut rng, &mut self.obs);
    }
}

impl Method for OnPolicy {
    fn play(&mut self, arena: &mut Arena) -> Pending {
        let actor = self.ppo.actor();
        let Config { seed, ppo: config, .. } = &arena.config;
        let steps = config.collect.div_ceil(self.seats.len());
        let signals = if self.barrier { 1 + arena.spec.constraints.len() } else { 1 };
        let start = Instant::now();
        let seats = self.seats.par_iter_mut().with_max_len(1);
        let play = |seat: &mut Seat| {
            let key = arena.key(Stream::Learner, seat.number);
            seat.play(&actor, steps, signals, *seed, key)
        };
        let played: Vec<Played> = arena.pool.install(|| seats.map(play).collect());
        let sum = |i: usize| played.iter().map(|p| p.times[i].as_secs_f64()).sum::<f64>();
        arena.times.physics +=
            start.elapsed().as_secs_f64() * sum(0) / sum(1).max(f64::MIN_POSITIVE);

        let ended: Vec<&Episode> = played.iter().flat_map(|p| &p.ended).collect();
        let values: Vec<Vec<f64>> = ended.iter().map(|e| e.constraint_values()).collect();
        let some = !ended.is_empty();
        let costs = some.then(|| mean_costs(&values, arena.spec.constraints.len()));
        let length = some.then(|| mean(ended.iter().map(|e| e.steps() as f64)));
        let rollout_reward = some.then(|| mean(ended.iter().map(|e| e.reward())));
        let unstable = played.iter().map(|p| p.unstable).sum();
        let mut batch = Batch::default();
        played.into_iter().for_each(|p| batch.append(p.batch));
        let rows = batch.rows() as u64;
        self.ppo.learn_from(batch, costs.as_deref().zip(length));
        self.done = 0;
        arena.env_steps += rows;
        let record = Generation {
            generation: arena.generation,
            env_steps: arena.env_steps,
            rollout_reward,
            rollout_cost: costs,
            unstable,
            ..Generation::default()
        };
        let updates = (arena.config.ppo.epochs * self.per_epoch(arena)) as u64;
        Pending::new(record, rows, updates)
    }

    fn update(&mut self, arena: &Arena) -> Figures {
        let config = &arena.config.ppo;
        let (epoch, part) = (self.done / self.per_epoch(arena), self.done % self.per_epoch(arena));
        if part == 0 && epoch > 0 && config.recompute_advantages {
            self.ppo.estimate();
        }
        if part == 0 || self.order.is_empty() {
            self.order = (0..self.ppo.rows()).collect();
            self.order.shuffle(&mut cmdp::rng(arena.key(Stream::Order, epoch as u64)));
        }
        let rows = self.order.chunks(config.minibatch).nth(part).expect("a minibatch");
        // What had been played before this batch.
        let before = arena.env_steps - self.ppo.rows() as u64;
        let left = (1.0 - before as f64 / arena.config.steps as f64).max(0.0);
        let rate = config.lr * if config.lr_decay { left } else { 1.0 };
        let figures = self.ppo.update(rows, rate);
        self.done += 1;
        figures
    }

    fn conclude(&mut self, _arena: &Arena, record: &mut Generation, means: Option<Figures>) {
        self.ppo.absorb();
        self.order.clear();
        record.kl = means.map(|m| m.kl);
        record.clipped = means.map(|m| m.clipped);
        record.recovery = means.filter(|_| self.barrier).map(|m| m.recovery);
    }

    fn actor(&self) -> Mlp {
        self.ppo.actor()
    }

    fn broken_tensor(&self) -> Option<String> {
        self.ppo.broken_tensor()
    }

    fn save(&self, store: &mut Store) -> Value {
        let seats = self.seats.iter().map(|seat| {
            let (reward, steps, cost_sums) = seat.episode.state();
            let (env, cost_sums) = (seat.env.capture(), cost_sums.to_vec());
            SeatState { env, begun: seat.begun, reward, steps, cost_sums }
        });
        let state = State { ppo: self.ppo.save(store), seats: seats.collect(), done: self.done };
        serde_json::to_value(state).expect("plain data")
    }

    fn load(&mut self, store: &Store, rest: Value, _replay: StoredReplay) -> Result<(), String> {
        let state: State = serde_json::from_value(rest).map_err(|e| e.to_string())?;
        let mut ppo = self.ppo.clone();
        ppo.load(store, state.ppo).map_err(|e| e.to_string())?;
        if state.seats.len() != self.seats.len() {
            return Err("it has another number of environments".into());
        }
        for (seat, stored) in self.seats.iter_mut().zip(state.seats) {
            let SeatState { env, begun, reward, steps, cost_sums } = stored;
            seat.episode = seat
                .episode
                .resumed(reward, steps, cost_sums)
                .ok_or("an episode has another number of constraints")?;
            seat.begun = begun;
            seat.env.restore(&env, &mut seat.obs).map_err(|e| e.to_string())?;
        }
        (self.ppo, self.done) = (ppo, state.done);
        self.order.clear();
        Ok(())
    }
}
