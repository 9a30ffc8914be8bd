//! ECRL on SAC: learners that share what everybody plays, of which selection leaves ever fewer.
//!
//! Every generation each learner plays its episodes, with sampled actions, into one replay buffer, and its
//! multipliers answer them; all learn from all that was played, each with critics of its own for the reward and for
//! every cost, as in `sac-lag`. Stochastic ranking orders them by their last episodes; the worse half leaves at
//! the shares of the run in `halve_at`, and its updates go to the others:
//!
//! ```text
//! updates of each learner, for a step that anybody plays        grad_steps_per_env_step / learners left
//! ```
//!
//! Learners differ by their genome: how far they look ahead (`horizons`) and how much they explore
//! (`temperatures`). As they share what is played, none is the poorer for what the others try; which of these
//! serves a task, selection finds out. The first of the ranking is the policy that is tested.
//!
//! 1. Hu et al., Evolving Constrained Reinforcement Learning Policy, IJCNN 2023.
//! 2. Khadka et al., Collaborative Evolutionary Reinforcement Learning, ICML 2019: a portfolio of learners with one
//!    replay buffer.
//! 3. Ha et al., Learning to Walk in the Real World with Minimal Human Effort, CoRL 2020.

use cmdp::{EnvSpec, Rng};
use nets::Mlp;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, Build, Collected, Definition, Setup};
use crate::collect::episodes::Rollout;
use crate::config::{ConfigError, Section, range};
use crate::context::{Context, Stream};
use crate::learners::ENTROPY;
use crate::learners::off_policy::{self, Experience, Learner, LearnerConfig, note_episodes};
use crate::learners::sac::{Sac, SacConfig};
use crate::memory::replay::Replay;
use crate::metrics::{About, Figures, Record, mean_of_all};
use crate::multipliers::{LAMBDA_LEARNER, Rule};
use crate::population::census::Census;
use crate::population::selection::{
    self, LEARNERS, Selection, SelectionConfig, dealt, validate_dealt,
};
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

use super::sac::SacSection;
use super::sac_lag::{Critics, costs, fast_sac};

/// `ecrl-sac`
pub static ECRL_SAC: Definition<Portfolio> = Definition {
    name: "ecrl-sac",
    description: "a population of sac-lag learners that share what they play and that stochastic ranking narrows",
    defaults: PortfolioSection::default,
    presets: &[],
};

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PortfolioSection {
    /// Each learner's; they share the replay buffer and the updates.
    #[serde(flatten)]
    pub member: SacSection,
    /// The population.
    pub evolution: EvolutionConfig,
}

/// The population: what its learners differ in, and how they are selected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvolutionConfig {
    /// How many times as far as with sac.gamma they look ahead, dealt out in turn: γ = 1 - (1 - sac.gamma)/horizon.
    pub horizons: Vec<f64>,
    /// How many times sac.alpha their temperature is, dealt out in turn; more explores more.
    pub temperatures: Vec<f64>,
    /// How they are selected.
    #[serde(flatten)]
    pub selection: SelectionConfig,
}

impl Default for PortfolioSection {
    fn default() -> Self {
        let evolution = EvolutionConfig {
            horizons: vec![1.0, 2.0, 1.0, 10.0],
            temperatures: vec![1.0, 1.0, 0.1, 0.1],
            selection: SelectionConfig::of(4, &[0.3, 0.5]),
        };
        Self { member: fast_sac(Rule::relative()), evolution }
    }
}

impl PortfolioSection {
    /// What a learner has that began with this number: its discount and its temperature.
    fn genome(&self, number: usize) -> (f64, f64) {
        let (sac, EvolutionConfig { horizons, temperatures, .. }) =
            (&self.member.sac, &self.evolution);
        let gamma = 1.0 - (1.0 - sac.gamma) / dealt(horizons, number);
        (gamma, sac.alpha * dealt(temperatures, number))
    }
}

impl Section for PortfolioSection {
    fn validate(&self) -> Result<(), ConfigError> {
        let EvolutionConfig { horizons, temperatures, selection } = &self.evolution;
        self.member.validate()?;
        selection.validate(100, "100")?;
        for (key, factors) in
            [("evolution.horizons", horizons), ("evolution.temperatures", temperatures)]
        {
            let fits = |factor: &f64| (1e-6..=1e6).contains(factor);
            validate_dealt(key, factors, fits, "numbers from 1e-6 to 1e6")?;
        }
        let gamma = |number| self.genome(number).0;
        (0..selection.population)
            .try_for_each(|n| range::share("sac.gamma by evolution.horizons", gamma(n)))
    }

    fn pace(&self) -> crate::config::Pace {
        crate::config::Pace { length_matters: true, ..self.member.pace() }
    }

    fn changeable() -> Vec<&'static str> {
        SacSection::changeable()
    }
}

/// A learner, and what costs count for to it.
struct Member {
    sac: Sac,
    critics: Critics,
}

/// The learners, and what they learn from.
pub struct Portfolio {
    section: PortfolioSection,
    members: Vec<Member>,
    experience: Experience,
    selection: Selection,
    constraints: usize,
    /// Updates that what was played asks for, of each learner, and that are still to come.
    owed: f64,
}

