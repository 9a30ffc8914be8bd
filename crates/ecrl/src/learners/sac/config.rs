//! The values of SAC.

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, range};

/// What the learner computes with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SacConfig {
    /// Units of the hidden layers of all networks. Paper: 256, 256.
    pub hidden: Vec<usize>,
    /// Transitions in a batch. Paper: 512.
    pub batch: usize,
    /// Discount γ; nearer to 1 looks further ahead. Authors' code: 0.99.
    pub gamma: f64,
    /// Rate τ at which target critics follow; less is steadier and slower. Authors' code: 1e-3.
    pub tau: f64,
    /// Entropy temperature α; more explores more. Paper: 0.1.
    pub alpha: f64,
    /// Learning rate of the actor. Paper: 1e-4.
    pub actor_lr: f64,
    /// Learning rate of the critics. Paper: 3e-4.
    pub critic_lr: f64,
}

impl Default for SacConfig {
    fn default() -> Self {
        Self {
            hidden: vec![256, 256],
            batch: 512,
            gamma: 0.99,
            tau: 1e-3,
            alpha: 0.1,
            actor_lr: 1e-4,
            critic_lr: 3e-4,
        }
    }
}

impl SacConfig {
    /// The keys whose values may change in the midst of a run.
    pub const CHANGEABLE: [&'static str; 5] =
        ["sac.gamma", "sac.tau", "sac.alpha", "sac.actor_lr", "sac.critic_lr"];

    /// Checks every value against its range; the replay buffer holds so many transitions.
    pub fn validate(&self, capacity: usize) -> Result<(), ConfigError> {
        range::layers("sac.hidden", &self.hidden)?;
        range::check(
            (2..=capacity.min(1_000_000)).contains(&self.batch),
            "sac.batch",
            self.batch,
            "at least 2 and at most replay.capacity or 1000000",
        )?;
        range::share("sac.gamma", self.gamma)?;
        range::check(
            self.tau > 0.0 && self.tau <= 1.0,
            "sac.tau",
            self.tau,
            "a number above 0 and at most 1",
        )?;
        range::not_negative("sac.alpha", self.alpha)?;
        range::positive("sac.actor_lr", self.actor_lr)?;
        range::positive("sac.critic_lr", self.critic_lr)
    }
}
