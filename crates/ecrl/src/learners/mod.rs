//! Gradient learners: what turns experience into a better policy.

pub mod critic;
pub(crate) mod moments;
pub mod off_policy;
pub mod ppo;
pub mod sac;
pub mod td3;
pub mod trust_region;

use crate::metrics::Metric;

/// The critics' loss.
pub static CRITIC_LOSS: Metric<f64> = Metric::new(
    "critic_loss",
    "train/critic_loss",
    "",
    "The critics' loss, mean over the generation's updates",
);
/// The actor's loss.
pub static ACTOR_LOSS: Metric<f64> = Metric::new(
    "actor_loss",
    "train/actor_loss",
    "",
    "The policy's loss, mean over the generation's updates",
);
/// The policy's entropy.
pub static ENTROPY: Metric<f64> = Metric::new(
    "entropy",
    "train/entropy",
    "nats",
    "The policy's entropy, mean over the generation's updates",
);
