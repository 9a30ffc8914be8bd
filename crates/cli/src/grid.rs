//! `ecrl grid` and `ecrl paper`: many runs.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use report::curves::Band;
use report::paper::Sheet;
use report::{Report, ReportError};
use robots::TASKS;
use runs::experiment::{Experiment, JobState};
use runs::grid::{self, Grid, Seeds, Variant};
use runs::paper::Figure;
use runs::shell::{printable, quote};

use crate::environment;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::stop::Stop;
use crate::text::{self, count};
use crate::threads;

#[derive(Args)]
pub struct GridArgs {
    /// A TOML file that describes the grid: tasks, algorithms (as in "erl-shaped lambda=0.1"), seeds
    /// (a number or a list), and if need be steps, constraints and set
    file: PathBuf,
    #[command(flatten)]
    part: PartArgs,
    /// The folder of the runs [default: experiments/NAME, after the file]
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Args)]
pub struct PaperArgs {
    /// The paper's figure: its runs are made, and then its sheet
    #[arg(long, value_enum, default_value = "all")]
    figure: Which,
    #[command(flatten)]
    part: PartArgs,
    /// The folder of the runs
    #[arg(long, default_value = "experiments/paper")]
    out: PathBuf,
}

/// Which part of a grid, and how it is run.
#[derive(Args)]
struct PartArgs {
    /// Only these tasks [default: the grid's]
    #[arg(long, value_delimiter = ',')]
    tasks: Vec<String>,
    /// Only these algorithms, as in ecrl,erl,'erl-shaped lambda=0.1' [default: the grid's]
    #[arg(long)]
    algos: Vec<String>,
    /// Environment steps of each run, as in 200000, 50k or 1e6 [default: the grid's, or 1e6]
    #[arg(long)]
    steps: Option<String>,
    /// Seeds, from 0 on [default: the grid's; for the paper, 5]
    #[arg(long)]
    seeds: Option<u64>,
    /// Runs at the same time, each with its share of the threads [default: one for each thread]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Threads in all [default: all]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Set a value in all runs that have a use for it, as in batch=256
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Only every n-th run, beginning with the i-th: for n machines
    #[arg(long, value_name = "I/N")]
    shard: Option<String>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Which {
    Dilemma,
    Compare,
    Ablation,
    All,
}

pub fn grid(
    args: GridArgs,
    program: Vec<OsString>,
    output: &mut impl Write,
) -> Result<(), Failure> {
    let path = &args.file;
    let named =
        |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| named(&e))?;
    let grid = Grid::parse(&text).map_err(|e| named(&e))?;
    let out = args.out.unwrap_or_else(|| {
        Path::new("experiments").join(path.file_stem().unwrap_or(path.as_os_str()))
    });
    let ran = run(grid, &args.part, &out, program, output);
    if !wants_to_be_gone(&ran) {
        let out = printable(&quote(&out.display().to_string()));
        let program = text::program();
        // Nobody may read any more: that is no failure.
        let _ = writeln!(output, "next:\n  {program} report {out}    curves, table, statistics");
    }
    ran
}

/// Whether the user has stopped it, or it could not begin; a run that failed leaves others to look at.
fn wants_to_be_gone(ran: &Result<(), Failure>) -> bool {
    ran.as_ref().is_err_and(|failure| failure.code != Failure::run("").code)
}

pub fn paper(
    args: PaperArgs,
    program: Vec<OsString>,
    output: &mut impl Write,
) -> Result<(), Failure> {
    let figures = match args.figure {
        Which::Dilemma => vec![Figure::Dilemma],
        Which::Compare => vec![Figure::Compare],
        Which::Ablation => vec![Figure::Ablation],
        Which::All => Figure::ALL.to_vec(),
    };
    let variants = |figure: &Figure| figure.agents().into_iter().map(|agent| agent.variant);
    let grid = Grid {
        tasks: TASKS.iter().map(|task| task.name.to_owned()).collect(),
        algorithms: figures.iter().flat_map(variants).collect(),
        seeds: Seeds::Count(5),
        steps: None,
        constraints: None,
        set: Vec::new(),
    };
    let ran = run(grid.clone(), &args.part, &args.out, program, output);
    if wants_to_be_gone(&ran) {
        return ran;
    }
    let sheets = sheets(grid, &args, &figures, output);
    ran.and(sheets)
}

