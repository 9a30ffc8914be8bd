//! Run directories, read and grouped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cmdp::Constraint;
use ecrl::config::Config;
use ecrl::metrics::{
    BEST_FEASIBLE, BEST_REWARD, BEST_SAMPLED_COST, CHAMPION_COST, CHAMPION_REWARD,
    CHAMPION_SAMPLED_COST, CHAMPION_SAMPLED_REWARD, ENV_STEPS, EXCESS, LEARNER_COST,
    LEARNER_REWARD, REACHED, ROLLOUT_COST, ROLLOUT_REWARD, Record, SAMPLED_COST, SAMPLED_REWARD,
};
use ecrl::population::census::Census;
use runs::directory::{FAILURE, START};
use runs::provenance::{self, Provenance};
use runs::shell::quote;
use runs::task_copy::TaskCopy;
use runs::{lock, read};

use crate::ReportError;
use crate::axis::short;

/// How a run stands.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// All steps were taken.
    Finished,
    /// A process is at it.
    Going,
    /// Nobody is.
    Unfinished,
    /// It failed, for this reason.
    Failed(String),
}

/// A run directory.
#[derive(Debug)]
pub struct Run {
    /// The directory.
    pub path: PathBuf,
    /// Every value of it.
    pub config: Config,
    /// Its constraints.
    pub constraints: Vec<Constraint>,
    /// The algorithm, with the values that are not the usual ones.
    pub kind: String,
    /// The same, with what else tells it from other runs on its task: only what has the same label is
    /// averaged.
    pub label: String,
    /// The task, with the constraints where the report has several for it.
    pub panel: String,
    /// What it recorded.
    pub generations: Vec<Record>,
    /// How it stands.
    pub state: RunState,
    /// What it was made with.
    pub origins: Vec<Provenance>,
}

impl Run {
    /// Environment steps taken.
    pub fn steps(&self) -> u64 {
        self.generations.last().and_then(|g| g.get(&ENV_STEPS)).unwrap_or(0)
    }

    /// The population of each generation, where there is one; read when it is asked for.
    pub fn population(&self) -> Vec<Census> {
        read::population(&self.path)
    }

    /// Whether it has ended because it had come to what it was to come to.
    pub fn reached(&self) -> bool {
        self.generations.last().and_then(|g| g.get(&REACHED)) == Some(true)
    }

    /// Tests: steps, and reward or the J_C of a constraint.
    pub fn tests(&self, subject: Subject, face: Face, metric: Metric) -> Vec<(f64, f64)> {
        let (reward, cost) = match (subject, face) {
            (Subject::Learner, Face::Mean) => (&LEARNER_REWARD, &LEARNER_COST),
            (Subject::Learner, Face::Sampled) => {
                // Runs of earlier versions have only the training episodes themselves.
                let named = self.generations.iter().any(|g| g.get(&SAMPLED_REWARD).is_some());
                if named {
                    (&SAMPLED_REWARD, &SAMPLED_COST)
                } else {
                    (&ROLLOUT_REWARD, &ROLLOUT_COST)
                }
            }
            (Subject::Champion, Face::Mean) => (&CHAMPION_REWARD, &CHAMPION_COST),
            (Subject::Champion, Face::Sampled) => {
                (&CHAMPION_SAMPLED_REWARD, &CHAMPION_SAMPLED_COST)
            }
        };
        let value = |g: &Record| match metric {
            Metric::Reward => g.get(reward),
            Metric::Cost(i) => g.get(cost)?.get(i).copied(),
        };
        let mut points: Vec<(f64, f64)> = self
            .generations
            .iter()
            .filter_map(|g| Some((g.get(&ENV_STEPS)? as f64, value(g).filter(|x| x.is_finite())?)))
            .collect();
        points.dedup_by_key(|point| point.0);
        points
    }

    /// The last test of the learner.
    pub fn last(&self, face: Face, metric: Metric) -> Option<f64> {
        self.tests(Subject::Learner, face, metric).last().map(|test| test.1)
    }

