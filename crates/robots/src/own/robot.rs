//! A robot of a task file, as an environment.

use std::sync::Arc;

use cmdp::{Constraint, ConstraintError, Env, EnvSpec, Rng, StateError, Step};
use mujoco_rs::mujoco_c::mj_setConst;
use mujoco_rs::prelude::MjModel;

use super::OwnTask;
use super::program::Span;
use crate::physics::{Data, Physics};

/// A robot of a task file under any number of constraints on its costs.
///
/// A step that breaks the simulation is undone, as a [`Robot`](crate::Robot)'s is: it earns 0, costs what it costs to
/// stand there, and ends the episode as [`unstable`](Step::unstable). A reward or cost that is not finite ends the run
/// and is named.
pub struct OwnRobot {
    task: Arc<OwnTask>,
    spec: EnvSpec,
    /// For every constraint the place of its cost.
    costs: Vec<Span>,
    physics: Physics,
    /// Everything that the task's expressions compute, and what they remember of the step before.
    row: Vec<f64>,
    memory: Vec<f64>,
    action: Vec<f64>,
    steps: usize,
    /// The parameters of the episode.
    drawn: Vec<f64>,
    /// A model to write the next parameters into.
    spare: Option<Arc<MjModel>>,
    /// The number of what ended the episode.
    ended: Option<usize>,
    fault: Option<String>,
}

impl OwnRobot {
    /// The robot, standing as an episode begins but for what is random.
    pub fn new(task: &Arc<OwnTask>, constraints: Vec<Constraint>) -> Result<Self, ConstraintError> {
        let plan = &task.plan;
        let measured = Constraint::indices(&constraints, &plan.costs)?;
        let spec = EnvSpec {
            name: task.name.clone(),
            observation: plan.observation.len,
            action: plan.actuators.len(),
            choices: None,
            max_steps: plan.steps,
            constraints,
        };
        let mut robot = Self {
            spec,
            costs: measured.into_iter().map(|i| plan.cost_spans[i]).collect(),
            physics: Physics::new(task.model.clone(), plan.frame_skip),
            row: vec![0.0; plan.program.size],
            memory: vec![0.0; plan.program.remembered()],
            action: vec![0.0; plan.actuators.len()],
            steps: 0,
            drawn: Vec::new(),
            spare: None,
            ended: None,
            fault: None,
            task: task.clone(),
        };
        // Until the first episode draws its own.
        robot.draw(&mut cmdp::rng([0; 4]));
        robot.stand();
        robot.begin();
        Ok(robot)
    }

    /// The task.
    pub fn task(&self) -> &Arc<OwnTask> {
        &self.task
    }

    /// Starts an episode in a given state, without noise; parameters stay as they are.
    pub fn start(&mut self, qpos: &[f64], qvel: &[f64], obs: &mut [f64]) -> Result<(), StateError> {
        let data = &self.physics.data;
        StateError::check("qpos", &self.task.name, qpos, data.qpos().len())?;
        StateError::check("qvel", &self.task.name, qvel, data.qvel().len())?;
        self.stand();
        self.physics.data.qpos_mut().copy_from_slice(qpos);
        self.physics.data.qvel_mut().copy_from_slice(qvel);
        self.begin();
        obs.copy_from_slice(self.task.plan.observation.of(&self.row));
        Ok(())
    }

    pub(crate) fn data(&self) -> &Data {
        &self.physics.data
    }

    #[cfg(feature = "window")]
    pub(crate) fn physics_mut(&mut self) -> &mut Physics {
        &mut self.physics
    }

    /// The terms of the last step's reward, with their weights, in the order of the file.
    pub fn terms(&self) -> impl Iterator<Item = (&str, f64)> {
        let terms = self.task.plan.rewards.iter();
        terms.map(|term| (&term.name[..], term.weight * term.span.of(&self.row)[0]))
    }

