//! The training loop, whatever the algorithm: play, learn, test, keep the best; pause and go on
//! anywhere, to the bit.

use std::sync::Arc;
use std::time::Instant;

use cmdp::{Constraint, Env, EnvSpec, Fault};
use nets::Mlp;
use nets::store::Store;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, Collected, Setup};
use crate::best::Best;
use crate::collect::stage::{self, MakeStage};
use crate::config::{Config, ConfigError, Layers, MOST_STEPS};
use crate::context::{Context, Stream, Times};
use crate::judge::Judge;
use crate::memory::replay::{Replay, StoredReplay};
use crate::metrics::{
    ENV_STEPS, GENERATION, GRAD_STEPS, LEARNER_REWARD, REACHED, Record, SECONDS, SECONDS_COLLECT,
    SECONDS_PHYSICS, SECONDS_TESTS, SECONDS_UPDATES,
};
use crate::pending::Pending;
use crate::population::census::Census;
use crate::state::{StateError, Walk};
use crate::until::Until;

/// Why an environment cannot be made, whatever it is.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Training that cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A bad configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An environment that cannot be made.
    #[error(transparent)]
    Env(BoxError),
    /// An environment that nobody can learn from: a number is not finite, or it broke down.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Threads cannot be had.
    #[error("cannot start threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// A number is not finite any more: of a tensor, or any other value.
    #[error("update {step}: {tensor} is not finite any more; kept the last policy that was")]
    NotFinite {
        /// The update in which it was seen.
        step: u64,
        /// The first tensor found.
        tensor: String,
    },
}

/// What lasts beside the algorithm's own state. There is no random state: every generator comes from
/// a key that these counters name.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Counters {
    config: String,
    generation: u64,
    env_steps: u64,
    grad_steps: u64,
    learnt_steps: u64,
    times: Times,
    pending: Option<Pending>,
    #[serde(default)]
    reached: bool,
}

/// A training run.
pub struct Trainer {
    context: Context,
    pub(crate) algorithm: Box<dyn Algorithm>,
    pending: Option<Pending>,
    judge: Judge,
    /// Steps of generations that had updates.
    learnt_steps: u64,
    /// When it has done enough, and whether it has.
    until: Vec<Until>,
    reached: bool,
    /// The values that it was restored with, of which some may have been changed since.
    previous: Option<Config>,
    /// Whether a number is not finite any more, and the actor before that.
    broken: bool,
    fault: Option<Fault>,
    last_good: Mlp,
    started: Instant,
}

impl std::fmt::Debug for Trainer {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Config { algorithm, task, .. } = self.config();
        write!(f, "{algorithm} on {task} at {} steps", self.env_steps())
    }
}

impl Trainer {
    /// A run of `config` on `threads` threads, in as many environments as `make` makes. The task's
    /// name and constraints are those of the environments, whatever the configuration says.
    pub fn new<E: Into<BoxError>>(
        config: Config,
        threads: usize,
        mut make: impl FnMut() -> Result<Box<dyn Env>, E>,
    ) -> Result<Self, TrainError> {
        Self::on(config, threads, &mut |_: &Config| make())
    }

