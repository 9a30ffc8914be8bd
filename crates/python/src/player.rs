//! A player on another machine: a stage of a robot that answers a training's requests.

use std::sync::Mutex;

use ecrl::collect::remote::serve;
use ecrl::collect::stage::Stage;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::env::value_error;

/// Plays for a training elsewhere.
#[pyclass(frozen)]
pub struct Player(Mutex<Box<dyn Stage>>);

#[pymethods]
impl Player {
    #[new]
    fn new(made_of: &[u8]) -> PyResult<Self> {
        Ok(Self(Mutex::new(cli::player(made_of).map_err(value_error)?)))
    }

    /// Answers a request.
    fn serve<'py>(&self, py: Python<'py>, request: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let request = request.to_vec();
        let reply = py.detach(|| {
            let mut stage = self.0.lock().unwrap_or_else(|error| error.into_inner());
            serve(&mut **stage, &request)
        });
        let reply = reply.ok_or_else(|| PyRuntimeError::new_err("a request of another version"))?;
        Ok(PyBytes::new(py, &reply))
    }
}
