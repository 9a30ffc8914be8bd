//! Twin delayed deep deterministic policy gradients, with critics of costs.
//!
//! The actor gives `a = tanh μ(s)`. A batch of transitions gives the targets
//!
//! ```text
//! ã' = clip( tanh μ̄(s') + clip(ε, -c, c), -1, 1 )                ε ~ N(0, smoothing)
//! y  = r + γ (1 - terminated) min_j Q̄_j(s', ã')                  y_i = c_i + γ (1 - terminated) Q̄_ci(s', ã')
//! ```
//!
//! which the critics step to. At every `delay`-th update the actor descends
//! `mean ( -Q_1(s, a) + Σ_i λ_i Q_ci(s, a) ) / ( 1 + Σ_i λ_i )`, and all targets follow with rate τ. It plays with
//! noise of a fixed deviation, which is added before tanh, so that its policy is one like all others.
//!
//! 1. Fujimoto, van Hoof & Meger, Addressing Function Approximation Error in Actor-Critic Methods, ICML 2018.

mod config;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use cmdp::Rng;
use nets::threads::{awake, both};
use nets::{Activation, Mlp, Trained};
use rand::RngExt as _;
use rand_distr::StandardNormal;

pub use config::Td3Config;

use crate::algorithm::verify_start;
use crate::config::ConfigError;
use crate::learners::critic::{Critic, Inputs, Price};
use crate::learners::off_policy::Learner;
use crate::learners::{ACTOR_LOSS, CRITIC_LOSS};
use crate::memory::replay::{Replay, Transition};
use crate::metrics::Figures;
use crate::state::{StateError, Walk};

/// The learner: an actor, two critics, those of costs, and their targets.
#[derive(Debug, Clone)]
pub struct Td3 {
    config: Td3Config,
    actor: Trained,
    target: Mlp,
    critics: [Critic; 2],
    costs: Vec<Critic>,
    /// Updates so far, and the actor's loss in the last that it took part in.
    updates: u64,
    actor_loss: f64,
    inputs: Inputs<Vec<f32>>,
    batch: Rows,
}

/// A batch as it was drawn.
#[derive(Debug, Clone)]
struct Rows {
    obs: Vec<f32>,
    next_obs: Vec<f32>,
    reward: Vec<f32>,
    costs: Vec<f32>,
    discount: Vec<f32>,
    noise: Vec<f32>,
}

impl Td3 {
    /// A new learner for these sizes, with critics of as many costs.
    pub fn new(config: Td3Config, [obs, action, costs]: [usize; 3], rng: &mut Rng) -> Self {
        let sizes = |inputs: usize, outputs: usize| -> Vec<usize> {
            [&[inputs], &config.hidden[..], &[outputs]].concat()
        };
        let (batch, layers) = (config.batch, sizes(obs + action, 1));
        let actor = Mlp::new(&sizes(obs, action), Activation::Relu, rng);
        let mut critic = || Critic::new(&layers, action, batch, config.critic_lr, rng);
        let critics = [(); 2].map(|()| critic());
        let costs: Vec<Critic> = (0..costs).map(|_| critic()).collect();
        let rows = |width: usize| vec![0.0; batch * width];
        let all = || rows(obs + action);
        Self {
            target: actor.clone(),
            actor: Trained::new(actor, batch, config.actor_lr),
            critics,
            updates: 0,
            actor_loss: 0.0,
            inputs: Inputs { taken: all(), next_drawn: all(), drawn: all() },
            batch: Rows {
                obs: rows(obs),
                next_obs: rows(obs),
                reward: rows(1),
                costs: rows(costs.len()),
                discount: rows(1),
                noise: rows(action),
            },
            costs,
            config,
        }
    }

    fn log_sigma(&self) -> Vec<f32> {
        let actions = *self.target.sizes().last().expect("a layer");
        vec![nets::gaussian::clamp(self.config.exploration.ln() as f32); actions]
    }

    fn draw(&mut self, replay: &Replay, price: Price, rng: &mut Rng) {
        for row in 0..self.config.batch {
            self.set(row, replay.sample(rng), price);
        }
        self.batch.noise.fill_with(|| rng.sample(StandardNormal));
    }

    fn set(&mut self, row: usize, transition: Transition, price: Price) {
        let Transition { obs, action, reward, costs, multipliers, next_obs, terminated } =
            transition;
        let Self { batch, inputs, config, .. } = self;
        let (n, width) = (obs.len(), obs.len() + action.len());
        batch.obs[row * n..][..n].copy_from_slice(obs);
        batch.next_obs[row * n..][..n].copy_from_slice(next_obs);
        for (rows, obs) in
            [(&mut inputs.taken, obs), (&mut inputs.drawn, obs), (&mut inputs.next_drawn, next_obs)]
        {
            rows[row * width..][..n].copy_from_slice(obs);
        }
        inputs.taken[row * width + n..][..action.len()].copy_from_slice(action);
        let count = self.costs.len();
        let out = &mut batch.costs[row * count..][..count];
        batch.reward[row] = price.apply(reward, costs, multipliers, out);
        batch.discount[row] = if terminated { 0.0 } else { config.gamma as f32 };
    }

