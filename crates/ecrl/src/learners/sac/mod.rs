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
//! Costs may have critics of their own instead, one each, with targets `c + γ (1 - terminated) Q̄_c(s', ã')`;
//! the actor then descends `mean ( α log π - min_j Q_j + Σ_i λ_i Q_ci ) / ( 1 + Σ_i λ_i )` with the λ in force.
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
mod half;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use cmdp::Rng;
use nets::threads::{awake, both};
use nets::{Activation, Adam, Mlp};

pub use config::SacConfig;

use crate::algorithm::verify_start;
use crate::config::ConfigError;
use crate::learners::critic::{Critic, Inputs, Price, compare};
use crate::learners::off_policy::Learner;
use crate::learners::{ACTOR_LOSS, CRITIC_LOSS, ENTROPY};
use crate::memory::replay::Replay;
use crate::metrics::Figures;
use crate::state::{StateError, Walk};
use half::Half;

/// What one update saw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Losses {
    /// The mean squared error of each critic of the reward.
    pub critic: [f64; 2],
    /// That of the costs' critics, the mean over them.
    pub cost_critic: Option<f64>,
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
    /// Of each cost that has one.
    costs: Vec<Critic>,
    halves: [Half; 2],
    inputs: Inputs<Vec<f32>>,
    /// y
    target: Vec<f32>,
    /// Of multipliers in force, the slopes that the last update told.
    slopes: Vec<f64>,
}

impl Sac {
    /// A new learner for these sizes, with critics of as many costs; a batch must have at least two rows.
    pub fn new(
        config: SacConfig,
        [obs, action, critics_of_costs]: [usize; 3],
        rng: &mut Rng,
    ) -> Self {
        let sizes = |inputs: usize, outputs: usize| -> Vec<usize> {
            [&[inputs], &config.hidden[..], &[outputs]].concat()
        };
        let actor = Self::new_actor(&config.hidden, obs, action, rng);
        let batch = config.batch;
        let layers = sizes(obs + action, 1);
        let mut critic = || Critic::new(&layers, action, batch, config.critic_lr, rng);
        let critics = [(); 2].map(|()| critic());
        let costs = (0..critics_of_costs).map(|_| critic()).collect();
        let rows = || vec![0.0; batch * (obs + action)];
        Self {
            actor_adam: Adam::new(actor.params().len(), config.actor_lr),
            halves: [batch.div_ceil(2), batch / 2]
                .map(|rows| Half::new(rows, [obs, action, critics_of_costs], &actor)),
            inputs: Inputs { taken: rows(), next_drawn: rows(), drawn: rows() },
            target: vec![0.0; batch],
            slopes: Vec::new(),
            config,
            actor,
            critics,
            costs,
        }
    }

    /// The same, taking note of so many costs without critics of their own: for multipliers in force.
    pub fn noting_costs(mut self, costs: usize) -> Self {
        self.halves.iter_mut().for_each(|half| half.costs = vec![0.0; half.rows * costs]);
        self
    }

    /// Its values.
    pub fn config(&self) -> &SacConfig {
        &self.config
    }

    /// Of multipliers in force, the slopes of the first critic's loss that the last update told.
    pub fn slopes(&self) -> &[f64] {
        &self.slopes
    }

    /// A new actor: a network from an observation to `[μ, log σ]`.
    pub fn new_actor(hidden: &[usize], obs: usize, action: usize, rng: &mut Rng) -> Mlp {
        Mlp::new(&[&[obs], hidden, &[2 * action]].concat(), Activation::Relu, rng)
    }

    /// One update on a batch drawn from `replay`. All randomness comes from the two generators, one
    /// for each half of the batch.
    pub fn update(&mut self, replay: &Replay, price: Price, rngs: &mut [Rng; 2]) -> Losses {
        awake(|| {
            self.draw(replay, price, rngs);
            self.learn(price)
        })
    }

    /// Fills the halves.
    fn draw(&mut self, replay: &Replay, price: Price, rngs: &mut [Rng; 2]) {
        let gamma = self.config.gamma as f32;
        let Self { halves: [a, b], inputs, actor, .. } = self;
        let ([first, second], [a_inputs, b_inputs]) = (rngs, inputs.halves(a.rows + b.rows));
        both(
            || a.draw(a_inputs, (replay, price), gamma, first, actor),
            || b.draw(b_inputs, (replay, price), gamma, second, actor),
        );
    }

