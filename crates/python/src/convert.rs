//! What crosses the border: observations, actions, costs and numbers, of Python's making and ours.

use cmdp::Constraint;
use numpy::{Element, PyArray1, PyArrayDyn, PyArrayMethods as _, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple};
use runs::interface::{Action, Part};

use crate::place::EnvError;

/// What an environment does wrong, in our words.
pub fn wrong(text: String) -> PyErr {
    EnvError::new_err(text)
}

/// What a value is, in a few words.
pub fn kind(value: &Bound<PyAny>) -> String {
    match value.cast::<PyTuple>() {
        Ok(tuple) => format!("{} values", tuple.len()),
        Err(_) => value.get_type().name().map_or("something".into(), |name| format!("a {name}")),
    }
}

/// A number, or one in an array.
pub fn number(value: &Bound<PyAny>, what: &str) -> PyResult<f64> {
    // An array of one number is one, too.
    let alone = || value.call_method0(pyo3::intern!(value.py(), "item"))?.extract();
    value
        .extract()
        .or_else(|_: PyErr| alone())
        .map_err(|_| wrong(format!("{what} is {}; expected a number", kind(value))))
}

/// Whether something is so.
pub fn flag(value: &Bound<PyAny>, what: &str) -> PyResult<bool> {
    value
        .is_truthy()
        .map_err(|_| wrong(format!("{what} is {}; expected True or False", kind(value))))
}

/// How observations are read.
pub struct Parts(Vec<(Vec<Py<PyString>>, String, Vec<usize>)>);

impl Parts {
    pub fn new(py: Python, parts: &[Part]) -> Self {
        let key = |key: &String| PyString::intern(py, key).unbind();
        let part = |p: &Part| (p.path.iter().map(key).collect(), p.path.join("."), p.shape.clone());
        Self(parts.iter().map(part).collect())
    }

    pub fn read(&self, observation: &Bound<PyAny>, mut out: &mut [f64]) -> PyResult<()> {
        for (keys, name, shape) in &self.0 {
            let (own, rest) = out.split_at_mut(shape.iter().product());
            out = rest;
            let mut value = observation.clone();
            for key in keys {
                value = value
                    .get_item(key)
                    .map_err(|_| wrong(format!("the observation lacks '{name}' of its space")))?;
            }
            if !copied::<f64>(&value, shape, own) && !copied::<f32>(&value, shape, own) {
                let what = if name.is_empty() { "" } else { &format!("['{name}']") };
                let array = as_doubles(&value).map_err(|_| {
                    wrong(format!("the observation{what} is {}; expected numbers", kind(&value)))
                })?;
                if !copied::<f64>(&array, shape, own) {
                    let found: String = array.getattr("shape")?.str()?.extract()?;
                    let text =
                        format!("the observation{what} has shape {found}; expected {shape:?}");
                    return Err(wrong(text));
                }
            }
        }
        Ok(())
    }
}

/// Copies an array's numbers where they are of this type, of this shape and in order.
fn copied<T: Element + Copy + Into<f64>>(
    value: &Bound<PyAny>,
    shape: &[usize],
    out: &mut [f64],
) -> bool {
    let Ok(array) = value.cast::<PyArrayDyn<T>>() else { return false };
    if array.shape() != shape || !array.is_c_contiguous() {
        return false;
    }
    // SAFETY: while we are attached nobody else changes it, and nothing of it is kept.
    let Ok(numbers) = (unsafe { array.as_slice() }) else { return false };
    out.iter_mut().zip(numbers).for_each(|(out, number)| *out = (*number).into());
    true
}

/// Whatever it is as an array of doubles, in order.
fn as_doubles<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static CONVERT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let convert = CONVERT.get_or_try_init(py, || -> PyResult<_> {
        Ok(py.import("ecrl._environment")?.getattr("as_doubles")?.unbind())
    })?;
    convert.bind(py).call1((value,))
}

/// How actions are made.
pub enum Actions {
    Box { low: Vec<f64>, high: Vec<f64>, shape: Vec<usize>, kind: Kind },
    Discrete { start: i64 },
}

pub enum Kind {
    Single,
    Double,
    Other(Py<PyAny>),
}

impl Actions {
    pub fn new(py: Python, action: &Action) -> PyResult<Self> {
        Ok(match action.clone() {
            Action::Discrete { start, .. } => Self::Discrete { start },
            Action::Box { low, high, shape, dtype } => {
                let kind = match &dtype[..] {
                    "float32" => Kind::Single,
                    "float64" => Kind::Double,
                    other => {
                        Kind::Other(py.import("numpy")?.call_method1("dtype", (other,))?.unbind())
                    }
                };
                Self::Box { low, high, shape, kind }
            }
        })
    }

    /// A new one each time: environments keep them.
    pub fn array<'py>(&self, py: Python<'py>, action: &[f32]) -> PyResult<Bound<'py, PyAny>> {
        let (low, high, shape, kind) = match self {
            Self::Discrete { start } => {
                // As a Discrete space draws it.
                static INT64: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                let int64 = INT64.import(py, "numpy", "int64")?;
                return int64.call1((start + action[0] as i64,));
            }
            Self::Box { low, high, shape, kind } => (low, high, shape, kind),
        };
        let scaled = action.iter().zip(low.iter().zip(high)).map(|(a, (low, high))| {
            // What is not a number is taken for the middle.
            let a = if a.is_nan() { 0.0 } else { f64::from(a.clamp(-1.0, 1.0)) };
            (low + (a + 1.0) * 0.5 * (high - low)).clamp(*low, *high)
        });
        let array = match kind {
            Kind::Single => PyArray1::from_iter(py, scaled.map(|x| x as f32)).into_any(),
            Kind::Double => PyArray1::from_iter(py, scaled).into_any(),
            Kind::Other(kind) => {
                let doubles = PyArray1::from_iter(py, scaled);
                doubles.call_method1(pyo3::intern!(py, "astype"), (kind,))?
            }
        };
        match &shape[..] {
            [_] => Ok(array),
            shape => array.call_method1(pyo3::intern!(py, "reshape"), (shape.to_vec(),)),
        }
    }
}

/// How costs are read.
pub struct Costs(Vec<(String, Py<PyString>)>);

impl Costs {
    pub fn new(py: Python, constraints: &[Constraint]) -> Self {
        let keys =
            constraints.iter().map(|c| (c.name.clone(), PyString::intern(py, &c.name).unbind()));
        Self(keys.collect())
    }

    /// From `info`, but for one called `cost` where the step brought it by itself.
    pub fn read(
        &self,
        info: &Bound<PyAny>,
        own: Option<&Bound<PyAny>>,
        out: &mut [f64],
    ) -> PyResult<()> {
        for ((name, key), out) in self.0.iter().zip(out) {
            let found = match own {
                Some(cost) if name == "cost" => Some(cost.clone()),
                _ => match info.cast::<PyDict>() {
                    Ok(info) => info.get_item(key)?,
                    Err(_) => info.get_item(key).ok(),
                },
            };
            let found = found.ok_or_else(|| missing(name, info))?;
            *out = number(&found, &format!("the cost '{name}'"))?;
        }
        Ok(())
    }
}

/// What is said of a cost that is not there.
fn missing(name: &str, info: &Bound<PyAny>) -> PyErr {
    let keys = info.try_iter().and_then(|keys| {
        keys.map(|key| key?.str()?.extract::<String>()).collect::<PyResult<Vec<_>>>()
    });
    let keys = keys.unwrap_or_default();
    let there = if keys.is_empty() { "nothing".into() } else { keys.join(", ") };
    wrong(format!("there is no cost '{name}' in info; there is {there}"))
}
