//! A trained policy, for Python.

use std::path::{Path, PathBuf};

use cli::{Failure, environment};
use cmdp::Env;
use ecrl::collect::episodes::Choice;
use ecrl::evaluate::{Evaluation, evaluate, evaluate_on};
use ecrl::trainer::TrainError;
use nets::{Tape, categorical, gaussian};
use numpy::{PyArray2, PyArrayMethods as _, PyReadonlyArray2, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rand::RngExt as _;
use robots::AnyTask;
use runs::output::put;
use runs::{export, policy, read};

use crate::env::value_error;
use crate::interrupt::{self, Listening};
use crate::place::Place;
use crate::train::{checked_threads, failed, failure};

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
    /// Python's, or as the robot it moves: of its own run, or of a task's file. `main` says whether this is Python's main thread.
    #[pyo3(signature = (place, constraints, episodes, seed, threads, main, task=None))]
    #[allow(clippy::too_many_arguments)] // by name in Python
    fn evaluate(
        &self,
        py: Python,
        place: Option<Bound<Place>>,
        constraints: Option<Vec<String>>,
        episodes: usize,
        seed: u64,
        threads: Option<usize>,
        main: bool,
        task: Option<PathBuf>,
    ) -> PyResult<String> {
        let place = place.as_ref().map(|place| place.get());
        let threads = checked_threads(threads)?;
        let constraints = constraints.as_ref().unwrap_or(&self.0.about.constraints);
        let robot = match place {
            Some(_) => None,
            None => Some(self.robot_of(task.as_deref()).map_err(failure)?),
        };
        let mut told = serde_json::Map::new();
        let _listening = main.then(Listening::at_once);
        let mut feasible = true;
        for (name, choice) in [("mean_action", Choice::Mean), ("sampled_actions", Choice::Sample)] {
            let result = py.detach(|| match (place, &robot) {
                (Some(place), _) => self.play_in(place, episodes, seed, choice),
                (None, Some(task)) => {
                    self.play_robot(task, constraints, threads, episodes, seed, choice)
                }
                (None, None) => unreachable!("one of them is there"),
            });
            if main && interrupt::insisted() {
                return Err(interrupt::raised(py));
            }
            let result = result.map_err(|error| failed(py, error.into(), place))?;
            feasible &= result.feasible;
            told.insert(name.into(), serde_json::to_value(result).map_err(value_error)?);
        }
        told.insert("feasible".into(), feasible.into());
        serde_json::to_string(&told).map_err(value_error)
    }
}

impl Policy {
    fn play_in(
        &self,
        place: &Place,
        episodes: usize,
        seed: u64,
        choice: Choice,
    ) -> Result<Evaluation, TrainError> {
        let (actor, mut stage) = (&self.0.actor, place.stage(0).map_err(TrainError::Env)?);
        let (sizes, spec) = (actor.sizes(), stage.spec());
        if [spec.observation, spec.outputs()] != [sizes[0], sizes[sizes.len() - 1]] {
            let text = "the environment's observations or actions are not the policy's";
            return Err(TrainError::Env(value_error(text).into()));
        }
        evaluate_on(actor, &mut *stage, episodes, seed, choice)
    }

    /// The task that it acts in: of the run in a folder, of a file, or the built-in one that it names.
    fn robot_of(&self, task: Option<&Path>) -> Result<AnyTask, Failure> {
        let about = &self.0.about;
        match task {
            Some(run) if run.is_dir() => environment::of_run(run, &read::config(run)?),
            _ => {
                let file = task.map(|task| task.display().to_string());
                environment::of_policy(about, "the policy".as_ref(), file.as_deref())
            }
        }
    }

    fn play_robot(
        &self,
        task: &AnyTask,
        constraints: &[String],
        threads: usize,
        episodes: usize,
        seed: u64,
        choice: Choice,
    ) -> Result<Evaluation, TrainError> {
        let robot = |_| -> Result<Box<dyn Env>, TrainError> {
            let robot = environment::robot(task, constraints);
            Ok(robot.map_err(|error| TrainError::Env(error.into()))?)
        };
        let envs = (0..threads).map(robot).collect::<Result<Vec<_>, _>>()?;
        evaluate(&self.0.actor, envs, episodes, seed, choice)
    }
}
