//! The training loop: Algorithm 1 of the paper, with the choices of [`Algorithm`].

use std::time::{Duration, Instant};

use cmdp::{Constraint, ConstraintError, Env, EnvSpec};
use nets::Mlp;
use serde::Serialize;

use crate::algorithm::{Algorithm, Multipliers};
use crate::config::{Config, ConfigError};
use crate::constraint::{feasible, raise, violation};
use crate::policy::{About, Policy};
use crate::replay::Replay;
use crate::rollout::{Choice, Rollout, Stage, Ticket};
use crate::sac::{Losses, Sac};

/// The streams of randomness of a run; a key is `[seed, stream, generation, index]`.
#[derive(Clone, Copy)]
enum Stream {
    Init,
    Learner,
    Test,
    Update,
}

/// What one generation brought: one line of `metrics.jsonl`.
///
/// Costs and multipliers have one entry for each constraint. Test figures are there in generations
/// that were tested.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Generation {
    /// Its number, from 1.
    pub generation: u64,
    /// Environment steps so far.
    pub env_steps: u64,
    /// Updates so far.
    pub grad_steps: u64,
    /// Seconds since the run began.
    pub seconds: f64,
    /// The learner's mean return in the test.
    pub learner_reward: Option<f64>,
    /// The learner's mean J_C in the test.
    pub learner_cost: Option<Vec<f64>>,
    /// Whether the learner's mean J_C kept every constraint in the test.
    pub feasible: Option<bool>,
    /// The mean return of the learner's own sampled episodes.
    pub rollout_reward: f64,
    /// Their mean J_C.
    pub rollout_cost: Vec<f64>,
    /// The learner's multipliers after the generation.
    pub lambda_learner: Vec<f64>,
    /// Means over the generation's updates.
    pub critic_loss: Option<f64>,
    /// The actor's loss.
    pub actor_loss: Option<f64>,
    /// The policy's entropy.
    pub entropy: Option<f64>,
    /// Episodes whose simulation broke down.
    pub unstable: usize,
    /// Transitions stored.
    pub replay: usize,
    /// Whether this generation's test gave the best policy so far.
    pub new_best: bool,
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