    /// Whether its last test kept every constraint, with both faces.
    pub fn is_feasible(&self) -> bool {
        self.constraints.iter().enumerate().all(|(i, constraint)| {
            let kept =
                |face| self.last(face, Metric::Cost(i)).is_some_and(|x| constraint.is_kept_by(x));
            Face::ALL.into_iter().all(kept)
        })
    }

    /// For each constraint, the mean over all steps of training, whoever took them, of how far their
    /// episode was outside of it; nothing where the run did not record it.
    pub fn excess(&self) -> Option<Vec<f64>> {
        let mut sums = vec![0.0; self.constraints.len()];
        let mut recorded = false;
        for excess in self.generations.iter().filter_map(|g| g.get(&EXCESS)) {
            recorded = true;
            sums.iter_mut().zip(excess).for_each(|(sum, excess)| *sum += excess);
        }
        let steps = self.steps() as f64;
        recorded.then(|| sums.into_iter().map(|sum| sum / steps).collect())
    }

    /// The reward of its best policy, if that was tested again and kept every constraint; the outer
    /// option says whether any was tested again.
    pub fn best(&self) -> Option<Option<f64>> {
        let last = self.generations.iter().rev().find(|g| g.get(&BEST_SAMPLED_COST).is_some())?;
        Some(last.get(&BEST_REWARD).filter(|_| last.get(&BEST_FEASIBLE) == Some(true)))
    }

    /// The command that makes it.
    pub fn command(&self) -> String {
        let Config { task, algorithm, steps, seed, constraints, .. } = &self.config;
        let file =
            self.origins.iter().map(|origin| &origin.task_file).find(|file| !file.is_empty());
        let (task, algorithm) = (quote(file.unwrap_or(task)), quote(algorithm));
        let mut command =
            format!("ecrl train {task} --algo {algorithm} --steps {steps} --seed {seed}");
        for constraint in constraints {
            command += &format!(" --constraint {}", quote(constraint));
        }
        if constraints.is_empty() {
            command += " --constraint none";
        }
        for change in self.config.changes() {
            command += &format!(" --set {}", quote(&change));
        }
        if !self.config.start.is_empty() {
            let start = self.path.join(START).display().to_string();
            command += &format!(" --from {}", quote(&start));
        }
        for origin in self.origins.iter().filter(|origin| !origin.changes.is_empty()) {
            let (at, changes) = (origin.at, origin.changes.join("; "));
            command += &format!("    # from step {at} on: {changes}");
        }
        command.replace('\n', " ")
    }
}

/// Whose tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The learner.
    Learner,
    /// The champion of the population.
    Champion,
}

/// How a policy acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Face {
    /// It takes its mean action.
    Mean,
    /// It samples.
    Sampled,
}

impl Face {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Mean, Self::Sampled];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Sampled => "sampled",
        }
    }
}

/// What a curve shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// The return.
    Reward,
    /// The value of a constraint.
    Cost(usize),
}

/// All runs in some folders, at any depth, in the order of their paths, and what was passed over: what
/// is no run, and a run that cannot be read, unless it was named itself.
pub fn load(folders: &[PathBuf]) -> Result<(Vec<Run>, Vec<String>), ReportError> {
    let (mut paths, mut notes) = (Vec::new(), Vec::new());
    for folder in folders {
        if !folder.is_dir() {
            return Err(ReportError::NoFolder(folder.clone()));
        }
        find(folder, &mut paths, &mut notes)?;
    }
    paths.sort();
    paths.dedup();
    let mut runs = Vec::new();
    for path in &paths {
        match load_one(path) {
            Ok(run) => runs.push(run),
            Err(error) if folders.contains(path) || paths.len() == 1 => return Err(error),
            Err(error) => notes.push(format!("{} is passed over: {error}.", path.display())),
        }
    }
    if runs.is_empty() {
        return Err(ReportError::NoRuns(folders.to_vec()));
    }
    tell_apart(&mut runs);
    Ok((runs, notes))
}

