//! The update against PyTorch and finite differences.

use serde_json::Value;

use super::*;
use crate::memory::replay::Transition;

const FIXTURE: &str = include_str!("../../../tests/fixtures/sac.json");

fn floats(value: &Value) -> Vec<f32> {
    match value {
        Value::Array(items) => items.iter().flat_map(floats).collect(),
        other => vec![other.as_f64().unwrap() as f32],
    }
}

fn doubles(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&x| x.into()).collect()
}

/// The learner of the fixture before its first update.
fn learner(fixture: &Value, start: &Value, costs: usize) -> Sac {
    let number = |name: &str| fixture["config"][name].as_f64().unwrap();
    let size = |name: &str| fixture["sizes"][name].as_u64().unwrap() as usize;
    let hidden = floats(&fixture["sizes"]["hidden"]).iter().map(|&x| x as usize).collect();
    let config = SacConfig {
        hidden,
        batch: size("batch"),
        gamma: number("gamma"),
        tau: number("tau"),
        alpha: number("alpha"),
        actor_lr: number("actor_lr"),
        critic_lr: number("critic_lr"),
    };
    let mut sac = Sac::new(config, [size("obs"), size("action"), costs], &mut cmdp::rng([0; 4]));
    sac.actor.params_mut().copy_from_slice(&floats(&start["actor"]));
    for (i, critic) in sac.critics.iter_mut().chain(&mut sac.costs).enumerate() {
        critic.net.params_mut().copy_from_slice(&floats(&start["critics"][i]));
        critic.target.params_mut().copy_from_slice(&floats(&start["targets"][i]));
    }
    sac
}

/// Fills the halves with a batch of the fixture and draws the actions.
fn fill(sac: &mut Sac, batch: &Value, price: Price) {
    let mut first = 0;
    let gamma = sac.config.gamma as f32;
    let Sac { halves, inputs, actor, config, .. } = sac;
    for (half, mut inputs) in halves.iter_mut().zip(inputs.halves(config.batch)) {
        for row in 0..half.rows {
            let part = |name: &str| floats(&batch[name][first + row]);
            let (obs, action, next_obs) = (part("obs"), part("action"), part("next_obs"));
            let (costs, multipliers) = (part("costs"), part("multipliers"));
            let transition = Transition {
                obs: &obs,
                action: &action,
                reward: part("reward")[0],
                costs: &costs,
                multipliers: &multipliers,
                next_obs: &next_obs,
                terminated: batch["terminated"][first + row].as_bool().unwrap(),
            };
            half.set(row, (transition, price), gamma, &mut inputs);
        }
        let rows = |name: &str| -> Vec<f32> {
            (first..first + half.rows).flat_map(|row| floats(&batch[name][row])).collect()
        };
        half.noise = rows("noise");
        half.next_noise = rows("next_noise");
        half.draw_actions(actor, inputs);
        first += half.rows;
    }
}

fn assert_close(ours: &[f32], expected: &[f32], what: &str) {
    assert_eq!(ours.len(), expected.len());
    for (i, (a, b)) in ours.iter().zip(expected).enumerate() {
        // Relative to the size of a weight; the learning rate alone is 1e-3.
        assert!((a - b).abs() <= 1e-5 * b.abs().max(0.1), "{what}[{i}]: {a} {b}");
    }
}

#[test]
fn ten_updates_agree_with_pytorch() {
    let fixture: Value = serde_json::from_str(FIXTURE).unwrap();
    let mut sac = learner(&fixture, &fixture["start"], 0);
    for (i, batch) in fixture["batches"].as_array().unwrap().iter().enumerate() {
        fill(&mut sac, batch, Price::Stored);
        let losses = sac.learn(Price::Stored);
        let expected = &fixture["losses"][i];
        for (ours, theirs) in [
            (losses.critic[0], &expected["critic"][0]),
            (losses.critic[1], &expected["critic"][1]),
            (losses.actor, &expected["actor"]),
            (losses.entropy, &expected["entropy"]),
        ] {
            let theirs = theirs.as_f64().unwrap();
            assert!((ours - theirs).abs() <= 1e-5 * theirs.abs().max(0.1), "{i}: {ours} {theirs}");
        }
        if let Some(after) = fixture["after"].get((i + 1).to_string()) {
            assert_close(sac.actor.params(), &floats(&after["actor"]), "actor");
            for (j, critic) in sac.critics.iter().enumerate() {
                assert_close(critic.net.params(), &floats(&after["critics"][j]), "critic");
                assert_close(critic.target.params(), &floats(&after["targets"][j]), "target");
            }
        }
    }
    assert_eq!(fixture["batches"].as_array().unwrap().len(), 10);
}

