//! Who plays: whole episodes in parallel, running segments for on-policy learners.

pub mod episodes;
pub mod segments;
