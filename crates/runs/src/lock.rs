//! One process at a time writes to a run.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use crate::directory::RunError;

/// The file that is locked.
pub(crate) const LOCK: &str = "run.lock";

/// Makes this process the only one that writes to a run, as long as this lives. The system lets go
/// of it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of a run directory, unless another process holds it.
    pub fn take(path: &Path) -> Result<Self, RunError> {
        lock(path).map(|file| Self { _file: file })
    }
}

fn lock(path: &Path) -> Result<File, RunError> {
    let file = path.join(LOCK);
    let io = |error| RunError::Io { path: file.clone(), error };
    let mut lock = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&file)
        .map_err(io)?;
    // Somebody may just be looking whether it is taken.
    let mut locked = lock.try_lock();
    for _ in 0..5 {
        if locked.is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        locked = lock.try_lock();
    }
    match locked {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            let holder = fs::read_to_string(&file).unwrap_or_default();
            let (path, holder) = (path.to_owned(), holder.trim().to_owned());
            return Err(RunError::Locked { path, holder });
        }
        Err(fs::TryLockError::Error(error)) => return Err(io(error)),
    }
    let pid = format!("{}\n", std::process::id());
    lock.set_len(0).and_then(|()| lock.write_all(pid.as_bytes())).map_err(io)?;
    Ok(lock)
}

/// Whether a process writes to a run just now.
pub fn in_use(run: &Path) -> bool {
    let lock = File::open(run.join(LOCK)).and_then(|file| Ok(file.try_lock_shared()?));
    lock.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}
