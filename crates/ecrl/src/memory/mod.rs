//! What is learnt from: the replay buffer, batches of what was just played, past constraint values.

pub mod batch;
pub mod constraint_buffer;
pub mod replay;
