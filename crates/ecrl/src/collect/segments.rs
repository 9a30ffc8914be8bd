//! Running segments: several environments side by side, each going on where it was, from one episode
//! into the next.

use std::time::{Duration, Instant};

use cmdp::{Env, EnvSpec, Episode, NotFinite};
use nets::Mlp;
use rand::RngExt as _;
use rand_distr::StandardNormal;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::context::{Context, Stream};
use crate::memory::batch::Batch;
use crate::state::{StateError, Walk};

/// Environments with the episodes under way in them.
pub struct Segments {
    envs: Vec<Running>,
}

/// An environment and the episode under way in it.
struct Running {
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
#[derive(Debug, Default)]
pub struct Segment {
    /// Every step.
    pub batch: Batch,
    /// Episodes that ended.
    pub ended: Vec<Episode>,
    /// Steps whose simulation broke down.
    pub unstable: usize,
    /// The first number that was not finite.
    fault: Option<NotFinite>,
    /// How long the environments took, and everything.
    times: [Duration; 2],
}

/// A running environment as it is stored.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    env: Option<Vec<f64>>,
    begun: u64,
    reward: f64,
    steps: usize,
    cost_sums: Vec<f64>,
}

impl Segments {
    /// Environments of the same task.
    pub fn new(envs: Vec<Box<dyn Env>>, spec: &EnvSpec) -> Self {
        let running = envs.into_iter().zip(0..).map(|(env, number)| Running {
            env,
            number,
            obs: vec![0.0; spec.observation],
            episode: Episode::new(&spec.constraints),
            begun: 0,
            fresh: true,
        });
        Self { envs: running.collect() }
    }

    /// Plays at least so many steps in all, the same number in each environment; notes the reward and
    /// the first `costs` costs of each.
    pub fn play(
        &mut self,
        context: &mut Context,
        actor: &Mlp,
        steps: usize,
        costs: usize,
    ) -> Segment {
        let each = steps.div_ceil(self.envs.len());
        let start = Instant::now();
        let envs = self.envs.par_iter_mut().with_max_len(1);
        let [seed, stream, generation, _] = context.key(Stream::Learner, 0);
        let play = |env: &mut Running| {
            env.play(actor, each, costs, [seed, stream, generation, env.number])
        };
        let played: Vec<Segment> = context.pool.install(|| envs.map(play).collect());
        context.count_physics(start, played.iter().map(|segment| segment.times));
        let mut all = Segment::default();
        for segment in played {
            all.batch.append(segment.batch);
            all.ended.extend(segment.ended);
            all.unstable += segment.unstable;
            context.fault = context.fault.take().or(segment.fault);
        }
        all
    }

    /// Walks the environments. Where one cannot tell its state, its episode begins anew, and that is
    /// said.
    pub fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        let mut stored: Vec<Stored> = self.envs.iter().map(Running::stored).collect();
        walk.fitting("environments", &mut stored, "as many, with as many constraints", |a, b| {
            let widths = |all: &[Stored]| all.iter().map(|s| s.cost_sums.len()).collect::<Vec<_>>();
            widths(a) == widths(b)
        })?;
        for (i, running) in self.envs.iter_mut().enumerate() {
            if walk.is_loading() {
                running.load(&stored[i], walk)?;
            } else if let Some(theirs) = walk.stored::<Vec<Stored>>("environments")? {
                // Whether it can be restored shows only when it is: then back to where it was.
                let own = std::mem::take(&mut stored[i]);
                running.load(&theirs[i], walk)?;
                running.load(&own, walk)?;
            }
        }
        Ok(())
    }
}

impl Running {
    fn stored(&self) -> Stored {
        let (reward, steps, cost_sums) = self.episode.state();
        let (env, cost_sums) = (self.env.capture(), cost_sums.to_vec());
        Stored { env, begun: self.begun, reward, steps, cost_sums }
    }

    fn load(&mut self, stored: &Stored, walk: &mut Walk) -> Result<(), StateError> {
        let Stored { env, begun, reward, steps, cost_sums } = stored;
        // Before its first step, an environment is not even reset.
        (self.begun, self.fresh) = (*begun, env.is_none() || *begun == 0);
        match env {
            Some(state) => {
                let restored = self.env.restore(state, &mut self.obs);
                restored.map_err(|error| StateError::Unreadable {
                    name: "environments".into(),
                    error: error.to_string(),
                })?;
                let episode = self.episode.resumed(*reward, *steps, cost_sums.clone());
                self.episode = episode.expect("the widths agree");
            }
            // An episode that has just begun is begun again, the same.
            None if *steps == 0 => self.begun = begun.saturating_sub(1),
            None => walk.note(format!(
                "{} cannot tell its state: episodes under way begin anew, and the run is not the \
                 uninterrupted one to the bit",
                self.env.spec().name
            )),
        }
        Ok(())
    }

    /// Plays some steps, from one episode into the next.
    fn play(&mut self, actor: &Mlp, steps: usize, costs_noted: usize, key: [u64; 4]) -> Segment {
        let begun = Instant::now();
        let (spec, seed) = (self.env.spec().clone(), key[0]);
        let mut rng = cmdp::rng(key);
        let mut costs = vec![0.0; spec.constraints.len()];
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
            let (means, log_sigma) = head.split_at(spec.action);
            for ((action, mean), log_sigma) in action.iter_mut().zip(means).zip(log_sigma) {
                let noise: f32 = rng.sample(StandardNormal);
                let draw = mean + log_sigma.exp() * noise;
                batch.draws.push(draw);
                *action = draw.tanh();
            }
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
                played.fault = spec.verify(&self.obs, brought.reward, &costs).err();
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

    fn reset(&mut self, seed: u64, spec: &EnvSpec, fault: &mut Option<NotFinite>) {
        let mut rng = cmdp::rng([seed, Stream::Start as u64, self.number, self.begun]);
        self.begun += 1;
        self.episode = Episode::new(&spec.constraints);
        self.env.reset(&mut rng, &mut self.obs);
        *fault = fault.take().or_else(|| spec.verify(&self.obs, 0.0, &[]).err());
    }
}
