//! A robot in its simulated world: one step of the task around MuJoCo's `mj_step`.

use std::path::Path;
use std::sync::Arc;

use cmdp::{Constraint, ConstraintError, Env, EnvSpec, Rng, StateError, Step};
use mujoco_rs::error::MjModelError;
use mujoco_rs::prelude::MjModel;
use rand::RngExt as _;
use rand_distr::StandardNormal;

use crate::engine::{self, EngineError};
use crate::physics::Physics;
use crate::task::{COSTS, MAX_STEPS, Task};

/// The torso: the first body after the world in every model.
const TORSO: usize = 1;

/// A robot under any number of constraints on [`COSTS`].
///
/// A step that breaks the simulation - a MuJoCo warning, or a number that is not finite - is
/// undone: the robot stands where it stood before, the step earns 0, costs the most it can, and
/// ends the episode as [`unstable`](Step::unstable).
pub struct Robot {
    task: &'static Task,
    spec: EnvSpec,
    /// For every constraint the index of its cost in [`COSTS`].
    measured: Vec<usize>,
    physics: Physics,
    /// Where the robot was after the last step. For a free robot this lags behind the state.
    position: [f64; 2],
    steps: usize,
}

/// A robot that cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RobotError {
    /// A constraint the robot cannot measure.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// The physics engine cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Robot {
    /// The robot of a task, standing in the model's own pose.
    pub fn new(task: &'static Task, constraints: Vec<Constraint>) -> Result<Self, RobotError> {
        let measured = Constraint::indices(&constraints, &COSTS)?;
        let model = engine::model(task)?;
        let spec = EnvSpec {
            name: task.name.into(),
            observation: task.observation,
            action: task.action,
            choices: None,
            max_steps: MAX_STEPS,
            constraints,
        };
        let physics = Physics::new(model, task.frame_skip);
        let mut robot = Self { task, spec, measured, physics, position: [0.0; 2], steps: 0 };
        robot.begin();
        Ok(robot)
    }

    /// Starts an episode in a given state, as Gymnasium's `set_state` after a reset does.
    pub fn start(&mut self, qpos: &[f64], qvel: &[f64], obs: &mut [f64]) -> Result<(), StateError> {
        StateError::check("qpos", self.task.name, qpos, self.physics.data.qpos().len())?;
        StateError::check("qvel", self.task.name, qvel, self.physics.data.qvel().len())?;
        self.physics.data.reset();
        self.physics.data.qpos_mut().copy_from_slice(qpos);
        self.physics.data.qvel_mut().copy_from_slice(qvel);
        self.begin();
        self.observe(obs);
        Ok(())
    }

    /// The joint positions and velocities.
    pub fn state(&self) -> (&[f64], &[f64]) {
        (self.physics.data.qpos(), self.physics.data.qvel())
    }

    pub(crate) fn model(&self) -> &MjModel {
        self.physics.data.model()
    }

    #[cfg(feature = "window")]
    pub(crate) fn physics_mut(&mut self) -> &mut Physics {
        &mut self.physics
    }

    /// The model, and how an action becomes controls.
    pub(crate) fn controls(&self) -> (Arc<MjModel>, Vec<(usize, f64, f64)>) {
        let controls = (0..self.task.action).map(|i| (i, 1.0, 0.0));
        (self.physics.data.model_clone(), controls.collect())
    }

    pub(crate) fn physics(&self) -> &Physics {
        &self.physics
    }

    /// Writes the compiled model as text, every float with all its digits: what the engine made of
    /// our MJCF.
    pub fn print_model(&self, path: &Path) -> Result<(), MjModelError> {
        self.physics.data.model().print_formatted(path, "% .17g")
    }

    fn begin(&mut self) {
        self.physics.data.forward();
        self.position = self.place();
        self.steps = 0;
    }

    fn observe(&self, obs: &mut [f64]) {
        let (positions, velocities) =
            obs.split_at_mut(self.physics.data.qpos().len() - self.task.hidden);
        positions.copy_from_slice(&self.physics.data.qpos()[self.task.hidden..]);
        let clip = self.task.velocity_clip;
        for (seen, v) in velocities.iter_mut().zip(self.physics.data.qvel()) {
            *seen = v.clamp(-clip, clip);
        }
    }

    /// Where progress is read: x and y.
    fn place(&self) -> [f64; 2] {
        let at: &[f64] = match self.task.free {
            true => &self.physics.data.xpos()[TORSO],
            false => self.physics.data.qpos(),
        };
        [at[0], at[1]]
    }

    /// Runs the physics of one step. Returns the velocity and the reward, or `None` where the
    /// simulation broke down.
    fn advance(&mut self, action: &[f32]) -> Option<([f64; 2], f64)> {
        for (control, &a) in self.physics.data.ctrl_mut().iter_mut().zip(action) {
            *control = f64::from(a);
        }
        if !self.physics.advance() {
            return None;
        }
        let dt = self.physics.dt();
        let (from, to) = (self.position, self.place());
        self.position = to;
        let velocity = [(to[0] - from[0]) / dt, (to[1] - from[1]) / dt];
        let earned = if self.task.healthy.is_some() { velocity[0] + 1.0 } else { velocity[0] };
        let reward = earned - f64::from(self.task.control_cost * sum_of_squares(action));
        reward.is_finite().then_some((velocity, reward))
    }
}

