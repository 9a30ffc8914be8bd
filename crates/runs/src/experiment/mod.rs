//! Many runs, each a process of its own, on this machine or wherever an engine has room.
//!
//! Started again, an experiment goes on with what is unfinished; several processes may share one, on one machine or on
//! several that share a folder.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::directory::{CONFIG, FAILURE, RunError};
use crate::grid::{GridError, Job};
use crate::lock::Holder;
use crate::read::Progress;
use crate::{files, lock, read};

use self::call::Call;
use self::launch::{Launcher, Says};

pub mod call;
pub mod launch;
mod local;
mod ray;
pub mod slurm;
pub mod survey;

/// An experiment that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// A file of it.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
    /// What is kept of a call is not whole.
    #[error("{path}: {error}", path = path.display())]
    Call {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: String,
    },
    /// Nothing was ever asked for there.
    #[error(
        "{0}: nothing was asked for here; expected the folder of an experiment that `ecrl grid` or `ecrl paper` began"
    )]
    NoCalls(PathBuf),
    /// The engine, or a process, could not be asked.
    #[error("{0}")]
    Start(String),
    /// A grid that is kept.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// A folder.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Nobody is at it yet; why, if somebody says so.
    Waiting(String),
    /// It was begun, and waits to go on.
    Preempted(String),
    /// It is under way, on that machine.
    Running(String),
    /// Nobody is at it, and nobody will be.
    Stopped,
    /// It failed, for this reason.
    Failed(String),
    /// All its steps were taken.
    Done,
}

impl State {
    /// Whether somebody is at it, or will be.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Waiting(_) | Self::Preempted(_) | Self::Running(_))
    }
}

/// A run of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The run.
    pub job: Job,
    /// Where it stands.
    pub state: State,
    /// How far it is.
    pub progress: Progress,
}