/// Where the time went.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Times {
    /// Playing episodes.
    pub rollouts: Duration,
    /// Testing policies.
    pub tests: Duration,
    /// Gradient updates.
    pub updates: Duration,
    /// The whole run.
    pub total: Duration,
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
    #[error(
        "update {step}: {tensor} is not finite any more; kept the policy from before this generation"
    )]
    NotFinite {
        /// The update in which it was seen.
        step: u64,
        /// The first tensor found.
        tensor: String,
    },
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
    /// The learner's multipliers λ_π.
    lambda: Vec<f64>,
    generation: u64,
    env_steps: u64,
    grad_steps: u64,
    tested_at: Option<u64>,
    best: Option<Best>,
    /// The actor before the current generation's updates.
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
        let start = match algorithm.multipliers {
            Multipliers::None => 0.0,
            Multipliers::Adaptive => config.multipliers.lambda,
        };
        Ok(Self {
            replay: Replay::new(config.replay.capacity, obs, action, constraints),
            lambda: vec![start; constraints],
            last_good: sac.actor().clone(),
            config,
            algorithm,
            spec,
            pool,
            stage: Stage::new(envs),
            sac,
            generation: 0,
            env_steps: 0,
            grad_steps: 0,
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

    /// Whether all steps have been taken.
    pub fn is_done(&self) -> bool {
        self.env_steps >= self.config.steps
    }

    /// The best policy so far.
    pub fn best(&self) -> Option<&Best> {
        self.best.as_ref()
    }

    /// Where the time went so far.
    pub fn times(&self) -> Times {
        Times { total: self.started.elapsed(), ..self.times }
    }

    /// The learner's policy. After [`TrainError::NotFinite`], the last that was sound.
    pub fn policy(&self) -> Policy {
        let actor = match self.sac.broken_tensor() {
            None => self.sac.actor().clone(),
            Some(_) => self.last_good.clone(),
        };
        Policy { actor, about: self.about() }
    }

    fn about(&self) -> About {
        let Config { task, algorithm, seed, constraints, .. } = &self.config;
        About { env_steps: self.env_steps, ..About::new(task, algorithm, *seed, constraints) }
    }

    fn key(&self, stream: Stream, index: u64) -> [u64; 4] {
        [self.config.seed, stream as u64, self.generation, index]
    }

    /// One generation: the learner plays, learns, and answers its violations.
    ///
    /// `progress` is told after every update which share of the generation's updates is done; where
    /// it returns false, the generation ends early.
    pub fn generation(
        &mut self,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Generation, TrainError> {
        self.generation += 1;
        self.last_good = self.sac.actor().clone();
        let played = self.play_learner();
        for rollout in &played {
            rollout.remember(&mut self.replay, &self.lambda);
        }
        let steps: usize = played.iter().map(|rollout| rollout.episode.steps()).sum();
        self.env_steps += steps as u64;
        let values: Vec<Vec<f64>> =
            played.iter().map(|rollout| rollout.episode.constraint_values()).collect();
        let learning = self.replay.len() >= self.config.learner.learning_starts;
        let mut stopped = false;
        let mut progress = |share| {
            stopped = !progress(share);
            !stopped
        };
        let losses = if learning { self.learn(steps, &mut progress)? } else { None };
        if learning && self.algorithm.multipliers == Multipliers::Adaptive {
            let eta = self.config.multipliers.eta;
            raise(&mut self.lambda, eta, values.iter().map(Vec::as_slice), &self.spec.constraints);
        }
        let mut record = Generation {
            generation: self.generation,
            env_steps: self.env_steps,
            grad_steps: self.grad_steps,
            seconds: 0.0,
            learner_reward: None,
            learner_cost: None,
            feasible: None,
            rollout_reward: mean(played.iter().map(|rollout| rollout.episode.reward())),
            rollout_cost: mean_costs(&values, self.spec.constraints.len()),
            lambda_learner: self.lambda.clone(),
            critic_loss: losses.map(|l| (l.critic[0] + l.critic[1]) / 2.0),
            actor_loss: losses.map(|l| l.actor),
            entropy: losses.map(|l| l.entropy),
            unstable: played.iter().filter(|rollout| rollout.unstable).count(),
            replay: self.replay.len(),
            new_best: false,
        };
        if !stopped && self.test_is_due() {
            self.test(&mut record);
        }
        record.seconds = self.started.elapsed().as_secs_f64();
        Ok(record)
    }

    fn play_learner(&mut self) -> Vec<Rollout> {
        let start = Instant::now();
        let tickets: Vec<Ticket> = (0..self.config.learner.episodes as u64)
            .map(|i| Ticket { actor: self.sac.actor(), key: self.key(Stream::Learner, i) })
            .collect();
        let played = self.pool.install(|| self.stage.play(&tickets, Choice::Sample));
        self.times.rollouts += start.elapsed();
        played
    }

    /// As many updates as the generation's steps ask for; returns the mean of their losses.
    fn learn(
        &mut self,
        steps: usize,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Option<Losses>, TrainError> {
        let start = Instant::now();
        let updates = (steps as f64 * self.config.learner.grad_steps_per_env_step).round() as u64;
        let (seed, stream) = (self.config.seed, Stream::Update as u64);
        let mut sum = Losses::default();
        let mut done = 0;
        while done < updates {
            let key = |half| [seed, stream, self.grad_steps, half];
            let mut rngs = [cmdp::rng(key(0)), cmdp::rng(key(1))];
            let (sac, replay) = (&mut self.sac, &self.replay);
            let losses = self.pool.install(|| sac.update(replay, &mut rngs));
            self.grad_steps += 1;
            done += 1;
            if !losses.are_finite() {
                let tensor = self.sac.broken_tensor().unwrap_or_else(|| "a loss".into());
                return Err(TrainError::NotFinite { step: self.grad_steps, tensor });
            }
            sum.add(&losses);
            if !progress(done as f64 / updates as f64) {
                break;
            }
        }
        self.times.updates += start.elapsed();
        Ok((done > 0).then(|| sum.divided_by(done as f64)))
    }

    fn test_is_due(&self) -> bool {
        let every = self.config.test.every;
        self.is_done() || self.tested_at.is_none_or(|at| self.env_steps >= at + every)
    }

    /// Tests the learner and keeps it if it is the best so far.
    fn test(&mut self, record: &mut Generation) {
        let start = Instant::now();
        self.tested_at = Some(self.env_steps);
        let choice = if self.config.test.sample { Choice::Sample } else { Choice::Mean };
        let tickets: Vec<Ticket> = (0..self.config.test.episodes as u64)
            .map(|i| Ticket { actor: self.sac.actor(), key: self.key(Stream::Test, i) })
            .collect();
        let played = self.pool.install(|| self.stage.play(&tickets, choice));
        let reward = mean(played.iter().map(|rollout| rollout.episode.reward()));
        let values: Vec<Vec<f64>> =
            played.iter().map(|rollout| rollout.episode.constraint_values()).collect();
        let cost = mean_costs(&values, self.spec.constraints.len());
        record.learner_reward = Some(reward);
        record.feasible = Some(feasible(&cost, &self.spec.constraints));
        record.learner_cost = Some(cost.clone());
        record.new_best = self.keep_if_best(reward, cost);
        self.times.tests += start.elapsed();
    }

    fn keep_if_best(&mut self, reward: f64, cost: Vec<f64>) -> bool {
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
            let policy = Policy { actor: self.sac.actor().clone(), about };
            self.best = Some(Best { policy, reward, cost, violation });
        }
        better
    }
}

fn mean(numbers: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = numbers.len() as f64;
    numbers.sum::<f64>() / count
}

/// The mean over episodes of each constraint's value.
fn mean_costs(episodes: &[Vec<f64>], constraints: usize) -> Vec<f64> {
    (0..constraints).map(|i| mean(episodes.iter().map(|values| values[i]))).collect()
}
