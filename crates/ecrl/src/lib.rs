//! Evolutionary constrained reinforcement learning.

pub mod bench;
pub mod replay;
pub mod sac;
