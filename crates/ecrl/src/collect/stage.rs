//! Where everything is played: the one seam behind which other processes, other languages and other
//! machines plug in.
//!
//! Whole episodes are asked for by tickets and come back in the same order; environments that run side
//! by side go on where they were. Each episode draws its own randomness from a key, so what comes of it
//! does not depend on who plays it or when. [`Threads`] plays in this process, on the threads of a pool.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use cmdp::{Env, EnvSpec};
use rayon::ThreadPool;
use rayon::prelude::*;

use super::episodes::{Choice, Rollout, Ticket, play};
use super::segments::{Order, Running, Segment, Stored};
use crate::config::Config;
use crate::state::{StateError, Walk};
use crate::trainer::BoxError;

/// Where everything is played.
pub trait Stage: Send {
    /// The task.
    fn spec(&self) -> &EnvSpec;

    /// Plays all tickets; the episodes come back in the same order.
    fn play(&mut self, tickets: &[Ticket], choice: Choice) -> Vec<Rollout>;

    /// Goes on in every running environment; the segments come back in the order of their numbers.
    fn go_on(&mut self, order: &Order) -> Vec<Segment>;

    /// The running environments as they are; where they cannot be reached, why.
    fn capture(&mut self) -> Result<Vec<Stored>, String>;

    /// Brings the running environments, which are as many, to where they were; returns what there is to
    /// say about it.
    fn restore(&mut self, stored: &[Stored]) -> Result<Vec<String>, String>;
}

/// Makes the stage of a run. What makes an environment does so, too: it is played in on threads.
pub trait MakeStage {
    /// The stage for a configuration, with so many running environments.
    fn stage(
        &mut self,
        config: &Config,
        pool: &Arc<ThreadPool>,
        running: usize,
    ) -> Result<Box<dyn Stage>, BoxError>;
}

impl<F, E> MakeStage for F
where
    F: FnMut(&Config) -> Result<Box<dyn Env>, E>,
    E: Into<BoxError>,
{
    fn stage(
        &mut self,
        config: &Config,
        pool: &Arc<ThreadPool>,
        running: usize,
    ) -> Result<Box<dyn Stage>, BoxError> {
        let mut envs = |count: usize| -> Result<Vec<Box<dyn Env>>, BoxError> {
            (0..count).map(|_| self(config).map_err(Into::into)).collect()
        };
        let (playing, running) = (envs(pool.current_num_threads())?, envs(running)?);
        Ok(Box::new(Threads::new(playing, running, Arc::clone(pool))))
    }
}

/// Walks the running environments. Where one cannot tell its state, its episode begins anew, and that is
/// said.
pub fn walk(stage: &mut dyn Stage, walk: &mut Walk) -> Result<(), StateError> {
    const NAME: &str = "environments";
    let unreadable = |error| StateError::Unreadable { name: NAME.into(), error };
    let own = stage.capture().map_err(unreadable)?;
    if own.is_empty() {
        return Ok(());
    }
    let mut stored = own.clone();
    walk.fitting(NAME, &mut stored, "as many, with as many constraints", |a, b| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.fits(b))
    })?;
    let mut restore = |stored: &[Stored]| stage.restore(stored).map_err(unreadable);
    if walk.is_loading() {
        restore(&stored)?.into_iter().for_each(|note| walk.note(note));
    } else if let Some(theirs) = walk.stored::<Vec<Stored>>(NAME)? {
        // Whether they can be restored shows only when they are: then back to where they were.
        restore(&theirs)?;
        restore(&own)?;
    }
    Ok(())
}

/// Plays on the threads of a pool, each in an environment of its own.
pub struct Threads {
    spec: EnvSpec,
    pool: Arc<ThreadPool>,
    envs: Vec<Mutex<Box<dyn Env>>>,
    running: Vec<Running>,
}

impl Threads {
    /// Plays in environments of the same task; of those for whole episodes there must be one at least.
    pub fn new(envs: Vec<Box<dyn Env>>, running: Vec<Box<dyn Env>>, pool: Arc<ThreadPool>) -> Self {
        Self::numbered(envs, running.into_iter().zip(0..).collect(), pool)
    }

    /// The same, with numbers for the running environments.
    pub fn numbered(
        envs: Vec<Box<dyn Env>>,
        running: Vec<(Box<dyn Env>, u64)>,
        pool: Arc<ThreadPool>,
    ) -> Self {
        let spec = envs[0].spec().clone();
        let running = running.into_iter().map(|(env, number)| Running::new(env, number)).collect();
        Self { spec, pool, envs: envs.into_iter().map(Mutex::new).collect(), running }
    }
}

impl Stage for Threads {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn play(&mut self, tickets: &[Ticket], choice: Choice) -> Vec<Rollout> {
        let envs = &self.envs;
        let next = AtomicUsize::new(0);
        let played: Vec<OnceLock<Rollout>> = tickets.iter().map(|_| OnceLock::new()).collect();
        // Not by stealing: a thread whose environment waits for others must not begin a second
        // episode in it.
        self.pool.broadcast(|thread| {
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

    fn go_on(&mut self, order: &Order) -> Vec<Segment> {
        let running = self.running.par_iter_mut().with_max_len(1);
        self.pool.install(|| running.map(|running| running.play(order)).collect())
    }

    fn capture(&mut self) -> Result<Vec<Stored>, String> {
        Ok(self.running.iter().map(Running::stored).collect())
    }

    fn restore(&mut self, stored: &[Stored]) -> Result<Vec<String>, String> {
        Running::load_all(&mut self.running, stored)
    }
}

#[cfg(test)]
mod tests {
    use cmdp::{PointMass, Rng, Step};
    use nets::{Activation, Mlp};

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
    fn an_environment_may_wait_in_the_pool_it_is_played_in() {
        let env = point_mass();
        let sizes = [env.spec().observation, 8, 2 * env.spec().action];
        let actor = Mlp::new(&sizes, Activation::Relu, &mut cmdp::rng([0; 4]));
        let tickets: Vec<Ticket> =
            (0..12).map(|i| Ticket { actor: &actor, key: [1, 2, 3, i] }).collect();
        let played = |threads: usize, make: fn() -> Box<dyn Env>| -> Vec<Vec<f32>> {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let envs = (0..threads).map(|_| make()).collect();
            let mut stage = Threads::new(envs, vec![], Arc::new(pool));
            let rollouts = stage.play(&tickets, Choice::Sample);
            rollouts.into_iter().map(|rollout| rollout.obs).collect()
        };
        let expected = played(1, || Box::new(point_mass()));
        assert!(played(3, || Box::new(Waiting(point_mass()))) == expected);
    }
}
