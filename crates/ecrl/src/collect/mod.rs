//! Who plays, and where: whole episodes, and running segments for on-policy learners.

pub mod episodes;
mod head;
pub mod remote;
pub mod segments;
pub mod stage;
