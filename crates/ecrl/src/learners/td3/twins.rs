//! Twin critics and those of costs, with the batch that they learn from, whoever acts.

use cmdp::Rng;
use nets::threads::both;
use nets::{Mlp, Tape};
use rand::RngExt as _;
use rand_distr::StandardNormal;

use super::Td3Config;
use crate::learners::critic::{Critic, Inputs, Price};
use crate::memory::replay::{Replay, Transition};
use crate::state::{StateError, Walk};

/// The critics, and what they learn from.
#[derive(Debug, Clone)]
pub struct Twins {
    pub(super) config: Td3Config,
    pub(super) critics: [Critic; 2],
    pub(super) costs: Vec<Critic>,
    pub(super) inputs: Inputs<Vec<f32>>,
    pub(super) batch: Rows,
    actions: usize,
}

/// A batch as it was drawn.
#[derive(Debug, Clone)]
pub struct Rows {
    /// The observations s.
    pub obs: Vec<f32>,
    pub(super) next_obs: Vec<f32>,
    pub(super) reward: Vec<f32>,
    pub(super) costs: Vec<f32>,
    pub(super) discount: Vec<f32>,
    pub(super) noise: Vec<f32>,
}

impl Twins {
    /// New ones for these sizes, with critics of as many costs.
    pub fn new(config: Td3Config, [obs, action, costs]: [usize; 3], rng: &mut Rng) -> Self {
        let batch = config.batch;
        let layers = [&[obs + action], &config.hidden[..], &[1]].concat();
        let mut critic = || Critic::new(&layers, action, batch, config.critic_lr, rng);
        let critics = [(); 2].map(|()| critic());
        let costs: Vec<Critic> = (0..costs).map(|_| critic()).collect();
        let rows = |width: usize| vec![0.0; batch * width];
        let all = || rows(obs + action);
        Self {
            critics,
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
            actions: action,
            config,
        }
    }

    /// The last batch drawn.
    pub fn batch(&self) -> &Rows {
        &self.batch
    }

    /// The rows `[s, ã]` of the last batch, for an actor to write its actions to.
    pub fn drawn(&self) -> &[f32] {
        &self.inputs.drawn
    }

    /// The first critic of the reward, then those of the costs: what an actor climbs.
    pub fn climbed(&self) -> impl Iterator<Item = &Mlp> {
        [&self.critics[0]].into_iter().chain(&self.costs).map(|critic| &critic.net)
    }

    /// What the first critics make of actions: `Q_1 - Σ_i λ_i Q_ci` of every row.
    pub fn judge(&self, obs: &[f32], actions: &[f32], price: Price) -> Vec<f32> {
        let rows = actions.len() / self.actions;
        let width = obs.len() / rows + self.actions;
        let mut taken = vec![0.0; rows * width];
        for (row, obs) in taken.chunks_exact_mut(width).zip(obs.chunks_exact(width - self.actions))
        {
            row[..obs.len()].copy_from_slice(obs);
        }
        write_actions(actions.iter().copied(), &mut taken, width, self.actions);
        let mut tape = Tape::new(&self.critics[0].net, rows);
        let mut sums = vec![0.0; rows];
        let weights = [1.0].into_iter().chain(price.lambdas().iter().map(|lambda| -lambda));
        for (critic, weight) in self.climbed().zip(weights) {
            critic.forward(&taken, &mut tape);
            sums.iter_mut().zip(tape.output()).for_each(|(sum, q)| *sum += weight as f32 * q);
        }
        sums
    }

    /// Draws a batch.
    pub fn draw(&mut self, replay: &Replay, price: Price, rng: &mut Rng) {
        for row in 0..self.config.batch {
            self.set(row, replay.sample(rng), price);
        }
        self.batch.noise.fill_with(|| rng.sample(StandardNormal));
    }

    pub(super) fn set(&mut self, row: usize, transition: Transition, price: Price) {
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

    /// One step of all critics on the batch, where `next` acts afterwards; targets follow with rate τ. Returns the
    /// losses of the critics and of the costs' critics.
    pub fn improve(&mut self, next: &Mlp, tape: &mut Tape, tau: f32) -> (f64, Option<f64>) {
        let Self { config, critics: [first, second], costs, inputs, batch, actions } = self;
        let width = inputs.taken.len() / config.batch;
        next.forward(&batch.next_obs, tape);
        let (deviation, most) = (config.smoothing as f32, config.smoothing_clip as f32);
        let drawn = tape.output().iter().zip(&batch.noise).map(|(mean, noise)| {
            (mean.tanh() + (deviation * noise).clamp(-most, most)).clamp(-1.0, 1.0)
        });
        write_actions(drawn, &mut inputs.next_drawn, width, *actions);

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
        ((first.loss + second.loss) / 2.0, (count > 0.0).then_some(cost_loss))
    }

    /// Walks everything that lasts.
    pub fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        for (name, critic) in ["critic1", "critic2"].into_iter().zip(&mut self.critics) {
            critic.walk(name, walk)?;
        }
        for (i, critic) in self.costs.iter_mut().enumerate() {
            critic.walk(&format!("cost{i}"), walk)?;
        }
        Ok(())
    }
}

/// Writes actions to the last columns of rows.
pub fn write_actions(
    actions: impl Iterator<Item = f32>,
    rows: &mut [f32],
    width: usize,
    count: usize,
) {
    let places = rows.chunks_exact_mut(width).flat_map(|row| &mut row[width - count..]);
    places.zip(actions).for_each(|(place, action)| *place = action);
}
