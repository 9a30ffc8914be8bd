//! How the runs of a folder stand, whoever makes them: what its calls' engines say, joined with what the run directories
//! do.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::Path;

use super::call::Call;
use super::launch::Says;
use super::{Entry, ExperimentError, State, judge};
use crate::grid::{Job, Tasks};

/// All runs that were ever asked for in a folder.
pub struct Survey {
    /// The runs.
    pub entries: Vec<Entry>,
    /// The calls, the first one first.
    pub calls: Vec<Call>,
    /// Of each run the last call that asked for it, and its place in the grid of that.
    pub asked: Vec<(usize, usize)>,
}

impl Survey {
    /// Looks at a folder.
    pub fn of(out: &Path, tasks: &dyn Tasks) -> Result<Self, ExperimentError> {
        let calls = Call::all(out)?;
        let mut names: HashMap<String, usize> = HashMap::new();
        let mut found: Vec<(Job, Option<Says>, (usize, usize))> = Vec::new();
        for (number, call) in calls.iter().enumerate() {
            let said = call.asked.engine.launcher(Vec::new()).look(call)?;
            let jobs = call.grid.jobs(tasks)?;
            // What a process has not come to yet waits in it.
            let queued = call.asked.engine.waits() && call.waiter().is_some();
            let queued = queued.then(|| Says::Waiting(String::new()));
            for &run in &call.asked.runs {
                let Some(job) = jobs.get(run) else { continue };
                let says = said.get(&run).or(queued.as_ref()).cloned();
                let at = *names.entry(job.name.clone()).or_insert_with(|| {
                    found.push((job.clone(), None, (number, run)));
                    found.len() - 1
                });
                let before = &mut found[at];
                // The last call counts, but for one whose engine is still at it.
                let ended = |says: &Option<Says>| matches!(says, None | Some(Says::Ended(_)));
                if ended(&before.1) || !ended(&says) {
                    *before = (job.clone(), says.or(before.1.take()), (number, run));
                }
            }
        }
        let asked = found.iter().map(|(.., asked)| *asked).collect();
        let out = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
        let entry = |(job, says, _): &(Job, Option<Says>, _)| judge(&out, job, says.as_ref());
        Ok(Self { entries: found.iter().map(entry).collect(), calls, asked })
    }

    /// Of some runs of a grid, those that are to be made, and those that are done; at the others somebody is, or
    /// will be.
    pub fn due(&self, out: &Path, jobs: &[Job], runs: &[usize]) -> [Vec<usize>; 2] {
        let entries = self.entries.iter().filter(|entry| entry.state.is_open());
        let open: HashSet<&str> = entries.map(|entry| &entry.job.name[..]).collect();
        let [mut due, mut done] = [Vec::new(), Vec::new()];
        for &run in runs.iter().filter(|run| !open.contains(&jobs[**run].name[..])) {
            match judge(out, &jobs[run], None).state {
                State::Done => done.push(run),
                State::Running(_) => {}
                _ => due.push(run),
            }
        }
        [due, done]
    }
}

/// Asks all runs of a folder's calls that are under way or will be to store what they have and end.
pub fn cancel(out: &Path) -> Result<(), ExperimentError> {
    let calls = Call::all(out)?;
    if calls.is_empty() {
        return Err(ExperimentError::NoCalls(out.to_owned()));
    }
    // One that cannot be asked does not keep the others from it.
    let stop = |call: &Call| call.asked.engine.launcher(Vec::<OsString>::new()).stop(call);
    calls.iter().map(stop).fold(Ok(()), Result::and)
}
