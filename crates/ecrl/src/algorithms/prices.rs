//! What costs count for where learners and a population share a replay buffer.
//!
//! Multipliers of each actor's own are stored with what it plays, as in `ecrl`, and no cost has a critic. By any
//! other rule λ is in force when a learner learns, on critics of costs, as in `sac-lag`.

use cmdp::{EnvSpec, Rng};

use crate::collect::episodes::Rollout;
use crate::config::ConfigError;
use crate::context::{Context, Stream};
use crate::learners::critic::Price;
use crate::metrics::Record;
use crate::multipliers::{LAMBDA_LEARNER, Multipliers, Rule};
use crate::state::{StateError, Walk};

use super::sac_lag::{Critics, costs};

/// What costs count for.
pub struct Prices {
    critics: Critics,
    /// Of each actor's own.
    own: Option<Box<dyn Multipliers>>,
    /// J_C of the current generation's episodes.
    values: Vec<Vec<f64>>,
}

impl Prices {
    /// By a rule, for a task and so many slots of a population.
    pub fn new(
        rule: &Rule,
        spec: &EnvSpec,
        slots: usize,
        rng: &mut Rng,
    ) -> Result<Self, ConfigError> {
        let per_actor = matches!(rule, Rule::PerActor { .. });
        let in_force = if per_actor { &Rule::None } else { rule };
        let own = per_actor.then(|| rule.build(spec.constraints.len(), slots, rng)).transpose()?;
        Ok(Self { critics: Critics::new(in_force, spec, rng)?, own, values: Vec::new() })
    }

    /// How many costs have critics by a rule.
    pub fn critics(rule: &Rule, spec: &EnvSpec) -> usize {
        if matches!(rule, Rule::PerActor { .. }) { 0 } else { costs(rule, spec) }
    }

    /// The multipliers of a slot.
    pub fn of_actor(&self, slot: usize, spec: &EnvSpec) -> Vec<f64> {
        let own = self.own.as_ref().map(|own| own.of_actor(slot).to_vec());
        own.unwrap_or_else(|| self.of_learner(spec))
    }

    /// The learner's multipliers.
    pub fn of_learner(&self, spec: &EnvSpec) -> Vec<f64> {
        let own = self.own.as_ref().map(|own| own.of_learner().to_vec());
        own.unwrap_or_else(|| self.critics.lambda(spec))
    }

    /// Those that transitions are stored with, of a slot or else of the learner; 0 where those count that are in
    /// force later.
    pub fn stored(&self, slot: Option<usize>, spec: &EnvSpec) -> Vec<f64> {
        let of = |own: &dyn Multipliers| match slot {
            Some(slot) => own.of_actor(slot).to_vec(),
            None => own.of_learner().to_vec(),
        };
        self.own.as_deref().map_or_else(|| vec![0.0; spec.constraints.len()], of)
    }

    /// Takes note of what the learner played, and everyone's J_C; before the first update nothing answers it.
    pub fn observe(
        &mut self,
        learner: &[Rollout],
        values: Vec<Vec<f64>>,
        spec: &EnvSpec,
        learning: bool,
    ) {
        self.critics.observe(learner, spec, learning);
        if let Some(own) = &mut self.own {
            own.remember(&values);
            self.values = values;
        }
    }

    /// What costs count for in an update.
    pub fn price(&self) -> Price<'_> {
        self.critics.price()
    }

    /// The end of a generation, in which the learner took these slots.
    pub fn conclude(
        &mut self,
        taken: &[usize],
        context: &Context,
        learning: bool,
        record: &mut Record,
    ) {
        let constraints = &context.spec.constraints;
        if let Some(own) = &mut self.own {
            if learning {
                own.update_learner(&self.values, constraints);
            }
            for (i, &slot) in (0..).zip(taken) {
                let mut rng = cmdp::rng(context.key(Stream::Multipliers, i));
                own.update_actor(slot, constraints, &mut rng);
            }
        }
        record.set(&LAMBDA_LEARNER, self.of_learner(&context.spec));
    }

    /// Walks everything that lasts.
    pub fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.critics.walk(walk)?;
        let Some(own) = &mut self.own else { return Ok(()) };
        own.walk(walk)?;
        walk.plain("values", &mut self.values)
    }
}
