//! Constrained reinforcement learning: algorithms that earn reward and keep their constraints.
//!
//! - [`config`]: every value a run depends on; the defaults are the paper's.
//! - [`algorithm`]: the table of algorithms.
//! - [`trainer`]: the training loop.
//! - [`ranking`], [`variation`]: how the population evolves.
//! - [`ppo`]: the learner of PPO and IPO.
//! - [`sac`]: the learner of all others; [`replay`]: what it learns from; [`constraint`]: its multipliers.
//! - [`rollout`]: playing episodes on all threads.
//! - [`checkpoint`]: the whole state of a run, for going on with it.
//! - [`record`], [`policy`], [`run`], [`tensorboard`]: what a run leaves on disk.
//! - [`evaluate`], [`export`]: what a policy is worth, and how others load it.
//! - [`grid`]: experiments of many runs.
//! - [`bench`]: how fast it learns.
//!
//! The algorithms know only [`cmdp::Env`]; any task will do.

pub mod algorithm;
pub mod bench;
pub mod checkpoint;
pub mod config;
pub mod constraint;
pub mod evaluate;
mod evolution;
pub mod export;
pub mod grid;
mod on_policy;
pub mod policy;
pub mod ppo;
pub mod ranking;
pub mod record;
pub mod replay;
pub mod rollout;
pub mod run;
pub mod sac;
pub mod tensorboard;
pub mod trainer;
pub mod variation;
