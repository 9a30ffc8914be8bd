//! A task by whatever names it: one of the five, or a file of a user's own.

use std::path::Path;
use std::sync::Arc;

use cmdp::{Constraint, Cost, StateError, Visual};
use mujoco_rs::prelude::MjModel;

use crate::own::{self, OwnRobot, OwnTask, OwnTaskError};
#[cfg(feature = "window")]
use crate::physics::Data;
use crate::robot::{Robot, RobotError};
use crate::task::{COSTS, MAX_STEPS, Task, UnknownTask};

/// A task, built in or of a file.
#[derive(Clone)]
pub enum AnyTask {
    /// One of the five.
    BuiltIn(&'static Task),
    /// Of a file.
    Own(Arc<OwnTask>),
}

/// There is no such task, or its file is wrong.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// No task has that name.
    #[error(transparent)]
    Unknown(#[from] UnknownTask),
    /// The file cannot be used.
    #[error(transparent)]
    Own(#[from] OwnTaskError),
}

/// A robot of either kind.
pub trait Body: Visual {
    /// Starts an episode in a given state, as Gymnasium's `set_state` after a reset does.
    fn start(&mut self, qpos: &[f64], qvel: &[f64], obs: &mut [f64]) -> Result<(), StateError>;

    /// The joint positions and velocities.
    fn state(&self) -> (&[f64], &[f64]);

    /// What a step of it is to the engine alone.
    fn bare(&self) -> Bare;

    /// The engine's state, for its viewer.
    #[cfg(feature = "window")]
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn data_mut(&mut self) -> &mut Data;
}

/// A robot's physics and nothing else, for measuring what the rest costs.
pub struct Bare {
    /// The model, as robots share it.
    pub model: Arc<MjModel>,
    /// Physics steps in a step.
    pub frame_skip: usize,
    /// For every entry of an action the actuator, what the entry is multiplied by, and what is added then.
    pub controls: Vec<(usize, f64, f64)>,
}

macro_rules! body {
    ($robot:ty) => {
        impl Body for $robot {
            fn start(
                &mut self,
                qpos: &[f64],
                qvel: &[f64],
                obs: &mut [f64],
            ) -> Result<(), StateError> {
                self.start(qpos, qvel, obs)
            }

            fn state(&self) -> (&[f64], &[f64]) {
                let data = &self.physics().data;
                (data.qpos(), data.qvel())
            }

            fn bare(&self) -> Bare {
                let (model, controls) = self.controls();
                Bare { model, frame_skip: self.physics().frame_skip, controls }
            }

            #[cfg(feature = "window")]
            #[allow(private_interfaces)]
            fn data_mut(&mut self) -> &mut Data {
                &mut self.physics_mut().data
            }
        }
    };
}

body!(Robot);
body!(OwnRobot);

impl AnyTask {
    /// The task of that name, or of the file where it ends in `.toml`.
    pub fn find(task: &str) -> Result<Self, TaskError> {
        match own::is_file(task) {
            true => Ok(Self::Own(OwnTask::read(Path::new(task))?)),
            false => Ok(Self::BuiltIn(Task::find(task)?)),
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        match self {
            Self::BuiltIn(task) => task.name,
            Self::Own(task) => task.name(),
        }
    }

    /// What it measures.
    pub fn costs(&self) -> &[Cost] {
        match self {
            Self::BuiltIn(_) => &COSTS,
            Self::Own(task) => task.costs(),
        }
    }

    /// The constraints in force where a user names none.
    pub fn default_constraints(&self) -> Vec<Constraint> {
        match self {
            Self::BuiltIn(_) => Task::default_constraints(),
            Self::Own(task) => task.default_constraints(),
        }
    }

    /// Entries of an observation and of an action, and the time limit in steps.
    pub fn sizes(&self) -> [usize; 3] {
        match self {
            Self::BuiltIn(task) => [task.observation, task.action, MAX_STEPS],
            Self::Own(task) => task.sizes(),
        }
    }

    /// Its robot under some constraints.
    pub fn robot(&self, constraints: Vec<Constraint>) -> Result<Box<dyn Body>, RobotError> {
        Ok(match self {
            Self::BuiltIn(task) => Box::new(Robot::new(task, constraints)?),
            Self::Own(task) => Box::new(OwnRobot::new(task, constraints)?),
        })
    }
}
