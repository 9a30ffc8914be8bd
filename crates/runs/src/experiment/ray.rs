//! Runs as actors of Ray, by way of Ray's own language: a process of the Python package speaks for this one.
//!
//! It is told which runs to make, and tells how each stands, a line of JSON at a time. It ends when this process does,
//! and Ray ends what it had begun: started again, all goes on.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::ExperimentError;
use super::call::Call;
use super::launch::{Launcher, Says};
use crate::process;
use crate::shell::printable;

/// The module that speaks for this process.
const MODULE: &str = "ecrl._ray_grid";

/// Runs that wait in Ray at the most, beyond those that it has processors for.
const AHEAD: usize = 16;

/// What is told of a run, or of all of Ray.
#[derive(Deserialize)]
#[serde(tag = "says", rename_all = "lowercase")]
enum Told {
    Waiting {
        run: usize,
        why: String,
    },
    Running {
        run: usize,
        place: String,
    },
    Ended {
        run: usize,
        fault: Option<String>,
    },
    /// It has so many processors.
    Room {
        processors: usize,
    },
    /// It cannot be reached, or is there no more.
    Gone {
        why: String,
    },
}

/// The process that speaks for this one.
struct Speaker {
    child: Child,
    /// Closed, it ends.
    tell: Option<ChildStdin>,
    heard: Receiver<String>,
}

/// Ray, as its address says.
pub struct Ray {
    address: String,
    program: Vec<OsString>,
    speaker: Option<Speaker>,
    /// Runs that were given to it and have not ended.
    said: HashMap<usize, Says>,
    processors: usize,
}

impl Ray {
    /// The Ray at an address, or without one that which is found, or begun.
    pub fn new(address: String, program: Vec<OsString>) -> Self {
        Self { address, program, speaker: None, said: HashMap::new(), processors: 0 }
    }

    fn words(&self) -> Vec<OsString> {
        let mut words = vec![process::python(&self.program)];
        words.extend(["-m", MODULE, &self.address].map(OsString::from));
        words
    }

    fn begin(&mut self, call: &Call) -> Result<(), ExperimentError> {
        let words = self.words();
        let failed = |error: std::io::Error| {
            let python = printable(&words[0].to_string_lossy());
            ExperimentError::Start(format!(
                "{python}: {error}; expected a Python with ecrl and Ray"
            ))
        };
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(&call.asked.from);
        process::bound(&mut command);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let (said, heard) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            lines.take_while(|line| said.send(line.clone()).is_ok()).for_each(drop);
        });
        let tell = child.stdin.take();
        self.speaker = Some(Speaker { child, tell, heard });
        let asked = &call.asked;
        self.tell(&json!({
            "out": call.out.to_string_lossy(),
            "folder": call.file("").to_string_lossy(),
            "from": asked.from.to_string_lossy(),
            "threads": asked.threads,
            "options": asked.options,
        }))
    }

    fn tell(&mut self, what: &serde_json::Value) -> Result<(), ExperimentError> {
        let tell = self.speaker.as_mut().and_then(|speaker| speaker.tell.as_mut());
        let told = tell.map(|tell| writeln!(tell, "{what}").and_then(|()| tell.flush()));
        match told {
            Some(Ok(())) => Ok(()),
            // It has said why.
            _ => self.listen(),
        }
    }

    /// Takes note of what was told since.
    fn listen(&mut self) -> Result<(), ExperimentError> {
        let Some(speaker) = &mut self.speaker else { return Ok(()) };
        let ended = speaker.child.try_wait().ok().flatten();
        if ended.is_some() {
            // What it said last is about to be read.
            std::thread::sleep(Duration::from_millis(50));
        }
        for line in speaker.heard.try_iter() {
            match serde_json::from_str(&line) {
                Ok(Told::Waiting { run, why }) => _ = self.said.insert(run, Says::Waiting(why)),
                Ok(Told::Running { run, place }) => _ = self.said.insert(run, Says::Running(place)),
                Ok(Told::Ended { run, fault }) => _ = self.said.insert(run, Says::Ended(fault)),
                Ok(Told::Room { processors }) => self.processors = processors,
                Ok(Told::Gone { why }) => {
                    return Err(ExperimentError::Start(format!("Ray: {why}")));
                }
                // What Python or Ray prints beside.
                Err(_) => {}
            }
        }
        match ended {
            Some(status) => Err(ExperimentError::Start(format!(
                "Ray: the process that speaks with it has ended ({status}); expected Python's packages ecrl and ray \
                 in {}",
                printable(&self.words()[0].to_string_lossy())
            ))),
            None => Ok(()),
        }
    }
}

impl Launcher for Ray {
    fn room(&self, call: &Call) -> usize {
        let fit = self.processors / call.asked.threads.max(1) + AHEAD;
        call.asked.at_once.unwrap_or(fit).saturating_sub(self.said.len())
    }

    fn start(&mut self, call: &Call, runs: &[(usize, &str)]) -> Result<(), ExperimentError> {
        if self.speaker.is_none() {
            self.begin(call)?;
        }
        for &(run, name) in runs {
            self.said.insert(run, Says::Waiting(String::new()));
            self.tell(&json!({ "run": run, "name": name }))?;
        }
        Ok(())
    }

    fn look(&mut self, _: &Call) -> Result<HashMap<usize, Says>, ExperimentError> {
        self.listen()?;
        let said = self.said.clone();
        self.said.retain(|_, says| !matches!(says, Says::Ended(_)));
        Ok(said)
    }

    fn stop(&mut self, call: &Call) -> Result<(), ExperimentError> {
        match self.speaker.is_some() {
            true => self.tell(&json!({ "stop": true })),
            false => call.ask_waiter_to_end(),
        }
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(200)
    }
}

impl Drop for Ray {
    fn drop(&mut self) {
        if let Some(speaker) = &mut self.speaker {
            drop(speaker.tell.take());
            let _ = speaker.child.wait();
        }
    }
}