#[test]
fn updates_with_critics_of_costs_and_slopes_by_multipliers_agree_with_pytorch() {
    let fixture: Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/constrained.json")).unwrap();
    for (name, costs) in [("sac", 2), ("metal", 0)] {
        let case = &fixture["cases"][name];
        let mut sac = learner(&fixture, &case["start"], costs);
        if costs == 0 {
            sac = sac.noting_costs(2);
        }
        let (lambdas, centres) =
            (doubles(&floats(&case["weights"])), doubles(&floats(&case["centres"])));
        let price = match costs {
            0 => Price::InForce { lambdas: &lambdas, centres: &[0.0; 2] },
            _ => Price::Critics { lambdas: &lambdas, centres: &centres },
        };
        let batches = case["batches"].as_array().unwrap();
        assert_eq!(batches.len(), 4);
        for (batch, expected) in batches.iter().zip(case["losses"].as_array().unwrap()) {
            fill(&mut sac, batch, price);
            let losses = sac.learn(price);
            let theirs = doubles(&floats(&expected["critic"]));
            let mut pairs = vec![
                (losses.critic[0], theirs[0]),
                (losses.critic[1], theirs[1]),
                (losses.actor, expected["actor"].as_f64().unwrap()),
            ];
            pairs.extend(losses.cost_critic.map(|loss| (loss, (theirs[2] + theirs[3]) / 2.0)));
            let slopes = doubles(&floats(&expected["slopes"]));
            assert_eq!(sac.slopes().len(), slopes.len(), "{name}");
            pairs.extend(sac.slopes().iter().copied().zip(slopes));
            for (ours, theirs) in pairs {
                let near = (ours - theirs).abs() <= 1e-5 * theirs.abs().max(0.1);
                assert!(near, "{name}: {ours} {theirs}");
            }
        }
        let after = &case["after"];
        assert_close(sac.actor.params(), &floats(&after["actor"]), name);
        for (j, critic) in sac.critics.iter().chain(&sac.costs).enumerate() {
            assert_close(critic.net.params(), &floats(&after["critics"][j]), name);
            assert_close(critic.target.params(), &floats(&after["targets"][j]), name);
        }
    }
}

/// A network in f64, as the formula says.
fn forward(sizes: &[usize], params: &[f64], input: &[f64]) -> Vec<f64> {
    let mut x = input.to_vec();
    let mut at = 0;
    for (layer, pair) in sizes.windows(2).enumerate() {
        let (weight, bias) = params[at..].split_at(pair[0] * pair[1]);
        at += pair[0] * pair[1] + pair[1];
        x = (0..pair[1])
            .map(|o| {
                let row = &weight[o * pair[0]..(o + 1) * pair[0]];
                let sum: f64 = bias[o] + row.iter().zip(&x).map(|(w, x)| w * x).sum::<f64>();
                if layer + 2 < sizes.len() { sum.max(0.0) } else { sum }
            })
            .collect();
    }
    x
}

fn differences(x: &[f64], loss: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let at = |i: usize, h: f64| {
        let mut moved = x.to_vec();
        moved[i] += h;
        loss(&moved)
    };
    (0..x.len()).map(|i| (at(i, 1e-6) - at(i, -1e-6)) / 2e-6).collect()
}

fn assert_gradient(ours: &[f32], expected: &[f64], what: &str) {
    let largest = expected.iter().fold(0.0, |max: f64, x| max.max(x.abs()));
    assert!(largest > 1e-3, "{what}: nothing to compare");
    for (i, (a, b)) in ours.iter().zip(expected).enumerate() {
        let error = (f64::from(*a) - b).abs();
        assert!(error <= 1e-4 * b.abs().max(0.01 * largest), "{what}[{i}]: {a} {b}");
    }
}

