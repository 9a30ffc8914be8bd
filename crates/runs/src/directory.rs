//! The run directory: everything a run leaves behind, in files that other tools open.
//!
//! ```text
//! config.toml          every value in force; loadable as a configuration
//! metrics.jsonl        one JSON object for each generation
//! population.jsonl     the population of each generation, where there is one
//! events.out.tfevents* the same for TensorBoard
//! checkpoint/          the whole state, for going on with the run
//! origin.jsonl         each start and resume: the command, the program, the machine
//! task.toml, task.mjb  a copy of the user's own task, where it is one: its file, and its model compiled
//! run.lock             held by the process that writes here
//! start.safetensors    the policy that training started from, if there is one
//! policy.safetensors   the learner's policy at the end
//! best.safetensors     the best policy in tests: the most reward of those that kept every constraint,
//!                      or while there is none, the least violation
//! ```
//!
//! Files other than the logs appear whole or not at all: they are written under another name, flushed to
//! disk and renamed. What the run has not written itself is neither changed nor removed, and links are
//! not followed.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use cmdp::Constraint;
use ecrl::config::{Config, ConfigError};
use ecrl::metrics::{ENV_STEPS, Record};
use ecrl::population::census::Census;

use crate::checkpoint;
use crate::files::{self, Log, write_whole};
use crate::lock::{LOCK, Lock};
use crate::policy::Policy;
use crate::provenance::{self, Provenance};
use crate::read;
use crate::task_copy::{self, TaskCopy};
use crate::tensorboard::{self, EventFile};

pub(crate) const CONFIG: &str = "config.toml";
pub(crate) const METRICS: &str = "metrics.jsonl";
pub(crate) const POPULATION: &str = "population.jsonl";
/// The learner's policy at the end.
pub const POLICY: &str = "policy.safetensors";
/// The policy that training started from.
pub const START: &str = "start.safetensors";
/// Why an experiment's run failed, while it has not been tried again.
pub const FAILURE: &str = "failure.txt";
/// The best policy in tests: the most reward of those that kept every constraint, or while there is
/// none, the least violation.
pub const BEST: &str = "best.safetensors";

/// A run directory being written.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    metrics: Log,
    /// Made with the first population.
    population: Option<Log>,
    events: EventFile,
    events_name: String,
    lock: Lock,
    constraints: Vec<Constraint>,
}

/// A run directory that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A run is there already.
    #[error("{path} holds a run already: choose another --out, or --force to replace it", path = .0.display())]
    Exists(PathBuf),
    /// Files with names of a run's are there, and no run.
    #[error(
        "{path} holds {name}, and is not a run: choose another --out, or move that away",
        path = path.display()
    )]
    NotARun {
        /// The folder.
        path: PathBuf,
        /// One of the files.
        name: String,
    },
    /// Something that a run would write to is not its own.
    #[error("{path} is not a run's own: move it away, or choose another --out", path = .0.display())]
    NotOurs(PathBuf),
    /// The folder was removed, or another is in its place.
    #[error(
        "{path} was removed while the run was going, or another is in its place: nothing more was written",
        path = .0.display()
    )]
    Gone(PathBuf),
    /// More steps are asked for of a run that has come to its end.
    #[error(
        "{path} ended at {taken} steps, when it had come to {until}; expected another --until to go on, or \
         --set 'until=[]'",
        path = path.display()
    )]
    Reached {
        /// The folder.
        path: PathBuf,
        /// The steps taken.
        taken: u64,
        /// What it had come to.
        until: String,
    },
    /// Fewer steps are asked for than were taken.
    #[error(
        "{path} has taken {taken} steps already; expected --steps above that, or none to leave it at {steps}",
        path = path.display()
    )]
    Taken {
        /// The folder.
        path: PathBuf,
        /// The steps taken.
        taken: u64,
        /// The steps that its configuration asks for.
        steps: u64,
    },
    /// The policy to start from is missing, or another.
    #[error(
        "the run starts from a policy with checksum {expected}; expected it after --from, found {found}"
    )]
    Start {
        /// The checksum that the configuration names.
        expected: String,
        /// That of the policy given, if any.
        found: String,
    },
    /// The policy to start from is another task's.
    #[error("the policy to start from is one of {found}; expected one of {expected}")]
    StartTask {
        /// Its task.
        found: String,
        /// The task expected.
        expected: String,
    },
    /// Not a folder.
    #[error("{path} is a file; expected a folder for the run", path = .0.display())]
    NoFolder(PathBuf),
    /// A run of a user's own task has lost its copy of it.
    #[error("{path} is missing: expected the run's copy of its task", path = .0.display())]
    NoTaskCopy(PathBuf),
    /// The copy of the task is not the one that the run was made with.
    #[error(
        "{path}: its copy of the task, task.toml and task.mjb, is not the one that its config.toml names",
        path = .0.display()
    )]
    TaskCopy(PathBuf),
    /// There is no run.
    #[error("{path} is not a run: it holds no {CONFIG}", path = .0.display())]
    Missing(PathBuf),
    /// The run's configuration is not valid.
    #[error("{path}: {error}", path = path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: ConfigError,
    },
    /// The run has other values than those asked for.
    #[error("{path} holds a run with other values: {differences}", path = path.display())]
    Different {
        /// The folder.
        path: PathBuf,
        /// What is asked for, and what is there.
        differences: String,
    },
    /// Another process writes to the run.
    #[error("{path} is in use by process {holder}", path = path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
        /// The process id of the holder.
        holder: String,
    },
    /// A line of the metrics is none.
    #[error("{path}, line {line}: {error}", path = path.display())]
    Metrics {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// The run's configuration cannot be read.
    #[error("{path}: cannot read it: {error}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
    /// Writing failed.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
}

