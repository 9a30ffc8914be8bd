//! Checkpoints: the whole state of a run on disk, so that it goes on as if nothing had happened.
//!
//! A checkpoint is a manifest that names files, each with its length and CRC-32C: one with
//! everything but the replay buffer, and one for each segment of the replay buffer. Files are never
//! changed once written; a new checkpoint writes only segments that have changed since the last
//! one. The manifest comes last, so a checkpoint is whole or not there. The previous checkpoint
//! stays until the next one is whole: if the newest turns out damaged, the one before it is read.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ecrl::memory::replay::{Replay, StoredReplay};
use ecrl::trainer::{TrainError, Trainer};
use nets::store::Store;
use serde::{Deserialize, Serialize};

/// The version of the format; raised when an older program would misread a newer checkpoint.
const FORMAT: u32 = 4;
/// The folder within a run directory.
pub const FOLDER: &str = "checkpoint";

/// A file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    name: String,
    bytes: u64,
    crc32c: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    program: String,
    number: u64,
    state: Part,
    segments: Vec<Part>,
    replay_len: usize,
    replay_next: usize,
    /// The lengths of the run's logs, by file name.
    logs: Vec<(String, u64)>,
}

/// A checkpoint that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Reading or writing failed.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
    /// The state is not fit to be stored.
    #[error(transparent)]
    State(#[from] TrainError),
    /// There are checkpoints, but none is whole.
    #[error("{path}: no whole checkpoint: {reason}", path = path.display())]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// What is wrong with the newest.
        reason: String,
    },
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Restored {
    /// The lengths the run's logs had, by file name.
    pub logs: Vec<(String, u64)>,
    /// What is wrong with newer checkpoints that were passed over.
    pub passed_over: Vec<String>,
    /// What else there is to say.
    pub notes: Vec<String>,
}

/// The checkpoints of one run.
#[derive(Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    /// The newest whole checkpoint.
    last: Option<Manifest>,
}

impl Checkpoints {
    /// The checkpoints in a run directory.
    pub fn new(run: &Path) -> Self {
        Self { folder: run.join(FOLDER), last: None }
    }

    /// Bytes that the last checkpoint takes.
    pub fn bytes(&self) -> u64 {
        let parts = self.last.iter().flat_map(|m| m.segments.iter().chain([&m.state]));
        parts.map(|part| part.bytes).sum()
    }

    /// Stores the whole state; `logs` are the lengths of the run's logs, by file name.
    pub fn write(
        &mut self,
        trainer: &mut Trainer,
        logs: Vec<(String, u64)>,
    ) -> Result<(), CheckpointError> {
        let folder = self.folder.clone();
        let io = |error| CheckpointError::Io { path: folder.clone(), error };
        let before = self.last.clone();
        let state = trainer.state()?.to_bytes();
        let manifest = self.write_parts(trainer.replay(), &state, logs).map_err(|error| {
            // A full disk should have its room back.
            let _ = self.keep(before.iter());
            io(error)
        })?;
        if let Some(replay) = trainer.replay_mut() {
            replay.all_stored();
        }
        self.last = Some(manifest);
        // A file that cannot be removed takes room and does no harm.
        let _ = self.keep(before.iter().chain(&self.last));
        Ok(())
    }

    fn write_parts(
        &self,
        replay: Option<&Replay>,
        state: &[u8],
        logs: Vec<(String, u64)>,
    ) -> io::Result<Manifest> {
        fs::create_dir_all(&self.folder)?;
        let numbers = self.numbers()?;
        let number = numbers.last().map_or(1, |last| last + 1);
        let state = self.put(format!("state-{number}"), state)?;
        let mut segments = Vec::new();
        for (i, (segment, changed)) in replay.into_iter().flat_map(Replay::segments).enumerate() {
            let stored = self.last.as_ref().and_then(|last| last.segments.get(i));
            segments.push(match stored {
                Some(part) if !changed => part.clone(),
                _ => {
                    let bytes: Vec<u8> = segment.iter().flat_map(|x| x.to_le_bytes()).collect();
                    self.put(format!("replay-{i}-{number}"), &bytes)?
                }
            });
        }
        let manifest = Manifest {
            format: FORMAT,
            program: concat!("ecrl ", env!("CARGO_PKG_VERSION")).into(),
            number,
            state,
            segments,
            replay_len: replay.map_or(0, Replay::len),
            replay_next: replay.map_or(0, Replay::next),
            logs,
        };
        let mut text = serde_json::to_vec(&manifest).expect("plain data");
        let crc = crc32c::crc32c(&text);
        text.extend(format!("\n{crc:08x}\n").bytes());
        self.put(format!("manifest-{number}"), &text)?;
        File::open(&self.folder)?.sync_all()?;
        Ok(manifest)
    }

