//! One process at a time writes to a run, and only to the run that it has locked: not to another that
//! has come into its place.
//!
//! On one machine the system's own lock (`flock`) decides: it ends with its process, however that ends. Where machines
//! share a folder it may not reach the others, or stay when its machine is gone. So whoever holds a lock writes into it
//! who it is, and touches it every [`BEAT`]; one of another machine counts until it is given back, or has not been
//! touched for [`STALE`], or until the engine that starts runs there gives the same task to somebody else: it would
//! not if it were still at it. Who takes such a lock puts a new file in its place, and the one before, should
//! it still live, finds that out before it writes anything. Clocks are taken to agree within a minute or two.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::directory::RunError;
use crate::{files, read};

/// The file that is locked.
pub(crate) const LOCK: &str = "run.lock";

/// What it begins with, before the number of the process.
const MARK: &str = "ecrl ";

/// How often whoever holds a lock touches it.
pub const BEAT: Duration = Duration::from_secs(30);

/// After how long without that a lock of another machine counts no more.
pub const STALE: Duration = Duration::from_secs(300);

/// The task that an engine has this process do, by the engine's own name for it.
pub const TASK: &str = "ECRL_TASK";

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The number of the process; 0 where that is not known.
    pub process: u32,
    /// The machine's name.
    pub host: String,
    /// Which start of that machine.
    boot: String,
    /// What an engine calls what it is doing.
    task: String,
}

impl Holder {
    /// This process.
    fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let word = |text: String| text.replace(char::is_whitespace, "_");
        Self {
            process: std::process::id(),
            host: word(read("/proc/sys/kernel/hostname")),
            boot: word(read("/proc/sys/kernel/random/boot_id")),
            task: word(std::env::var(TASK).unwrap_or_default()),
        }
    }

    /// What a lock's file says; nothing where that is not ours to read. An earlier version wrote the process alone.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_prefix(MARK)?.trim_end().split(' ');
        let process = words.next()?;
        let process =
            process.bytes().all(|b| b.is_ascii_digit()).then(|| process.parse().ok())??;
        let rest: Vec<&str> = words.collect();
        let word = |i: usize| rest.get(i).copied().unwrap_or_default().to_owned();
        let uuid = |text: &str| {
            text.len() == 36 && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
        };
        let sound = rest.is_empty() || (rest.len() <= 3 && uuid(&word(1)));
        sound.then(|| Self { process, host: word(0), boot: word(1), task: word(2) })
    }

    fn text(&self) -> String {
        let Self { process, host, boot, task } = self;
        format!("{MARK}{process} {host} {boot} {task}").trim_end().to_owned() + "\n"
    }

    /// Whether the system's own lock is all there is to ask: it is of this machine, or was before that was
    /// started again.
    pub fn is_here(&self) -> bool {
        let here = Self::here();
        self.boot.is_empty() || self.boot == here.boot || self.host == here.host
    }

    /// Whether the engine that had it started has started this process for the same.
    fn is_before(&self) -> bool {
        !self.task.is_empty() && self.task == Self::here().task
    }

    /// The process in words, and the machine where that is another.
    fn describe(&self, untouched: Duration) -> String {
        match self.is_here() {
            true => self.process.to_string(),
            false => format!(
                "{} on {}, which was there {} s ago: it is free once that has said nothing for {} s",
                self.process,
                self.host,
                untouched.as_secs(),
                STALE.as_secs()
            ),
        }
    }

    /// Whether an engine had it started.
    pub fn is_of_an_engine(&self) -> bool {
        !self.task.is_empty()
    }

    /// Whether that process of this machine has a folder's lock open: its number may be another's in a container.
    fn has_open(&self, folder: &Path) -> bool {
        let lock = identity(&folder.join(LOCK));
        let files = fs::read_dir(format!("/proc/{}/fd", self.process)).into_iter().flatten();
        let mut found = files.flatten().filter_map(|file| file.path().metadata().ok());
        lock.is_some() && found.any(|found| Some((found.dev(), found.ino())) == lock)
    }

    /// Asks whoever holds a folder's lock to store what it has and end.
    pub fn ask_to_end(&self, folder: &Path) -> Result<(), String> {
        if !self.is_here() || !self.has_open(folder) {
            return Err(format!(
                "process {} on {} makes these runs: it can be asked to end there alone",
                self.process, self.host
            ));
        }
        if self.process != std::process::id() {
            // SAFETY: a signal to a process that holds a lock of ours.
            unsafe { libc::kill(self.process as i32, libc::SIGTERM) };
        }
        Ok(())
    }
}

