//! Whole episodes: tickets in, episodes out in the same order.
//!
//! Each episode draws its own randomness from a key, so results do not depend on who plays it or when:
//! [`Threads`] does so in this process, and whatever else implements [`Collector`] may do so elsewhere.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use cmdp::{Constraint, Env, Episode, NotFinite, Rng};
use nets::{Mlp, gaussian};
use rand::RngExt as _;
use rand_distr::StandardNormal;

use crate::memory::replay::{Replay, Transition};

/// How an actor chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Draws from its distribution.
    Sample,
    /// Takes the mean action.
    Mean,
}

/// One episode to be played.
#[derive(Debug, Clone, Copy)]
pub struct Ticket<'a> {
    /// Who plays.
    pub actor: &'a Mlp,
    /// The key of all its randomness.
    pub key: [u64; 4],
}

/// One episode as it was played.
#[derive(Debug, Clone)]
pub struct Rollout {
    /// Its return and constraint values.
    pub episode: Episode,
    /// Whether the simulation broke down.
    pub unstable: bool,
    /// What ended it where a number was not finite.
    pub fault: Option<NotFinite>,
    /// How long the environment took, and the whole episode.
    pub times: [Duration; 2],
    terminated: bool,
    /// One more row than there are steps.
    obs: Vec<f32>,
    actions: Vec<f32>,
    rewards: Vec<f32>,
    costs: Vec<f32>,
}

impl Rollout {
    /// Stores every transition with the multipliers in force; the last as a terminated one if it was,
    /// or whatever ended it if `always_terminates`.
    pub fn remember(&self, replay: &mut Replay, multipliers: &[f64], always_terminates: bool) {
        let steps = self.rewards.len();
        let lambda: Vec<f32> = multipliers.iter().map(|&x| x as f32).collect();
        let obs = self.obs.len() / (steps + 1);
        let (action, cost) = (self.actions.len() / steps, self.costs.len() / steps);
        for t in 0..steps {
            // A policy that has broken down must not poison the critics.
            if row(&self.actions, t, action).iter().any(|a| !a.is_finite()) {
                continue;
            }
            replay.push(Transition {
                obs: row(&self.obs, t, obs),
                action: row(&self.actions, t, action),
                reward: self.rewards[t],
                costs: row(&self.costs, t, cost),
                multipliers: &lambda,
                next_obs: row(&self.obs, t + 1, obs),
                terminated: (self.terminated || always_terminates) && t + 1 == steps,
            });
        }
    }
}

/// J_C of every episode.
pub fn constraint_values<'a>(played: impl IntoIterator<Item = &'a Rollout>) -> Vec<Vec<f64>> {
    played.into_iter().map(|rollout| rollout.episode.constraint_values()).collect()
}

/// The mean, which is not a number of none.
pub fn mean(numbers: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = numbers.len() as f64;
    numbers.sum::<f64>() / count
}

/// The mean over episodes of each constraint's value.
pub fn mean_costs(episodes: &[Vec<f64>], constraints: usize) -> Vec<f64> {
    (0..constraints).map(|i| mean(episodes.iter().map(|values| values[i]))).collect()
}

/// For each constraint, how far outside of it some episodes were: the sum of max(0, J_C - ε) times
/// their steps.
pub fn excess<'a>(
    episodes: impl IntoIterator<Item = &'a Episode>,
    constraints: &[Constraint],
) -> Vec<f64> {
    let mut sums = vec![0.0; constraints.len()];
    for episode in episodes {
        let values = episode.constraint_values();
        for ((sum, value), constraint) in sums.iter_mut().zip(values).zip(constraints) {
            *sum += (value - constraint.threshold).max(0.0) * episode.steps() as f64;
        }
    }
    sums
}

fn row(numbers: &[f32], index: usize, width: usize) -> &[f32] {
    &numbers[index * width..(index + 1) * width]
}

/// Where episodes are played.
pub trait Collector: Send {
    /// Plays all tickets; the episodes come back in the same order. Called in the pool of threads.
    fn play(&mut self, tickets: &[Ticket], choice: Choice) -> Vec<Rollout>;
}

/// Plays on the threads of the current pool, each in an environment of its own.
pub struct Threads {
    envs: Vec<Mutex<Box<dyn Env>>>,
}

impl Threads {
    /// Plays in environments of the same task; there must be at least one.
    pub fn new(envs: Vec<Box<dyn Env>>) -> Self {
        assert!(!envs.is_empty(), "an environment to play in");
        Self { envs: envs.into_iter().map(Mutex::new).collect() }
    }
}

impl Collector for Threads {
    fn play(&mut self, tickets: &[Ticket], choice: Choice) -> Vec<Rollout> {
        let envs = &self.envs;
        let next = AtomicUsize::new(0);
        let played: Vec<OnceLock<Rollout>> = tickets.iter().map(|_| OnceLock::new()).collect();
        // Not by stealing: a thread whose environment waits for others must not begin a second
        // episode in it.
        rayon::broadcast(|thread| {
            let Some(env) = envs.get(thread.index()) else { return };
            // A panic elsewhere is reported there; the environment is reset here anyway.
            let mut env = env.lock().unwrap_or_else(|e| e.into_inner());
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some((ticket, place)) = tickets.get(i).zip(played.get(i)) else { return };
                place.get_or_init(|| play(&mut **env, ticket, choice));
            }
        });
        played.into_iter().map(|rollout| rollout.into_inner().expect("every ticket")).collect()
    }
}

