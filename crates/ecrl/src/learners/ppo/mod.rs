//! Proximal policy optimisation, with critics of the reward and of costs.
//!
//! The policy draws `u ~ N(μ(s), σ)` and acts `tanh u`; in the ratio ρ = π(u|s)/π_old(u|s) the tanh
//! cancels. Where an action is one of several, it draws one by their scores. It descends, over minibatches of what was just played,
//!
//! ```text
//! -mean min( ρA, clip(ρ, 1-c, 1+c) A ) - entropy_coef·H + value_coef·mean (V - R)²
//! ```
//!
//! with advantages A by generalised advantage estimation. Observations are normalised by their
//! running mean and deviation, and the critics predict returns divided by theirs.
//!
//! What the policy descends is an [`Objective`]; others than the one above use the costs' advantages.
//!
//! 1. Schulman et al., Proximal Policy Optimization Algorithms, 2017.

mod config;
mod distribution;
mod linear;
mod minibatch;
#[cfg(test)]
pub(crate) mod tests;

use cmdp::{EnvSpec, Rng};
use nets::simd::vectorised;
use nets::threads::both;
use nets::{Activation, Adam, Mlp, Trained, gaussian};
use rayon::prelude::*;

pub use config::{ActorCriticConfig, PpoConfig};
pub use linear::{Linear, Moved};
use minibatch::Old;
pub use minibatch::{Losses, Minibatch, Objective, Terms, normalise};

use crate::algorithm::verify_start;
use crate::config::ConfigError;
use crate::learners::moments::Moments;
use crate::learners::{ACTOR_LOSS, CRITIC_LOSS, ENTROPY};
use crate::memory::batch::{Batch, advantages};
use crate::metrics::{Figures, Metric};
use crate::state::{StateError, Walk};
use distribution::Distribution;
use minibatch::value_loss;

/// How far the policy moved.
pub static KL: Metric<f64> = Metric::new(
    "kl",
    "train/kl",
    "nats",
    "How far the policy moved from the one that played: the mean of log π_old - log π",
);
/// The share of samples that the clipped objective held back.
pub static CLIPPED: Metric<f64> = Metric::new(
    "clipped",
    "train/clipped",
    "share",
    "The share of samples whose ratio was beyond the clip",
);

/// The learner.
#[derive(Debug, Clone)]
pub struct Ppo {
    config: PpoConfig,
    policy: Trained,
    /// Where an action is one of several: how many. There is no σ then.
    choices: Option<usize>,
    log_sigma: Vec<f32>,
    sigma_adam: Adam,
    /// Of the reward, then of each cost.
    critics: Vec<Trained>,
    observations: Moments,
    /// Of each signal's returns.
    returns: Moments,
    batch: Batch,
    /// The policy that played, where an objective asks how far the policy is from it.
    old: Option<Old>,
    /// Whether it started from a policy.
    started: bool,
}

impl Ppo {
    /// A new learner of a task, with critics of the first `costs` costs.
    pub fn new(config: PpoConfig, spec: &EnvSpec, costs: usize, rng: &mut Rng) -> Self {
        let EnvSpec { observation: obs, action, choices, .. } = *spec;
        let signals = 1 + costs;
        let ActorCriticConfig { ref hidden, batch, lr, log_sigma, .. } = config.actor_critic;
        let mut network = |outputs: usize, last: f32| {
            let sizes = [&[obs], &hidden[..], &[outputs]].concat();
            let mut gains = vec![std::f32::consts::SQRT_2; hidden.len()];
            gains.push(last);
            let net = Mlp::orthogonal(&sizes, Activation::Tanh, &gains, rng);
            Trained::new(net, batch, lr)
        };
        // A policy that hardly acts at first, whatever it sees.
        let policy = network(choices.unwrap_or(action), 0.01);
        let sigmas = if choices.is_some() { 0 } else { action };
        let critics = (0..signals).map(|_| network(1, 1.0)).collect();
        Self {
            policy,
            choices,
            log_sigma: vec![log_sigma as f32; sigmas],
            sigma_adam: Adam::new(sigmas, lr),
            critics,
            observations: Moments::new(obs),
            returns: Moments::new(signals),
            batch: Batch::default(),
            old: None,
            started: false,
            config,
        }
    }

    /// The same, remembering the policy that played.
    pub fn remembering(self) -> Self {
        Self { old: Some(Old::default()), ..self }
    }

