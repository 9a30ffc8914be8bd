//! A task of your own: heat a room to 20 degrees on little energy. IPO learns it in seconds.
//!
//!     cargo run --release --example custom_env
//!
//! It leaves a run directory like any other: kill it and start it again, and it goes on where it was;
//! `ecrl report runs` and `tensorboard --logdir runs` show it.

use cmdp::{Aggregate, Constraint, Env, EnvSpec, Rng, StateError, Step};
use ecrl::config::Layers;
use ecrl::metrics::{ENV_STEPS, LEARNER_COST, LEARNER_REWARD, Record};
use ecrl::trainer::Trainer;
use rand::RngExt as _;
use runs::driver::{Every, Observer, Options, Run};

struct Room {
    spec: EnvSpec,
    temperature: f64,
    steps: usize,
}

impl Room {
    fn new(energy: f64) -> Self {
        let name = "energy".into();
        let constraints = vec![Constraint { name, aggregate: Aggregate::Mean, threshold: energy }];
        let (name, max_steps) = ("room".into(), 50);
        let (observation, action, choices) = (1, 1, None);
        let spec = EnvSpec { name, observation, action, choices, max_steps, constraints };
        Self { spec, temperature: 0.0, steps: 0 }
    }
}

impl Env for Room {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, rng: &mut Rng, obs: &mut [f64]) {
        (self.temperature, self.steps) = (rng.random_range(5.0..15.0), 0);
        obs[0] = self.temperature - 20.0;
    }

    fn step(&mut self, action: &[f32], obs: &mut [f64], costs: &mut [f64]) -> Step {
        // What is not a number is taken for "off".
        let wanted = if action[0].is_nan() { -1.0 } else { action[0].clamp(-1.0, 1.0) };
        let heat = f64::from(wanted + 1.0) / 2.0;
        self.temperature += 3.0 * heat - 0.05 * self.temperature;
        self.steps += 1;
        obs[0] = self.temperature - 20.0;
        costs[0] = heat;
        let (terminated, truncated) = (false, self.steps >= self.spec.max_steps);
        Step { reward: -obs[0].abs() / 10.0, terminated, truncated, unstable: false }
    }

    fn capture(&self) -> Option<Vec<f64>> {
        Some(vec![self.temperature, self.steps as f64])
    }

    fn restore(&mut self, state: &[f64], obs: &mut [f64]) -> Result<(), StateError> {
        StateError::check("state", "room", state, 2)?;
        (self.temperature, self.steps) = (state[0], state[1] as usize);
        obs[0] = self.temperature - 20.0;
        Ok(())
    }
}

struct Print;

impl Observer for Print {
    fn generation(&mut self, record: &Record, _: &Trainer) {
        if let (Some(steps), Some(reward)) = (record.get(&ENV_STEPS), record.get(&LEARNER_REWARD)) {
            let cost = record.get(&LEARNER_COST);
            println!("{steps:>6} steps  mean action: reward {reward:6.1}  {cost:?}");
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let report = cmdp::check::check(|| Box::new(Room::new(0.25)));
    assert!(report.problems.is_empty(), "{report}");
    // 20 degrees cost a third of the heater's power; allow less.
    let config =
        Layers::default().set("algorithm", "ipo").preset("fast").set("steps", 40_000).build()?;
    let make = |_: &_| Ok::<_, std::convert::Infallible>(Box::new(Room::new(0.25)) as Box<dyn Env>);
    let options = Options { checkpoint_every: Every::Generations(1), ..Options::default() };
    let mut run = Run::create_or_resume(config, "runs/room".as_ref(), &options, make)?;
    run.train(&mut Print)?;
    let best = &run.trainer().best().expect("it was tested").result;
    let (mean, sampled) = (&best.mean, &best.sampled);
    println!("best: reward {:.1} at {:?} with its mean action", mean.reward, mean.cost);
    println!("      reward {:.1} at {:?} with sampled actions", sampled.reward, sampled.cost);
    println!("      in {}", run.path().display());
    Ok(())
}
