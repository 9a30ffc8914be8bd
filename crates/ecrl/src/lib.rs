//! Constrained reinforcement learning: algorithms that earn reward and keep their constraints.
//!
//! What an algorithm is, and the loop that trains any:
//! - [`algorithm`]: the trait every algorithm fulfils, and what a row of the table says.
//! - [`trainer`]: the training loop; [`context`]: what an algorithm may use in it; [`best`]: how
//!   policies did, and the best of a run.
//! - [`config`]: every value a run depends on; [`metrics`]: every number it tells of itself;
//!   [`state`]: one walk over everything that lasts.
//! - [`evaluate`](mod@evaluate): what a policy is worth; [`until`]: when a run has done enough.
//!
//! Parts, and what is composed of them:
//! - [`collect`]: who plays. [`memory`]: what is learnt from. [`multipliers`]: how λ answers
//!   violations. [`population`]: how actors are ranked and varied. [`learners`]: gradient learners.
//! - [`algorithms`]: the compositions, and their table.
//!
//! Nothing here knows more of a task than [`cmdp::Env`], or writes to a disk.

pub mod algorithm;
pub mod algorithms;
pub mod best;
pub mod collect;
pub mod config;
pub mod context;
pub mod evaluate;
mod judge;
pub mod learners;
pub mod memory;
pub mod metrics;
pub mod multipliers;
mod pending;
pub mod population;
pub mod state;
pub mod trainer;
pub mod until;
