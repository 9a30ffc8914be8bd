//! The engine's state of one robot, and how it moves on, breaks down and is put back.

use std::sync::Arc;

use mujoco_rs::prelude::{MjData, MjModel, MjtState};

/// A robot's state, over a model that all robots of a task share.
pub(crate) type Data = MjData<Arc<MjModel>>;

/// Everything `mj_step` reads: positions, velocities, warm start, controls, time.
const PHYSICS: u32 = MjtState::mjSTATE_INTEGRATION as u32;

/// The physics of one robot.
pub(crate) struct Physics {
    pub data: Data,
    /// Physics steps in one step of the task.
    pub frame_skip: usize,
    /// Before the current step.
    before: Vec<f64>,
}

impl Physics {
    /// At rest in the model's own pose.
    pub fn new(model: Arc<MjModel>, frame_skip: usize) -> Self {
        let before = vec![0.0; model.state_size(PHYSICS)];
        Self { data: MjData::new(model), frame_skip, before }
    }

    /// Simulated seconds of a step.
    pub fn dt(&self) -> f64 {
        self.data.model_opt().timestep * self.frame_skip as f64
    }

    /// Moves on by one step of the task; whether the simulation stands.
    pub fn advance(&mut self) -> bool {
        for _ in 0..self.frame_skip {
            self.data.step();
            // The engine resets a broken state by itself, in silence: its counters tell.
            if self.data.ffi().warning.iter().any(|w| w.number > 0) {
                return false;
            }
        }
        self.data.qpos().iter().chain(self.data.qvel()).all(|x| x.is_finite())
    }

    /// Notes where it stands, for [`undo`](Self::undo).
    pub fn note(&mut self) {
        self.data.read_state_into(PHYSICS, &mut self.before);
    }

    /// Puts it back to where it stood when that was noted.
    pub fn undo(&mut self) {
        let before = std::mem::take(&mut self.before);
        self.set(&before);
        self.before = before;
    }

    /// The numbers of its state.
    pub fn len(&self) -> usize {
        self.before.len()
    }

    /// Its state.
    pub fn get(&self) -> Box<[f64]> {
        self.data.state(PHYSICS)
    }

    /// Where the state is put back, warnings and all that follows from the state go too.
    pub fn set(&mut self, physics: &[f64]) {
        self.data.reset();
        self.data.set_state(physics, PHYSICS).expect("the length was checked");
    }
}
