//! Drives a run: trains to the end or until it is asked to stop, and keeps the run directory.
//!
//! ```no_run
//! # use cmdp::{Env, PointMass};
//! use ecrl::config::Config;
//! use runs::driver::{Options, Run};
//!
//! let config = Config { steps: 20_000, ..Config::new("ecrl")? };
//! let make = |_: &Config| PointMass::new(vec![]).map(|env| Box::new(env) as Box<dyn Env>);
//! let mut run = Run::create_or_resume(config, "runs/mine".as_ref(), &Options::default(), make)?;
//! run.train(&mut ())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use ecrl::collect::stage::MakeStage;
use ecrl::config::{Config, ConfigError};
use ecrl::metrics::{GENERATION, NEW_BEST, Record};
use ecrl::trainer::{TrainError, Trainer};

use crate::checkpoint::{CheckpointError, Checkpoints};
use crate::directory::{BEST, POLICY, RunDir, RunError, START};
pub use crate::every::Every;
use crate::lock::Lock;
use crate::policy::{Policy, PolicyError};
use crate::provenance::Provenance;
use crate::read;
use crate::task_copy::TaskCopy;

const UNAFFECTED: &str = "training goes on as it would have, the file stays as it is up to there";

/// How a run is driven; but for the last three, its result does not depend on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Threads.
    pub threads: usize,
    /// How often the whole state is stored.
    pub checkpoint_every: Every,
    /// Whether a run that is there already is replaced.
    pub force: bool,
    /// The policy that a new run starts from.
    pub start: Option<Policy>,
    /// Values that change as a run goes on, as `key=value`: see [`Config::changed`].
    pub set: Vec<String>,
    /// The user's own task of a new run, which keeps a copy of it.
    pub task: Option<TaskCopy>,
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let checkpoint_every = Every::Time(Duration::from_secs(300));
        Self { threads, checkpoint_every, force: false, start: None, set: Vec::new(), task: None }
    }
}

/// Who watches a run.
pub trait Observer: Send {
    /// After every update, with the steps taken and learnt from. Called on a thread of the pool.
    fn progress(&mut self, steps: u64) {
        let _ = steps;
    }

    /// After every generation.
    fn generation(&mut self, record: &Record, trainer: &Trainer) {
        let (_, _) = (record, trainer);
    }

    /// Something is amiss, and training goes on.
    fn warning(&mut self, text: &str) {
        // Nobody may read any more: that is no reason to end.
        let _ = writeln!(io::stderr(), "warning: {text}");
    }

    /// Whether the run should store what it has and end.
    fn should_stop(&self) -> bool {
        false
    }
}

/// Nobody watches.
impl Observer for () {}

/// A run that cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The run directory.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Training.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The policy to start from.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Values that cannot be changed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The lengths of the logs.
    #[error("cannot write the logs: {0}")]
    Logs(#[from] io::Error),
}

/// A run and its directory.
#[derive(Debug)]
pub struct Run {
    trainer: Trainer,
    directory: RunDir,
    checkpoints: Checkpoints,
    every: Every,
    /// When the last checkpoint was made.
    last: Instant,
    resumed: Option<u64>,
    /// Whether the learner's policy has been stored since training last went on.
    policy_saved: bool,
    warnings: Vec<String>,
}

impl Run {
    /// A new run in a folder, in environments that `make` makes for its configuration, or on a stage.
    pub fn create(
        config: Config,
        path: &Path,
        options: &Options,
        make: impl MakeStage,
    ) -> Result<Self, DriveError> {
        let config = started(config, options)?;
        let mut trainer = trainer(config, options, make)?;
        if let Some(start) = &options.start {
            let (found, expected) = (&start.about.task, &trainer.spec().name);
            if found != expected || start.choices() != trainer.spec().choices {
                let (found, expected) = (found.clone(), expected.clone());
                return Err(RunError::StartTask { found, expected }.into());
            }
            trainer.start_from(&start.actor)?;
        }
        let constraints = &trainer.spec().constraints;
        let (config, task) = (trainer.config(), options.task.as_ref());
        let directory = RunDir::create(path, config, constraints, task, options.force)?;
        if let Some(start) = &options.start {
            directory.save_policy(START, start)?;
        }
        let task_file = task.map(|task| task.source.clone()).unwrap_or_default();
        directory
            .note_provenance(&Provenance { task_file, ..Provenance::here(options.threads) })?;
        Ok(Self {
            trainer,
            directory,
            checkpoints: Checkpoints::new(path),
            every: options.checkpoint_every,
            last: Instant::now(),
            resumed: None,
            policy_saved: false,
            warnings: Vec::new(),
        })
    }

