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

mod climber;
mod config;
#[cfg(test)]
mod tests;
mod twins;

use std::borrow::Cow;

use cmdp::Rng;
use nets::Mlp;
use nets::threads::awake;

pub use climber::Climber;
pub use config::Td3Config;
pub use twins::Twins;

use crate::algorithm::verify_start;
use crate::config::ConfigError;
use crate::learners::critic::Price;
use crate::learners::off_policy::Learner;
use crate::learners::{ACTOR_LOSS, CRITIC_LOSS};
use crate::memory::replay::Replay;
use crate::metrics::Figures;
use crate::state::{StateError, Walk};

/// The learner: an actor, two critics, those of costs, and their targets.
#[derive(Debug, Clone)]
pub struct Td3 {
    config: Td3Config,
    twins: Twins,
    climber: Climber,
    target: Mlp,
    /// Updates so far, and the actor's loss in the last that it took part in.
    updates: u64,
    actor_loss: f64,
}

impl Td3 {
    /// A new learner for these sizes, with critics of as many costs.
    pub fn new(config: Td3Config, sizes: [usize; 3], rng: &mut Rng) -> Self {
        let target = config.new_actor([sizes[0], sizes[1]], rng);
        let twins = Twins::new(config.clone(), sizes, rng);
        let climber = Climber::new(&config, target.clone());
        Self { config, twins, climber, target, updates: 0, actor_loss: 0.0 }
    }

    /// The values it computes with.
    pub fn config(&self) -> &Td3Config {
        &self.config
    }

    /// The policy's network, from an observation to what tanh brings to an action.
    pub fn policy(&self) -> &Mlp {
        &self.climber.actor.net
    }

    /// The critics.
    pub fn twins(&self) -> &Twins {
        &self.twins
    }

    /// The actor's network and its target, to be changed by others than critics.
    pub fn nets_mut(&mut self) -> [&mut Mlp; 2] {
        [&mut self.climber.actor.net, &mut self.target]
    }

    /// The update proper, on what was drawn; returns the losses of the critics and of the costs' critics.
    fn learn(&mut self, price: Price) -> (f64, Option<f64>) {
        self.updates += 1;
        let moves = self.updates.is_multiple_of(self.config.delay);
        let tau = if moves { self.config.tau as f32 } else { 0.0 };
        let losses = self.twins.improve(&self.target, &mut self.climber.actor.tape, tau);
        if moves {
            self.actor_loss = self.climber.climb(&self.twins, price, Some(&mut self.target));
        }
        losses
    }
}

impl Learner for Td3 {
    fn actor(&self) -> Cow<'_, Mlp> {
        Cow::Owned(self.config.express(self.policy()))
    }

    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        verify_start(&self.actor(), actor)?;
        for net in self.nets_mut() {
            net.take_without_constants(actor);
        }
        Ok(())
    }

    fn update(&mut self, replay: &Replay, price: Price, [rng, _]: &mut [Rng; 2]) -> Figures {
        let (loss, cost_loss) = awake(|| {
            self.twins.draw(replay, price, rng);
            self.learn(price)
        });
        let loss = loss + cost_loss.unwrap_or(0.0);
        vec![(&CRITIC_LOSS, loss), (&ACTOR_LOSS, self.actor_loss)]
    }

    /// In the order in which trouble spreads.
    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.twins.walk(walk)?;
        self.climber.walk(walk)?;
        walk.net("actor.target", &mut self.target)?;
        walk.plain("updates", &mut self.updates)?;
        walk.plain("actor_loss", &mut self.actor_loss)
    }
}
