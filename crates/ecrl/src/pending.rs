//! A generation that has been played and is being learnt from.

use serde::{Deserialize, Serialize};

use crate::metrics::Record;

/// A generation that has been played and is being learnt from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// What is known of it so far.
    pub record: Record,
    /// Environment steps it took.
    pub steps: u64,
    /// Updates it asks for.
    pub updates: u64,
    /// Updates done.
    pub done: u64,
    /// Sums over the updates done.
    pub figures: Record,
}

impl Pending {
    /// Updates for each step of a run that no algorithm asks for.
    const MOST_UPDATES: u64 = 10_000;

    /// The steps it took, less its share of those by the updates that are done.
    pub fn rest(&self) -> u64 {
        let left = u128::from(self.updates.saturating_sub(self.done));
        match self.updates {
            0 => 0,
            updates => (u128::from(self.steps) * left / u128::from(updates)) as u64,
        }
    }

    /// Whether it could be of a run that has taken so many steps: one that asks for more updates than
    /// anybody does would never end.
    pub fn is_within(&self, env_steps: u64) -> bool {
        self.steps <= env_steps
            && self.done <= self.updates
            && self.updates <= env_steps.saturating_mul(Self::MOST_UPDATES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_run_asks_for_is_none_of_its() {
        let pending = |steps, updates, done| Pending {
            record: Record::default(),
            steps,
            updates,
            done,
            figures: Record::default(),
        };
        assert!(pending(50, 500, 20).is_within(100));
        assert!(!pending(50, 1 << 62, 20).is_within(100), "it would never end");
        assert!(!pending(101, 500, 20).is_within(100));
        assert!(!pending(50, 500, 501).is_within(100));
        assert_eq!(pending(50, 500, 20).rest(), 48);
        assert_eq!(pending(50, 0, 0).rest(), 0);
        assert_eq!(pending(u64::MAX, u64::MAX, 0).rest(), u64::MAX);
    }
}
