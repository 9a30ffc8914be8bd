//! The update against PyTorch, finite differences and hand-worked numbers.

use serde_json::Value;

use super::distribution::LOG_SQRT_2PI;
use super::*;
use crate::algorithms::ipo::{Barrier, IpoSection, Limit};
use crate::algorithms::on_policy::Variant as _;
use crate::algorithms::ppo::Reward;

fn spec(observation: usize, action: usize) -> EnvSpec {
    let (name, constraints) = ("a task".into(), vec![]);
    EnvSpec { name, observation, action, choices: None, max_steps: 1000, constraints }
}

fn gaussian(log_sigma: &[f32]) -> Distribution<'_> {
    Distribution::Gaussian { log_sigma }
}

fn floats(value: &Value) -> Vec<f32> {
    match value {
        Value::Array(items) => items.iter().flat_map(floats).collect(),
        other => vec![other.as_f64().unwrap() as f32],
    }
}

fn rows_of(value: &Value) -> Vec<Vec<f32>> {
    value.as_array().unwrap().iter().map(floats).collect()
}

/// The learner of a case of the fixture before its first update, and what it descends: IPO's
/// objective, which without limits is PPO's.
fn learner(fixture: &Value) -> (Ppo, Barrier) {
    let case = &fixture["case"];
    let number = |name: &str| fixture["config"][name].as_f64().unwrap();
    let config = PpoConfig {
        hidden: floats(&fixture["layers"]).iter().map(|&x| x as usize).collect(),
        clip: number("clip"),
        value_coef: number("value_coef"),
        max_grad_norm: number("max_grad_norm"),
        lr: number("lr"),
        value_clip: case["value_clip"].as_bool().unwrap_or(false),
        entropy_coef: case["entropy_coef"].as_f64().unwrap_or(0.0),
        normalise_advantages: case["normalise_advantages"].as_bool().unwrap_or(true),
        ..PpoConfig::default()
    };
    let limits: Vec<Limit> = case["limits"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|limit| {
            let [value, threshold, length, scale] =
                [0, 1, 2, 3].map(|i| limit[i].as_f64().unwrap());
            Limit { value, threshold, length, scale, moved: 0.0 }
        })
        .collect();
    let choices = case["choices"].as_u64().map(|choices| choices as usize);
    let task = EnvSpec { choices, ..spec(4, 2) };
    let mut ppo = Ppo::new(config, &task, limits.len(), &mut cmdp::rng([0; 4]));
    let start = &fixture["start"];
    ppo.policy.net.params_mut().copy_from_slice(&floats(&start["policy"]));
    ppo.log_sigma = floats(&start["log_sigma"]);
    for (critic, params) in ppo.critics.iter_mut().zip(rows_of(&start["critics"])) {
        critic.net.params_mut().copy_from_slice(&params);
    }
    let doubles =
        |name: &str| fixture[name].as_array().unwrap().iter().map(|x| x.as_f64().unwrap());
    ppo.observations.mean = doubles("mean").collect();
    ppo.observations.variance = doubles("variance").collect();
    let spec = cmdp::PointMass::new(vec![]).unwrap();
    let mut barrier =
        Barrier::new(&IpoSection::default(), cmdp::Env::spec(&spec), &mut cmdp::rng([0; 4]))
            .unwrap();
    barrier.sharpness = number("barrier");
    barrier.limits = (!limits.is_empty()).then_some(limits);
    let batch = &fixture["batch"];
    ppo.batch = Batch {
        obs: floats(&batch["obs"]),
        draws: floats(&batch["draws"]),
        log_prob: floats(&fixture["log_prob"]),
        values: rows_of(&batch["values"]),
        advantages: rows_of(&batch["advantages"]),
        returns: rows_of(&batch["returns"]),
        ..Batch::default()
    };
    (ppo, barrier)
}

fn cases() -> Vec<(String, Value)> {
    let fixture: Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/ppo.json")).unwrap();
    fixture["cases"].as_object().unwrap().clone().into_iter().collect()
}