    /// The update proper, on what the halves hold.
    fn learn(&mut self, price: Price) -> Losses {
        let Self { config, actor, critics: [first, second], halves, inputs, target, .. } = self;
        let (alpha, tau, batch) = (config.alpha as f32, config.tau as f32, config.batch as f32);
        let log_probs = |half: &Half| half.log_prob.iter().map(|&x| f64::from(x)).sum::<f64>();
        let entropy = -halves.iter().map(log_probs).sum::<f64>() / config.batch as f64;
        both(|| first.evaluate(inputs), || second.evaluate(inputs));
        let values = halves.iter().flat_map(Half::returns).zip(first.next.iter().zip(&second.next));
        for (target, ((reward, discount, log_prob), (q1, q2))) in target.iter_mut().zip(values) {
            *target = reward + discount * (q1.min(*q2) - alpha * log_prob);
        }
        let costs: Vec<f32> = halves.iter().flat_map(|half| &half.costs).copied().collect();
        let slopes = &mut self.slopes;
        both(
            || {
                match price {
                    Price::InForce { .. } => {
                        *slopes = first.improve_and_tell(inputs, target, tau, &costs);
                    }
                    _ => first.improve(inputs, target, tau),
                }
                first.judge(inputs);
            },
            || {
                second.improve(inputs, target, tau);
                second.judge(inputs);
            },
        );
        let q = compare(first, second) / config.batch as f64;
        let weight = -1.0 / batch / price.whole();
        both(|| first.back_to_actions(weight), || second.back_to_actions(weight));
        let costs = learn_costs(&mut self.costs, inputs, (&costs, halves), tau, price);
        let critics = ([&*first, &*second], &self.costs[..]);
        let d_log_prob = alpha / batch / price.whole();
        let ([a, b], [a_inputs, b_inputs]) = (&mut *halves, inputs.halves(config.batch));
        let rest = a.rows;
        both(
            || a.back_to_actor(actor, a_inputs.drawn, critics, 0, d_log_prob),
            || b.back_to_actor(actor, b_inputs.drawn, critics, rest, d_log_prob),
        );
        let gradients = halves.each_ref().map(|half| &half.actor_gradient[..]);
        self.actor_adam.step(self.actor.params_mut(), gradients);

        let loss = -self.config.alpha * entropy - q + costs.map_or(0.0, |(paid, _)| paid);
        Losses {
            critic: [self.critics[0].loss, self.critics[1].loss],
            cost_critic: costs.map(|(_, loss)| loss),
            actor: loss / f64::from(price.whole()),
            entropy,
        }
    }
}

impl Learner for Sac {
    fn actor(&self) -> Cow<'_, Mlp> {
        Cow::Borrowed(&self.actor)
    }

    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        verify_start(&self.actor, actor)?;
        self.actor.clone_from(actor);
        Ok(())
    }

    fn update(&mut self, replay: &Replay, price: Price, rngs: &mut [Rng; 2]) -> Figures {
        let Losses { critic, cost_critic, actor, entropy } = Sac::update(self, replay, price, rngs);
        let critics = (critic[0] + critic[1]) / 2.0 + cost_critic.unwrap_or(0.0);
        vec![(&CRITIC_LOSS, critics), (&ACTOR_LOSS, actor), (&ENTROPY, entropy)]
    }

    /// In the order in which trouble spreads.
    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        for (name, critic) in ["critic1", "critic2"].into_iter().zip(&mut self.critics) {
            walk.net(name, &mut critic.net)?;
            walk.adam(&format!("{name}.adam"), &mut critic.adam)?;
        }
        for (name, critic) in ["target1", "target2"].into_iter().zip(&mut self.critics) {
            walk.net(name, &mut critic.target)?;
        }
        for (i, critic) in self.costs.iter_mut().enumerate() {
            critic.walk(&format!("cost{i}"), walk)?;
        }
        walk.net("actor", &mut self.actor)?;
        walk.adam("actor.adam", &mut self.actor_adam)
    }
}

/// The costs' critics learn, and tell the slopes of the actions by `Σ_i λ_i Q_ci/(1 + Σ_i λ_i)`, the mean over
/// the batch; returns the mean of `Σ_i λ_i Q_ci` and of the critics' losses, if there are any.
fn learn_costs(
    critics: &mut [Critic],
    inputs: &Inputs<Vec<f32>>,
    (costs, halves): (&[f32], &[Half; 2]),
    tau: f32,
    price: Price,
) -> Option<(f64, f64)> {
    if critics.is_empty() {
        return None;
    }
    let discounts: Vec<f32> = halves.iter().flat_map(|half| &half.discount).copied().collect();
    let batch = discounts.len() as f32;
    let learn = |(i, (critic, lambda)): (usize, (&mut Critic, &f64))| {
        critic.evaluate(inputs);
        let target = critic.cost_targets(costs, i, &discounts);
        critic.improve(inputs, &target, tau);
        critic.judge(inputs);
        let paid: f64 = critic.tape.output().iter().map(|&q| f64::from(q)).sum();
        critic.smaller.clear();
        critic.smaller.extend(0..discounts.len());
        critic.back_to_actions(*lambda as f32 / batch / price.whole());
        (lambda * paid / f64::from(batch), critic.loss)
    };
    let count = critics.len() as f64;
    let each = critics.iter_mut().zip(price.lambdas()).enumerate().map(learn);
    let (paid, loss) = each.fold((0.0, 0.0), |sums, (paid, loss)| (sums.0 + paid, sums.1 + loss));
    Some((paid, loss / count))
}

impl Inputs<Vec<f32>> {
    /// The rows of each half of the batch; the first half is the larger one.
    pub fn halves(&mut self, rows: usize) -> [Inputs<&mut [f32]>; 2] {
        let at = self.taken.len() / rows * rows.div_ceil(2);
        let (taken, taken_2) = self.taken.split_at_mut(at);
        let (next_drawn, next_drawn_2) = self.next_drawn.split_at_mut(at);
        let (drawn, drawn_2) = self.drawn.split_at_mut(at);
        [
            Inputs { taken, next_drawn, drawn },
            Inputs { taken: taken_2, next_drawn: next_drawn_2, drawn: drawn_2 },
        ]
    }
}
