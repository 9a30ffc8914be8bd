//! The constraint buffer B_C: what past episodes cost, whoever played them.

use std::collections::VecDeque;

use cmdp::Rng;
use rand::RngExt as _;
use serde::{Deserialize, Serialize};

/// The values J_C of the last episodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConstraintBuffer {
    capacity: usize,
    episodes: VecDeque<Vec<f64>>,
}

impl ConstraintBuffer {
    /// An empty buffer for `capacity` episodes.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, episodes: VecDeque::new() }
    }

    /// Adds an episode, in place of the oldest when the buffer is full.
    pub fn push(&mut self, values: Vec<f64>) {
        if self.episodes.len() == self.capacity {
            self.episodes.pop_front();
        }
        self.episodes.push_back(values);
    }

    /// A batch drawn uniformly, with replacement; empty while the buffer is.
    pub fn sample(&self, batch: usize, rng: &mut Rng) -> Vec<&Vec<f64>> {
        let count = if self.episodes.is_empty() { 0 } else { batch };
        (0..count).map(|_| &self.episodes[rng.random_range(0..self.episodes.len())]).collect()
    }

    /// Whether another could stand here, with so many values for each episode.
    pub fn fits(&self, other: &Self, constraints: usize) -> bool {
        self.capacity == other.capacity
            && self.episodes.len() <= self.capacity
            && self.episodes.iter().all(|values| values.len() == constraints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_keeps_the_newest_and_draws_from_all_it_keeps() {
        let mut buffer = ConstraintBuffer::new(3);
        let mut rng = cmdp::rng([1; 4]);
        assert!(buffer.sample(5, &mut rng).is_empty());
        (0..5).for_each(|i| buffer.push(vec![f64::from(i)]));
        let drawn = buffer.sample(3000, &mut rng);
        for i in 0..5 {
            let count = drawn.iter().filter(|values| values[0] == f64::from(i)).count();
            assert!(if i < 2 { count == 0 } else { (850..1150).contains(&count) }, "{i}: {count}");
        }
    }
}
