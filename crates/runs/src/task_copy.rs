//! The copy of a user's own task that a run keeps: the file's text and the model compiled, meshes and all. With it the
//! run resumes and plays anywhere, whatever becomes of the files it was made from.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ecrl::config::Config;
use serde::{Deserialize, Serialize};

use crate::directory::RunError;
use crate::files::{self, write_whole};

/// The task file's text, within a run directory.
pub const TASK: &str = "task.toml";
/// Its model, compiled.
pub const MODEL: &str = "task.mjb";

/// A task file's text and its model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskCopy {
    /// The file as it is.
    pub text: String,
    /// The compiled model.
    pub model: Vec<u8>,
    /// Where the file lies; empty where that does not matter any more.
    pub source: String,
}

/// What a configuration says of its task where that is a file's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    task_file: String,
}

impl TaskCopy {
    /// What a configuration says of a task like it: the checksums of text and model.
    pub fn environment(&self) -> String {
        let (text, model) = (crc32c::crc32c(self.text.as_bytes()), crc32c::crc32c(&self.model));
        let task_file = format!("crc32c:{text:08x}:{model:08x}");
        serde_json::to_string(&Named { task_file }).expect("plain data")
    }

    /// Whether the task of a configuration is a file's.
    pub fn is_named_by(config: &Config) -> bool {
        serde_json::from_str::<Named>(&config.environment).is_ok()
    }

    /// The copy in a run's folder, which must be the one that its configuration names.
    pub fn read(run: &Path, config: &Config) -> Result<Self, RunError> {
        let io = |name: &str| {
            let path = run.join(name);
            move |error: io::Error| match error.kind() {
                io::ErrorKind::NotFound => RunError::NoTaskCopy(path),
                _ => RunError::Io { path, error },
            }
        };
        let text = files::read_text(&run.join(TASK)).map_err(io(TASK))?;
        let model = fs::read(run.join(MODEL)).map_err(io(MODEL))?;
        let copy = Self { text, model, source: String::new() };
        match copy.environment() == config.environment {
            true => Ok(copy),
            false => Err(RunError::TaskCopy(run.to_owned())),
        }
    }

    /// A file that the copy would replace and that is not the same: somebody else's. One that is the same may be what
    /// is left of a run that was killed as it began.
    pub(crate) fn in_the_way(&self, run: &Path) -> Option<PathBuf> {
        let files = self.files().map(|(name, bytes)| (run.join(name), bytes));
        let other = |(path, bytes): &(PathBuf, &[u8])| {
            path.symlink_metadata().is_ok() && fs::read(path).ok().as_deref() != Some(*bytes)
        };
        files.into_iter().find(other).map(|(path, _)| path)
    }

    fn files(&self) -> [(&'static str, &[u8]); 2] {
        [(MODEL, &self.model), (TASK, self.text.as_bytes())]
    }

    pub(crate) fn write(&self, run: &Path) -> Result<(), RunError> {
        for (name, bytes) in self.files() {
            let path = run.join(name);
            write_whole(&path, bytes).map_err(|error| RunError::Io { path, error })?;
        }
        Ok(())
    }
}
