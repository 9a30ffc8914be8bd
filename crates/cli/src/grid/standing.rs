//! `ecrl grid status`, `cancel` and `retry`: runs that were asked for before.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use runs::experiment::call::{Asked, Call};
use runs::experiment::survey::Survey;
use runs::experiment::{Experiment, ExperimentError, State};
use runs::shell::printable;

use super::submit::{passed_on, submit};
use super::wait;
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
    let count = survey(&args.out)?.cancel()?;
    let out = printable(&args.out.display().to_string());
    writeln!(output, "{count} runs of {out} asked to end; what they have is stored")?;
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
        writeln!(output, "no run of {} has failed", printable(&args.out.display().to_string()))?;
        return Ok(output.flush()?);
    }
    let more = passed_on(&args.options)?;
    for (number, runs) in failed {
        let Call { grid, asked, .. } = &survey.calls[number];
        let options = asked.options.iter().chain(&more).cloned().collect();
        let asked = Asked { runs, options, ..asked.clone() };
        let (grid, launcher) = (grid.clone(), asked.engine.launcher(program.clone()));
        let jobs = grid.jobs(&Robots::default())?;
        if asked.engine.waits() {
            let (call, lock) = Call::begin(&args.out, grid, asked)?;
            wait(Experiment::new(call, &jobs, launcher), &lock, &args.out, output)?;
        } else {
            submit(&args.out, grid, &jobs, asked, launcher, false, output)?;
        }
    }
    Ok(())
}
