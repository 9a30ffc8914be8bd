//! Every algorithm learns the point mass in seconds, and does what its name promises.

use cmdp::{Constraint, Env, EnvSpec, PointMass, Rng, StateError, Step};
use ecrl::config::{Config, Layers};
use ecrl::record::Generation;
use ecrl::trainer::{TrainError, Trainer};

/// The best return under `force<=0.1`, and without a constraint: see [`PointMass`].
const CONSTRAINED: f64 = 42.8;
const UNCONSTRAINED: f64 = 51.0;

fn config(algorithm: &str) -> Config {
    let mut layers = Layers::default();
    layers
        .toml(
            r#"
            task = "point-mass"
            steps = 15000
            constraints = ["force<=0.1"]
            [learner]
            learning_starts = 1000
            [sac]
            hidden = [64, 64]
            batch = 128
            alpha = 0.02
            tau = 0.01
            actor_lr = 1e-3
            critic_lr = 1e-3
            [ppo]
            discount = 0.95 # what follows the 60 steps of an episode matters little
            lr = 1e-3
            [replay]
            capacity = 4000
            [multipliers]
            lambda = 0.5
            eta = 2.0
            "#,
        )
        .unwrap();
    layers.set("algorithm", algorithm);
    layers.build().unwrap()
}

fn env(config: &Config) -> Box<dyn Env> {
    let constraints = Constraint::parse_all(&config.constraints, &PointMass::COSTS).unwrap();
    Box::new(PointMass::new(constraints).unwrap())
}

fn train(config: Config, threads: usize) -> (Trainer, Vec<Generation>) {
    let make = || Ok(env(&config));
    let mut trainer = Trainer::new::<TrainError>(config.clone(), threads, make).unwrap();
    let mut generations = Vec::new();
    while !trainer.is_done() {
        generations.push(trainer.generation(&mut |_| true).unwrap().unwrap());
    }
    (trainer, generations)
}

#[test]
fn rcpo_keeps_the_constraint_and_sac_earns_more_by_breaking_it() {
    let (rcpo, rcpo_log) = train(config("rcpo"), 2);
    let best = rcpo.best().unwrap();
    assert_eq!(best.violation, 0.0);
    assert!(best.reward > 0.9 * CONSTRAINED, "{}", best.reward);
    let last = rcpo_log.last().unwrap();
    assert_eq!(last.feasible, Some(true), "{last:?}");
    assert!(last.learner_reward.unwrap() > 0.85 * CONSTRAINED, "{last:?}");
    // λ* = 2.5 at ε = 0.1: the slope of the best return over the force spent.
    assert!((1.0..4.0).contains(&last.lambda_learner[0]), "{last:?}");

    let (_, sac_log) = train(config("sac"), 2);
    let last = sac_log.last().unwrap();
    assert!(last.learner_reward.unwrap() > 0.95 * UNCONSTRAINED, "{last:?}");
    assert!(last.learner_cost.as_ref().unwrap()[0] > 0.2, "{last:?}");
    assert_eq!(last.lambda_learner, [0.0]);
}

#[test]
fn ecrl_keeps_the_constraint_and_erl_earns_more_by_breaking_it() {
    // The paper's conflict, in small.
    let tested = |log: &[Generation]| -> Vec<(f64, f64, f64)> {
        let tests = log.iter().rev().filter(|g| g.learner_reward.is_some()).take(4);
        let cost = |cost: &Option<Vec<f64>>| cost.as_ref().unwrap()[0];
        tests
            .map(|g| (g.learner_reward.unwrap(), cost(&g.learner_cost), cost(&g.champion_cost)))
            .collect()
    };
    let (ecrl, log) = train(config("ecrl"), 2);
    let best = ecrl.best().unwrap();
    assert_eq!(best.violation, 0.0);
    assert!(best.reward > 0.85 * CONSTRAINED, "{}", best.reward);
    let kept =
        tested(&log).iter().filter(|(_, learner, champion)| learner.min(*champion) <= 0.1).count();
    assert!(kept >= 3, "{:?}", tested(&log));
    let last = log.last().unwrap();
    assert!(last.population_cost_mean.as_ref().unwrap()[0] < 0.2, "{last:?}");
    assert!(last.population_feasible.unwrap() > 0.0, "{last:?}");

    let (_, log) = train(config("erl"), 2);
    for (reward, learner, champion) in tested(&log) {
        assert!(reward > 0.9 * UNCONSTRAINED && learner > 0.2 && champion > 0.2);
    }
    let last = log.last().unwrap();
    assert!(last.population_cost_mean.as_ref().unwrap()[0] > 0.3, "{last:?}");
    assert_eq!(last.population_feasible, Some(0.0));
}

