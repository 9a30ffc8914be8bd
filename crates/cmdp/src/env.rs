//! The environment: what an algorithm may know about a task.

use serde::{Deserialize, Serialize};

use crate::{Constraint, Rng};

/// What an algorithm needs to know of a task before it starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvSpec {
    /// The task's name, as typed on the command line.
    pub name: String,
    /// Entries in an observation.
    pub observation: usize,
    /// Entries in an action. Each is meant to lie in [-1, 1]; the task clips what does not.
    pub action: usize,
    /// Where an action is one of several: how many. The action has one entry then, the number of what
    /// was chosen, from 0 on.
    pub choices: Option<usize>,
    /// The time limit: the step after which an episode is truncated.
    pub max_steps: usize,
    /// The constraints in force; a step writes one cost for each, in this order.
    pub constraints: Vec<Constraint>,
}

impl EnvSpec {
    /// The numbers that a policy makes of an observation: a mean and a deviation for each entry of an
    /// action, or a score for each choice.
    pub fn outputs(&self) -> usize {
        self.choices.unwrap_or(2 * self.action)
    }

    /// Names the first number that is not finite, or will not be as f32, of what a step brought.
    pub fn verify(&self, obs: &[f64], reward: f64, costs: &[f64]) -> Result<(), NotFinite> {
        let refuse = |what: String, value: f64| match (value as f32).is_finite() {
            true => Ok(()),
            false => Err(NotFinite { task: self.name.clone(), what, value }),
        };
        refuse("the reward".into(), reward)?;
        for (constraint, cost) in self.constraints.iter().zip(costs) {
            refuse(format!("the cost '{}'", constraint.name), *cost)?;
        }
        obs.iter().enumerate().try_for_each(|(i, x)| refuse(format!("observation[{i}]"), *x))
    }
}

/// Why an environment's episode cannot be learnt from.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
pub enum Fault {
    /// It brought a number that is not finite.
    #[error(transparent)]
    NotFinite(#[from] NotFinite),
    /// It has broken down itself.
    #[error("{task} failed: {error}")]
    Failed {
        /// The task.
        task: String,
        /// What it says.
        error: String,
    },
}

/// A number of an environment that nobody can learn from.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[error("{what} of {task} is {value:?}; expected a finite number")]
pub struct NotFinite {
    /// The task.
    pub task: String,
    /// Which number.
    pub what: String,
    /// The number.
    pub value: f64,
}

/// What one step brought.
///
/// `terminated` and `truncated` are separate facts and may both be true: only `terminated` says
/// that no reward can follow, and so only it stops bootstrapping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The reward, always finite.
    pub reward: f64,
    /// The task ended here.
    pub terminated: bool,
    /// The time limit was reached.
    pub truncated: bool,
    /// The simulation broke down: the step was undone, earned nothing and terminated the episode.
    pub unstable: bool,
}

impl Step {
    /// Whether the episode is over, for whichever reason.
    pub fn is_last(&self) -> bool {
        self.terminated || self.truncated
    }
}

/// A constrained Markov decision problem.
///
/// All randomness comes from the generator handed to [`reset`](Env::reset): the same generator and
/// the same actions give the same bits. Slices have the lengths the [`EnvSpec`] states; others are
/// a programming error and panic.
pub trait Env: Send {
    /// Sizes, time limit and constraints.
    fn spec(&self) -> &EnvSpec;

    /// Starts an episode and writes its first observation.
    fn reset(&mut self, rng: &mut Rng, obs: &mut [f64]);

    /// Takes one step; writes the observation after it and its cost for every constraint.
    ///
    /// Stepping on past the end of an episode is allowed. Whatever the action, what comes back is
    /// finite: what lies outside [-1, 1] is clipped, and what is not a number is taken for something
    /// that is, or ends the episode as unstable.
    fn step(&mut self, action: &[f32], obs: &mut [f64], costs: &mut [f64]) -> Step;

    /// Why it cannot go on, if that is so: asked after every reset and step, and the run ends. What
    /// came of that step does not count.
    fn failure(&mut self) -> Option<String> {
        None
    }

    /// The whole state, at any point of an episode, for [`restore`](Env::restore); `None` where the
    /// task cannot tell it. A run of an algorithm that pauses within episodes then begins them anew
    /// when it is resumed, and says so.
    fn capture(&self) -> Option<Vec<f64>> {
        None
    }

    /// Goes back to a captured state and writes its observation; from there on, the same actions
    /// give the same bits. A state that does not fit changes nothing.
    fn restore(&mut self, state: &[f64], obs: &mut [f64]) -> Result<(), StateError> {
        let (_, _) = (state, obs);
        Err(StateError::NotCaptured { task: self.spec().name.clone() })
    }
}

/// A state that cannot be restored.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StateError {
    /// The task cannot go back to a state.
    #[error("{task} cannot be restored: expected a task that captures its state")]
    NotCaptured {
        /// The task.
        task: String,
    },
    /// The task could not go back to it.
    #[error("{task} cannot go back to its state: {error}")]
    Refused {
        /// The task.
        task: String,
        /// What it says.
        error: String,
    },
    /// The state has another length than this task's.
    #[error("{what} has {got} numbers; {task} expects {expected}")]
    Length {
        /// Which part of the state.
        what: &'static str,
        /// The task that refused it.
        task: String,
        /// How many numbers came.
        got: usize,
        /// How many were expected.
        expected: usize,
    },
    /// The state holds a number it cannot hold.
    #[error("{what}[{index}] is {value}; {task} expects {expected}")]
    Value {
        /// Which part of the state.
        what: &'static str,
        /// The task that refused it.
        task: String,
        /// Where in that part.
        index: usize,
        /// The number found there.
        value: f64,
        /// What was expected.
        expected: &'static str,
    },
}

impl StateError {
    /// Checks that `numbers` are `expected` many and all finite.
    pub fn check(
        what: &'static str,
        task: &str,
        numbers: &[f64],
        expected: usize,
    ) -> Result<(), Self> {
        if numbers.len() != expected {
            return Err(Self::Length { what, task: task.into(), got: numbers.len(), expected });
        }
        match numbers.iter().position(|x| !x.is_finite()) {
            None => Ok(()),
            Some(index) => Err(Self::Value {
                what,
                task: task.into(),
                index,
                value: numbers[index],
                expected: "a finite number",
            }),
        }
    }
}