    /// Its values.
    pub fn config(&self) -> &PpoConfig {
        &self.config
    }

    /// The policy as all others are: from an observation as it comes to `[μ, log σ]`, or to scores. The
    /// normalisation is worked into the first layer, log σ into the last.
    pub fn actor(&self) -> Mlp {
        let mut actor = self.policy.net.with_constants(&self.log_sigma);
        self.observations.work_into(&mut actor);
        actor
    }

    /// Takes a policy to start from, which is as [`actor`](Self::actor) gives it. Its normalisation is in
    /// its first layer: until something was seen, nothing is added to it.
    pub fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        verify_start(&self.actor(), actor)?;
        self.log_sigma = self.policy.net.take_without_constants(actor);
        self.started = true;
        Ok(())
    }

    /// Has the policy's entropy weigh so much from now on.
    pub fn explore(&mut self, entropy_coef: f64) {
        self.config.entropy_coef = entropy_coef;
    }

    /// Takes over what was played.
    pub fn learn_from(&mut self, batch: Batch) {
        self.batch = batch;
        let heads = self.heads();
        let distribution = distribution(self.choices, &self.log_sigma);
        self.batch.log_prob = distribution.log_probs(&self.batch.draws, &heads);
        if let Some(old) = &mut self.old {
            *old = Old { heads, log_sigma: self.log_sigma.clone() };
        }
        self.estimate();
    }

    /// Forgets what was played.
    pub fn forget(&mut self) {
        self.batch = Batch::default();
        self.old = self.old.take().map(|_| Old::default());
    }

    /// Remembers the policy as it is now in place of the one that played.
    pub fn remember(&mut self) {
        self.old = Some(Old { heads: self.heads(), log_sigma: self.log_sigma.clone() });
    }

    /// What the policy's network gives for all that was played.
    fn heads(&mut self) -> Vec<f32> {
        let rows: Vec<usize> = (0..self.batch.rows()).collect();
        through(&mut self.policy, &self.observations, &self.batch.obs, &rows)
    }

    /// Advantages and returns as the critics see them now.
    pub fn estimate(&mut self) {
        let ActorCriticConfig { gamma, cost_gamma, gae, .. } = self.config.actor_critic;
        let Self { critics, observations, returns, batch, .. } = self;
        let rows: Vec<usize> = (0..batch.rows()).collect();
        let ends: Vec<usize> = rows.iter().copied().filter(|&row| batch.last[row] != 0.0).collect();
        let read = &*batch;
        let each = critics.par_iter_mut().enumerate().map(|(i, critic)| {
            let scale = returns.deviation(i) as f32;
            let discount = if i == 0 { gamma } else { cost_gamma };
            let values = through(critic, observations, &read.obs, &rows);
            let mut next: Vec<f32> = values.iter().copied().skip(1).chain([0.0]).collect();
            let after = through(critic, observations, &read.next_obs, &ends);
            ends.iter().zip(after).for_each(|(&row, value)| next[row] = value);
            let scaled = |values: &[f32]| values.iter().map(|v| scale * v).collect::<Vec<f32>>();
            let advantages = advantages(
                &read.signals[i],
                [&scaled(&values), &scaled(&next)],
                [&read.terminated, &read.last],
                [discount as f32, gae as f32],
            );
            let returns = advantages.iter().zip(&values).map(|(a, v)| a / scale + v).collect();
            (values, (advantages, returns))
        });
        let (values, (advantages, returns)) = each.collect();
        (batch.values, batch.advantages, batch.returns) = (values, advantages, returns);
    }

    /// For each cost how far the policy has moved it: the mean of (ρ - 1)A over all that was played.
    pub fn moved(&mut self) -> Vec<f64> {
        let heads = self.heads();
        let Self { choices, log_sigma, batch, .. } = self;
        let logs = distribution(*choices, log_sigma).log_probs(&batch.draws, &heads);
        let ratios: Vec<f32> =
            logs.iter().zip(&batch.log_prob).map(|(new, old)| (new - old).exp()).collect();
        batch.advantages[1..].iter().map(|advantages| surrogate(&ratios, advantages)).collect()
    }

    /// The advantages of what was played: the reward's, and each cost's.
    pub fn advantages(&self) -> (&[f32], &[Vec<f32>]) {
        match self.batch.advantages.split_first() {
            Some((reward, costs)) => (reward, costs),
            None => (&[], &[]),
        }
    }

    /// Of each signal the deviation of its advantages.
    pub fn spreads(&self) -> Vec<f64> {
        self.batch.advantages.iter().map(|advantages| deviation(advantages)).collect()
    }

    /// The number of steps to learn from.
    pub fn rows(&self) -> usize {
        self.batch.rows()
    }

    /// One step down the gradient on a minibatch of these rows.
    pub fn update(&mut self, rows: &[usize], rate: f64, objective: &dyn Objective) -> Figures {
        self.update_at(rows, [rate; 2], objective)
    }

    /// The same with learning rates of their own for the policy and for the critics.
    pub fn update_at(
        &mut self,
        rows: &[usize],
        rates: [f64; 2],
        objective: &dyn Objective,
    ) -> Figures {
        let Self { config, policy, choices, log_sigma, observations, batch, old, .. } = self;
        let input = gathered(&batch.obs, rows, observations);
        let critics = &mut self.critics;
        let (((losses, d_log_sigma), of_policy), (critic_loss, of_critics)) = both(
            || {
                let minibatch = Minibatch::new(batch, rows, config, old.as_ref());
                policy.net.forward(&input, &mut policy.tape);
                let (heads, d_heads) = policy.tape.output_and_gradient();
                let distribution = distribution(*choices, log_sigma);
                let losses = minibatch.losses(heads, distribution, config, objective, d_heads);
                policy.net.backward(&input, &mut policy.tape, &mut policy.gradient);
                let squares = squares(&policy.gradient) + squares(&losses.1);
                (losses, squares)
            },
            || regress(critics, batch, rows, &input, config),
        );
        self.step(Some(&d_log_sigma), of_policy + of_critics, rates);
        let mut figures = vec![
            (&CRITIC_LOSS, critic_loss),
            (&ACTOR_LOSS, losses.actor),
            (&ENTROPY, losses.entropy),
            (&KL, losses.kl),
        ];
        figures.extend(losses.clipped.map(|share| (&CLIPPED, share)));
        figures.extend(losses.more);
        figures
    }

    /// The same for the critics alone.
    pub fn update_critics(&mut self, rows: &[usize], rate: f64) -> Figures {
        let input = gathered(&self.batch.obs, rows, &self.observations);
        let (loss, squares) = regress(&mut self.critics, &self.batch, rows, &input, &self.config);
        self.step(None, squares, [rate; 2]);
        vec![(&CRITIC_LOSS, loss)]
    }

    /// Shortens the gradient of everything together if it is too long, given the sum of its squares, and goes
    /// down it; without a slope by log σ, the policy stays as it is.
    fn step(&mut self, d_log_sigma: Option<&[f32]>, squares: f64, [rate, critic_rate]: [f64; 2]) {
        let Self { policy, critics, log_sigma, sigma_adam, config, .. } = self;
        let factor = (config.actor_critic.max_grad_norm / (squares.sqrt() + 1e-6)).min(1.0) as f32;
        let descend = |trained: &mut Trained, rate: f64| {
            trained.adam.set_learning_rate(rate);
            trained.step_scaled(factor);
        };
        let mut critics = || critics.iter_mut().for_each(|critic| descend(critic, critic_rate));
        let Some(d_log_sigma) = d_log_sigma else { return critics() };
        let policy = || {
            descend(policy, rate);
            sigma_adam.set_learning_rate(rate);
            sigma_adam.step_scaled(log_sigma, d_log_sigma, factor);
            log_sigma.iter_mut().for_each(|x| *x = gaussian::clamp(*x));
        };
        both(policy, critics);
    }

    /// Takes what was learnt from into account in the normalisation, after its last update.
    pub fn absorb(&mut self) {
        let first = self.observations.is_empty();
        self.observations.add(&self.batch.obs);
        if self.started && first {
            // A policy that it started from goes on acting as it did.
            self.observations.take_out_of(&mut self.policy.net);
        }
        let signals = self.critics.len();
        let scales: Vec<f32> = (0..signals).map(|i| self.returns.deviation(i) as f32).collect();
        let rows = (0..self.batch.rows()).flat_map(|row| {
            let returns = self.batch.returns.iter().zip(&scales);
            returns.map(move |(returns, scale)| scale * returns[row])
        });
        let rows: Vec<f32> = rows.collect();
        self.returns.add(&rows);
    }

    /// Walks everything that lasts.
    pub fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        let sigmas = self.log_sigma.len();
        if self.choices.is_none() {
            walk.tensor("log_sigma", &[sigmas], &mut self.log_sigma)?;
            walk.adam("log_sigma.adam", &mut self.sigma_adam)?;
        }
        walk.trained("policy", &mut self.policy)?;
        for (i, critic) in self.critics.iter_mut().enumerate() {
            walk.trained(&format!("critic{i}"), critic)?;
        }
        self.observations.walk("observations", walk)?;
        self.returns.walk("returns", walk)?;
        let sizes = [self.observations.mean.len(), sigmas.max(1), self.critics.len()];
        let rows = self.batch.walk(walk, sizes)?;
        if let Some(old) = &mut self.old {
            walk.list("old.heads", rows * self.choices.unwrap_or(sigmas), &mut old.heads)?;
            let sigmas = if rows == 0 { 0 } else { sigmas };
            walk.list("old.log_sigma", sigmas, &mut old.log_sigma)?;
        }
        Ok(())
    }
}

