//! Many runs, a few at a time, each a process of its own.
//!
//! Started again, an experiment goes on with what is unfinished; several processes may share one, on
//! one machine or on several that share a folder.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::directory::{CONFIG, FAILURE, RunError, forget_failure};
use crate::grid::Job;
use crate::{files, lock, read};

/// Where a run stands.
#[derive(Debug, Clone, PartialEq)]
pub enum JobState {
    /// Nobody is at it yet.
    Waiting,
    /// A process of ours is.
    Running,
    /// All its steps were taken.
    Done,
    /// It failed, for this reason.
    Failed(String),
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

/// A run under way.
pub struct Running {
    /// Its place among the jobs.
    pub job: usize,
    /// When it was started.
    pub begun: Instant,
    /// Steps it had taken when it was started.
    pub before: u64,
    /// Steps it has taken.
    pub steps: u64,
    child: Child,
}

impl Running {
    /// Steps a second since it was started.
    pub fn speed(&self) -> f64 {
        self.steps.saturating_sub(self.before) as f64 / self.begun.elapsed().as_secs_f64()
    }

    /// Asks it to store what it has and end.
    fn stop(&self) {
        // SAFETY: the process is our child and has not been waited for, so the number is its own.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
    }
}

/// Runs, of which some are under way.
pub struct Experiment {
    /// All runs.
    pub jobs: Vec<Job>,
    /// Where each stands.
    pub states: Vec<JobState>,
    /// Those under way.
    pub running: Vec<Running>,
    /// Runs at the same time.
    pub slots: usize,
    /// Threads of each.
    pub threads_each: usize,
    out: PathBuf,
    program: Vec<OsString>,
    begun: Instant,
    /// Steps taken by runs that have ended since.
    taken: u64,
}

impl Experiment {
    /// An experiment in a folder; `program` is the `ecrl` command that makes its runs, with arguments that
    /// come before all others.
    pub fn new(
        jobs: Vec<Job>,
        out: &Path,
        program: Vec<OsString>,
        slots: usize,
        threads: usize,
    ) -> io::Result<Self> {
        let logs = out.join("logs");
        fs::create_dir_all(&logs)?;
        if logs.is_symlink() {
            return Err(io::Error::other("logs is a link; expected a folder of its own"));
        }
        let slots = slots.min(jobs.len()).max(1);
        // A finished run of other values is found out when its turn comes.
        let state = |job: &Job| {
            let path = out.join(&job.name);
            let done = read::progress(&path, job.config.steps).1 && misfit(job, &path).is_ok();
            if done { JobState::Done } else { JobState::Waiting }
        };
        Ok(Self {
            states: jobs.iter().map(state).collect(),
            jobs,
            running: Vec::new(),
            slots,
            threads_each: (threads / slots).max(1),
            out: out.to_owned(),
            program,
            begun: Instant::now(),
            taken: 0,
        })
    }

    /// The folder.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// How many runs stand so.
    pub fn count(&self, which: impl Fn(&JobState) -> bool) -> usize {
        self.states.iter().filter(|state| which(state)).count()
    }

    /// The first run that failed, and why.
    pub fn first_failure(&self) -> Option<(&str, &str)> {
        self.jobs.iter().zip(&self.states).find_map(|(job, state)| match state {
            JobState::Failed(reason) => Some((&job.name[..], &reason[..])),
            _ => None,
        })
    }

    /// The seconds that all runs still take, at the speed so far.
    pub fn seconds_left(&self) -> Option<f64> {
        let under_way: u64 = self.running.iter().map(|r| r.steps.saturating_sub(r.before)).sum();
        let speed = (self.taken + under_way) as f64 / self.begun.elapsed().as_secs_f64();
        let waiting = self.jobs.iter().zip(&self.states).filter(|(_, s)| **s == JobState::Waiting);
        let waiting: u64 = waiting.map(|(job, _)| job.config.steps).sum();
        let rest = |r: &Running| self.jobs[r.job].config.steps.saturating_sub(r.steps);
        let left = waiting + self.running.iter().map(rest).sum::<u64>();
        match left {
            0 => Some(0.0),
            _ => (speed > 0.0).then(|| left as f64 / speed),
        }
    }

