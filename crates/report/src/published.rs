//! Ours beside what others have published for the same tasks and constraint.
//!
//! Figures of OmniSafe's benchmark pages (github.com/PKU-Alignment/omnisafe, benchmarks/on-policy and
//! benchmarks/off-policy; Safety-Gymnasium's velocity tasks, v1, limit 25): mean reward and cost over seeds of the
//! last episodes, after 1e7 steps on-policy and 1e6 off-policy.

use std::fmt::Write as _;

use ecrl::metrics::{
    BEST_COST, BEST_FEASIBLE, BEST_REWARD, BEST_SAMPLED_COST, BEST_SAMPLED_REWARD, FEASIBLE,
    LEARNER_COST, LEARNER_REWARD, SAMPLED_COST, SAMPLED_REWARD, SECONDS,
};

use crate::axis::short;
use crate::runs::{Run, RunState};

/// The constraint they are published for.
const CONSTRAINT: &str = "sum(velocity)<=25";
const LIMIT: f64 = 25.0;
const TASKS: [&str; 5] = ["ant", "half-cheetah", "hopper", "swimmer", "walker2d"];

/// Their name, that of the algorithm of ours, and (reward, cost) on each task.
type Published = (&'static str, &'static str, [(f64, f64); 5]);

const OMNISAFE: [Published; 12] = [
    ("PPO", "ppo", [(5978., 958.), (6922., 919.), (2337., 550.), (120., 165.), (6240., 903.)]),
    ("PPOLag", "ppo-lag", [(3262., 12.), (2946., 3.), (962., 14.), (65., 28.), (2982., 13.)]),
    ("TRPOLag", "trpo-lag", [(3042., 20.), (2885., 9.), (1392., 11.), (81., 22.), (3207., 15.)]),
    ("RCPO", "rcpo-ppo", [(3140., 12.), (2441., 9.), (1429., 11.), (61., 23.), (3064., 3.)]),
    ("CPPOPID", "ppo-pid", [(3213., 14.), (2838., 8.), (1713., 9.), (91., 19.), (2183., 14.)]),
    ("CPO", "cpo", [(3099., 14.), (2786., 5.), (1714., 13.), (65., 18.), (2075., 22.)]),
    ("PCPO", "pcpo", [(2257., 10.), (1678., 19.), (1551., 15.), (54., 17.), (1803., 19.)]),
    ("FOCOPS", "focops", [(3184., 15.), (2965., 2.), (1438., 10.), (54., 30.), (3117., 9.)]),
    ("CUP", "cup", [(3216., 18.), (2851., 4.), (1716., 7.), (64., 22.), (2467., 7.)]),
    ("SACLag", "sac-lag", [(1897., 6.), (2834., 0.), (963., 20.), (11., 23.), (2676., 31.)]),
    ("SACPID", "sac-pid", [(1941., 14.), (2689., 21.), (813., 92.), (8., 8.), (1252., 41.)]),
    ("TD3Lag", "td3-lag", [(1944., 63.), (2741., 10.), (929., 41.), (16., 13.), (2996., 23.)]),
];

/// Algorithms of ours that know nothing of constraints: the best of such a run that keeps one is a beginner.
const FREE: [&str; 4] = ["ppo", "trpo", "sac", "td3"];

/// The columns of the table.
pub const HEAD: [&str; 9] = [
    "task",
    "published as",
    "reward / cost",
    "ours",
    "mean action",
    "sampled",
    "feasible",
    "steps",
    "minutes",
];

/// A run of ours: its cells, and whether it is feasible, if that is known.
pub struct Row {
    /// The cells, in the order of [`HEAD`].
    pub cells: [String; 9],
    /// Whether it keeps the constraint both ways.
    pub feasible: Option<bool>,
}

