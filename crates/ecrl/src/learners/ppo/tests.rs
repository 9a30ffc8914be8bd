//! The update against PyTorch, finite differences and hand-worked numbers.

use serde_json::Value;

use super::distribution::LOG_SQRT_2PI;
use super::*;
use crate::algorithms::cup::Cup;
use crate::algorithms::focops::{Focops, FocopsConfig};
use crate::algorithms::ipo::{Barrier, IpoConfig, Limit};
use crate::algorithms::on_policy::{Standing, Variant as _};
use crate::algorithms::ppo::Reward;
use crate::multipliers::{Lambdas, Rule};

fn spec(observation: usize, action: usize) -> EnvSpec {
    let (name, constraints) = ("a task".into(), vec![]);
    EnvSpec { name, observation, action, choices: None, max_steps: 1000, constraints }
}

fn gaussian(log_sigma: &[f32]) -> Distribution<'_> {
    Distribution::Gaussian { log_sigma }
}

pub(crate) fn floats(value: &Value) -> Vec<f32> {
    match value {
        Value::Array(items) => items.iter().flat_map(floats).collect(),
        other => vec![other.as_f64().unwrap() as f32],
    }
}

pub(crate) fn rows_of(value: &Value) -> Vec<Vec<f32>> {
    value.as_array().unwrap().iter().map(floats).collect()
}

/// What a case of the fixture descends.
enum Descended {
    Reward,
    Barrier(Barrier),
    Focops(Focops),
    Cup(Cup),
}

fn lambdas(lambda: f64) -> Lambdas {
    let constraints =
        cmdp::Constraint::parse_all(&["force<=0.5"], &cmdp::PointMass::COSTS).unwrap();
    let task = cmdp::PointMass::new(constraints).unwrap();
    let rule = Rule::Fixed { lambda: lambda.into() };
    Lambdas::new(&rule, cmdp::Env::spec(&task), &mut cmdp::rng([0; 4])).unwrap()
}

impl Descended {
    fn of(fixture: &Value) -> Self {
        let (case, number) =
            (&fixture["case"], |name: &str| fixture["config"][name].as_f64().unwrap());
        if let Some(focops) = case.get("focops") {
            let number = |name: &str| focops[name].as_f64().unwrap();
            let config =
                FocopsConfig { delta: number("delta"), temperature: number("temperature") };
            return Self::Focops(Focops { config, lambdas: lambdas(number("lambda")) });
        }
        if let Some(cup) = case.get("cup") {
            let number = |name: &str| cup[name].as_f64().unwrap();
            let (delta, lambdas) = (number("delta"), lambdas(number("lambda")));
            return Self::Cup(Cup { delta, lambdas, improving: 0, epoch: 0 });
        }
        let limits: Vec<Limit> = case["limits"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|limit| {
                let [value, threshold, length] = [0, 1, 2].map(|i| limit[i].as_f64().unwrap());
                Limit { standing: Standing { value, length }, threshold, moved: 0.0 }
            })
            .collect();
        if limits.is_empty() {
            return Self::Reward;
        }
        let config = IpoConfig { barrier: number("barrier"), steepest: number("steepest") };
        Self::Barrier(Barrier { constraints: vec![], config, limits: Some(limits) })
    }

    fn objective(&self) -> &dyn Objective {
        match self {
            Self::Reward => &Reward,
            Self::Barrier(barrier) => barrier,
            Self::Focops(focops) => focops,
            Self::Cup(cup) => cup,
        }
    }

    /// The minibatch is all that was played, so that the barrier is the tangent where the policy is.
    fn next_epoch(&mut self, ppo: &mut Ppo) {
        if let Self::Barrier(barrier) = self {
            barrier.next_epoch(ppo);
        }
    }

    /// The multipliers in force.
    fn weights(&self) -> Vec<f64> {
        match self {
            Self::Reward => vec![],
            Self::Barrier(barrier) => barrier.slopes(),
            Self::Focops(focops) => focops.lambdas.get().to_vec(),
            Self::Cup(cup) => cup.lambdas.get().to_vec(),
        }
    }
}

