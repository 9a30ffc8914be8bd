//! Recorded actions played again, as one JSON object a line: for comparing with other simulators.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use cmdp::{Constraint, ConstraintError, StateError};
use serde::{Deserialize, Serialize};

use crate::{AnyTask, RobotError};

/// A start, the actions that follow it, and the constraints whose costs to report.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// Joint positions at the start.
    pub qpos: Vec<f64>,
    /// Joint velocities at the start.
    pub qvel: Vec<f64>,
    /// One action for each step.
    pub actions: Vec<Vec<f32>>,
    /// The constraints, as text; the task's own where there are none.
    pub constraints: Option<Vec<String>>,
}

/// A replay that cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("cannot read it: {0}")]
    Read(io::Error),
    /// The file is not JSON, or not of the right form.
    #[error("{field}: {error}")]
    Json {
        /// Where in the file.
        field: String,
        /// What is wrong there, and in which line and column.
        error: serde_json::Error,
    },
    /// A start that does not fit the robot.
    #[error(transparent)]
    Start(#[from] StateError),
    /// An action that does not fit the robot.
    #[error("actions[{step}] has {got} numbers; {task} expects {expected}")]
    ActionLength {
        /// Which action.
        step: usize,
        /// The robot.
        task: String,
        /// How many numbers came.
        got: usize,
        /// How many were expected.
        expected: usize,
    },
    /// An action that is no number in f32.
    #[error("actions[{step}][{motor}] is {value}; expected a finite f32 number")]
    ActionValue {
        /// Which action.
        step: usize,
        /// Which entry of it.
        motor: usize,
        /// What it holds.
        value: f32,
    },
    /// A constraint that cannot be understood.
    #[error("constraints: {0}")]
    Constraint(#[from] ConstraintError),
    /// The robot cannot be made.
    #[error(transparent)]
    Robot(#[from] RobotError),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Write(io::Error),
}

/// What is written for a step.
#[derive(Serialize)]
struct Line<'a> {
    obs: &'a [f64],
    reward: f64,
    costs: BTreeMap<&'a str, f64>,
    terminated: bool,
    truncated: bool,
    /// Only where it happens.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unstable: bool,
}

/// What is written for the start.
#[derive(Serialize)]
struct Start<'a> {
    obs: &'a [f64],
}

impl Replay {
    /// Reads a replay from a JSON file.
    pub fn read(path: &Path) -> Result<Self, ReplayError> {
        Self::parse(&std::fs::read(path).map_err(ReplayError::Read)?)
    }

    /// Reads a replay from JSON.
    pub fn parse(json: &[u8]) -> Result<Self, ReplayError> {
        let mut reader = serde_json::Deserializer::from_slice(json);
        let replay: Self = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let field = error.path().to_string();
            let field = if field == "." { "replay".into() } else { field };
            ReplayError::Json { field, error: error.into_inner() }
        })?;
        reader.end().map_err(|error| ReplayError::Json { field: "replay".into(), error })?;
        Ok(replay)
    }

    /// Plays on past termination and past the time limit; writes the first observation, then every
    /// step. Nothing is written unless all of the replay fits the task.
    pub fn play(&self, task: &AnyTask, output: &mut impl Write) -> Result<(), ReplayError> {
        let constraints = match &self.constraints {
            Some(texts) => Constraint::parse_all(texts, task.costs())?,
            None => task.default_constraints(),
        };
        for (step, action) in self.actions.iter().enumerate() {
            let (got, expected) = (action.len(), task.sizes()[1]);
            if got != expected {
                let task = task.name().into();
                return Err(ReplayError::ActionLength { step, task, got, expected });
            }
            if let Some(motor) = action.iter().position(|a| !a.is_finite()) {
                return Err(ReplayError::ActionValue { step, motor, value: action[motor] });
            }
        }
        let mut robot = task.robot(constraints)?;
        let mut obs = vec![0.0; robot.spec().observation];
        let mut costs = vec![0.0; robot.spec().constraints.len()];
        robot.start(&self.qpos, &self.qvel, &mut obs)?;
        write_line(output, &Start { obs: &obs })?;
        for action in &self.actions {
            let step = robot.step(action, &mut obs, &mut costs);
            let names = robot.spec().constraints.iter().map(|c| c.name.as_str());
            let line = Line {
                obs: &obs,
                reward: step.reward,
                costs: names.zip(costs.iter().copied()).collect(),
                terminated: step.terminated,
                truncated: step.truncated,
                unstable: step.unstable,
            };
            write_line(output, &line)?;
        }
        output.flush().map_err(ReplayError::Write)
    }
}

