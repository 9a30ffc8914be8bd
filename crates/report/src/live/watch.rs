//! Run directories, followed as they come, grow and go.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cmdp::Constraint;
use ecrl::config::Config;
use ecrl::metrics::{
    BEST_SAMPLED_COST, ENV_STEPS, LEARNER_REWARD, REACHED, Record, SAMPLED_REWARD, SECONDS,
};
use rayon::prelude::*;
use runs::directory::FAILURE;
use runs::{lock, provenance, read};
use serde_json::{Value, json};

use crate::line::Line;
use crate::runs::{Run, RunState};

/// How often folders are searched for new runs.
const SEARCH: Duration = Duration::from_secs(3);
/// How often runs at which nobody is are looked at as a whole.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Folders within each other, at the most.
const DEPTH: usize = 8;
/// Points of a small curve.
const SPARK: usize = 48;
pub(super) const METRICS: &str = "metrics.jsonl";
const POPULATION: &str = "population.jsonl";

/// A run that is followed.
pub struct Watched {
    /// Where it is.
    pub path: PathBuf,
    /// What it is called, as seen from the folders that are followed.
    pub name: String,
    /// Every value of it.
    pub config: Config,
    constraints: Vec<Constraint>,
    kind: String,
    changed_midway: bool,
    metrics: Tail,
    /// The last record, the last with a test, the last with a policy that was tested again.
    last: [Option<Record>; 3],
    /// Steps and rewards of tests, thinned.
    spark: Vec<(f64, f64)>,
    every: usize,
    tests: usize,
    state: RunState,
    stamp: Stamp,
    shown: Value,
}

/// What tells whether anything of a run but its metrics has changed.
#[derive(Debug, Clone, PartialEq, Default)]
struct Stamp {
    config: Option<(u64, i64, i64)>,
    failure: Option<(u64, i64, i64)>,
    best: Option<(u64, i64, i64)>,
    in_use: bool,
}

/// A log that grows; only what is new is read.
#[derive(Debug, Default)]
pub struct Tail {
    at: u64,
    rest: Vec<u8>,
}

impl Tail {
    /// Whole lines that are new; whether it was begun anew, as by a resume that went back.
    pub(super) fn read(&mut self, path: &Path) -> (bool, Vec<u8>) {
        let length = plain(path).map_or(0, |found| found.0);
        let anew = length < self.at;
        if anew {
            *self = Self::default();
        }
        if length == self.at {
            return (anew, Vec::new());
        }
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(self.at))?;
            let mut bytes = Vec::new();
            file.take(length - self.at).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let Ok(new) = read() else { return (anew, Vec::new()) };
        self.at += new.len() as u64;
        self.rest.extend(new);
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let rest = self.rest.split_off(end);
        (anew, std::mem::replace(&mut self.rest, rest))
    }
}

/// Size and time of a plain file; a link is none.
fn plain(path: &Path) -> Option<(u64, i64, i64)> {
    let found = path.symlink_metadata().ok().filter(|found| found.is_file())?;
    Some((found.len(), found.mtime(), found.mtime_nsec()))
}

impl Stamp {
    fn of(path: &Path) -> Self {
        Self {
            config: plain(&path.join("config.toml")),
            failure: plain(&path.join(FAILURE)),
            best: plain(&path.join("best.safetensors")),
            in_use: lock::in_use(path),
        }
    }
}

impl Watched {
    fn new(path: PathBuf, name: String) -> Option<Self> {
        plain(&path.join("config.toml"))?;
        let config = read::config(&path).ok()?;
        let constraints = config.constraints.iter().map(|text| text.parse());
        let constraints = constraints.collect::<Result<Vec<Constraint>, _>>().ok()?;
        let origins = provenance::read(&path);
        let mut watched = Self {
            kind: config.label(),
            changed_midway: origins.iter().any(|origin| !origin.changes.is_empty()),
            path,
            name,
            config,
            constraints,
            metrics: Tail::default(),
            last: [const { None }; 3],
            spark: Vec::new(),
            every: 1,
            tests: 0,
            state: RunState::Unfinished,
            stamp: Stamp::default(),
            shown: Value::Null,
        };
        watched.refresh();
        Some(watched)
    }

