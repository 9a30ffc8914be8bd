//! Numbers of a task that nobody can learn from end a run, and are named.

use cmdp::{Constraint, Env, EnvSpec, PointMass, Rng, Step};
use ecrl::config::Layers;
use ecrl::trainer::{TrainError, Trainer};

/// The point mass, until a number goes wrong.
struct Faulty {
    inner: PointMass,
    what: &'static str,
    value: f64,
    steps: usize,
}

impl Env for Faulty {
    fn spec(&self) -> &EnvSpec {
        self.inner.spec()
    }

    fn reset(&mut self, rng: &mut Rng, obs: &mut [f64]) {
        self.inner.reset(rng, obs);
        if self.what == "start" {
            obs[1] = self.value;
        }
    }

    fn step(&mut self, action: &[f32], obs: &mut [f64], costs: &mut [f64]) -> Step {
        let mut step = self.inner.step(action, obs, costs);
        self.steps += 1;
        if self.steps >= 700 {
            match self.what {
                "reward" => step.reward = self.value,
                "cost" => costs[0] = self.value,
                "observation" => obs[0] = self.value,
                _ => {}
            }
        }
        step
    }
}

#[test]
fn a_number_that_is_not_finite_ends_the_run_with_its_name() {
    for (what, value, expected) in [
        ("cost", f64::NAN, "the cost 'force' of point-mass is NaN"),
        ("reward", f64::NAN, "the reward of point-mass is NaN"),
        ("reward", f64::INFINITY, "the reward of point-mass is inf"),
        ("reward", 1e300, "the reward of point-mass is 1e300"), // which f32 cannot hold
        ("observation", f64::NAN, "observation[0] of point-mass is NaN"),
        ("start", f64::NEG_INFINITY, "observation[1] of point-mass is -inf"),
    ] {
        for algorithm in ["ecrl", "rcpo", "ipo", "ppo-lag"] {
            let mut layers = Layers::default();
            layers.set("algorithm", algorithm).set("steps", 20_000);
            let on_policy = ["ipo", "ppo-lag"].contains(&algorithm);
            let small = if on_policy {
                "[ppo]\nhidden = [8]\ncollect = 500\nepochs = 1\n"
            } else {
                "[sac]\nhidden = [8]\nbatch = 16\n[learner]\nlearning_starts = 100000\n"
            };
            layers.toml(small).unwrap();
            let constraints = Constraint::parse_all(&["force<=0.1"], &PointMass::COSTS).unwrap();
            let make = || -> Result<Box<dyn Env>, cmdp::ConstraintError> {
                let inner = PointMass::new(constraints.clone())?;
                Ok(Box::new(Faulty { inner, what, value, steps: 0 }))
            };
            let mut run = Trainer::new(layers.build().unwrap(), 2, make).unwrap();
            let error = loop {
                match run.generation(&mut |_| true) {
                    Ok(record) => assert!(record.is_some() && !run.is_done(), "{algorithm}"),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, TrainError::Fault(_)));
            let text = error.to_string();
            let whole = format!("{expected}; expected a finite number");
            assert_eq!(text, whole, "{algorithm}, {what}");
            assert!(run.actor().params().iter().all(|x| x.is_finite()));
            assert!(run.state().is_err(), "a state that has met it is not stored");
        }
    }
}