    /// All costs of the last step, in force or not.
    pub fn measures(&self) -> impl Iterator<Item = f64> {
        self.task.plan.cost_spans.iter().map(|span| span.of(&self.row)[0])
    }

    /// The model, and how an action becomes controls.
    pub(crate) fn controls(&self) -> (Arc<MjModel>, Vec<(usize, f64, f64)>) {
        let plan = &self.task.plan;
        let controls = plan.actuators.iter().zip(&plan.scales);
        let controls = controls.map(|(&actuator, &(half, middle))| (actuator, half, middle));
        (self.task.model.clone(), controls.collect())
    }

    pub(crate) fn physics(&self) -> &Physics {
        &self.physics
    }

    /// The actuators that an action moves.
    pub(crate) fn actuators(&self) -> &[usize] {
        &self.task.plan.actuators
    }

    /// What ended the episode, if it did.
    pub fn ended_by(&self) -> Option<&str> {
        self.ended.map(|i| &self.task.plan.ends[i].0[..])
    }

    /// The pose of the key frame, or the model's own.
    fn stand(&mut self) {
        match self.task.plan.key {
            Some(key) => self.physics.data.reset_keyframe(key).expect("the model has it"),
            None => self.physics.data.reset(),
        }
        // SAFETY: a key frame may have a time of its own; an episode begins at 0.
        unsafe { self.physics.data.ffi_mut().time = 0.0 };
    }

    /// Computes what follows from the state, at the start of an episode.
    fn begin(&mut self) {
        (self.steps, self.ended) = (0, None);
        self.action.fill(0.0);
        self.physics.data.forward();
        // What is remembered may be made of what is remembered.
        for _ in 0..=self.task.plan.program.kept.len() {
            self.compute();
            self.task.plan.program.remember(&self.row, &mut self.memory);
        }
        self.fault = self.find_fault();
    }

    fn compute(&mut self) {
        let Self { physics, action, row, memory, task, .. } = self;
        let read = |source: super::quantity::Source, to: &mut [f64]| {
            source.read(&physics.data, action, to);
        };
        task.plan.program.run(row, memory, read);
    }

    fn draw(&mut self, rng: &mut Rng) {
        let parameters = self.task.plan.parameters.iter();
        self.drawn = parameters.map(|parameter| parameter.sample(rng)).collect();
        self.set_parameters();
    }

    /// Makes the model what the parameters say.
    fn set_parameters(&mut self) {
        if self.drawn.is_empty() {
            return;
        }
        let original = &self.task.model;
        let mut model = self.spare.take().unwrap_or_else(|| Arc::new((**original).clone()));
        let own = Arc::get_mut(&mut model).expect("nobody else has the spare one");
        for (parameter, &drawn) in self.task.plan.parameters.iter().zip(&self.drawn) {
            parameter.apply(drawn, original, own);
        }
        // SAFETY: the model is a clone of the one that the data was made for, with the same sizes and tables; the
        // data is written to as scratch, and reset before it is used again.
        unsafe { mj_setConst(own.ffi_mut(), self.physics.data.ffi_mut()) };
        let old = self.physics.data.swap_model(model);
        if !Arc::ptr_eq(&old, original) {
            self.spare = Some(old);
        }
    }

    /// Names the first number of what a step brought that nobody can learn from.
    fn find_fault(&self) -> Option<String> {
        let plan = &self.task.plan;
        let wrong = |what: &str, name: &str, span: &Span| {
            let value = span.of(&self.row)[0];
            (!value.is_finite())
                .then(|| format!("{what} '{name}' is {value} in step {}", self.steps))
        };
        let rewards = plan.rewards.iter().map(|t| wrong("the reward's term", &t.name, &t.span));
        let costs = plan.costs.iter().zip(&plan.cost_spans);
        let costs = costs.map(|(cost, span)| wrong("the cost", &cost.name, span));
        let ends = plan.ends.iter().map(|(name, span)| wrong("the end", name, span));
        // A state that holds it could not be restored.
        let kept = self.memory.iter().find(|x| !x.is_finite());
        let kept =
            kept.map(|x| format!("what before() or rate() is of is {x} in step {}", self.steps));
        rewards.chain(costs).chain(ends).flatten().next().or(kept)
    }
}

