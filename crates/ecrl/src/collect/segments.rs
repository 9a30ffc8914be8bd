//! Running segments: several environments side by side, each going on where it was, from one episode
//! into the next.

use std::time::{Duration, Instant};

use cmdp::{Env, EnvSpec, Episode, Fault};
use nets::Mlp;
use serde::{Deserialize, Serialize};

use super::head::Head;
use crate::context::Stream;
use crate::memory::batch::Batch;

/// What every running environment is to do next.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// Who plays.
    pub actor: &'a Mlp,
    /// The steps that each environment takes.
    pub steps: usize,
    /// Of how many costs, from the first on, every step is noted beside its reward.
    pub costs: usize,
    /// The key of all randomness, but for the number of the environment.
    pub key: [u64; 3],
}

/// An environment and the episode under way in it.
pub struct Running {
    env: Box<dyn Env>,
    number: u64,
    obs: Vec<f64>,
    episode: Episode,
    /// Episodes begun.
    begun: u64,
    /// Whether the next step needs a new episode.
    fresh: bool,
}

/// What the environments brought.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Segment {
    /// Every step.
    pub batch: Batch,
    /// Episodes that ended.
    pub ended: Vec<Episode>,
    /// Steps whose simulation broke down.
    pub unstable: usize,
    /// Why it cannot be learnt from, if that is so.
    pub fault: Option<Fault>,
    /// How long the environment took, and everything.
    pub times: [Duration; 2],
}

/// A running environment as it is stored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Stored {
    env: Option<Vec<f64>>,
    begun: u64,
    reward: f64,
    steps: usize,
    cost_sums: Vec<f64>,
}

impl Stored {
    /// Whether it is of a task with as many constraints.
    pub fn fits(&self, other: &Self) -> bool {
        self.cost_sums.len() == other.cost_sums.len()
    }
}

impl Running {
    /// An environment in which nothing has begun; its number names its randomness.
    pub fn new(env: Box<dyn Env>, number: u64) -> Self {
        let EnvSpec { observation, constraints, .. } = env.spec();
        let (obs, episode) = (vec![0.0; *observation], Episode::new(constraints));
        Self { env, number, obs, episode, begun: 0, fresh: true }
    }

    /// The environment, to be played in by somebody else: the episode under way in it is over.
    pub fn lend(&mut self) -> &mut dyn Env {
        self.fresh = true;
        &mut *self.env
    }

    /// It as it is now.
    pub fn stored(&self) -> Stored {
        let (reward, steps, cost_sums) = self.episode.state();
        let cost_sums = cost_sums.to_vec();
        match self.fresh && self.begun > 0 {
            // As if the next episode had just begun: that is how it goes on.
            true => Stored { env: None, begun: self.begun + 1, reward: 0.0, steps: 0, cost_sums },
            false => {
                Stored { env: self.env.capture(), begun: self.begun, reward, steps, cost_sums }
            }
        }
    }

    /// Brings all to where they were; returns what there is to say about it. As many must be stored.
    pub fn load_all(all: &mut [Self], stored: &[Stored]) -> Result<Vec<String>, String> {
        let notes: Result<Vec<_>, _> =
            all.iter_mut().zip(stored).map(|(running, stored)| running.load(stored)).collect();
        Ok(notes?.into_iter().flatten().collect())
    }

    fn load(&mut self, stored: &Stored) -> Result<Option<String>, String> {
        let Stored { env, begun, reward, steps, cost_sums } = stored;
        // Before its first step, an environment is not even reset.
        (self.begun, self.fresh) = (*begun, env.is_none() || *begun == 0);
        match env {
            Some(state) => {
                let restored = self.env.restore(state, &mut self.obs);
                restored.map_err(|error| error.to_string())?;
                let episode = self.episode.resumed(*reward, *steps, cost_sums.clone());
                self.episode = episode.ok_or("it has another number of costs")?;
                Ok(None)
            }
            // An episode that has just begun is begun again, the same.
            None if *steps == 0 => {
                self.begun = begun.saturating_sub(1);
                Ok(None)
            }
            None => Ok(Some(format!(
                "{} cannot tell its state: episodes under way begin anew, and the run is not the \
                 uninterrupted one to the bit",
                self.env.spec().name
            ))),
        }
    }

    /// Plays some steps, from one episode into the next.
    pub fn play(&mut self, order: &Order) -> Segment {
        let Order { actor, steps, costs: costs_noted, key: [seed, stream, generation] } = *order;
        let begun = Instant::now();
        let spec = self.env.spec().clone();
        let mut rng = cmdp::rng([seed, stream, generation, self.number]);
        let mut costs = vec![0.0; spec.constraints.len()];
        let (policy, mut draw) = (Head::of(&spec), vec![0.0; spec.action]);
        let mut action = vec![0.0; spec.action];
        let mut scratch = Vec::new();
        let mut played = Segment::default();
        let batch = &mut played.batch;
        batch.signals = vec![Vec::with_capacity(steps); 1 + costs_noted];
        for step in 1..=steps {
            if std::mem::take(&mut self.fresh) {
                self.reset(seed, &spec, &mut played.fault);
            }
            let first = batch.obs.len();
            batch.obs.extend(self.obs.iter().map(|&x| x as f32));
            let head = actor.forward_one(&batch.obs[first..], &mut scratch);
            policy.draw(head, &mut rng, &mut draw, &mut action);
            batch.draws.extend(&draw);
            let start = Instant::now();
            let brought = self.env.step(&action, &mut self.obs, &mut costs);
            played.times[0] += start.elapsed();
            self.episode.push(&brought, &costs);
            let numbers = [brought.reward].into_iter().chain(costs.iter().copied());
            for (signal, number) in batch.signals.iter_mut().zip(numbers) {
                signal.push(number as f32);
            }
            batch.next_obs.extend(self.obs.iter().map(|&x| x as f32));
            let flag = |is: bool| f32::from(u8::from(is));
            batch.terminated.push(flag(brought.terminated));
            batch.last.push(flag(brought.is_last() || step == steps));
            played.unstable += usize::from(brought.unstable);
            if played.fault.is_none() {
                played.fault = fault(&mut *self.env, &spec, &self.obs, brought.reward, &costs);
            }
            if brought.is_last() {
                let next = Episode::new(&spec.constraints);
                played.ended.push(std::mem::replace(&mut self.episode, next));
                self.reset(seed, &spec, &mut played.fault);
            }
        }
        played.times[1] = begun.elapsed();
        played
    }

    fn reset(&mut self, seed: u64, spec: &EnvSpec, found: &mut Option<Fault>) {
        let mut rng = cmdp::rng([seed, Stream::Start as u64, self.number, self.begun]);
        self.begun += 1;
        self.episode = Episode::new(&spec.constraints);
        self.env.reset(&mut rng, &mut self.obs);
        *found = found.take().or_else(|| fault(&mut *self.env, spec, &self.obs, 0.0, &[]));
    }
}

/// Why what a reset or a step brought cannot be learnt from, if that is so.
pub(super) fn fault(
    env: &mut dyn Env,
    spec: &EnvSpec,
    obs: &[f64],
    reward: f64,
    costs: &[f64],
) -> Option<Fault> {
    let failed = |error| Fault::Failed { task: spec.name.clone(), error };
    env.failure().map(failed).or_else(|| spec.verify(obs, reward, costs).err().map(Fault::from))
}
