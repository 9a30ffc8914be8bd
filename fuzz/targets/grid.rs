//! A grid file.
#![no_main]

use cmdp::Constraint;
use ecrl::config::Config;
use robots::{COSTS, Task};
use runs::grid::{self, Grid, Seeds, Tasks, USUAL};

struct Robots;

impl Tasks for Robots {
    fn resolve(&self, config: &mut Config) -> Result<(), String> {
        config.task = Task::find(&config.task).map_err(|e| e.to_string())?.name.into();
        if config.constraints == [USUAL] {
            config.constraints = vec!["mean(torque)<=0.4".into()];
        }
        Constraint::parse_all(&config.constraints, &COSTS).map_err(|e| e.to_string())?;
        Ok(())
    }
}

libfuzzer_sys::fuzz_target!(|text: &str| {
    let jobs = Grid::parse(text).and_then(|grid| {
        // As many as anybody has time for here.
        let seeds = if let Seeds::Count(count @ 100..=10_000) = grid.seeds { count } else { 1 };
        match grid.tasks.len() * grid.algorithms.len() * seeds as usize > 100 {
            true => Ok(Vec::new()),
            false => grid.jobs(&Robots),
        }
    });
    let Ok(jobs) = jobs else { return };
    for job in &jobs {
        assert!(!job.name.contains('/') && job.name != "..", "a folder of its own: {:?}", job.name);
    }
    let _ = grid::shard(jobs, "1/2");
});