/// Makes this process the only one that writes to a run, as long as this lives.
#[derive(Debug)]
pub struct Lock {
    file: File,
    /// Which folder it is in.
    folder: Option<(u64, u64)>,
    /// Touches it now and then, until nobody asks for it any more.
    beat: Option<(Sender<()>, JoinHandle<()>)>,
}

/// Which file or folder it is, wherever it is moved.
fn identity(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// How long a lock has not been touched.
fn untouched(file: &File) -> Duration {
    let touched = file.metadata().and_then(|found| found.modified());
    touched.ok().and_then(|at| at.elapsed().ok()).unwrap_or_default()
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
            std::thread::sleep(Duration::from_millis(10));
            locked = file.try_lock();
        }
        let held = match locked {
            Ok(()) => false,
            Err(fs::TryLockError::WouldBlock) => true,
            Err(fs::TryLockError::Error(error)) => return Err(io(error)),
        };
        let mut text = String::new();
        // What is no text is no lock of ours.
        let said = file.read_to_string(&mut text).and_then(|_| file.rewind());
        let holder = said.ok().and_then(|()| Holder::parse(&text));
        // Another program's lock of the same name says something else; our first version's, a number.
        let number = !text.is_empty() && text.trim().bytes().all(|b| b.is_ascii_digit());
        let first = number && read::is_run(path);
        let ours = text.trim().is_empty() || holder.is_some() || first;
        if !ours && !held {
            return Err(RunError::NotOurs(name));
        }
        let elsewhere = holder.as_ref().is_some_and(|holder| !holder.is_here());
        if let Some(holder) = holder.filter(|_| held || elsewhere) {
            let quiet = untouched(&file);
            let gone = elsewhere && (quiet >= STALE || holder.is_before());
            if !gone {
                let (path, holder) = (path.to_owned(), holder.describe(quiet));
                return Err(RunError::Locked { path, holder });
            }
            file = replace(&name, &file).map_err(io)?;
        } else if held {
            return Err(RunError::Locked { path: path.to_owned(), holder: text.trim().to_owned() });
        }
        let ours = Holder::here().text();
        let written = file.set_len(0).and_then(|()| file.write_all(ours.as_bytes()));
        // Other machines see it now, and not with what is written next.
        written.and_then(|()| file.sync_all()).map_err(io)?;
        // Where the system's lock is each machine's own, another may have come at the same time.
        match files::read_text(&name) {
            Ok(there) if there != ours => {
                let (path, holder) = (path.to_owned(), there.trim().to_owned());
                return Err(RunError::Locked { path, holder });
            }
            // The folder has just been moved, and the lock with it: whoever asks finds that out.
            _ => {}
        }
        let folder = path.canonicalize().ok().and_then(|path| identity(&path));
        let beat = file.try_clone().map(beat).map_err(io)?;
        Ok(Self { file, folder, beat: Some(beat) })
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

/// Gives it back: no other machine waits for it.
impl Drop for Lock {
    fn drop(&mut self) {
        if let Some((ask, thread)) = self.beat.take() {
            drop(ask);
            let _ = thread.join();
        }
        let _ = self.file.set_len(0);
    }
}

/// Touches a file until the other end is dropped; with the time of whoever keeps it.
fn beat(file: File) -> (Sender<()>, JoinHandle<()>) {
    let (ask, asked) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        while asked.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
            // SAFETY: the file is open, and a null pointer asks for the present time.
            unsafe { libc::futimens(file.as_raw_fd(), std::ptr::null()) };
        }
    });
    (ask, thread)
}

/// Puts a new, locked file into the place of one whose holder is gone.
fn replace(name: &Path, old: &File) -> io::Result<File> {
    let part = name.with_extension(format!("lock{}-{}", files::PART, std::process::id()));
    let file = files::open(&part, File::options().create_new(true).read(true).write(true))?;
    let same = |found: fs::Metadata| Ok((found.dev(), found.ino()));
    let replaced = file.try_lock().map_err(io::Error::from).and_then(|()| {
        // Nobody was faster.
        match old.metadata().and_then(same).ok() == identity(name) {
            true => fs::rename(&part, name),
            false => Err(io::Error::other("somebody else has just taken it")),
        }
    });
    replaced.inspect_err(|_| _ = fs::remove_file(&part))?;
    Ok(file)
}