impl Env for OwnRobot {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, rng: &mut Rng, obs: &mut [f64]) {
        let task = self.task.clone();
        self.draw(rng);
        self.stand();
        let (mut qpos, mut qvel) =
            (self.physics.data.qpos().to_vec(), self.physics.data.qvel().to_vec());
        task.plan.noise.iter().for_each(|noise| noise.add(rng, &mut qpos, &mut qvel));
        self.physics.data.qpos_mut().copy_from_slice(&qpos);
        self.physics.data.qvel_mut().copy_from_slice(&qvel);
        self.begin();
        obs.copy_from_slice(task.plan.observation.of(&self.row));
    }

    fn step(&mut self, action: &[f32], obs: &mut [f64], costs: &mut [f64]) -> Step {
        let task = self.task.clone();
        let plan = &task.plan;
        assert_eq!(action.len(), plan.actuators.len(), "one action for each actuator");
        self.physics.note();
        for (i, &a) in action.iter().enumerate() {
            // What is not a number moves nothing.
            self.action[i] = if a.is_nan() { 0.0 } else { f64::from(a).clamp(-1.0, 1.0) };
            let (half, middle) = plan.scales[i];
            let control = middle + half * self.action[i];
            self.physics.data.ctrl_mut()[plan.actuators[i]] = control;
        }
        let unstable = !self.physics.advance();
        self.steps += 1;
        if unstable {
            self.physics.undo();
            self.physics.data.forward();
        }
        self.compute();
        plan.program.remember(&self.row, &mut self.memory);
        self.fault = self.find_fault();
        let reward: f64 = self.terms().map(|(_, value)| value).sum();
        for (cost, span) in costs.iter_mut().zip(&self.costs) {
            *cost = span.of(&self.row)[0];
        }
        obs.copy_from_slice(plan.observation.of(&self.row));
        self.ended = plan.ends.iter().position(|(_, span)| span.of(&self.row)[0] != 0.0);
        Step {
            reward: if unstable || self.fault.is_some() { 0.0 } else { reward },
            terminated: unstable || self.ended.is_some(),
            truncated: self.steps >= plan.steps,
            unstable,
        }
    }

    fn failure(&mut self) -> Option<String> {
        self.fault.clone()
    }

    /// With what was computed of it: the engine's own numbers lag behind its state, and could not be had again.
    fn capture(&self) -> Option<Vec<f64>> {
        let mut state = vec![self.steps as f64];
        state.extend(&self.drawn);
        state.extend(&self.memory);
        state.extend(self.task.plan.observation.of(&self.row));
        state.extend(self.physics.get());
        Some(state)
    }

    fn restore(&mut self, state: &[f64], obs: &mut [f64]) -> Result<(), StateError> {
        let parameters = self.task.plan.parameters.len();
        let sizes = [parameters, self.memory.len(), obs.len(), self.physics.len()];
        StateError::check("state", &self.task.name, state, 1 + sizes.iter().sum::<usize>())?;
        let (steps, rest) = state.split_at(1);
        let (drawn, rest) = rest.split_at(sizes[0]);
        let (memory, rest) = rest.split_at(sizes[1]);
        let (seen, physics) = rest.split_at(sizes[2]);
        self.steps = steps[0] as usize;
        self.drawn = drawn.to_vec();
        self.set_parameters();
        self.memory.copy_from_slice(memory);
        obs.copy_from_slice(seen);
        let observation = self.task.plan.observation;
        self.row[observation.start..observation.start + observation.len].copy_from_slice(seen);
        self.physics.set(physics);
        (self.ended, self.fault) = (None, None);
        Ok(())
    }
}
