//! A task of your own: heat a room to 20 degrees on little energy. IPO learns it in seconds.
//!
//!     cargo run --release --example custom_env

use cmdp::{Aggregate, Constraint, Env, EnvSpec, Rng, StateError, Step};
use ecrl::config::Config;
use ecrl::trainer::{TrainError, Trainer};
use rand::RngExt as _;

struct Room {
    spec: EnvSpec,
    temperature: f64,
    steps: usize,
}

impl Room {
    fn new(energy: f64) -> Self {
        let name = "energy".into();
        let constraints = vec![Constraint { name, aggregate: Aggregate::Mean, threshold: energy }];
        let (observation, action, max_steps) = (1, 1, 50);
        let spec = EnvSpec { name: "room".into(), observation, action, max_steps, constraints };
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
        let heat = f64::from(action[0].clamp(-1.0, 1.0) + 1.0) / 2.0;
        self.temperature += 3.0 * heat - 0.05 * self.temperature;
        self.steps += 1;
        obs[0] = self.temperature - 20.0;
        costs[0] = heat;
        let (terminated, truncated) = (false, self.steps >= self.spec.max_steps);
        Step { reward: -obs[0].abs() / 10.0, terminated, truncated, unstable: false }
    }

    fn capture(&self) -> Vec<f64> {
        vec![self.temperature, self.steps as f64]
    }

    fn restore(&mut self, state: &[f64], obs: &mut [f64]) -> Result<(), StateError> {
        StateError::check("state", "room", state, 2)?;
        (self.temperature, self.steps) = (state[0], state[1] as usize);
        obs[0] = self.temperature - 20.0;
        Ok(())
    }
}

fn main() -> Result<(), TrainError> {
    // 20 degrees cost a third of the heater's power; allow less.
    for energy in [1.0, 0.25] {
        let config = Config {
            task: "room".into(),
            algorithm: "ipo".into(),
            steps: 40_000,
            ..Config::default()
        };
        let make = || -> Result<Box<dyn Env>, TrainError> { Ok(Box::new(Room::new(energy))) };
        let mut trainer = Trainer::new(config, 2, make)?;
        while !trainer.is_done() {
            trainer.generation(&mut |_| true)?;
        }
        let best = trainer.best().expect("it was tested");
        println!("energy <= {energy}: reward {:.1} at {:.2}", best.reward, best.cost[0]);
    }
    Ok(())
}
