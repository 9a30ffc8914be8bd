//! The values of PPO's family.

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, Pace, range};

/// What all algorithms compute with that have PPO's networks, batches and critics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActorCriticConfig {
    /// Units of the hidden layers of all networks, with tanh.
    pub hidden: Vec<usize>,
    /// Environments that play side by side; each goes on where it was.
    pub envs: usize,
    /// Environment steps played, by all of them, before they are learnt from.
    pub collect: usize,
    /// Times that all of them are learnt from by what learns in minibatches.
    pub epochs: usize,
    /// Steps in a minibatch.
    pub batch: usize,
    /// Learning rate of what learns in minibatches.
    pub lr: f64,
    /// Whether it falls to 0 over the run, in a straight line.
    pub lr_decay: bool,
    /// Discount γ; nearer to 1 looks further ahead.
    pub gamma: f64,
    /// The same for costs.
    pub cost_gamma: f64,
    /// Weight of longer looks ahead in advantages; less is steadier and more biased.
    pub gae: f64,
    /// Longest gradient of all that learns in minibatches together; longer ones are shortened.
    pub max_grad_norm: f64,
    /// log σ at the start.
    pub log_sigma: f64,
    /// What share of every threshold is kept in hand: it aims at ε less this much of |ε|, as what is played next
    /// is never quite what was played.
    pub margin: f64,
}

/// The quick values: small networks, and a margin.
impl Default for ActorCriticConfig {
    fn default() -> Self {
        Self {
            hidden: vec![64, 64],
            envs: 2,
            collect: 2048,
            epochs: 10,
            batch: 64,
            lr: 3e-4,
            lr_decay: true,
            gamma: 0.99,
            cost_gamma: 0.99,
            gae: 0.95,
            max_grad_norm: 0.5,
            log_sigma: -0.5,
            margin: 0.1,
        }
    }
}

impl ActorCriticConfig {
    /// The keys whose values may change in the midst of a run.
    pub const CHANGEABLE: [&'static str; 7] = [
        "actor_critic.lr",
        "actor_critic.lr_decay",
        "actor_critic.gamma",
        "actor_critic.cost_gamma",
        "actor_critic.gae",
        "actor_critic.max_grad_norm",
        "actor_critic.margin",
    ];

    /// The same as PPO's values; advantages are estimated once.
    pub fn ppo(&self) -> PpoConfig {
        PpoConfig { actor_critic: self.clone(), ..PpoConfig::fast() }
    }

    /// How its algorithms play.
    pub fn pace(&self) -> Pace {
        Pace { running: self.envs, length_matters: self.lr_decay }
    }

    /// Checks every value against its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_in("actor_critic")
    }

    /// The same, where the section has this name.
    fn validate_in(&self, section: &str) -> Result<(), ConfigError> {
        let Self { hidden, envs, collect, epochs, batch, log_sigma, .. } = self;
        let key = |name: &str| format!("{section}.{name}");
        range::layers(&key("hidden"), hidden)?;
        range::check((1..=1000).contains(envs), &key("envs"), envs, "1 to 1000")?;
        range::check(
            (*envs..=1_000_000).contains(collect),
            &key("collect"),
            collect,
            &format!("at least {section}.envs and at most 1000000"),
        )?;
        range::many(&key("epochs"), *epochs)?;
        range::check(
            (1..=*collect).contains(batch),
            &key("batch"),
            batch,
            &format!("at least 1 and at most {section}.collect"),
        )?;
        range::positive(&key("lr"), self.lr)?;
        range::positive(&key("max_grad_norm"), self.max_grad_norm)?;
        range::share(&key("gamma"), self.gamma)?;
        range::share(&key("cost_gamma"), self.cost_gamma)?;
        range::share(&key("gae"), self.gae)?;
        range::share(&key("margin"), self.margin)?;
        range::check(
            nets::gaussian::LOG_SIGMA.contains(&(*log_sigma as f32)),
            &key("log_sigma"),
            log_sigma,
            "a number from -20 to 2",
        )
    }
}

/// What PPO computes with. The usual values are those of Tianshou's example on these tasks, to which the
/// paper refers, with the paper's networks; but that has 64 environments, which would not end an episode
/// of 1000 steps in the first 64000.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PpoConfig {
    /// What it shares with others.
    #[serde(flatten)]
    pub actor_critic: ActorCriticConfig,
    /// How far the ratio ρ may move before the objective stops rewarding it.
    pub clip: f64,
    /// Weight of the critics' loss, which matters only to the gradient's norm.
    pub value_coef: f64,
    /// Whether the critics' loss is clipped as the policy's is.
    pub value_clip: bool,
    /// Weight of the policy's entropy.
    pub entropy_coef: f64,
    /// Whether advantages are estimated anew before every epoch.
    pub recompute_advantages: bool,
    /// Whether the advantages of a minibatch are brought to mean 0 and deviation 1.
    pub normalise_advantages: bool,
}

impl Default for PpoConfig {
    fn default() -> Self {
        Self {
            actor_critic: ActorCriticConfig {
                hidden: vec![256, 256],
                margin: 0.0,
                ..ActorCriticConfig::default()
            },
            clip: 0.2,
            value_coef: 0.25,
            value_clip: false,
            entropy_coef: 0.0,
            recompute_advantages: true,
            normalise_advantages: false,
        }
    }
}

impl PpoConfig {
    /// The keys whose values may change in the midst of a run.
    pub const CHANGEABLE: [&'static str; 10] = [
        "ppo.lr",
        "ppo.lr_decay",
        "ppo.gamma",
        "ppo.cost_gamma",
        "ppo.gae",
        "ppo.max_grad_norm",
        "ppo.margin",
        "ppo.clip",
        "ppo.value_coef",
        "ppo.entropy_coef",
    ];

    /// Smaller networks, advantages that are estimated once and normalised, and a margin: several times as fast.
    pub fn fast() -> Self {
        Self {
            actor_critic: ActorCriticConfig::default(),
            recompute_advantages: false,
            normalise_advantages: true,
            ..Self::default()
        }
    }

    /// How its algorithms play.
    pub fn pace(&self) -> Pace {
        self.actor_critic.pace()
    }

    /// Checks every value against its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let clip = self.clip;
        self.actor_critic.validate_in("ppo")?;
        range::check(clip > 0.0 && clip < 1.0, "ppo.clip", clip, "a number between 0 and 1")?;
        range::not_negative("ppo.value_coef", self.value_coef)?;
        range::not_negative("ppo.entropy_coef", self.entropy_coef)
    }
}
