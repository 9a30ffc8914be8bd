//! The replay buffer B_R: a ring of transitions, each with the multipliers it was collected under.
//!
//! A transition is one row of f32 numbers, so that drawing it touches a few neighbouring cache
//! lines. Memory is taken in segments as rows arrive, never all at once and never moved.

use cmdp::Rng;
use rand::RngExt as _;

/// Rows in a segment.
const SEGMENT: usize = 4096;

/// One transition `(s, a, r, c[], λ[], s', terminated)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transition<'a> {
    /// The observation before the step, s.
    pub obs: &'a [f32],
    /// The action, a.
    pub action: &'a [f32],
    /// The reward, r.
    pub reward: f32,
    /// The cost of every constraint, c.
    pub costs: &'a [f32],
    /// The multiplier of every constraint when the transition was collected, λ.
    pub multipliers: &'a [f32],
    /// The observation after the step, s'.
    pub next_obs: &'a [f32],
    /// Whether the task ended; a time limit is no end.
    pub terminated: bool,
}

/// A ring of transitions.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    obs: usize,
    action: usize,
    constraints: usize,
    capacity: usize,
    segments: Vec<Box<[f32]>>,
    /// Which segments have changed since they were last stored.
    changed: Vec<bool>,
    len: usize,
    next: usize,
}

impl Replay {
    /// An empty ring for `capacity` transitions of these sizes.
    pub fn new(capacity: usize, obs: usize, action: usize, constraints: usize) -> Self {
        assert!(capacity > 0, "capacity");
        Self {
            obs,
            action,
            constraints,
            capacity,
            segments: vec![],
            changed: vec![],
            len: 0,
            next: 0,
        }
    }

    /// Transitions held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Transitions it can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether nothing has been stored yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn width(&self) -> usize {
        2 * self.obs + self.action + 2 + 2 * self.constraints
    }

    /// Stores a transition, in place of the oldest when the ring is full.
    pub fn push(&mut self, transition: Transition) {
        let width = self.width();
        if self.next == self.segments.len() * SEGMENT {
            let rows = SEGMENT.min(self.capacity - self.next);
            self.segments.push(vec![0.0; rows * width].into_boxed_slice());
            self.changed.push(true);
        }
        self.changed[self.next / SEGMENT] = true;
        let start = self.next % SEGMENT * width;
        let row = &mut self.segments[self.next / SEGMENT][start..start + width];
        let Transition { obs, action, reward, costs, multipliers, next_obs, terminated } =
            transition;
        let end = [reward, f32::from(terminated)];
        let mut at = 0;
        for part in [obs, action, next_obs, &end, costs, multipliers] {
            row[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        assert_eq!(at, width, "sizes of the transition");
        self.next = (self.next + 1) % self.capacity;
        self.len = (self.len + 1).min(self.capacity);
    }

    /// The transition in a place of the ring.
    pub fn get(&self, index: usize) -> Transition<'_> {
        assert!(index < self.len, "transition {index} of {}", self.len);
        let start = index % SEGMENT * self.width();
        let row = &self.segments[index / SEGMENT][start..start + self.width()];
        let (obs, row) = row.split_at(self.obs);
        let (action, row) = row.split_at(self.action);
        let (next_obs, row) = row.split_at(self.obs);
        let (end, row) = row.split_at(2);
        let (costs, multipliers) = row.split_at(self.constraints);
        let (reward, terminated) = (end[0], end[1] != 0.0);
        Transition { obs, action, reward, costs, multipliers, next_obs, terminated }
    }

    /// A transition drawn uniformly.
    pub fn sample(&self, rng: &mut Rng) -> Transition<'_> {
        self.get(rng.random_range(0..self.len))
    }

    /// Where the next transition goes.
    pub fn next(&self) -> usize {
        self.next
    }

    /// All segments of the ring, each with whether it has changed since
    /// [`all_stored`](Self::all_stored).
    pub fn segments(&self) -> impl Iterator<Item = (&[f32], bool)> {
        self.segments.iter().map(|segment| &**segment).zip(self.changed.iter().copied())
    }

    /// Takes note that every segment has been stored.
    pub fn all_stored(&mut self) {
        self.changed.fill(false);
    }

    /// Whether what was stored could stand here.
    pub fn fits(&self, stored: &StoredReplay) -> bool {
        let bytes = |segment: &Vec<f32>| size_of_val(&segment[..]) as u64;
        let sizes: Vec<u64> = stored.segments.iter().map(bytes).collect();
        self.fits_sizes(&sizes, stored.len, stored.next)
    }

    /// The same, by the bytes of its segments, how many transitions there are and where the next goes.
    pub fn fits_sizes(&self, segments: &[u64], len: usize, next: usize) -> bool {
        let row = (self.width() * size_of::<f32>()) as u64;
        len <= self.capacity
            && next < self.capacity
            && (len == self.capacity || next == len)
            && segments.len() == len.max(next).div_ceil(SEGMENT)
            && segments
                .iter()
                .enumerate()
                .all(|(i, bytes)| *bytes == SEGMENT.min(self.capacity - i * SEGMENT) as u64 * row)
    }

    /// Goes back to what was stored, which must fit.
    pub fn restore(&mut self, stored: StoredReplay) {
        assert!(self.fits(&stored), "a replay buffer of this size");
        let StoredReplay { segments, len, next } = stored;
        self.changed = vec![false; segments.len()];
        self.segments = segments.into_iter().map(Vec::into_boxed_slice).collect();
        (self.len, self.next) = (len, next);
    }

    /// Bytes taken by the transitions.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| size_of_val(&**segment)).sum()
    }
}