/// The learner of a case of the fixture before its first update, and what it descends.
fn learner(fixture: &Value) -> (Ppo, Descended) {
    let case = &fixture["case"];
    let number = |name: &str| fixture["config"][name].as_f64().unwrap();
    let config = PpoConfig {
        actor_critic: ActorCriticConfig {
            hidden: floats(&fixture["layers"]).iter().map(|&x| x as usize).collect(),
            max_grad_norm: number("max_grad_norm"),
            lr: number("lr"),
            ..ActorCriticConfig::default()
        },
        clip: number("clip"),
        value_coef: number("value_coef"),
        value_clip: case["value_clip"].as_bool().unwrap_or(false),
        entropy_coef: case["entropy_coef"].as_f64().unwrap_or(0.0),
        normalise_advantages: case["normalise_advantages"].as_bool().unwrap_or(true),
        ..PpoConfig::default()
    };
    let choices = case["choices"].as_u64().map(|choices| choices as usize);
    let task = EnvSpec { choices, ..spec(4, 2) };
    let costs = case["constraints"].as_u64().unwrap() as usize;
    let mut ppo = Ppo::new(config, &task, costs, &mut cmdp::rng([0; 4]));
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
    let batch = &fixture["batch"];
    ppo.batch = Batch {
        obs: floats(&batch["obs"]),
        draws: floats(&batch["draws"]),
        log_prob: floats(&fixture["log_prob"]),
        values: rows_of(&batch["values"]),
        advantages: rows_of(&batch["advantages"]),
        returns: rows_of(&batch["returns"]),
        last: vec![0.0; 12],
        ..Batch::default()
    };
    if case.get("focops").or(case.get("cup")).is_some() {
        let old = &fixture["old"];
        let (heads, log_sigma) = (floats(&old["heads"]), floats(&old["log_sigma"]));
        ppo.old = Some(Old { heads, log_sigma });
    }
    (ppo, Descended::of(fixture))
}

fn cases() -> Vec<(String, Value)> {
    let fixture: Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/ppo.json")).unwrap();
    fixture["cases"].as_object().unwrap().clone().into_iter().collect()
}

