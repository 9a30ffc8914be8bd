//! A stage of lanes that move in step: a `gymnasium.vector.VectorEnv`.
//!
//! Its environments are stepped all at once, and an episode that ends begins anew by itself: with the next
//! step, which is no step of an episode then (Gymnasium's `NEXT_STEP`); within the same step (`SAME_STEP`);
//! or when it is asked to (`DISABLED`). Nobody can start one of them by a seed: what comes of it depends on
//! how many there are.

use std::time::{Duration, Instant};

use cmdp::{EnvSpec, Episode, Fault, Step};
use ecrl::collect::episodes::{Choice, Player, Rollout, Ticket};
use ecrl::collect::segments::{Order, Recorder, Segment, Stored};
use ecrl::collect::stage::Stage;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rand::Rng as _;

use crate::convert::wrong;
use crate::env::{Raised, close, told};

/// What one step of all lanes brought, lane after lane.
struct Brought {
    /// Where each got to by this step, before another episode began.
    reached: Vec<f64>,
    rewards: Vec<f64>,
    costs: Vec<f64>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
}

/// Lanes that move in step.
pub struct Lanes {
    spec: EnvSpec,
    count: usize,
    /// Python's end of it: `_environment.Lanes`.
    lanes: Py<PyAny>,
    /// Whether episodes run in them, beside those that are played whole.
    runs: bool,
    raised: Raised,
    /// Where each lane is: what is acted on next.
    now: Vec<f64>,
    /// Lanes whose next step only begins another episode.
    over: Vec<bool>,
    /// Steps of each lane's episode.
    steps: Vec<usize>,
    /// The episodes under way, if they go on; whole episodes that are played meanwhile end them.
    episodes: Option<Vec<Episode>>,
    /// How often all of them have begun anew.
    begun: u64,
    failure: Option<Fault>,
}

/// The stream of randomness that starts of all lanes are drawn from: none of a run's.
const STARTS: u64 = 2000;

impl Lanes {
    /// From Python's end of it.
    pub fn new(lanes: &Bound<PyAny>, spec: EnvSpec, runs: bool, raised: Raised) -> PyResult<Self> {
        let count: usize = lanes.getattr("count")?.extract()?;
        Ok(Self {
            count,
            lanes: lanes.clone().unbind(),
            runs,
            raised,
            now: vec![0.0; count * spec.observation],
            over: vec![false; count],
            steps: vec![0; count],
            episodes: None,
            begun: 0,
            failure: None,
            spec,
        })
    }

    /// The number of lanes.
    pub fn count(&self) -> usize {
        self.count
    }

    fn fail(&mut self, py: Python, error: PyErr) {
        let fault = Fault::Failed { task: self.spec.name.clone(), error: told(py, &error) };
        self.failure.get_or_insert(fault);
        // The steps that are still asked for end every lane's episode.
        self.over.fill(false);
        self.raised.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
    }

    /// All lanes begin anew.
    fn reset(&mut self, seed: u32) {
        self.steps.fill(0);
        self.over.fill(false);
        if self.failure.is_some() {
            return;
        }
        Python::attach(|py| {
            let now = self.lanes.bind(py).call_method1("reset", (seed,));
            match now.and_then(|now| numbers(&now)) {
                Ok(now) => self.now = now,
                Err(error) => self.fail(py, error),
            }
        });
    }

    /// One step of all lanes that returns those whose step it was; after a failure, the end of all.
    fn step(&mut self, actions: Vec<f32>) -> (Brought, Vec<bool>) {
        let played = self.over.iter().map(|over| !over).collect();
        if self.failure.is_none() {
            let brought = Python::attach(|py| {
                let brought = self.try_step(py, actions);
                brought.map_err(|error| self.fail(py, error))
            });
            if let Ok(brought) = brought {
                return (brought, played);
            }
        }
        let brought = Brought {
            reached: self.now.clone(),
            rewards: vec![0.0; self.count],
            costs: vec![0.0; self.count * self.spec.constraints.len()],
            terminated: vec![true; self.count],
            truncated: vec![false; self.count],
        };
        (brought, played)
    }

    fn try_step(&mut self, py: Python, actions: Vec<f32>) -> PyResult<Brought> {
        let brought =
            self.lanes.bind(py).call_method1("step", (PyArray1::from_vec(py, actions),))?;
        let brought = brought.cast::<PyTuple>()?;
        let item = |i: usize| numbers(&brought.get_item(i)?);
        let flags = |i: usize| -> PyResult<Vec<bool>> {
            Ok(brought.get_item(i)?.extract::<PyReadonlyArray1<bool>>()?.as_array().to_vec())
        };
        (self.now, self.over) = (item(0)?, flags(6)?);
        Ok(Brought {
            reached: item(1)?,
            rewards: item(2)?,
            costs: item(3)?,
            terminated: flags(4)?,
            truncated: flags(5)?,
        })
    }