impl Env for Robot {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, rng: &mut Rng, obs: &mut [f64]) {
        let Task { reset_noise: scale, normal_velocities, .. } = *self.task;
        self.physics.data.reset();
        for q in self.physics.data.qpos_mut() {
            *q += rng.random_range(-scale..scale);
        }
        for v in self.physics.data.qvel_mut() {
            *v += match normal_velocities {
                true => scale * rng.sample::<f64, _>(StandardNormal),
                false => rng.random_range(-scale..scale),
            };
        }
        self.begin();
        self.observe(obs);
    }

    fn step(&mut self, action: &[f32], obs: &mut [f64], costs: &mut [f64]) -> Step {
        assert_eq!(action.len(), self.task.action, "one action for each motor");
        self.physics.note();
        let (stood, outcome) = (self.position, self.advance(action));
        self.steps += 1;
        let unstable = outcome.is_none();
        if unstable {
            self.physics.undo();
            self.position = stood;
        }
        let ([vx, vy], reward) = outcome.unwrap_or(([f64::INFINITY; 2], 0.0));
        let speed = if self.task.free { (vx * vx + vy * vy).sqrt() } else { vx };
        let measures = [torque(action), f64::from(speed > self.task.speed_limit)];
        for (cost, &index) in costs.iter_mut().zip(&self.measured) {
            *cost = measures[index];
        }
        self.observe(obs);
        let (qpos, qvel) = self.state();
        Step {
            reward,
            terminated: unstable || self.task.healthy.is_some_and(|healthy| !healthy(qpos, qvel)),
            truncated: self.steps >= MAX_STEPS,
            unstable,
        }
    }

    fn capture(&self) -> Option<Vec<f64>> {
        let mut state = vec![self.steps as f64, self.position[0], self.position[1]];
        state.extend(self.physics.get());
        Some(state)
    }

    fn restore(&mut self, state: &[f64], obs: &mut [f64]) -> Result<(), StateError> {
        StateError::check("state", self.task.name, state, 3 + self.physics.len())?;
        let (own, physics) = state.split_at(3);
        self.physics.set(physics);
        self.steps = own[0] as usize;
        self.position = [own[1], own[2]];
        self.observe(obs);
        Ok(())
    }
}

/// The mean over motors of |a|, of the action as applied; a motor told something that is not a
/// number counts in full.
fn torque(action: &[f32]) -> f64 {
    let applied = action.iter().map(|a| f64::from(a.abs().min(1.0)));
    applied.sum::<f64>() / action.len() as f64
}

/// Σ a² in f32, added in numpy's order: eight at a time as a tree, the rest one by one.
fn sum_of_squares(action: &[f32]) -> f32 {
    let (eights, rest) = action.as_chunks::<8>();
    let eights = eights.iter().map(|a| {
        let [a, b, c, d, e, f, g, h] = a.map(|x| x * x);
        ((a + b) + (c + d)) + ((e + f) + (g + h))
    });
    eights.chain(rest.iter().map(|x| x * x)).fold(0.0, |sum, x| sum + x)
}
