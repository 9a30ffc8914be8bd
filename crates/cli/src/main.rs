//! The `ecrl` command: reads what was typed, calls the libraries, prints.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use robots::{Bench, COSTS, MAX_STEPS, Replay, ReplayError, RobotError, TASKS, Task, UnknownTask};
use serde_json::json;

/// Trains robot policies that earn reward and keep their constraints.
#[derive(Parser)]
#[command(name = "ecrl", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the tasks: sizes, time limit, costs with their usual thresholds
    Tasks {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Play recorded actions again and print every step as a line of JSON
    ///
    /// The file holds one JSON object:
    /// {"qpos": [...], "qvel": [...], "actions": [[...], ...], "constraints": ["torque<=0.4"]}
    ///
    /// The first line printed is the first observation, then one line for each action, past
    /// termination too. Without "constraints" the task's own, torque<=0.4, is measured.
    #[command(verbatim_doc_comment)]
    Replay {
        /// The task, as listed by `ecrl tasks`
        task: String,
        /// The JSON file
        file: PathBuf,
    },
    /// Measure the speed of this machine
    Bench {
        #[command(subcommand)]
        what: BenchCommand,
    },
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Environment steps a second for each task, with random actions
    Tasks(BenchTasks),
    /// Milliseconds of one gradient update, and the share of the machine's peak it reaches
    Update(BenchUpdate),
}

#[derive(Args)]
struct BenchTasks {
    /// Threads of the parallel measurement [default: all]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Milliseconds that each of a round's three measurements takes
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    milliseconds: u32,
    /// Rounds, of which the median is printed
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct BenchUpdate {
    /// Threads [default: all]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Rounds, of which the median is printed
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Why the command failed: one line for the user, and an exit code.
struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// What the user gave cannot be used.
    fn input(message: impl ToString) -> Self {
        Self { message: message.to_string(), code: 2 }
    }

    /// The input was fine, and yet it did not work.
    fn run(message: impl ToString) -> Self {
        Self { message: message.to_string(), code: 1 }
    }
}

impl From<UnknownTask> for Failure {
    fn from(error: UnknownTask) -> Self {
        Self::input(error)
    }
}

impl From<RobotError> for Failure {
    fn from(error: RobotError) -> Self {
        match error {
            RobotError::Constraint(_) => Self::input(error),
            RobotError::Engine(_) => Self::run(error),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Whoever read our output has seen enough: nothing failed.
            io::ErrorKind::BrokenPipe => Self { message: String::new(), code: 0 },
            _ => Self::run(format!("cannot write the output: {error}")),
        }
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { message, code }) => {
            if !message.is_empty() {
                eprintln!("error: {message}");
            }
            ExitCode::from(code)
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    let mut output = BufWriter::new(io::stdout().lock());
    match command {
        Command::Tasks { json } => tasks(json, &mut output)?,
        Command::Replay { task, file } => replay(&task, file, &mut output)?,
        Command::Bench { what: BenchCommand::Tasks(args) } => bench_tasks(args, &mut output)?,
        Command::Bench { what: BenchCommand::Update(args) } => bench_update(args, &mut output)?,
    }
    Ok(output.flush()?)
}

fn tasks(json: bool, output: &mut impl Write) -> Result<(), Failure> {
    if json {
        let tasks: Vec<_> = TASKS
            .iter()
            .map(|task| {
                let costs: Vec<_> = COSTS
                    .iter()
                    .map(|cost| {
                        json!({
                            "name": cost.name,
                            "aggregate": cost.aggregate.name(),
                            "threshold": cost.threshold,
                            "description": cost.description,
                        })
                    })
                    .collect();
                json!({
                    "name": task.name,
                    "description": task.description,
                    "observation": task.observation,
                    "action": task.action,
                    "steps": MAX_STEPS,
                    "speed_limit": task.speed_limit,
                    "costs": costs,
                })
            })
            .collect();
        writeln!(output, "{:#}", json!(tasks))?;
        return Ok(());
    }
    writeln!(output, "{:<14}obs  act  steps  speed limit  description", "task")?;
    for task in &TASKS {
        let Task { name, observation, action, speed_limit, description, .. } = task;
        writeln!(
            output,
            "{name:<14}{observation:>3}  {action:>3}  {MAX_STEPS:>5}  {speed_limit:>7} m/s  \
             {description}"
        )?;
    }
    writeln!(output, "\nEvery task measures these costs, each shown in its usual constraint:")?;
    for cost in COSTS {
        let constraint = format!("{}<={}", cost.name, cost.threshold);
        let aggregate = cost.aggregate.name();
        writeln!(output, "{constraint:<14}{aggregate} over an episode of: {}", cost.description)?;
    }
    Ok(())
}

fn replay(task: &str, file: PathBuf, output: &mut impl Write) -> Result<(), Failure> {
    let task = Task::find(task)?;
    Replay::read(&file).and_then(|replay| replay.play(task, output)).map_err(|error| match error {
        ReplayError::Write(error) => error.into(),
        ReplayError::Robot(error) => error.into(),
        error => Failure::input(format!("{}: {error}", file.display())),
    })
}

/// The number of threads asked for, or all there are.
fn threads(asked: Option<u16>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.map_or_else(all, usize::from)
}

fn bench_tasks(args: BenchTasks, output: &mut impl Write) -> Result<(), Failure> {
    let threads = threads(args.threads);
    let bench = Bench {
        threads,
        duration: Duration::from_millis(args.milliseconds.into()),
        rounds: args.rounds as usize,
    };
    let mut rows = Vec::new();
    if !args.json {
        writeln!(
            output,
            "{:<14}{:>12}{:>14}{:>10}{:>14}{:>10}",
            "steps/s",
            "1 thread",
            "bare mj_step",
            "of bare",
            format!("{threads} threads"),
            "speed-up"
        )?;
    }
    for task in &TASKS {
        output.flush()?;
        let row = bench.run(task)?;
        if !args.json {
            writeln!(
                output,
                "{:<14}{:>12.0}{:>14.0}{:>9.1}%{:>14.0}{:>9.2}x",
                task.name,
                row.one_thread,
                row.bare,
                100.0 * row.of_bare,
                row.all_threads,
                row.speedup
            )?;
        }
        rows.push(json!({
            "task": task.name,
            "one_thread": row.one_thread,
            "bare": row.bare,
            "of_bare": row.of_bare,
            "all_threads": row.all_threads,
            "speedup": row.speedup,
        }));
    }
    if args.json {
        let report = json!({"threads": threads, "rounds": bench.rounds, "tasks": rows});
        writeln!(output, "{report:#}")?;
    }
    Ok(())
}

fn bench_update(args: BenchUpdate, output: &mut impl Write) -> Result<(), Failure> {
    let report = ecrl::bench::update(threads(args.threads), args.rounds as usize)
        .map_err(|error| Failure::run(format!("cannot start threads: {error}")))?;
    if args.json {
        writeln!(output, "{:#}", json!(report))?;
        return Ok(());
    }
    writeln!(output, "threads          {:>8}", report.threads)?;
    writeln!(output, "one update       {:>8.2} ms", report.ms_per_update)?;
    writeln!(output, "achieved         {:>8.1} GFLOPS", report.gflops)?;
    writeln!(output, "GEMM peak        {:>8.1} GFLOPS", report.gemm_peak_gflops)?;
    writeln!(output, "achieved of peak {:>8.1} %", 100.0 * report.ratio)?;
    writeln!(output, "one action       {:>8.2} us", report.action_us)?;
    Ok(())
}
