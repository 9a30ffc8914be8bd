//! The robots as environments for a configuration.

use std::path::Path;

use cmdp::{Constraint, Env};
use ecrl::config::Config;
use robots::{COSTS, Robot, Task};
use runs::grid::Tasks;

use crate::failure::Failure;

/// Writes the names of a task and of its constraints as its environments do.
pub fn resolve(config: &mut Config) -> Result<(), Failure> {
    config.task = Task::find(&config.task)?.name.into();
    config.constraints = written_out(&config.constraints)?;
    Ok(())
}

/// Constraints as environments write them.
pub fn written_out(texts: &[String]) -> Result<Vec<String>, Failure> {
    let constraints = Constraint::parse_all(texts, &COSTS)?;
    Ok(constraints.iter().map(Constraint::to_string).collect())
}

/// The constraints in force where a user names none.
pub fn usual_constraints() -> Vec<String> {
    Task::default_constraints().iter().map(Constraint::to_string).collect()
}

/// The tasks of a grid.
pub struct Robots;

impl Tasks for Robots {
    fn usual_constraints(&self) -> Vec<String> {
        usual_constraints()
    }

    fn resolve(&self, config: &mut Config) -> Result<(), String> {
        resolve(config).map_err(|failure| failure.message)
    }
}

/// The robot of a task, under some constraints.
pub fn robot(task: &str, constraints: &[String]) -> Result<Robot, Failure> {
    Ok(Robot::new(Task::find(task)?, Constraint::parse_all(constraints, &COSTS)?)?)
}

/// Refuses a run whose environments are none of this program's.
pub fn refuse_foreign(config: &Config, run: &Path) -> Result<(), Failure> {
    if config.environment.is_empty() { Ok(()) } else { Err(foreign(&config.task, run)) }
}

/// What is said of an environment that is none of this program's.
pub fn foreign(task: &str, path: &Path) -> Failure {
    Failure::input(format!(
        "{}: its environment, {task}, is Python's; expected one of the robots: in Python, see \
         ecrl.resume and ecrl.load",
        path.display()
    ))
}

/// The environment of a configuration.
pub fn make(config: &Config) -> Result<Box<dyn Env>, Failure> {
    Ok(Box::new(robot(&config.task, &config.constraints)?))
}