impl RunDir {
    /// Starts a run in a folder, which is made where it is missing. A folder that holds a run is
    /// refused, or with `force` cleared of the run's files and of nothing else.
    pub fn create(
        path: &Path,
        config: &Config,
        constraints: &[Constraint],
        task: Option<&TaskCopy>,
        force: bool,
    ) -> Result<Self, RunError> {
        let io = |error| RunError::Io { path: path.to_owned(), error };
        if path.exists() && !path.is_dir() {
            return Err(RunError::NoFolder(path.to_owned()));
        }
        fs::create_dir_all(path).map_err(io)?;
        // What was never whole is nobody's, and says by its name that it was ours.
        let whole = own_files(path)?.into_iter().find(|name| !name.ends_with(files::PART));
        if let Some(name) = whole {
            match (read::is_run(path), force) {
                (false, _) => return Err(RunError::NotARun { path: path.to_owned(), name }),
                (true, false) => return Err(RunError::Exists(path.to_owned())),
                (true, true) => {}
            }
        }
        let lock = Lock::take(path)?;
        clear(path)?;
        // The configuration before all that comes with time: with it and the task, even a run killed right here
        // can be resumed.
        if let Some(other) = task.and_then(|task| task.in_the_way(path)) {
            return Err(RunError::NotOurs(other));
        }
        task.map_or(Ok(()), |task| task.write(path))
            .and_then(|()| write_config(path, config))
            .and_then(|()| Self::open(path, constraints, &[], lock, || Ok(())))
            .inspect_err(|_| {
                // What was begun must not look like a run.
                let _ = clear(path);
            })
    }

    /// Goes on with a run whose logs had these lengths, by file name; what was added since is cut.
    pub fn resume(
        path: &Path,
        config: &Config,
        constraints: &[Constraint],
        logs: &[LogState],
        lock: Lock,
    ) -> Result<Self, RunError> {
        Self::open(path, constraints, logs, lock, || write_config(path, config))
    }

    /// Nothing is cut before `last` is done: a folder that cannot be written to keeps its logs.
    fn open(
        path: &Path,
        constraints: &[Constraint],
        logs: &[LogState],
        lock: Lock,
        last: impl FnOnce() -> Result<(), RunError>,
    ) -> Result<Self, RunError> {
        let length =
            |name: &str| logs.iter().find(|log| log.name == name).map_or(0, |log| log.bytes);
        let log = |name: &str| Log::open(&path.join(name), length(name));
        let events = logs.iter().map(|log| &log.name).find(|name| EventFile::is_name(name));
        let events_name = events.cloned().unwrap_or_else(EventFile::name);
        let population = path.join(POPULATION).exists().then(|| log(POPULATION)).transpose()?;
        let (metrics, events) = (log(METRICS)?, log(&events_name)?);
        last()?;
        let cut = [Some(&metrics), Some(&events), population.as_ref()];
        cut.into_iter()
            .flatten()
            .try_for_each(Log::cut)
            .map_err(|error| RunError::Io { path: path.to_owned(), error })?;
        forget_failure(path);
        // Events of an attempt that never came to a checkpoint.
        for name in own_files(path)? {
            if EventFile::is_name(&name)
                && name != events_name
                && files::is_plain(&path.join(&name))
            {
                let _ = fs::remove_file(path.join(name));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            metrics,
            population,
            events: EventFile::new(events)
                .map_err(|error| RunError::Io { path: path.join(&events_name), error })?,
            events_name,
            lock,
            constraints: constraints.to_vec(),
        })
    }

    /// Sees that the folder is still there; returns where it is if it was moved since.
    pub fn follow(&mut self) -> Result<Option<&Path>, RunError> {
        let home = self.lock.home(&self.path)?;
        let moved = home != self.path;
        self.path = home;
        Ok(moved.then_some(&self.path))
    }

    /// Takes note of what the run, or its next part, is made with.
    pub fn note_provenance(&self, origin: &Provenance) -> Result<(), RunError> {
        let path = self.path.join(provenance::FILE);
        let mut line = serde_json::to_vec(origin).expect("plain data");
        line.push(b'\n');
        files::open(&path, File::options().create(true).append(true))
            .and_then(|mut file| file.write_all(&line))
            .map_err(|error| RunError::Io { path, error })
    }

