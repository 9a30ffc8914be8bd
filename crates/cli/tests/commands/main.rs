//! The commands as a user types them.

mod cluster;
mod common;

mod bench;
mod disk;
mod grid;
mod lists;
mod live;
mod odd;
mod own;
mod policies;
mod resume;
mod safety;
mod train;