    /// The same, wherever it is played.
    pub fn on(
        mut config: Config,
        threads: usize,
        make: &mut impl MakeStage,
    ) -> Result<Self, TrainError> {
        config.validate()?;
        let until = Until::parse_all(&config.test.until)?;
        let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?);
        let stage = make.stage(&config, &pool, config.running()).map_err(TrainError::Env)?;
        let spec: EnvSpec = stage.spec().clone();
        config.task.clone_from(&spec.name);
        config.constraints = spec.constraints.iter().map(Constraint::to_string).collect();
        let mut rng = cmdp::rng([config.seed, Stream::Init as u64, 0, 0]);
        let row = config.row()?;
        if let Some(choices) = spec.choices
            && !row.takes_choices()
        {
            return Err(ConfigError::Choices { algorithm: row.name(), choices }.into());
        }
        let algorithm = row.build(&config, Setup { spec: &spec, rng: &mut rng })?;
        Ok(Self {
            context: Context {
                config,
                spec,
                pool,
                fault: None,
                stage,
                generation: 0,
                env_steps: 0,
                grad_steps: 0,
                times: Times::default(),
            },
            last_good: algorithm.actor(),
            algorithm,
            pending: None,
            judge: Judge::default(),
            learnt_steps: 0,
            until,
            reached: false,
            previous: None,
            broken: false,
            fault: None,
            started: Instant::now(),
        })
    }

    /// Takes a policy to start from, before anything was played.
    pub fn start_from(&mut self, actor: &Mlp) -> Result<(), TrainError> {
        self.algorithm.start_from(actor)?;
        self.last_good = self.algorithm.actor();
        Ok(())
    }

    /// What differs between the values in force and those it was restored with, in words.
    pub fn changes(&self) -> Vec<String> {
        self.previous.as_ref().map_or(Vec::new(), |before| self.config().differences(before))
    }

    /// The values in force.
    pub fn config(&self) -> &Config {
        &self.context.config
    }

    /// The task: its name, sizes and constraints.
    pub fn spec(&self) -> &EnvSpec {
        &self.context.spec
    }

    /// Environment steps so far.
    pub fn env_steps(&self) -> u64 {
        self.context.env_steps
    }

    /// Updates so far.
    pub fn grad_steps(&self) -> u64 {
        self.context.grad_steps
    }

    /// Environment steps that were learnt from, in the current generation as far as it has come.
    pub fn learnt_steps(&self) -> u64 {
        let rest = self.pending.as_ref().map_or(0, Pending::rest);
        self.learnt_steps - rest.min(self.learnt_steps)
    }

    /// Environment steps that [`play_and_learn`](Self::play_and_learn) would tell now: those of earlier
    /// generations, and of this one as many as were learnt from.
    pub fn learnt_steps_so_far(&self) -> u64 {
        self.context.env_steps - self.pending.as_ref().map_or(0, Pending::rest)
    }

    /// The most steps that a generation can take: as generations are played whole, a run may take so
    /// many more than it was asked for.
    pub fn longest_generation(&self) -> u64 {
        self.algorithm.longest_generation(&self.context.spec)
    }

    /// Whether the current generation is the last.
    pub fn is_last(&self) -> bool {
        self.context.env_steps >= self.context.config.steps
    }

    /// Whether all steps have been taken and learnt from, or it has come to what it was to come to.
    pub fn is_done(&self) -> bool {
        (self.is_last() || self.reached) && self.pending.is_none()
    }

    /// Whether it has ended because it has come to what it was to come to.
    pub fn has_reached(&self) -> bool {
        self.reached
    }

    /// The best policy so far.
    pub fn best(&self) -> Option<&Best> {
        self.judge.best()
    }

    /// The population of the last generation, for algorithms that have one.
    pub fn census(&self) -> Option<&Census> {
        self.algorithm.census()
    }

    /// Where the time went so far.
    pub fn times(&self) -> Times {
        let total = self.context.times.total + self.started.elapsed().as_secs_f64();
        Times { total, ..self.context.times }
    }

    /// The replay buffer, for algorithms that have one.
    pub fn replay(&self) -> Option<&Replay> {
        self.algorithm.replay()
    }

    /// The replay buffer, to take note that it was stored.
    pub fn replay_mut(&mut self) -> Option<&mut Replay> {
        self.algorithm.replay_mut()
    }

    /// The learner's policy: a network from an observation to `[μ, log σ]`, or to the scores of choices. After
    /// [`TrainError::NotFinite`], the last that was sound.
    pub fn actor(&self) -> Mlp {
        if self.broken { self.last_good.clone() } else { self.algorithm.actor() }
    }

    /// Everything but the replay buffer, for a checkpoint. Refused where a number is not finite: such
    /// a state could not be loaded.
    pub fn state(&mut self) -> Result<Store, TrainError> {
        self.refuse_not_finite()?;
        if let Some(fault) = &self.fault {
            return Err(fault.clone().into());
        }
        // Saving refuses nothing but environments that cannot be reached.
        Walk::save(|walk| self.walk(walk)).map_err(|error| {
            let (task, error) = (self.context.spec.name.clone(), error.to_string());
            Fault::Failed { task, error }.into()
        })
    }

    /// Brings a fresh trainer to a state that [`state`](Self::state) gave and a replay buffer; returns
    /// what there is to say about it. All is checked before anything changes.
    pub fn restore(
        &mut self,
        state: &Store,
        replay: StoredReplay,
    ) -> Result<Vec<String>, StateError> {
        let misfit = |name: &str, expected| StateError::Misfit { name: name.into(), expected };
        if let Some(own) = self.algorithm.replay()
            && !own.fits(&replay)
        {
            return Err(misfit("replay buffer", "one of this size"));
        }
        let notes = Walk::load(state, |walk| self.walk(walk))?;
        if let Some(own) = self.algorithm.replay_mut() {
            own.restore(replay);
        }
        self.judge.measure(&self.context.spec.constraints);
        self.started = Instant::now();
        Ok(notes)
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.walk_version(walk)?;
        let mut counters = Counters {
            config: self.context.config.to_toml(),
            generation: self.context.generation,
            env_steps: self.context.env_steps,
            grad_steps: self.context.grad_steps,
            learnt_steps: self.learnt_steps,
            times: self.times(),
            pending: self.pending.clone(),
            reached: self.reached,
        };
        let config = &self.context.config;
        let read = |text: &str| -> Option<Config> {
            let mut layers = Layers::default();
            layers.toml(text).and_then(|()| layers.build()).ok()
        };
        walk.fitting("run", &mut counters, "the configuration of this run", |stored, _| {
            // More steps may be asked for, and what no state has the shape of may change.
            read(&stored.config).is_some_and(|stored| stored.may_become(config).is_ok())
        })?;
        walk.verify("run", "counters of a run", |stored: &Counters| {
            let (steps, pending) = (stored.env_steps, stored.pending.as_ref());
            // A run asked for the most steps there are takes a generation more.
            steps <= 2 * MOST_STEPS && pending.is_none_or(|pending| pending.is_within(steps))
        })?;
        walk.net("last_good", &mut self.last_good)?;
        self.judge.walk(walk, &self.last_good)?;
        self.algorithm.walk(walk)?;
        stage::walk(&mut *self.context.stage, walk)?;
        if walk.is_loading() {
            self.context.generation = counters.generation;
            self.context.env_steps = counters.env_steps;
            self.context.grad_steps = counters.grad_steps;
            self.context.times = counters.times;
            self.learnt_steps = counters.learnt_steps;
            self.pending = counters.pending;
            let previous = read(&counters.config);
            let same_end = |before: &Config| before.test.until == self.config().test.until;
            self.reached = counters.reached && previous.as_ref().is_some_and(same_end);
            self.previous = previous;
        }
        Ok(())
    }

    /// Which algorithm's state it is, and of which version: before anything else is read.
    fn walk_version(&self, walk: &mut Walk) -> Result<(), StateError> {
        let version = self.context.config.row().map_or(0, |row| row.state_version());
        let mut own = (self.context.config.algorithm.clone(), version);
        let stored = walk.peek("algorithm", own.clone())?;
        if stored != own {
            let named = |(name, version): &(String, u32)| format!("{name}, version {version}");
            let (found, expected) = (named(&stored), named(&own));
            return Err(StateError::Version { found, expected });
        }
        walk.plain("algorithm", &mut own)
    }

    fn refuse_not_finite(&mut self) -> Result<(), TrainError> {
        match Walk::find_not_finite(|walk| self.algorithm.walk(walk)) {
            None => Ok(()),
            Some(tensor) => Err(self.not_finite(tensor)),
        }
    }

    /// One generation: everybody plays, the learner learns, and now and then it is tested.
    ///
    /// `progress` is told after every update how many steps have been taken and learnt from. Where
    /// it returns false, the generation pauses and `None` comes back; the next call goes on with it,
    /// and what comes of it is the same to the bit. It runs on a thread of the pool: the caller must
    /// hold no lock that it needs, such as stdout's.
    pub fn generation(
        &mut self,
        progress: &mut (dyn FnMut(u64) -> bool + Send),
    ) -> Result<Option<Record>, TrainError> {
        if self.play_and_learn(progress)? { self.conclude() } else { Ok(None) }
    }

    /// The first part of [`generation`](Self::generation), up to its last update; returns whether
    /// that was reached.
    pub fn play_and_learn(
        &mut self,
        progress: &mut (dyn FnMut(u64) -> bool + Send),
    ) -> Result<bool, TrainError> {
        let mut pending = match self.pending.take() {
            Some(pending) => pending,
            None => self.play()?,
        };
        // All at once: it takes as long as a small update to reach a thread of the pool.
        let pool = Arc::clone(&self.context.pool);
        let learnt = pool.install(|| self.learn(&mut pending, progress));
        self.pending = Some(pending);
        learnt
    }

    fn play(&mut self) -> Result<Pending, TrainError> {
        self.context.generation += 1;
        self.last_good = self.algorithm.actor();
        let mut record = Record::default();
        record.set(&GENERATION, self.context.generation);
        // First in its line, whatever the algorithm notes.
        record.set(&ENV_STEPS, 0);
        record.set(&GRAD_STEPS, 0);
        let start = Instant::now();
        let Collected { steps, updates } = self.algorithm.collect(&mut self.context, &mut record);
        self.context.times.collect += start.elapsed().as_secs_f64();
        self.refuse_fault()?;
        self.context.env_steps += steps;
        self.learnt_steps += if updates > 0 { steps } else { 0 };
        record.set(&ENV_STEPS, self.context.env_steps);
        Ok(Pending { record, steps, updates, done: 0, figures: Record::default() })
    }

    /// The second part of [`generation`](Self::generation): what the algorithm does after its last
    /// update, and a test. Only here does it matter whether the run ends with this generation: a
    /// checkpoint made before serves a longer run as well.
    pub fn conclude(&mut self) -> Result<Option<Record>, TrainError> {
        let Some(Pending { mut record, figures, done, .. }) = self.pending.take() else {
            return Ok(None);
        };
        record.set(&GRAD_STEPS, self.context.grad_steps);
        record.set_means(&figures, done);
        self.algorithm.conclude(&self.context, &mut record);
        let (last, start) = (self.is_done(), Instant::now());
        let Self { context, judge, algorithm, .. } = self;
        judge.judge(context, (|| algorithm.actor(), || algorithm.champion()), last, &mut record);
        let tested = record.get(&LEARNER_REWARD).is_some() && !self.until.is_empty();
        if tested && self.until.iter().all(|until| until.is_met_by(&record)) {
            self.reached = true;
            record.set(&REACHED, true);
            if !last {
                // As at the end of any run.
                let who = (|| algorithm.actor(), || algorithm.champion());
                judge.judge(context, who, true, &mut record);
            }
        }
        self.context.times.tests += start.elapsed().as_secs_f64();
        self.refuse_fault()?;
        let Times { collect, updates, tests, physics, total } = self.times();
        record.set(&SECONDS, total);
        record.set(&SECONDS_COLLECT, collect);
        record.set(&SECONDS_UPDATES, updates);
        record.set(&SECONDS_TESTS, tests);
        record.set(&SECONDS_PHYSICS, physics);
        // A multiplier that grew out of bounds, say: nothing that is written down may be infinite.
        self.refuse_not_finite()?;
        if let Some(name) = record.find_not_finite() {
            return Err(self.not_finite(name));
        }
        Ok(Some(record))
    }

    fn not_finite(&mut self, tensor: impl Into<String>) -> TrainError {
        self.broken = true;
        TrainError::NotFinite { step: self.context.grad_steps, tensor: tensor.into() }
    }

    /// Ends the run where an environment has brought a number that is not finite.
    fn refuse_fault(&mut self) -> Result<(), TrainError> {
        self.fault = self.context.fault.take();
        match &self.fault {
            None => Ok(()),
            Some(fault) => {
                self.broken = true;
                Err(fault.clone().into())
            }
        }
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
            let figures = self.algorithm.update(&self.context);
            self.context.grad_steps += 1;
            pending.done += 1;
            // A loss shows most troubles at once; a weight behind a ReLU may not reach it.
            let broken = figures.iter().find(|(_, figure)| !figure.is_finite());
            if broken.is_some() || pending.done == pending.updates {
                self.refuse_not_finite()?;
            }
            if let Some((metric, _)) = broken {
                return Err(self.not_finite(metric.about.name));
            }
            pending.figures.add(&figures);
            go_on = progress(self.context.env_steps - pending.rest());
        }
        self.context.times.updates += start.elapsed().as_secs_f64();
        Ok(pending.done == pending.updates)
    }
}

#[cfg(test)]
mod tests;
