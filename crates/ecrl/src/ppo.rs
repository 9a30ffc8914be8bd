//! Proximal policy optimisation for continuous actions, and the log barrier that makes it IPO.
//!
//! The policy draws `u ~ N(μ(s), σ)` and acts `tanh u`; in the ratio ρ = π(u|s)/π_old(u|s) the tanh
//! cancels. It descends, over minibatches of what was just played,
//!
//! ```text
//! -mean min( ρA, clip(ρ, 1-c, 1+c) A ) - entropy_coef·H + value_coef·mean (V - R)²
//! ```
//!
//! with advantages A by generalised advantage estimation. Observations are normalised by their
//! running mean and deviation, and the critics predict returns divided by theirs.
//!
//! IPO adds `-Σ_i log(ε_i - Ĵ_i)/t` with the constraint's value as the new policy would have it,
//! `Ĵ_i = J_i + L·mean (ρ - 1) A_i`; A_i are advantages of the cost by a critic of its own, L is 1
//! for a constraint on the mean cost and the mean length of an episode for one on the sum. Where a
//! constraint is broken, Ĵ_i ≥ ε_i, the barrier is undefined: then the update follows the cost
//! alone, descending `mean max( ρA_i, clip(ρ, 1-c, 1+c) A_i )` of every broken constraint.
//!
//! 1. Schulman et al., Proximal Policy Optimization Algorithms, 2017.
//! 2. Liu, Ding & Liu, IPO: Interior-Point Policy Optimization under Constraints, AAAI 2020.

use cmdp::{Aggregate, Constraint, Rng};
use nets::store::{Store, StoreError, mlp_tensors};
use nets::threads::both;
use nets::{Activation, Adam, Mlp, Tape};
use serde::{Deserialize, Serialize};

use crate::record::Figures;

/// What PPO and IPO compute with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PpoConfig {
    /// Units of the hidden layers of all networks, with tanh.
    pub layers: Vec<usize>,
    /// Environments that play side by side; each goes on where it was.
    pub envs: usize,
    /// Environment steps played, by all of them, before they are learnt from.
    pub collect: usize,
    /// Times that all of them are learnt from.
    pub epochs: usize,
    /// Steps in a minibatch.
    pub minibatch: usize,
    /// Learning rate.
    pub lr: f64,
    /// Whether it falls to 0 over the run, in a straight line.
    pub lr_decay: bool,
    /// Discount; nearer to 1 looks further ahead.
    pub discount: f64,
    /// Weight of longer looks ahead in advantages; less is steadier and more biased.
    pub gae: f64,
    /// How far the ratio ρ may move before the objective stops rewarding it.
    pub clip: f64,
    /// Weight of the critics' loss, which matters only to the gradient's norm.
    pub value_coef: f64,
    /// Whether the critics' loss is clipped as the policy's is.
    pub value_clip: bool,
    /// Weight of the policy's entropy.
    pub entropy_coef: f64,
    /// Longest gradient of all networks together; longer ones are shortened.
    pub max_grad_norm: f64,
    /// Whether advantages are estimated anew before every epoch.
    pub recompute_advantages: bool,
    /// Whether the advantages of a minibatch are brought to mean 0 and deviation 1.
    pub normalise_advantages: bool,
    /// log σ at the start.
    pub log_sigma: f64,
    /// IPO: sharpness of the barrier; more lets the policy nearer to the threshold. Paper: 50.
    pub barrier: f64,
}

impl Default for PpoConfig {
    fn default() -> Self {
        Self {
            layers: vec![64, 64],
            envs: 2,
            collect: 2048,
            epochs: 10,
            minibatch: 64,
            lr: 3e-4,
            lr_decay: true,
            discount: 0.99,
            gae: 0.95,
            clip: 0.2,
            value_coef: 0.25,
            value_clip: false,
            entropy_coef: 0.0,
            max_grad_norm: 0.5,
            recompute_advantages: false,
            normalise_advantages: true,
            log_sigma: -0.5,
            barrier: 50.0,
        }
    }
}

/// Running mean and variance of each of several numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Moments {
    count: f64,
    mean: Vec<f64>,
    variance: Vec<f64>,
}

impl Moments {
    fn new(numbers: usize) -> Self {
        Self { count: 0.0, mean: vec![0.0; numbers], variance: vec![1.0; numbers] }
    }

    /// Takes rows into account, each with all the numbers.
    fn add(&mut self, rows: &[f32]) {
        let numbers = self.mean.len();
        let count = (rows.len() / numbers) as f64;
        if count == 0.0 {
            return;
        }
        let total = self.count + count;
        for i in 0..numbers {
            let column = || rows.iter().skip(i).step_by(numbers).map(|&x| f64::from(x));
            let mean = column().sum::<f64>() / count;
            let variance = column().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            let apart = mean - self.mean[i];
            let sum = self.count * self.variance[i] + count * variance;
            self.variance[i] = (sum + apart * apart * self.count * count / total) / total;
            self.mean[i] += apart * count / total;
        }
        self.count = total;
    }

