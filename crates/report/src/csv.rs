//! The numbers behind the figures, for other programs.

use std::fmt::Write as _;

use ecrl::metrics::{self, About, Kind, Value};

use crate::curves::{Panel, Row};
use crate::runs::Run;
use crate::stats::Estimate;

/// Every curve, point by point.
pub fn curves(panels: &[Panel]) -> String {
    let mut csv =
        String::from("task,metric,threshold,algorithm,face,env_steps,mean,low,high,seeds\n");
    for panel in panels {
        let threshold = panel.threshold.map(|t| t.to_string()).unwrap_or_default();
        for series in &panel.series {
            for p in &series.points {
                let (task, label) = (quoted(&panel.task), quoted(&series.label));
                let face = series.face.name();
                let _ = writeln!(
                    csv,
                    "{task},{},{threshold},{label},{face},{:.0},{},{},{},{}",
                    panel.metric, p.step, p.mean, p.low, p.high, p.n
                );
            }
        }
    }
    csv
}

/// The table, with a line for each constraint.
pub fn table(rows: &[Row]) -> String {
    let mut csv = String::from(
        "task,algorithm,seeds,unfinished,reward,reward_low,reward_high,sampled_reward,\
         sampled_reward_low,sampled_reward_high,constraint,cost,cost_low,cost_high,sampled_cost,\
         sampled_cost_low,sampled_cost_high,feasible_share,best_feasible_reward,seeds_with_feasible,\
         excess\n",
    );
    let number = |x: Option<f64>| x.map(|x| x.to_string()).unwrap_or_default();
    let three = |e: Option<Estimate>| {
        [e.map(|e| e.value), e.map(|e| e.low), e.map(|e| e.high)].map(number).join(",")
    };
    for row in rows {
        // A line for each constraint, or one without.
        for i in 0..row.excess.len().max(1) {
            let cost = |face: usize| three(row.cost[face].get(i).copied().flatten());
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{},{},{},{},{},{},{},{}",
                quoted(&row.task),
                quoted(&row.algorithm),
                row.seeds,
                row.unfinished,
                three(row.reward[0]),
                three(row.reward[1]),
                i,
                cost(0),
                cost(1),
                number(row.feasible),
                number(row.best_feasible),
                row.with_feasible,
                number(row.excess.get(i).copied().flatten())
            );
        }
    }
    csv
}

/// Every metric of every generation of every run: a line for each, a column for each metric, and for
/// one with a number for each constraint, so many.
pub fn metrics(runs: &[Run]) -> String {
    let recorded = |about: &&About| {
        let has = |run: &Run| run.generations.iter().any(|g| g.value(about.name).is_some());
        runs.iter().any(has)
    };
    let most = runs.iter().map(|run| run.constraints.len()).max().unwrap_or(0);
    let columns: Vec<&About> = metrics::all().into_iter().filter(recorded).collect();
    let width = |about: &About| if about.kind == Kind::Numbers { most } else { 1 };
    let mut csv = String::from("run,task,algorithm,seed");
    for about in &columns {
        match about.kind {
            Kind::Numbers => (0..most).for_each(|i| _ = write!(csv, ",{}_{i}", about.name)),
            _ => _ = write!(csv, ",{}", about.name),
        }
    }
    csv.push('\n');
    for run in runs {
        let path = run.path.display().to_string();
        let (task, label) = (quoted(&run.config.task), quoted(&run.label));
        let start = format!("{},{task},{label},{}", quoted(&path), run.config.seed);
        for generation in &run.generations {
            csv += &start;
            for about in &columns {
                let before = csv.len();
                match generation.value(about.name) {
                    None => {}
                    Some(Value::Count(count)) => _ = write!(csv, ",{count}"),
                    Some(Value::Number(number)) => _ = write!(csv, ",{number}"),
                    Some(Value::Flag(flag)) => _ = write!(csv, ",{flag}"),
                    Some(Value::Text(text)) => _ = write!(csv, ",{}", quoted(text)),
                    Some(Value::Numbers(all)) => {
                        all.iter().take(most).for_each(|number| _ = write!(csv, ",{number}"));
                    }
                }
                let commas = csv[before..].matches(',').count().min(width(about));
                csv.extend(std::iter::repeat_n(',', width(about) - commas));
            }
            csv.push('\n');
        }
    }
    csv
}

/// A field of a CSV file.
fn quoted(text: &str) -> String {
    if text.contains([',', '"']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}
