//! stub
/// b
pub struct Replay;
/// r
pub struct ReplayError;