/// The sum of squares, in sums side by side: one after the other, each would wait for the one before.
fn squares(numbers: &[f32]) -> f64 {
    vectorised(
        #[inline(always)]
        || {
            let mut sums = [0.0; 32];
            let pieces = numbers.chunks_exact(sums.len());
            let rest: f64 = pieces.remainder().iter().map(|&x| f64::from(x).powi(2)).sum();
            for piece in pieces {
                sums.iter_mut().zip(piece).for_each(|(sum, &x)| *sum += f64::from(x).powi(2));
            }
            rest + sums.iter().sum::<f64>()
        },
    )
}

/// The deviation of numbers from their mean.
pub fn deviation(numbers: &[f32]) -> f64 {
    let count = numbers.len().max(1) as f64;
    let mean = numbers.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
    let squares = numbers.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>();
    (squares / count).sqrt()
}

/// The mean of (ρ - 1)A.
fn surrogate(ratios: &[f32], advantages: &[f32]) -> f64 {
    let each = ratios.iter().zip(advantages).map(|(r, a)| f64::from((r - 1.0) * a));
    each.sum::<f64>() / ratios.len() as f64
}

/// The critics' loss on these rows and the sum of its gradients' squares.
fn regress(
    critics: &mut [Trained],
    batch: &Batch,
    rows: &[usize],
    input: &[f32],
    config: &PpoConfig,
) -> (f64, f64) {
    let each = critics.iter_mut().enumerate();
    let losses = each.map(|(i, critic)| {
        critic.net.forward(input, &mut critic.tape);
        let (values, d_values) = critic.tape.output_and_gradient();
        let targets = rows.iter().map(|&row| (batch.values[i][row], batch.returns[i][row]));
        let loss = value_loss(values, targets, config, d_values);
        critic.net.backward(input, &mut critic.tape, &mut critic.gradient);
        (loss, squares(&critic.gradient))
    });
    losses.fold((0.0, 0.0), |(loss, squares), (more, squared)| (loss + more, squares + squared))
}