    /// Goes on with the run in a folder from its last checkpoint, to more steps if asked for.
    pub fn resume(
        path: &Path,
        steps: Option<u64>,
        options: &Options,
        make: impl MakeStage,
    ) -> Result<Self, DriveError> {
        let previous = read::config(path)?;
        let lock = Lock::take(path)?;
        let before = previous.steps;
        let mut config = previous.changed(&options.set)?;
        config.steps = steps.unwrap_or(config.steps);
        let longer = before != config.steps && config.length_matters();
        let mut trainer = trainer(config, options, make)?;
        if !previous.start.is_empty() {
            trainer.start_from(&Policy::load(&path.join(START), trainer.spec())?.actor)?;
        }
        let mut checkpoints = Checkpoints::new(path);
        let restored = checkpoints.read(&mut trainer)?;
        let resumed = restored.is_some().then_some(trainer.env_steps());
        let restored = restored.unwrap_or_default();
        let taken = trainer.env_steps();
        // A run of fewer steps would have ended before.
        if trainer.config().steps != before && trainer.config().steps <= taken {
            let path = path.to_owned();
            return Err(RunError::Taken { path, taken, steps: before }.into());
        }
        if trainer.has_reached() && trainer.config().steps != before {
            let (path, until) = (path.to_owned(), previous.test.until.join(", "));
            return Err(RunError::Reached { path, taken, until }.into());
        }
        let mut warnings = Vec::new();
        if longer && resumed.is_some() {
            warnings.push(format!(
                "a value of this run, such as its learning rate, depends on its length: this is not \
                 the same as a run of {} steps from the start",
                trainer.config().steps
            ));
        }
        for name in [POLICY, BEST] {
            match Policy::open(&path.join(name)) {
                Err(PolicyError::Read { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                }
                Err(error) => warnings.push(format!("{error}: it is written anew")),
                Ok(_) => {}
            }
        }
        let (config, constraints) = (trainer.config(), &trainer.spec().constraints);
        let directory = RunDir::resume(path, config, constraints, &restored.logs, lock)?;
        for name in directory.changed_logs(&restored.logs)? {
            let file = path.join(name);
            let file = file.display();
            warnings.push(format!("{file} has been changed since it was written: {UNAFFECTED}"));
        }
        // As long as no checkpoint has them they are told again: better twice than never.
        let mut changes = trainer.changes();
        if resumed.is_none() {
            changes = trainer.config().differences(&previous);
        }
        let origin = Provenance { at: taken, changes, ..Provenance::here(options.threads) };
        directory.note_provenance(&origin)?;
        if let Some(best) = Policy::of_best(&trainer) {
            directory.save_policy(BEST, &best)?;
        }
        let passed = restored.passed_over.iter();
        warnings.extend(passed.map(|why| format!("{why}: going on from the checkpoint before it")));
        warnings.extend(restored.notes);
        let (every, last) = (options.checkpoint_every, Instant::now());
        let policy_saved = false;
        Ok(Self { trainer, directory, checkpoints, every, last, resumed, policy_saved, warnings })
    }

    /// Goes on with the run in a folder, or begins it where there is none.
    pub fn create_or_resume(
        config: Config,
        path: &Path,
        options: &Options,
        make: impl MakeStage,
    ) -> Result<Self, DriveError> {
        let there = match read::config(path) {
            Err(RunError::Missing(_)) => return Self::create(config, path, options, make),
            _ if options.force => return Self::create(config, path, options, make),
            there => there?,
        };
        // The environments say what the task and its constraints are.
        let Config { task, constraints, .. } = there.clone();
        let asked = Config { task, constraints, ..started(config, options)? };
        match asked.differences(&there) {
            differences if differences.is_empty() => {
                Self::resume(path, Some(asked.steps), options, make)
            }
            differences => {
                let (path, differences) = (path.to_owned(), differences.join("; "));
                Err(RunError::Different { path, differences }.into())
            }
        }
    }

    /// The training run itself.
    pub fn trainer(&self) -> &Trainer {
        &self.trainer
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The steps it was resumed at; none for a run from the beginning.
    pub fn resumed_at(&self) -> Option<u64> {
        self.resumed
    }

    /// The steps of the last checkpoint and the bytes it takes, if there is one.
    pub fn last_checkpoint(&self) -> Option<(u64, u64)> {
        self.checkpoints.at().map(|steps| (steps, self.checkpoints.bytes()))
    }

    /// Whether the learner's policy is stored as it is now.
    pub fn policy_is_saved(&self) -> bool {
        self.policy_saved
    }

    /// Whether the folder was removed since.
    pub fn is_gone(&mut self) -> bool {
        self.directory.follow().is_err()
    }

    /// Trains to the end, or until the observer asks to stop: then the whole state is stored. The
    /// learner's policy is kept whatever happens.
    pub fn train(&mut self, observer: &mut dyn Observer) -> Result<(), DriveError> {
        for warning in std::mem::take(&mut self.warnings) {
            observer.warning(&warning);
        }
        self.policy_saved = false;
        let mut trained = Ok(());
        while trained.is_ok() && !self.trainer.is_done() && !observer.should_stop() {
            trained = self.advance(observer);
        }
        if observer.should_stop() && trained.is_ok() {
            trained = self.checkpoint(observer);
        }
        let saved = self.follow(observer).and_then(|_| {
            Ok(self.directory.save_policy(POLICY, &Policy::of_learner(&self.trainer))?)
        });
        self.policy_saved = saved.is_ok();
        // The first failure is the one to tell.
        trained.and(saved)
    }

    /// Sees that the run is still where it was, or goes where it was moved to: before anything is
    /// written, for another run may be in its place. Returns whether it was moved.
    fn follow(&mut self, observer: &mut dyn Observer) -> Result<bool, DriveError> {
        let moved = self.directory.follow()?;
        if let Some(path) = moved {
            self.checkpoints.follow(path);
            observer.warning(&format!("the run was moved: going on in {}", path.display()));
        }
        Ok(moved.is_some())
    }

    /// Goes on to the end of the generation, or until a checkpoint is due or the observer asks to
    /// stop.
    fn advance(&mut self, observer: &mut dyn Observer) -> Result<(), DriveError> {
        let deadline =
            self.every.time(self.checkpoints.at().is_some()).map(|time| self.last + time);
        let due = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let learnt = self.trainer.play_and_learn(&mut |steps| {
            observer.progress(steps);
            !observer.should_stop() && !due()
        })?;
        // The last checkpoint of a run comes before it is known to be the last: see `conclude`.
        if (due() && !observer.should_stop()) || (learnt && self.trainer.is_last()) {
            self.checkpoint_or_warn(observer)?;
        }
        if !learnt {
            return Ok(());
        }
        let Some(record) = self.trainer.conclude()? else { return Ok(()) };
        self.follow(observer)?;
        self.directory.record(&record, self.trainer.census())?;
        if record.get(&NEW_BEST) == Some(true)
            && let Some(best) = Policy::of_best(&self.trainer)
        {
            self.directory.save_policy(BEST, &best)?;
        }
        observer.generation(&record, &self.trainer);
        if self.trainer.has_reached() {
            // So that it can go on from here, should more be asked of it.
            self.checkpoint_or_warn(observer)?;
        }
        let generation = record.get(&GENERATION).unwrap_or(0);
        if matches!(self.every, Every::Generations(n) if generation.is_multiple_of(n))
            && !self.trainer.is_done()
        {
            self.checkpoint_or_warn(observer)?;
        }
        Ok(())
    }

    fn checkpoint(&mut self, observer: &mut dyn Observer) -> Result<(), DriveError> {
        self.last = Instant::now();
        self.follow(observer)?;
        let logs = self.directory.logs()?;
        match self.checkpoints.write(&mut self.trainer, &logs) {
            // Just while it was written?
            Err(_) if self.follow(observer)? => {
                Ok(self.checkpoints.write(&mut self.trainer, &logs)?)
            }
            written => Ok(written?),
        }
    }

    /// A checkpoint that cannot be written leaves the one before it: training goes on. One whose state
    /// could not be loaded again ends it.
    fn checkpoint_or_warn(&mut self, observer: &mut dyn Observer) -> Result<(), DriveError> {
        match self.checkpoint(observer) {
            Err(DriveError::Checkpoint(CheckpointError::State(error))) => Err(error.into()),
            Err(error @ DriveError::Run(RunError::Gone(_))) => Err(error),
            Err(error) => {
                observer.warning(&format!("checkpoint not written: {error}"));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// A configuration with the policy it starts from, which must be the one it names if it names one.
fn started(config: Config, options: &Options) -> Result<Config, RunError> {
    let found = options.start.as_ref().map(Policy::checksum);
    let start = found.clone().unwrap_or_default();
    match config.start.is_empty() || config.start == start {
        true => Ok(Config { start, ..config }),
        false => {
            let found = found.unwrap_or_else(|| "none".into());
            Err(RunError::Start { expected: config.start, found })
        }
    }
}

fn trainer(
    config: Config,
    options: &Options,
    mut make: impl MakeStage,
) -> Result<Trainer, TrainError> {
    Trainer::on(config, options.threads, &mut make)
}
