//! Runs made into curves and a table.

use std::collections::BTreeMap;

use cmdp::Rng;
use ecrl::metrics::{BEST_FEASIBLE, BEST_REWARD, ENV_STEPS, FEASIBLE, ROLLOUT_COST};

use crate::runs::{Metric, Run, RunState};
use crate::stats::{self, Estimate};

/// Points of the common grid of steps.
const POINTS: usize = 101;
/// Resamples of a bootstrap.
pub const REPEATS: usize = 2000;

/// What the band around a curve shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Band {
    /// The 95 % bootstrap interval of the mean.
    Bootstrap,
    /// One standard deviation over seeds.
    Deviation,
}

impl Band {
    /// What it shows, in words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Bootstrap => "95 % bootstrap confidence interval of the mean over seeds",
            Self::Deviation => "one standard deviation over seeds",
        }
    }
}

/// The mean over seeds at one step.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Point {
    /// Environment steps.
    pub step: f64,
    /// The mean.
    pub mean: f64,
    /// The band.
    pub low: f64,
    /// The band.
    pub high: f64,
    /// Seeds that have come this far.
    pub n: usize,
}

/// One algorithm in one panel.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Series {
    /// The algorithm.
    pub label: String,
    /// Its curve.
    pub points: Vec<Point>,
    /// Its seeds.
    pub seeds: usize,
}

/// One panel of the figure.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Panel {
    /// The task.
    pub task: String,
    /// What is drawn.
    pub metric: String,
    /// The constraint's threshold.
    pub threshold: Option<f64>,
    /// The last step of the grid.
    pub steps: f64,
    /// The curves.
    pub series: Vec<Series>,
}

/// The runs of each algorithm on each task: by panel, then by label.
pub type Groups<'a> = BTreeMap<&'a str, BTreeMap<&'a str, Vec<&'a Run>>>;

/// Groups runs.
pub fn groups(runs: &[Run]) -> Groups<'_> {
    let mut groups: Groups = BTreeMap::new();
    for run in runs {
        groups.entry(&run.panel).or_default().entry(&run.label).or_default().push(run);
    }
    groups
}

/// All panels: for each task the reward, then each constraint.
pub fn panels(groups: &Groups, band: Band, rng: &mut Rng) -> Vec<Panel> {
    let mut panels = Vec::new();
    for (task, labels) in groups {
        let any = labels.values().flatten().next().expect("a group has runs");
        let steps = labels.values().flatten().map(|run| run.config.steps).max().unwrap_or(0) as f64;
        let metrics = (0..any.constraints.len()).map(Metric::Cost);
        for metric in [Metric::Reward].into_iter().chain(metrics) {
            let (name, threshold) = match metric {
                Metric::Reward => ("reward".to_owned(), None),
                Metric::Cost(i) => {
                    let c = &any.constraints[i];
                    (format!("{} {}", c.aggregate.name(), c.name), Some(c.threshold))
                }
            };
            let series = labels.iter().map(|(label, runs)| Series {
                label: (*label).to_owned(),
                points: curve(runs, metric, steps, band, rng),
                seeds: runs.len(),
            });
            panels.push(Panel {
                task: (*task).to_owned(),
                metric: name,
                threshold,
                steps,
                series: series.collect(),
            });
        }
    }
    panels
}

fn curve(runs: &[&Run], metric: Metric, steps: f64, band: Band, rng: &mut Rng) -> Vec<Point> {
    let tests: Vec<Vec<(f64, f64)>> = runs.iter().map(|run| run.tests(metric)).collect();
    let mut points = Vec::new();
    for i in 0..POINTS {
        let step = steps * i as f64 / (POINTS - 1) as f64;
        let values: Vec<f64> =
            tests.iter().filter_map(|tests| stats::interpolate(tests, step)).collect();
        if values.is_empty() {
            continue;
        }
        let (n, mean) = (values.len(), stats::mean(&values));
        let (low, high) = match band {
            _ if n == 1 => (mean, mean),
            Band::Deviation => {
                let deviation = stats::deviation(&values);
                (mean - deviation, mean + deviation)
            }
            Band::Bootstrap => {
                let statistic = |scores: &[stats::Scores]| stats::mean(&scores[0][0]);
                let estimate = stats::bootstrap(&[&vec![values]], statistic, REPEATS / 4, rng);
                (estimate.low, estimate.high)
            }
        };
        points.push(Point { step, mean, low, high, n });
    }
    points
}

