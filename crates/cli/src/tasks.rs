//! `ecrl tasks`, `ecrl algorithms` and `ecrl replay`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ecrl::algorithms::{self, ALGORITHMS};
use ecrl::config::Config;
use ecrl::multipliers::Rule;
use ecrl::population::ranking::Ranking;
use robots::own::{self, OwnTask};
use robots::{AnyTask, COSTS, MAX_STEPS, Replay, ReplayError, TASKS, Task};
use runs::shell::{printable, quote};
use serde_json::json;

use crate::environment;
use crate::failure::Failure;
use crate::text;

/// The tasks, each as an object.
pub fn tasks_json() -> serde_json::Value {
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
    json!(tasks)
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TasksArgs {
    /// Print a JSON array, an object for each task: name, description, observation and action (how
    /// many numbers), steps (the time limit), speed_limit, costs (each with name, aggregate,
    /// threshold, description)
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<TasksCommand>,
}

#[derive(Subcommand)]
enum TasksCommand {
    /// Write a commented task file for a model, to begin with: MODEL.toml beside it
    New {
        /// A MuJoCo model: MJCF or URDF
        model: PathBuf,
        /// The file [default: beside the model]
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Play a task of your own at random: sizes, what its numbers are between, what its costs come to, how fast it is,
    /// and what may be amiss
    Check {
        /// The task's file
        file: String,
        /// Episodes
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        episodes: u32,
        /// The seed of starts and actions
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
}

pub fn tasks(args: TasksArgs, output: &mut impl Write) -> Result<(), Failure> {
    match args.command {
        None => list(args.json, output),
        Some(TasksCommand::New { model, out }) => begin(&model, out, output),
        Some(TasksCommand::Check { file, episodes, seed }) => {
            let task = OwnTask::read(file.as_ref())?;
            let checked = own::check(&task, episodes as usize, seed);
            let checked = checked.map_err(|error| Failure::run(format!("{file}: {error}")))?;
            Ok(write!(output, "{checked}")?)
        }
    }
}

/// Writes a task file for a model.
fn begin(model: &Path, out: Option<PathBuf>, output: &mut impl Write) -> Result<(), Failure> {
    let out = out.unwrap_or_else(|| model.with_extension("toml"));
    if out.extension().is_none_or(|end| end != "toml") {
        return Err(Failure::input(format!("--out is {}; expected a .toml file", out.display())));
    }
    let compiled = OwnTask::load(model).map_err(Failure::input)?;
    // As the file will name it.
    let folder = out.parent().unwrap_or(Path::new(""));
    let inside = model.strip_prefix(folder).ok().filter(|path| path.is_relative());
    let named = match inside {
        Some(path) => path.to_owned(),
        None => std::path::absolute(model).map_err(Failure::input)?,
    };
    let text = own::starter(&compiled, &named.display().to_string());
    let io = |error| Failure::input(format!("{}: {error}", out.display()));
    let mut file = File::create_new(&out).map_err(io)?;
    file.write_all(text.as_bytes()).map_err(io)?;
    let (out, program) = (printable(&quote(&out.display().to_string())), text::program());
    writeln!(output, "wrote {out}\nnext:\n  {program} tasks check {out}    what it is like")?;
    Ok(writeln!(output, "  {program} train {out} --algo ppo-lag --steps 500k")?)
}

fn list(json: bool, output: &mut impl Write) -> Result<(), Failure> {
    if json {
        writeln!(output, "{:#}", tasks_json())?;
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
    let program = text::program();
    writeln!(
        output,
        "\nA robot of your own: {program} tasks new MODEL.xml, then its file wherever a task is named"
    )?;
    Ok(())
}

pub fn algorithms(name: Option<&str>, output: &mut impl Write) -> Result<(), Failure> {
    let Some(name) = name else {
        for row in ALGORITHMS {
            writeln!(output, "{:<12}{}", row.name(), row.description())?;
        }
        return combinations(output);
    };
    let row = algorithms::find(name)?;
    writeln!(output, "{name}: {}", row.description())?;
    if !row.presets().is_empty() {
        writeln!(output, "\npresets (--preset)")?;
    }
    for preset in row.presets() {
        writeln!(output, "  {:<12}{}", preset.name, preset.help)?;
    }
    let mut config = Config::new(name)?;
    (config.task, config.constraints) = ("TASK".into(), environment::usual_constraints());
    writeln!(output, "\nvalues (--set, or a file for --config)")?;
    for line in config.to_toml().lines().filter(|line| !line.starts_with("format")) {
        writeln!(output, "  {line}")?;
    }
    writeln!(output, "\nmetrics, beside those of every run (docs/metrics.md)")?;
    for about in row.metrics() {
        writeln!(output, "  {:<24}{}", about.name, about.help)?;
    }
    Ok(())
}

/// Which combinations of a ranking and a rule of multipliers have a name: the others are made with two values.
fn combinations(output: &mut impl Write) -> Result<(), Failure> {
    writeln!(output, "\ncombinations that have a name")?;
    writeln!(output, "  {:<12}{:<19}multipliers by", "", "ranked by")?;
    for row in ALGORITHMS {
        let defaults = row.defaults();
        let value = |key: &str| {
            let sections = defaults.values().filter_map(|section| section.get(key));
            sections.filter_map(|value| value.as_str()).next().map(str::to_owned)
        };
        if let Some((ranking, rule)) = value("ranking").zip(value("rule")) {
            writeln!(output, "  {:<12}{ranking:<19}{rule}", row.name())?;
        }
    }
    writeln!(
        output,
        "others by --set ranking=... ({}) and --set rule=... ({})",
        Ranking::NAMES.join(", "),
        Rule::NAMES.join(", ")
    )?;
    Ok(())
}

pub fn replay(task: &str, file: PathBuf, output: &mut impl Write) -> Result<(), Failure> {
    let task = AnyTask::find(task)?;
    Replay::read(&file).and_then(|replay| replay.play(&task, output)).map_err(|error| match error {
        ReplayError::Write(error) => error.into(),
        ReplayError::Robot(error) => error.into(),
        error => Failure::input(format!("{}: {error}", file.display())),
    })
}
