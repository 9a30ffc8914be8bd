//! What a run was made with: each start and resume, the program, the machine.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// The file within a run directory.
pub(crate) const FILE: &str = "origin.jsonl";

/// What a run was made with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// What was typed.
    pub command: String,
    /// The program and its version.
    pub program: String,
    /// The processor.
    pub cpu: String,
    /// Threads in use.
    pub threads: usize,
    /// The vector instructions in use, which the last bits depend on.
    #[serde(default)]
    pub simd: String,
    /// The environment steps at which it began, or went on.
    #[serde(default)]
    pub at: u64,
    /// The values that were changed then, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// Where the user's own task lay that the run keeps a copy of.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task_file: String,
}

impl Provenance {
    /// Of this process.
    pub fn here(threads: usize) -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            command: command(),
            program: concat!("ecrl ", env!("CARGO_PKG_VERSION")).into(),
            cpu: model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.into()),
            threads,
            simd: nets::simd::kind().name().into(),
            at: 0,
            changes: Vec::new(),
            task_file: String::new(),
        }
    }
}

/// The command line in the place of this process's own.
static INSTEAD: OnceLock<Vec<OsString>> = OnceLock::new();

/// From here on, runs note these words, beginning with the program's name, as the command that made them: it can be
/// typed where the one that this process was started with is of an engine's making.
pub fn instead(words: Vec<OsString>) {
    let _ = INSTEAD.set(words);
}

/// What was typed after the program's name, whatever its bytes.
fn command() -> String {
    let words = INSTEAD.get().cloned().unwrap_or_else(|| std::env::args_os().collect());
    let words = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join(" ")
}

/// Each start and resume of a run; none where that was not noted.
pub fn read(run: &Path) -> Vec<Provenance> {
    let text = crate::files::read_text(&run.join(FILE)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