#[test]
fn updates_agree_with_pytorch() {
    let cases = cases();
    assert_eq!(cases.len(), 6);
    for (name, fixture) in cases {
        let (mut ppo, mut barrier) = learner(&fixture);
        let rows: Vec<usize> = (0..12).collect();
        for expected in fixture["losses"].as_array().unwrap() {
            let constrained = barrier.limits.is_some();
            // The minibatch is all that was played, so that the tangent is the barrier's own.
            barrier.next_epoch(&mut ppo);
            let objective: &dyn Objective = if constrained { &barrier } else { &Reward };
            let figures = ppo.update(&rows, ppo.config.lr, objective);
            let figure = |name: &str| {
                figures.iter().find(|(metric, _)| metric.about.name == name).unwrap().1
            };
            for (ours, theirs) in [
                (figure("actor_loss"), &expected["actor"]),
                (figure("critic_loss"), &expected["critic"]),
                (figure("entropy"), &expected["entropy"]),
            ] {
                let theirs = theirs.as_f64().unwrap();
                assert!((ours - theirs).abs() <= 1e-5 * theirs.abs().max(0.1), "{name} {ours}");
            }
            if constrained {
                assert_eq!(figure("recovery") == 1.0, expected["recovery"].as_bool().unwrap());
            }
        }
        let after = &fixture["after"];
        let critics = ppo.critics.iter().zip(rows_of(&after["critics"]));
        let mut pairs = vec![
            (ppo.policy.net.params().to_vec(), floats(&after["policy"])),
            (ppo.log_sigma.clone(), floats(&after["log_sigma"])),
        ];
        pairs.extend(critics.map(|(critic, params)| (critic.net.params().to_vec(), params)));
        for (ours, theirs) in pairs {
            assert_eq!(ours.len(), theirs.len());
            for (a, b) in ours.iter().zip(&theirs) {
                assert!((a - b).abs() <= 1e-5 * b.abs().max(0.1), "{name}: {a} {b}");
            }
        }
    }
}

/// The policy's loss in f64, by the formulas at the top.
fn reference(
    (ppo, barrier): &(Ppo, Barrier),
    sample: &Minibatch,
    means: &[f64],
    log_sigma: &[f64],
) -> f64 {
    let n = log_sigma.len();
    let count = sample.log_prob.len() as f64;
    let ratio = |row: usize| -> f64 {
        let log: f64 = (0..n)
            .map(|j| {
                let z = (f64::from(sample.draws[row * n + j]) - means[row * n + j])
                    / log_sigma[j].exp();
                -0.5 * z * z - log_sigma[j] - LOG_SQRT_2PI
            })
            .sum();
        (log - f64::from(sample.log_prob[row])).exp()
    };
    let ratios: Vec<f64> = (0..sample.log_prob.len()).map(ratio).collect();
    let clipped = |r: f64| r.clamp(1.0 - ppo.config.clip, 1.0 + ppo.config.clip);
    let limits = barrier.limits.clone().unwrap_or_default();
    let mean_of = |costs: &[f32], term: &dyn Fn(f64, f64) -> f64| -> f64 {
        ratios.iter().zip(costs).map(|(r, a)| term(*r, f64::from(*a)) / count).sum()
    };
    let broken = |limit: &Limit| limit.value >= limit.threshold;
    let weight = |limit: &Limit| limit.length / limit.scale;
    let whole: f64 = limits.iter().filter(|limit| broken(limit)).map(weight).sum();
    let mut loss = 0.0;
    for (limit, costs) in limits.iter().zip(&sample.costs) {
        if broken(limit) {
            let surrogate = mean_of(costs, &|r, a| (r * a).max(clipped(r) * a));
            loss += weight(limit) / whole * surrogate;
        } else {
            let moved = limit.length * mean_of(costs, &|r, a| (r - 1.0) * a);
            loss -= (limit.threshold - limit.value - moved).ln() / barrier.sharpness;
        }
    }
    if whole > 0.0 {
        return loss;
    }
    let entropy: f64 = log_sigma.iter().map(|s| s + 0.5 + LOG_SQRT_2PI).sum();
    let surrogate = mean_of(&sample.advantage, &|r, a| (r * a).min(clipped(r) * a));
    loss - surrogate - ppo.config.entropy_coef * entropy
}

#[test]
fn the_policys_gradient_agrees_with_finite_differences() {
    // That of choices is checked where it is made, in nets.
    for (name, fixture) in cases().into_iter().filter(|(name, _)| name != "choices") {
        let mut both = learner(&fixture);
        let (ppo, barrier) = (&mut both.0, &mut both.1);
        barrier.next_epoch(ppo);
        let rows: Vec<usize> = (0..12).collect();
        let sample = Minibatch::new(&ppo.batch, &rows, &ppo.config, None);
        let means = through(&mut ppo.policy, &ppo.observations, &ppo.batch.obs);
        let mut d_means = vec![0.0; means.len()];
        let (figures, d_log_sigma) =
            sample.losses(&means, gaussian(&ppo.log_sigma), &ppo.config, barrier, &mut d_means);
        let doubles =
            |numbers: &[f32]| -> Vec<f64> { numbers.iter().map(|&x| f64::from(x)).collect() };
        let (means, log_sigma) = (doubles(&means), doubles(&ppo.log_sigma));
        let loss = reference(&both, &sample, &means, &log_sigma);
        assert!((figures.actor - loss).abs() < 1e-5 * loss.abs().max(0.1), "{name}");
        let ours = d_means.iter().chain(&d_log_sigma).copied();
        let largest = d_means.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        assert!(largest > 1e-3, "{name}: nothing to compare");
        for (i, ours) in ours.enumerate() {
            let at = |h: f64| {
                let (mut means, mut log_sigma) = (means.clone(), log_sigma.clone());
                match i.checked_sub(means.len()) {
                    None => means[i] += h,
                    Some(j) => log_sigma[j] += h,
                }
                reference(&both, &sample, &means, &log_sigma)
            };
            let expected = (at(1e-6) - at(-1e-6)) / 2e-6;
            let error = (f64::from(ours) - expected).abs();
            let bound = 1e-4 * expected.abs().max(0.01 * f64::from(largest));
            assert!(error <= bound, "{name}[{i}]: {ours} {expected}");
        }
    }
}

