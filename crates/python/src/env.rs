//! A Python environment as one of this program's.

use std::sync::{Arc, Mutex};

use cmdp::{Constraint, Env, EnvSpec, Rng, StateError, Step};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use rand::Rng as _;
use runs::interface::{Action, Interface, Part};
use serde::Deserialize;

use crate::convert::{Actions, Costs, Parts, flag, kind, number, wrong};
use crate::place::EnvError;

/// The last exception of an environment, for whoever raises it again.
pub type Raised = Arc<Mutex<Option<PyErr>>>;

/// What Python tells of an environment.
#[derive(Debug, Clone, Deserialize)]
pub struct Description {
    /// The task's name.
    pub name: String,
    /// The constraints, written out.
    pub constraints: Vec<String>,
    /// The time limit, as far as it is known.
    pub max_steps: usize,
    /// Whether that is not known: an episode beyond it is then an error.
    pub endless: bool,
    /// What it shows.
    pub interface: Interface,
}

impl Description {
    /// What an algorithm needs to know of it.
    pub fn spec(&self) -> PyResult<EnvSpec> {
        let Interface { observation, action, .. } = &self.interface;
        let constraints: Result<Vec<Constraint>, _> =
            self.constraints.iter().map(|text| text.parse()).collect();
        Ok(EnvSpec {
            name: self.name.clone(),
            observation: observation.iter().map(size).sum(),
            action: match action {
                Action::Box { low, .. } => low.len(),
                Action::Discrete { .. } => 1,
            },
            choices: action.choices(),
            max_steps: self.max_steps,
            constraints: constraints.map_err(value_error)?,
        })
    }
}

/// The numbers of a part.
fn size(part: &Part) -> usize {
    part.shape.iter().product()
}

pub fn value_error(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// One Python environment.
pub struct PyEnv {
    spec: EnvSpec,
    parts: Parts,
    actions: Actions,
    costs: Costs,
    step: Py<PyAny>,
    reset: Py<PyAny>,
    adapter: Py<PyAny>,
    /// Tells and takes a state, where the environment can.
    state: Option<Py<PyAny>>,
    endless: bool,
    steps: usize,
    begun: bool,
    /// What was observed last, where a state is told with it.
    seen: Vec<f64>,
    failure: Option<String>,
    raised: Raised,
}

impl PyEnv {
    /// From what `_environment.Adapter` tells.
    pub fn new(adapter: &Bound<PyAny>, raised: Raised) -> PyResult<Self> {
        let text: String = adapter.getattr("description")?.extract()?;
        let description: Description = serde_json::from_str(&text).map_err(value_error)?;
        let (py, env) = (adapter.py(), adapter.getattr("env")?);
        let spec = description.spec()?;
        let state = adapter.getattr("state")?;
        Ok(Self {
            parts: Parts::new(py, &description.interface.observation),
            actions: Actions::new(py, &description.interface.action)?,
            costs: Costs::new(py, &spec.constraints),
            step: env.getattr("step")?.unbind(),
            reset: env.getattr("reset")?.unbind(),
            adapter: adapter.clone().unbind(),
            state: (!state.is_none()).then(|| state.unbind()),
            endless: description.endless,
            spec,
            steps: 0,
            begun: false,
            seen: Vec::new(),
            failure: None,
            raised,
        })
    }

    /// Takes note of what was raised; nothing is asked of the environment any more.
    fn fail(&mut self, py: Python, error: PyErr) {
        if self.failure.is_none() {
            self.failure = Some(told(py, &error));
            self.raised.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
        }
    }

    fn see(&mut self, obs: &[f64]) {
        if self.state.is_some() {
            self.seen.clear();
            self.seen.extend_from_slice(obs);
        }
    }

    fn try_reset(&mut self, py: Python, seed: u32, obs: &mut [f64]) -> PyResult<()> {
        let keywords = PyDict::new(py);
        keywords.set_item(pyo3::intern!(py, "seed"), seed)?;
        let result = self.reset.bind(py).call((), Some(&keywords))?;
        let pair = result.cast::<PyTuple>().ok().filter(|pair| pair.len() == 2);
        let pair = pair.ok_or_else(|| {
            wrong(format!("reset returned {}; expected (observation, info)", kind(&result)))
        })?;
        self.parts.read(&pair.get_item(0)?, obs)
    }

    fn try_step(
        &mut self,
        py: Python,
        action: &[f32],
        obs: &mut [f64],
        costs: &mut [f64],
    ) -> PyResult<Step> {
        let action = self.actions.array(py, action)?;
        let result = self.step.bind(py).call1((action,))?;
        let tuple = result.cast::<PyTuple>().ok().filter(|t| matches!(t.len(), 5 | 6));
        let tuple = tuple.ok_or_else(|| {
            wrong(format!(
                "step returned {}; expected (observation, reward, terminated, truncated, info), or with a \
                 cost after the reward",
                kind(&result)
            ))
        })?;
        // Safety-Gymnasium's steps have the cost behind the reward.
        let own_cost = if tuple.len() == 6 { Some(tuple.get_item(2)?) } else { None };
        let rest = tuple.len() - 3;
        self.parts.read(&tuple.get_item(0)?, obs)?;
        self.costs.read(&tuple.get_item(rest + 2)?, own_cost.as_ref(), costs)?;
        Ok(Step {
            reward: number(&tuple.get_item(1)?, "the reward")?,
            terminated: flag(&tuple.get_item(rest)?, "terminated")?,
            truncated: flag(&tuple.get_item(rest + 1)?, "truncated")?,
            unstable: false,
        })
    }
}

impl Env for PyEnv {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, rng: &mut Rng, obs: &mut [f64]) {
        let seed = rng.next_u32();
        (self.steps, self.begun) = (0, true);
        if self.failure.is_none() {
            Python::attach(|py| {
                if let Err(error) = self.try_reset(py, seed, obs) {
                    self.fail(py, error);
                }
            });
        }
        self.see(obs);
    }

    fn step(&mut self, action: &[f32], obs: &mut [f64], costs: &mut [f64]) -> Step {
        let over = Step { reward: 0.0, terminated: true, truncated: false, unstable: false };
        if self.failure.is_some() {
            return over;
        }
        self.steps += 1;
        let mut step = Python::attach(|py| {
            self.try_step(py, action, obs, costs).unwrap_or_else(|error| {
                self.fail(py, error);
                over
            })
        });
        self.see(obs);
        if self.steps >= self.spec.max_steps && !step.is_last() {
            step.truncated = true;
            if self.endless {
                let error = wrong(format!(
                    "an episode has not ended after {} steps; expected max_episode_steps= to be given, or an \
                     environment with a time limit",
                    self.steps
                ));
                Python::attach(|py| self.fail(py, error));
            }
        }
        step
    }

    fn failure(&mut self) -> Option<String> {
        self.failure.clone()
    }

    fn capture(&self) -> Option<Vec<f64>> {
        let state = self.state.as_ref().filter(|_| self.begun && self.failure.is_none())?;
        // Where it cannot, Python says why, once.
        let text: Option<String> = Python::attach(|py| {
            let text = state.bind(py).call_method0("dump").ok()?;
            text.extract().ok()?
        });
        let text = text?;
        let mut numbers = vec![self.steps as f64];
        numbers.extend(&self.seen);
        numbers.extend(packed(text.as_bytes()));
        Some(numbers)
    }

    fn restore(&mut self, state: &[f64], obs: &mut [f64]) -> Result<(), StateError> {
        let task = self.spec.name.clone();
        let refused = |task: &str| StateError::NotCaptured { task: task.into() };
        let own = self.state.as_ref().ok_or_else(|| refused(&task))?;
        let (steps, rest) = state.split_first().ok_or_else(|| refused(&task))?;
        let (seen, rest) = rest.split_at_checked(obs.len()).ok_or_else(|| refused(&task))?;
        let text = String::from_utf8(unpacked(rest)).map_err(|_| refused(&task))?;
        Python::attach(|py| own.bind(py).call_method1("load", (text,)).map(|_| ()))
            .map_err(|error| StateError::Refused { task, error: error.to_string() })?;
        obs.copy_from_slice(seen);
        self.see(seen);
        (self.steps, self.begun) = (*steps as usize, true);
        Ok(())
    }
}