    /// What a lane's step was, and why it cannot be learnt from, if that is so.
    fn lane<'a>(&mut self, brought: &'a Brought, i: usize) -> Moved<'a> {
        let EnvSpec { observation, constraints, .. } = &self.spec;
        let obs = &brought.reached[i * observation..][..*observation];
        let costs = &brought.costs[i * constraints.len()..][..constraints.len()];
        let step = Step {
            reward: brought.rewards[i],
            terminated: brought.terminated[i],
            truncated: brought.truncated[i],
            unstable: false,
        };
        self.steps[i] = if step.is_last() { 0 } else { self.steps[i] + 1 };
        if self.steps[i] >= self.spec.max_steps {
            let text = format!(
                "an episode has not ended after {} steps; expected environments with a time limit",
                self.steps[i]
            );
            Python::attach(|py| self.fail(py, wrong(text)));
        }
        let number = || self.spec.verify(obs, step.reward, costs).err().map(Fault::from);
        Moved { step, obs, costs, fault: self.failure.clone().or_else(number) }
    }

    fn seen(&self, i: usize) -> &[f64] {
        &self.now[i * self.spec.observation..][..self.spec.observation]
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        close(&self.lanes);
    }
}

/// What a lane's step was.
struct Moved<'a> {
    step: Step,
    obs: &'a [f64],
    costs: &'a [f64],
    fault: Option<Fault>,
}

fn numbers(array: &Bound<PyAny>) -> PyResult<Vec<f64>> {
    Ok(array.extract::<PyReadonlyArray1<f64>>()?.as_array().to_vec())
}

impl Stage for Lanes {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn play(&mut self, tickets: &[Ticket], choice: Choice) -> Vec<Rollout> {
        self.episodes = None;
        let (spec, width) = (self.spec.clone(), self.spec.action);
        let mut played: Vec<Option<Rollout>> = tickets.iter().map(|_| None).collect();
        let mut waiting = tickets.iter().enumerate();
        let mut take = || waiting.next().map(|(i, ticket)| (i, Player::new(&spec, ticket, choice)));
        let mut lanes: Vec<Option<(usize, Player)>> = (0..self.count).map(|_| take()).collect();
        if let Some((_, first)) = &mut lanes[0] {
            self.reset(first.rng.next_u32());
        }
        while lanes.iter().any(Option::is_some) {
            let mut actions = vec![0.0; self.count * width];
            for (i, action) in actions.chunks_exact_mut(width).enumerate() {
                if let (Some((_, player)), false) = (&mut lanes[i], self.over[i]) {
                    action.copy_from_slice(player.act(self.seen(i)));
                }
            }
            let start = Instant::now();
            let (brought, own) = self.step(actions);
            let time = start.elapsed() / self.count as u32;
            for i in (0..self.count).filter(|i| own[*i]) {
                let Moved { step, obs, costs, fault } = self.lane(&brought, i);
                let Some((_, player)) = &mut lanes[i] else { continue };
                if player.note(&step, obs, costs, fault, time)
                    && let Some((ticket, player)) = std::mem::replace(&mut lanes[i], take())
                {
                    played[ticket] = Some(player.end());
                }
            }
        }
        played.into_iter().map(|rollout| rollout.expect("every ticket")).collect()
    }

    fn go_on(&mut self, order: &Order) -> Vec<Segment> {
        let (spec, width) = (self.spec.clone(), self.spec.action);
        let mut episodes = self.episodes.take().unwrap_or_else(|| {
            self.reset(cmdp::rng([order.key[0], STARTS, 0, self.begun]).next_u32());
            self.begun = self.begun.saturating_add(1);
            vec![Episode::new(&spec.constraints); self.count]
        });
        let recorder = |i| Recorder::new(&spec, order, i);
        let mut recorders: Vec<Recorder> = (0..self.count as u64).map(recorder).collect();
        let mut time = Duration::ZERO;
        for _ in 0..order.steps {
            let mut actions = vec![0.0; self.count * width];
            for (i, action) in actions.chunks_exact_mut(width).enumerate() {
                if !self.over[i] {
                    action.copy_from_slice(recorders[i].act(self.seen(i)));
                }
            }
            let start = Instant::now();
            let (brought, own) = self.step(actions);
            time += start.elapsed();
            for i in (0..self.count).filter(|i| own[*i]) {
                let Moved { step, obs, costs, fault } = self.lane(&brought, i);
                recorders[i].note(&step, obs, costs, fault, &mut episodes[i]);
            }
        }
        self.episodes = Some(episodes);
        let end = |recorder: Recorder| Segment { times: [time, time], ..recorder.end() };
        recorders.into_iter().map(end).collect()
    }

    fn capture(&mut self) -> Result<Vec<Stored>, String> {
        if !self.runs {
            return Ok(Vec::new());
        }
        let fresh = Episode::new(&self.spec.constraints);
        let stored = |i: usize| match &self.episodes {
            // Even where one has just ended: the next begins by itself, and nobody knows how.
            Some(episodes) => Stored::lost(self.begun, &episodes[i]),
            None => Stored::under_way(self.begun, &fresh),
        };
        Ok((0..self.count).map(stored).collect())
    }

    fn restore(&mut self, stored: &[Stored]) -> Result<Vec<String>, String> {
        self.episodes = None;
        self.begun = stored.first().map_or(0, |stored| stored.begun().0);
        let lost = stored.iter().any(|stored| stored.begun().1);
        Ok(if lost { vec![Stored::note(&self.spec.name)] } else { Vec::new() })
    }
}