/// The losses of rows with these ratios and advantages, for policies with one action.
pub(crate) fn by_hand(
    ratios: &[f32],
    advantage: &[f32],
    cost: &[f32],
    objective: &dyn Objective,
) -> Losses {
    by_hand_scaled(ratios, (advantage, 1.0), cost, objective)
}

/// The same for an advantage that was divided by something.
pub(crate) fn by_hand_scaled(
    ratios: &[f32],
    (advantage, scale): (&[f32], f32),
    cost: &[f32],
    objective: &dyn Objective,
) -> Losses {
    let config = PpoConfig { clip: 0.2, ..PpoConfig::default() };
    // σ = 1, μ = 0, u = 0: log π = -log√(2π). The old policy's makes the ratio.
    let minibatch = Minibatch {
        draws: vec![0.0; ratios.len()],
        log_prob: ratios.iter().map(|r| -(LOG_SQRT_2PI as f32) - r.ln()).collect(),
        advantage: advantage.to_vec(),
        scale,
        costs: vec![cost.to_vec()],
        old: None,
    };
    let mut d_means = vec![0.0; ratios.len()];
    let means = vec![0.0; ratios.len()];
    minibatch.losses(&means, gaussian(&[0.0]), &config, objective, &mut d_means).0
}

#[test]
fn the_clipped_objective_by_hand() {
    // min(2·1, 1.2·1) = 1.2; min(-0.5, -0.8) = -0.8; mean 0.2.
    let losses = by_hand(&[2.0, 0.5], &[1.0, -1.0], &[0.1, 0.1], &Reward);
    assert!((losses.actor + 0.2).abs() < 1e-6 && losses.clipped == 1.0, "{losses:?}");
}

#[test]
fn the_actor_is_the_policy_with_its_normalisation() {
    let (_, fixture) = cases().remove(0);
    let (mut ppo, _) = learner(&fixture);
    let expected = through(&mut ppo.policy, &ppo.observations, &ppo.batch.obs);
    let (actor, mut scratch) = (ppo.actor(), Vec::new());
    for (row, expected) in ppo.batch.obs.chunks_exact(4).zip(expected.chunks_exact(2)) {
        let head = actor.forward_one(row, &mut scratch);
        assert!(head.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{head:?}");
        assert_eq!(head[2..], ppo.log_sigma);
    }
}

#[test]
fn log_sigma_stays_where_policies_hold_it() {
    let (_, fixture) = cases().remove(0);
    for (start, entropy_coef, expected) in [(1.999f32, 100.0, 2.0), (-19.999, -100.0, -20.0)] {
        let (mut ppo, _) = learner(&fixture);
        ppo.config.entropy_coef = entropy_coef;
        ppo.log_sigma.fill(start);
        (0..5).for_each(|_| _ = ppo.update(&[0, 1, 2], 0.01, &Reward));
        assert_eq!(ppo.log_sigma, [expected; 2]);
    }
}

#[test]
fn a_policy_that_it_starts_from_goes_on_acting_as_it_did() {
    let config = PpoConfig { hidden: vec![8, 8], ..PpoConfig::default() };
    let mut first = Ppo::new(config.clone(), &spec(3, 2), 0, &mut cmdp::rng([1; 4]));
    first.observations.add(&[1.0, -2.0, 30.0, 2.0, 5.0, 10.0, 0.0, 1.0, 40.0]);
    first.log_sigma = vec![-0.25, -1.5];
    let actor = first.actor();
    let mut second = Ppo::new(config, &spec(3, 2), 0, &mut cmdp::rng([2; 4]));
    second.start_from(&actor).unwrap();
    assert_eq!(second.log_sigma, first.log_sigma);
    let act = |net: &Mlp, obs: &[f32]| net.forward_one(obs, &mut Vec::new()).to_vec();
    let seen = [0.5, 3.0, 25.0, -1.0, 2.0, 55.0];
    assert_eq!(act(&second.actor(), &seen[..3]), act(&actor, &seen[..3]));
    // Once something was seen, its normalisation is its own, and yet nothing changes.
    second.batch.obs = seen.to_vec();
    second.batch.returns = vec![vec![1.0, 2.0]];
    second.batch.log_prob = vec![0.0; 2];
    second.absorb();
    assert_ne!(second.observations.mean, [0.0; 3]);
    for obs in seen.chunks(3) {
        let (now, before) = (act(&second.actor(), obs), act(&actor, obs));
        let apart = now.iter().zip(&before).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-5, "{now:?} {before:?}");
    }
}
