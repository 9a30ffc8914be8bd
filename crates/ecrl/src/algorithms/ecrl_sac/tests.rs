//! What learners share, what they differ in, and who is the policy.

use super::*;
use crate::config::Layers;
use crate::trainer::Trainer;
use cmdp::{Constraint, Env, PointMass};

/// Four learners with networks of four units, halved to two and to one.
const SMALL: &str = "[sac]\nhidden = [4]\nbatch = 8\n[learner]\nlearning_starts = 1000\n\
                     [evolution]\nhalve_at = [0.4, 0.7]\njudged = 2\n";

fn trainer(values: &[&str]) -> Trainer {
    let mut layers = Layers::default();
    layers.set("algorithm", "ecrl-sac").set("steps", 8000);
    values.iter().for_each(|values| layers.toml(values).unwrap());
    let make = || {
        let constraints = Constraint::parse_all(&["force<=0.5"], &PointMass::COSTS).unwrap();
        PointMass::new(constraints).map(|env| Box::new(env) as Box<dyn Env>)
    };
    Trainer::new(layers.build().unwrap(), 2, make).unwrap()
}

/// Of every generation the steps until its end, the learners that played it, its steps and its updates.
fn played(rate: &str) -> Vec<(u64, u64, u64, u64)> {
    let mut trainer = trainer(&[SMALL, &format!("[learner]\ngrad_steps_per_env_step = {rate}\n")]);
    let (mut seen, mut learners) = (Vec::new(), 4);
    while !trainer.is_done() {
        let before = (trainer.env_steps(), trainer.grad_steps());
        let record = trainer.generation(&mut |_| true).unwrap().unwrap();
        let steps = trainer.env_steps();
        seen.push((steps, learners, steps - before.0, trainer.grad_steps() - before.1));
        learners = record.get(&LEARNERS).unwrap();
        assert_eq!(trainer.replay().unwrap().len() as u64, steps, "everybody's");
        assert_eq!(
            learners,
            if steps < 3200 {
                4
            } else if steps < 5600 {
                2
            } else {
                1
            }
        );
    }
    seen
}

#[test]
fn those_left_share_what_is_played_and_its_updates() {
    for (steps, learners, brought, updates) in played("0.5") {
        let each = brought as f64 * 0.5 / learners as f64;
        let due = if steps < 1000 { 0.0 } else { each };
        assert!((updates as f64 - due).abs() < 1.0, "{updates} of {brought} by {learners}");
    }
}

#[test]
fn fractions_of_an_update_add_up_whoever_leaves() {
    let seen = played("0.03");
    let learnt = || seen.iter().filter(|one| one.0 >= 1000);
    let due: f64 = learnt().map(|one| one.2 as f64 * 0.03 / one.1 as f64).sum();
    let updates: u64 = learnt().map(|one| one.3).sum();
    assert!(due > 100.0 && (0.0..1.0).contains(&(due - updates as f64)), "{updates} for {due}");
}

fn portfolio(values: &[&str]) -> Portfolio {
    let mut layers = Layers::default();
    layers.set("algorithm", "ecrl-sac");
    values.iter().for_each(|values| layers.toml(values).unwrap());
    let task = PointMass::new(vec![]).unwrap();
    let section = layers.build().unwrap().section().unwrap();
    Portfolio::new(section, Setup { spec: task.spec(), rng: &mut cmdp::rng([0; 4]) }).unwrap()
}

#[test]
fn genomes_are_dealt_out_in_turn() {
    let values = "[sac]\nhidden = [4]\nalpha = 0.5\n[evolution]\nhorizons = [1.0, 10.0]\n\
                  temperatures = [1.0, 1.0, 0.5]\n";
    let portfolio = portfolio(&[values]);
    let has: Vec<(f64, f64)> = (0..4).map(|n| portfolio.section.genome(n)).collect();
    let far = 1.0 - (1.0 - 0.99) / 10.0;
    assert_eq!(has, [(0.99, 0.5), (far, 0.5), (0.99, 0.25), (far, 0.5)]);
    let own = |member: &Member| (member.sac.config().gamma, member.sac.config().alpha);
    assert_eq!(portfolio.members.iter().map(own).collect::<Vec<_>>(), has);
}

#[test]
fn the_first_of_the_ranking_is_the_policy() {
    let mut portfolio = portfolio(&[SMALL]);
    portfolio.selection.leader = 2;
    assert_eq!(portfolio.actor(), *portfolio.members[2].sac.actor());
    assert!(portfolio.actor() != *portfolio.members[0].sac.actor());
}

#[test]
fn values_out_of_range_are_named() {
    for (values, named) in [
        ("population = 1", "evolution.population is 1"),
        ("temperatures = []", "evolution.temperatures is []"),
        ("temperatures = [0.0]", "evolution.temperatures is [0.0]"),
        ("horizons = [0.001]", "sac.gamma by evolution.horizons"),
    ] {
        let mut layers = Layers::default();
        layers.set("algorithm", "ecrl-sac");
        layers.toml(&format!("[evolution]\n{values}\n")).unwrap();
        let error = layers.build().unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}
