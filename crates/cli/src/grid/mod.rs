//! `ecrl grid` and `ecrl paper`: many runs, here or on a cluster.

mod one;
mod standing;
mod submit;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use report::curves::Band;
use report::paper::Sheet;
use report::{Report, ReportError};
use robots::{TASKS, own};
use runs::experiment::call::{Asked, Call};
use runs::experiment::launch::Engine;
use runs::experiment::slurm::Slurm;
use runs::experiment::{self, Experiment, State};
use runs::grid::{self, Grid, Job, Seeds, Variant};
use runs::lock::Lock;
use runs::paper::Figure;
use runs::shell::{printable, quote};

use self::submit::EngineArgs;
use crate::environment::Robots;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::stop::Stop;
use crate::text::{self, count};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct GridArgs {
    #[command(subcommand)]
    what: Option<What>,
    /// A TOML file that describes the grid: tasks, algorithms (as in "erl-shaped lambda=0.1"), seeds
    /// (a number or a list), and if need be steps, constraints and set
    #[arg(required = true)]
    file: Option<PathBuf>,
    #[command(flatten)]
    part: PartArgs,
    /// The folder of the runs [default: experiments/NAME, after the file]
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Subcommand)]
enum What {
    /// Make one run of a grid, or go on with it: what every engine has done for each
    Run(one::RunArgs),
    /// Tell how the runs of a folder stand, whoever makes them
    Status(standing::StatusArgs),
    /// End what is under way or waits in a queue; all of it can go on later
    Cancel(standing::CancelArgs),
    /// Make those runs again that have failed, as they were asked for
    Retry(standing::RetryArgs),
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

/// Which runs of a grid.
#[derive(Args)]
struct Selection {
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
    /// Set a value in all runs that have a use for it, as in batch=256
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// Which part of a grid, and how it is run.
#[derive(Args)]
struct PartArgs {
    #[command(flatten)]
    selection: Selection,
    /// Only every n-th run, beginning with the i-th: for n machines
    #[arg(long, value_name = "I/N")]
    shard: Option<String>,
    #[command(flatten)]
    engine: EngineArgs,
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
    match args.what {
        Some(What::Run(args)) => return one::run(args, output),
        Some(What::Status(args)) => return standing::status(&args, output),
        Some(What::Cancel(args)) => return standing::cancel(&args, output),
        Some(What::Retry(args)) => return standing::retry(&args, program, output),
        None => {}
    }
    let path = args.file.unwrap_or_default();
    let grid = read(&path)?;
    let out = args.out.unwrap_or_else(|| usual_out(&path));
    let ran = run(grid, &args.part, &out, program, output);
    if args.part.engine.on.waits() && !wants_to_be_gone(&ran) {
        let out = printable(&quote(&out.display().to_string()));
        let program = text::program();
        // Nobody may read any more: that is no failure.
        let _ = writeln!(output, "next:\n  {program} report {out}    curves, table, statistics");
    }
    ran
}

/// Reads a grid's file.
fn read(path: &Path) -> Result<Grid, Failure> {
    let named =
        |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| named(&e))?;
    Grid::parse(&text).map_err(|e| named(&e))
}

/// Where the runs of a file's grid go.
fn usual_out(file: &Path) -> PathBuf {
    Path::new("experiments").join(file.file_stem().unwrap_or(file.as_os_str()))
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
    if wants_to_be_gone(&ran) || !args.part.engine.on.waits() {
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
    grid.set.clone_from(&args.part.selection.set);
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

impl Selection {
    /// That part of a grid, with these values.
    fn of(&self, mut grid: Grid) -> Result<Grid, Failure> {
        if !self.tasks.is_empty() {
            grid.tasks.clone_from(&self.tasks);
        }
        if !self.algos.is_empty() {
            let texts = self.algos.iter().flat_map(|text| split(text));
            let variants: Result<Vec<Variant>, String> = texts.map(str::parse).collect();
            grid.algorithms = variants.map_err(Failure::input)?;
        }
        grid.set.extend(self.set.iter().cloned());
        if let Some(steps) = &self.steps {
            grid.steps = Some(count(steps)? as f64);
        }
        if let Some(seeds) = self.seeds {
            grid.seeds = Seeds::Count(seeds);
        }
        Ok(grid)
    }
}

/// Makes the runs here and waits for them, or hands them to an engine.
fn run(
    grid: Grid,
    part: &PartArgs,
    out: &Path,
    program: Vec<OsString>,
    output: &mut impl Write,
) -> Result<(), Failure> {
    let mut grid = part.selection.of(grid)?;
    // What is kept of it is read from elsewhere.
    for task in grid.tasks.iter_mut().filter(|task| own::is_file(task)) {
        let path = std::path::absolute(&*task).map_err(Failure::input)?;
        *task = path
            .to_str()
            .ok_or_else(|| Failure::input("a task's file has a name that is not UTF-8"))?
            .into();
    }
    let jobs = grid.jobs(&Robots::default())?;
    let mut runs: Vec<usize> = (0..jobs.len()).collect();
    if let Some(shard) = &part.shard {
        runs = grid::shard(runs, shard)?;
    }
    let asked = part.engine.asked(runs)?;
    begin(out, grid, &jobs, asked, program, part.engine.dry_run, output)
}

/// Makes runs of a grid and waits for them, or hands them to an engine that needs no waiting for.
fn begin(
    out: &Path,
    grid: Grid,
    jobs: &[Job],
    asked: Asked,
    program: Vec<OsString>,
    dry: bool,
    output: &mut impl Write,
) -> Result<(), Failure> {
    if asked.engine == Engine::Slurm {
        return submit::submit(out, grid, jobs, asked, Slurm::new(program), dry, output);
    }
    let launcher = asked.engine.launcher(program);
    let (call, lock) = Call::begin(out, grid, asked)?;
    wait(Experiment::new(call, jobs, launcher), &lock, out, output)
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

/// Makes runs as long as this process lives, which a lock on their call tells others.
fn wait(
    mut experiment: Experiment,
    _: &Lock,
    out: &Path,
    output: &mut impl Write,
) -> Result<(), Failure> {
    let stop = Stop::install()?;
    let mut screen = Screen::new(&experiment, out, stop.clone(), output);
    let ran = experiment.run(&mut screen);
    screen.close(&experiment);
    ran?;
    let out = printable(&out.display().to_string());
    let done = experiment::count(&experiment.entries, |state| *state == State::Done);
    let mut text = format!("{done} of {} runs done in {out}\n", experiment.entries.len());
    if stop.signal().is_some() {
        text += "the same command again goes on\n";
    }
    // Nobody may read any more: that is no failure.
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    if let Some(signal) = stop.signal() {
        return Err(Failure::stopped(signal));
    }
    let failed = experiment::count(&experiment.entries, |state| matches!(state, State::Failed(_)));
    match experiment.first_failure() {
        None => Ok(()),
        Some((name, reason)) => {
            Err(Failure::run(format!("{failed} failed, the first: {name}: {reason}")))
        }
    }
}
