//! The robots as environments for a configuration.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use cmdp::{Constraint, Env};
use ecrl::config::Config;
use robots::own::{self, OwnTask};
use robots::{AnyTask, Body};
use runs::grid::{Tasks, USUAL};
use runs::policy::About;
use runs::task_copy::{TASK, TaskCopy};
use runs::{provenance, read};

use crate::failure::Failure;

/// Writes the names of a task and of its constraints as its environments do, and finds the task: by its name, its
/// file, or for a configuration of a run of a file's task beside that.
pub fn resolve(config: &mut Config, beside: Option<&Path>) -> Result<AnyTask, Failure> {
    let task = match beside {
        Some(run) if !own::is_file(&config.task) && !renamed(run, config) => of_run(run, config)?,
        _ => AnyTask::find(&config.task)?,
    };
    let environment = environment(&task);
    named(config, &task, environment)?;
    Ok(task)
}

/// Writes the names of a task and of its constraints.
fn named(config: &mut Config, task: &AnyTask, environment: String) -> Result<(), Failure> {
    config.constraints = written_out(&config.constraints, task)?;
    config.task = task.name().into();
    config.environment = environment;
    Ok(())
}

/// What tells a file's task from others; nothing of those built in.
fn environment(task: &AnyTask) -> String {
    copy(task, "").map_or(String::new(), |copy| copy.environment())
}

/// Whether a configuration of a run of a file's task was given another task since.
fn renamed(run: &Path, config: &Config) -> bool {
    TaskCopy::is_named_by(config) && read::config(run).is_ok_and(|there| there.task != config.task)
}

/// Constraints as environments write them.
pub fn written_out(texts: &[String], task: &AnyTask) -> Result<Vec<String>, Failure> {
    let constraints = match texts {
        [usual] if usual == USUAL => task.default_constraints(),
        texts => Constraint::parse_all(texts, task.costs())?,
    };
    Ok(constraints.iter().map(Constraint::to_string).collect())
}

/// The constraints in force on a built-in robot where a user names none.
pub fn usual_constraints() -> Vec<String> {
    robots::Task::default_constraints().iter().map(Constraint::to_string).collect()
}

/// What a run keeps of a file's task; `source` is where that lies.
pub fn copy(task: &AnyTask, source: &str) -> Option<TaskCopy> {
    let AnyTask::Own(own) = task else { return None };
    let (text, model) = own.copy();
    let source = match source {
        "" => String::new(),
        file => std::path::absolute(file).map_or(String::new(), |path| path.display().to_string()),
    };
    Some(TaskCopy { text: text.into(), model, source })
}

/// The tasks of a grid: each is found once.
#[derive(Default)]
pub struct Robots(RefCell<HashMap<String, (AnyTask, String)>>);

impl Tasks for Robots {
    fn resolve(&self, config: &mut Config) -> Result<(), String> {
        let mut found = self.0.borrow_mut();
        let (task, environment) = match found.entry(config.task.clone()) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(new) => {
                let task = AnyTask::find(&config.task).map_err(|error| error.to_string())?;
                let environment = environment(&task);
                new.insert((task, environment))
            }
        };
        named(config, task, environment.clone()).map_err(|failure| failure.message)
    }
}

/// The task of a run, of whose environments some may be none of this program's.
pub fn of_run(run: &Path, config: &Config) -> Result<AnyTask, Failure> {
    if TaskCopy::is_named_by(config) {
        let copy = TaskCopy::read(run, config)?;
        let file = run.join(TASK).display().to_string();
        return Ok(AnyTask::Own(OwnTask::of_copy(&file, &config.task, copy.text, &copy.model)?));
    }
    match config.environment.is_empty() {
        true => Ok(AnyTask::find(&config.task)?),
        false => Err(foreign(&config.task, run)),
    }
}

/// Whether the file that a run's task came from is another now, in words.
pub fn changed(run: &Path) -> Option<String> {
    let config = read::config(run).ok().filter(TaskCopy::is_named_by)?;
    let source = provenance::read(run)
        .into_iter()
        .map(|origin| origin.task_file)
        .find(|file| !file.is_empty())?;
    let text = match AnyTask::find(&source).map(|task| copy(&task, "")) {
        _ if !Path::new(&source).exists() => return None,
        Ok(Some(now)) if now.environment() == config.environment => return None,
        Ok(_) => "has changed since the run began".to_owned(),
        Err(_) => "has changed since the run began, and cannot be read any more".into(),
    };
    Some(format!("{source} {text}: the run goes on with its own copy"))
}

/// The task that a policy by itself acts in: the one given, or the built-in one that it names.
pub fn of_policy(about: &About, path: &Path, given: Option<&str>) -> Result<AnyTask, Failure> {
    if about.interface.is_some() {
        return Err(foreign(&about.task, path));
    }
    let task = match given {
        Some(run) if Path::new(run).is_dir() => of_run(run.as_ref(), &read::config(run.as_ref())?)?,
        Some(given) => AnyTask::find(given)?,
        None => AnyTask::find(&about.task).map_err(|_| {
            let (path, task) = (path.display(), &about.task);
            Failure::input(format!(
                "{path}: its task, {task}, is none of the built-in ones: expected --task with its file or a run of it"
            ))
        })?,
    };
    match task.name() == about.task {
        true => Ok(task),
        false => {
            let (path, expected, found) = (path.display(), &about.task, task.name());
            Err(Failure::input(format!(
                "{path} is a policy of {expected}; expected --task with that, got {found}"
            )))
        }
    }
}

/// What is said of an environment that is none of this program's.
fn foreign(task: &str, path: &Path) -> Failure {
    Failure::input(format!(
        "{}: its environment, {task}, is Python's; expected one of the robots: in Python, see \
         ecrl.resume and ecrl.load",
        path.display()
    ))
}

/// The robot of a task, under some constraints.
pub fn robot(task: &AnyTask, constraints: &[String]) -> Result<Box<dyn Body>, Failure> {
    Ok(task.robot(Constraint::parse_all(constraints, task.costs())?)?)
}

/// What makes the environments of a task's configurations.
pub fn make(task: AnyTask) -> impl Fn(&Config) -> Result<Box<dyn Env>, Failure> {
    move |config| Ok(robot(&task, &config.constraints)? as Box<dyn Env>)
}