/// What happened to a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// It was started.
    Started(&'a str),
    /// It was started again.
    Resumed(&'a str),
    /// It is done, after so many seconds.
    Done(&'a str, f64),
    /// It failed, for this reason.
    Failed(&'a str, &'a str),
}

/// Who watches an experiment.
pub trait Observer {
    /// Something happened to a run.
    fn event(&mut self, event: &Event) {
        let _ = event;
    }

    /// Some time has passed.
    fn tick(&mut self, experiment: &Experiment) {
        let _ = experiment;
    }

    /// Whether the experiment should store what it has and end.
    fn should_stop(&self) -> bool {
        false
    }
}

/// How many runs stand so.
pub fn count(entries: &[Entry], which: impl Fn(&State) -> bool) -> usize {
    entries.iter().filter(|entry| which(&entry.state)).count()
}

/// The seconds that all runs still take, at the speed of those under way.
pub fn seconds_left(entries: &[Entry]) -> Option<f64> {
    let open = |entry: &&Entry| entry.state.is_open();
    let rest = |entry: &Entry| entry.job.config.steps.saturating_sub(entry.progress.steps);
    let left: u64 = entries.iter().filter(open).map(rest).sum();
    let running = entries.iter().filter(|entry| matches!(entry.state, State::Running(_)));
    let speed: f64 = running.map(|entry| entry.progress.speed()).sum();
    match left {
        0 => Some(0.0),
        _ => (speed > 0.0).then(|| left as f64 / speed),
    }
}

/// The runs of a call, of which some are under way, and who makes them.
pub struct Experiment {
    /// All runs.
    pub entries: Vec<Entry>,
    call: Call,
    launcher: Box<dyn Launcher>,
    /// By its place in the grid, which entry a run is.
    places: HashMap<usize, usize>,
    /// The entries that were handed over, and when each was begun.
    begun: HashMap<usize, Option<Instant>>,
}

impl Experiment {
    /// The runs of a call, to be made by this launcher; `jobs` are all of its grid.
    pub fn new(call: Call, jobs: &[Job], launcher: Box<dyn Launcher>) -> Self {
        let runs = call.asked.runs.iter().filter_map(|run| jobs.get(*run));
        // Whether one failed before is of no matter: it is tried again.
        let entry = |job: &Job| match judge(&call.out, job, None) {
            entry @ Entry { state: State::Done, .. } => entry,
            entry => Entry { state: State::Waiting(String::new()), ..entry },
        };
        let entries: Vec<Entry> = runs.map(entry).collect();
        let places = call.asked.runs.iter().enumerate().map(|(at, run)| (*run, at)).collect();
        Self { entries, call, launcher, places, begun: HashMap::new() }
    }

    /// The call.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// The first run that failed, and why.
    pub fn first_failure(&self) -> Option<(&str, &str)> {
        self.entries.iter().find_map(|entry| match &entry.state {
            State::Failed(reason) => Some((&entry.job.name[..], &reason[..])),
            _ => None,
        })
    }

    /// Makes everything that is not done, or until the observer asks to stop.
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<(), ExperimentError> {
        let mut told = false;
        loop {
            let stop = observer.should_stop();
            if !stop {
                self.hand_over(observer)?;
            } else if !std::mem::replace(&mut told, true) {
                self.launcher.stop(&self.call)?;
            }
            self.collect(stop, observer)?;
            let waiting = count(&self.entries, |state| matches!(state, State::Waiting(_)));
            if self.begun.is_empty() && (stop || waiting == 0) {
                return Ok(());
            }
            observer.tick(self);
            std::thread::sleep(self.launcher.pause());
        }
    }

    /// Hands over runs while there is room for them.
    fn hand_over(&mut self, observer: &mut dyn Observer) -> Result<(), ExperimentError> {
        let mut room = self.launcher.room(&self.call);
        for at in 0..self.entries.len() {
            if room == 0 {
                break;
            }
            let waits = matches!(self.entries[at].state, State::Waiting(_));
            if !waits || self.begun.contains_key(&at) {
                continue;
            }
            // Somebody else may be at it: another shard, or what is left of an earlier call.
            let entry = judge(&self.call.out, &self.entries[at].job, None);
            match entry.state {
                State::Running(_) => continue,
                State::Done => {
                    self.entries[at] = entry;
                    continue;
                }
                _ => {}
            }
            let name = &self.entries[at].job.name;
            let run = self.call.asked.runs[at];
            if let Err(error) = self.launcher.start(&self.call, &[(run, name)]) {
                let reason = error.to_string();
                observer.event(&Event::Failed(name, &reason));
                self.entries[at].state = State::Failed(reason);
                continue;
            }
            room -= 1;
            self.begun.insert(at, None);
        }
        Ok(())
    }

    /// Takes note of runs that have ended, and of how far the others are.
    fn collect(&mut self, stop: bool, observer: &mut dyn Observer) -> Result<(), ExperimentError> {
        for (run, says) in self.launcher.look(&self.call)? {
            let Some(&at) = self.places.get(&run) else { continue };
            let Some(begun) = self.begun.get_mut(&at) else { continue };
            let Entry { job, state, progress } = &mut self.entries[at];
            let path = self.call.out.join(&job.name);
            let idle = matches!(says, Says::Waiting(_)) || (stop && matches!(says, Says::Ended(_)));
            if begun.is_none() && !idle {
                *begun = Some(Instant::now());
                let again = progress.steps > 0;
                observer.event(&match again {
                    true => Event::Resumed(&job.name),
                    false => Event::Started(&job.name),
                });
            }
            let Says::Ended(fault) = &says else {
                let entry = judge(&self.call.out, job, Some(&says));
                (*state, *progress) = (entry.state, entry.progress);
                continue;
            };
            let begun = self.begun.remove(&at).flatten().unwrap_or_else(Instant::now);
            let entry = judge(&self.call.out, job, Some(&says));
            *progress = entry.progress;
            *state = match entry.state {
                State::Done => {
                    observer.event(&Event::Done(&job.name, begun.elapsed().as_secs_f64()));
                    State::Done
                }
                // Somebody else was faster: look again later.
                State::Running(_) => State::Waiting(String::new()),
                _ if stop => State::Waiting(String::new()),
                State::Failed(reason) => {
                    observer.event(&Event::Failed(&job.name, &reason));
                    note_failure(job, &path, &reason);
                    State::Failed(reason)
                }
                _ => {
                    let reason = fault.clone().unwrap_or_else(|| "it ended early".into());
                    observer.event(&Event::Failed(&job.name, &reason));
                    State::Failed(reason)
                }
            };
        }
        Ok(())
    }
}

/// Where a run stands, by what its folder says and what its launcher does.
fn judge(out: &Path, job: &Job, says: Option<&Says>) -> Entry {
    let path = out.join(&job.name);
    let progress = read::progress(&path, job.config.steps);
    let again = progress.steps > 0;
    // Whoever was started elsewhere by an engine that says it has ended is there no more, whatever its lock says.
    let ended = matches!(says, Some(Says::Ended(_)));
    let there = |holder: &Holder| holder.is_here() || !ended || !holder.is_of_an_engine();
    let holder = || lock::holder(&path).filter(there).map(|holder| holder.host);
    let state = match (says, misfit(job, &path)) {
        (_, Ok(())) if progress.finished => State::Done,
        (Some(Says::Running(place)), _) => State::Running(place.clone()),
        _ if let Some(host) = holder() => State::Running(host),
        (Some(Says::Waiting(why)), _) if again => State::Preempted(why.clone()),
        (Some(Says::Waiting(why)), _) => State::Waiting(why.clone()),
        (_, Err(error @ RunError::Different { .. })) => State::Failed(error.to_string()),
        (says, _) => match (files::read_text(&path.join(FAILURE)), says) {
            (Ok(reason), _) => State::Failed(reason.trim().to_owned()),
            (Err(_), Some(Says::Ended(Some(fault)))) => State::Failed(
                last_error(&call::log(out, &job.name)).unwrap_or_else(|| fault.clone()),
            ),
            _ => State::Stopped,
        },
    };
    Entry { job: job.clone(), state, progress }
}

/// Leaves why a run failed in its folder, unless that holds another run or somebody is at it.
pub fn note_failure(job: &Job, path: &Path, reason: &str) {
    if misfit(job, path).is_ok() && !lock::in_use(path) {
        let _ = files::write_whole(&path.join(FAILURE), format!("{reason}\n").as_bytes());
    }
}

/// What a log ends with, if that is an error.
fn last_error(log: &Path) -> Option<String> {
    Some(last_line(log)?.strip_prefix("error: ")?.to_owned())
}

/// The last line of a file that says something.
fn last_line(path: &Path) -> Option<String> {
    let text = String::from_utf8_lossy(&files::read(path).ok()?).into_owned();
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(last.to_owned())
}

/// Why a run that is there is not the one asked for, nor can be made it by more steps.
pub fn misfit(job: &Job, path: &Path) -> Result<(), RunError> {
    // Most often it is just that, and nothing needs to be understood: of thousands of runs that is what takes the time.
    if files::read_text(&path.join(CONFIG)).is_ok_and(|text| text == job.config.to_toml()) {
        return Ok(());
    }
    let there = read::config(path)?;
    let (asked, steps) = (job.config.steps, there.steps);
    let mut differences = job.config.differences(&there);
    if asked < steps || (asked > steps && there.length_matters()) {
        differences.push(format!("steps is {asked}, not {steps}"));
    }
    match differences.is_empty() {
        true => Ok(()),
        false => {
            Err(RunError::Different { path: path.to_owned(), differences: differences.join("; ") })
        }
    }
}
