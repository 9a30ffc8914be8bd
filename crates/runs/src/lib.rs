//! A run that lives on disk: whoever drives training - the command, a program of one's own, a cluster's
//! job - calls this.
//!
//! - [`driver`]: trains to the end, or until it is asked to stop: logs, checkpoints, the best policy.
//! - [`directory`]: the run directory, written; [`read`]: the same, read.
//! - [`checkpoint`]: the whole state of a run, for going on with it.
//! - [`policy`], [`export`]: what a run leaves behind, and how others load it; [`interface`]: what it acts in,
//!   where that is none of this program's.
//! - [`task_copy`]: the copy of a user's own task that a run keeps.
//! - [`output`]: files that a user asks for, never over something else.
//! - [`grid`], [`experiment`]: many runs; [`paper`]: the paper's.

pub mod checkpoint;
pub mod directory;
pub mod driver;
mod every;
pub mod experiment;
pub mod export;
mod files;
pub mod grid;
pub mod interface;
pub mod lock;
pub mod output;
pub mod paper;
pub mod players;
pub mod policy;
pub mod process;
mod protobuf;
pub mod provenance;
pub mod read;
pub mod shell;
pub mod task_copy;
mod tensorboard;