/// Who writes to a run just now.
pub fn holder(run: &Path) -> Option<Holder> {
    let mut file = files::open(&run.join(LOCK), File::options().read(true)).ok()?;
    let held = file.try_lock_shared().is_err_and(|e| matches!(e, fs::TryLockError::WouldBlock));
    let mut text = String::new();
    let said = file.read_to_string(&mut text).ok().and_then(|_| Holder::parse(&text));
    match said {
        Some(holder) if !holder.is_here() => (untouched(&file) < STALE).then_some(holder),
        Some(holder) => held.then_some(holder),
        None => held.then(|| Holder { process: 0, ..Holder::here() }),
    }
}

/// Whether a process writes to a run just now.
pub fn in_use(run: &Path) -> bool {
    holder(run).is_some()
}

/// Waits until it is clear whether the process of another machine that holds a run is still there: until it gives it
/// back, has not been heard of for long enough, or is heard of.
pub fn wait_for_the_dead(run: &Path) {
    // One of this machine that did the same before may be storing what it has.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60)
        && holder(run).is_some_and(|holder| holder.is_here() && holder.is_before())
    {
        std::thread::sleep(Duration::from_millis(200));
    }
    let touched = || run.join(LOCK).metadata().and_then(|found| found.modified()).ok();
    let before = touched();
    while let Some(holder) = holder(run)
        && !holder.is_here()
        && !holder.is_before()
        && touched() == before
    {
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a lock of another machine, untouched for so long.
    fn elsewhere(name: &str, task: &str, untouched: Duration) -> PathBuf {
        let path = std::env::temp_dir().join(format!("ecrl-lock-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        let boot = "01234567-89ab-cdef-0123-456789abcdef";
        fs::write(path.join(LOCK), format!("ecrl 77 node9 {boot} {task}\n")).unwrap();
        let file = File::options().write(true).open(path.join(LOCK)).unwrap();
        file.set_modified(std::time::SystemTime::now() - untouched).unwrap();
        path
    }

    #[test]
    fn a_lock_of_another_machine_counts_until_it_is_untouched_for_long() {
        let fresh = elsewhere("fresh", "slurm:1_2", Duration::from_secs(40));
        let error = Lock::take(&fresh).unwrap_err().to_string();
        assert!(
            error.contains("is in use by process 77 on node9, which was there 40 s ago"),
            "{error}"
        );
        assert_eq!(holder(&fresh).unwrap().host, "node9");
        assert!(holder(&fresh).unwrap().ask_to_end(&fresh).is_err());
        let stale = elsewhere("stale", "slurm:1_2", STALE);
        assert!(!in_use(&stale));
        let before = identity(&stale.join(LOCK));
        let lock = Lock::take(&stale).unwrap();
        // The one before finds another file in its place.
        assert_ne!(identity(&stale.join(LOCK)), before);
        assert_eq!(holder(&stale).unwrap().process, std::process::id());
        drop(lock);
        assert_eq!(fs::read_to_string(stale.join(LOCK)).unwrap(), "");
        // It holds the system's lock, which outlived its machine.
        for (path, free) in [(fresh, false), (elsewhere("held", "", STALE), true)] {
            let file = File::open(path.join(LOCK)).unwrap();
            file.lock_shared().unwrap();
            assert_eq!(Lock::take(&path).is_ok(), free);
            fs::remove_dir_all(path).unwrap();
        }
        fs::remove_dir_all(stale).unwrap();
    }

    #[test]
    fn what_is_written_is_read_back() {
        let here = Holder::here();
        assert_eq!(Holder::parse(&here.text()), Some(here.clone()));
        let task = Holder { task: "slurm:12_3".into(), ..here };
        assert_eq!(Holder::parse(&task.text()), Some(task));
        assert!(Holder::parse("ecrl 12\n").unwrap().is_here());
        for text in ["", "ecrl", "ecrl x", "ecrl 5 notes of mine", "12"] {
            assert_eq!(Holder::parse(text), None, "{text}");
        }
    }
}
