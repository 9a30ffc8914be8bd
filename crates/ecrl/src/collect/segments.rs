//! Running segments: several environments side by side, each going on where it was, from one episode
//! into the next.

use std::time::{Duration, Instant};

use cmdp::{Constraint, Env, EnvSpec, Episode, Fault, Rng, Step};
use nets::Mlp;
use serde::{Deserialize, Serialize};

use super::head::Head;
use crate::context::Stream;
use crate::memory::batch::Batch;

/// What every running environment is to do next.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// Who plays, one at least; the running environments are dealt out to them in turn.
    pub actors: &'a [Mlp],
    /// The steps that each environment takes.
    pub steps: usize,
    /// Of how many costs, from the first on, every step is noted beside its reward.
    pub costs: usize,
    /// The key of all randomness, but for the number of the environment.
    pub key: [u64; 3],
}

impl<'a> Order<'a> {
    /// Who plays in the environment of that number: an index of the actors.
    pub fn dealt(&self, number: u64) -> usize {
        (number % self.actors.len() as u64) as usize
    }
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
    /// An episode under way in an environment that cannot tell its state, after so many have begun.
    pub fn under_way(begun: u64, episode: &Episode) -> Self {
        let (reward, steps, cost_sums) = episode.state();
        Self { env: None, begun, reward, steps, cost_sums: cost_sums.to_vec() }
    }

    /// The same where it cannot even be begun anew as it was.
    pub fn lost(begun: u64, episode: &Episode) -> Self {
        Self { env: Some(Vec::new()), ..Self::under_way(begun, episode) }
    }

    /// Episodes that have begun, and whether what went on in them is lost.
    pub fn begun(&self) -> (u64, bool) {
        (self.begun, self.env.is_some() || self.steps > 0)
    }

    /// What is said of a task whose episodes under way begin anew.
    pub fn note(task: &str) -> String {
        format!(
            "{task} cannot tell its state: episodes under way begin anew, and the run is not the \
             uninterrupted one to the bit"
        )
    }

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
        let cost_sums = self.episode.state().2.to_vec();
        match self.fresh && self.begun > 0 {
            // As if the next episode had just begun: that is how it goes on.
            true => {
                let begun = self.begun.saturating_add(1);
                Stored { env: None, begun, reward: 0.0, steps: 0, cost_sums }
            }
            false => {
                Stored { env: self.env.capture(), ..Stored::under_way(self.begun, &self.episode) }
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
            None => Ok(Some(Stored::note(&self.env.spec().name))),
        }
    }

    /// Plays some steps, from one episode into the next.
    pub fn play(&mut self, order: &Order) -> Segment {
        let spec = self.env.spec().clone();
        let mut costs = vec![0.0; spec.constraints.len()];
        let mut recorder = Recorder::new(&spec, order, self.number);
        for _ in 0..order.steps {
            if std::mem::take(&mut self.fresh) {
                self.reset(order.key[0], &spec, &mut recorder.segment.fault);
            }
            let action = recorder.act(&self.obs);
            let start = Instant::now();
            let brought = self.env.step(action, &mut self.obs, &mut costs);
            recorder.segment.times[0] += start.elapsed();
            let fault = fault(&mut *self.env, &spec, &self.obs, brought.reward, &costs);
            recorder.note(&brought, &self.obs, &costs, fault, &mut self.episode);
            if brought.is_last() {
                self.reset(order.key[0], &spec, &mut recorder.segment.fault);
            }
        }
        recorder.end()
    }

    fn reset(&mut self, seed: u64, spec: &EnvSpec, found: &mut Option<Fault>) {
        let mut rng = cmdp::rng([seed, Stream::Start as u64, self.number, self.begun]);
        self.begun = self.begun.saturating_add(1);
        self.episode = Episode::new(&spec.constraints);
        self.env.reset(&mut rng, &mut self.obs);
        *found = found.take().or_else(|| fault(&mut *self.env, spec, &self.obs, 0.0, &[]));
    }
}

/// Who plays a segment, whatever it is played in: acts and takes note.
pub struct Recorder<'a> {
    actor: &'a Mlp,
    head: Head,
    rng: Rng,
    action: Vec<f32>,
    draw: Vec<f32>,
    scratch: Vec<f32>,
    begun: Instant,
    constraints: &'a [Constraint],
    segment: Segment,
}

impl<'a> Recorder<'a> {
    /// Before the first step, in the environment of that number.
    pub fn new(spec: &'a EnvSpec, order: &Order<'a>, number: u64) -> Self {
        let Order { steps, costs, key: [seed, stream, generation], .. } = *order;
        let mut segment = Segment::default();
        segment.batch.signals = vec![Vec::with_capacity(steps); 1 + costs];
        Self {
            actor: &order.actors[order.dealt(number)],
            head: Head::of(spec),
            rng: cmdp::rng([seed, stream, generation, number]),
            action: vec![0.0; spec.action],
            draw: vec![0.0; spec.action],
            scratch: Vec::new(),
            begun: Instant::now(),
            constraints: &spec.constraints,
            segment,
        }
    }

    /// What it does where it observes this.
    pub fn act(&mut self, obs: &[f64]) -> &[f32] {
        let batch = &mut self.segment.batch;
        let first = batch.obs.len();
        batch.obs.extend(obs.iter().map(|&x| x as f32));
        let head = self.actor.forward_one(&batch.obs[first..], &mut self.scratch);
        self.head.draw(head, &mut self.rng, &mut self.draw, &mut self.action);
        batch.draws.extend(&self.draw);
        &self.action
    }

    /// Takes note of what came of it; where that ends the episode under way, the next one is.
    pub fn note(
        &mut self,
        step: &Step,
        obs: &[f64],
        costs: &[f64],
        fault: Option<Fault>,
        episode: &mut Episode,
    ) {
        let Segment { batch, ended, unstable, fault: found, .. } = &mut self.segment;
        episode.push(step, costs);
        let numbers = [step.reward].into_iter().chain(costs.iter().copied());
        for (signal, number) in batch.signals.iter_mut().zip(numbers) {
            signal.push(number as f32);
        }
        batch.next_obs.extend(obs.iter().map(|&x| x as f32));
        let flag = |is: bool| f32::from(u8::from(is));
        batch.terminated.push(flag(step.terminated));
        batch.last.push(flag(step.is_last()));
        *unstable += usize::from(step.unstable);
        *found = found.take().or(fault);
        if step.is_last() {
            ended.push(std::mem::replace(episode, Episode::new(self.constraints)));
        }
    }

    /// The segment; an episode under way goes on in the next.
    pub fn end(mut self) -> Segment {
        if let Some(last) = self.segment.batch.last.last_mut() {
            *last = 1.0;
        }
        self.segment.times[1] = self.begun.elapsed();
        self.segment
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