    /// The standard deviation, kept away from 0: a number that hardly moves is not blown up.
    fn deviation(&self, i: usize) -> f64 {
        self.variance[i].sqrt().max(1e-2)
    }
}

/// A network with its optimiser and its buffers.
#[derive(Debug, Clone)]
struct Trained {
    net: Mlp,
    adam: Adam,
    gradient: Vec<f32>,
    tape: Tape,
}

impl Trained {
    fn new(net: Mlp, rows: usize, lr: f64) -> Self {
        let params = net.params().len();
        let (adam, tape) = (Adam::new(params, lr), Tape::new(&net, rows));
        Self { adam, tape, gradient: vec![0.0; params], net }
    }
}

/// What was played and is being learnt from, step after step, environment after environment.
///
/// A signal is what a critic predicts the sum of: the reward, and for IPO each cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// Observations as they came.
    pub obs: Vec<f32>,
    /// The observations after them.
    pub next_obs: Vec<f32>,
    /// What was drawn: u.
    pub draws: Vec<f32>,
    /// Of each signal, its number in every step.
    pub signals: Vec<Vec<f32>>,
    /// 1 where nothing can follow.
    pub terminated: Vec<f32>,
    /// 1 where the next row does not follow: the episode ended, or the environment's rows do.
    pub last: Vec<f32>,
    log_prob: Vec<f32>,
    values: Vec<Vec<f32>>,
    advantages: Vec<Vec<f32>>,
    returns: Vec<Vec<f32>>,
}

impl Batch {
    /// The number of steps.
    pub fn rows(&self) -> usize {
        self.last.len()
    }

    /// Adds another environment's rows.
    pub fn append(&mut self, other: Self) {
        self.obs.extend(other.obs);
        self.next_obs.extend(other.next_obs);
        self.draws.extend(other.draws);
        self.terminated.extend(other.terminated);
        self.last.extend(other.last);
        self.signals.resize(other.signals.len(), Vec::new());
        self.signals.iter_mut().zip(other.signals).for_each(|(all, more)| all.extend(more));
    }

    /// All numbers, by name.
    fn parts(&mut self) -> Vec<(String, &mut Vec<f32>)> {
        let Self { obs, next_obs, draws, terminated, last, log_prob, .. } = self;
        let mut parts = vec![
            ("obs".into(), obs),
            ("next_obs".into(), next_obs),
            ("draws".into(), draws),
            ("terminated".into(), terminated),
            ("last".into(), last),
            ("log_prob".into(), log_prob),
        ];
        for (name, all) in [
            ("signal", &mut self.signals),
            ("value", &mut self.values),
            ("advantage", &mut self.advantages),
            ("return", &mut self.returns),
        ] {
            let named = all.iter_mut().enumerate();
            parts.extend(named.map(|(i, numbers)| (format!("{name}{i}"), numbers)));
        }
        parts
    }
}

/// A constraint as the barrier sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Limit {
    /// J
    value: f64,
    /// ε
    threshold: f64,
    /// L
    length: f64,
}

/// The learner.
#[derive(Debug, Clone)]
pub struct Ppo {
    config: PpoConfig,
    /// Those that the barrier keeps; none for PPO.
    constraints: Vec<Constraint>,
    policy: Trained,
    log_sigma: Vec<f32>,
    sigma_adam: Adam,
    /// Of the reward, then of each cost.
    critics: Vec<Trained>,
    observations: Moments,
    /// Of each signal's returns.
    returns: Moments,
    /// The barrier's view of the last episodes that ended; none until some have.
    limits: Option<Vec<Limit>>,
    batch: Batch,
}

/// Everything of the learner that is no tensor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PpoState {
    adam_steps: Vec<u64>,
    observations: Moments,
    returns: Moments,
    limits: Option<Vec<Limit>>,
    rows: usize,
}

impl Ppo {
    /// A new learner for these sizes; IPO if there are constraints to keep.
    pub fn new(
        config: PpoConfig,
        obs: usize,
        action: usize,
        constraints: &[Constraint],
        rng: &mut Rng,
    ) -> Self {
        let signals = 1 + constraints.len();
        let mut network = |outputs: usize, last: f32| {
            let sizes = [&[obs], &config.layers[..], &[outputs]].concat();
            let mut gains = vec![std::f32::consts::SQRT_2; config.layers.len()];
            gains.push(last);
            let net = Mlp::orthogonal(&sizes, Activation::Tanh, &gains, rng);
            Trained::new(net, config.minibatch, config.lr)
        };
        // A policy that hardly acts at first, whatever it sees.
        let policy = network(action, 0.01);
        let critics = (0..signals).map(|_| network(1, 1.0)).collect();
        Self {
            policy,
            log_sigma: vec![config.log_sigma as f32; action],
            sigma_adam: Adam::new(action, config.lr),
            critics,
            observations: Moments::new(obs),
            returns: Moments::new(signals),
            limits: None,
            batch: Batch::default(),
            constraints: constraints.to_vec(),
            config,
        }
    }

