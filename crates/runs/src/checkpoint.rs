//! Checkpoints: the whole state of a run on disk, so that it goes on as if nothing had happened.
//!
//! A checkpoint is a manifest that names files, each with its length and CRC-32C: one with
//! everything but the replay buffer, and one for each segment of the replay buffer. Files are never
//! changed once written; a new checkpoint writes only segments that have changed since the last
//! one. The manifest comes last, so a checkpoint is whole or not there. The previous checkpoint
//! stays until the next one is whole: if the newest turns out damaged, the one before it is read.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ecrl::memory::replay::{Replay, StoredReplay};
use ecrl::trainer::{TrainError, Trainer};
use nets::store::Store;
use serde::{Deserialize, Serialize};

use crate::directory::{LogState, RunError};
use crate::files;

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
    /// Their checksums; earlier versions noted none.
    #[serde(default)]
    log_crc32c: Vec<u32>,
}

impl Manifest {
    fn logs(&self) -> Vec<LogState> {
        let state = |(i, (name, bytes)): (usize, &(String, u64))| LogState {
            name: name.clone(),
            bytes: *bytes,
            crc32c: self.log_crc32c.get(i).copied(),
        };
        self.logs.iter().enumerate().map(state).collect()
    }

    /// Refuses names that are not of this checkpoint's own files: they could lead anywhere.
    fn verify_names(&self) -> Result<(), String> {
        let parts = self.segments.iter().chain([&self.state]);
        let strange = parts.map(|part| &part.name).find(|name| !is_own(name));
        let strange =
            strange.or(self.logs.iter().map(|log| &log.0).find(|name| !LogState::is_name(name)));
        match strange {
            None => Ok(()),
            Some(name) => Err(format!("it names {name:?}, which is no file of a run")),
        }
    }
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
    /// The lengths and checksums the run's logs had.
    pub logs: Vec<LogState>,
    /// What is wrong with newer checkpoints that were passed over.
    pub passed_over: Vec<String>,
    /// What else there is to say.
    pub notes: Vec<String>,
}

/// The checkpoints of one run.
#[derive(Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    /// The newest whole checkpoint, and the steps that were taken then.
    last: Option<Manifest>,
    at: u64,
}

impl Checkpoints {
    /// The checkpoints in a run directory.
    pub fn new(run: &Path) -> Self {
        Self { folder: run.join(FOLDER), last: None, at: 0 }
    }

    /// The run was moved to another place.
    pub fn follow(&mut self, run: &Path) {
        self.folder = run.join(FOLDER);
    }

    /// The steps that were taken when the last one was made, if there is one.
    pub fn at(&self) -> Option<u64> {
        self.last.as_ref().map(|_| self.at)
    }

    /// Bytes that the last checkpoint takes.
    pub fn bytes(&self) -> u64 {
        let parts = self.last.iter().flat_map(|m| m.segments.iter().chain([&m.state]));
        parts.map(|part| part.bytes).sum()
    }

    /// Stores the whole state; `logs` says how far the run's logs have come.
    pub fn write(
        &mut self,
        trainer: &mut Trainer,
        logs: &[LogState],
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
        (self.last, self.at) = (Some(manifest), trainer.env_steps());
        // A file that cannot be removed takes room and does no harm.
        let _ = self.keep(before.iter().chain(&self.last));
        Ok(())
    }

