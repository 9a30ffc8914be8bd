//! Where Python's environments are played in: in this thread, or in processes of their own.

use std::sync::Arc;

use ecrl::collect::stage::Stage;
use ecrl::trainer::BoxError;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::env::{Description, PyEnv, Raised, value_error};
use crate::here::Here;
use crate::interrupt;
use crate::lanes::Lanes;
use crate::workers;

pyo3::create_exception!(
    ecrl,
    EnvError,
    pyo3::exceptions::PyRuntimeError,
    "The environment raised an exception, or brought what nobody can learn from. `run`, where there is one, can be \
     gone on with from its last checkpoint."
);

/// Where Python's environments are played in, as `_environment` tells.
#[pyclass(frozen, module = "ecrl._ecrl")]
pub struct Place {
    kind: Kind,
    pub description: Description,
    raised: Raised,
}

enum Kind {
    /// In this thread, each made by a callable.
    Here(Py<PyAny>),
    /// In this thread, all in one.
    Shared(Py<PyAny>),
    /// All lanes in step.
    Lanes(Py<PyAny>),
    /// In processes, which make theirs from bytes.
    Workers { payload: Py<PyBytes>, count: usize },
}

#[pymethods]
impl Place {
    /// One of `here`, `shared`, `lanes` and `workers`, with what that takes.
    #[new]
    #[pyo3(signature = (kind, how, description, count=1))]
    fn new(kind: &str, how: Bound<PyAny>, description: &str, count: usize) -> PyResult<Self> {
        let kind = match kind {
            "here" => Kind::Here(how.unbind()),
            "shared" => Kind::Shared(how.unbind()),
            "lanes" => Kind::Lanes(how.unbind()),
            "workers" => Kind::Workers { payload: how.cast_into::<PyBytes>()?.unbind(), count },
            _ => return Err(value_error("an unknown kind")),
        };
        let description = serde_json::from_str(description).map_err(value_error)?;
        Ok(Self { kind, description, raised: Raised::default() })
    }
}

impl Place {
    /// The stage, with so many running environments.
    pub fn stage(&self, running: usize) -> Result<Box<dyn Stage>, BoxError> {
        let spec = self.description.spec()?;
        let own = || Arc::clone(&self.raised);
        let only = |expected: usize| match running == 0 || running == expected {
            true => Ok(()),
            false => {
                let text = format!("envs is {running}; expected {expected}, as many as there are");
                Err(value_error(text))
            }
        };
        let made = Python::attach(|py| -> PyResult<Result<Box<dyn Stage>, BoxError>> {
            Ok(match &self.kind {
                Kind::Here(make) => {
                    let env = || PyEnv::new(&make.bind(py).call0()?, own());
                    let playing = env()?;
                    let running = (0..running as u64).map(|i| Ok((env()?, i)));
                    Ok(Box::new(Here::new(playing, running.collect::<PyResult<_>>()?)))
                }
                Kind::Shared(adapter) => {
                    only(1)?;
                    let env = PyEnv::new(adapter.bind(py), own())?;
                    Ok(Box::new(Here::shared(env, running > 0)))
                }
                Kind::Lanes(lanes) => {
                    let lanes = Lanes::new(lanes.bind(py), spec, running > 0, own())?;
                    only(lanes.count())?;
                    Ok(Box::new(lanes))
                }
                Kind::Workers { payload, count } => {
                    let python: String = py.import("sys")?.getattr("executable")?.extract()?;
                    let package = py.import("ecrl._environment")?.getattr("PACKAGE")?;
                    let package: String = package.extract()?;
                    let payload = payload.as_bytes(py);
                    let started = py.detach(|| {
                        workers::start([&python, &package], payload, spec, *count, running)
                    });
                    started.map(|stage| Box::new(stage) as Box<dyn Stage>).map_err(Into::into)
                }
            })
        });
        made?
    }

    /// An error as Python sees it: what its environment raised comes with it.
    pub fn error(&self, py: Python, message: String) -> PyErr {
        let raised = self.raised.lock().unwrap_or_else(|e| e.into_inner()).take();
        if interrupt::insisted() {
            return interrupt::raised(py);
        }
        let (first, trace) = message.split_once('\n').unwrap_or((&message, ""));
        let error = EnvError::new_err(first.to_owned());
        let cause = match raised {
            // One of our own says it all.
            Some(raised) if raised.is_instance_of::<PyKeyboardInterrupt>(py) => return raised,
            Some(raised) if raised.is_instance_of::<EnvError>(py) => None,
            Some(raised) => Some(raised),
            None if trace.is_empty() => None,
            None => {
                let remote =
                    py.import("ecrl._environment").and_then(|m| m.getattr("RemoteTraceback"));
                remote.and_then(|class| class.call1((trace,))).ok().map(PyErr::from_value)
            }
        };
        error.set_cause(py, cause);
        error
    }
}
