//! What an algorithm may use while it trains: the task, the counters, and somewhere to play.

use std::sync::Arc;
use std::time::Instant;

use cmdp::{EnvSpec, Fault};
use nets::Mlp;
use serde::{Deserialize, Serialize};

use crate::collect::episodes::{Choice, Rollout, Ticket};
use crate::collect::segments::{Order, Segment};
use crate::collect::stage::Stage;
use crate::config::Config;

/// The streams of randomness of a run; a key is `[seed, stream, generation, index]`. Numbers are
/// fixed: a new stream gets a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Networks and multipliers at the start.
    Init = 0,
    /// The population's episodes.
    Population = 1,
    /// The learner's episodes.
    Learner = 2,
    /// Ranking and variation.
    Evolution = 3,
    /// Updates, by their number instead of the generation.
    Update = 4,
    /// Batches drawn from the constraint buffer.
    Multipliers = 5,
    /// Tests of the learner.
    TestLearner = 6,
    /// Tests of the champion.
    TestChampion = 7,
    /// Starts of episodes in running environments.
    Start = 8,
    /// The order of rows in an epoch.
    Order = 9,
    /// Second tests, of who may be the best.
    Retest = 10,
    /// Perturbations of a policy, which are drawn anew wherever they are needed.
    Perturbation = 11,
    /// Episodes that several policies play from the same starts.
    Common = 12,
    /// Evaluations of a policy, apart from training.
    Evaluation = 1000,
}

/// Where the time went, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Times {
    /// Playing what is learnt from.
    #[serde(default)]
    pub collect: f64,
    /// Gradient updates.
    pub updates: f64,
    /// Tests.
    #[serde(default)]
    pub tests: f64,
    /// The environments, in training and in tests: a part of the other two.
    pub physics: f64,
    /// The whole run.
    pub total: f64,
}

/// What an algorithm may use while it trains.
pub struct Context {
    /// Every value of the run.
    pub config: Config,
    /// The task.
    pub spec: EnvSpec,
    /// The threads.
    pub pool: Arc<rayon::ThreadPool>,
    /// The number of the generation, from 1.
    pub generation: u64,
    /// Environment steps so far; with those of this generation once it was played.
    pub env_steps: u64,
    /// Updates so far.
    pub grad_steps: u64,
    /// Where the time went, up to when the run was last begun or resumed for the total.
    pub times: Times,
    /// Why what is being played cannot be learnt from: the run ends when it has been played.
    pub(crate) fault: Option<Fault>,
    pub(crate) stage: Box<dyn Stage>,
}

impl Context {
    /// The key of randomness of this generation.
    pub fn key(&self, stream: Stream, index: u64) -> [u64; 4] {
        [self.config.seed, stream as u64, self.generation, index]
    }

    /// Plays one episode for each actor, with its sampled actions.
    pub fn play_each(&mut self, actors: &[Mlp], stream: Stream) -> Vec<Rollout> {
        let tickets: Vec<Ticket> = (0..)
            .zip(actors)
            .map(|(i, actor)| Ticket { actor, key: self.key(stream, i) })
            .collect();
        self.play(&tickets, Choice::Sample)
    }

    /// The same, all from the same start.
    pub fn play_from_one_start(&mut self, actors: &[Mlp]) -> Vec<Rollout> {
        let key = self.key(Stream::Common, 0);
        let tickets: Vec<Ticket> = actors.iter().map(|actor| Ticket { actor, key }).collect();
        self.play(&tickets, Choice::Sample)
    }

    /// Plays several episodes of one actor.
    pub fn play_several(
        &mut self,
        actor: &Mlp,
        episodes: usize,
        stream: Stream,
        choice: Choice,
    ) -> Vec<Rollout> {
        let tickets: Vec<Ticket> =
            (0..episodes as u64).map(|i| Ticket { actor, key: self.key(stream, i) }).collect();
        self.play(&tickets, choice)
    }

    fn play(&mut self, tickets: &[Ticket], choice: Choice) -> Vec<Rollout> {
        let start = Instant::now();
        let played = self.stage.play(tickets, choice);
        self.count_physics(start, played.iter().map(|rollout| rollout.times));
        let first = || played.iter().find_map(|rollout| rollout.fault.clone());
        self.fault = self.fault.take().or_else(first);
        played
    }

    /// Goes on in all running environments, dealt out to the actors in turn, for about so many steps of each actor,
    /// on the mean where some have an environment more; notes the reward and the first `costs` costs of every
    /// step. What every actor played comes back.
    pub fn go_on(&mut self, actors: &[Mlp], steps: usize, costs: usize) -> Vec<Segment> {
        let running = self.config.running();
        let [seed, stream, generation, _] = self.key(Stream::Learner, 0);
        let steps = (steps * actors.len()).div_ceil(running.max(1));
        let start = Instant::now();
        let order = Order { actors, steps, costs, key: [seed, stream, generation] };
        let played = self.stage.go_on(&order);
        self.count_physics(start, played.iter().map(|segment| segment.times));
        let mut all = vec![Segment::default(); actors.len()];
        for (number, segment) in (0..).zip(played) {
            let all = &mut all[order.dealt(number)];
            all.batch.append(segment.batch);
            all.ended.extend(segment.ended);
            all.unstable += segment.unstable;
            self.fault = self.fault.take().or(segment.fault);
        }
        all
    }

    /// Adds the environments' share of the time since `start` to the times. Threads play at once:
    /// pieces tell how long their environments took, and the whole.
    fn count_physics(
        &mut self,
        start: Instant,
        pieces: impl Iterator<Item = [std::time::Duration; 2]>,
    ) {
        let [envs, all] = pieces.fold([0.0; 2], |sums, times| {
            [sums[0] + times[0].as_secs_f64(), sums[1] + times[1].as_secs_f64()]
        });
        self.times.physics += start.elapsed().as_secs_f64() * envs / all.max(f64::MIN_POSITIVE);
    }
}
