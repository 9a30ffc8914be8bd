//! What a run directory says.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use ecrl::config::{Config, Layers};
use ecrl::metrics::Record;
use ecrl::population::census::Census;

use crate::directory::{CONFIG, METRICS, POLICY, POPULATION, RunError};
use crate::files;

/// The configuration of a run.
pub fn config(run: &Path) -> Result<Config, RunError> {
    let path = run.join(CONFIG);
    let text = files::read_text(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => RunError::Missing(run.to_owned()),
        _ => RunError::Unreadable { path: path.clone(), error },
    })?;
    let mut layers = Layers::default();
    let built = layers.toml(&text).and_then(|()| layers.build());
    built.map_err(|error| RunError::Config { path, error })
}

/// Whether a folder holds a run: a configuration with what every run has in it, be it of another version.
pub fn is_run(path: &Path) -> bool {
    let text = files::read_text(&path.join(CONFIG)).unwrap_or_default();
    let table: toml::Table = text.parse().unwrap_or_default();
    let is = |key: &str, kind: fn(&toml::Value) -> bool| table.get(key).is_some_and(kind);
    is("algorithm", toml::Value::is_str)
        && is("task", toml::Value::is_str)
        && ["steps", "seed"].iter().all(|key| is(key, toml::Value::is_integer))
}

/// The generations that a run has recorded; a line that is not whole yet is left out.
pub fn metrics(run: &Path) -> Result<Vec<Record>, RunError> {
    let path = run.join(METRICS);
    let text =
        files::read_text(&path).map_err(|error| RunError::Io { path: path.clone(), error })?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |(i, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| RunError::Metrics {
            path: path.clone(),
            line: i + 1,
            error,
        })
    };
    whole.lines().enumerate().map(parse).collect()
}

/// The populations that a run has recorded; a line that is not whole is left out.
pub fn population(run: &Path) -> Vec<Census> {
    let text = files::read_text(&run.join(POPULATION)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Progress {
    /// Environment steps that it has recorded.
    pub steps: u64,
    /// The seconds that they took.
    pub seconds: f64,
    /// Whether it is finished.
    pub finished: bool,
}

impl Progress {
    /// Steps a second.
    pub fn speed(&self) -> f64 {
        if self.seconds > 0.0 { self.steps as f64 / self.seconds } else { 0.0 }
    }
}

/// How far a run of so many steps is.
pub fn progress(run: &Path, steps: u64) -> Progress {
    // The last line alone: this is asked often.
    let last = || -> io::Result<(u64, f64, bool)> {
        let mut file = files::look(&run.join(METRICS))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(1 << 16)))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        let line = tail.split(|&b| b == b'\n').rev().find(|line| !line.is_empty());
        let line: serde_json::Value = serde_json::from_slice(line.unwrap_or_default())?;
        let steps = line["env_steps"].as_u64().unwrap_or(0);
        Ok((steps, line["seconds"].as_f64().unwrap_or(0.0), line["reached"] == true))
    };
    let modified = |name: &str| run.join(name).metadata().and_then(|m| m.modified());
    let (taken, seconds, reached) = last().unwrap_or_default();
    // The policy comes last; one that is older is of a pause.
    let saved = match (modified(POLICY), modified(METRICS)) {
        (Ok(policy), Ok(metrics)) => policy >= metrics,
        _ => false,
    };
    Progress { steps: taken, seconds, finished: (taken >= steps || reached) && saved }
}