fn play(env: &mut dyn Env, ticket: &Ticket, choice: Choice) -> Rollout {
    let spec = env.spec().clone();
    let mut rng: Rng = cmdp::rng(ticket.key);
    let mut obs = vec![0.0; spec.observation];
    let mut costs = vec![0.0; spec.constraints.len()];
    let mut action = vec![0.0; spec.action];
    let mut noise = vec![0.0; spec.action];
    let mut scratch = Vec::new();
    let mut rollout = Rollout {
        episode: Episode::new(&spec.constraints),
        unstable: false,
        fault: None,
        times: [Duration::ZERO; 2],
        terminated: false,
        obs: vec![],
        actions: vec![],
        rewards: vec![],
        costs: vec![],
    };
    let begun = Instant::now();
    env.reset(&mut rng, &mut obs);
    rollout.times[0] = begun.elapsed();
    rollout.fault = spec.verify(&obs, 0.0, &[]).err();
    loop {
        let first = rollout.obs.len();
        rollout.obs.extend(obs.iter().map(|&x| x as f32));
        let head = ticket.actor.forward_one(&rollout.obs[first..], &mut scratch);
        let noise = match choice {
            Choice::Mean => None,
            Choice::Sample => {
                noise.fill_with(|| rng.sample(StandardNormal));
                Some(&noise[..])
            }
        };
        gaussian::act(head, noise, &mut action);
        let start = Instant::now();
        let step = env.step(&action, &mut obs, &mut costs);
        rollout.times[0] += start.elapsed();
        rollout.episode.push(&step, &costs);
        rollout.actions.extend(&action);
        rollout.rewards.push(step.reward as f32);
        rollout.costs.extend(costs.iter().map(|&c| c as f32));
        rollout.unstable |= step.unstable;
        if rollout.fault.is_none() {
            rollout.fault = spec.verify(&obs, step.reward, &costs).err();
        }
        if step.is_last() || rollout.fault.is_some() {
            rollout.terminated = step.terminated;
            rollout.obs.extend(obs.iter().map(|&x| x as f32));
            rollout.times[1] = begun.elapsed();
            return rollout;
        }
    }
}

#[cfg(test)]
mod tests {
    use cmdp::{EnvSpec, PointMass, Step};
    use nets::Activation;

    use super::*;

    fn point_mass() -> PointMass {
        PointMass::new(vec![]).unwrap()
    }

    /// An environment that waits in the pool, whose threads do other work meanwhile.
    struct Waiting(PointMass);

    impl Env for Waiting {
        fn spec(&self) -> &EnvSpec {
            self.0.spec()
        }

        fn reset(&mut self, rng: &mut Rng, obs: &mut [f64]) {
            self.0.reset(rng, obs);
        }

        fn step(&mut self, action: &[f32], obs: &mut [f64], costs: &mut [f64]) -> Step {
            rayon::yield_now();
            self.0.step(action, obs, costs)
        }
    }

    #[test]
    fn the_excess_of_episodes_by_hand() {
        let text = ["mean(a)<=0.5", "sum(b)<=3"];
        let constraints = text.map(|text| text.parse::<Constraint>().unwrap());
        let step = Step { reward: 0.0, terminated: false, truncated: false, unstable: false };
        let episode = |costs: &[[f64; 2]]| {
            let mut episode = Episode::new(&constraints);
            costs.iter().for_each(|costs| episode.push(&step, costs));
            episode
        };
        // Means 0.75 and 0.25, sums 6 and 2; two steps and one.
        let played = [episode(&[[1.0, 4.0], [0.5, 2.0]]), episode(&[[0.25, 2.0]])];
        assert_eq!(excess(&played, &constraints), [0.25 * 2.0, 3.0 * 2.0]);
    }

    #[test]
    fn an_environment_may_wait_in_the_pool_it_is_played_in() {
        let env = point_mass();
        let sizes = [env.spec().observation, 8, 2 * env.spec().action];
        let actor = Mlp::new(&sizes, Activation::Relu, &mut cmdp::rng([0; 4]));
        let tickets: Vec<Ticket> =
            (0..12).map(|i| Ticket { actor: &actor, key: [1, 2, 3, i] }).collect();
        let played = |threads: usize, make: fn() -> Box<dyn Env>| -> Vec<Vec<f32>> {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut stage = Threads::new((0..threads).map(|_| make()).collect());
            let rollouts = pool.install(|| stage.play(&tickets, Choice::Sample));
            rollouts.into_iter().map(|rollout| rollout.obs).collect()
        };
        let expected = played(1, || Box::new(point_mass()));
        assert!(played(3, || Box::new(Waiting(point_mass()))) == expected);
    }
}