/// Every finished run under the constraint, beside the published figure of its algorithm.
pub fn table(runs: &[Run]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, task) in TASKS.into_iter().enumerate() {
        let own = runs.iter().filter(|run| run.config.task == task && comparable(run));
        rows.extend(own.map(|run| {
            let known = OMNISAFE.iter().find(|(_, ours, _)| *ours == run.config.algorithm);
            let (theirs, figures) = known.map_or(("-", "-".into()), |(theirs, _, figures)| {
                let (reward, cost) = figures[at];
                (*theirs, beside(reward, cost, cost <= LIMIT))
            });
            row(task, [theirs, &figures], run)
        }));
    }
    rows
}

/// The columns of the overview.
pub const OVERVIEW_HEAD: [&str; 6] = ["", TASKS[0], TASKS[1], TASKS[2], TASKS[3], TASKS[4]];

/// An algorithm on every task.
pub struct Line {
    /// Its name, and reward and cost, in the order of [`OVERVIEW_HEAD`].
    pub cells: [String; 6],
    /// Whether it is of ours.
    pub ours: bool,
}

/// Reward and cost of every algorithm on every task at a glance, ours below theirs, each kind and length of runs a
/// row; last the best of each that keep the constraint. Nothing without such runs.
pub fn overview(runs: &[Run]) -> Vec<Line> {
    let mut own: Vec<&Run> = runs.iter().filter(|run| comparable(run)).collect();
    if own.is_empty() {
        return Vec::new();
    }
    let place = |run: &&Run| {
        let algorithm = &run.config.algorithm;
        OMNISAFE.iter().position(|(_, ours, _)| ours == algorithm).unwrap_or(OMNISAFE.len())
    };
    own.sort_by_key(|run| (place(run), run.kind.clone(), run.config.steps));
    let alike = |a: &&Run, b: &&Run| (&a.kind, a.config.steps) == (&b.kind, b.config.steps);
    let mut rows = Vec::new();
    let mut best = [const { [const { None }; 2] }; 5];
    let mut groups = own.chunk_by(alike).peekable();
    for at in 0..=OMNISAFE.len() {
        if let Some((theirs, _, figures)) = OMNISAFE.get(at) {
            let cells = figures.map(|(reward, cost)| beside(reward, cost, cost <= LIMIT));
            rows.push(line((*theirs).to_owned(), cells, false));
            for (best, (reward, cost)) in best.iter_mut().zip(figures) {
                raise(&mut best[0], *reward, *cost <= LIMIT, theirs);
            }
        }
        while let Some(group) = groups.next_if(|group| place(&group[0]) == at) {
            let name = format!("{}, {} steps", group[0].kind, short(group[0].config.steps as f64));
            let cells = std::array::from_fn(|task| {
                let of = group.iter().filter(|run| run.config.task == TASKS[task]);
                let seeds: Vec<Judged> = of.filter_map(|run| judged(run)).collect();
                let count = seeds.len() as f64;
                let mean = |of: fn(&Judged) -> f64| seeds.iter().map(of).sum::<f64>() / count;
                let (reward, cost) = (mean(|seed| seed.mean.0), mean(|seed| seed.mean.1));
                let kept = seeds.iter().all(|seed| seed.kept);
                raise(&mut best[task][1], reward, kept && count > 0.0, &group[0].kind);
                let several = if count > 1.0 { format!(", {count} seeds") } else { String::new() };
                if count > 0.0 { beside(reward, cost, kept) + &several } else { "-".into() }
            });
            rows.push(line(name, cells, true));
        }
    }
    for (i, name) in ["best of theirs within the limit", "best of ours"].into_iter().enumerate() {
        let told = |best: &Option<(f64, String)>| match best {
            Some((reward, name)) => format!("{} ({name})", short(*reward)),
            None => "-".into(),
        };
        rows.push(line(name.into(), std::array::from_fn(|task| told(&best[task][i])), i == 1));
    }
    rows
}

fn line(name: String, [a, b, c, d, e]: [String; 5], ours: bool) -> Line {
    Line { cells: [name, a, b, c, d, e], ours }
}