#[test]
fn updates_agree_with_pytorch() {
    let cases = cases();
    assert_eq!(cases.len(), 10);
    for (name, fixture) in cases {
        let (mut ppo, mut descended) = learner(&fixture);
        let rows: Vec<usize> = (0..12).collect();
        for expected in fixture["losses"].as_array().unwrap() {
            descended.next_epoch(&mut ppo);
            let figures = ppo.update(&rows, ppo.config.actor_critic.lr, descended.objective());
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
    (ppo, descended): &(Ppo, Descended),
    sample: &Minibatch,
    means: &[f64],
    log_sigma: &[f64],
) -> f64 {
    let n = log_sigma.len();
    let count = sample.log_prob.len();
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
    let apart = |row: usize| -> f64 {
        let old = sample.old.as_ref().unwrap();
        let each = (0..n).map(|j| {
            let (mean, before) = (f64::from(old.heads[row * n + j]), f64::from(old.log_sigma[j]));
            let squares = (2.0 * log_sigma[j]).exp() + (means[row * n + j] - mean).powi(2);
            before - log_sigma[j] + squares / (2.0 * (2.0 * before).exp()) - 0.5
        });
        each.sum()
    };
    let weights = descended.weights();
    let whole = 1.0 + weights.iter().sum::<f64>();
    let advantage = |row: usize| -> f64 {
        let costs = weights.iter().zip(&sample.costs);
        let costs = costs.map(|(w, costs)| w * f64::from(costs[row]) / f64::from(sample.scale));
        (f64::from(sample.advantage[row]) - costs.sum::<f64>()) / whole
    };
    let mut advantages: Vec<f64> = (0..count).map(advantage).collect();
    if let Descended::Focops(_) = descended {
        let mean = advantages.iter().sum::<f64>() / count as f64;
        let squares = advantages.iter().map(|a| (a - mean).powi(2)).sum::<f64>();
        let deviation = (squares / (count as f64 - 1.0)).sqrt();
        advantages.iter_mut().for_each(|a| *a = (*a - mean) / deviation);
    }
    let (low, high) = (1.0 - ppo.config.clip, 1.0 + ppo.config.clip);
    let each = (0..count).map(|row| {
        let (r, a) = (ratio(row), advantages[row]);
        match descended {
            Descended::Focops(focops) if apart(row) <= focops.config.delta => {
                apart(row) - r * a / focops.config.temperature
            }
            Descended::Cup(cup) if apart(row) <= cup.delta => {
                apart(row) + weights[0] * r * f64::from(sample.costs[0][row])
            }
            Descended::Focops(_) | Descended::Cup(_) => 0.0,
            _ => -(r * a).min(r.clamp(low, high) * a),
        }
    });
    let entropy: f64 = log_sigma.iter().map(|s| s + 0.5 + LOG_SQRT_2PI).sum();
    each.sum::<f64>() / count as f64 - ppo.config.entropy_coef * entropy
}

#[test]
fn the_policys_gradient_agrees_with_finite_differences() {
    // That of choices is checked where it is made, in nets.
    for (name, fixture) in cases().into_iter().filter(|(name, _)| !name.contains("choices")) {
        let mut both = learner(&fixture);
        let (ppo, descended) = (&mut both.0, &mut both.1);
        descended.next_epoch(ppo);
        let rows: Vec<usize> = (0..12).collect();
        let sample = Minibatch::new(&ppo.batch, &rows, &ppo.config, ppo.old.as_ref());
        let means = ppo.heads();
        let mut d_means = vec![0.0; means.len()];
        let objective = descended.objective();
        let (figures, d_log_sigma) =
            sample.losses(&means, gaussian(&ppo.log_sigma), &ppo.config, objective, &mut d_means);
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

/// The same where the policy that is remembered had its mean so far from this one's, with the same σ.
pub(crate) fn by_hand_apart(
    ratios: &[f32],
    advantage: &[f32],
    cost: &[f32],
    apart: f32,
    objective: &dyn Objective,
) -> Losses {
    let old = Old { heads: vec![apart; ratios.len()], log_sigma: vec![0.0] };
    losses_by_hand(ratios, (advantage, 1.0), cost, Some(old), objective)
}

/// The same for an advantage that was divided by something.
pub(crate) fn by_hand_scaled(
    ratios: &[f32],
    (advantage, scale): (&[f32], f32),
    cost: &[f32],
    objective: &dyn Objective,
) -> Losses {
    losses_by_hand(ratios, (advantage, scale), cost, None, objective)
}

fn losses_by_hand(
    ratios: &[f32],
    (advantage, scale): (&[f32], f32),
    cost: &[f32],
    old: Option<Old>,
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
        old,
    };
    let mut d_means = vec![0.0; ratios.len()];
    let means = vec![0.0; ratios.len()];
    minibatch.losses(&means, gaussian(&[0.0]), &config, objective, &mut d_means).0
}

#[test]
fn the_clipped_objective_by_hand() {
    // min(2·1, 1.2·1) = 1.2; min(-0.5, -0.8) = -0.8; mean 0.2.
    let losses = by_hand(&[2.0, 0.5], &[1.0, -1.0], &[0.1, 0.1], &Reward);
    assert!((losses.actor + 0.2).abs() < 1e-6 && losses.clipped == Some(1.0), "{losses:?}");
}

#[test]
fn the_actor_is_the_policy_with_its_normalisation() {
    let (_, fixture) = cases().remove(0);
    let (mut ppo, _) = learner(&fixture);
    let expected = ppo.heads();
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
    let config = ActorCriticConfig { hidden: vec![8, 8], ..Default::default() }.ppo();
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

#[test]
fn advantages_of_costs_have_a_discount_of_their_own() {
    let config = ActorCriticConfig { gamma: 0.5, cost_gamma: 0.25, gae: 0.8, ..Default::default() };
    let mut ppo = Ppo::new(config.ppo(), &spec(1, 1), 1, &mut cmdp::rng([1; 4]));
    // Three steps that time cut off, and one after which nothing can follow.
    let obs = vec![1.0, 2.0, 3.0, -1.0];
    let signals = vec![vec![1.0, 2.0, 3.0, 4.0], vec![0.0, 1.0, 0.0, 1.0]];
    ppo.learn_from(Batch {
        obs: obs.clone(),
        next_obs: vec![2.0, 3.0, 4.0, 9.0],
        draws: vec![0.0; 4],
        signals: signals.clone(),
        terminated: vec![0.0, 0.0, 0.0, 1.0],
        last: vec![0.0, 0.0, 1.0, 1.0],
        ..Batch::default()
    });
    for (i, discount) in [(0, 0.5), (1, 0.25)] {
        let value = |x: f32| ppo.critics[i].net.forward_one(&[x], &mut Vec::new())[0];
        let delta = |t: usize, after: f32| signals[i][t] + discount * after - value(obs[t]);
        let third = delta(2, value(4.0));
        let second = delta(1, value(3.0)) + discount * 0.8 * third;
        let first = delta(0, value(2.0)) + discount * 0.8 * second;
        let expected = [first, second, third, delta(3, 0.0)];
        let apart = ppo.batch.advantages[i].iter().zip(expected).map(|(a, b)| (a - b).abs());
        assert!(apart.fold(0.0, f32::max) < 1e-5, "{i}: {:?} {expected:?}", ppo.batch.advantages);
    }
}