fn distribution(choices: Option<usize>, log_sigma: &[f32]) -> Distribution<'_> {
    match choices {
        Some(choices) => Distribution::Categorical { choices },
        None => Distribution::Gaussian { log_sigma },
    }
}

/// Rows of observations, normalised.
fn gathered(obs: &[f32], rows: &[usize], moments: &Moments) -> Vec<f32> {
    let width = moments.mean.len();
    let columns: Vec<(f64, f64)> =
        (0..width).map(|i| (moments.mean[i], 1.0 / moments.deviation(i))).collect();
    let mut normal = vec![0.0; rows.len() * width];
    for (row, to) in rows.iter().zip(normal.chunks_exact_mut(width)) {
        for ((to, x), (mean, scale)) in to.iter_mut().zip(&obs[row * width..]).zip(&columns) {
            *to = ((f64::from(*x) - mean) * scale) as f32;
        }
    }
    normal
}

/// What a network makes of some of the observations.
fn through(trained: &mut Trained, moments: &Moments, obs: &[f32], rows: &[usize]) -> Vec<f32> {
    let mut out = Vec::new();
    for rows in rows.chunks(trained.tape.capacity()) {
        trained.net.forward(&gathered(obs, rows, moments), &mut trained.tape);
        out.extend_from_slice(trained.tape.output());
    }
    out
}
