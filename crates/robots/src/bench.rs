//! stub
/// b
pub struct Bench;
/// r
pub struct Row;
