//! `ecrl tasks`, `ecrl algorithms` and `ecrl replay`.

use std::io::Write;
use std::path::PathBuf;

use ecrl::algorithms::{self, ALGORITHMS};
use ecrl::config::Config;
use robots::{COSTS, MAX_STEPS, Replay, ReplayError, TASKS, Task};
use serde_json::json;

use crate::environment;
use crate::failure::Failure;

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

pub fn tasks(json: bool, output: &mut impl Write) -> Result<(), Failure> {
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
    Ok(())
}

pub fn algorithms(name: Option<&str>, output: &mut impl Write) -> Result<(), Failure> {
    let Some(name) = name else {
        for row in ALGORITHMS {
            writeln!(output, "{:<12}{}", row.name(), row.description())?;
        }
        return Ok(());
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

pub fn replay(task: &str, file: PathBuf, output: &mut impl Write) -> Result<(), Failure> {
    let task = Task::find(task)?;
    Replay::read(&file).and_then(|replay| replay.play(task, output)).map_err(|error| match error {
        ReplayError::Write(error) => error.into(),
        ReplayError::Robot(error) => error.into(),
        error => Failure::input(format!("{}: {error}", file.display())),
    })
}
