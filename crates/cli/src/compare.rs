//! `ecrl compare`: two runs, what differs in their values and results.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use report::axis::short;
use report::line::Line;
use report::runs::{Face, Metric, Run, Subject};
use runs::shell::printable;

use crate::failure::Failure;
use crate::list::pair;
use crate::plot::plot;
use crate::standing::columns;
use crate::text::duration;

/// Columns and rows of a small drawing.
const SIZE: (usize, usize) = (64, 10);

#[derive(Args)]
pub struct CompareArgs {
    /// A run directory
    a: PathBuf,
    /// Another
    b: PathBuf,
}

pub fn compare(args: CompareArgs, output: &mut impl Write) -> Result<(), Failure> {
    let load = |path: &PathBuf| -> Result<Run, Failure> {
        let (mut runs, _) = report::runs::load(std::slice::from_ref(path))?;
        match runs.len() {
            1 => Ok(runs.remove(0)),
            n => {
                let path = path.display();
                Err(Failure::input(format!("{path} holds {n} runs; expected one run directory")))
            }
        }
    };
    let runs = [load(&args.a)?, load(&args.b)?];
    let mut rows = vec![vec![String::new(), "a".into(), "b".into()]];
    let mut row = |name: &str, cells: [String; 2]| {
        rows.push(
            [name.to_owned()].into_iter().chain(cells.map(|cell| printable(&cell))).collect(),
        );
    };
    row("run", runs.each_ref().map(|run| run.path.display().to_string()));
    let different = runs[0].config.compare(&runs[1].config);
    for (key, a, b) in &different {
        row(key, [a.clone(), b.clone()]);
    }
    let lines = runs.each_ref().map(Line::of);
    row("state", lines.each_ref().map(|line| line.state.to_owned()));
    row("steps taken", lines.each_ref().map(|line| short(line.steps as f64)));
    let seconds = |run: &Run| run.generations.last().and_then(|g| g.get(&ecrl::metrics::SECONDS));
    row("time", runs.each_ref().map(|run| seconds(run).map_or("-".into(), duration)));
    for (metric, name) in metrics(&runs) {
        let last = |run: &Run| {
            let [mean, sampled] = Face::ALL.map(|face| run.last(face, metric));
            mean.zip(sampled).map_or("-".into(), |(mean, sampled)| pair([mean, sampled]))
        };
        row(&format!("last {name}"), runs.each_ref().map(last));
    }
    let best = |line: &Line| match (line.policy, line.reward) {
        ("best", Some(reward)) => {
            let kept = line.costs.iter().all(|(_, _, kept)| *kept);
            format!("{}, {}", pair(reward), if kept { "feasible" } else { "not feasible" })
        }
        _ => "-".into(),
    };
    row("best return", lines.each_ref().map(best));
    for line in columns(&rows) {
        writeln!(output, "{line}")?;
    }
    match different.is_empty() {
        true => writeln!(output, "all values are the same")?,
        false => writeln!(output, "all other values are the same")?,
    }
    writeln!(output, "(mean action / sampled actions)")?;
    for (metric, name) in metrics(&runs) {
        let curves = runs.each_ref().map(|run| run.tests(Subject::Learner, Face::Mean, metric));
        let bound = match metric {
            Metric::Reward => None,
            Metric::Cost(i) => Some(runs[0].constraints[i].threshold),
        };
        let drawn = plot(curves.each_ref().map(Vec::as_slice), bound, SIZE);
        if !drawn.is_empty() {
            writeln!(output, "\nlearner's {name}, mean action")?;
        }
        for line in drawn {
            writeln!(output, "{line}")?;
        }
    }
    Ok(())
}

/// What both runs measure, and its name.
fn metrics(runs: &[Run; 2]) -> Vec<(Metric, String)> {
    let mut all = vec![(Metric::Reward, "return".to_owned())];
    let [a, b] = runs.each_ref().map(|run| &run.constraints);
    // By place: where constraints differ, only the first of the same cost are comparable.
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        if (&a.name, a.aggregate) == (&b.name, b.aggregate) {
            all.push((Metric::Cost(i), printable(&format!("{} {}", a.aggregate.name(), a.name))));
        }
    }
    all
}
