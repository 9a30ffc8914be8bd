//! One process at a time writes to a run, and only to the run that it has locked: not to another that
//! has come into its place.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::directory::RunError;
use crate::{files, read};

/// The file that is locked.
pub(crate) const LOCK: &str = "run.lock";

/// What it begins with, before the number of the process.
const MARK: &str = "ecrl ";

/// Makes this process the only one that writes to a run, as long as this lives. The system lets go
/// of it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
    /// Which folder it is in.
    folder: Option<(u64, u64)>,
}

/// Which file or folder it is, wherever it is moved.
fn identity(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|found| (found.dev(), found.ino()))
}

impl Lock {
    /// Takes the lock of a run directory, unless another process holds it.
    pub fn take(path: &Path) -> Result<Self, RunError> {
        let lock = Self::open(path)?;
        // Somebody may have put another folder into this place meanwhile.
        if lock.is_at(path) { Ok(lock) } else { Err(RunError::Gone(path.to_owned())) }
    }

    fn open(path: &Path) -> Result<Self, RunError> {
        let name = path.join(LOCK);
        let io = |error| RunError::Io { path: name.clone(), error };
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true);
        let mut file = files::open(&name, &mut options).map_err(io)?;
        // Somebody may just be looking whether it is taken.
        let mut locked = file.try_lock();
        for _ in 0..5 {
            if locked.is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            locked = file.try_lock();
        }
        let mut holder = String::new();
        let read = file.read_to_string(&mut holder).and_then(|_| file.rewind());
        // What is no text is no lock of ours.
        let holder = if read.is_ok() { holder.trim().to_owned() } else { "?".into() };
        match locked {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let holder = holder.trim_start_matches(MARK).to_owned();
                return Err(RunError::Locked { path: path.to_owned(), holder });
            }
            Err(fs::TryLockError::Error(error)) => return Err(io(error)),
        }
        // Another program's lock of the same name says something else; our first version's, a number.
        let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let ours = holder.is_empty()
            || holder.strip_prefix(MARK).is_some_and(number)
            || (number(&holder) && read::is_run(path));
        if !ours {
            return Err(RunError::NotOurs(name));
        }
        let pid = format!("{MARK}{}\n", std::process::id());
        file.set_len(0).and_then(|()| file.write_all(pid.as_bytes())).map_err(io)?;
        let folder = path.canonicalize().ok().and_then(|path| identity(&path));
        Ok(Self { file, folder })
    }

    fn is_at(&self, run: &Path) -> bool {
        let own = self.file.metadata().map(|found| (found.dev(), found.ino())).ok();
        own.is_some() && own == identity(&run.join(LOCK))
    }

    /// Where the run is now, which was at `run` before: nowhere if it was removed.
    pub fn home(&mut self, run: &Path) -> Result<PathBuf, RunError> {
        if self.is_at(run) {
            return Ok(run.to_owned());
        }
        // Only the lock was removed: there is a new one, if nobody was faster.
        let folder = run.canonicalize().ok().and_then(|path| identity(&path));
        if folder.is_some() && folder == self.folder && !run.join(LOCK).exists() {
            *self = Self::open(run)?;
            if self.is_at(run) {
                return Ok(run.to_owned());
            }
        }
        // Linux knows where a file was moved to.
        let moved = fs::read_link(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        let moved = moved.ok().and_then(|lock| lock.parent().map(Path::to_owned));
        moved.filter(|path| self.is_at(path)).ok_or_else(|| RunError::Gone(run.to_owned()))
    }
}

/// Whether a process writes to a run just now.
pub fn in_use(run: &Path) -> bool {
    let lock = files::open(&run.join(LOCK), File::options().read(true));
    let locked = lock.and_then(|file| Ok(file.try_lock_shared()?));
    locked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}
