//! A run's folder, held so that nobody else writes to it.

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::prelude::*;
use runs::lock::Lock;

use crate::env::value_error;

/// Holds a run's folder, which is made where it is missing, until it is given back.
#[pyclass(frozen)]
pub struct Held(Mutex<Option<Lock>>);

#[pymethods]
impl Held {
    #[new]
    fn new(folder: PathBuf) -> PyResult<Self> {
        std::fs::create_dir_all(&folder)?;
        let lock = Lock::take(&folder).map_err(|error| value_error(error.to_string()))?;
        Ok(Self(Mutex::new(Some(lock))))
    }

    /// Gives it back.
    fn release(&self) {
        self.0.lock().unwrap_or_else(|error| error.into_inner()).take();
    }
}