    /// The policy as all others are: from an observation as it comes to `[μ, log σ]`. The
    /// normalisation is worked into the first layer, log σ into the last.
    pub fn actor(&self) -> Mlp {
        let net = &self.policy.net;
        let (inputs, actions) = (net.sizes()[0], self.log_sigma.len());
        let mut sizes = net.sizes().to_vec();
        *sizes.last_mut().expect("a layer") = 2 * actions;
        let mut actor = Mlp::zeros(&sizes, net.activation());
        for layer in 0..net.layers() {
            for (to, from) in [
                (actor.weight_range(layer), net.weight_range(layer)),
                (actor.bias_range(layer), net.bias_range(layer)),
            ] {
                let count = from.len();
                actor.params_mut()[to][..count].copy_from_slice(&net.params()[from]);
            }
        }
        let (weights, biases) = (actor.weight_range(0), actor.bias_range(0));
        for (unit, bias) in biases.enumerate() {
            let mut shift = 0.0;
            for i in 0..inputs {
                let weight = &mut actor.params_mut()[weights.start + unit * inputs + i];
                let scaled = f64::from(*weight) / self.observations.deviation(i);
                shift += scaled * self.observations.mean[i];
                *weight = scaled as f32;
            }
            let bias = &mut actor.params_mut()[bias];
            *bias = (f64::from(*bias) - shift) as f32;
        }
        let biases = actor.bias_range(net.layers() - 1);
        actor.params_mut()[biases][actions..].copy_from_slice(&self.log_sigma);
        actor
    }

    /// Takes over what was played, and what it tells of the constraints: of the episodes that ended,
    /// the mean of each J, and their mean length.
    pub fn learn_from(&mut self, batch: Batch, ended: Option<(&[f64], f64)>) {
        if let Some((values, length)) = ended {
            let limits = self.constraints.iter().zip(values).map(|(c, &value)| Limit {
                value,
                threshold: c.threshold,
                length: if c.aggregate == Aggregate::Sum { length } else { 1.0 },
            });
            self.limits = Some(limits.collect());
        }
        self.batch = batch;
        let signals = self.critics.len();
        let rows = self.batch.rows();
        let (batch, actions) = (&mut self.batch, self.log_sigma.len());
        batch.log_prob = vec![0.0; rows];
        (batch.values, batch.advantages, batch.returns) =
            (vec![vec![]; signals], vec![vec![]; signals], vec![vec![]; signals]);
        let means = through(&mut self.policy, &self.observations, &batch.obs);
        let each = batch.log_prob.iter_mut().zip(means.chunks_exact(actions));
        for ((log_prob, mean), draw) in each.zip(batch.draws.chunks_exact(actions)) {
            *log_prob = log_density(draw, mean, &self.log_sigma);
        }
        self.estimate();
    }

    /// Advantages and returns as the critics see them now.
    pub fn estimate(&mut self) {
        let PpoConfig { discount, gae, .. } = self.config;
        let batch = &mut self.batch;
        for (i, critic) in self.critics.iter_mut().enumerate() {
            let scale = self.returns.deviation(i) as f32;
            let values = through(critic, &self.observations, &batch.obs);
            let next = through(critic, &self.observations, &batch.next_obs);
            let scaled = |values: &[f32]| values.iter().map(|v| scale * v).collect::<Vec<f32>>();
            let advantages = advantages(
                &batch.signals[i],
                [&scaled(&values), &scaled(&next)],
                [&batch.terminated, &batch.last],
                [discount as f32, gae as f32],
            );
            let returns = advantages.iter().zip(&values).map(|(a, v)| a / scale + v);
            batch.returns[i] = returns.collect();
            batch.values[i] = values;
            batch.advantages[i] = advantages;
        }
    }

    /// The number of steps to learn from.
    pub fn rows(&self) -> usize {
        self.batch.rows()
    }

    /// One step down the gradient on a minibatch of these rows.
    pub fn update(&mut self, rows: &[usize], rate: f64) -> Figures {
        let Self { config, policy, log_sigma, critics, observations, limits, batch, .. } = self;
        let input = gathered(&batch.obs, rows, observations);
        let (sampled, critic_loss) = both(
            || {
                let sample = Sample::new(batch, rows, log_sigma.len(), config);
                policy.net.forward(&input, &mut policy.tape);
                let (means, d_means) = policy.tape.output_and_gradient();
                let losses = sample.losses(means, log_sigma, config, limits.as_deref(), d_means);
                policy.net.backward(&input, &mut policy.tape, &mut policy.gradient);
                losses
            },
            || {
                let each = critics.iter_mut().enumerate();
                let losses = each.map(|(i, critic)| {
                    critic.net.forward(&input, &mut critic.tape);
                    let (values, d_values) = critic.tape.output_and_gradient();
                    let targets =
                        rows.iter().map(|&row| (batch.values[i][row], batch.returns[i][row]));
                    let loss = value_loss(values, targets, config, d_values);
                    critic.net.backward(&input, &mut critic.tape, &mut critic.gradient);
                    loss
                });
                losses.sum::<f64>()
            },
        );
        let (mut figures, mut d_log_sigma) = sampled;
        figures.critic = critic_loss;
        self.step(&mut d_log_sigma, rate);
        figures
    }