fn beside(reward: f64, cost: f64, kept: bool) -> String {
    format!("{} / {}{}", short(reward), short(cost), if kept { "" } else { ", broken" })
}

/// Takes the better one.
fn raise(best: &mut Option<(f64, String)>, reward: f64, kept: bool, name: &str) {
    if kept && best.as_ref().is_none_or(|(before, _)| reward > *before) {
        *best = Some((reward, name.to_owned()));
    }
}

/// Whether a run is finished and of what the figures are of.
fn comparable(run: &Run) -> bool {
    run.config.constraints == [CONSTRAINT]
        && run.state == RunState::Finished
        && TASKS.contains(&&run.config.task[..])
}

/// What a run came to: reward and cost with its mean action, with sampled ones, and whether both kept the
/// constraint.
struct Judged {
    mean: (f64, f64),
    sampled: (f64, f64),
    kept: bool,
}

/// By the best policy when it was tested again; of what knows nothing of constraints, by the last test.
fn judged(run: &Run) -> Option<Judged> {
    let free = FREE.contains(&&run.config.algorithm[..]);
    let (rewards, costs, kept) = match free {
        true => ([&LEARNER_REWARD, &SAMPLED_REWARD], [&LEARNER_COST, &SAMPLED_COST], &FEASIBLE),
        false => {
            ([&BEST_REWARD, &BEST_SAMPLED_REWARD], [&BEST_COST, &BEST_SAMPLED_COST], &BEST_FEASIBLE)
        }
    };
    let record = run.generations.iter().rev().find(|record| record.get(rewards[0]).is_some())?;
    let face = |i: usize| Some((record.get(rewards[i])?, *record.get(costs[i])?.first()?));
    Some(Judged { mean: face(0)?, sampled: face(1)?, kept: record.get(kept)? })
}

/// A run of ours.
fn row(task: &str, [theirs, figures]: [&str; 2], run: &Run) -> Row {
    let judged = judged(run);
    let face = |face: fn(&Judged) -> (f64, f64)| {
        let text = |(reward, cost)| format!("{} / {}", short(reward), short(cost));
        judged.as_ref().map(face).map_or("-".into(), text)
    };
    let (mean, sampled) = (face(|judged| judged.mean), face(|judged| judged.sampled));
    let feasible = judged.as_ref().map(|judged| judged.kept);
    let seconds = run.generations.iter().rev().find_map(|record| record.get(&SECONDS));
    let kept = feasible.map_or("-", |kept| if kept { "yes" } else { "no" });
    let cells = [
        task.to_owned(),
        theirs.to_owned(),
        figures.to_owned(),
        format!("{}, seed {}", run.kind, run.config.seed),
        mean,
        sampled,
        kept.to_owned(),
        short(run.config.steps as f64),
        seconds.map_or("-".into(), |seconds| format!("{:.0}", seconds / 60.0)),
    ];
    Row { cells, feasible }
}

/// What a reader must know of it.
pub const NOTE: &str = "Reward / cost under velocity<=25. Published: OmniSafe's benchmark pages, mean over seeds after \
    1e7 steps (SAC and TD3: 1e6). Ours: the best policy of each finished run, tested again on fresh starts, with \
    its mean action (and in the table of every run with sampled ones), or the last where an algorithm knows nothing of \
    constraints (ppo, trpo, sac, td3); broken means that either face broke the \
    constraint. Minutes are those of the run, beside whatever else its machine did.";

/// Both in Markdown.
pub fn markdown(overview: &[Line], rows: &[Row]) -> String {
    let text = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head =
        |head: &[&str]| format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    let mut md = head(&OVERVIEW_HEAD);
    md.extend(overview.iter().map(|line| text(&line.cells)));
    let _ = write!(md, "\n{NOTE}\n\nEvery run:\n\n{}", head(&HEAD));
    md.extend(rows.iter().map(|row| text(&row.cells)));
    md
}
