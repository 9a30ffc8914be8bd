//! Training from Python: what the command does, in Python's environments or the robots.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cli::{Failure, Progress, Stop, View, environment};
use cmdp::Fault;
use ecrl::collect::stage::{MakeStage, Stage};
use ecrl::config::{Config, Layers};
use ecrl::metrics::{Record, Value};
use ecrl::trainer::{BoxError, TrainError, Trainer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::ThreadPool;
use robots::AnyTask;
use runs::driver::{DriveError, Observer, Options, Run};
use runs::grid::USUAL;
use runs::policy::Policy;
use runs::read;

use crate::env::value_error;
use crate::interrupt::{self, Listening};
use crate::place::{EnvError, Place};

/// How a run is begun or gone on with.
struct Stages<'a>(Option<&'a Place>, Option<AnyTask>);

impl MakeStage for Stages<'_> {
    fn stage(
        &mut self,
        config: &Config,
        pool: &Arc<ThreadPool>,
        running: usize,
    ) -> Result<Box<dyn Stage>, BoxError> {
        match (self.0, &self.1) {
            (Some(place), _) => place.stage(running),
            (None, Some(task)) => environment::make(task.clone()).stage(config, pool, running),
            (None, None) => Err("neither a task nor an environment is given".into()),
        }
    }
}

/// Shows what is written in Python's standard output, or wherever `show` puts it.
struct Shown {
    show: Option<Py<PyAny>>,
    text: Vec<u8>,
}

impl Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.show {
            Some(_) => self.text.write(bytes),
            None => io::stdout().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(show) = &self.show else { return io::stdout().flush() };
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.text)).into_owned();
        let shown = Python::attach(|py| show.bind(py).call1((text,)).map(|_| ()));
        shown.map_err(|error| io::Error::other(error.to_string()))
    }
}

/// Watches a run: shows how it goes and calls back.
struct Watch<'a> {
    progress: Progress<'a, Shown>,
    callback: Option<Py<PyAny>>,
    stop: Stop,
    /// Whether Ctrl-C is its to answer.
    listens: bool,
    /// What the callback, or showing something, raised.
    raised: Option<PyErr>,
}

impl Observer for Watch<'_> {
    fn progress(&mut self, steps: u64) {
        self.progress.progress(steps);
    }

    fn generation(&mut self, record: &Record, trainer: &Trainer) {
        self.progress.generation(record, trainer);
        let Some(callback) = &self.callback else { return };
        let told = Python::attach(|py| {
            let answer = callback.bind(py).call1((told(py, record)?,))?;
            Ok(answer.extract::<bool>().is_ok_and(|go_on| !go_on))
        });
        match told {
            Ok(false) => {}
            Ok(true) => self.stop.ask(),
            Err(error) => {
                self.raised.get_or_insert(error);
                self.stop.ask();
            }
        }
    }

    fn warning(&mut self, text: &str) {
        let warned = Python::attach(|py| {
            let warnings = py.import("warnings")?;
            warnings.call_method1(
                "warn",
                (text, py.get_type::<pyo3::exceptions::PyUserWarning>(), 2),
            )?;
            Ok(())
        });
        // Where warnings are errors.
        if let Err(error) = warned {
            self.raised.get_or_insert(error);
            self.stop.ask();
        }
    }

    fn should_stop(&self) -> bool {
        self.stop.asked() || (self.listens && interrupt::asked())
    }
}

/// A generation's numbers by their names.
fn told<'py>(py: Python<'py>, record: &Record) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (about, value) in record.iter() {
        match value {
            Value::Number(number) => dict.set_item(about.name, number)?,
            Value::Count(count) => dict.set_item(about.name, count)?,
            Value::Flag(flag) => dict.set_item(about.name, flag)?,
            Value::Numbers(numbers) => dict.set_item(about.name, numbers)?,
            Value::Text(text) => dict.set_item(about.name, text)?,
        }
    }
    Ok(dict)
}

/// The threads asked for, or all there are.
pub fn checked_threads(asked: Option<usize>) -> PyResult<usize> {
    let threads = asked.unwrap_or(Options::default().threads);
    match (1..=1024).contains(&threads) {
        true => Ok(threads),
        false => Err(value_error(format!("threads is {threads}; expected 1 to 1024"))),
    }
}

