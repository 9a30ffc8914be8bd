//! Runs as processes of this machine, a few at a time.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::ExperimentError;
use super::call::Call;
use super::launch::{Launcher, Says};
use crate::files;
use crate::process;

/// Processes of ours.
pub struct Local {
    program: Vec<OsString>,
    running: Vec<(usize, Child)>,
}

impl Local {
    /// None yet.
    pub fn new(program: Vec<OsString>) -> Self {
        Self { program, running: Vec::new() }
    }

    fn spawn(&self, call: &Call, run: usize) -> io::Result<Child> {
        let words = call.command(&self.program);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(run.to_string());
        command.current_dir(&call.asked.from);
        // What it says before it has found its log.
        let log = files::open(&call.file("start.txt"), File::options().create(true).append(true))?;
        command.stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
        // A run that is asked twice to stop does so at once; if this process is killed, its runs store what they have.
        process::bound(&mut command);
        command.spawn()
    }
}

impl Launcher for Local {
    fn room(&self, call: &Call) -> usize {
        call.asked.at_once.unwrap_or(usize::MAX).saturating_sub(self.running.len())
    }

    fn start(&mut self, call: &Call, runs: &[(usize, &str)]) -> Result<(), ExperimentError> {
        for &(run, _) in runs {
            let spawned = self.spawn(call, run);
            let child = spawned.map_err(|error| ExperimentError::Start(error.to_string()))?;
            self.running.push((run, child));
        }
        Ok(())
    }

    fn look(&mut self, _: &Call) -> Result<HashMap<usize, Says>, ExperimentError> {
        let mut said = HashMap::new();
        for (run, child) in &mut self.running {
            let ended = child.try_wait().map_err(|e| ExperimentError::Start(e.to_string()))?;
            let says = match ended {
                None => Says::Running(String::new()),
                Some(status) => Says::Ended((!status.success()).then(|| status.to_string())),
            };
            said.insert(*run, says);
        }
        self.running.retain(|(run, _)| matches!(said[run], Says::Running(_)));
        Ok(said)
    }

    fn stop(&mut self, call: &Call) -> Result<(), ExperimentError> {
        for (_, child) in &self.running {
            // SAFETY: the process is our child and has not been waited for, so the number is its own.
            unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        }
        if self.running.is_empty() { call.ask_waiter_to_end() } else { Ok(()) }
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(50)
    }
}
