//! What the page asks of one run, or of two.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use ecrl::population::census::Census;
use runs::{provenance, read};
use serde_json::{Value, json};

/// Lines of a log that are looked at, from its end.
const LOG: u64 = 256 << 10;
/// Warnings that are shown.
const WARNINGS: usize = 20;

/// The population of a generation, or of the last one, with the one before it; and which there are.
pub fn population(run: &Path, generation: Option<u64>) -> Value {
    let Ok(file) = File::open(run.join("population.jsonl")) else { return Value::Null };
    let mut numbers: Vec<u64> = Vec::new();
    let mut kept: [Option<String>; 2] = [None, None];
    for line in BufReader::new(file).lines().map_while(Result::ok) {
        // Most are passed over: only their number is read.
        let number = line
            .strip_prefix("{\"generation\":")
            .and_then(|rest| rest[..rest.find(',')?].parse().ok());
        let Some(number) = number else { continue };
        numbers.push(number);
        if generation.is_none_or(|asked| number <= asked) {
            kept = [kept[1].take(), Some(line)];
        }
    }
    let census = |text: &Option<String>| {
        text.as_ref().and_then(|text| serde_json::from_str::<Census>(text).ok())
    };
    json!({"generations": numbers, "before": census(&kept[0]), "now": census(&kept[1])})
}

/// Its values, what differs from the usual ones, what it was made with, and what it was warned of.
pub fn about(run: &Path) -> Value {
    let config = read::config(run);
    let values = config.as_ref().map(|config| config.to_toml()).unwrap_or_default();
    let changes = config.as_ref().map(|config| config.changes()).unwrap_or_default();
    let metrics = config.ok().and_then(|config| {
        let row = ecrl::algorithms::ALGORITHMS.iter().find(|row| row.name() == config.algorithm)?;
        let told = |about: &ecrl::metrics::About| (about.name.to_owned(), json!(about.help));
        let common = ecrl::metrics::COMMON.iter().map(|about| told(about));
        Some(
            common
                .chain(row.metrics().iter().map(|about| told(about)))
                .collect::<serde_json::Map<_, _>>(),
        )
    });
    let origins = provenance::read(run);
    let origins: Vec<Value> =
        origins.iter().filter_map(|origin| serde_json::to_value(origin).ok()).collect();
    json!({
        "values": values,
        "changes": changes,
        "metrics": metrics,
        "origins": origins,
        "warnings": warnings(run),
    })
}

/// Lines of its log that warn or tell of an error; none where it has no log, as only runs of a grid do.
fn warnings(run: &Path) -> Option<Vec<String>> {
    let log = run
        .parent()
        .zip(run.file_name())
        .map(|(folder, name)| folder.join("logs").join(format!("{}.txt", name.to_string_lossy())));
    let plain =
        |path: &std::path::PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_file());
    let mut file = log.filter(plain).and_then(|log| File::open(log).ok())?;
    let length = file.metadata().map_or(0, |found| found.len());
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG))).ok()?;
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let told = |line: &&str| line.starts_with("warning: ") || line.starts_with("error: ");
    let all: Vec<String> = text.lines().filter(told).map(str::to_owned).collect();
    Some(all[all.len().saturating_sub(WARNINGS)..].to_vec())
}

/// The values in which two runs differ.
pub fn compare(a: &Path, b: &Path) -> Value {
    match (read::config(a), read::config(b)) {
        (Ok(a), Ok(b)) => json!({ "rows": a.compare(&b) }),
        (a, b) => {
            let error = a.err().or(b.err()).map(|error| error.to_string());
            json!({ "error": error })
        }
    }
}