/// One row of the table: an algorithm on a task.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Row {
    /// The task.
    pub task: String,
    /// The algorithm.
    pub algorithm: String,
    /// Finished runs, which the figures are of.
    pub seeds: usize,
    /// Runs that are not finished.
    pub unfinished: usize,
    /// The reward of the last test.
    pub reward: Option<Estimate>,
    /// The J_C of each constraint in the last test.
    pub cost: Vec<Option<Estimate>>,
    /// The share of seeds whose last test kept every constraint.
    pub feasible: Option<f64>,
    /// The mean over seeds of the best reward of a policy that kept every constraint.
    pub best_feasible: Option<f64>,
    /// Seeds that found such a policy.
    pub with_feasible: usize,
    /// The mean over seeds of Σ max(0, J_C - ε) over all steps of the learner's sampled episodes.
    pub cumulative_violation: Vec<Option<f64>>,
}

/// The table.
pub fn table(groups: &Groups, rng: &mut Rng) -> Vec<Row> {
    let mut rows = Vec::new();
    for (task, labels) in groups {
        for (label, runs) in labels {
            let done: Vec<&Run> =
                runs.iter().copied().filter(|run| run.state == RunState::Finished).collect();
            let last = |metric: Metric| -> Vec<f64> {
                done.iter().filter_map(|run| Some(run.tests(metric).last()?.1)).collect()
            };
            let mut estimate = |values: Vec<f64>| {
                let statistic = |scores: &[stats::Scores]| stats::mean(&scores[0][0]);
                (!values.is_empty())
                    .then(|| stats::bootstrap(&[&vec![values]], statistic, REPEATS, rng))
            };
            let constraints = runs[0].constraints.len();
            let kept = done.iter().filter(|run| {
                let tested = run.generations.iter().rev().find_map(|g| g.get(&FEASIBLE));
                tested.unwrap_or(false)
            });
            let kept = kept.count() as f64;
            let best: Vec<f64> = done
                .iter()
                .filter_map(|run| {
                    let tested = run.generations.iter().rev();
                    let mut best = tested.filter(|g| g.get(&BEST_FEASIBLE) == Some(true));
                    best.next().and_then(|g| g.get(&BEST_REWARD))
                })
                .collect();
            let violation = |i: usize| -> Option<f64> {
                let each: Vec<f64> = done.iter().map(|run| cumulative_violation(run, i)).collect();
                (!each.is_empty()).then(|| stats::mean(&each))
            };
            rows.push(Row {
                task: (*task).to_owned(),
                algorithm: (*label).to_owned(),
                seeds: done.len(),
                unfinished: runs.len() - done.len(),
                reward: estimate(last(Metric::Reward)),
                cost: (0..constraints).map(|i| estimate(last(Metric::Cost(i)))).collect(),
                feasible: (!done.is_empty()).then(|| kept / done.len() as f64),
                best_feasible: (!best.is_empty()).then(|| stats::mean(&best)),
                with_feasible: best.len(),
                cumulative_violation: (0..constraints).map(violation).collect(),
            });
        }
    }
    rows
}

/// Σ max(0, J_C - ε)·steps over the learner's sampled episodes of every generation.
fn cumulative_violation(run: &Run, constraint: usize) -> f64 {
    let (mut before, mut excess, mut sum) = (0, 0.0, 0.0);
    for g in &run.generations {
        let now = g.get(&ENV_STEPS).unwrap_or(before);
        let steps = now.saturating_sub(before) as f64;
        before = now;
        // While no episode ends, the last ones that did must do.
        if let Some(value) = g.get(&ROLLOUT_COST).and_then(|costs| costs.get(constraint).copied()) {
            excess = (value - run.constraints[constraint].threshold).max(0.0);
        }
        sum += excess * steps;
    }
    sum
}

