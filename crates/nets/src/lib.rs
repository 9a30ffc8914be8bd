//! Small neural networks, as fast as a CPU multiplies.
//!
//! - [`matrix`]: the one place that multiplies matrices.
//! - [`Mlp`]: fully connected layers; forward and backward for a batch, a lean path for one row.
//! - [`Tangent`]: how a network's output moves when its parameters do.
//! - [`Adam`]: the optimiser, with Polyak averaging of a target network.
//! - [`Trained`]: a network with its optimiser and its buffers.
//! - [`gaussian`]: the tanh-squashed Gaussian policy head; [`categorical`]: that of choices.
//! - [`store`]: named tensors on disk, as safetensors.
//! - [`simd`]: the vector instructions in use.
//! - [`threads`]: two pieces of work on two threads that do not fall asleep.
//!
//! Nothing here allocates once its buffers exist. Called in a pool of threads, a large product leaves
//! rows to those that have nothing to do; no bit of any result depends on it.

mod adam;
pub mod categorical;
mod constants;
pub mod gaussian;
pub mod matrix;
mod mlp;
pub mod simd;
pub mod store;
mod tangent;
pub mod threads;
mod trained;

pub use adam::Adam;
pub use mlp::{Activation, Mlp, Tape};
pub use tangent::Tangent;
pub use trained::Trained;
