//! An actor's memory: where in the replay buffer that all share its own last transitions lie.
//!
//! Transitions are numbered as they are stored; number n lies in place n modulo the buffer's capacity until it is
//! overwritten.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::memory::replay::Replay;

/// The numbers of transitions, in pieces, the newest last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Memory {
    /// The first number of each and how many follow it.
    pieces: VecDeque<(u64, u64)>,
}

impl Memory {
    /// Adds a piece, and forgets the oldest beyond so many transitions.
    pub fn push(&mut self, first: u64, count: u64, most: u64) {
        self.pieces.push_back((first, count));
        self.forget(most);
    }

    /// The last transitions of two actors, half of each.
    pub fn of_both(a: &Self, b: &Self, most: u64) -> Self {
        let half = |memory: &Self| {
            let mut half = memory.clone();
            half.forget(most / 2);
            half.pieces
        };
        let mut pieces: Vec<(u64, u64)> = half(a).into_iter().chain(half(b)).collect();
        pieces.sort();
        Self { pieces: pieces.into() }
    }

    fn forget(&mut self, most: u64) {
        let mut beyond = self.count().saturating_sub(most);
        while let Some((first, count)) = self.pieces.front_mut()
            && beyond > 0
        {
            let gone = beyond.min(*count);
            (*first, *count, beyond) = (*first + gone, *count - gone, beyond - gone);
            if *count == 0 {
                self.pieces.pop_front();
            }
        }
    }

    /// Transitions it names.
    fn count(&self) -> u64 {
        self.pieces.iter().map(|(_, count)| count).sum()
    }

    /// Whether all that it names was stored, where `stored` were in all.
    pub fn fits(&self, stored: u64) -> bool {
        self.pieces.iter().all(|(first, count)| first.saturating_add(*count) <= stored)
    }

    /// The places in the buffer of those that are still there, where `stored` were in all.
    pub fn places(&self, replay: &Replay, stored: u64) -> Vec<usize> {
        let gone = stored.saturating_sub(replay.len() as u64);
        let numbers = self.pieces.iter().flat_map(|(first, count)| *first..first + count);
        let there = numbers.filter(|number| *number >= gone);
        let places = there.map(|number| (number % replay.capacity() as u64) as usize);
        places.filter(|place| *place < replay.len()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::replay::Transition;

    #[test]
    fn it_keeps_the_newest_and_names_what_is_still_there() {
        let mut replay = Replay::new(10, 1, 1, 0);
        let mut stored = 0;
        let (mut a, mut b) = (Memory::default(), Memory::default());
        let mut play = |memory: &mut Memory, count: u64| {
            for i in 0..count {
                let x = [(stored + i) as f32];
                replay.push(Transition {
                    obs: &x,
                    action: &[0.0],
                    reward: 0.0,
                    costs: &[],
                    multipliers: &[],
                    next_obs: &[0.0],
                    terminated: false,
                });
            }
            memory.push(stored, count, 6);
            stored += count;
        };
        play(&mut a, 3); // 0 to 2
        play(&mut b, 2); // 3, 4
        play(&mut a, 5); // 5 to 9: of all, the last six are 2 and 5 to 9
        play(&mut b, 3); // 10 to 12, where 0 to 2 were
        let held = |memory: &Memory| -> Vec<f32> {
            memory.places(&replay, stored).into_iter().map(|i| replay.get(i).obs[0]).collect()
        };
        assert_eq!(held(&a), [5.0, 6.0, 7.0, 8.0, 9.0]);
        assert_eq!(held(&b), [3.0, 4.0, 10.0, 11.0, 12.0]);
        assert_eq!(held(&Memory::of_both(&a, &b, 5)), [8.0, 9.0, 11.0, 12.0]);
        assert!(a.fits(10) && !a.fits(9));
    }
}
