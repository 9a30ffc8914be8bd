//! The robots, many at once, for Gymnasium.

use std::sync::MutexGuard;

use cmdp::{Constraint, Env as _, Step};
use numpy::{PyArray1, PyArray2, PyArrayMethods as _, PyReadonlyArray1, PyReadonlyArray2};
use numpy::{PyUntypedArrayMethods as _, ToPyArray as _};
use pyo3::prelude::*;
use robots::{COSTS, Robot, Task};

use crate::crew::Crew;
use crate::env::value_error;

/// An array of numbers.
type Numbers<'py> = Bound<'py, PyArray1<f64>>;

/// What a step of all brings: observations, rewards, whether each has fallen, torques and velocity costs.
type Brought<'py> = (
    Bound<'py, PyArray2<f64>>,
    Numbers<'py>,
    Bound<'py, PyArray1<bool>>,
    Numbers<'py>,
    Numbers<'py>,
);

/// A robot, what it is to do, and what came of it.
struct Moving {
    robot: Robot,
    action: Vec<f32>,
    /// Where it begins anew instead, by joint positions and velocities.
    begin: Option<(Vec<f64>, Vec<f64>)>,
    obs: Vec<f64>,
    costs: [f64; 2],
    step: Step,
}

impl Moving {
    fn go(&mut self) {
        if let Some((qpos, qvel)) = self.begin.take() {
            // Of the right length: that was seen to when it was asked for.
            let started = self.robot.start(&qpos, &qvel, &mut self.obs);
            (self.costs, self.step) = ([0.0; 2], STILL);
            debug_assert!(started.is_ok());
            return;
        }
        self.step = self.robot.step(&self.action, &mut self.obs, &mut self.costs);
    }
}

/// A step that is none.
const STILL: Step = Step { reward: 0.0, terminated: false, truncated: false, unstable: false };

/// Some robots of a kind, stepped side by side. A robot's random start is Python's to draw.
#[pyclass(frozen, module = "ecrl._ecrl")]
pub struct Robots {
    task: &'static Task,
    crew: Crew<Moving>,
}

impl Robots {
    fn robot(&self, i: usize) -> PyResult<MutexGuard<'_, Moving>> {
        self.crew.piece(i).ok_or_else(|| value_error("there is no such robot"))
    }
}

#[pymethods]
impl Robots {
    /// So many robots of a task, on so many threads.
    #[new]
    fn new(task: &str, count: usize, threads: usize) -> PyResult<Self> {
        let task = Task::find(task).map_err(value_error)?;
        let constraints: Vec<String> =
            COSTS.iter().map(|cost| format!("{}<=1", cost.name)).collect();
        let constraints = Constraint::parse_all(&constraints, &COSTS).map_err(value_error)?;
        let moving = |_| -> PyResult<Moving> {
            Ok(Moving {
                robot: Robot::new(task, constraints.clone()).map_err(value_error)?,
                action: vec![0.0; task.action],
                begin: None,
                obs: vec![0.0; task.observation],
                costs: [0.0; 2],
                step: STILL,
            })
        };
        let robots = (0..count).map(moving).collect::<PyResult<_>>()?;
        Ok(Self { task, crew: Crew::new(robots, threads, Moving::go) })
    }

    /// Joint positions and velocities in the model's own pose, the scale of the noise at the start, and
    /// whether that on velocities is normal rather than uniform.
    fn start_of<'py>(&self, py: Python<'py>) -> PyResult<(Numbers<'py>, Numbers<'py>, f64, bool)> {
        let robot = Robot::new(self.task, vec![]).map_err(value_error)?;
        let (qpos, qvel) = robot.state();
        let (scale, normal) = self.task.start_noise();
        Ok((qpos.to_pyarray(py), qvel.to_pyarray(py), scale, normal))
    }

    /// Puts one robot into a state; returns its observation.
    fn start<'py>(
        &self,
        py: Python<'py>,
        robot: usize,
        qpos: PyReadonlyArray1<f64>,
        qvel: PyReadonlyArray1<f64>,
    ) -> PyResult<Numbers<'py>> {
        let Moving { robot, obs, .. } = &mut *self.robot(robot)?;
        robot.start(qpos.as_slice()?, qvel.as_slice()?, obs).map_err(value_error)?;
        Ok(obs.to_pyarray(py))
    }

    /// Has one robot begin in a state with the next step of all, instead of taking it.
    fn begin(
        &self,
        robot: usize,
        qpos: PyReadonlyArray1<f64>,
        qvel: PyReadonlyArray1<f64>,
    ) -> PyResult<()> {
        let mut moving = self.robot(robot)?;
        let (qpos, qvel) = (qpos.as_slice()?.to_vec(), qvel.as_slice()?.to_vec());
        let (positions, velocities) = moving.robot.state();
        if (qpos.len(), qvel.len()) != (positions.len(), velocities.len()) {
            return Err(value_error("qpos or qvel has another length than the robot's"));
        }
        moving.begin = Some((qpos, qvel));
        Ok(())
    }

    /// Joint positions and velocities of one robot.
    fn state<'py>(&self, py: Python<'py>, robot: usize) -> PyResult<(Numbers<'py>, Numbers<'py>)> {
        let moving = self.robot(robot)?;
        let (qpos, qvel) = moving.robot.state();
        Ok((qpos.to_pyarray(py), qvel.to_pyarray(py)))
    }

    /// The whole state of one robot.
    fn capture<'py>(&self, py: Python<'py>, robot: usize) -> PyResult<Numbers<'py>> {
        let state = self.robot(robot)?.robot.capture();
        Ok(PyArray1::from_vec(py, state.expect("robots tell their state")))
    }

    /// Brings one robot to a whole state.
    fn restore(&self, robot: usize, state: PyReadonlyArray1<f64>) -> PyResult<()> {
        let Moving { robot, obs, .. } = &mut *self.robot(robot)?;
        robot.restore(state.as_slice()?, obs).map_err(value_error)
    }

    /// Steps all of them.
    fn step<'py>(&self, py: Python<'py>, actions: PyReadonlyArray2<f32>) -> PyResult<Brought<'py>> {
        let (count, Task { observation, action, .. }) = (self.crew.len(), self.task);
        if actions.shape() != [count, *action] {
            let found = actions.shape();
            let text = format!("actions have shape {found:?}; expected [{count}, {action}]");
            return Err(value_error(text));
        }
        for (i, row) in actions.as_slice()?.chunks_exact(*action).enumerate() {
            self.robot(i)?.action.copy_from_slice(row);
        }
        py.detach(|| self.crew.work());
        let mut obs = Vec::with_capacity(count * observation);
        let (mut rewards, mut fallen) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut costs = [Vec::with_capacity(count), Vec::with_capacity(count)];
        for i in 0..count {
            let moved = self.robot(i)?;
            obs.extend_from_slice(&moved.obs);
            rewards.push(moved.step.reward);
            fallen.push(moved.step.terminated);
            costs.iter_mut().zip(moved.costs).for_each(|(all, cost)| all.push(cost));
        }
        let [torque, velocity] = costs.map(|costs| PyArray1::from_vec(py, costs));
        Ok((
            PyArray1::from_vec(py, obs).reshape([count, *observation])?,
            PyArray1::from_vec(py, rewards),
            PyArray1::from_vec(py, fallen),
            torque,
            velocity,
        ))
    }
}