    /// Shortens the gradient of everything together if it is too long, and goes down it.
    fn step(&mut self, d_log_sigma: &mut [f32], rate: f64) {
        let Self { policy, critics, log_sigma, sigma_adam, config, .. } = self;
        let squares =
            |gradient: &[f32]| gradient.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>();
        let mut sum = squares(&policy.gradient) + squares(d_log_sigma);
        sum += critics.iter().map(|critic| squares(&critic.gradient)).sum::<f64>();
        let factor = (config.max_grad_norm / (sum.sqrt() + 1e-6)).min(1.0) as f32;
        for trained in [policy].into_iter().chain(critics) {
            trained.gradient.iter_mut().for_each(|g| *g *= factor);
            trained.adam.set_learning_rate(rate);
            trained.adam.step(trained.net.params_mut(), [&trained.gradient]);
        }
        d_log_sigma.iter_mut().for_each(|g| *g *= factor);
        sigma_adam.set_learning_rate(rate);
        sigma_adam.step(log_sigma, [d_log_sigma]);
    }

    /// Takes what was learnt from into account in the normalisation, after its last update.
    pub fn absorb(&mut self) {
        self.observations.add(&self.batch.obs);
        let signals = self.critics.len();
        let scales: Vec<f32> = (0..signals).map(|i| self.returns.deviation(i) as f32).collect();
        let rows = (0..self.batch.rows()).flat_map(|row| {
            let returns = self.batch.returns.iter().zip(&scales);
            returns.map(move |(returns, scale)| scale * returns[row])
        });
        let rows: Vec<f32> = rows.collect();
        self.returns.add(&rows);
    }

    fn parts(&self) -> impl Iterator<Item = (String, &Trained)> {
        let critics = self.critics.iter().enumerate();
        let named = critics.map(|(i, critic)| (format!("critic{i}"), critic));
        [("policy".to_owned(), &self.policy)].into_iter().chain(named)
    }

    /// The name of the first tensor that holds a number that is not finite.
    pub fn broken_tensor(&self) -> Option<String> {
        let broken = |numbers: &[f32]| numbers.iter().any(|x| !x.is_finite());
        if broken(&self.log_sigma) {
            return Some("log_sigma".into());
        }
        self.parts().find_map(|(prefix, trained)| {
            let tensors = mlp_tensors(&prefix, &trained.net).into_iter();
            let mut found = tensors.filter(|(_, _, at)| broken(&trained.net.params()[at.clone()]));
            found.next().map(|(name, ..)| name)
        })
    }

    /// Adds all tensors to a store; returns the rest.
    pub fn save(&self, store: &mut Store) -> PpoState {
        let mut adam_steps = Vec::new();
        let mut add_adam = |store: &mut Store, name: &str, adam: &Adam| {
            let (steps, m, v) = adam.state();
            store.add(format!("{name}.adam.m"), &[m.len()], m);
            store.add(format!("{name}.adam.v"), &[v.len()], v);
            adam_steps.push(steps);
        };
        for (name, trained) in self.parts() {
            store.add_mlp(&name, &trained.net);
            add_adam(store, &name, &trained.adam);
        }
        store.add("log_sigma", &[self.log_sigma.len()], &self.log_sigma);
        add_adam(store, "log_sigma", &self.sigma_adam);
        for (name, numbers) in self.batch.clone().parts() {
            store.add(format!("batch.{name}"), &[numbers.len()], numbers);
        }
        PpoState {
            adam_steps,
            observations: self.observations.clone(),
            returns: self.returns.clone(),
            limits: self.limits.clone(),
            rows: self.batch.rows(),
        }
    }