#[test]
fn ipo_keeps_the_constraint_and_ppo_earns_more_by_breaking_it() {
    let on_policy = |algorithm: &str| Config { steps: 60_000, ..config(algorithm) };
    let (_, log) = train(on_policy("ppo"), 2);
    let last = log.last().unwrap();
    assert!(last.learner_reward.unwrap() > 0.95 * UNCONSTRAINED, "{last:?}");
    assert!(last.learner_cost.as_ref().unwrap()[0] > 0.2, "{last:?}");
    assert_eq!(last.recovery, None);

    let (ipo, log) = train(on_policy("ipo"), 2);
    let last = log.last().unwrap();
    assert_eq!(last.feasible, Some(true), "{last:?}");
    // The barrier is about what it draws, noise and all: the mean action stays well within.
    assert!(ipo.best().unwrap().reward > 0.6 * CONSTRAINED, "{:?}", ipo.best());
    // It starts beyond the threshold, follows the cost until it is back within, and stays there.
    assert_eq!(log[0].recovery, Some(1.0), "{:?}", log[0]);
    for g in &log[2 * log.len() / 3..] {
        assert!(g.recovery.unwrap() < 0.1 && g.rollout_cost.as_ref().unwrap()[0] < 0.1, "{g:?}");
    }
}

/// A run cut short, for tests that do not need to learn.
fn short(algorithm: &str) -> Config {
    Config { steps: 2000, ..config(algorithm) }
}

fn without_time(mut log: Vec<Generation>) -> Vec<Generation> {
    log.iter_mut().for_each(|g| (g.seconds, g.times) = (0.0, Default::default()));
    log
}

#[test]
fn the_same_seed_gives_the_same_bits_on_any_number_of_threads() {
    for algorithm in ["ecrl", "rcpo", "ipo"] {
        let (one, one_log) = train(short(algorithm), 1);
        let (three, three_log) = train(short(algorithm), 3);
        assert_eq!(without_time(one_log.clone()), without_time(three_log), "{algorithm}");
        assert_eq!(one.policy().to_bytes(), three.policy().to_bytes(), "{algorithm}");
        assert_eq!(one.census(), three.census(), "{algorithm}");
        let (_, other) = train(Config { seed: 1, ..short(algorithm) }, 2);
        assert_ne!(without_time(one_log), without_time(other), "{algorithm}");
    }
}

#[test]
fn several_constraints_each_have_a_multiplier() {
    let constraints = vec!["force<=0.1".into(), "sum(force)<=1000".into()];
    let (_, log) = train(Config { constraints, ..short("rcpo") }, 2);
    let lambda = &log.last().unwrap().lambda_learner;
    assert!(lambda[0] > 0.5, "broken, so it rises: {lambda:?}");
    assert_eq!(lambda[1], 0.0, "kept by far, so it falls to zero");
}

#[test]
fn updates_and_multipliers_wait_for_enough_transitions() {
    let (_, log) = train(short("rcpo"), 2);
    for g in &log {
        let waiting = g.replay < 1000;
        assert_eq!(g.grad_steps == 0, waiting, "{g:?}");
        assert_eq!(g.lambda_learner == [0.5], waiting, "{g:?}");
    }
    let first = log.iter().position(|g| g.grad_steps > 0).unwrap();
    for pair in log[first..].windows(2) {
        assert_eq!(pair[1].grad_steps - pair[0].grad_steps, pair[1].env_steps - pair[0].env_steps);
    }
}

/// Pays something that is not a number after a while, as no environment should.
struct Poisoned(Box<dyn Env>, u32);

impl Env for Poisoned {
    fn spec(&self) -> &EnvSpec {
        self.0.spec()
    }

    fn reset(&mut self, rng: &mut Rng, obs: &mut [f64]) {
        self.0.reset(rng, obs);
    }

    fn step(&mut self, action: &[f32], obs: &mut [f64], costs: &mut [f64]) -> Step {
        self.1 += 1;
        let step = self.0.step(action, obs, costs);
        Step { reward: if self.1 > 1500 { f64::NAN } else { step.reward }, ..step }
    }

    fn capture(&self) -> Vec<f64> {
        self.0.capture()
    }

    fn restore(&mut self, state: &[f64], obs: &mut [f64]) -> Result<(), StateError> {
        self.0.restore(state, obs)
    }
}

#[test]
fn a_nan_stops_the_run_with_step_and_tensor_and_keeps_the_last_good_policy() {
    let config = config("sac");
    let make = || Ok(Box::new(Poisoned(env(&config), 0)) as Box<dyn Env>);
    let mut trainer = Trainer::new::<TrainError>(config.clone(), 1, make).unwrap();
    let mut good = trainer.policy();
    let error = loop {
        match trainer.generation(&mut |_| true) {
            Ok(_) => good = trainer.policy(),
            Err(error) => break error.to_string(),
        }
    };
    assert!(
        error.starts_with("update ") && error.contains("critic1.0.weight is not finite"),
        "{error}"
    );
    assert_eq!(trainer.policy().actor, good.actor);
    assert!(good.actor.params().iter().all(|x| x.is_finite()));
}

#[test]
fn a_run_paused_anywhere_ends_as_if_it_had_not_been() {
    let config = short("ecrl");
    let (whole, log) = train(config.clone(), 2);
    let make = || Ok(env(&config));
    let mut paused = Trainer::new::<TrainError>(config.clone(), 2, make).unwrap();
    let (mut generations, mut pauses) = (Vec::new(), 0);
    while !paused.is_done() {
        let mut updates = 0;
        let brought = paused.generation(&mut |_| {
            updates += 1;
            updates % 97 != 0
        });
        match brought.unwrap() {
            Some(generation) => generations.push(generation),
            None => pauses += 1,
        }
    }
    assert!(pauses > 5, "{pauses}");
    assert_eq!(without_time(generations), without_time(log));
    assert_eq!(paused.policy().to_bytes(), whole.policy().to_bytes());
}
