//! A stage in this very thread: Python's environments, one after the other.

use cmdp::{Env as _, EnvSpec};
use ecrl::collect::episodes::{Choice, Rollout, Ticket, play};
use ecrl::collect::segments::{Order, Running, Segment, Stored};
use ecrl::collect::stage::Stage;

use crate::env::PyEnv;

/// Plays in the thread that asks for it: an environment may be bound to its thread, and only one can use
/// the interpreter anyway.
pub struct Here {
    spec: EnvSpec,
    /// For whole episodes; where there is none, the one that runs is borrowed.
    playing: Option<PyEnv>,
    running: Vec<Running>,
}

impl Here {
    /// With an environment for whole episodes, and some that run, with their numbers.
    pub fn new(playing: PyEnv, running: Vec<(PyEnv, u64)>) -> Self {
        Self {
            spec: playing.spec().clone(),
            playing: Some(playing),
            running: running.into_iter().map(|(env, i)| Running::new(Box::new(env), i)).collect(),
        }
    }

    /// With one environment for everything: if it is to run, whole episodes end the one that runs in it.
    pub fn shared(env: PyEnv, runs: bool) -> Self {
        match runs {
            false => Self::new(env, Vec::new()),
            true => {
                let spec = env.spec().clone();
                Self { spec, playing: None, running: vec![Running::new(Box::new(env), 0)] }
            }
        }
    }
}

impl Stage for Here {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn play(&mut self, tickets: &[Ticket], choice: Choice) -> Vec<Rollout> {
        let Self { playing, running, .. } = self;
        let mut episode = |ticket: &Ticket| match playing {
            Some(env) => play(env, ticket, choice),
            None => play(running[0].lend(), ticket, choice),
        };
        tickets.iter().map(&mut episode).collect()
    }

    fn go_on(&mut self, order: &Order) -> Vec<Segment> {
        self.running.iter_mut().map(|running| running.play(order)).collect()
    }

    fn capture(&mut self) -> Result<Vec<Stored>, String> {
        Ok(self.running.iter().map(Running::stored).collect())
    }

    fn restore(&mut self, stored: &[Stored]) -> Result<Vec<String>, String> {
        Running::load_all(&mut self.running, stored)
    }
}