    fn write_parts(
        &self,
        replay: Option<&Replay>,
        state: &[u8],
        logs: &[LogState],
    ) -> io::Result<Manifest> {
        // Not the run's folder, too: one that is gone must not come back.
        match fs::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => plain_folder(&self.folder)?,
        }
        let numbers = self.numbers()?;
        let number = numbers.last().map_or(1, |last| last + 1);
        let state = self.put(format!("state-{number}"), state)?;
        let mut segments = Vec::new();
        for (i, (segment, changed)) in replay.into_iter().flat_map(Replay::segments).enumerate() {
            let stored = self.last.as_ref().and_then(|last| last.segments.get(i));
            segments.push(match stored {
                Some(part) if !changed && self.has(part) => part.clone(),
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
            logs: logs.iter().map(|log| (log.name.clone(), log.bytes)).collect(),
            log_crc32c: logs.iter().filter_map(|log| log.crc32c).collect(),
        };
        let mut text = serde_json::to_vec(&manifest).expect("plain data");
        let crc = crc32c::crc32c(&text);
        text.extend(format!("\n{crc:08x}\n").bytes());
        self.put(format!("manifest-{number}"), &text)?;
        File::open(&self.folder)?.sync_all()?;
        Ok(manifest)
    }

    /// Whether a file is still there: somebody may have removed it.
    fn has(&self, part: &Part) -> bool {
        let found = self.folder.join(&part.name).symlink_metadata();
        found.is_ok_and(|found| found.is_file() && found.len() == part.bytes)
    }

    /// Writes a file under its final name, whole.
    fn put(&self, name: String, bytes: &[u8]) -> io::Result<Part> {
        files::write_whole(&self.folder.join(&name), bytes)?;
        Ok(Part { name, bytes: bytes.len() as u64, crc32c: crc32c::crc32c(bytes) })
    }

    /// The numbers of all checkpoints, rising.
    fn numbers(&self) -> io::Result<Vec<u64>> {
        let names = names(&self.folder)?;
        let number = |name: &String| name.strip_prefix("manifest-")?.parse().ok();
        // One so large was never written: the next one's name must be possible, too.
        let possible = |n: &u64| *n < 1 << 52;
        let mut numbers: Vec<u64> = names.iter().filter_map(number).filter(possible).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Removes all files but those of some checkpoints, and what is not ours.
    fn keep<'a>(&self, manifests: impl Iterator<Item = &'a Manifest>) -> io::Result<()> {
        let mut needed = BTreeSet::new();
        for manifest in manifests {
            needed.insert(format!("manifest-{}", manifest.number));
            needed
                .extend(manifest.segments.iter().chain([&manifest.state]).map(|p| p.name.clone()));
        }
        for name in names(&self.folder)?.iter().filter(|name| !needed.contains(*name)) {
            let _ = fs::remove_file(self.folder.join(name));
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
                    restored.logs = manifest.logs();
                    restored.notes = notes;
                    (self.last, self.at) = (Some(manifest), trainer.env_steps());
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
            files::read_text(&self.folder.join(&name)).map_err(|e| format!("{name}: {e}"))?;
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
        let manifest: Manifest =
            serde_json::from_value(manifest).map_err(|e| format!("{name}: {e}"))?;
        manifest.verify_names().map_err(|e| format!("{name}: {e}"))?;
        if manifest.number != number {
            return Err(format!("{name} is of checkpoint {}", manifest.number));
        }
        Ok(manifest)
    }

    fn read_one(
        &self,
        number: u64,
        trainer: &mut Trainer,
    ) -> Result<(Manifest, Vec<String>), String> {
        let manifest = self.manifest(number)?;
        let state = Store::from_bytes(&self.get(&manifest.state)?)
            .map_err(|e| format!("{}: {e}", manifest.state.name))?;
        // Before memory is taken for what the manifest claims.
        let (len, next) = (manifest.replay_len, manifest.replay_next);
        let sizes: Vec<u64> = manifest.segments.iter().map(|part| part.bytes).collect();
        if trainer.replay().is_some_and(|replay| !replay.fits_sizes(&sizes, len, next)) {
            return Err("replay buffer: expected one of this run's size".into());
        }
        let mut segments = Vec::new();
        for part in trainer.replay().map_or(&[][..], |_| &manifest.segments) {
            let bytes = self.get(part)?;
            let numbers = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b));
            segments.push(numbers.collect());
        }
        let notes = trainer
            .restore(&state, StoredReplay { segments, len, next })
            .map_err(|e| format!("{}: {e}", manifest.state.name))?;
        Ok((manifest, notes))
    }

    fn get(&self, part: &Part) -> Result<Vec<u8>, String> {
        let Part { name, bytes, crc32c } = part;
        let path = self.folder.join(name);
        let there = files::look(&path).and_then(|file| Ok(file.metadata()?.len()));
        let there = there.map_err(|e| format!("{name}: {e}"))?;
        if there != *bytes {
            return Err(format!("{name} has {there} bytes; expected {bytes}"));
        }
        let found = files::read(&path).map_err(|e| format!("{name}: {e}"))?;
        if crc32c::crc32c(&found) != *crc32c {
            return Err(format!("{name} does not match its checksum"));
        }
        Ok(found)
    }
}

/// Whether a file of a checkpoint has such a name: `manifest-1`, `state-1`, `replay-0-1`.
fn is_own(name: &str) -> bool {
    let whole = name.strip_suffix(files::PART).unwrap_or(name);
    let (kind, numbers) = whole.split_once('-').unwrap_or((whole, ""));
    let numbers: Vec<&str> = numbers.split('-').collect();
    let plain =
        |text: &&str| text.parse::<u64>().is_ok_and(|n| n < 1 << 53 && n.to_string() == *text);
    numbers.iter().all(plain)
        && matches!((kind, numbers.len()), ("manifest" | "state", 1) | ("replay", 2))
}

/// Refuses a folder that is a link: what it leads to is not ours.
fn plain_folder(folder: &Path) -> io::Result<()> {
    match folder.symlink_metadata() {
        Ok(found) if !found.is_dir() => {
            let what = if found.is_symlink() { "a link" } else { "a file" };
            Err(io::Error::other(format!("it is {what}; expected a folder of the run's own")))
        }
        _ => Ok(()),
    }
}

/// The names of the checkpoints' files in their folder, of which there need be none.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    plain_folder(folder)?;
    let mut names = Vec::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().filter(|name| is_own(name));
        names.extend(name.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_file())));
    }
    Ok(names)
}

/// The names of the checkpoints' files of a run.
pub(crate) fn own_files(run: &Path) -> Result<Vec<String>, RunError> {
    let folder = run.join(FOLDER);
    names(&folder).map_err(|error| RunError::Io { path: folder, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_are_ours() {
        for name in ["manifest-1", "state-12", "replay-0-3", "state-1.ecrl-part"] {
            assert!(is_own(name), "{name}");
        }
        for name in [
            "model.pt",
            "manifest",
            "manifest-",
            "manifest-01",
            "manifest-+1",
            "state-1-2",
            "replay-1",
            "../state-1",
            "replay-0-../../x",
            "state-1.pt",
            "state-99999999999999999",
            "-1",
            "",
        ] {
            assert!(!is_own(name), "{name}");
        }
    }
}
