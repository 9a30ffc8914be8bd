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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    #[test]
    fn columns_grow_are_thinned_and_keep_their_last_point() {
        let run = std::env::temp_dir().join(format!("ecrl-series-{}", std::process::id()));
        fs::create_dir_all(&run).unwrap();
        let line = |i: u32| {
            let cost =
                if i.is_multiple_of(2) { format!(",\"cost\":[{i},0.5]") } else { String::new() };
            format!(
                "{{\"env_steps\":{i},\"seconds\":0.5,\"loss\":{}.5{cost},\"kept\":true}}\n",
                i * 2
            )
        };
        let path = run.join("metrics.jsonl");
        fs::write(&path, (1..=5).map(line).collect::<String>()).unwrap();
        let mut series = Series::default();
        let told = series.of(7, &run, &["loss", "cost.0", "none"]);
        assert_eq!(
            told["series"]["cost.0"],
            json!({"x": [2.0, 4.0], "t": [0.5, 0.5], "y": [2.0, 4.0]})
        );
        assert_eq!(told["names"], json!(["cost.0", "cost.1", "env_steps", "loss", "seconds"]));
        assert_eq!(told["series"].as_object().unwrap().len(), 2);
        let mut file = fs::File::options().append(true).open(&path).unwrap();
        file.write_all((6..=2503).map(line).collect::<String>().as_bytes()).unwrap();
        let told = series.of(7, &run, &["loss"]);
        let xs = told["series"]["loss"]["x"].as_array().unwrap();
        assert!(xs.len() <= POINTS && xs.last() == Some(&json!(2503.0)), "{}", xs.len());
        // Begun anew.
        fs::write(&path, line(1)).unwrap();
        assert_eq!(series.of(7, &run, &["loss"])["series"]["loss"]["y"], json!([2.5]));
        fs::remove_dir_all(run).unwrap();
    }
}
