//! One half of a batch: drawn from the replay buffer, and through the actor and back.

use cmdp::Rng;
use nets::{Mlp, Tape, gaussian};
use rand::RngExt as _;
use rand_distr::StandardNormal;

use crate::learners::critic::{Critic, Inputs, Price};
use crate::memory::replay::{Replay, Transition};

/// One half of the batch, as the actor sees it.
#[derive(Debug, Clone)]
pub struct Half {
    pub rows: usize,
    pub obs: Vec<f32>,
    pub next_obs: Vec<f32>,
    /// The reward, by its price r - λ·c.
    pub reward: Vec<f32>,
    /// Of each row, the costs that something is learnt of by themselves.
    pub costs: Vec<f32>,
    /// γ (1 - terminated)
    pub discount: Vec<f32>,
    pub noise: Vec<f32>,
    pub next_noise: Vec<f32>,
    pub log_prob: Vec<f32>,
    pub next_log_prob: Vec<f32>,
    pub tape: Tape,
    pub d_action: Vec<f32>,
    pub actor_gradient: Vec<f32>,
}

impl Half {
    pub fn new(rows: usize, [obs, action, costs]: [usize; 3], actor: &Mlp) -> Self {
        let zeros = |width: usize| vec![0.0; rows * width];
        Self {
            rows,
            obs: zeros(obs),
            next_obs: zeros(obs),
            reward: zeros(1),
            costs: zeros(costs),
            discount: zeros(1),
            noise: zeros(action),
            next_noise: zeros(action),
            log_prob: zeros(1),
            next_log_prob: zeros(1),
            tape: Tape::new(actor, rows),
            d_action: zeros(action),
            actor_gradient: vec![0.0; actor.params().len()],
        }
    }

    pub fn draw(
        &mut self,
        mut inputs: Inputs<&mut [f32]>,
        (replay, price): (&Replay, Price),
        gamma: f32,
        rng: &mut Rng,
        actor: &Mlp,
    ) {
        for row in 0..self.rows {
            self.set(row, (replay.sample(rng), price), gamma, &mut inputs);
        }
        for noise in [&mut self.noise, &mut self.next_noise] {
            noise.fill_with(|| rng.sample(StandardNormal));
        }
        self.draw_actions(actor, inputs);
    }

    pub fn set(
        &mut self,
        row: usize,
        (transition, price): (Transition, Price),
        gamma: f32,
        inputs: &mut Inputs<&mut [f32]>,
    ) {
        let Transition { obs, action, next_obs, .. } = transition;
        let (n, width) = (obs.len(), obs.len() + action.len());
        self.obs[row * n..][..n].copy_from_slice(obs);
        self.next_obs[row * n..][..n].copy_from_slice(next_obs);
        inputs.taken[row * width..][..n].copy_from_slice(obs);
        inputs.taken[row * width + n..][..action.len()].copy_from_slice(action);
        inputs.drawn[row * width..][..n].copy_from_slice(obs);
        inputs.next_drawn[row * width..][..n].copy_from_slice(next_obs);
        let Transition { reward, costs, multipliers, .. } = transition;
        let width = self.costs.len() / self.rows;
        let out = &mut self.costs[row * width..][..width];
        self.reward[row] = price.apply(reward, costs, multipliers, out);
        self.discount[row] = if transition.terminated { 0.0 } else { gamma };
    }

    /// Draws ã' and ã, with their log-probabilities. What the tape holds then is of ã.
    pub fn draw_actions(&mut self, actor: &Mlp, inputs: Inputs<&mut [f32]>) {
        let Self { tape, noise, next_noise, log_prob, next_log_prob, .. } = self;
        let width = inputs.drawn.len() / self.rows;
        actor.forward(&self.next_obs, tape);
        gaussian::sample(tape.output(), next_noise, inputs.next_drawn, width, next_log_prob);
        actor.forward(&self.obs, tape);
        gaussian::sample(tape.output(), noise, inputs.drawn, width, log_prob);
    }

    /// Of each row: the shaped reward, the discount, and log π(ã'|s').
    pub fn returns(&self) -> impl Iterator<Item = (f32, f32, f32)> {
        let rewards = self.reward.iter().zip(&self.discount).zip(&self.next_log_prob);
        rewards.map(|((reward, discount), log_prob)| (*reward, *discount, *log_prob))
    }

    /// The gradient of the actor, for the rows of the batch from `first` on; of costs, the gradient of all
    /// actions.
    pub fn back_to_actor(
        &mut self,
        actor: &Mlp,
        drawn: &[f32],
        (critics, costs): ([&Critic; 2], &[Critic]),
        first: usize,
        d_log_prob: f32,
    ) {
        let actions = self.noise.len() / self.rows;
        for critic in critics {
            let rows = critic.smaller.iter().zip(critic.d_action.chunks_exact(actions));
            for (&row, d) in rows.filter(|(row, _)| (first..first + self.rows).contains(row)) {
                self.d_action[(row - first) * actions..][..actions].copy_from_slice(d);
            }
        }
        for cost in costs {
            let own = &cost.d_action[first * actions..];
            self.d_action.iter_mut().zip(own).for_each(|(sum, d)| *sum += d);
        }
        let width = drawn.len() / self.rows;
        let (head, d_head) = self.tape.output_and_gradient();
        gaussian::backward(head, &self.noise, drawn, width, &self.d_action, d_log_prob, d_head);
        actor.backward(&self.obs, &mut self.tape, &mut self.actor_gradient);
    }
}
