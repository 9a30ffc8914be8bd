//! The paper's multipliers: each slot of the population has its own, which answers a batch drawn from
//! the constraint buffer B_C; the learner's answers the generation, B_C^g.

use cmdp::{Constraint, Rng};
use rand::RngExt as _;

use crate::memory::constraint_buffer::ConstraintBuffer;
use crate::state::{StateError, Walk};

use super::{Ascent, Multipliers};

/// The learner's λ_π and each slot's λ_k.
#[derive(Debug, Clone, PartialEq)]
pub struct PerActor {
    learner: Ascent,
    slots: Vec<Ascent>,
    /// B_C.
    buffer: ConstraintBuffer,
    batch: usize,
}

impl PerActor {
    /// Slots whose multipliers start uniformly between 0 and `most`, which each constraint has its own
    /// of.
    pub fn new(
        learner: Ascent,
        most: &[f64],
        slots: usize,
        buffer: usize,
        batch: usize,
        rng: &mut Rng,
    ) -> Self {
        let mut own = || most.iter().map(|most| most * rng.random::<f64>()).collect();
        let slots = (0..slots).map(|_| learner.with(own())).collect();
        Self { learner, slots, buffer: ConstraintBuffer::new(buffer), batch }
    }
}

impl Multipliers for PerActor {
    fn of_learner(&self) -> &[f64] {
        self.learner.of_learner()
    }

    fn of_actor(&self, slot: usize) -> &[f64] {
        self.slots[slot].of_learner()
    }

    fn remember(&mut self, generation: &[Vec<f64>]) {
        generation.iter().for_each(|values| self.buffer.push(values.clone()));
    }

    fn update_learner(&mut self, generation: &[Vec<f64>], constraints: &[Constraint]) {
        self.learner.update_learner(generation, constraints);
    }

    fn update_actor(&mut self, slot: usize, constraints: &[Constraint], rng: &mut Rng) {
        self.slots[slot].step(self.buffer.sample(self.batch, rng), constraints);
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.learner.walk(walk)?;
        for (slot, own) in self.slots.iter_mut().enumerate() {
            own.walk_as(&format!("lambda{slot}"), walk)?;
        }
        let constraints = self.learner.of_learner().len();
        walk.fitting(
            "constraint_buffer",
            &mut self.buffer,
            "values of as many constraints, and as many episodes",
            |b, own| b.fits(own, constraints),
        )
    }
}