fn write_line(output: &mut impl Write, line: &impl Serialize) -> Result<(), ReplayError> {
    serde_json::to_writer(&mut *output, line).map_err(|e| ReplayError::Write(e.into()))?;
    output.write_all(b"\n").map_err(ReplayError::Write)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOPPER: &str = r#"{"qpos": [0,1.25,0,0,0,0], "qvel": [0,0,0,0,0,0], "actions": ACTIONS}"#;

    fn play(json: &str) -> Result<String, String> {
        let mut output = Vec::new();
        let replay = Replay::parse(json.as_bytes()).map_err(|e| e.to_string())?;
        let played = replay.play(&AnyTask::find("hopper").unwrap(), &mut output);
        assert!(played.is_ok() || output.is_empty(), "half an output");
        played.map_err(|e| e.to_string())?;
        Ok(String::from_utf8(output).unwrap())
    }

    fn hopper(actions: &str) -> String {
        HOPPER.replace("ACTIONS", actions)
    }

    #[test]
    fn the_first_line_is_the_start_and_every_step_has_its_own() {
        let output = play(&hopper("[[0.5, -0.25, 0], [0, 0, 0]]")).unwrap();
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0], r#"{"obs":[1.25,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0]}"#);
        let end = r#""costs":{"torque":0.25},"terminated":false,"truncated":false}"#;
        assert!(lines[1].starts_with(r#"{"obs":["#) && lines[1].ends_with(end), "{}", lines[1]);
    }

    #[test]
    fn numbers_survive_the_round_trip_to_the_bit() {
        let json = hopper("[[0.1, -0.2, 0.3]]").replace("1.25", "1.2500000000000002");
        let output = play(&json).unwrap();
        let first: serde_json::Value =
            serde_json::from_str(output.lines().next().unwrap()).unwrap();
        assert_eq!(first["obs"][0].as_f64(), Some(1.2500000000000002));
        assert_eq!(Replay::parse(json.as_bytes()).unwrap().actions[0], [0.1f32, -0.2, 0.3]);
    }

    #[test]
    fn it_plays_on_past_termination_and_truncation() {
        let output = play(&hopper(&format!("[{}[1,1,1]]", "[1,1,1],".repeat(1004)))).unwrap();
        let flags = |name: &str| output.matches(&format!("\"{name}\":true")).count();
        assert_eq!(output.lines().count(), 1006);
        assert!(flags("terminated") > 900);
        assert_eq!((flags("truncated"), flags("unstable")), (6, 0));
    }

    #[test]
    fn constraints_choose_the_costs() {
        let with =
            |constraints: &str| {
                let json = hopper("[[1,1,1]]");
                play(&json.replace(
                    "\"actions\"",
                    &format!("\"constraints\": {constraints}, \"actions\""),
                ))
            };
        assert!(with("[]").unwrap().contains(r#""costs":{},"#));
        let both = with(r#"["velocity<=25", "torque<=0.4"]"#).unwrap();
        assert!(both.contains(r#""costs":{"torque":1.0,"velocity":0.0},"#), "{both}");
        assert_eq!(
            with(r#"["torq<=1"]"#).unwrap_err(),
            "constraints: unknown cost 'torq': did you mean 'torque'?"
        );
    }

    #[test]
    fn bad_input_names_the_field_and_what_was_expected() {
        for (json, expected) in [
            ("".into(), "replay: EOF while parsing a value at line 1 column 0"),
            ("5".into(), "replay: invalid type: integer `5`, expected struct Replay"),
            ("{\"qpos\": [0]}".into(), "replay: missing field `qvel`"),
            (hopper("[[0,0,0]]") + "x", "replay: trailing characters"),
            (hopper("[[0,NaN,0]]"), "actions[0][1]: expected value"),
            (hopper("[[0,1e999,0]]"), "actions[0][1]: number out of range"),
            (hopper("[[0,1e39,0]]"), "actions[0][1]"),
            (hopper("[[0,0,0],[0,0]]"), "actions[1] has 2 numbers; hopper expects 3"),
            (hopper("[[0,\"a\",0]]"), "actions[0][1]: invalid type: string \"a\", expected f32"),
            (hopper("3"), "actions: invalid type: integer `3`, expected a sequence"),
            (hopper("[]").replace("1.25,", ""), "qpos has 5 numbers; hopper expects 6"),
            (hopper("[]").replace("\"qvel\": [0,", "\"qvel\": ["), "qvel has 5 numbers"),
            (hopper("[]").replace("1.25", "-Infinity"), "qpos[1]: invalid number"),
            (
                hopper("[]").replace("qvel", "speed"),
                "speed: unknown field `speed`, expected one of",
            ),
        ] {
            let message = play(&json).unwrap_err();
            assert!(message.starts_with(expected), "{json}: {message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }
}
