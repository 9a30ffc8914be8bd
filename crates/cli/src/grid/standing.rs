//! `ecrl grid status`, `cancel` and `retry`: runs that were asked for before.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use runs::experiment::call::{Asked, Call};
use runs::experiment::survey::{self, Survey};
use runs::experiment::{ExperimentError, State, count};
use runs::shell::printable;

use super::submit::{passed_on, runs};
use super::{begin, wants_to_be_gone};
use crate::environment::Robots;
use crate::failure::Failure;
use crate::screen::{overview, troubles};

#[derive(Args)]
pub struct StatusArgs {
    /// The folder of the runs
    out: PathBuf,
}

#[derive(Args)]
pub struct CancelArgs {
    /// The folder of the runs
    out: PathBuf,
}

#[derive(Args)]
pub struct RetryArgs {
    /// The folder of the runs
    out: PathBuf,
    /// After --: other options of sbatch than before, as in -- --mem=4G
    #[arg(last = true, value_name = "SBATCH")]
    options: Vec<String>,
}

fn survey(out: &Path) -> Result<Survey, Failure> {
    let survey = Survey::of(out, &Robots::default())?;
    match survey.calls.is_empty() {
        true => Err(ExperimentError::NoCalls(out.to_owned()).into()),
        false => Ok(survey),
    }
}

pub fn status(args: &StatusArgs, output: &mut impl Write) -> Result<(), Failure> {
    let entries = survey(&args.out)?.entries;
    for line in overview(&entries).into_iter().chain(troubles(&entries)) {
        writeln!(output, "{line}")?;
    }
    Ok(output.flush()?)
}

pub fn cancel(args: &CancelArgs, output: &mut impl Write) -> Result<(), Failure> {
    // Whatever has become of the files of its tasks.
    let count = survey(&args.out).map(|survey| count(&survey.entries, State::is_open));
    survey::cancel(&args.out)?;
    let out = printable(&args.out.display().to_string());
    let runs = count.map_or_else(|_| "all runs".into(), runs);
    writeln!(output, "{runs} of {out} asked to end: each stores what it has")?;
    Ok(output.flush()?)
}

pub fn retry(
    args: &RetryArgs,
    program: Vec<OsString>,
    output: &mut impl Write,
) -> Result<(), Failure> {
    let survey = survey(&args.out)?;
    let mut failed: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (entry, &(call, run)) in survey.entries.iter().zip(&survey.asked) {
        if matches!(entry.state, State::Failed(_)) {
            failed.entry(call).or_default().push(run);
        }
    }
    if failed.is_empty() {
        let stopped = count(&survey.entries, |state| *state == State::Stopped);
        // Slurm forgets after some minutes what has become of a task.
        let more = match stopped {
            0 => String::new(),
            _ => format!("; {} stopped: the same command as before goes on", runs(stopped)),
        };
        writeln!(
            output,
            "no run of {} is known to have failed{more}",
            printable(&args.out.display().to_string())
        )?;
        return Ok(output.flush()?);
    }
    let more = passed_on(&args.options)?;
    let mut first = Ok(());
    for (number, runs) in failed {
        let Call { grid, asked, .. } = &survey.calls[number];
        if let (Some(option), true) = (more.first(), asked.engine.waits()) {
            let message = format!("{option} does not apply on {}; expected none", asked.engine);
            return Err(Failure::input(message));
        }
        let options = asked.options.iter().chain(&more).cloned().collect();
        let asked = Asked { runs, options, ..asked.clone() };
        let jobs = grid.jobs(&Robots::default())?;
        let program = program.clone();
        let tried = begin(&args.out, grid.clone(), &jobs, asked, program, false, output);
        // The others are tried all the same, but if the user has stopped it.
        if wants_to_be_gone(&tried) {
            return tried;
        }
        first = first.and(tried);
    }
    first
}
