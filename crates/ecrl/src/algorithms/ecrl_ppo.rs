//! ECRL on PPO: learners side by side, each with multipliers or barriers of its own, of which selection leaves
//! ever fewer.
//!
//! Every generation each learner plays a batch of `collect` steps and learns from it, as it would alone. Then stochastic
//! ranking orders them by their last episodes, sampled as they are trained:
//!
//! ```text
//! reward of a learner: the mean return; violation: φ of the mean J_C        over its last `judged` episodes
//! at the shares of the run in `halve_at`:          the worse half leaves, its environments go to the others
//! before the last of these, every `copy_every` of the run:     the last becomes a copy of the first
//! ```
//!
//! So the steps go to whoever does best, and a learner that is stuck does not decide the run. Learners differ by
//! their genome: whether multipliers or a barrier price their costs (`learners`), where multipliers start
//! (`lambdas`), how far they look ahead (`horizons`), and how much they explore until the last halving
//! (`entropies`). Which of these serves a task is selected, too; the best with multipliers and the best within a barrier leave after all others, as the former break
//! constraints longer and come back with more. The first of the ranking is the policy that is tested. An episode under way in an environment that changes hands goes on, and
//! counts for who ends it.
//!
//! 1. Hu et al., Evolving Constrained Reinforcement Learning Policy, IJCNN 2023.
//! 2. Jaderberg et al., Population Based Training of Neural Networks, 2017.
//! 3. Jamieson & Talwalkar, Non-stochastic Best Arm Identification and Hyperparameter Optimization, AISTATS 2016:
//!    successive halving.

use cmdp::EnvSpec;
use nets::Mlp;
use rayon::prelude::*;

use crate::algorithm::{Algorithm, Build, Collected, Definition, Setup};
use crate::collect::episodes::excess;
use crate::config::ConfigError;
use crate::context::Context;
use crate::metrics::{About, EXCESS, Figures, Record, UNSTABLE, mean_of_all};
use crate::multipliers::LAMBDA_LEARNER;
use crate::population::census::Census;
use crate::population::selection::{self, LEARNERS, Selection, SelectionConfig};
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

use self::config::{EvolutionConfig, SelectedSection};
use self::member::Priced;
use super::on_policy::{Moment, OnPolicy, Variant as _};

mod config;
mod member;

/// `ecrl-ppo`
pub static ECRL_PPO: Definition<Selected> = Definition {
    name: "ecrl-ppo",
    description: "a population of ipo and rcpo-ppo learners that stochastic ranking narrows",
    defaults: SelectedSection::default,
    presets: &[],
};

/// The learners, and who of them is left.
pub struct Selected {
    section: SelectedSection,
    spec: EnvSpec,
    learners: Vec<OnPolicy<Priced>>,
    selection: Selection,
}

impl Build for Selected {
    type Section = SelectedSection;
    const STATE_VERSION: u32 = 5;
    const TAKES_CHOICES: bool = true;
    const TEST_SHARE: f64 = OnPolicy::<Priced>::TEST_SHARE;

    fn metrics() -> Vec<&'static About> {
        [&OnPolicy::<Priced>::metrics()[..], &selection::METRICS].concat()
    }

    fn new(section: Self::Section, setup: Setup) -> Result<Self, TrainError> {
        let Setup { spec, rng } = setup;
        let size = section.evolution.selection.population;
        let learner =
            |number| OnPolicy::new(section.of_genome(number), Setup { spec, rng: &mut *rng });
        let learners = (0..size).map(learner).collect::<Result<_, TrainError>>()?;
        Ok(Self { section, spec: spec.clone(), learners, selection: Selection::new(size) })
    }
}

impl Selected {
    /// Those left, with their numbers.
    fn left(&mut self) -> impl ParallelIterator<Item = (usize, &mut OnPolicy<Priced>)> {
        let left = &self.selection.left;
        self.learners.par_iter_mut().enumerate().filter(|(number, _)| left.contains(number))
    }

    /// Has those left explore as much as their genome and the time say.
    fn explore(&mut self, context: &Context) {
        let rest = self.section.evolution.selection.rest(context);
        for &number in &self.selection.left {
            let entropy = self.section.genome(self.selection.genomes[number]).entropy;
            let always = self.section.member.ppo.entropy_coef;
            self.learners[number].explore(always + rest * entropy);
        }
    }

    /// A learner with what a number began with, into which a state is loaded.
    fn blank(&self, genome: usize) -> OnPolicy<Priced> {
        let rng = &mut cmdp::rng([0; 4]);
        let learner =
            OnPolicy::new(self.section.of_genome(genome), Setup { spec: &self.spec, rng });
        learner.expect("one like it was made at the start")
    }

