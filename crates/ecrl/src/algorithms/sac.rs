//! SAC on rewards shaped by Lagrange multipliers, without a population.
//!
//! The learner plays its episodes, each transition is stored with the multipliers λ it was collected
//! under, and SAC learns from `r - λ·c`. `sac` has none; those of `rcpo` answer each generation's
//! episodes: `λ ← max(0, λ + η·mean(J_C - ε))`.
//!
//! 1. Haarnoja et al., Soft Actor-Critic, ICML 2018.
//! 2. Tessler, Mankowitz & Mannor, Reward Constrained Policy Optimization, ICLR 2019.

use cmdp::EnvSpec;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Definition, PAPER, Preset, Setup};
use crate::collect::episodes::{Rollout, constraint_values};
use crate::config::{ConfigError, Section};
use crate::context::Context;
use crate::learners::ENTROPY;
use crate::learners::critic::Price;
use crate::learners::off_policy::{
    self, AUTHORS, AUTHORS_LEARNER, LearnerConfig, OffPolicy, QUICK, ReplayConfig,
};
use crate::learners::sac::{Sac, SacConfig};
use crate::metrics::{About, Figures, Record};
use crate::multipliers::{AUTHORS_ASCENT, LAMBDA_LEARNER, Multipliers, Rule};
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

use super::off_policy::{Alone, Pricing};

/// `rcpo`
pub static RCPO: Definition<Alone<Sac, Stored>> = Definition {
    name: "rcpo",
    description: "SAC with an adaptive penalty, no population (Tessler et al., 2019)",
    defaults: || SacSection::new(Rule::ascent()),
    presets: &[PAPER, Preset { toml: &[AUTHORS_LEARNER, AUTHORS_ASCENT], ..AUTHORS }, QUICK],
};

/// `sac`
pub static SAC: Definition<Alone<Sac, Stored>> = Definition {
    name: "sac",
    description: "SAC by reward alone, no population (Haarnoja et al., 2018)",
    defaults: || SacSection::new(Rule::None),
    presets: &[PAPER, Preset { toml: &[AUTHORS_LEARNER], ..AUTHORS }, QUICK],
};

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SacSection {
    /// When it plays and learns.
    pub learner: LearnerConfig,
    /// Its networks and updates.
    pub sac: SacConfig,
    /// What it learns from.
    pub replay: ReplayConfig,
    /// The multipliers of its transitions.
    pub multipliers: Rule,
}

impl SacSection {
    fn new(multipliers: Rule) -> Self {
        let (learner, sac, replay) = Default::default();
        Self { learner, sac, replay, multipliers }
    }
}

impl Section for SacSection {
    fn validate(&self) -> Result<(), ConfigError> {
        off_policy::validate(&self.learner, &self.replay)?;
        self.sac.validate(self.replay.capacity)?;
        self.multipliers.validate_alone()
    }

    fn changeable() -> Vec<&'static str> {
        [&SacConfig::CHANGEABLE[..], &[Rule::CHANGEABLE]].concat()
    }
}

/// Costs in the reward, by the multipliers that a transition was collected under.
pub struct Stored {
    multipliers: Box<dyn Multipliers>,
    /// J_C of the current generation's episodes.
    values: Vec<Vec<f64>>,
}

impl Pricing<Sac> for Stored {
    type Section = SacSection;

    fn metrics() -> Vec<&'static About> {
        vec![&ENTROPY.about, &LAMBDA_LEARNER.about]
    }

    fn new(section: SacSection, setup: Setup) -> Result<(OffPolicy<Sac>, Self), TrainError> {
        let SacSection { learner, sac, replay, multipliers } = section;
        let sizes = [setup.spec.observation, setup.spec.action, 0];
        let sac = Sac::new(sac, sizes, setup.rng);
        let learner = OffPolicy::new(learner, sac, &replay, setup.spec);
        let multipliers = multipliers.build(setup.spec.constraints.len(), 0, setup.rng)?;
        Ok((learner, Self { multipliers, values: Vec::new() }))
    }

    fn stored(&self) -> Option<&[f64]> {
        Some(self.multipliers.of_learner())
    }

    fn observe(&mut self, played: &[Rollout], _: &EnvSpec, _: bool) {
        self.values = constraint_values(played);
    }

    fn update(&mut self, learner: &mut OffPolicy<Sac>, context: &Context) -> Figures {
        learner.update(context, Price::Stored)
    }

    fn conclude(&mut self, spec: &EnvSpec, learning: bool, record: &mut Record) {
        if learning {
            self.multipliers.update_learner(&self.values, &spec.constraints);
        }
        record.set(&LAMBDA_LEARNER, self.multipliers.of_learner().to_vec());
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.multipliers.walk(walk)?;
        walk.plain("values", &mut self.values)
    }
}
