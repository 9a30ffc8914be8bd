//! The values of TD3.

use cmdp::Rng;
use nets::{Activation, Mlp};
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, range};

/// What the learner computes with. The usual values are its paper's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Td3Config {
    /// Units of the hidden layers of all networks.
    pub hidden: Vec<usize>,
    /// What follows the actor's hidden layers: relu or tanh.
    #[serde(default)]
    pub activation: Activation,
    /// Transitions in a batch.
    pub batch: usize,
    /// Discount γ; nearer to 1 looks further ahead.
    pub gamma: f64,
    /// Rate τ at which targets follow; less is steadier and slower.
    pub tau: f64,
    /// Learning rate of the actor.
    pub actor_lr: f64,
    /// Learning rate of the critics.
    pub critic_lr: f64,
    /// Updates of the critics for each of the actor and of the targets.
    pub delay: u64,
    /// Deviation of what is added to the actor's output, before tanh, when it plays; 0 for none.
    pub exploration: f64,
    /// Deviation of what is added to the target's actions.
    pub smoothing: f64,
    /// Most of what is added to them.
    pub smoothing_clip: f64,
}

impl Default for Td3Config {
    fn default() -> Self {
        Self {
            hidden: vec![256, 256],
            activation: Activation::Relu,
            batch: 256,
            gamma: 0.99,
            tau: 5e-3,
            actor_lr: 3e-4,
            critic_lr: 3e-4,
            delay: 2,
            exploration: 0.1,
            smoothing: 0.2,
            smoothing_clip: 0.5,
        }
    }
}

impl Td3Config {
    /// A new network of actions for these sizes.
    pub fn new_actor(&self, [obs, action]: [usize; 2], rng: &mut Rng) -> Mlp {
        Mlp::new(&[&[obs], &self.hidden[..], &[action]].concat(), self.activation, rng)
    }

    /// A network of actions as a policy like all others, with the noise it plays with.
    pub fn express(&self, net: &Mlp) -> Mlp {
        let actions = *net.sizes().last().expect("a layer");
        net.with_constants(&vec![nets::gaussian::clamp(self.exploration.ln() as f32); actions])
    }

    /// The keys whose values may change in the midst of a run.
    pub const CHANGEABLE: [&'static str; 8] = [
        "td3.gamma",
        "td3.tau",
        "td3.actor_lr",
        "td3.critic_lr",
        "td3.delay",
        "td3.exploration",
        "td3.smoothing",
        "td3.smoothing_clip",
    ];

    /// Checks every value against its range; the replay buffer holds so many transitions.
    pub fn validate(&self, capacity: usize) -> Result<(), ConfigError> {
        range::layers("td3.hidden", &self.hidden)?;
        range::check(
            (1..=capacity.min(1_000_000)).contains(&self.batch),
            "td3.batch",
            self.batch,
            "at least 1 and at most replay.capacity or 1000000",
        )?;
        range::share("td3.gamma", self.gamma)?;
        range::check(
            self.tau > 0.0 && self.tau <= 1.0,
            "td3.tau",
            self.tau,
            "a number above 0 and at most 1",
        )?;
        range::positive("td3.actor_lr", self.actor_lr)?;
        range::positive("td3.critic_lr", self.critic_lr)?;
        range::check((1..=1000).contains(&self.delay), "td3.delay", self.delay, "1 to 1000")?;
        range::not_negative("td3.exploration", self.exploration)?;
        range::not_negative("td3.smoothing", self.smoothing)?;
        range::not_negative("td3.smoothing_clip", self.smoothing_clip)
    }
}