    /// Goes back to what [`save`](Self::save) stored.
    pub fn load(&mut self, store: &Store, state: PpoState) -> Result<(), StoreError> {
        let PpoState { adam_steps, observations, returns, limits, rows } = state;
        let fits = |found: &Moments, like: &Moments| {
            found.mean.len() == like.mean.len() && found.variance.len() == like.mean.len()
        };
        if !fits(&observations, &self.observations)
            || !fits(&returns, &self.returns)
            || limits.as_ref().is_some_and(|limits| limits.len() != self.constraints.len())
        {
            return Err(StoreError::Missing("normalisation of the right size".into()));
        }
        let mut steps = adam_steps.into_iter();
        let mut load_adam = |name: &str, adam: &mut Adam, len: usize| {
            let m = store.get(&format!("{name}.adam.m"), &[len])?;
            let v = store.get(&format!("{name}.adam.v"), &[len])?;
            let taken = steps.next().ok_or_else(|| StoreError::Missing("adam steps".into()))?;
            adam.restore(taken, m, v);
            Ok(())
        };
        let names: Vec<String> = self.parts().map(|(name, _)| name).collect();
        let trained = [&mut self.policy].into_iter().chain(&mut self.critics);
        for (name, Trained { net, adam, .. }) in names.iter().zip(trained) {
            *net = store.mlp_like(name, net)?;
            load_adam(name, adam, net.params().len())?;
        }
        let actions = self.log_sigma.len();
        self.log_sigma.copy_from_slice(store.get("log_sigma", &[actions])?);
        load_adam("log_sigma", &mut self.sigma_adam, actions)?;
        let signals = if rows > 0 { self.critics.len() } else { 0 };
        let empty = || vec![Vec::new(); signals];
        self.batch = Batch {
            signals: empty(),
            values: empty(),
            advantages: empty(),
            returns: empty(),
            ..Batch::default()
        };
        let obs = self.observations.mean.len();
        for (name, numbers) in self.batch.parts() {
            let width = match name.as_str() {
                "obs" | "next_obs" => obs,
                "draws" => actions,
                _ => 1,
            };
            let len = rows.checked_mul(width).ok_or_else(|| StoreError::Missing(name.clone()))?;
            *numbers = store.get(&format!("batch.{name}"), &[len])?.to_vec();
        }
        (self.observations, self.returns, self.limits) = (observations, returns, limits);
        Ok(())
    }
}

/// The rows of a minibatch, as the policy's loss sees them.
struct Sample {
    draws: Vec<f32>,
    log_prob: Vec<f32>,
    /// Of the reward.
    advantage: Vec<f32>,
    /// Of each cost.
    costs: Vec<Vec<f32>>,
}

impl Sample {
    fn new(batch: &Batch, rows: &[usize], actions: usize, config: &PpoConfig) -> Self {
        let pick = |numbers: &[f32]| rows.iter().map(|&row| numbers[row]).collect::<Vec<f32>>();
        let mut advantage = pick(&batch.advantages[0]);
        if config.normalise_advantages && rows.len() > 1 {
            let count = rows.len() as f64;
            let mean = advantage.iter().map(|&a| f64::from(a)).sum::<f64>() / count;
            let squares = advantage.iter().map(|&a| (f64::from(a) - mean).powi(2)).sum::<f64>();
            let deviation = (squares / (count - 1.0)).sqrt() + 1e-8;
            for a in &mut advantage {
                *a = ((f64::from(*a) - mean) / deviation) as f32;
            }
        }
        Self {
            draws: rows
                .iter()
                .flat_map(|row| &batch.draws[row * actions..][..actions])
                .copied()
                .collect(),
            log_prob: pick(&batch.log_prob),
            advantage,
            costs: batch.advantages[1..].iter().map(|numbers| pick(numbers)).collect(),
        }
    }

    /// The policy's loss, its gradient for the means (to `d_means`) and for log σ.
    fn losses(
        &self,
        means: &[f32],
        log_sigma: &[f32],
        config: &PpoConfig,
        limits: Option<&[Limit]>,
        d_means: &mut [f32],
    ) -> (Figures, Vec<f32>) {
        let actions = log_sigma.len();
        let count = self.log_prob.len() as f64;
        let (low, high) = (1.0 - config.clip as f32, 1.0 + config.clip as f32);
        let pairs = self.draws.chunks_exact(actions).zip(means.chunks_exact(actions));
        let logs: Vec<f32> = pairs.map(|(u, mean)| log_density(u, mean, log_sigma)).collect();
        let moved: Vec<f32> = logs.iter().zip(&self.log_prob).map(|(new, old)| new - old).collect();
        let ratios: Vec<f32> = moved.iter().map(|moved| moved.exp()).collect();

        // What is left to each threshold, as the policy is now.
        let left = |(limit, costs): (&Limit, &Vec<f32>)| {
            let change = ratios.iter().zip(costs).map(|(r, a)| f64::from((r - 1.0) * a));
            limit.threshold - limit.value - limit.length * change.sum::<f64>() / count
        };
        let limits = limits.unwrap_or_default();
        let left: Vec<f64> = limits.iter().zip(&self.costs).map(left).collect();
        let recovery = left.iter().any(|&left| left <= 0.0);

        let mut loss = 0.0;
        let mut slopes = vec![0.0; ratios.len()]; // of the loss, by log π
        let mut objective = |advantage: &[f32], sign: f32| {
            for ((slope, &ratio), &a) in slopes.iter_mut().zip(&ratios).zip(advantage) {
                let (free, held) = (sign * ratio * a, sign * ratio.clamp(low, high) * a);
                loss -= f64::from(free.min(held)) / count;
                if free <= held {
                    *slope -= free / count as f32;
                }
            }
        };
        if recovery {
            let broken = left.iter().zip(&self.costs).filter(|(left, _)| **left <= 0.0);
            broken.for_each(|(_, costs)| objective(costs, -1.0));
        } else {
            objective(&self.advantage, 1.0);
            for ((left, limit), costs) in left.iter().zip(limits).zip(&self.costs) {
                loss -= left.ln() / config.barrier;
                let weight = (limit.length / (config.barrier * left * count)) as f32;
                for ((slope, ratio), a) in slopes.iter_mut().zip(&ratios).zip(costs) {
                    *slope += weight * ratio * a;
                }
            }
        }

        // The cost alone: no room for entropy either.
        let entropy_coef = if recovery { 0.0 } else { config.entropy_coef };
        let mut d_log_sigma = vec![-entropy_coef as f32; actions];
        for (row, slope) in slopes.iter().enumerate() {
            for j in 0..actions {
                let at = row * actions + j;
                let precision = (-2.0 * log_sigma[j]).exp();
                let apart = self.draws[at] - means[at];
                d_means[at] = slope * apart * precision;
                d_log_sigma[j] += slope * (apart * apart * precision - 1.0);
            }
        }
        let entropy: f64 = log_sigma.iter().map(|&s| f64::from(s) + 0.5 + LOG_SQRT_2PI).sum();
        let held = ratios.iter().filter(|ratio| !(low..=high).contains(*ratio)).count();
        let figures = Figures {
            critic: 0.0,
            actor: loss - entropy_coef * entropy,
            entropy,
            kl: -moved.iter().map(|&x| f64::from(x)).sum::<f64>() / count,
            clipped: held as f64 / count,
            recovery: f64::from(u8::from(recovery)),
        };
        (figures, d_log_sigma)
    }
}