    /// The lengths and checksums of all logs, with all of it safe on disk.
    pub fn logs(&self) -> io::Result<Vec<LogState>> {
        let mut logs = Vec::new();
        let all = [(METRICS, Some(&self.metrics)), (&self.events_name, Some(self.events.log()))];
        for (name, log) in all.into_iter().chain([(POPULATION, self.population.as_ref())]) {
            let Some(log) = log else { continue };
            log.sync()?;
            let (bytes, crc32c) = log.state();
            logs.push(LogState { name: name.to_owned(), bytes, crc32c: Some(crc32c) });
        }
        Ok(logs)
    }

    /// What is not as it was when the logs were in this state.
    pub fn changed_logs(&self, logs: &[LogState]) -> io::Result<Vec<String>> {
        let now = self.logs()?;
        let same = |log: &&LogState| log.crc32c.is_none() || now.contains(log);
        let changed = logs.iter().filter(|log| !same(log)).map(|log| log.name.clone());
        Ok(changed.collect())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a generation, and its population where there is one, to the logs.
    pub fn record(&mut self, record: &Record, census: Option<&Census>) -> Result<(), RunError> {
        let scalars = tensorboard::scalars(record, &self.constraints);
        let Self { path, metrics, population, events, .. } = self;
        let io = |name: &str, error| RunError::Io { path: path.join(name), error };
        metrics.append_json(record).map_err(|error| io(METRICS, error))?;
        if let Some(census) = census {
            let log = match population {
                Some(log) => log,
                None => population.insert(Log::open(&path.join(POPULATION), 0)?),
            };
            log.append_json(census).map_err(|error| io(POPULATION, error))?;
        }
        events.append(record.get(&ENV_STEPS).unwrap_or(0), &scalars).map_err(|error| io("", error))
    }

    /// Stores a policy as [`START`], [`POLICY`] or [`BEST`].
    pub fn save_policy(&self, name: &str, policy: &Policy) -> Result<(), RunError> {
        self.write(name, &policy.to_bytes())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        write_whole(&self.path.join(name), bytes)
            .map_err(|error| RunError::Io { path: self.path.join(name), error })
    }
}

/// Takes away why a run failed: it is tried again.
pub(crate) fn forget_failure(run: &Path) {
    let file = run.join(FAILURE);
    if read::is_run(run) && files::is_plain(&file) {
        let _ = fs::remove_file(file);
    }
}

/// Whether a run has a file of that name.
pub fn is_own_name(name: &str) -> bool {
    OWN.contains(&name) || OWN_TASK.contains(&name) || name == LOCK || EventFile::is_name(name)
}

/// The files of a run but for its events, its checkpoints and its lock.
const OWN: [&str; 8] =
    [CONFIG, METRICS, POPULATION, START, POLICY, BEST, provenance::FILE, FAILURE];

/// Those beside them, where the task is a user's own.
const OWN_TASK: [&str; 2] = [task_copy::TASK, task_copy::MODEL];

fn write_config(path: &Path, config: &Config) -> Result<(), RunError> {
    let path = path.join(CONFIG);
    let written = write_whole(&path, config.to_toml().as_bytes());
    written.map_err(|error| RunError::Io { path, error })
}

/// A log and how far it had come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogState {
    /// The file's name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The checksum of so much of it; none where that was not noted.
    pub crc32c: Option<u32>,
}

impl LogState {
    /// Whether a run has a log of that name.
    pub fn is_name(name: &str) -> bool {
        [METRICS, POPULATION].contains(&name) || EventFile::is_name(name)
    }
}

/// The names of the files in a folder that a run has left there, or what looks like it.
fn own_files(path: &Path) -> Result<Vec<String>, RunError> {
    let mut found = Vec::new();
    // A file called task.toml may well be the user's: it is a run's where that says so.
    let copied = read::config(path).is_ok_and(|config| TaskCopy::is_named_by(&config));
    for entry in
        fs::read_dir(path).map_err(|error| RunError::Io { path: path.to_owned(), error })?
    {
        let entry = entry.map_err(|error| RunError::Io { path: path.to_owned(), error })?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let whole = name.strip_suffix(files::PART).unwrap_or(&name);
        let copy = copied && OWN_TASK.contains(&whole);
        if copy || OWN.contains(&whole) || EventFile::is_name(whole) {
            found.push(name);
        }
    }
    let own = |name: String| format!("{}/{name}", checkpoint::FOLDER);
    found.extend(checkpoint::own_files(path)?.into_iter().map(own));
    Ok(found)
}

/// Removes the files of a run and nothing else.
fn clear(path: &Path) -> Result<(), RunError> {
    let mut own = own_files(path)?;
    // As long as there is a configuration it is known as a run: should this be interrupted, it can be
    // done again.
    own.sort_by_key(|name| name == CONFIG);
    for name in &own {
        let file = path.join(name);
        if !files::is_plain(&file) {
            return Err(RunError::NotOurs(file));
        }
    }
    for name in &own {
        let file = path.join(name);
        fs::remove_file(&file).map_err(|error| RunError::Io { path: file, error })?;
    }
    // Stays where it holds something else.
    let _ = fs::remove_dir(path.join(checkpoint::FOLDER));
    Ok(())
}
