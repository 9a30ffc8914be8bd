//! The robots, many at once, for Gymnasium.

use cmdp::{Constraint, Env as _};
use numpy::{PyArray1, PyArray2, PyArrayMethods as _, PyReadonlyArray1, PyReadonlyArray2};
use numpy::{PyUntypedArrayMethods as _, ToPyArray as _};
use pyo3::prelude::*;
use rayon::prelude::*;
use robots::{COSTS, Robot, Task};

use crate::env::value_error;

/// What a step of all brings: observations, rewards, whether each has fallen, torques, velocity costs,
/// positions and velocities along x.
type Brought<'py> = (
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
);

/// Some robots of a kind, stepped side by side. A robot's random start is Python's to draw.
#[pyclass(module = "ecrl._ecrl")]
pub struct Robots {
    task: &'static Task,
    robots: Vec<Robot>,
    pool: Option<rayon::ThreadPool>,
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
        let robot = |_| Robot::new(task, constraints.clone());
        let robots = (0..count).map(robot).collect::<Result<Vec<_>, _>>().map_err(value_error)?;
        let pool = (threads > 1 && count > 1)
            .then(|| rayon::ThreadPoolBuilder::new().num_threads(threads.min(count)).build());
        Ok(Self { task, robots, pool: pool.transpose().map_err(value_error)? })
    }

    /// Joint positions and velocities in the model's own pose, the scale of the noise at the start, and
    /// whether that on velocities is normal rather than uniform.
    fn start_of<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, f64, bool)> {
        let robot = Robot::new(self.task, vec![]).map_err(value_error)?;
        let (qpos, qvel) = robot.state();
        let (scale, normal) = self.task.start_noise();
        Ok((qpos.to_pyarray(py), qvel.to_pyarray(py), scale, normal))
    }

    /// Puts one robot into a state; returns its observation.
    fn start<'py>(
        &mut self,
        py: Python<'py>,
        robot: usize,
        qpos: PyReadonlyArray1<f64>,
        qvel: PyReadonlyArray1<f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let mut obs = vec![0.0; self.task.observation];
        let robot =
            self.robots.get_mut(robot).ok_or_else(|| value_error("there is no such robot"))?;
        let started = robot.start(qpos.as_slice()?, qvel.as_slice()?, &mut obs);
        started.map_err(value_error)?;
        Ok(PyArray1::from_vec(py, obs))
    }

    /// Joint positions and velocities of one robot.
    fn state<'py>(
        &self,
        py: Python<'py>,
        robot: usize,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>)> {
        let robot = self.robots.get(robot).ok_or_else(|| value_error("there is no such robot"))?;
        let (qpos, qvel) = robot.state();
        Ok((qpos.to_pyarray(py), qvel.to_pyarray(py)))
    }

    /// The whole state of one robot.
    fn capture<'py>(&self, py: Python<'py>, robot: usize) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let robot = self.robots.get(robot).ok_or_else(|| value_error("there is no such robot"))?;
        Ok(PyArray1::from_vec(py, robot.capture().expect("robots tell their state")))
    }

    /// Brings one robot to a whole state.
    fn restore(&mut self, robot: usize, state: PyReadonlyArray1<f64>) -> PyResult<()> {
        let mut obs = vec![0.0; self.task.observation];
        let robot =
            self.robots.get_mut(robot).ok_or_else(|| value_error("there is no such robot"))?;
        robot.restore(state.as_slice()?, &mut obs).map_err(value_error)
    }

    /// Steps all of them.
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        actions: PyReadonlyArray2<f32>,
    ) -> PyResult<Brought<'py>> {
        let (count, width) = (self.robots.len(), self.task.observation);
        if actions.shape() != [count, self.task.action] {
            let (found, action) = (actions.shape(), self.task.action);
            return Err(value_error(format!(
                "actions have shape {found:?}; expected [{count}, {action}]"
            )));
        }
        let actions = actions.as_slice()?;
        let mut obs = vec![0.0; count * width];
        let (robots, pool, wide) = (&mut self.robots, &self.pool, self.task.action);
        let moved: Vec<(f64, bool, [f64; 2])> = py.detach(|| {
            let step = |(robot, (action, obs)): (&mut Robot, (&[f32], &mut [f64]))| {
                let mut costs = [0.0; 2];
                let step = robot.step(action, obs, &mut costs);
                (step.reward, step.terminated, costs)
            };
            match pool {
                None => {
                    let rows = actions.chunks_exact(wide).zip(obs.chunks_exact_mut(width));
                    robots.iter_mut().zip(rows).map(step).collect()
                }
                Some(pool) => pool.install(|| {
                    let rows = actions.par_chunks_exact(wide).zip(obs.par_chunks_exact_mut(width));
                    robots.par_iter_mut().zip(rows).map(step).collect()
                }),
            }
        });
        Ok((
            PyArray1::from_vec(py, obs).reshape([count, width])?,
            PyArray1::from_iter(py, moved.iter().map(|(reward, ..)| *reward)),
            PyArray1::from_iter(py, moved.iter().map(|(_, fallen, _)| *fallen)),
            PyArray1::from_iter(py, moved.iter().map(|(.., costs)| costs[0])),
            PyArray1::from_iter(py, moved.iter().map(|(.., costs)| costs[1])),
        ))
    }
}
