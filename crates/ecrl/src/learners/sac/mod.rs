//! Soft actor-critic with a fixed temperature, on rewards shaped by Lagrange multipliers.
//!
//! A batch of transitions, each with the multipliers λ it was collected under, gives the targets
//!
//! ```text
//! y = r - λ·c + γ (1 - terminated) ( min_j Q̄_j(s', ã') - α log π(ã'|s') )      ã' ~ π(·|s')
//! ```
//!
//! Both critics descend `mean (Q_j(s, a) - y)²`; then the actor descends
//! `mean ( α log π(ã|s) - min_j Q_j(s, ã) )` by the reparametrisation trick, against the critics
//! just improved; the target critics Q̄ follow with rate τ.
//!
//! # How it is fast
//!
//! The work is split into pairs of independent pieces: half by half of the batch for the actor,
//! critic by critic for the critics. Pairs run on two threads if there are two; whoever is done first
//! takes rows of the other's matrix products, and the second thread stays awake between the pieces.
//! Sums over halves are taken in order, so the bits never depend on the threads. Only rows in which a
//! critic is the smaller one are sent back through it. One tape serves all passes through a network:
//! what is touched less often than the second-level cache forgets is slow.
//!
//! 1. Haarnoja et al., Soft Actor-Critic, ICML 2018.
//! 2. Fujimoto et al., Addressing Function Approximation Error in Actor-Critic Methods, ICML 2018.

mod config;
mod critic;
mod half;
#[cfg(test)]
mod tests;

use cmdp::Rng;
use nets::threads::{awake, both};
use nets::{Activation, Adam, Mlp, Tape};

pub use config::SacConfig;

use crate::algorithm::verify_start;
use crate::config::ConfigError;
use crate::memory::replay::Replay;
use crate::state::{StateError, Walk};
use critic::{Critic, compare};
use half::{Half, Inputs};

/// What one update saw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Losses {
    /// The mean squared error of each critic.
    pub critic: [f64; 2],
    /// The actor's loss.
    pub actor: f64,
    /// The policy's entropy, as estimated by -log π.
    pub entropy: f64,
}

/// The learner: an actor, two critics with their targets, and their optimisers.
#[derive(Debug, Clone)]
pub struct Sac {
    config: SacConfig,
    actor: Mlp,
    actor_adam: Adam,
    critics: [Critic; 2],
    halves: [Half; 2],
    inputs: Inputs<Vec<f32>>,
    /// y
    target: Vec<f32>,
}

impl Sac {
    /// A new learner for these sizes; a batch must have at least two rows.
    pub fn new(config: SacConfig, obs: usize, action: usize, rng: &mut Rng) -> Self {
        let sizes = |inputs: usize, outputs: usize| -> Vec<usize> {
            [&[inputs], &config.hidden[..], &[outputs]].concat()
        };
        let actor = Self::new_actor(&config.hidden, obs, action, rng);
        let batch = config.batch;
        let critics = [(); 2].map(|()| {
            let net = Mlp::new(&sizes(obs + action, 1), Activation::Relu, rng);
            Critic {
                target: net.clone(),
                adam: Adam::new(net.params().len(), config.critic_lr),
                gradient: vec![0.0; net.params().len()],
                loss: 0.0,
                tape: Tape::new(&net, batch),
                next: vec![0.0; batch],
                smaller: Vec::with_capacity(batch),
                d_action: vec![0.0; batch * action],
                net,
            }
        });
        let rows = || vec![0.0; batch * (obs + action)];
        Self {
            actor_adam: Adam::new(actor.params().len(), config.actor_lr),
            halves: [batch.div_ceil(2), batch / 2].map(|rows| Half::new(rows, obs, action, &actor)),
            inputs: Inputs { taken: rows(), next_drawn: rows(), drawn: rows() },
            target: vec![0.0; batch],
            config,
            actor,
            critics,
        }
    }

    /// A new actor: a network from an observation to `[μ, log σ]`.
    pub fn new_actor(hidden: &[usize], obs: usize, action: usize, rng: &mut Rng) -> Mlp {
        Mlp::new(&[&[obs], hidden, &[2 * action]].concat(), Activation::Relu, rng)
    }

    /// The policy.
    pub fn actor(&self) -> &Mlp {
        &self.actor
    }

    /// One update on a batch drawn from `replay`. All randomness comes from the two generators, one
    /// for each half of the batch.
    pub fn update(&mut self, replay: &Replay, rngs: &mut [Rng; 2]) -> Losses {
        awake(|| {
            self.draw(replay, rngs);
            self.learn()
        })
    }

    /// Fills the halves.
    fn draw(&mut self, replay: &Replay, rngs: &mut [Rng; 2]) {
        let gamma = self.config.gamma as f32;
        let Self { halves: [a, b], inputs, actor, .. } = self;
        let ([first, second], [a_inputs, b_inputs]) = (rngs, inputs.halves(a.rows + b.rows));
        both(
            || a.draw(a_inputs, replay, gamma, first, actor),
            || b.draw(b_inputs, replay, gamma, second, actor),
        );
    }

    /// The update proper, on what the halves hold.
    fn learn(&mut self) -> Losses {
        let Self { config, actor, critics: [first, second], halves, inputs, target, .. } = self;
        let (alpha, tau) = (config.alpha as f32, config.tau as f32);
        let log_probs = |half: &Half| half.log_prob.iter().map(|&x| f64::from(x)).sum::<f64>();
        let entropy = -halves.iter().map(log_probs).sum::<f64>() / config.batch as f64;
        both(|| first.evaluate(inputs), || second.evaluate(inputs));
        let values = halves.iter().flat_map(Half::returns).zip(first.next.iter().zip(&second.next));
        for (target, ((reward, discount, log_prob), (q1, q2))) in target.iter_mut().zip(values) {
            *target = reward + discount * (q1.min(*q2) - alpha * log_prob);
        }
        both(|| first.improve(inputs, target, tau), || second.improve(inputs, target, tau));
        let q = compare(first, second) / config.batch as f64;
        both(|| first.back_to_actions(), || second.back_to_actions());
        let critics = [&*first, &*second];
        let d_log_prob = alpha / config.batch as f32;
        let ([a, b], [a_inputs, b_inputs]) = (&mut *halves, inputs.halves(config.batch));
        let rest = a.rows;
        both(
            || a.back_to_actor(actor, a_inputs.drawn, critics, 0, d_log_prob),
            || b.back_to_actor(actor, b_inputs.drawn, critics, rest, d_log_prob),
        );
        let gradients = halves.each_ref().map(|half| &half.actor_gradient[..]);
        self.actor_adam.step(self.actor.params_mut(), gradients);

        Losses {
            critic: [self.critics[0].loss, self.critics[1].loss],
            actor: -self.config.alpha * entropy - q,
            entropy,
        }
    }

    /// Takes an actor to start from.
    pub fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        verify_start(&self.actor, actor)?;
        self.actor.clone_from(actor);
        Ok(())
    }

    /// Walks everything that lasts, in the order in which trouble spreads.
    pub fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        for (name, critic) in ["critic1", "critic2"].into_iter().zip(&mut self.critics) {
            walk.net(name, &mut critic.net)?;
            walk.adam(&format!("{name}.adam"), &mut critic.adam)?;
        }
        for (name, critic) in ["target1", "target2"].into_iter().zip(&mut self.critics) {
            walk.net(name, &mut critic.target)?;
        }
        walk.net("actor", &mut self.actor)?;
        walk.adam("actor.adam", &mut self.actor_adam)
    }
}