const LOG_SQRT_2PI: f64 = 0.918_938_533_204_672_8;

/// log N(u; μ, σ).
fn log_density(draw: &[f32], mean: &[f32], log_sigma: &[f32]) -> f32 {
    let each = draw.iter().zip(mean).zip(log_sigma).map(|((u, mean), log_sigma)| {
        let z = (u - mean) * (-log_sigma).exp();
        -0.5 * z * z - log_sigma - LOG_SQRT_2PI as f32
    });
    each.sum()
}

/// The critic's loss and its gradient, for targets of (value before the first epoch, return).
fn value_loss(
    values: &[f32],
    targets: impl ExactSizeIterator<Item = (f32, f32)>,
    config: &PpoConfig,
    d_values: &mut [f32],
) -> f64 {
    let count = targets.len() as f64;
    let (weight, clip) = ((2.0 * config.value_coef / count) as f32, config.clip as f32);
    let mut loss = 0.0;
    for ((&value, d), (before, target)) in values.iter().zip(d_values).zip(targets) {
        let error = value - target;
        let held = before + (value - before).clamp(-clip, clip) - target;
        // The larger of the two counts; where that is the clipped one, nothing moves it.
        let free = !config.value_clip || error * error >= held * held;
        let counted = if free { error } else { held };
        *d = if free { weight * error } else { 0.0 };
        loss += f64::from(counted) * f64::from(counted) / count;
    }
    config.value_coef * loss
}

/// Generalised advantage estimation: `A_t = δ_t + γλ A_{t+1}`, `δ_t = r_t + γ V(s_{t+1}) - V(s_t)`;
/// nothing follows a terminated step, and A stops at the last step of an episode or of the rows.
fn advantages(
    signal: &[f32],
    [values, next]: [&[f32]; 2],
    [terminated, last]: [&[f32]; 2],
    [discount, gae]: [f32; 2],
) -> Vec<f32> {
    let mut advantages = vec![0.0; signal.len()];
    let mut following = 0.0;
    for t in (0..signal.len()).rev() {
        let delta = signal[t] + discount * (1.0 - terminated[t]) * next[t] - values[t];
        following = delta + discount * gae * (1.0 - last[t]) * following;
        advantages[t] = following;
    }
    advantages
}

/// Rows of observations, normalised.
fn gathered(obs: &[f32], rows: &[usize], moments: &Moments) -> Vec<f32> {
    let width = moments.mean.len();
    let columns: Vec<(f64, f64)> =
        (0..width).map(|i| (moments.mean[i], 1.0 / moments.deviation(i))).collect();
    let normal = |(x, (mean, scale)): (&f32, &(f64, f64))| ((f64::from(*x) - mean) * scale) as f32;
    rows.iter()
        .flat_map(|row| obs[row * width..][..width].iter().zip(&columns).map(normal))
        .collect()
}