impl Drop for PyEnv {
    fn drop(&mut self) {
        close(&self.adapter);
    }
}

/// Closes what we have made, when nobody plays in it any more.
pub fn close(adapter: &Py<PyAny>) {
    // None where the interpreter ends; and what a close raises is nobody's business any more.
    Python::try_attach(|py| adapter.bind(py).call_method0("close").is_ok());
}

/// Text as numbers, four bytes each: a number of f64 holds them whatever it goes through.
fn packed(bytes: &[u8]) -> impl Iterator<Item = f64> {
    let fours = bytes.chunks(4).map(|four| {
        let mut whole = [0; 4];
        whole[..four.len()].copy_from_slice(four);
        f64::from(u32::from_le_bytes(whole))
    });
    [bytes.len() as f64].into_iter().chain(fours)
}

fn unpacked(numbers: &[f64]) -> Vec<u8> {
    let Some((length, fours)) = numbers.split_first() else { return Vec::new() };
    let mut bytes: Vec<u8> = fours.iter().flat_map(|x| (*x as u32).to_le_bytes()).collect();
    bytes.truncate(*length as usize);
    bytes
}

/// An exception in one line, and below it the traceback.
pub fn told(py: Python, error: &PyErr) -> String {
    let trace = error.traceback(py);
    let full = py.import("traceback").and_then(|module| {
        let what = (error.get_type(py), error.value(py), &trace);
        let lines = module.call_method1("format_exception", what)?;
        PyString::new(py, "").call_method1("join", (lines,))?.extract::<String>()
    });
    // What we raise ourselves says it all.
    let (summary, full) = match error.is_instance_of::<EnvError>(py) {
        true => (error.value(py).to_string(), String::new()),
        false => (error.to_string(), full.unwrap_or_default()),
    };
    format!("{}\n{full}", summary.replace('\n', " "))
}
