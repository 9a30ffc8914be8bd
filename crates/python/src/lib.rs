//! `ecrl._ecrl`: what Python's package calls. What a user sees is in `python/ecrl`.

mod convert;
mod crew;
mod env;
mod held;
mod here;
mod interrupt;
mod lanes;
mod place;
mod player;
mod policy;
mod robots;
mod train;
mod workers;

use std::ffi::OsString;
use std::path::PathBuf;

use ecrl::algorithms::{self, ALGORITHMS};
use ecrl::config::{Config, Layers};
use pyo3::prelude::*;
use pyo3::types::PyModule;
use report::Report;
use serde_json::json;

use env::value_error;

/// Runs the `ecrl` command; `program` is how another process does. Returns its exit code.
#[pyfunction]
fn command(py: Python, arguments: Vec<OsString>, program: Vec<OsString>) -> u8 {
    py.detach(|| cli::command(arguments, Some(program)))
}

/// The tasks, as JSON.
#[pyfunction]
fn tasks() -> String {
    cli::tasks_json().to_string()
}

/// The algorithms with all that they have, as JSON.
#[pyfunction]
fn algorithms_json() -> PyResult<String> {
    let all: PyResult<Vec<_>> = ALGORITHMS
        .iter()
        .map(|row| {
            let entry = |name: &str, help: &str| (name.to_owned(), help.into());
            let presets = row.presets().iter().map(|preset| entry(preset.name, preset.help));
            let metrics = row.metrics().into_iter().map(|about| entry(about.name, about.help));
            Ok(json!({
                "name": row.name(),
                "description": row.description(),
                "choices": row.takes_choices(),
                "running": Config::new(row.name()).map_err(value_error)?.running() > 0,
                "values": row.defaults(),
                "presets": presets.collect::<serde_json::Map<_, _>>(),
                "metrics": metrics.collect::<serde_json::Map<_, _>>(),
            }))
        })
        .collect();
    Ok(json!(all?).to_string())
}

/// Whether there is an algorithm of that name; else what may have been meant.
#[pyfunction]
fn find_algorithm(name: &str) -> PyResult<()> {
    algorithms::find(name).map(|_| ()).map_err(value_error)
}

/// A run's configuration, as JSON.
#[pyfunction]
fn config(run: PathBuf) -> PyResult<String> {
    let config = runs::read::config(&run).map_err(value_error)?;
    serde_json::to_string(&config).map_err(value_error)
}

/// The constraints that a configuration file names.
#[pyfunction]
fn constraints_in(file: PathBuf) -> PyResult<Vec<String>> {
    let named = |error: &dyn std::fmt::Display| value_error(format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(&file).map_err(|e| named(&e))?;
    let mut layers = Layers::default();
    layers.file(&file.display().to_string(), &text).map_err(value_error)?;
    Ok(layers.build().map_err(value_error)?.constraints)
}

/// Makes a report of runs; returns what there is to note.
#[pyfunction]
fn write_report(
    py: Python,
    runs: Vec<PathBuf>,
    out: PathBuf,
    deviation: bool,
) -> PyResult<Vec<String>> {
    let band = match deviation {
        true => report::curves::Band::Deviation,
        false => report::curves::Band::Bootstrap,
    };
    let made = py.detach(|| -> Result<Vec<String>, cli::Failure> {
        let report = Report::new(&runs, band)?;
        report.write(&out)?;
        Ok(report.notes)
    });
    made.map_err(train::failure)
}

#[pymodule]
fn _ecrl(module: &Bound<PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("EnvError", module.py().get_type::<place::EnvError>())?;
    module.add_class::<held::Held>()?;
    module.add_class::<place::Place>()?;
    module.add_class::<player::Player>()?;
    module.add_class::<policy::Policy>()?;
    module.add_class::<robots::Robots>()?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    module.add_function(wrap_pyfunction!(tasks, module)?)?;
    module.add_function(wrap_pyfunction!(algorithms_json, module)?)?;
    module.add_function(wrap_pyfunction!(find_algorithm, module)?)?;
    module.add_function(wrap_pyfunction!(config, module)?)?;
    module.add_function(wrap_pyfunction!(constraints_in, module)?)?;
    module.add_function(wrap_pyfunction!(write_report, module)?)?;
    module.add_function(wrap_pyfunction!(train::train, module)?)?;
    module.add_function(wrap_pyfunction!(train::resume, module)?)?;
    module.add_function(wrap_pyfunction!(workers::work, module)?)?;
    Ok(())
}