    /// The worse half leaves, or the last becomes a copy of the first, if it is time.
    fn select(&mut self, ranked: &[usize], context: &Context) {
        let EvolutionConfig { copy_every, selection: SelectionConfig { halve_at, .. }, .. } =
            &self.section.evolution;
        let kind = |number| self.section.genome(number).kind;
        if let Some(leave) = self.selection.halve(ranked, halve_at, kind, context) {
            return leave.iter().for_each(|&number| self.learners[number].forget());
        }
        let copying =
            *copy_every > 0.0 && (halve_at.is_empty() || self.selection.halved < halve_at.len());
        let since = context.env_steps.saturating_sub(self.selection.copied_at);
        let due = copying && since as f64 / context.config.steps as f64 >= *copy_every;
        if let [first, .., last] = *ranked
            && due
            && self.copy(first, last)
        {
            self.selection.copied(first, last, context.env_steps);
        }
    }

    /// Returns whether it could: what is not finite is not copied, and the run ends with its name.
    fn copy(&mut self, from: usize, to: usize) -> bool {
        let mut learner = self.blank(self.selection.genomes[from]);
        let store = Walk::save(|walk| self.learners[from].walk(walk));
        let copied = store.and_then(|store| Walk::load(&store, |walk| learner.walk(walk)));
        if copied.is_err() {
            return false;
        }
        self.learners[to] = learner;
        true
    }
}

/// The multipliers of a learner, as it would note them.
fn lambda(learner: &OnPolicy<Priced>) -> Vec<f64> {
    let mut record = Record::default();
    learner.variant().conclude(&mut record);
    record.get(&LAMBDA_LEARNER).unwrap_or_else(|| vec![0.0; learner.costs()])
}

impl Algorithm for Selected {
    fn collect(&mut self, context: &mut Context, record: &mut Record) -> Collected {
        let left = self.selection.left.clone();
        let actors: Vec<Mlp> = left.iter().map(|&number| self.learners[number].actor()).collect();
        let (steps, costs) = (self.learners[0].config().collect, self.learners[0].costs());
        let played = context.go_on(&actors, steps, costs);
        let constraints = &context.spec.constraints;
        let ended = played.iter().flat_map(|segment| &segment.ended);
        record.set(&EXCESS, excess(ended, constraints));
        record.set(&UNSTABLE, played.iter().map(|segment| segment.unstable as u64).sum());
        let mut collected = Collected { steps: 0, updates: 0 };
        for (number, segment) in left.into_iter().zip(played) {
            let config = &self.section.evolution.selection;
            self.selection.remember(number, &segment.ended, config);
            let Collected { steps, updates } = self.learners[number].take(segment, constraints);
            collected.steps += steps;
            collected.updates = collected.updates.max(updates);
        }
        collected
    }

    /// One of every learner's.
    fn update(&mut self, context: &Context) -> Figures {
        let steps = self.selection.left.iter().map(|&number| self.learners[number].rows() as u64);
        let moment = Moment::of(context, steps.sum());
        self.explore(context);
        let each = self.left().map(|(number, one)| one.update_at(moment.of_learner(number)));
        mean_of_all(&each.collect::<Vec<Figures>>())
    }

    fn conclude(&mut self, context: &Context, record: &mut Record) {
        for &number in &self.selection.left {
            self.learners[number].end_generation();
        }
        let learners = &self.learners;
        let selection = &self.section.evolution.selection;
        let lambda = |number: usize| lambda(&learners[number]);
        let ranked = self.selection.rank(selection, lambda, context, record);
        if let Some(ranked) = ranked {
            self.select(&ranked, context);
        }
        record.set(&LEARNERS, self.selection.left.len() as u64);
        self.learners[self.selection.leader].variant().conclude(record);
    }

    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        self.learners.iter_mut().try_for_each(|learner| learner.start_from(actor))
    }

    fn longest_generation(&self, _: &EnvSpec) -> u64 {
        (self.selection.left.len() * self.learners[0].config().collect) as u64
    }

    fn actor(&self) -> Mlp {
        self.learners[self.selection.leader].actor()
    }

    fn census(&self) -> Option<&Census> {
        self.selection.census.as_ref()
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        let (size, costs) = (self.learners.len(), self.learners[0].costs());
        let before = self.selection.genomes.clone();
        self.selection.walk(costs, walk)?;
        let genomes = walk.peek("selection", self.selection.clone())?.genomes;
        for number in 0..size {
            let walked = |learner: &mut OnPolicy<Priced>, walk: &mut Walk| {
                walk.within(&format!("learner{number}"), |walk| learner.walk(walk))
            };
            if genomes.get(number) == before.get(number) {
                walked(&mut self.learners[number], walk)?;
                continue;
            }
            // It had become a copy, and may learn as another than it began.
            let mut learner = self.blank(genomes[number]);
            walked(&mut learner, walk)?;
            if walk.is_loading() {
                self.learners[number] = learner;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
