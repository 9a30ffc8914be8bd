//! A trained policy, for Python.

use std::path::PathBuf;

use cli::environment;
use cmdp::Env;
use ecrl::collect::episodes::Choice;
use ecrl::collect::stage::Stage;
use ecrl::evaluate::{evaluate, evaluate_on};
use nets::{Tape, categorical, gaussian};
use numpy::{PyArray2, PyArrayMethods as _, PyReadonlyArray2, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rand::RngExt as _;
use runs::output::put;
use runs::{export, policy};

use crate::env::value_error;
use crate::train::{EnvError, Place, failure};

/// Observations that go through the network at once.
const ROWS: usize = 256;

/// A policy: rows of numbers to rows of numbers.
#[pyclass(frozen, module = "ecrl._ecrl")]
pub struct Policy(policy::Policy);

#[pymethods]
impl Policy {
    /// Reads a file.
    #[staticmethod]
    fn open(path: PathBuf) -> PyResult<Self> {
        policy::Policy::open(&path).map(Self).map_err(value_error)
    }

    /// Reads the bytes of a file.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        policy::Policy::from_bytes(bytes, "policy".as_ref()).map(Self).map_err(value_error)
    }

    /// The file's content.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    /// Where it comes from and how it did, as JSON.
    fn about(&self) -> PyResult<String> {
        serde_json::to_string(&self.0.about).map_err(value_error)
    }

    /// The sizes of its layers.
    fn sizes(&self) -> Vec<usize> {
        self.0.actor.sizes().to_vec()
    }

    /// The actions for rows of observations, in [-1, 1] or as numbers of choices: its mean action, or
    /// with a seed sampled ones.
    #[pyo3(signature = (observations, seed=None))]
    fn act<'py>(
        &self,
        py: Python<'py>,
        observations: PyReadonlyArray2<'py, f32>,
        seed: Option<u64>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (rows, width) = (observations.shape()[0], observations.shape()[1]);
        let net = &self.0.actor;
        if width != net.sizes()[0] {
            let text = format!("an observation has {width} numbers; expected {}", net.sizes()[0]);
            return Err(value_error(text));
        }
        let input = observations.as_slice()?;
        let (count, choices) = (self.0.actions(), self.0.choices());
        let mut rng = seed.map(|seed| cmdp::rng([seed, 0, 0, 0]));
        let actions = py.detach(|| {
            let mut actions = vec![0.0; rows * count];
            let mut tape = Tape::new(net, rows.clamp(1, ROWS));
            let outputs = net.sizes()[net.sizes().len() - 1];
            for (input, out) in input.chunks(width * ROWS).zip(actions.chunks_mut(count * ROWS)) {
                net.forward(input, &mut tape);
                for (head, action) in
                    tape.output().chunks_exact(outputs).zip(out.chunks_exact_mut(count))
                {
                    match (&mut rng, choices) {
                        (None, None) => gaussian::act(head, None, action),
                        (Some(rng), None) => {
                            let noise: Vec<f32> = (0..count)
                                .map(|_| rng.sample(rand_distr::StandardNormal))
                                .collect();
                            gaussian::act(head, Some(&noise), action);
                        }
                        (None, Some(_)) => action[0] = categorical::best(head) as f32,
                        (Some(rng), Some(_)) => {
                            action[0] = categorical::sample(head, rng.random()) as f32;
                        }
                    }
                }
            }
            actions
        });
        numpy::PyArray1::from_vec(py, actions).reshape([rows, count])
    }

    /// Writes it for other programs.
    fn export(&self, path: PathBuf, format: &str) -> PyResult<()> {
        let bytes = match format {
            "onnx" => export::onnx(&self.0),
            "json" => export::json(&self.0).into_bytes(),
            "safetensors" => self.0.to_bytes(),
            other => {
                let text = format!("the format is '{other}'; expected onnx, json or safetensors");
                return Err(value_error(text));
            }
        };
        put(&path, &bytes, export::is_ours).map_err(|error| failure(error.into()))
    }

    /// What it is worth: episodes with its mean action and with sampled ones, as JSON; in a place of
    /// Python's, or as the robot it moves.
    #[pyo3(signature = (place, constraints, episodes, seed, threads=None))]
    fn evaluate(
        &self,
        py: Python,
        place: Option<Bound<Place>>,
        constraints: Option<Vec<String>>,
        episodes: usize,
        seed: u64,
        threads: Option<usize>,
    ) -> PyResult<String> {
        let actor = &self.0.actor;
        let faces = [("mean_action", Choice::Mean), ("sampled_actions", Choice::Sample)];
        let mut told = serde_json::Map::new();
        let place = place.as_ref().map(|place| place.get());
        let mut stage: Option<Box<dyn Stage>> = match place {
            Some(place) => {
                let stage = place.stage(0).map_err(|e| match e.downcast::<PyErr>() {
                    Ok(raised) => *raised,
                    Err(error) => EnvError::new_err(error.to_string()),
                })?;
                let (own, net) = (stage.spec(), actor.sizes());
                let expected = [net[0], net[net.len() - 1]];
                if [own.observation, own.outputs()] != expected {
                    let text = "the environment's observations or actions are not the policy's";
                    return Err(value_error(text));
                }
                Some(stage)
            }
            None => None,
        };
        let mut feasible = true;
        for (name, choice) in faces {
            let result = py.detach(|| match &mut stage {
                Some(stage) => evaluate_on(actor, &mut **stage, episodes, seed, choice),
                None => {
                    let about = &self.0.about;
                    let constraints = constraints.as_ref().unwrap_or(&about.constraints);
                    let usual = std::thread::available_parallelism().map_or(1, usize::from);
                    let robot = |_| -> Result<Box<dyn Env>, ecrl::trainer::TrainError> {
                        let robot = environment::robot(&about.task, constraints);
                        let robot = robot.map_err(|e| ecrl::trainer::TrainError::Env(e.into()))?;
                        Ok(Box::new(robot))
                    };
                    let envs =
                        (0..threads.unwrap_or(usual)).map(robot).collect::<Result<Vec<_>, _>>()?;
                    evaluate(actor, envs, episodes, seed, choice)
                }
            });
            let result = result.map_err(|error| crate::train::failed(py, error.into(), place))?;
            feasible &= result.feasible;
            told.insert(name.into(), serde_json::to_value(result).map_err(value_error)?);
        }
        told.insert("feasible".into(), feasible.into());
        serde_json::to_string(&told).map_err(value_error)
    }
}
