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
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use cmdp::Constraint;
use serde::{Deserialize, Serialize};

use crate::checkpoint;
use crate::config::{Config, ConfigError, Layers};
use crate::policy::Policy;
use crate::record::{Census, Generation};
use crate::tensorboard::EventFile;

const CONFIG: &str = "config.toml";
const METRICS: &str = "metrics.jsonl";
const POPULATION: &str = "population.jsonl";
const EVENTS: &str = "events.out.tfevents.";
const LOCK: &str = "run.lock";
const ORIGIN: &str = "origin.jsonl";
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
    pub fn note_origin(&self, origin: &Origin) -> Result<(), RunError> {
        let path = self.path.join(ORIGIN);
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
    pub fn record(
        &mut self,
        generation: &Generation,
        census: Option<&Census>,
    ) -> Result<(), RunError> {
        let scalars = self.scalars(generation);
        let Self { path, metrics, population, events, .. } = self;
        let io = |name: &str, error| RunError::Io { path: path.join(name), error };
        append(metrics, generation).map_err(|error| io(METRICS, error))?;
        if let Some(census) = census {
            let file = match population {
                Some(file) => file,
                None => population.insert(open_log(&path.join(POPULATION), 0)?),
            };
            append(file, census).map_err(|error| io(POPULATION, error))?;
        }
        events.append(generation.env_steps, &scalars).map_err(|error| io("", error))
    }

    /// Stores a policy as [`POLICY`] or [`BEST`].
    pub fn save_policy(&self, name: &str, policy: &Policy) -> Result<(), RunError> {
        self.write(name, &policy.to_bytes())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        write_whole(&self.path.join(name), bytes)
            .map_err(|error| RunError::Io { path: self.path.join(name), error })
    }

    fn scalars(&self, g: &Generation) -> Vec<(String, f64)> {
        let mut scalars = vec![
            ("train/grad_steps".to_owned(), g.grad_steps as f64),
            ("train/replay".into(), g.replay as f64),
            ("time/seconds".into(), g.seconds),
        ];
        let optional = [
            ("rollout/reward", g.rollout_reward),
            ("test/reward", g.learner_reward),
            ("champion/reward", g.champion_reward),
            ("population/reward", g.population_reward_mean),
            ("population/feasible", g.population_feasible),
            ("train/critic_loss", g.critic_loss),
            ("train/actor_loss", g.actor_loss),
            ("train/entropy", g.entropy),
            ("train/kl", g.kl),
            ("train/clipped", g.clipped),
            ("train/recovery", g.recovery),
        ];
        scalars.extend(optional.into_iter().filter_map(|(tag, x)| Some((tag.into(), x?))));
        let by_constraint = [
            ("test", g.learner_cost.as_ref()),
            ("champion", g.champion_cost.as_ref()),
            ("population", g.population_cost_mean.as_ref()),
            ("population_lambda", g.lambda_mean.as_ref()),
            ("rollout", g.rollout_cost.as_ref()),
            ("lambda", Some(&g.lambda_learner)),
        ];
        for (prefix, values) in by_constraint {
            let named = self.constraints.iter().zip(values.into_iter().flatten());
            scalars.extend(
                named.map(|(c, &x)| (format!("{prefix}/{}_{}", c.aggregate.name(), c.name), x)),
            );
        }
        scalars
    }
}

/// Whether a process writes to a run just now.
pub fn in_use(run: &Path) -> bool {
    let lock = File::open(run.join(LOCK)).and_then(|file| Ok(file.try_lock_shared()?));
    lock.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// The populations that a run has recorded; a line that is not whole is left out.
pub fn read_population(run: &Path) -> Vec<Census> {
    let text = fs::read_to_string(run.join(POPULATION)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// What a run was made with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// What was typed.
    pub command: String,
    /// The program and its version.
    pub program: String,
    /// The processor.
    pub cpu: String,
    /// Threads in use.
    pub threads: usize,
}

impl Origin {
    /// Of this process.
    pub fn here(threads: usize) -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
            program: concat!("ecrl ", env!("CARGO_PKG_VERSION")).into(),
            cpu: model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.into()),
            threads,
        }
    }
}