    /// Takes note of what is new; whether anything is.
    fn refresh(&mut self) -> bool {
        let (anew, lines) = self.metrics.read(&self.path.join(METRICS));
        let stamp = Stamp::of(&self.path);
        if !anew && lines.is_empty() && stamp == self.stamp && !self.shown.is_null() {
            return false;
        }
        if anew {
            (self.last, self.every, self.tests) = ([const { None }; 3], 1, 0);
            self.spark.clear();
        }
        if stamp.config != self.stamp.config
            && self.stamp.config.is_some()
            && let Ok(config) = read::config(&self.path)
        {
            (self.kind, self.config) = (config.label(), config);
        }
        self.stamp = stamp;
        self.take(&lines);
        let steps = self.steps();
        let reached = self.last[0].as_ref().and_then(|last| last.get(&REACHED)) == Some(true);
        self.state = match fs::read_to_string(self.path.join(FAILURE)) {
            _ if self.stamp.in_use => RunState::Going,
            _ if steps >= self.config.steps || reached => RunState::Finished,
            Ok(reason) if self.stamp.failure.is_some() => RunState::Failed(reason.trim().into()),
            _ => RunState::Unfinished,
        };
        self.shown = self.told();
        true
    }

    fn steps(&self) -> u64 {
        self.last[0].as_ref().and_then(|last| last.get(&ENV_STEPS)).unwrap_or(0)
    }

    /// Reads new lines: of most only whether they have a test.
    fn take(&mut self, bytes: &[u8]) {
        let record = |line: &[u8]| serde_json::from_slice::<Record>(line).ok();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mut last = None;
        for line in lines {
            last = Some(line);
            if memchr::memmem::find(line, b"\"learner_reward\"").is_none() {
                continue;
            }
            let Some(test) = record(line) else { continue };
            let reward = test.get(&LEARNER_REWARD).filter(|reward| reward.is_finite());
            if let (Some(step), Some(reward)) = (test.get(&ENV_STEPS), reward) {
                self.point(step as f64, reward);
            }
            if test.get(&BEST_SAMPLED_COST).is_some() {
                self.last[2] = Some(test.clone());
            }
            self.last[1] = Some(test);
        }
        if let Some(last) = last.and_then(record) {
            self.last[0] = Some(last);
        }
    }

    fn point(&mut self, step: f64, reward: f64) {
        if self.tests.is_multiple_of(self.every) {
            self.spark.push((step, reward));
        }
        self.tests += 1;
        if self.spark.len() > 2 * SPARK {
            self.every *= 2;
            let mut index = 0;
            self.spark.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }

    /// The run as others see it, with no more of what it recorded than it takes.
    fn run(&self) -> Run {
        Run {
            path: self.path.clone(),
            config: self.config.clone(),
            constraints: self.constraints.clone(),
            kind: self.kind.clone(),
            label: self.kind.clone(),
            panel: self.config.task.clone(),
            generations: self.last.iter().rev().flatten().cloned().collect(),
            state: self.state.clone(),
            origins: Vec::new(),
        }
    }

    /// Its row.
    fn told(&self) -> Value {
        let mut row = Line::of(&self.run()).json();
        let last = self.last[0].as_ref();
        let seconds = last.and_then(|last| last.get(&SECONDS)).unwrap_or(0.0);
        let test = self.last[1].as_ref();
        let points = self.spark.iter().map(|(x, y)| json!([x, short(*y)]));
        let more = json!({
            "run": self.name,
            "seconds": seconds,
            "last_reward": test.and_then(|test| test.get(&LEARNER_REWARD)),
            "last_sampled": test.and_then(|test| test.get(&SAMPLED_REWARD)),
            "bounds": self.constraints.iter().map(|c| json!({"name": c.name, "bound": c.threshold, "aggregate": c.aggregate.name()})).collect::<Vec<_>>(),
            "spark": points.collect::<Vec<_>>(),
            "population": plain(&self.path.join(POPULATION)).is_some_and(|found| found.0 > 0),
            "best": self.stamp.best.map(|best| format!("{}.{}", best.1, best.2)),
            "changed": self.changed_midway,
            "size": self.metrics.at,
        });
        let (Value::Object(row), Value::Object(more)) = (&mut row, more) else { unreachable!() };
        row.extend(more);
        // It would change all the time: the page counts from when.
        row.remove("seconds_ago");
        let modified = plain(&self.path.join(METRICS)).map(|found| found.1);
        row.insert("recorded".into(), json!(modified));
        Value::Object(row.clone())
    }
}

fn short(x: f64) -> f64 {
    format!("{x:.4e}").parse().unwrap_or(x)
}

/// All runs in some folders.
pub struct Watch {
    folders: Vec<PathBuf>,
    /// By their numbers, which no other run gets.
    runs: HashMap<u64, Watched>,
    numbers: HashMap<PathBuf, u64>,
    next: u64,
    searched: Option<Instant>,
    looked: Option<Instant>,
}

/// What has happened since it was asked before.
#[derive(Debug, Default)]
pub struct News {
    /// Rows that are new or have changed, by the run's number.
    pub rows: Vec<(u64, Value)>,
    /// Runs that are gone.
    pub gone: Vec<u64>,
}

impl Watch {
    /// Follows runs in some folders, at any depth; folders that are not there yet may come.
    pub fn new(folders: Vec<PathBuf>) -> Self {
        let absolute = |folder: PathBuf| std::path::absolute(&folder).unwrap_or(folder);
        let folders = folders.into_iter().map(absolute).collect();
        let (runs, numbers) = (HashMap::new(), HashMap::new());
        Self { folders, runs, numbers, next: 1, searched: None, looked: None }
    }