/// Aggregates over tasks of one algorithm.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Aggregate {
    /// The algorithm.
    pub algorithm: String,
    /// Interquartile mean of the reward, 0 the least and 1 the most of any run on the task.
    pub reward: Estimate,
    /// Interquartile mean of the violation, Σ max(0, J_C - ε)/ε.
    pub violation: Estimate,
}

/// How likely one algorithm is better than another.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Improvement {
    /// The one.
    pub a: String,
    /// The other.
    pub b: String,
    /// The probability of more reward.
    pub reward: Estimate,
    /// The probability of less violation.
    pub violation: Estimate,
}

/// Aggregates of the algorithms that have finished runs on every task, and of every pair of them.
pub fn aggregates(groups: &Groups, rng: &mut Rng) -> (Vec<Aggregate>, Vec<Improvement>) {
    let mut labels: Vec<&str> = groups.values().flat_map(BTreeMap::keys).copied().collect();
    labels.sort_unstable();
    labels.dedup();
    let last = |run: &Run, metric: Metric| run.tests(metric).last().map(|test| test.1);
    let mut scored: Vec<(&str, stats::Scores, stats::Scores)> = Vec::new();
    for label in labels {
        let (mut rewards, mut violations) = (Vec::new(), Vec::new());
        for runs in groups.values() {
            let finished = |run: &&&Run| run.state == RunState::Finished;
            let all: Vec<f64> = runs
                .values()
                .flatten()
                .filter(finished)
                .filter_map(|run| last(run, Metric::Reward))
                .collect();
            let least = all.iter().copied().fold(f64::INFINITY, f64::min);
            let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let own: Vec<&Run> =
                runs.get(label).into_iter().flatten().filter(finished).copied().collect();
            let score = |x: f64| if most > least { (x - least) / (most - least) } else { 1.0 };
            rewards
                .push(own.iter().filter_map(|run| last(run, Metric::Reward)).map(score).collect());
            let violation = |run: &&Run| -> Option<f64> {
                let each = run.constraints.iter().enumerate().map(|(i, c)| {
                    let scale = if c.threshold > 0.0 { c.threshold } else { 1.0 };
                    Some((last(run, Metric::Cost(i))? - c.threshold).max(0.0) / scale)
                });
                each.sum()
            };
            violations.push(own.iter().filter_map(violation).collect());
        }
        let complete =
            |scores: &stats::Scores| scores.iter().all(|task: &Vec<f64>| !task.is_empty());
        if complete(&rewards) && complete(&violations) {
            scored.push((label, rewards, violations));
        }
    }
    let iqm = |scores: &[stats::Scores]| stats::interquartile_mean(&scores[0]);
    let more = |s: &[stats::Scores]| stats::probability_of_improvement(&s[0], &s[1]);
    let less = |s: &[stats::Scores]| stats::probability_of_improvement(&s[1], &s[0]);
    let aggregates = scored
        .iter()
        .map(|(label, rewards, violations)| Aggregate {
            algorithm: (*label).to_owned(),
            reward: stats::bootstrap(&[rewards], iqm, REPEATS, rng),
            violation: stats::bootstrap(&[violations], iqm, REPEATS, rng),
        })
        .collect();
    let mut improvements = Vec::new();
    for (a, a_rewards, a_violations) in &scored {
        for (b, b_rewards, b_violations) in &scored {
            if a != b {
                improvements.push(Improvement {
                    a: (*a).to_owned(),
                    b: (*b).to_owned(),
                    reward: stats::bootstrap(&[a_rewards, b_rewards], more, REPEATS, rng),
                    violation: stats::bootstrap(&[a_violations, b_violations], less, REPEATS, rng),
                });
            }
        }
    }
    (aggregates, improvements)
}
