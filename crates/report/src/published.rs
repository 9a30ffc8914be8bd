//! Ours beside what others have published for the same tasks and constraint.
//!
//! Figures of OmniSafe's benchmark pages (github.com/PKU-Alignment/omnisafe, benchmarks/on-policy and
//! benchmarks/off-policy; Safety-Gymnasium's velocity tasks, v1, limit 25): mean reward and cost over seeds of the
//! last episodes, after 1e7 steps on-policy and 1e6 off-policy.

use std::fmt::Write as _;

use ecrl::metrics::{
    BEST_COST, BEST_FEASIBLE, BEST_REWARD, BEST_SAMPLED_COST, BEST_SAMPLED_REWARD, SECONDS,
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
    ("CUP", "", [(3216., 18.), (2851., 4.), (1716., 7.), (64., 22.), (2467., 7.)]),
    ("SACLag", "sac-lag", [(1897., 6.), (2834., 0.), (963., 20.), (11., 23.), (2676., 31.)]),
    ("SACPID", "sac-pid", [(1941., 14.), (2689., 21.), (813., 92.), (8., 8.), (1252., 41.)]),
    ("TD3Lag", "td3-lag", [(1944., 63.), (2741., 10.), (929., 41.), (16., 13.), (2996., 23.)]),
];

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

/// A row: its cells, and whether ours is feasible, if there is one.
pub struct Row {
    /// The cells, in the order of [`HEAD`].
    pub cells: [String; 9],
    /// Whether ours keeps the constraint both ways.
    pub feasible: Option<bool>,
}

/// Every published figure of a task that there are runs of, each with the finished runs of its algorithm, and
/// those of algorithms that have no figure here; nothing without such runs.
pub fn table(runs: &[Run]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, task) in TASKS.into_iter().enumerate() {
        let fits = |run: &&Run| {
            run.config.task == task
                && run.config.constraints == [CONSTRAINT]
                && run.state == RunState::Finished
        };
        let own: Vec<&Run> = runs.iter().filter(fits).collect();
        if own.is_empty() {
            continue;
        }
        let known = |name: &str| OMNISAFE.iter().any(|(_, ours, _)| *ours == name);
        for (theirs, ours, figures) in &OMNISAFE {
            let (reward, cost) = figures[at];
            let mark = if cost <= LIMIT { "" } else { ", broken" };
            let text = format!("{} / {}{mark}", short(reward), short(cost));
            let mut of = own.iter().filter(|run| run.config.algorithm == *ours).peekable();
            if of.peek().is_none() {
                let [task, theirs] = [task, theirs].map(|text| text.to_owned());
                let cells: [&str; 9] = [&task, &theirs, &text, "-", "-", "-", "-", "-", "-"];
                rows.push(Row { cells: cells.map(str::to_owned), feasible: None });
            }
            rows.extend(of.map(|run| row(task, [theirs, &text], run)));
        }
        let more = own.iter().filter(|run| !known(&run.config.algorithm));
        rows.extend(more.map(|run| row(task, ["-", "-"], run)));
    }
    rows
}

/// A run of ours, by the best policy that was tested again.
fn row(task: &str, [theirs, figures]: [&str; 2], run: &Run) -> Row {
    let last = run.generations.iter().rev();
    let best = last.clone().find(|record| record.get(&BEST_REWARD).is_some());
    let face = |reward: Option<f64>, cost: Option<Vec<f64>>| match (reward, cost.as_deref()) {
        (Some(reward), Some([cost])) => format!("{} / {}", short(reward), short(*cost)),
        _ => "-".into(),
    };
    let of = |best: &ecrl::metrics::Record| {
        let mean = face(best.get(&BEST_REWARD), best.get(&BEST_COST));
        (mean, face(best.get(&BEST_SAMPLED_REWARD), best.get(&BEST_SAMPLED_COST)))
    };
    let (mean, sampled) = best.map_or(("-".into(), "-".into()), of);
    let feasible = best.and_then(|best| best.get(&BEST_FEASIBLE));
    let seconds = last.clone().find_map(|record| record.get(&SECONDS));
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
pub const NOTE: &str = "Published: OmniSafe's benchmark pages, mean over seeds of reward and cost after 1e7 steps \
    (SAC and TD3: 1e6). Ours: the best policy of each finished run, tested again on fresh starts, with its mean \
    action and with sampled ones; feasible means both. Minutes are those of the run, beside whatever else its \
    machine did.";

/// The table in Markdown.
pub fn markdown(rows: &[Row]) -> String {
    let mut md = format!("| {} |\n|{}\n", HEAD.join(" | "), "---|".repeat(HEAD.len()));
    for row in rows {
        let _ = writeln!(md, "| {} |", row.cells.join(" | "));
    }
    let _ = write!(md, "\n{NOTE}\n");
    md
}
