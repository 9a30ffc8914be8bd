//! Runs made into curves and a table.

use std::collections::BTreeMap;

use cmdp::Rng;

use crate::runs::{Face, Metric, Run, RunState, Subject};
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
    /// How it acted.
    pub face: Face,
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
    /// Whether the champion is drawn instead of the learner.
    pub champion: bool,
    /// What is drawn.
    pub metric: String,
    /// The constraint's threshold.
    pub threshold: Option<f64>,
    /// The last step of the grid.
    pub steps: f64,
    /// The curves.
    pub series: Vec<Series>,
}

impl Panel {
    /// What is drawn, of which task.
    pub fn title(&self) -> String {
        format!("{}: {}", self.task, self.metric)
    }
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

/// All panels: for each task the learner's reward, then each constraint, then the same of the champion
/// where there is one.
pub fn panels(groups: &Groups, band: Band, rng: &mut Rng) -> Vec<Panel> {
    let mut panels = Vec::new();
    for (task, labels) in groups {
        let any = labels.values().flatten().next().expect("a group has runs");
        // By what was run, not by what was asked for.
        let steps = labels.values().flatten().map(|run| run.steps()).max().unwrap_or(0) as f64;
        for subject in [Subject::Learner, Subject::Champion] {
            let metrics = (0..any.constraints.len()).map(Metric::Cost);
            for metric in [Metric::Reward].into_iter().chain(metrics) {
                let champion = subject == Subject::Champion;
                let (name, threshold) = match metric {
                    Metric::Reward => ("reward".to_owned(), None),
                    Metric::Cost(i) => {
                        let c = &any.constraints[i];
                        (format!("{} {}", c.aggregate.name(), c.name), Some(c.threshold))
                    }
                };
                let mut series = Vec::new();
                for (label, runs) in labels {
                    for face in Face::ALL {
                        let points = curve(runs, (subject, face, metric), steps, band, rng);
                        let (label, seeds) = ((*label).to_owned(), runs.len());
                        series.push(Series { label, face, points, seeds });
                    }
                }
                let metric = if champion { format!("champion's {name}") } else { name };
                if !champion || series.iter().any(|series| !series.points.is_empty()) {
                    let task = (*task).to_owned();
                    panels.push(Panel { task, champion, metric, threshold, steps, series });
                }
            }
        }
    }
    panels
}

fn curve(
    runs: &[&Run],
    (subject, face, metric): (Subject, Face, Metric),
    steps: f64,
    band: Band,
    rng: &mut Rng,
) -> Vec<Point> {
    let tests: Vec<Vec<(f64, f64)>> =
        runs.iter().map(|run| run.tests(subject, face, metric)).collect();
    let tests: Vec<&Vec<(f64, f64)>> = tests.iter().filter(|tests| !tests.is_empty()).collect();
    // Of one run its tests themselves; of several, values between theirs at common steps; where each has
    // but one, that.
    let mut common: Vec<f64> = match tests[..] {
        [one] => one.iter().map(|test| test.0).collect(),
        _ => (0..POINTS).map(|i| steps * i as f64 / (POINTS - 1) as f64).collect(),
    };
    let thin = common.len().div_ceil(3 * POINTS);
    if thin > 1 {
        let last = common.last().copied();
        common = common.into_iter().step_by(thin).collect();
        common.extend(last.filter(|last| common.last() != Some(last)));
    }
    let at = |tests: &Vec<(f64, f64)>, step: f64| match tests[..] {
        [_, _, ..] => stats::interpolate(tests, step),
        _ => None,
    };
    let mut points = Vec::new();
    let mut add = |step: f64, values: Vec<f64>| {
        if !values.is_empty() {
            points.push(point(step, values, band, rng));
        }
    };
    for step in common {
        add(step, tests.iter().filter_map(|tests| at(tests, step)).collect());
    }
    let single: Vec<(f64, f64)> =
        tests.iter().filter(|tests| tests.len() == 1).map(|tests| tests[0]).collect();
    if !single.is_empty() && single.len() == tests.len() {
        let mean = stats::mean(&single.iter().map(|test| test.0).collect::<Vec<_>>());
        add(mean, single.iter().map(|test| test.1).collect());
    }
    points
}

/// The mean over seeds, with its band.
fn point(step: f64, values: Vec<f64>, band: Band, rng: &mut Rng) -> Point {
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
    Point { step, mean, low, high, n }
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
    /// The reward of the last test, by face.
    pub reward: [Option<Estimate>; 2],
    /// The J_C of each constraint in the last test, by face.
    pub cost: [Vec<Option<Estimate>>; 2],
    /// The share of seeds whose last test kept every constraint with both faces.
    pub feasible: Option<f64>,
    /// The mean over seeds of the reward of the best policy, where it kept every constraint when it
    /// was tested again.
    pub best_feasible: Option<f64>,
    /// Seeds that found such a policy.
    pub with_feasible: usize,
    /// The mean over seeds of [`Run::excess`].
    pub excess: Vec<Option<f64>>,
}

/// The table.
pub fn table(groups: &Groups, rng: &mut Rng) -> Vec<Row> {
    let mut rows = Vec::new();
    for (task, labels) in groups {
        for (label, runs) in labels {
            let done: Vec<&Run> =
                runs.iter().copied().filter(|run| run.state == RunState::Finished).collect();
            let mut last = |face: Face, metric: Metric| {
                let values: Vec<f64> =
                    done.iter().filter_map(|run| run.last(face, metric)).collect();
                let statistic = |scores: &[stats::Scores]| stats::mean(&scores[0][0]);
                (!values.is_empty())
                    .then(|| stats::bootstrap(&[&vec![values]], statistic, REPEATS, rng))
            };
            let constraints = runs[0].constraints.len();
            let kept = done.iter().filter(|run| run.is_feasible()).count() as f64;
            let best: Vec<f64> = done.iter().filter_map(|run| run.best().flatten()).collect();
            let excess: Vec<Vec<f64>> = done.iter().filter_map(|run| run.excess()).collect();
            let mean_of = |i: usize| -> Option<f64> {
                let each: Vec<f64> = excess.iter().map(|excess| excess[i]).collect();
                (!each.is_empty()).then(|| stats::mean(&each))
            };
            rows.push(Row {
                task: (*task).to_owned(),
                algorithm: (*label).to_owned(),
                seeds: done.len(),
                unfinished: runs.len() - done.len(),
                reward: Face::ALL.map(|face| last(face, Metric::Reward)),
                cost: Face::ALL
                    .map(|face| (0..constraints).map(|i| last(face, Metric::Cost(i))).collect()),
                feasible: (!done.is_empty()).then(|| kept / done.len() as f64),
                best_feasible: (!best.is_empty()).then(|| stats::mean(&best)),
                with_feasible: best.len(),
                excess: (0..constraints).map(mean_of).collect(),
            });
        }
    }
    rows
}

/// Aggregates over tasks of one algorithm.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Aggregate {
    /// The algorithm.
    pub algorithm: String,
    /// Interquartile mean of the reward, 0 the least and 1 the most of any run on the task.
    pub reward: Estimate,
    /// Interquartile mean of the violation of the worse face, Σ max(0, J_C - ε)/ε.
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
    let last = |run: &Run, metric: Metric| run.last(Face::Mean, metric);
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
                    let [mean, sampled] = Face::ALL.map(|face| run.last(face, Metric::Cost(i)));
                    Some((mean?.max(sampled?) - c.threshold).max(0.0) / scale)
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
