//! What was asked of a folder of runs. Each call of `ecrl grid` leaves there which runs of which grid it wanted, of
//! which engine: so a run that is made elsewhere finds its values, whatever becomes of the grid's file, and whoever
//! asks how the runs stand finds the engine.
//!
//! ```text
//! OUT/calls/1/grid.toml    the grid, with what the command line made of it
//!             call.json    the rest
//!             run.lock     held by whoever waits for the runs
//!             job.sh ...   what the engine keeps
//! OUT/logs/NAME.txt        what the run of that name printed
//! OUT/NAME/                the run
//! ```

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ExperimentError;
use super::launch::Engine;
use crate::files;
use crate::grid::Grid;
use crate::lock::{self, Holder, Lock};

/// The folder of all calls.
const CALLS: &str = "calls";
const GRID: &str = "grid.toml";
const CALL: &str = "call.json";

/// What is asked for beside the grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Who makes the runs.
    pub engine: Engine,
    /// Threads of each.
    pub threads: usize,
    /// Runs at the same time at the most.
    pub at_once: Option<usize>,
    /// Options of the engine's own.
    pub options: Vec<String>,
    /// Which runs of the grid, by their places.
    pub runs: Vec<usize>,
    /// Where it was asked for: files of the user's own tasks are found from there.
    pub from: PathBuf,
}

/// A call that is kept.
#[derive(Debug)]
pub struct Call {
    /// The folder of the runs.
    pub out: PathBuf,
    /// The grid.
    pub grid: Grid,
    /// The rest.
    pub asked: Asked,
    folder: PathBuf,
}

impl Call {
    /// Keeps a call in the folder of its runs. The same as one before takes its place, unless somebody is at that one or
    /// the engine keeps something of it.
    pub fn begin(out: &Path, grid: Grid, asked: Asked) -> Result<(Self, Lock), ExperimentError> {
        let out = std::path::absolute(out).map_err(named(out))?;
        for name in [CALLS, "logs"] {
            let path = out.join(name);
            fs::create_dir_all(&path).map_err(named(&path))?;
            if path.is_symlink() {
                let error = io::Error::other("it is a link; expected a folder of its own");
                return Err(named(&path)(error));
            }
        }
        let before = Self::all(&out)?;
        for call in before.iter().rev() {
            let same = call.grid == grid && call.asked == asked && asked.engine.waits();
            if same && let Ok(lock) = Lock::take(&call.folder) {
                return Ok((Self { out, grid, asked, folder: call.folder.clone() }, lock));
            }
        }
        let mut call = Self::draft(&out, grid, asked)?;
        let folder = loop {
            let folder = call.folder.clone();
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let Call { grid, asked, .. } = call;
                    call = Self::draft(&out, grid, asked)?;
                }
                made => {
                    made.map_err(named(&folder))?;
                    break folder;
                }
            }
        };
        let lock = Lock::take(&folder)?;
        let text = toml::to_string(&call.grid).expect("plain data");
        call.keep(GRID, text.as_bytes())?;
        // Last: with it, the call is there.
        call.keep(CALL, &serde_json::to_vec(&call.asked).expect("plain data"))?;
        Ok((call, lock))
    }

    /// A call that is not kept yet, as it would be.
    pub fn draft(out: &Path, grid: Grid, asked: Asked) -> Result<Self, ExperimentError> {
        let out = std::path::absolute(out).map_err(named(out))?;
        let last = numbers(&out.join(CALLS))?.last().copied().unwrap_or(0);
        let folder = out.join(CALLS).join((last + 1).to_string());
        Ok(Self { out, grid, asked, folder })
    }

    /// Keeps it no more: nothing came of it.
    pub fn forget(&self) {
        for name in [CALL, GRID] {
            let _ = fs::remove_file(self.file(name));
        }
    }

    /// All that are kept in a folder of runs, the first one first.
    pub fn all(out: &Path) -> Result<Vec<Self>, ExperimentError> {
        let calls = out.join(CALLS);
        let folders = numbers(&calls)?.into_iter().map(|number| calls.join(number.to_string()));
        // One without was cut off before it asked for anything.
        folders.filter(|folder| folder.join(CALL).exists()).map(|it| Self::read(out, it)).collect()
    }

    fn read(out: &Path, folder: PathBuf) -> Result<Self, ExperimentError> {
        let path = folder.join(CALL);
        let asked = files::read_text(&path).map_err(named(&path))?;
        let asked = serde_json::from_str(&asked)
            .map_err(|error| ExperimentError::Call { path, error: error.to_string() })?;
        let path = folder.join(GRID);
        let grid = files::read_text(&path).map_err(named(&path))?;
        let grid = Grid::parse(&grid)
            .map_err(|error| ExperimentError::Call { path, error: error.to_string() })?;
        let out = std::path::absolute(out).map_err(named(out))?;
        Ok(Self { out, grid, asked, folder })
    }

    /// Who waits for its runs just now, if somebody does.
    pub fn waiter(&self) -> Option<Holder> {
        lock::holder(&self.folder)
    }

    /// Asks whoever waits for its runs to have them store what they have, and to end.
    pub fn ask_waiter_to_end(&self) -> Result<(), ExperimentError> {
        let ask = |waiter: Holder| waiter.ask_to_end(&self.folder).map_err(ExperimentError::Start);
        self.waiter().map_or(Ok(()), ask)
    }

    /// A file that an engine keeps of it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Keeps a file.
    pub fn keep(&self, name: &str, bytes: &[u8]) -> Result<(), ExperimentError> {
        let path = self.file(name);
        files::write_whole(&path, bytes).map_err(named(&path))
    }

    /// The command that makes a run or goes on with it, but for its last word: the run's place. `program` is `ecrl`,
    /// with arguments that come before all others.
    pub fn command(&self, program: &[OsString]) -> Vec<OsString> {
        let threads = self.asked.threads.to_string();
        let mut words = program.to_vec();
        words.extend(["grid".into(), "run".into(), self.file(GRID).into()]);
        words.extend(["--out".into(), self.out.clone().into()]);
        words.extend(["--threads", &threads, "--log", "--index"].map(OsString::from));
        words
    }
}

/// The numbers of the calls in a folder, rising.
fn numbers(calls: &Path) -> Result<Vec<usize>, ExperimentError> {
    let entries = match fs::read_dir(calls) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(named(calls))?,
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut numbers: Vec<usize> = names.filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Opens the log of a run of that name in a folder, to go on at its end.
pub fn open_log(out: &Path, name: &str) -> Result<File, ExperimentError> {
    let path = log(out, name);
    let folder = fs::create_dir_all(out.join("logs"));
    let open = |()| files::open(&path, File::options().create(true).append(true));
    folder.and_then(open).map_err(named(&path))
}

/// What a run of that name in a folder printed.
pub fn log(out: &Path, name: &str) -> PathBuf {
    out.join("logs").join(format!("{name}.txt"))
}

fn named(path: &Path) -> impl FnOnce(io::Error) -> ExperimentError {
    let path = path.to_owned();
    move |error| ExperimentError::Io { path, error }
}
