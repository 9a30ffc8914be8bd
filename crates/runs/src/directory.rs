//! The run directory: everything a run leaves behind, in files that other tools open.
//!
//! ```text
//! config.toml          every value in force; loadable as a configuration
//! metrics.jsonl        one JSON object for each generation
//! population.jsonl     the population of each generation, where there is one
//! events.out.tfevents* the same for TensorBoard
//! checkpoint/          the whole state, for going on with the run
//! origin.jsonl         each start and resume: the command, the program, the machine
//! run.lock             held by the process that writes here
//! policy.safetensors   the learner's policy at the end
//! best.safetensors     the best policy in tests: the most reward of those that kept every constraint,
//!                      or while there is none, the least violation
//! ```
//!
//! Files other than the two logs appear whole or not at all: they are written under another name,
//! flushed to disk and renamed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use cmdp::Constraint;
use ecrl::config::{Config, ConfigError};
use ecrl::metrics::{ENV_STEPS, Record};
use ecrl::population::census::Census;

use crate::checkpoint;
use crate::files::{append, open_log, write_whole};
use crate::lock::Lock;
use crate::policy::Policy;
use crate::provenance::{self, Provenance};
use crate::tensorboard::{self, EventFile};

pub(crate) const CONFIG: &str = "config.toml";
pub(crate) const METRICS: &str = "metrics.jsonl";
pub(crate) const POPULATION: &str = "population.jsonl";
const EVENTS: &str = "events.out.tfevents.";
/// The learner's policy at the end.
pub const POLICY: &str = "policy.safetensors";
/// Why an experiment's run failed, while it has not been tried again.
pub const FAILURE: &str = "failure.txt";
/// The best policy in tests: the most reward of those that kept every constraint, or while there is
/// none, the least violation.
pub const BEST: &str = "best.safetensors";

/// A run directory being written.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    metrics: File,
    /// Made with the first population.
    population: Option<File>,
    events: EventFile,
    events_name: String,
    _lock: Lock,
    constraints: Vec<Constraint>,
}

/// A run directory that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A run is there already.
    #[error("{path} holds a run already: choose another --out, or --force to replace it", path = .0.display())]
    Exists(PathBuf),
    /// Not a folder.
    #[error("{path} is a file; expected a folder for the run", path = .0.display())]
    NoFolder(PathBuf),
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
    /// A log has lost what the checkpoint says it held.
    #[error("{path} has {found} bytes; its checkpoint expects {expected}", path = path.display())]
    Shorter {
        /// The log.
        path: PathBuf,
        /// Its length.
        found: u64,
        /// The length it had.
        expected: u64,
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
        force: bool,
    ) -> Result<Self, RunError> {
        let io = |error| RunError::Io { path: path.to_owned(), error };
        if path.exists() && !path.is_dir() {
            return Err(RunError::NoFolder(path.to_owned()));
        }
        fs::create_dir_all(path).map_err(io)?;
        if !own_files(path).map_err(io)?.is_empty() && !force {
            return Err(RunError::Exists(path.to_owned()));
        }
        let lock = Lock::take(path)?;
        clear(path).map_err(io)?;
        // The configuration first: with it, even a run killed right here can be resumed.
        let file = path.join(CONFIG);
        write_whole(&file, config.to_toml().as_bytes())
            .map_err(|error| RunError::Io { path: file, error })
            .and_then(|()| Self::open(path, constraints, &[], lock))
            .inspect_err(|_| {
                // What was begun must not look like a run.
                let _ = clear(path);
            })
    }

    /// Goes on with a run whose logs had these lengths, by file name; what was added since is cut.
    pub fn resume(
        path: &Path,
        constraints: &[Constraint],
        logs: &[(String, u64)],
        lock: Lock,
    ) -> Result<Self, RunError> {
        Self::open(path, constraints, logs, lock)
    }

    fn open(
        path: &Path,
        constraints: &[Constraint],
        logs: &[(String, u64)],
        lock: Lock,
    ) -> Result<Self, RunError> {
        let _ = fs::remove_file(path.join(FAILURE));
        let length = |name: &str| logs.iter().find(|log| log.0 == name).map_or(0, |log| log.1);
        let log = |name: &str| open_log(&path.join(name), length(name));
        let events = logs.iter().map(|log| &log.0).find(|name| name.starts_with(EVENTS));
        let events_name = events.cloned().unwrap_or_else(EventFile::name);
        // Events of an attempt that never came to a checkpoint.
        for file in own_files(path).unwrap_or_default() {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(EVENTS) && name != events_name {
                let _ = fs::remove_file(file);
            }
        }
        let population = path.join(POPULATION).exists().then(|| log(POPULATION)).transpose()?;
        Ok(Self {
            path: path.to_owned(),
            metrics: log(METRICS)?,
            population,
            events: EventFile::new(log(&events_name)?)
                .map_err(|error| RunError::Io { path: path.join(&events_name), error })?,
            events_name,
            _lock: lock,
            constraints: constraints.to_vec(),
        })
    }

    /// Takes note of what the run, or its next part, is made with.
    pub fn note_provenance(&self, origin: &Provenance) -> Result<(), RunError> {
        let path = self.path.join(provenance::FILE);
        let file = File::options().create(true).append(true).open(&path);
        file.and_then(|mut file| append(&mut file, origin))
            .map_err(|error| RunError::Io { path, error })
    }

    /// Stores the configuration.
    pub fn save_config(&self, config: &Config) -> Result<(), RunError> {
        self.write(CONFIG, config.to_toml().as_bytes())
    }

    /// The lengths of all logs, by file name, with all of it safe on disk.
    pub fn logs(&self) -> io::Result<Vec<(String, u64)>> {
        self.metrics.sync_data()?;
        self.events.sync()?;
        self.population.as_ref().map_or(Ok(()), File::sync_data)?;
        let mut logs = vec![
            (METRICS.to_owned(), self.metrics.metadata()?.len()),
            (self.events_name.clone(), self.events.bytes()?),
        ];
        if let Some(population) = &self.population {
            logs.push((POPULATION.into(), population.metadata()?.len()));
        }
        Ok(logs)
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
        append(metrics, record).map_err(|error| io(METRICS, error))?;
        if let Some(census) = census {
            let file = match population {
                Some(file) => file,
                None => population.insert(open_log(&path.join(POPULATION), 0)?),
            };
            append(file, census).map_err(|error| io(POPULATION, error))?;
        }
        events.append(record.get(&ENV_STEPS).unwrap_or(0), &scalars).map_err(|error| io("", error))
    }

    /// Stores a policy as [`POLICY`] or [`BEST`].
    pub fn save_policy(&self, name: &str, policy: &Policy) -> Result<(), RunError> {
        self.write(name, &policy.to_bytes())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        write_whole(&self.path.join(name), bytes)
            .map_err(|error| RunError::Io { path: self.path.join(name), error })
    }
}

/// The files in a folder that a run has left there.
fn own_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let ours = [CONFIG, METRICS, POPULATION, POLICY, BEST, provenance::FILE, FAILURE]
            .contains(&&*name);
        if ours || name.starts_with(EVENTS) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn clear(path: &Path) -> io::Result<()> {
    own_files(path)?.iter().try_for_each(fs::remove_file)?;
    let checkpoints = path.join(checkpoint::FOLDER);
    if checkpoints.exists() { fs::remove_dir_all(checkpoints) } else { Ok(()) }
}
