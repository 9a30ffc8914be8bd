//! `ecrl runs`: a table of runs.

use std::cmp::Ordering;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use report::axis::short;
use report::line::Line;
use runs::shell::printable;
use serde_json::json;

use crate::failure::Failure;
use crate::live;
use crate::standing::columns;
use crate::text::age;

#[derive(Args)]
pub struct RunsArgs {
    /// Folders that hold runs, at any depth [default: runs]
    folders: Vec<PathBuf>,
    /// The order of the rows
    #[arg(long, value_enum, default_value = "run")]
    sort: Sort,
    /// The other way round
    #[arg(long)]
    reverse: bool,
    /// Print a JSON array, an object for each run: run, task, algorithm (with the values that are not the
    /// usual ones), seed, steps, of (the steps asked for), policy (best or last, whose figures these are),
    /// reward and sampled_reward, constraints (each with constraint, mean, sampled, kept), state, reason
    /// (of a failure), seconds_ago
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Sort {
    Run,
    Task,
    Algorithm,
    /// The most first
    Steps,
    /// The most first, of those that keep every constraint
    Reward,
    State,
    /// The newest first
    Age,
}

/// The cells of a run's row, but for the constraints.
fn cells(line: &Line) -> Vec<String> {
    let steps = match line.steps >= line.of {
        true => short(line.steps as f64),
        false => format!("{} of {}", short(line.steps as f64), short(line.of as f64)),
    };
    let reward = match line.reward {
        None => "-".into(),
        Some(both) => pair(both) + if line.policy == "last" { " last" } else { "" },
    };
    let text = [&line.run, &line.task, &line.algorithm].map(|text| printable(text));
    [text.to_vec(), vec![steps, reward]].concat()
}

fn constraints(line: &Line) -> String {
    let one = |(name, values, kept): &(String, [f64; 2], bool)| {
        let word = if *kept { "kept" } else { "broken" };
        format!("{}: {} {word}", printable(name), pair(*values))
    };
    line.costs.iter().map(one).collect::<Vec<_>>().join("  ")
}

fn state(line: &Line) -> String {
    match &line.reason {
        None => line.state.into(),
        Some(reason) => format!("{}: {}", line.state, printable(reason)),
    }
}

/// With the mean action and with sampled ones.
pub fn pair([mean, sampled]: [f64; 2]) -> String {
    format!("{} / {}", short(mean), short(sampled))
}

pub fn runs(args: RunsArgs, output: &mut impl Write) -> Result<(), Failure> {
    let folders = match &args.folders[..] {
        [] => vec![PathBuf::from("runs")],
        folders => folders.to_vec(),
    };
    let (found, notes) = report::runs::load(&folders)?;
    let mut lines: Vec<Line> = found.iter().map(Line::of).collect();
    lines.sort_by(|a, b| order(args.sort, a, b).then_with(|| a.run.cmp(&b.run)));
    if args.reverse {
        lines.reverse();
    }
    if args.json {
        let all: Vec<_> = lines.iter().map(Line::json).collect();
        writeln!(output, "{:#}", json!(all))?;
        return Ok(());
    }
    shorten(&mut lines, &folders);
    for line in table(&lines, io::stdout().is_terminal().then(live::columns)) {
        writeln!(output, "{line}")?;
    }
    for note in notes {
        writeln!(output, "note: {}", printable(&note))?;
    }
    Ok(())
}

fn order(sort: Sort, a: &Line, b: &Line) -> Ordering {
    let reward = |line: &Line| line.reward.map_or(f64::NEG_INFINITY, |[mean, _]| mean);
    match sort {
        Sort::Run => Ordering::Equal,
        Sort::Task => (&a.task, &a.algorithm, a.seed).cmp(&(&b.task, &b.algorithm, b.seed)),
        Sort::Algorithm => (&a.algorithm, &a.task, a.seed).cmp(&(&b.algorithm, &b.task, b.seed)),
        Sort::Steps => b.steps.cmp(&a.steps),
        Sort::Reward => {
            b.is_feasible().cmp(&a.is_feasible()).then_with(|| reward(b).total_cmp(&reward(a)))
        }
        Sort::State => a.state.cmp(b.state),
        Sort::Age => a.seconds_ago.total_cmp(&b.seconds_ago),
    }
}

/// A run's name within the one folder there is.
fn shorten(lines: &mut [Line], folders: &[PathBuf]) {
    if let [folder] = folders {
        for line in lines {
            let within = Path::new(&line.run).strip_prefix(folder).ok().and_then(Path::to_str);
            if let Some(name) = within.filter(|name| !name.is_empty()) {
                line.run = name.to_owned();
            }
        }
    }
}

/// The table; where it is wider than so many columns, constraints have lines of their own, and what is
/// wider still is cut.
fn table(lines: &[Line], width: Option<usize>) -> Vec<String> {
    let head = ["run", "task", "algorithm", "steps", "return"].map(str::to_owned).to_vec();
    let whole = |line: &Line| {
        [cells(line), vec![constraints(line), state(line), age(line.seconds_ago)]].concat()
    };
    let names = ["constraints", "state", "age"].map(str::to_owned);
    let rows = [[head.clone(), names.to_vec()].concat()].into_iter().chain(lines.iter().map(whole));
    let all = columns(&rows.collect::<Vec<_>>());
    if width.is_none_or(|width| all.iter().all(|line| line.chars().count() <= width)) {
        return all;
    }
    // What tells most first: the rest is cut.
    let width = width.unwrap_or(usize::MAX);
    let order = |cells: Vec<String>| -> Vec<String> {
        [0, 3, 4, 5, 6, 1, 2].iter().map(|&i| cells[i].clone()).collect()
    };
    let head = [head, vec!["state".into(), "age".into()]].concat();
    let rows = lines
        .iter()
        .map(|line| order([cells(line), vec![state(line), age(line.seconds_ago)]].concat()));
    let rows = columns(&[order(head)].into_iter().chain(rows).collect::<Vec<_>>());
    let below = [String::new()].into_iter().chain(lines.iter().map(constraints));
    let both = rows.into_iter().zip(below).flat_map(|(row, below)| match below.is_empty() {
        true => vec![row],
        false => vec![row, format!("    {below}")],
    });
    both.map(|line| live::cut(&line, width)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(run: &str, reward: f64, sampled: f64) -> Line {
        Line {
            run: run.into(),
            task: "hopper".into(),
            algorithm: "ipo".into(),
            seed: 0,
            steps: 50_000,
            of: 1_000_000,
            policy: "best",
            reward: Some([reward, reward / 2.0]),
            costs: vec![("mean(torque)<=0.4".into(), [0.3, sampled], sampled <= 0.4)],
            state: "stopped",
            reason: None,
            seconds_ago: 7200.0,
        }
    }

    #[test]
    fn a_table_fits_its_terminal() {
        let lines = [line("a", 3418.3, 0.436), line("b", 12.0, 0.1)];
        let wide = table(&lines, None);
        let expected = "a    hopper  ipo        50k of 1M  3418 / 1709  mean(torque)<=0.4: 0.3 / 0.436 broken  stopped  2h";
        assert_eq!(wide[1], expected);
        let narrow = table(&lines, Some(80));
        assert_eq!(narrow.len(), 5);
        assert!(narrow.iter().all(|line| line.chars().count() <= 80), "{narrow:?}");
        assert_eq!(narrow[2], "    mean(torque)<=0.4: 0.3 / 0.436 broken");
    }

    #[test]
    fn the_most_rewarding_of_those_that_keep_their_constraints_comes_first() {
        let mut lines = [line("a", 3418.3, 0.436), line("b", 12.0, 0.1), line("c", 13.0, 0.1)];
        lines.sort_by(|a, b| order(Sort::Reward, a, b));
        assert_eq!(lines.each_ref().map(|line| &line.run[..]), ["c", "b", "a"]);
    }
}