    /// Runs everything that is not done, or until the observer asks to stop.
    pub fn run(&mut self, observer: &mut dyn Observer) -> io::Result<()> {
        let mut told = false;
        loop {
            let stop = observer.should_stop();
            if !stop {
                self.start_some(observer);
            } else if !std::mem::replace(&mut told, true) {
                self.running.iter().for_each(|running| running.stop());
            }
            self.collect(stop, observer)?;
            let waiting = self.states.contains(&JobState::Waiting);
            if self.running.is_empty() && (stop || !waiting) {
                return Ok(());
            }
            observer.tick(self);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts runs while there are slots.
    fn start_some(&mut self, observer: &mut dyn Observer) {
        for job in 0..self.jobs.len() {
            if self.running.len() >= self.slots {
                break;
            }
            if self.states[job] != JobState::Waiting {
                continue;
            }
            let path = self.out.join(&self.jobs[job].name);
            // Somebody else may be at it: another shard, or what is left of an earlier call.
            if lock::in_use(&path) {
                continue;
            }
            let (before, finished) = read::progress(&path, self.jobs[job].config.steps);
            if finished && misfit(&self.jobs[job], &path).is_ok() {
                self.states[job] = JobState::Done;
                continue;
            }
            let name = &self.jobs[job].name;
            self.states[job] = match self.spawn(&self.jobs[job], &path) {
                Ok(child) => {
                    let begun = Instant::now();
                    self.running.push(Running { job, child, begun, before, steps: before });
                    let event =
                        if before > 0 { Event::Resumed(name) } else { Event::Started(name) };
                    observer.event(&event);
                    JobState::Running
                }
                Err(reason) => {
                    observer.event(&Event::Failed(name, &reason));
                    JobState::Failed(reason)
                }
            };
        }
    }

    fn log(&self, job: &Job) -> PathBuf {
        self.out.join("logs").join(format!("{}.txt", job.name))
    }

    fn spawn(&self, job: &Job, path: &Path) -> Result<Child, String> {
        let text = |error: io::Error| error.to_string();
        let (program, first) = self.program.split_first().ok_or("no program to run")?;
        let mut command = Command::new(program);
        command.args(first);
        if path.join(CONFIG).exists() {
            misfit(job, path)?;
            command.arg("resume").arg(path).args(["--steps", &job.config.steps.to_string()]);
        } else {
            command.args(&job.arguments).arg("--out").arg(path);
        }
        forget_failure(path);
        let path = self.log(job);
        let log = files::open(&path, File::options().create(true).append(true))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        command.args(["--threads", &self.threads_each.to_string()]);
        command.stdin(Stdio::null()).stderr(log.try_clone().map_err(text)?).stdout(log);
        // Out of reach of the terminal's Ctrl-C: a run that is asked twice to stop does so at once.
        command.process_group(0);
        let parent = std::process::id();
        // SAFETY: between fork and exec, only two system calls that may be made there.
        unsafe {
            command.pre_exec(move || {
                // If this process is killed, its runs store what they have and end.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                if libc::getppid() as u32 != parent {
                    return Err(io::Error::other("the experiment was killed"));
                }
                Ok(())
            });
        }
        command.spawn().map_err(text)
    }

    /// Takes note of runs that have ended, and of how far the others are.
    fn collect(&mut self, stop: bool, observer: &mut dyn Observer) -> io::Result<()> {
        let mut i = 0;
        while i < self.running.len() {
            let Running { job, child, begun, before, steps } = &mut self.running[i];
            let entry = &self.jobs[*job];
            let Job { name, config, .. } = entry;
            let path = self.out.join(name);
            let ended = child.try_wait()?;
            let (taken, finished) = read::progress(&path, config.steps);
            *steps = taken;
            let Some(status) = ended else {
                i += 1;
                continue;
            };
            let seconds = begun.elapsed().as_secs_f64();
            self.taken += taken.saturating_sub(*before);
            let job = *job;
            self.states[job] = if status.success() && finished {
                observer.event(&Event::Done(name, seconds));
                JobState::Done
            } else if stop || lock::in_use(&path) {
                // Somebody else was faster: look again later.
                JobState::Waiting
            } else {
                let text = fs::read_to_string(self.log(entry)).unwrap_or_default();
                let last = text.lines().rev().find(|line| !line.trim().is_empty());
                let reason = last.unwrap_or("it said nothing").trim_start_matches("error: ");
                let reason = format!("{reason} ({status})");
                if read::is_run(&path) {
                    let _ =
                        files::write_whole(&path.join(FAILURE), format!("{reason}\n").as_bytes());
                }
                observer.event(&Event::Failed(name, &reason));
                JobState::Failed(reason)
            };
            self.running.remove(i);
        }
        Ok(())
    }
}

/// Why a run that is there is not the one asked for, nor can be made it by more steps.
fn misfit(job: &Job, path: &Path) -> Result<(), String> {
    let there = read::config(path).map_err(|e| e.to_string())?;
    let (asked, steps) = (job.config.steps, there.steps);
    let mut differences = job.config.differences(&there);
    if asked < steps || (asked > steps && there.length_matters()) {
        differences.push(format!("steps is {asked}, not {steps}"));
    }
    match differences.is_empty() {
        true => Ok(()),
        false => {
            let (path, differences) = (path.to_owned(), differences.join("; "));
            Err(RunError::Different { path, differences }.to_string())
        }
    }
}