/// What all trainings take.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Driving {
    threads: Option<usize>,
    checkpoint_every: String,
    callback: Option<Py<PyAny>>,
    /// `quiet`, `lines`, `terminal` or `pages`.
    view: String,
    show: Option<Py<PyAny>>,
    /// Whether it runs in Python's main thread.
    main: bool,
}

impl Driving {
    fn options(&self) -> PyResult<Options> {
        let every = self.checkpoint_every.parse();
        let every = every.map_err(|error| value_error(format!("checkpoint_every is {error}")))?;
        let threads = checked_threads(self.threads)?;
        Ok(Options { threads, checkpoint_every: every, ..Options::default() })
    }

    /// Trains to the end, or until it is asked to stop.
    fn drive(self, py: Python, run: Run, place: Option<&Place>) -> PyResult<()> {
        let mut run = run;
        let view = match &self.view[..] {
            "quiet" => View::Quiet,
            "lines" => View::Lines,
            "terminal" => View::Terminal,
            _ => View::Pages,
        };
        let (stop, listens) = (Stop::default(), self.main);
        let mut shown = Shown { show: self.show, text: Vec::new() };
        let (trained, raised) = py.detach(|| {
            let progress = Progress::new(&run, view, stop.clone(), &mut shown);
            let (callback, stop) = (self.callback, stop.clone());
            let mut watch = Watch { progress, callback, stop, listens, raised: None };
            let trained = run.train(&mut watch);
            let early = watch.should_stop() || trained.is_err();
            watch.progress.finish(&mut run, early, false);
            (trained, watch.raised)
        });
        let interrupted = listens && interrupt::asked();
        let path = run.path().to_owned();
        // Workers take a moment to end.
        py.detach(|| drop(run));
        if let Err(error) = trained {
            let error = named(py, failed(py, error, place), &path);
            // A terminal's Ctrl-C may have reached what the environment is made of, too.
            let interrupt = interrupted.then(|| interrupt::raised(py));
            return Err(match interrupt {
                Some(interrupt) => {
                    interrupt.set_cause(py, Some(error));
                    interrupt
                }
                None => error,
            });
        }
        match raised {
            Some(error) => Err(error),
            None if interrupted => Err(interrupt::raised(py)),
            None => Ok(()),
        }
    }
}

/// Why a run cannot start or go on, as Python sees it.
pub fn failed(py: Python, error: DriveError, place: Option<&Place>) -> PyErr {
    match (error, place) {
        (DriveError::Train(TrainError::Fault(fault)), place) => {
            let message = match &fault {
                Fault::Failed { error, .. } => error.clone(),
                Fault::NotFinite(_) => fault.to_string(),
            };
            match place {
                Some(place) => place.error(py, message),
                None => EnvError::new_err(message),
            }
        }
        (DriveError::Train(TrainError::Env(error)), place) => match error.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(error) => match (error.downcast::<Failure>(), place) {
                (Ok(failure), _) => value_error(failure),
                (Err(error), Some(place)) => place.error(py, error.to_string()),
                (Err(error), None) => EnvError::new_err(error.to_string()),
            },
        },
        (error, _) => failure(error.into()),
    }
}

/// A failure of the command as an exception.
pub fn failure(failure: Failure) -> PyErr {
    match failure.code {
        2 => PyValueError::new_err(failure.message),
        _ => pyo3::exceptions::PyRuntimeError::new_err(failure.message),
    }
}

/// Why a run could not begin; where Ctrl-C was pressed meanwhile, that is why.
fn begun(py: Python, error: DriveError, place: Option<&Place>) -> PyErr {
    if interrupt::asked() { interrupt::raised(py) } else { failed(py, error, place) }
}

/// What a new run is made of.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Asked {
    algorithm: String,
    /// A robot; none where a place is given.
    task: Option<String>,
    constraints: Option<Vec<String>>,
    steps: Option<i64>,
    seed: Option<i64>,
    preset: Option<String>,
    config: Option<PathBuf>,
    /// As `key=value`.
    values: Vec<String>,
    until: Vec<String>,
    start: Option<PathBuf>,
    out: Option<PathBuf>,
    force: bool,
}