#[test]
fn both_losses_have_the_gradients_of_finite_differences() {
    let fixture: Value = serde_json::from_str(FIXTURE).unwrap();
    let mut sac = learner(&fixture, &fixture["start"], 0);
    fill(&mut sac, &fixture["batches"][0], Price::Stored);
    let before = sac.clone();
    sac.learn(Price::Stored);
    let batch = before.config.batch as f64;
    let rows = |numbers: &[f32], width: usize| -> Vec<Vec<f64>> {
        numbers.chunks_exact(width).map(doubles).collect()
    };
    let (taken, targets) = (rows(&sac.inputs.taken, 6), rows(&sac.target, 1));
    let obs = sac.halves.iter().flat_map(|half| rows(&half.obs, 4)).collect::<Vec<_>>();
    let noise = sac.halves.iter().flat_map(|half| rows(&half.noise, 2)).collect::<Vec<_>>();

    let sizes = before.critics[0].net.sizes();
    for (j, critic) in before.critics.iter().enumerate() {
        let loss = |params: &[f64]| -> f64 {
            let errors =
                taken.iter().zip(&targets).map(|(x, y)| forward(sizes, params, x)[0] - y[0]);
            errors.map(|e| e * e).sum::<f64>() / batch
        };
        let expected = differences(&doubles(critic.net.params()), loss);
        assert_gradient(&sac.critics[j].gradient, &expected, "critic");
    }

    // The actor is improved against the critics as they are after their step.
    let critics: Vec<Vec<f64>> = sac.critics.iter().map(|c| doubles(c.net.params())).collect();
    let loss = |params: &[f64]| -> f64 {
        let each = obs.iter().zip(&noise).map(|(obs, noise)| {
            let head = forward(before.actor.sizes(), params, obs);
            let mut log_prob = 0.0;
            let mut input = obs.clone();
            for j in 0..2 {
                let log_sigma = head[2 + j].clamp(-20.0, 2.0);
                let a = (head[j] + log_sigma.exp() * noise[j]).tanh();
                log_prob -= 0.5 * noise[j] * noise[j] + log_sigma + (1.0 - a * a).ln();
                input.push(a);
            }
            let q = critics.iter().map(|critic| forward(sizes, critic, &input)[0]);
            before.config.alpha * log_prob - q.fold(f64::INFINITY, f64::min)
        });
        each.sum::<f64>() / batch
    };
    let expected = differences(&doubles(before.actor.params()), loss);
    let [first, rest] = sac.halves.each_ref().map(|half| &half.actor_gradient);
    let gradient: Vec<f32> = first.iter().zip(rest).map(|(a, b)| a + b).collect();
    assert_gradient(&gradient, &expected, "actor");
}

#[test]
fn a_truncated_transition_bootstraps_and_a_terminated_one_does_not() {
    let fixture: Value = serde_json::from_str(FIXTURE).unwrap();
    let mut sac = learner(&fixture, &fixture["start"], 0);
    fill(&mut sac, &fixture["batches"][0], Price::Stored);
    sac.learn(Price::Stored);
    let terminated = fixture["batches"][0]["terminated"].as_array().unwrap();
    let rows = sac.target.iter().zip(sac.halves.iter().flat_map(|half| &half.reward));
    let mut seen = [0, 0];
    for ((target, reward), terminated) in rows.zip(terminated) {
        let terminated = terminated.as_bool().unwrap();
        assert_eq!(target == reward, terminated);
        seen[usize::from(terminated)] += 1;
    }
    assert!(seen[0] > 0 && seen[1] > 0);
}

fn filled(count: usize) -> Replay {
    let mut replay = Replay::new(count, 3, 2, 1);
    for i in 0..count {
        let x = (i as f32 * 0.7).sin();
        replay.push(Transition {
            obs: &[x, -x, 0.5],
            action: &[0.3 * x, 0.1],
            reward: x,
            costs: &[0.5],
            multipliers: &[0.1],
            next_obs: &[x + 0.1, x, 0.4],
            terminated: i % 7 == 0,
        });
    }
    replay
}

#[test]
fn the_bits_do_not_depend_on_the_threads() {
    let replay = filled(500);
    let train = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        // Large enough for threads to share single products.
        let config = SacConfig { batch: 101, ..SacConfig::default() };
        let mut sac = Sac::new(config, [3, 2, 0], &mut cmdp::rng([1; 4]));
        pool.install(|| {
            for i in 0..20 {
                sac.update(
                    &replay,
                    Price::Stored,
                    &mut [cmdp::rng([i, 0, 0, 0]), cmdp::rng([i, 0, 0, 1])],
                );
            }
        });
        (sac.actor, sac.critics.map(|c| (c.net, c.target)))
    };
    let one = train(1);
    assert_eq!(train(2), one);
    assert_eq!(train(5), one);
}

#[test]
fn a_broken_tensor_is_named() {
    let config = SacConfig { hidden: vec![8], batch: 4, ..SacConfig::default() };
    let mut sac = Sac::new(config, [3, 2, 0], &mut cmdp::rng([1; 4]));
    let found = |sac: &mut Sac| Walk::find_not_finite(|walk| sac.walk(walk));
    assert_eq!(found(&mut sac), None);
    let bias = sac.critics[1].net.bias_range(0).start;
    sac.actor_adam.state_mut().2[0] = f32::INFINITY;
    assert_eq!(found(&mut sac).as_deref(), Some("actor.adam.v"));
    sac.critics[1].net.params_mut()[bias] = f32::NAN;
    assert_eq!(found(&mut sac).as_deref(), Some("critic2.0.bias"));
}