/// Each start and resume of a run; none where that was not noted.
pub fn read_origins(run: &Path) -> Vec<Origin> {
    let text = fs::read_to_string(run.join(ORIGIN)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The generations that a run has recorded; a line that is not whole yet is left out.
pub fn read_metrics(run: &Path) -> Result<Vec<Generation>, RunError> {
    let path = run.join(METRICS);
    let text =
        fs::read_to_string(&path).map_err(|error| RunError::Io { path: path.clone(), error })?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |(i, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| RunError::Metrics {
            path: path.clone(),
            line: i + 1,
            error,
        })
    };
    whole.lines().enumerate().map(parse).collect()
}

/// Environment steps that a run has recorded, and whether it is finished.
pub fn progress(run: &Path, steps: u64) -> (u64, bool) {
    // The last line alone: this is asked often.
    let last = || -> io::Result<u64> {
        let mut file = File::open(run.join(METRICS))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(1 << 16)))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        let line = tail.split(|&b| b == b'\n').rev().find(|line| !line.is_empty());
        let line: serde_json::Value = serde_json::from_slice(line.unwrap_or_default())?;
        Ok(line["env_steps"].as_u64().unwrap_or(0))
    };
    let modified = |name: &str| run.join(name).metadata().and_then(|m| m.modified());
    let taken = last().unwrap_or(0);
    // The policy comes last; one that is older is of a pause.
    let saved = match (modified(POLICY), modified(METRICS)) {
        (Ok(policy), Ok(metrics)) => policy >= metrics,
        _ => false,
    };
    (taken, taken >= steps && saved)
}

/// The configuration of a run.
pub fn read_config(run: &Path) -> Result<Config, RunError> {
    let path = run.join(CONFIG);
    let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => RunError::Missing(run.to_owned()),
        _ => RunError::Unreadable { path: path.clone(), error },
    })?;
    let mut layers = Layers::default();
    let built = layers.toml(&text).and_then(|()| layers.build());
    built.map_err(|error| RunError::Config { path, error })
}

/// The files in a folder that a run has left there.
fn own_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let ours = [CONFIG, METRICS, POPULATION, POLICY, BEST, ORIGIN, FAILURE].contains(&&*name);
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

/// Makes this process the only one that writes to a run, as long as this lives. The system lets go
/// of it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of a run directory, unless another process holds it.
    pub fn take(path: &Path) -> Result<Self, RunError> {
        lock(path).map(|file| Self { _file: file })
    }
}

fn lock(path: &Path) -> Result<File, RunError> {
    let file = path.join(LOCK);
    let io = |error| RunError::Io { path: file.clone(), error };
    let mut lock = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&file)
        .map_err(io)?;
    // Somebody may just be looking whether it is taken.
    let mut locked = lock.try_lock();
    for _ in 0..5 {
        if locked.is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        locked = lock.try_lock();
    }
    match locked {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            let holder = fs::read_to_string(&file).unwrap_or_default();
            let (path, holder) = (path.to_owned(), holder.trim().to_owned());
            return Err(RunError::Locked { path, holder });
        }
        Err(fs::TryLockError::Error(error)) => return Err(io(error)),
    }
    let pid = format!("{}\n", std::process::id());
    lock.set_len(0).and_then(|()| lock.write_all(pid.as_bytes())).map_err(io)?;
    Ok(lock)
}

/// Opens a log to append to it, cut to a length that it had before.
fn open_log(path: &Path, length: u64) -> Result<File, RunError> {
    let io = |error| RunError::Io { path: path.to_owned(), error };
    let file = File::options().create(true).append(true).open(path).map_err(io)?;
    let found = file.metadata().map_err(io)?.len();
    if found < length {
        return Err(RunError::Shorter { path: path.to_owned(), found, expected: length });
    }
    file.set_len(length).map_err(io)?;
    Ok(file)
}

/// Adds a line to a log, whole or not at all.
fn append(file: &mut File, line: &impl serde::Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line).expect("plain data");
    bytes.push(b'\n');
    let before = file.metadata()?.len();
    file.write_all(&bytes).inspect_err(|_| {
        let _ = file.set_len(before);
    })
}

/// Writes a file so that it appears whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&part, path)) {
        let _ = fs::remove_file(&part);
        return Err(error);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("ecrl-run-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a");
        write_whole(&path, b"first").unwrap();
        write_whole(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        fs::create_dir(folder.join("b")).unwrap(); // a folder cannot be replaced by a file
        assert!(write_whole(&folder.join("b"), b"x").is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
