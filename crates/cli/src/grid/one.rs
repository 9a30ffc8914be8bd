//! `ecrl grid run`: the one run that every engine has made, by its place in a grid.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use clap::{Args, Parser as _};
use runs::directory::RunError;
use runs::experiment::{call, misfit, note_failure};
use runs::grid::Job;
use runs::shell::printable;
use runs::{lock, provenance, read};

use super::Selection;
use crate::environment::Robots;
use crate::failure::Failure;
use crate::{Cli, threads};

#[derive(Args)]
pub struct RunArgs {
    /// The grid's file
    file: PathBuf,
    /// Which of its runs: from 0 on, all algorithms of the first task with the first seed first
    #[arg(long)]
    index: usize,
    #[command(flatten)]
    selection: Selection,
    /// Threads; the result does not depend on them [default: all]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// The folder of the runs [default: experiments/NAME, after the file]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print to OUT/logs/NAME.txt
    #[arg(long)]
    log: bool,
}

/// Trains the run, goes on with it, or finds it done.
pub fn run(args: RunArgs, output: &mut impl Write) -> Result<(), Failure> {
    let jobs = args.selection.of(super::read(&args.file)?)?.jobs(&Robots::default())?;
    let count = jobs.len();
    let Some(job) = jobs.into_iter().nth(args.index) else {
        let last = count - 1;
        return Err(Failure::input(format!("--index is {}; expected 0 to {last}", args.index)));
    };
    let out = args.out.unwrap_or_else(|| super::usual_out(&args.file));
    let path = out.join(&job.name);
    if args.log {
        print_to(&call::open_log(&out, &job.name)?)?;
    }
    let made = make(&job, &path, threads(args.threads), output);
    if let Err(failure) = &made
        && !failure.message.is_empty()
    {
        // Whoever asks how the runs stand is told.
        note_failure(&job, &path, &failure.message);
    }
    made
}

fn make(job: &Job, path: &Path, threads: usize, output: &mut impl Write) -> Result<(), Failure> {
    // Of a machine that is gone, perhaps: nobody else will come for it.
    lock::wait_for_the_dead(path);
    let steps = job.config.steps;
    let mut words: Vec<OsString> = vec!["ecrl".into()];
    match misfit(job, path) {
        Err(RunError::Missing(_)) => {
            words.extend(job.arguments.iter().map(OsString::from));
            words.extend(["--out".into(), path.into()]);
        }
        Ok(()) if read::progress(path, steps).finished => {
            writeln!(output, "{} is done", printable(&path.display().to_string()))?;
            return Ok(());
        }
        fits => {
            fits?;
            let steps = ["--steps".to_owned(), steps.to_string()].map(OsString::from);
            words.extend(["resume".into(), path.into()].into_iter().chain(steps));
        }
    }
    words.extend(["--threads".into(), threads.to_string().into()]);
    provenance::instead(words.clone());
    let cli = Cli::try_parse_from(words).map_err(|error| Failure::usage(&error))?;
    crate::run(cli.command, None)
}

/// From here on, all that this process prints goes to the end of a file.
fn print_to(file: &File) -> Result<(), Failure> {
    for descriptor in [1, 2] {
        // SAFETY: all three are open files of this process.
        if unsafe { libc::dup2(file.as_raw_fd(), descriptor) } < 0 {
            return Err(Failure::run(std::io::Error::last_os_error()));
        }
    }
    Ok(())
}
