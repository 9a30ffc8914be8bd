//! How fast this machine runs ecrl: what `ecrl bench` prints.
//!
//! - [`tasks`]: environment steps a second, beside the physics alone.
//! - [`update`](mod@update): one gradient update, beside how fast this machine multiplies at all.
//! - [`ppo`](mod@ppo): a batch played and learnt from.
//! - [`es`](mod@es): how busy evolution strategies keep the threads.
//!
//! They live apart from the libraries, which need none of their yardsticks.

pub mod es;
pub mod ppo;
pub mod tasks;
pub mod update;