/// Gives runs with other constraints panels of their own, and runs of other lengths, or of the same seed,
/// labels of their own.
fn tell_apart(runs: &mut [Run]) {
    let mut sets: BTreeMap<String, BTreeSet<Vec<String>>> = BTreeMap::new();
    for run in runs.iter() {
        let sets = sets.entry(run.config.task.clone()).or_default();
        sets.insert(run.config.constraints.clone());
    }
    for run in runs.iter_mut() {
        run.panel.clone_from(&run.config.task);
        if sets[&run.config.task].len() > 1 {
            let set = match run.config.constraints.is_empty() {
                true => "no constraint".into(),
                false => run.config.constraints.join(", "),
            };
            run.panel += &format!(" ({set})");
        }
    }
    // Tasks of a user's own may have one name and be others.
    let mut tasks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for run in runs.iter() {
        let tasks = tasks.entry(run.config.task.clone()).or_default();
        if TaskCopy::is_named_by(&run.config) && !tasks.contains(&run.config.environment) {
            tasks.push(run.config.environment.clone());
        }
    }
    for run in runs.iter_mut().filter(|run| tasks[&run.config.task].len() > 1) {
        let number = tasks[&run.config.task].iter().position(|e| *e == run.config.environment);
        run.panel += &format!(" (file {})", number.map_or(0, |i| i + 1));
    }
    let mut lengths: BTreeMap<(String, String), BTreeSet<u64>> = BTreeMap::new();
    for run in runs.iter() {
        let key = (run.panel.clone(), run.kind.clone());
        lengths.entry(key).or_default().insert(run.config.steps);
    }
    for run in runs.iter_mut() {
        let key = (run.panel.clone(), run.kind.clone());
        if lengths[&key].len() > 1 {
            run.label += &format!(", {} steps", short(run.config.steps as f64));
        }
    }
    let mut seeds: BTreeMap<(String, String, u64), usize> = BTreeMap::new();
    let key = |run: &Run| (run.panel.clone(), run.label.clone(), run.config.seed);
    for run in runs.iter() {
        *seeds.entry(key(run)).or_default() += 1;
    }
    let twice: BTreeSet<(String, String)> =
        seeds.into_iter().filter(|(_, n)| *n > 1).map(|((p, l, _), _)| (p, l)).collect();
    for run in runs.iter_mut() {
        if twice.contains(&(run.panel.clone(), run.label.clone())) {
            run.label += &format!(" in {}", run.path.display());
        }
    }
}

fn find(
    folder: &Path,
    found: &mut Vec<PathBuf>,
    notes: &mut Vec<String>,
) -> Result<(), ReportError> {
    if folder.join("config.toml").is_file() {
        if read::is_run(folder) {
            found.push(folder.to_owned());
            return Ok(());
        }
        let file = folder.join("config.toml");
        notes.push(format!("{} is passed over: it is not a run's.", file.display()));
    }
    let io = |error| ReportError::Io { path: folder.to_owned(), error };
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        if entry.file_type().map_err(io)?.is_dir() {
            find(&entry.path(), found, notes)?;
        }
    }
    Ok(())
}

fn load_one(path: &Path) -> Result<Run, ReportError> {
    let config = read::config(path)?;
    let constraints = config.constraints.iter().map(|text| text.parse());
    let constraints = constraints.collect::<Result<Vec<Constraint>, _>>()?;
    let generations = match path.join("metrics.jsonl").exists() {
        true => read::metrics(path)?,
        false => Vec::new(),
    };
    let taken = generations.last().and_then(|g| g.get(&ENV_STEPS)).unwrap_or(0);
    let reached = generations.last().and_then(|g| g.get(&REACHED)) == Some(true);
    let state = match fs::read_to_string(path.join(FAILURE)) {
        _ if lock::in_use(path) => RunState::Going,
        _ if taken >= config.steps || reached => RunState::Finished,
        Ok(reason) => RunState::Failed(reason.trim().to_owned()),
        Err(_) => RunState::Unfinished,
    };
    let kind = config.label();
    let origins = provenance::read(path);
    let changed = origins.iter().any(|origin| !origin.changes.is_empty());
    Ok(Run {
        origins,
        path: path.to_owned(),
        panel: String::new(),
        constraints,
        config,
        label: if changed { format!("{kind}, changed midway") } else { kind.clone() },
        kind,
        generations,
        state,
    })
}
