//! A point mass on a line that must reach a goal with little force: a task to learn in seconds.
//!
//! The mass starts at rest near x = -1; the goal is x = 0. The action is a force in [-1, 1]:
//!
//! ```text
//! v' = v + a·dt      x' = x + v'·dt      reward = 1 - |x'|      cost "force" = |a|
//! ```
//!
//! An episode takes 60 steps of 0.1 s; leaving the track (|x| > 2) terminates it.
//!
//! Reward and constraint pull against each other, and the best of both is known. The fastest way
//! accelerates to a speed u, coasts, and brakes: travelling takes 1/u + u seconds at a mean
//! distance of 1/2, and the two pushes cost a mean force of 2u/6. So the best return for a mean
//! force of ε is close to `61 - 5·(1/u + u)` with `u = min(1, 3ε)`: 51 without a constraint, which
//! takes a mean force of 1/3, and 42.8 with `force<=0.1`. (61, not 60: rewards count from the end of
//! the first step.)

use std::borrow::Cow;

use rand::RngExt as _;

use crate::{Aggregate, Constraint, ConstraintError, Cost, Env, EnvSpec, Rng, StateError, Step};

/// See the [module's text](self): 2 observations (position, velocity), 1 action (force).
#[derive(Debug, Clone)]
pub struct PointMass {
    spec: EnvSpec,
    position: f64,
    velocity: f64,
    steps: usize,
}

impl PointMass {
    /// What can be constrained: the mean force.
    pub const COSTS: [Cost; 1] = [Cost {
        name: Cow::Borrowed("force"),
        aggregate: Aggregate::Mean,
        threshold: 0.1,
        description: Cow::Borrowed("absolute force"),
    }];

    const DT: f64 = 0.1;
    const MAX_STEPS: usize = 60;
    const TRACK: f64 = 2.0;

    /// The task under any constraints on [`PointMass::COSTS`].
    pub fn new(constraints: Vec<Constraint>) -> Result<Self, ConstraintError> {
        Constraint::indices(&constraints, &Self::COSTS)?;
        let spec = EnvSpec {
            name: "point-mass".into(),
            observation: 2,
            action: 1,
            choices: None,
            max_steps: Self::MAX_STEPS,
            constraints,
        };
        Ok(Self { spec, position: -1.0, velocity: 0.0, steps: 0 })
    }

    fn observe(&self, obs: &mut [f64]) {
        obs.copy_from_slice(&[self.position, self.velocity]);
    }
}