    /// The update proper, on what was drawn; returns the losses of the critics and of the costs' critics.
    fn learn(&mut self, price: Price) -> (f64, Option<f64>) {
        self.updates += 1;
        let moves = self.updates.is_multiple_of(self.config.delay);
        let Self { config, actor, target, critics: [first, second], costs, inputs, batch, .. } =
            self;
        let tau = if moves { config.tau as f32 } else { 0.0 };
        let (actions, rows) = (*target.sizes().last().expect("a layer"), config.batch);
        let width = inputs.taken.len() / rows;

        target.forward(&batch.next_obs, &mut actor.tape);
        let (deviation, most) = (config.smoothing as f32, config.smoothing_clip as f32);
        let drawn = actor.tape.output().iter().zip(&batch.noise).map(|(mean, noise)| {
            (mean.tanh() + (deviation * noise).clamp(-most, most)).clamp(-1.0, 1.0)
        });
        write_actions(drawn, &mut inputs.next_drawn, width, actions);
        actor.net.forward(&batch.obs, &mut actor.tape);
        let acted: Vec<f32> = actor.tape.output().iter().map(|mean| mean.tanh()).collect();
        write_actions(acted.iter().copied(), &mut inputs.drawn, width, actions);

        both(|| first.evaluate(inputs), || second.evaluate(inputs));
        let next = first.next.iter().zip(&second.next).map(|(q1, q2)| q1.min(*q2));
        let values = batch.reward.iter().zip(&batch.discount).zip(next);
        let targets: Vec<f32> = values.map(|((r, discount), next)| r + discount * next).collect();
        both(|| first.improve(inputs, &targets, tau), || second.improve(inputs, &targets, tau));
        for (i, critic) in costs.iter_mut().enumerate() {
            critic.evaluate(inputs);
            let targets = critic.cost_targets(&batch.costs, i, &batch.discount);
            critic.improve(inputs, &targets, tau);
        }
        let count = costs.len() as f64;
        let cost_loss = costs.iter().map(|critic| critic.loss).sum::<f64>() / count;
        let losses = ((first.loss + second.loss) / 2.0, (count > 0.0).then_some(cost_loss));
        if !moves {
            return losses;
        }

        let whole = price.whole();
        let mut d_actions = vec![0.0; rows * actions];
        let mut value = 0.0;
        let weights = [-1.0].into_iter().chain(price.lambdas().iter().copied());
        for (critic, weight) in [&mut *first].into_iter().chain(costs).zip(weights) {
            critic.judge(inputs);
            value += weight * critic.tape.output().iter().map(|&q| f64::from(q)).sum::<f64>();
            critic.add_to_actions(weight as f32 / (rows as f32 * whole), &mut d_actions);
        }
        self.actor_loss = value / (rows as f64 * f64::from(whole));
        let d_heads = actor.tape.output_and_gradient().1;
        for ((d_head, d), a) in d_heads.iter_mut().zip(&d_actions).zip(&acted) {
            *d_head = d * (1.0 - a * a);
        }
        actor.net.backward(&batch.obs, &mut actor.tape, &mut actor.gradient);
        let (params, gradient) = (actor.net.params_mut(), &actor.gradient);
        actor.adam.step_with_target(params, gradient, target.params_mut(), tau);
        losses
    }
}

/// Writes actions to the last columns of rows.
fn write_actions(actions: impl Iterator<Item = f32>, rows: &mut [f32], width: usize, count: usize) {
    let places = rows.chunks_exact_mut(width).flat_map(|row| &mut row[width - count..]);
    places.zip(actions).for_each(|(place, action)| *place = action);
}

impl Learner for Td3 {
    fn actor(&self) -> Cow<'_, Mlp> {
        Cow::Owned(self.actor.net.with_constants(&self.log_sigma()))
    }

    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        verify_start(&self.actor(), actor)?;
        self.actor.net.take_without_constants(actor);
        self.target.clone_from(&self.actor.net);
        Ok(())
    }

    fn update(&mut self, replay: &Replay, price: Price, [rng, _]: &mut [Rng; 2]) -> Figures {
        let (loss, cost_loss) = awake(|| {
            self.draw(replay, price, rng);
            self.learn(price)
        });
        let loss = loss + cost_loss.unwrap_or(0.0);
        vec![(&CRITIC_LOSS, loss), (&ACTOR_LOSS, self.actor_loss)]
    }

    /// In the order in which trouble spreads.
    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        for (name, critic) in ["critic1", "critic2"].into_iter().zip(&mut self.critics) {
            critic.walk(name, walk)?;
        }
        for (i, critic) in self.costs.iter_mut().enumerate() {
            critic.walk(&format!("cost{i}"), walk)?;
        }
        walk.trained("actor", &mut self.actor)?;
        walk.net("actor.target", &mut self.target)?;
        walk.plain("updates", &mut self.updates)?;
        walk.plain("actor_loss", &mut self.actor_loss)
    }
}
