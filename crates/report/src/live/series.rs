//! What runs have measured, column by column, for charts: read once, then only what is new.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::watch::Tail;

/// Runs that are kept at the most.
const KEPT: usize = 96;
/// Points of a curve at the most.
const POINTS: usize = 1000;

/// A column: steps, seconds and value of every record that has one.
type Column = Vec<[f32; 3]>;

#[derive(Default)]
struct Columns {
    tail: Tail,
    columns: BTreeMap<String, Column>,
}

impl Columns {
    fn refresh(&mut self, run: &Path) {
        let (anew, lines) = self.tail.read(&run.join(super::watch::METRICS));
        if anew {
            self.columns.clear();
        }
        for line in lines.split(|byte| *byte == b'\n') {
            let Ok(record) = serde_json::from_slice::<Map<String, Value>>(line) else { continue };
            let number = |name: &str| record.get(name).and_then(Value::as_f64).unwrap_or(0.0);
            let at = [number("env_steps") as f32, number("seconds") as f32];
            for (name, value) in &record {
                match value {
                    Value::Number(value) => self.push(name, at, value.as_f64()),
                    Value::Array(values) => {
                        for (i, value) in values.iter().enumerate() {
                            self.push(&format!("{name}.{i}"), at, value.as_f64());
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn push(&mut self, name: &str, [step, seconds]: [f32; 2], value: Option<f64>) {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        let point = [step, seconds, value as f32];
        match self.columns.get_mut(name) {
            Some(column) => column.push(point),
            None => _ = self.columns.insert(name.to_owned(), vec![point]),
        }
    }
}

/// The columns of runs that were asked for lately.
#[derive(Default)]
pub struct Series {
    /// The one asked for last comes last.
    runs: Vec<(u64, Columns)>,
}

impl Series {
    /// Some columns of a run, thinned, and the names of all that it has.
    pub fn of(&mut self, number: u64, run: &Path, names: &[&str]) -> Value {
        let mut columns = match self.runs.iter().position(|(kept, _)| *kept == number) {
            Some(at) => self.runs.remove(at).1,
            None => Columns::default(),
        };
        columns.refresh(run);
        let series: Map<String, Value> = names
            .iter()
            .filter_map(|name| {
                let column = columns.columns.get(*name)?;
                let step = column.len().div_ceil(POINTS).max(1);
                // The last one, whatever comes before it.
                let first = (column.len() - 1) % step;
                let some: Vec<&[f32; 3]> = column.iter().skip(first).step_by(step).collect();
                let part = |i: usize| some.iter().map(|point| point[i]).collect::<Vec<f32>>();
                Some(((*name).to_owned(), json!({"x": part(0), "t": part(1), "y": part(2)})))
            })
            .collect();
        let names: Vec<&String> = columns.columns.keys().collect();
        let told = json!({"series": series, "names": names});
        self.runs.push((number, columns));
        if self.runs.len() > KEPT {
            self.runs.remove(0);
        }
        told
    }
}
