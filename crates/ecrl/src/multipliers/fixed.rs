//! Multipliers that stay as they are; 0 means none.

use crate::state::{StateError, Walk};

use super::Multipliers;

/// The same λ for everyone, throughout.
#[derive(Debug, Clone, PartialEq)]
pub struct Fixed(Vec<f64>);

impl Fixed {
    /// One for each constraint.
    pub fn new(lambda: Vec<f64>) -> Self {
        Self(lambda)
    }
}

impl Multipliers for Fixed {
    fn of_learner(&self) -> &[f64] {
        &self.0
    }

    /// They are values of the configuration.
    fn walk(&mut self, _: &mut Walk) -> Result<(), StateError> {
        Ok(())
    }
}