/// A replay buffer as it comes from disk.
#[derive(Debug, Default)]
pub struct StoredReplay {
    /// The rows, in segments.
    pub segments: Vec<Vec<f32>>,
    /// How many there are.
    pub len: usize,
    /// Where the next one goes.
    pub next: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(replay: &mut Replay, i: usize) {
        let x = i as f32;
        replay.push(Transition {
            obs: &[x, 1.0],
            action: &[x + 0.25],
            reward: -x,
            costs: &[x + 0.5, 2.0],
            multipliers: &[x + 0.75, 3.0],
            next_obs: &[x + 1.0, 4.0],
            terminated: i % 2 == 1,
        });
    }

    #[test]
    fn every_part_comes_back() {
        let mut replay = Replay::new(10, 2, 1, 2);
        push(&mut replay, 3);
        let expected = Transition {
            obs: &[3.0, 1.0],
            action: &[3.25],
            reward: -3.0,
            costs: &[3.5, 2.0],
            multipliers: &[3.75, 3.0],
            next_obs: &[4.0, 4.0],
            terminated: true,
        };
        assert_eq!(replay.get(0), expected);
    }

    #[test]
    fn the_oldest_is_overwritten_when_full() {
        let capacity = SEGMENT + 10; // the last segment is short
        let mut replay = Replay::new(capacity, 2, 1, 2);
        (0..capacity + 3).for_each(|i| push(&mut replay, i));
        assert_eq!(replay.len(), capacity);
        let held: Vec<f32> = (0..capacity).map(|i| -replay.get(i).reward).collect();
        assert_eq!(held[..3], [capacity as f32, capacity as f32 + 1.0, capacity as f32 + 2.0]);
        assert_eq!(held[3..6], [3.0, 4.0, 5.0]);
        assert_eq!(held[capacity - 1], capacity as f32 - 1.0);
    }

    #[test]
    fn memory_is_taken_as_it_fills() {
        let mut replay = Replay::new(1_000_000, 17, 6, 1);
        assert_eq!(replay.bytes(), 0);
        let (obs, one) = ([0.0; 17], [0.0]);
        for _ in 0..50_000 {
            replay.push(Transition {
                obs: &obs,
                action: &[0.0; 6],
                reward: 0.0,
                costs: &one,
                multipliers: &one,
                next_obs: &obs,
                terminated: false,
            });
        }
        let row = 4 * replay.width();
        assert!(replay.bytes() < (50_000 + SEGMENT) * row);
    }

    #[test]
    fn draws_are_uniform() {
        let mut replay = Replay::new(8, 2, 1, 2);
        (0..8).for_each(|i| push(&mut replay, i));
        let mut rng = cmdp::rng([1; 4]);
        let mut counts = [0; 8];
        for _ in 0..80_000 {
            counts[-replay.sample(&mut rng).reward as usize] += 1;
        }
        // Each is binomial with mean 10 000 and deviation 94.
        assert!(counts.iter().all(|&n: &i32| (n - 10_000).abs() < 400), "{counts:?}");
    }
}