    /// A run by its number.
    pub fn run(&self, number: u64) -> Option<&Watched> {
        self.runs.get(&number)
    }

    /// Every row, the first run found first.
    pub fn rows(&self) -> Vec<(u64, Value)> {
        let mut rows: Vec<(u64, Value)> =
            self.runs.iter().map(|(number, run)| (*number, run.shown.clone())).collect();
        rows.sort_by_key(|(number, _)| *number);
        rows
    }

    /// Looks at all of them once more.
    pub fn refresh(&mut self) -> News {
        let mut news = News::default();
        if self.searched.is_none_or(|at| at.elapsed() >= SEARCH) {
            self.search(&mut news);
            self.searched = Some(Instant::now());
        }
        // Most have ended long ago: of those only the log's length is asked for, and the rest now and then.
        let thorough = self.looked.is_none_or(|at| at.elapsed() >= LOOK_AGAIN);
        if thorough {
            self.looked = Some(Instant::now());
        }
        let rows = self.runs.par_iter_mut().filter_map(|(number, run)| {
            let length = plain(&run.path.join(METRICS)).map_or(0, |found| found.0);
            let due = thorough || run.state == RunState::Going || length != run.metrics.at;
            (due && run.refresh()).then(|| (*number, run.shown.clone()))
        });
        let rows: Vec<(u64, Value)> = rows.collect();
        news.rows.extend(rows);
        news.rows.sort_by_key(|(number, _)| *number);
        news.gone.sort_unstable();
        news
    }

    fn search(&mut self, news: &mut News) {
        // Those that are known are not looked into again: their folder may be there without them.
        self.numbers.retain(|path, number| {
            let there = plain(&path.join("config.toml")).is_some();
            if !there {
                self.runs.remove(number);
                news.gone.push(*number);
            }
            there
        });
        let mut found = Vec::new();
        for folder in &self.folders {
            find(folder, DEPTH, &self.numbers, &mut found);
        }
        found.sort();
        found.dedup();
        let new: Vec<PathBuf> =
            found.into_iter().filter(|path| !self.numbers.contains_key(path)).collect();
        let folders = &self.folders;
        let made: Vec<(PathBuf, Option<Watched>)> = new
            .into_par_iter()
            .map(|path| {
                let name = name(folders, &path);
                let run = Watched::new(path.clone(), name);
                (path, run)
            })
            .collect();
        for (path, run) in made {
            let Some(run) = run else { continue };
            news.rows.push((self.next, run.shown.clone()));
            self.runs.insert(self.next, run);
            self.numbers.insert(path, self.next);
            self.next += 1;
        }
    }
}

/// A run's name: as seen from what all folders have in common.
fn name(folders: &[PathBuf], path: &Path) -> String {
    let above = |folder: &PathBuf| folders.iter().all(|other| other.starts_with(folder));
    let common = folders.first().map(|first| first.ancestors().map(Path::to_owned).find(above));
    let within =
        common.flatten().and_then(|common| path.strip_prefix(common).ok().map(Path::to_owned));
    let within = within.filter(|rest| !rest.as_os_str().is_empty());
    within.as_deref().unwrap_or(path).display().to_string()
}

/// Run directories in a folder; links lead elsewhere and are not followed.
fn find(folder: &Path, depth: usize, known: &HashMap<PathBuf, u64>, found: &mut Vec<PathBuf>) {
    if known.contains_key(folder) || plain(&folder.join("config.toml")).is_some() {
        found.push(folder.to_owned());
        return;
    }
    if depth == 0 {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && entry.file_name() != "checkpoint" {
            find(&entry.path(), depth - 1, known, found);
        }
    }
}

#[cfg(test)]
mod tests;