/// Begins a run and trains it; returns its folder.
#[pyfunction]
pub fn train(
    py: Python,
    asked: Asked,
    place: Option<Bound<Place>>,
    driving: Driving,
) -> PyResult<PathBuf> {
    let place = place.as_ref().map(|place| place.get());
    let mut layers = Layers::default();
    if place.is_none() {
        layers.set("constraints", vec![USUAL.to_owned()]);
    }
    let config_error = |error: ecrl::config::ConfigError| value_error(error);
    if let Some(path) = &asked.config {
        let named =
            |error: &dyn std::fmt::Display| value_error(format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| named(&e))?;
        layers.file(&path.display().to_string(), &text).map_err(config_error)?;
    }
    layers.set("algorithm", asked.algorithm.as_str());
    for (key, number) in [("steps", asked.steps), ("seed", asked.seed)] {
        if let Some(number) = number {
            layers.set(key, number);
        }
    }
    if let Some(constraints) = &asked.constraints {
        layers.set("constraints", constraints.clone());
    }
    if let Some(preset) = &asked.preset {
        layers.preset(preset);
    }
    if !asked.until.is_empty() {
        layers.set("test.until", asked.until.clone());
    }
    for assignment in &asked.values {
        layers.assign(assignment).map_err(config_error)?;
    }
    let mut config = layers.build().map_err(config_error)?;
    let mut robot = None;
    match (place, &asked.task) {
        (Some(place), _) => {
            config.task.clone_from(&place.description.name);
            config.constraints.clone_from(&place.description.constraints);
            let interface = serde_json::to_string(&place.description.interface);
            config.environment = interface.map_err(value_error)?;
        }
        (None, Some(task)) => {
            config.task.clone_from(task);
            // What is in a file of another run's is none of the robot's.
            config.environment.clear();
            robot = Some(environment::resolve(&mut config, None).map_err(failure)?);
        }
        (None, None) => return Err(value_error("neither a task nor an environment is given")),
    }
    let mut options = driving.options()?;
    options.force = asked.force;
    let source = asked.task.as_deref().unwrap_or_default();
    options.task = robot.as_ref().and_then(|task| environment::copy(task, source));
    let start = asked.start.as_deref().map(Policy::open).transpose();
    options.start = start.map_err(|error| value_error(error.to_string()))?;
    let name = format!("{}-{}-{}", config.task, config.algorithm, config.seed).replace('/', "-");
    let out = asked.out.unwrap_or_else(|| PathBuf::from("runs").join(name));
    // Wherever the program goes meanwhile.
    let out = std::path::absolute(out).map_err(value_error)?;
    let _listening = driving.main.then(Listening::begin);
    let run = py.detach(|| Run::create(config, &out, &options, Stages(place, robot)));
    let run = run.map_err(|error| begun(py, error, place))?;
    let path = run.path().to_owned();
    driving.drive(py, run, place)?;
    Ok(path)
}

/// Names the run with an exception of its environment: it can be gone on with.
fn named(py: Python, error: PyErr, run: &Path) -> PyErr {
    if error.is_instance_of::<EnvError>(py) {
        let _ = error.value(py).setattr("run", run.as_os_str());
    }
    error
}

/// Goes on with a run.
#[pyfunction]
#[pyo3(signature = (run, steps, changes, place, driving))]
pub fn resume(
    py: Python,
    run: PathBuf,
    steps: Option<u64>,
    changes: Vec<String>,
    place: Option<Bound<Place>>,
    driving: Driving,
) -> PyResult<()> {
    let place = place.as_ref().map(|place| place.get());
    let run = std::path::absolute(run).map_err(value_error)?;
    let mut options = driving.options()?;
    options.set = changes;
    let _listening = driving.main.then(Listening::begin);
    let robot = match place {
        Some(_) => None,
        None => {
            let config = read::config(&run).map_err(|error| failure(error.into()))?;
            Some(environment::of_run(&run, &config).map_err(failure)?)
        }
    };
    let resumed = py.detach(|| Run::resume(&run, steps, &options, Stages(place, robot)));
    let resumed = resumed.map_err(|error| begun(py, error, place))?;
    driving.drive(py, resumed, place)
}
