//! The update against PyTorch.

use serde_json::Value;

use super::*;
use crate::learners::ppo::tests::{floats, rows_of};
use crate::memory::replay::Transition;

const FIXTURE: &str = include_str!("../../../tests/fixtures/constrained.json");

#[test]
fn four_updates_with_critics_of_costs_agree_with_pytorch() {
    let fixture: Value = serde_json::from_str(FIXTURE).unwrap();
    let case = &fixture["cases"]["td3"];
    let number = |name: &str| fixture["config"][name].as_f64().unwrap();
    let size = |name: &str| fixture["sizes"][name].as_u64().unwrap() as usize;
    let config = Td3Config {
        hidden: floats(&fixture["sizes"]["hidden"]).iter().map(|&x| x as usize).collect(),
        batch: size("batch"),
        gamma: number("gamma"),
        tau: number("tau"),
        actor_lr: number("actor_lr"),
        critic_lr: number("critic_lr"),
        delay: case["delay"].as_u64().unwrap(),
        smoothing: case["smoothing"].as_f64().unwrap(),
        smoothing_clip: case["smoothing_clip"].as_f64().unwrap(),
        ..Td3Config::default()
    };
    let mut td3 = Td3::new(config, [size("obs"), size("action"), 2], &mut cmdp::rng([0; 4]));
    let start = &case["start"];
    td3.climber.actor.net.params_mut().copy_from_slice(&floats(&start["actor"]));
    td3.target = td3.climber.actor.net.clone();
    let (critics, targets) = (rows_of(&start["critics"]), rows_of(&start["targets"]));
    let twins = &mut td3.twins;
    for (i, critic) in twins.critics.iter_mut().chain(&mut twins.costs).enumerate() {
        critic.net.params_mut().copy_from_slice(&critics[i]);
        critic.target.params_mut().copy_from_slice(&targets[i]);
    }
    let doubles = |name: &str| -> Vec<f64> {
        case[name].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    let (lambdas, centres) = (doubles("weights"), doubles("centres"));
    let price = Price::Critics { lambdas: &lambdas, centres: &centres };
    for (batch, expected) in
        case["batches"].as_array().unwrap().iter().zip(case["losses"].as_array().unwrap())
    {
        for row in 0..td3.config.batch {
            let part = |name: &str| floats(&batch[name][row]);
            let (obs, action, next_obs) = (part("obs"), part("action"), part("next_obs"));
            let (costs, multipliers) = (part("costs"), part("multipliers"));
            let transition = Transition {
                obs: &obs,
                action: &action,
                reward: part("reward")[0],
                costs: &costs,
                multipliers: &multipliers,
                next_obs: &next_obs,
                terminated: batch["terminated"][row].as_bool().unwrap(),
            };
            td3.twins.set(row, transition, price);
        }
        td3.twins.batch.noise = floats(&batch["noise"]);
        let (critic, cost_critic) = td3.learn(price);
        let theirs = floats(&expected["critic"]);
        let mean = |a: f32, b: f32| f64::from(a + b) / 2.0;
        for (ours, theirs) in [
            (critic, mean(theirs[0], theirs[1])),
            (cost_critic.unwrap(), mean(theirs[2], theirs[3])),
            (td3.actor_loss, expected["actor"].as_f64().unwrap()),
        ] {
            assert!((ours - theirs).abs() <= 1e-5 * theirs.abs().max(0.1), "{ours} {theirs}");
        }
    }
    let after = &case["after"];
    let mut pairs = vec![
        (td3.climber.actor.net.params(), floats(&after["actor"])),
        (td3.target.params(), floats(&after["actor_target"])),
    ];
    let (critics, targets) = (rows_of(&after["critics"]), rows_of(&after["targets"]));
    for (i, critic) in td3.twins.critics.iter().chain(&td3.twins.costs).enumerate() {
        pairs.push((critic.net.params(), critics[i].clone()));
        pairs.push((critic.target.params(), targets[i].clone()));
    }
    assert_eq!(pairs.len(), 10);
    for (ours, theirs) in pairs {
        assert_eq!(ours.len(), theirs.len());
        for (a, b) in ours.iter().zip(&theirs) {
            assert!((a - b).abs() <= 1e-5 * b.abs().max(0.1), "{a} {b}");
        }
    }
}

#[test]
fn a_policy_that_it_starts_from_goes_on_acting_as_it_did() {
    let config = Td3Config { hidden: vec![8], batch: 4, ..Td3Config::default() };
    let first = Td3::new(config.clone(), [3, 2, 0], &mut cmdp::rng([1; 4]));
    let mut second = Td3::new(config, [3, 2, 0], &mut cmdp::rng([2; 4]));
    let actor = first.actor().into_owned();
    assert_ne!(second.actor().into_owned(), actor);
    second.start_from(&actor).unwrap();
    assert_eq!(second.actor().into_owned(), actor);
    let head = actor.forward_one(&[1.0, 2.0, 3.0], &mut Vec::new()).to_vec();
    assert!(head[2..].iter().all(|log_sigma| (log_sigma - 0.1f32.ln()).abs() < 1e-6), "{head:?}");
}