impl Env for PointMass {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, rng: &mut Rng, obs: &mut [f64]) {
        self.position = -1.0 + rng.random_range(-0.1..0.1);
        self.velocity = 0.0;
        self.steps = 0;
        self.observe(obs);
    }

    fn step(&mut self, action: &[f32], obs: &mut [f64], costs: &mut [f64]) -> Step {
        // A policy that has broken down pushes nothing and is told so, as on the real robots.
        let unstable = !action[0].is_finite();
        let force = if unstable { 0.0 } else { f64::from(action[0].clamp(-1.0, 1.0)) };
        self.velocity += force * Self::DT;
        self.position += self.velocity * Self::DT;
        self.steps += 1;
        self.observe(obs);
        costs.fill(force.abs());
        Step {
            reward: if unstable { 0.0 } else { 1.0 - self.position.abs() },
            terminated: unstable || self.position.abs() > Self::TRACK,
            truncated: self.steps >= Self::MAX_STEPS,
            unstable,
        }
    }

    fn capture(&self) -> Option<Vec<f64>> {
        Some(vec![self.position, self.velocity, self.steps as f64])
    }

    fn restore(&mut self, state: &[f64], obs: &mut [f64]) -> Result<(), StateError> {
        StateError::check("state", &self.spec.name, state, 3)?;
        (self.position, self.velocity, self.steps) = (state[0], state[1], state[2] as usize);
        self.observe(obs);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Episode;

    fn env(constraint: &str) -> PointMass {
        let constraints = Constraint::parse_all(&[constraint], &PointMass::COSTS).unwrap();
        PointMass::new(constraints).unwrap()
    }

    /// Accelerates to `speed`, coasts, brakes: the optimum of the module's text.
    fn push_coast_brake(speed: f64, obs: &[f64; 2], braking: &mut bool) -> f32 {
        let [x, v] = *obs;
        *braking |= -x <= v * v / 2.0 + v * PointMass::DT / 2.0;
        let wanted = if *braking { 0.0 } else { speed };
        ((wanted - v) / PointMass::DT).clamp(-1.0, 1.0) as f32
    }

    fn play(speed: f64) -> Episode {
        let mut env = env("force<=0.1");
        let mut episode = Episode::new(&env.spec().constraints);
        let (mut obs, mut cost) = ([0.0; 2], [0.0]);
        env.restore(&[-1.0, 0.0, 0.0], &mut obs).unwrap();
        let mut braking = false;
        loop {
            let action = push_coast_brake(speed, &obs, &mut braking);
            let step = env.step(&[action], &mut obs, &mut cost);
            episode.push(&step, &cost);
            if step.is_last() {
                assert!(step.truncated && !step.terminated);
                return episode;
            }
        }
    }

    #[test]
    fn the_known_optima_are_reached_by_pushing_coasting_and_braking() {
        let (fast, frugal) = (play(1.0), play(0.3));
        assert!((fast.reward() - 51.0).abs() < 0.3, "{}", fast.reward());
        assert!((fast.constraint_values()[0] - 1.0 / 3.0).abs() < 0.02);
        assert!(!fast.is_feasible());
        assert!((frugal.reward() - 42.8).abs() < 0.3, "{}", frugal.reward());
        assert!((frugal.constraint_values()[0] - 0.1).abs() < 0.005);
    }

    #[test]
    fn leaving_the_track_terminates_and_time_truncates() {
        let mut env = env("force<=0.1");
        let (mut obs, mut cost) = ([0.0; 2], [0.0]);
        env.reset(&mut crate::rng([1; 4]), &mut obs);
        let mut left = 0;
        while !env.step(&[-5.0], &mut obs, &mut cost).terminated {
            left += 1;
            assert_eq!(cost, [1.0]); // of the force as applied
        }
        assert!((10..20).contains(&left), "{left}");
        env.reset(&mut crate::rng([1; 4]), &mut obs);
        let steps: Vec<Step> = (0..60).map(|_| env.step(&[0.0], &mut obs, &mut cost)).collect();
        assert!(steps[58] == Step { truncated: false, ..steps[59] });
        assert!(steps[59].truncated && !steps[59].terminated);
    }

    #[test]
    fn a_non_finite_action_ends_the_episode_as_unstable() {
        let mut env = env("force<=0.1");
        let (mut obs, mut cost) = ([0.0; 2], [0.0]);
        env.reset(&mut crate::rng([1; 4]), &mut obs);
        let step = env.step(&[f32::NAN], &mut obs, &mut cost);
        assert!(step.unstable && step.terminated && step.reward == 0.0 && obs[0].is_finite());
    }

    #[test]
    fn restore_repeats_the_same_steps() {
        let mut env = env("force<=0.1");
        let (mut obs, mut cost) = ([0.0; 2], [0.0]);
        env.reset(&mut crate::rng([7; 4]), &mut obs);
        for _ in 0..20 {
            env.step(&[0.3], &mut obs, &mut cost);
        }
        let (state, seen) = (env.capture().unwrap(), obs);
        let mut run = |env: &mut PointMass| -> Vec<Step> {
            (0..50).map(|i| env.step(&[(i as f32).sin()], &mut obs, &mut cost)).collect()
        };
        let first = run(&mut env);
        let mut again = [0.0; 2];
        env.restore(&state, &mut again).unwrap();
        assert_eq!(again, seen);
        assert_eq!(run(&mut env), first);
        let refused = env.restore(&state[..2], &mut again).unwrap_err().to_string();
        assert_eq!(refused, "state has 2 numbers; point-mass expects 3");
    }
}