/// What a network makes of all observations.
fn through(trained: &mut Trained, moments: &Moments, obs: &[f32]) -> Vec<f32> {
    let rows: Vec<usize> = (0..obs.len() / moments.mean.len()).collect();
    let mut out = Vec::new();
    for rows in rows.chunks(trained.tape.capacity()) {
        trained.net.forward(&gathered(obs, rows, moments), &mut trained.tape);
        out.extend_from_slice(trained.tape.output());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn floats(value: &Value) -> Vec<f32> {
        match value {
            Value::Array(items) => items.iter().flat_map(floats).collect(),
            other => vec![other.as_f64().unwrap() as f32],
        }
    }

    fn rows_of(value: &Value) -> Vec<Vec<f32>> {
        value.as_array().unwrap().iter().map(floats).collect()
    }

    /// The learner of a case of the fixture before its first update.
    fn learner(fixture: &Value) -> Ppo {
        let case = &fixture["case"];
        let number = |name: &str| fixture["config"][name].as_f64().unwrap();
        let config = PpoConfig {
            layers: floats(&fixture["layers"]).iter().map(|&x| x as usize).collect(),
            clip: number("clip"),
            value_coef: number("value_coef"),
            max_grad_norm: number("max_grad_norm"),
            barrier: number("barrier"),
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
                let [value, threshold, length] = [0, 1, 2].map(|i| limit[i].as_f64().unwrap());
                Limit { value, threshold, length }
            })
            .collect();
        let constraints: Vec<Constraint> = limits
            .iter()
            .map(|limit| Constraint {
                name: "c".into(),
                aggregate: if limit.length == 1.0 { Aggregate::Mean } else { Aggregate::Sum },
                threshold: limit.threshold,
            })
            .collect();
        let mut ppo = Ppo::new(config, 4, 2, &constraints, &mut cmdp::rng([0; 4]));
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
        ppo.limits = (!limits.is_empty()).then_some(limits);
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
        ppo
    }

    fn cases() -> Vec<(String, Value)> {
        let fixture: Value =
            serde_json::from_str(include_str!("../tests/fixtures/ppo.json")).unwrap();
        fixture["cases"].as_object().unwrap().clone().into_iter().collect()
    }

    #[test]
    fn updates_agree_with_pytorch() {
        let cases = cases();
        assert_eq!(cases.len(), 4);
        for (name, fixture) in cases {
            let mut ppo = learner(&fixture);
            let rows: Vec<usize> = (0..12).collect();
            for expected in fixture["losses"].as_array().unwrap() {
                let figures = ppo.update(&rows, ppo.config.lr);
                for (ours, theirs) in [
                    (figures.actor, &expected["actor"]),
                    (figures.critic, &expected["critic"]),
                    (figures.entropy, &expected["entropy"]),
                ] {
                    let theirs = theirs.as_f64().unwrap();
                    assert!((ours - theirs).abs() <= 1e-5 * theirs.abs().max(0.1), "{name} {ours}");
                }
                assert_eq!(figures.recovery == 1.0, expected["recovery"].as_bool().unwrap());
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
    fn reference(ppo: &Ppo, sample: &Sample, means: &[f64], log_sigma: &[f64]) -> f64 {
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
        let limits = ppo.limits.clone().unwrap_or_default();
        let left: Vec<f64> = limits
            .iter()
            .zip(&sample.costs)
            .map(|(limit, costs)| {
                let change = ratios.iter().zip(costs).map(|(r, a)| (r - 1.0) * f64::from(*a));
                limit.threshold - limit.value - limit.length * change.sum::<f64>() / count
            })
            .collect();
        if left.iter().any(|&left| left <= 0.0) {
            let broken = left.iter().zip(&sample.costs).filter(|(left, _)| **left <= 0.0);
            let each = broken.flat_map(|(_, costs)| costs.iter().zip(&ratios));
            return each
                .map(|(a, r)| (r * f64::from(*a)).max(clipped(*r) * f64::from(*a)) / count)
                .sum();
        }
        let each = ratios.iter().zip(&sample.advantage);
        let surrogate: f64 =
            each.map(|(r, a)| (r * f64::from(*a)).min(clipped(*r) * f64::from(*a)) / count).sum();
        let barrier: f64 = left.iter().map(|left| left.ln() / ppo.config.barrier).sum();
        let entropy: f64 = log_sigma.iter().map(|s| s + 0.5 + LOG_SQRT_2PI).sum();
        -surrogate - barrier - ppo.config.entropy_coef * entropy
    }

    #[test]
    fn the_policys_gradient_agrees_with_finite_differences() {
        for (name, fixture) in cases() {
            let mut ppo = learner(&fixture);
            let rows: Vec<usize> = (0..12).collect();
            let sample = Sample::new(&ppo.batch, &rows, 2, &ppo.config);
            let means = through(&mut ppo.policy, &ppo.observations, &ppo.batch.obs);
            let mut d_means = vec![0.0; means.len()];
            let limits = ppo.limits.as_deref();
            let (figures, d_log_sigma) =
                sample.losses(&means, &ppo.log_sigma, &ppo.config, limits, &mut d_means);
            let doubles =
                |numbers: &[f32]| -> Vec<f64> { numbers.iter().map(|&x| f64::from(x)).collect() };
            let (means, log_sigma) = (doubles(&means), doubles(&ppo.log_sigma));
            let loss = reference(&ppo, &sample, &means, &log_sigma);
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
                    reference(&ppo, &sample, &means, &log_sigma)
                };
                let expected = (at(1e-6) - at(-1e-6)) / 2e-6;
                let error = (f64::from(ours) - expected).abs();
                let bound = 1e-4 * expected.abs().max(0.01 * f64::from(largest));
                assert!(error <= bound, "{name}[{i}]: {ours} {expected}");
            }
        }
    }

    #[test]
    fn advantages_worked_by_hand() {
        // Two steps, terminated; two steps, truncated; one step, cut off by the end of the rows.
        let signal = [1.0, 2.0, 3.0, 4.0, 5.0];
        let values = [10.0, 20.0, 30.0, 40.0, 50.0];
        let next = [20.0, 7.0, 40.0, 8.0, 9.0];
        let terminated = [0.0, 1.0, 0.0, 0.0, 0.0];
        let last = [0.0, 1.0, 0.0, 1.0, 1.0];
        let found = advantages(&signal, [&values, &next], [&terminated, &last], [0.5, 0.5]);
        // δ: 1+10-10, 2-20, 3+20-30, 4+4-40, 5+4.5-50; then A_t = δ_t + A_{t+1}/4 within an episode.
        assert_eq!(found, [1.0 - 4.5, -18.0, -7.0 - 8.0, -32.0, -40.5]);
    }

    #[test]
    fn the_clipped_objective_and_the_barrier_by_hand() {
        let config = PpoConfig { clip: 0.2, barrier: 50.0, ..PpoConfig::default() };
        // σ = 1, μ = 0, u = 0: log π = -log√(2π). The old policy's makes the ratio.
        let sample = |ratios: &[f32], advantage: &[f32], cost: &[f32]| Sample {
            draws: vec![0.0; ratios.len()],
            log_prob: ratios.iter().map(|r| -(LOG_SQRT_2PI as f32) - r.ln()).collect(),
            advantage: advantage.to_vec(),
            costs: vec![cost.to_vec()],
        };
        let loss = |sample: &Sample, value: f64, length: f64| {
            let limits = [Limit { value, threshold: 0.5, length }];
            let mut d_means = vec![0.0; sample.draws.len()];
            sample
                .losses(
                    &vec![0.0; sample.draws.len()],
                    &[0.0],
                    &config,
                    Some(&limits),
                    &mut d_means,
                )
                .0
        };
        // min(2·1, 1.2·1) = 1.2; min(-0.5, -0.8) = -0.8; mean 0.2.
        // Ĵ = 0.3 + 2·mean(1·0.1, -0.5·0.1) = 0.35, so 0.15 is left.
        let figures = loss(&sample(&[2.0, 0.5], &[1.0, -1.0], &[0.1, 0.1]), 0.3, 2.0);
        let expected = -0.2 - 0.15f64.ln() / 50.0;
        assert!((figures.actor - expected).abs() < 1e-6, "{figures:?} {expected}");
        assert_eq!((figures.clipped, figures.recovery), (1.0, 0.0));
        // Broken: max(2·0.1, 1.2·0.1) = 0.2; max(0.5·-0.4, 0.8·-0.4) = -0.2; mean 0.
        let figures = loss(&sample(&[2.0, 0.5], &[1.0, -1.0], &[0.1, -0.4]), 0.6, 1.0);
        assert!(figures.actor.abs() < 1e-6 && figures.recovery == 1.0, "{figures:?}");
    }

    #[test]
    fn moments_of_parts_are_those_of_the_whole() {
        let rows: Vec<f32> = (0..60).map(|i| ((i * i) as f32 * 0.37).sin() + i as f32).collect();
        let (mut whole, mut parts) = (Moments::new(3), Moments::new(3));
        whole.add(&rows);
        for part in [&rows[..9], &[], &rows[9..30], &rows[30..]] {
            parts.add(part);
        }
        for i in 0..3 {
            assert!((whole.mean[i] - parts.mean[i]).abs() < 1e-9);
            assert!((whole.variance[i] - parts.variance[i]).abs() < 1e-9);
            let column: Vec<f64> = rows.iter().skip(i).step_by(3).map(|&x| x.into()).collect();
            let mean = column.iter().sum::<f64>() / 20.0;
            let variance = column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20.0;
            assert!((whole.mean[i] - mean).abs() < 1e-9);
            assert!((whole.variance[i] - variance).abs() < 1e-9);
        }
    }

    #[test]
    fn the_actor_is_the_policy_with_its_normalisation() {
        let (_, fixture) = cases().remove(0);
        let mut ppo = learner(&fixture);
        let expected = through(&mut ppo.policy, &ppo.observations, &ppo.batch.obs);
        let (actor, mut scratch) = (ppo.actor(), Vec::new());
        for (row, expected) in ppo.batch.obs.chunks_exact(4).zip(expected.chunks_exact(2)) {
            let head = actor.forward_one(row, &mut scratch);
            assert!(head.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{head:?}");
            assert_eq!(head[2..], ppo.log_sigma);
        }
    }
}