/// Draws figures from the runs there are, beside the report of all.
fn sheets(
    mut grid: Grid,
    args: &PaperArgs,
    figures: &[Figure],
    output: &mut impl Write,
) -> Result<(), Failure> {
    let report = match Report::new(std::slice::from_ref(&args.out), Band::Bootstrap) {
        Err(ReportError::NoRuns(_)) => return Ok(()),
        report => report?,
    };
    report.write(&args.out.join("report"))?;
    grid.set.clone_from(&args.part.set);
    let mut text = String::new();
    for figure in figures {
        let agents = figure.agents().into_iter();
        let labels: Result<Vec<String>, _> =
            agents.map(|agent| grid.label(&agent.variant)).collect();
        let sheet = Sheet::new(&report, *figure, &labels?);
        sheet.write(&args.out)?;
        let [agree, disagree, open] = sheet.counts();
        let path = args.out.join(figure.name());
        text += &format!(
            "{}.html: agrees with the paper in {agree}, disagrees in {disagree}, open {open}\n",
            printable(&path.display().to_string())
        );
    }
    let page = args.out.join("report/index.html").display().to_string();
    text += &format!("{}: all of the runs\n", printable(&page));
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    Ok(())
}

fn run(
    mut grid: Grid,
    part: &PartArgs,
    out: &Path,
    program: Vec<OsString>,
    output: &mut impl Write,
) -> Result<(), Failure> {
    if !part.tasks.is_empty() {
        grid.tasks.clone_from(&part.tasks);
    }
    if !part.algos.is_empty() {
        let texts = part.algos.iter().flat_map(|text| split(text));
        let variants: Result<Vec<Variant>, String> = texts.map(str::parse).collect();
        grid.algorithms = variants.map_err(Failure::input)?;
    }
    grid.set.extend(part.set.iter().cloned());
    if let Some(steps) = &part.steps {
        grid.steps = Some(count(steps)? as f64);
    }
    if let Some(seeds) = part.seeds {
        grid.seeds = Seeds::Count(seeds);
    }
    let mut jobs = grid.jobs(&environment::Robots)?;
    if let Some(shard) = &part.shard {
        jobs = grid::shard(jobs, shard)?;
    }
    let threads = threads(part.threads);
    let slots = part.jobs.map_or(threads, usize::from);
    let stop = Stop::install()?;
    let io = |error| Failure::input(format!("{}: {error}", out.display()));
    let mut experiment = Experiment::new(jobs, out, program, slots, threads).map_err(io)?;
    let mut screen = Screen::new(&experiment, stop.clone(), output);
    let ran = experiment.run(&mut screen);
    screen.close(&experiment);
    ran.map_err(io)?;
    close(&experiment, &stop, output)
}

/// Parts between commas, but for those within brackets.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0i32;
    text.split(|c: char| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    })
    .collect()
}

fn close(experiment: &Experiment, stop: &Stop, output: &mut impl Write) -> Result<(), Failure> {
    let out = printable(&experiment.out().display().to_string());
    let done = experiment.count(|state| *state == JobState::Done);
    let mut text = format!("{done} of {} runs done in {out}\n", experiment.jobs.len());
    if stop.signal().is_some() {
        text += "the same command again goes on\n";
    }
    // Nobody may read any more: that is no failure.
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    if let Some(signal) = stop.signal() {
        return Err(Failure::stopped(signal));
    }
    let count = experiment.count(|s| matches!(s, JobState::Failed(_)));
    match experiment.first_failure() {
        None => Ok(()),
        Some((name, reason)) => {
            Err(Failure::run(format!("{count} failed, the first: {name}: {reason}")))
        }
    }
}