impl Member {
    fn new(
        section: &PortfolioSection,
        number: usize,
        spec: &EnvSpec,
        rng: &mut Rng,
    ) -> Result<Self, ConfigError> {
        let SacSection { sac, multipliers: rule, .. } = &section.member;
        let (gamma, alpha) = section.genome(number);
        let sac = SacConfig { gamma, alpha, ..sac.clone() };
        let sac = Sac::new(sac, [spec.observation, spec.action, costs(rule, spec)], rng);
        Ok(Self { sac, critics: Critics::new(rule, spec, rng)? })
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.sac.walk(walk)?;
        self.critics.walk(walk)
    }
}

impl Build for Portfolio {
    type Section = PortfolioSection;

    fn metrics() -> Vec<&'static About> {
        let own = [&ENTROPY.about, &LAMBDA_LEARNER.about];
        [&off_policy::METRICS[..], &own, &selection::METRICS].concat()
    }

    fn new(section: PortfolioSection, Setup { spec, rng }: Setup) -> Result<Self, TrainError> {
        let SacSection { learner, replay, .. } = &section.member;
        let size = section.evolution.selection.population;
        let members = (0..size).map(|number| Member::new(&section, number, spec, rng));
        let members = members.collect::<Result<_, _>>()?;
        let experience = Experience::new(learner.clone(), replay, spec);
        let (selection, constraints) = (Selection::new(size), spec.constraints.len());
        Ok(Self { section, members, experience, selection, constraints, owed: 0.0 })
    }
}

impl Portfolio {
    fn config(&self) -> &LearnerConfig {
        self.experience.config()
    }

    /// What every learner left plays, its episodes after those of the one before.
    fn play(&self, context: &mut Context) -> Vec<Rollout> {
        let each = self.selection.left.iter().map(|&number| self.members[number].sac.actor());
        let actors: Vec<Mlp> = each
            .flat_map(|actor| std::iter::repeat_n(actor.into_owned(), self.config().episodes))
            .collect();
        context.play_each(&actors, Stream::Learner)
    }
}

impl Algorithm for Portfolio {
    fn collect(&mut self, context: &mut Context, record: &mut Record) -> Collected {
        let none = vec![0.0; context.spec.constraints.len()];
        let played = self.play(context);
        for rollout in &played {
            self.experience.remember(rollout, &none);
        }
        let steps = note_episodes(played.iter(), &context.spec.constraints, record);
        let asking = self.experience.count(steps, record);
        let learning = self.experience.learning;
        let left = self.selection.left.clone();
        for (&number, played) in left.iter().zip(played.chunks(self.config().episodes)) {
            let ended = played.iter().map(|rollout| &rollout.episode);
            self.selection.remember(number, ended, &self.section.evolution.selection);
            self.members[number].critics.observe(played, &context.spec, learning);
        }
        self.owed += asking as f64 * self.config().grad_steps_per_env_step / left.len() as f64;
        let updates = if learning { self.owed.floor() } else { 0.0 };
        self.owed -= updates;
        Collected { steps, updates: updates as u64 }
    }

    /// One of every learner's.
    fn update(&mut self, context: &Context) -> Figures {
        let (replay, left) = (&self.experience.replay, &self.selection.left);
        let [seed, at] = [context.config.seed, context.grad_steps];
        let members = self.members.par_iter_mut().enumerate();
        let each = members.filter(|(number, _)| left.contains(number)).map(|(number, member)| {
            let key = |half| [seed, Stream::Update as u64, at, 2 * number as u64 + half];
            let mut rngs = [cmdp::rng(key(0)), cmdp::rng(key(1))];
            Learner::update(&mut member.sac, replay, member.critics.price(), &mut rngs)
        });
        mean_of_all(&each.collect::<Vec<Figures>>())
    }

    fn conclude(&mut self, context: &Context, record: &mut Record) {
        let selection = &self.section.evolution.selection;
        let lambda = |number: usize| self.members[number].critics.lambda(&context.spec);
        let ranked = self.selection.rank(selection, lambda, context, record);
        record.set(&LAMBDA_LEARNER, lambda(self.selection.leader));
        if let Some(ranked) = ranked {
            let genome = |number| self.section.genome(number);
            self.selection.halve(&ranked, &selection.halve_at, genome, context);
        }
        record.set(&LEARNERS, self.selection.left.len() as u64);
    }

    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        self.members.iter_mut().try_for_each(|member| member.sac.start_from(actor))
    }

    fn longest_generation(&self, spec: &EnvSpec) -> u64 {
        (self.selection.left.len() * self.config().episodes * spec.max_steps) as u64
    }

    fn actor(&self) -> Mlp {
        self.members[self.selection.leader].sac.actor().into_owned()
    }

    fn census(&self) -> Option<&Census> {
        self.selection.census.as_ref()
    }

    fn replay(&self) -> Option<&Replay> {
        Some(&self.experience.replay)
    }

    fn replay_mut(&mut self) -> Option<&mut Replay> {
        Some(&mut self.experience.replay)
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.selection.walk(self.constraints, walk)?;
        for (number, member) in self.members.iter_mut().enumerate() {
            walk.within(&format!("learner{number}"), |walk| member.walk(walk))?;
        }
        self.experience.walk(walk)?;
        walk.fitting("owed", &mut self.owed, "updates to come", |owed, _| (0.0..1e9).contains(owed))
    }
}

#[cfg(test)]
mod tests;
