//! `ecrl bench`.

use std::io::Write;
use std::time::Duration;

use benches::tasks::Bench;
use clap::{Args, Subcommand};
use robots::{AnyTask, TASKS};
use serde_json::json;

use crate::failure::Failure;
use crate::threads;

#[derive(Subcommand)]
pub enum BenchCommand {
    /// Environment steps a second for each task, with random actions
    Tasks(BenchTasks),
    /// Milliseconds of one gradient update, and the share of the machine's peak it reaches
    Update(BenchUpdate),
    /// PPO on hopper: steps played a second, beside the robot alone, and milliseconds of one minibatch
    Ppo(BenchPpo),
    /// Evolution strategies: how busy threads are, and what a generation takes beside its episodes
    Es(BenchEs),
}

#[derive(Args)]
pub struct BenchTasks {
    /// The tasks: names, or files of your own [default: all that are built in]
    tasks: Vec<String>,
    /// Threads of the parallel measurement [default: all]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Milliseconds that each of a round's three measurements takes
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    milliseconds: u32,
    /// Rounds, of which the median is printed
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Print one JSON object: threads, rounds, and of each of tasks: task, one_thread, bare (mj_step alone),
    /// of_bare, all_threads, speedup
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct BenchUpdate {
    /// Threads [default: all]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Rounds, of which the median is printed
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Print one JSON object: threads, precision, ms_per_update, gflops, gemm_peak_gflops, ratio (of the
    /// two), speedup and gemm_peak_speedup (of these threads over one), action_us (a single action)
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct BenchPpo {
    /// Threads [default: all]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Rounds, of which the median is printed
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Print a JSON array with an object for each size of networks: hidden, threads, collect_steps_per_s (played),
    /// collect_of_task (over the robot alone), ms_per_minibatch, steps_per_s (played and learnt from)
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct BenchEs {
    /// The task: a name, or a file of your own
    #[arg(default_value = "half-cheetah")]
    task: String,
    /// Threads [default: all]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Rounds, of which the median is printed
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Print one JSON object: task, threads, episodes (of a generation), steps_per_s, busy (processor time over
    /// what as many threads had), strategy (perturbations and step over the whole)
    #[arg(long)]
    json: bool,
}

pub fn bench(command: BenchCommand, output: &mut impl Write) -> Result<(), Failure> {
    match command {
        BenchCommand::Tasks(args) => bench_tasks(args, output),
        BenchCommand::Update(args) => bench_update(args, output),
        BenchCommand::Ppo(args) => bench_ppo(args, output),
        BenchCommand::Es(args) => bench_es(args, output),
    }
}

fn bench_es(args: BenchEs, output: &mut impl Write) -> Result<(), Failure> {
    let task = AnyTask::find(&args.task)?;
    let report = benches::es::es(&task, threads(args.threads), args.rounds as usize)?;
    if args.json {
        writeln!(output, "{:#}", json!(report))?;
        return Ok(());
    }
    let words =
        format!("{}, {} threads, {} episodes", report.task, report.threads, report.episodes);
    writeln!(output, "{words}, with what one generation takes")?;
    writeln!(output, "  playing and learning {:>8.0} steps/s", report.steps_per_s)?;
    writeln!(output, "  threads busy         {:>8.1} %", 100.0 * report.busy)?;
    writeln!(output, "  perturbing and step  {:>8.2} %", 100.0 * report.strategy)?;
    Ok(())
}

fn bench_tasks(args: BenchTasks, output: &mut impl Write) -> Result<(), Failure> {
    let tasks = match args.tasks.is_empty() {
        true => TASKS.iter().map(AnyTask::BuiltIn).collect(),
        false => {
            args.tasks.iter().map(|task| AnyTask::find(task)).collect::<Result<Vec<_>, _>>()?
        }
    };
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
    for task in &tasks {
        output.flush()?;
        let row = bench.run(task)?;
        if !args.json {
            writeln!(
                output,
                "{:<14}{:>12.0}{:>14.0}{:>9.1}%{:>14.0}{:>9.2}x",
                task.name(),
                row.one_thread,
                row.bare,
                100.0 * row.of_bare,
                row.all_threads,
                row.speedup
            )?;
        }
        rows.push(json!({
            "task": task.name(),
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
    let report = benches::update::update(threads(args.threads), args.rounds as usize)
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
    if report.threads > 1 {
        writeln!(
            output,
            "over one thread  {:>8.2} x  (plain products: {:.2} x)",
            report.speedup, report.gemm_peak_speedup
        )?;
    }
    writeln!(output, "one action       {:>8.2} us", report.action_us)?;
    Ok(())
}

fn bench_ppo(args: BenchPpo, output: &mut impl Write) -> Result<(), Failure> {
    let reports = benches::ppo::ppo(threads(args.threads), args.rounds as usize)?;
    if args.json {
        writeln!(output, "{:#}", json!(reports))?;
        return Ok(());
    }
    for report in reports {
        let [first, second] = report.hidden;
        writeln!(output, "networks {first}-{second}, {} threads", report.threads)?;
        writeln!(output, "  playing        {:>8.0} steps/s", report.collect_steps_per_s)?;
        let share = 100.0 * report.collect_of_task;
        writeln!(output, "  of the robot's {share:>8.1} %  (alone, random actions)")?;
        writeln!(output, "  one minibatch  {:>8.3} ms", report.ms_per_minibatch)?;
        writeln!(output, "  all together   {:>8.0} steps/s", report.steps_per_s)?;
    }
    Ok(())
}