    /// Writes a file under its final name, whole.
    fn put(&self, name: String, bytes: &[u8]) -> io::Result<Part> {
        let part = self.folder.join(format!("{name}.part"));
        let mut file = File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, self.folder.join(&name))?;
        Ok(Part { name, bytes: bytes.len() as u64, crc32c: crc32c::crc32c(bytes) })
    }

    /// The numbers of all checkpoints, rising.
    fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        if self.folder.exists() {
            for entry in fs::read_dir(&self.folder)? {
                let name = entry?.file_name();
                let name = name.to_string_lossy();
                numbers.extend(name.strip_prefix("manifest-").and_then(|n| n.parse::<u64>().ok()));
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Removes all files but those of some checkpoints.
    fn keep<'a>(&self, manifests: impl Iterator<Item = &'a Manifest>) -> io::Result<()> {
        let mut needed = BTreeSet::new();
        for manifest in manifests {
            needed.insert(format!("manifest-{}", manifest.number));
            needed
                .extend(manifest.segments.iter().chain([&manifest.state]).map(|p| p.name.clone()));
        }
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if !needed.contains(&*entry.file_name().to_string_lossy()) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Brings a fresh trainer of the same configuration to the newest whole checkpoint; `None`
    /// where there is no checkpoint at all.
    pub fn read(&mut self, trainer: &mut Trainer) -> Result<Option<Restored>, CheckpointError> {
        let numbers = self
            .numbers()
            .map_err(|error| CheckpointError::Io { path: self.folder.clone(), error })?;
        let mut restored = Restored::default();
        for number in numbers.iter().rev() {
            match self.read_one(*number, trainer) {
                Ok((manifest, notes)) => {
                    restored.logs.clone_from(&manifest.logs);
                    restored.notes = notes;
                    self.last = Some(manifest);
                    return Ok(Some(restored));
                }
                Err(reason) => restored.passed_over.push(format!("checkpoint {number}: {reason}")),
            }
        }
        match restored.passed_over.first() {
            None => Ok(None),
            Some(reason) => {
                Err(CheckpointError::Damaged { path: self.folder.clone(), reason: reason.clone() })
            }
        }
    }

    fn manifest(&self, number: u64) -> Result<Manifest, String> {
        let name = format!("manifest-{number}");
        let text =
            fs::read_to_string(self.folder.join(&name)).map_err(|e| format!("{name}: {e}"))?;
        let (json, crc) = text.split_once('\n').ok_or_else(|| format!("{name} is cut short"))?;
        if crc.trim() != format!("{:08x}", crc32c::crc32c(json.as_bytes())) {
            return Err(format!("{name} does not match its checksum"));
        }
        let manifest: serde_json::Value =
            serde_json::from_str(json).map_err(|e| format!("{name}: {e}"))?;
        if manifest["format"] != FORMAT {
            let (found, by) = (&manifest["format"], &manifest["program"]);
            return Err(format!("{name} has format {found}, by {by}; expected {FORMAT}"));
        }
        serde_json::from_value(manifest).map_err(|e| format!("{name}: {e}"))
    }

    fn read_one(
        &self,
        number: u64,
        trainer: &mut Trainer,
    ) -> Result<(Manifest, Vec<String>), String> {
        let manifest = self.manifest(number)?;
        let state = Store::from_bytes(&self.get(&manifest.state)?)
            .map_err(|e| format!("{}: {e}", manifest.state.name))?;
        let mut segments = Vec::new();
        for part in &manifest.segments {
            let bytes = self.get(part)?;
            let numbers = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b));
            segments.push(numbers.collect());
        }
        let (len, next) = (manifest.replay_len, manifest.replay_next);
        let notes = trainer
            .restore(&state, StoredReplay { segments, len, next })
            .map_err(|e| format!("{}: {e}", manifest.state.name))?;
        Ok((manifest, notes))
    }

    fn get(&self, part: &Part) -> Result<Vec<u8>, String> {
        let Part { name, bytes, crc32c } = part;
        let found = fs::read(self.folder.join(name)).map_err(|e| format!("{name}: {e}"))?;
        if found.len() as u64 != *bytes {
            return Err(format!("{name} has {} bytes; expected {bytes}", found.len()));
        }
        if crc32c::crc32c(&found) != *crc32c {
            return Err(format!("{name} does not match its checksum"));
        }
        Ok(found)
    }
}
