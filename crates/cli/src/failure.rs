//! How a command fails: one line for the user, and an exit code.

use std::io;

use cmdp::ConstraintError;
use ecrl::config::ConfigError;
use ecrl::trainer::TrainError;
use report::ReportError;
use robots::own::OwnTaskError;
use robots::{RobotError, TaskError};
use runs::directory::RunError;
use runs::driver::DriveError;
use runs::experiment::ExperimentError;
use runs::grid::GridError;
use runs::output::OutputError;
use runs::policy::PolicyError;

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// One line for the user; empty where all has been said.
    pub message: String,
    /// The exit code.
    pub code: u8,
}

impl Failure {
    /// What the user gave cannot be used.
    pub fn input(message: impl ToString) -> Self {
        Self { message: message.to_string(), code: 2 }
    }

    /// What the user typed is no command: the first line of what clap says, which says it all.
    pub fn usage(error: &clap::Error) -> Self {
        let text = error.to_string();
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        // Some first lines end in a colon and go on in the next.
        let more = if first.ends_with(':') { lines.next().unwrap_or_default() } else { "" };
        let rest: Vec<&str> = lines.collect();
        let values = rest.iter().find_map(|line| line.strip_prefix("[possible values: "));
        let values = values.map(|v| format!("; expected one of {}", v.trim_end_matches(']')));
        let hint = rest.iter().find_map(|line| line.strip_prefix("tip: "));
        let hint = values.or(hint.map(|hint| format!(" ({hint})"))).unwrap_or_default();
        Self::input(format!("{} {more}", first).trim().to_owned() + &hint)
    }

    /// The input was fine, and yet it did not work.
    pub fn run(message: impl ToString) -> Self {
        Self { message: message.to_string(), code: 1 }
    }

    /// The user stopped it; what there is has been written and said.
    pub fn stopped(signal: i32) -> Self {
        Self { message: String::new(), code: 128 + signal as u8 }
    }
}

impl From<TaskError> for Failure {
    fn from(error: TaskError) -> Self {
        Self::input(error)
    }
}

impl From<OwnTaskError> for Failure {
    fn from(error: OwnTaskError) -> Self {
        Self::input(error)
    }
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::NoFolder(_) | ReportError::NoRuns(_) => Self::input(error),
            ReportError::Output(error) => error.into(),
            ReportError::Constraint(error) => error.into(),
            ReportError::Run(error) => error.into(),
            ReportError::Io { .. } | ReportError::Figure(_) => Self::run(error),
        }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::NotOurs(_) | OutputError::OfARun(_) => Self::input(error),
            OutputError::Io { .. } => Self::run(error),
        }
    }
}

impl From<GridError> for Failure {
    fn from(error: GridError) -> Self {
        Self::input(error)
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        match error {
            ExperimentError::Start(_) => Self::run(error),
            ExperimentError::Run(error) => error.into(),
            _ => Self::input(error),
        }
    }
}

impl From<ConstraintError> for Failure {
    fn from(error: ConstraintError) -> Self {
        Self::input(error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::input(error)
    }
}

impl From<PolicyError> for Failure {
    fn from(error: PolicyError) -> Self {
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

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Io { .. } | RunError::Gone(_) => Self::run(error),
            _ => Self::input(error),
        }
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::Config(_) => Self::input(error),
            TrainError::Env(error) => {
                error.downcast().map_or_else(Self::run, |failure: Box<Self>| *failure)
            }
            TrainError::Threads(_) | TrainError::NotFinite { .. } | TrainError::Fault(_) => {
                Self::run(error)
            }
        }
    }
}

impl From<DriveError> for Failure {
    fn from(error: DriveError) -> Self {
        match error {
            DriveError::Run(error) => error.into(),
            DriveError::Train(error) => error.into(),
            DriveError::Policy(error) => error.into(),
            DriveError::Config(error) => error.into(),
            DriveError::Checkpoint(_) | DriveError::Logs(_) => Self::run(error),
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
