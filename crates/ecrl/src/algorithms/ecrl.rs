//! Algorithm 1 of the paper: a population evolves beside a learner. `ecrl` and its relatives are this
//! with other rankings and multipliers.
//!
//! Each generation
//! 1. every actor k of the population plays an episode; its transitions are stored with its λ_k,
//! 2. the population is ranked and varied: elites stay, the rest change,
//! 3. the learner plays its episodes; their transitions are stored with λ_π,
//! 4. SAC learns from `r - λ·c`, each transition with its own λ,
//! 5. λ_π answers the generation's episodes, `λ ← max(0, λ + η·mean(J_C - ε))`,
//! 6. the learner takes the slot of the lowest-ranked, and the slot's λ_k answers a batch of past
//!    episodes.
//!
//! 1. Hu et al., Evolving Constrained Reinforcement Learning Policy, IJCNN 2023.
//! 2. Khadka & Tumer, Evolution-Guided Policy Gradient in Reinforcement Learning, NeurIPS 2018.

use nets::Mlp;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, Build, Champion, Collected, Definition, PAPER, Preset, Setup};
use crate::collect::episodes::constraint_values;
use crate::config::{ConfigError, Section};
use crate::context::{Context, Stream};
use crate::learners::ENTROPY;
use crate::learners::critic::Price;
use crate::learners::off_policy::{
    self, AUTHORS, AUTHORS_LEARNER, LearnerConfig, OffPolicy, QUICK, ReplayConfig, note_episodes,
};
use crate::learners::sac::{Sac, SacConfig};
use crate::memory::replay::Replay;
use crate::metrics::{About, Figures, Metric, Record};
use crate::multipliers::{AUTHORS_ASCENT, LAMBDA_LEARNER, Multipliers, Rule};
use crate::population::EvolutionConfig;
use crate::population::census::Census;
use crate::population::contest;
use crate::population::evolved::Evolved;
use crate::population::ranking::Ranking;
use crate::population::variation::vary;
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

/// A row of the family.
const fn row(
    name: &'static str,
    description: &'static str,
    defaults: fn() -> EcrlSection,
    presets: &'static [Preset],
) -> Definition<Evolution> {
    Definition { name, description, defaults, presets }
}

/// The presets of a row: what the authors' code does differently depends on its parts.
macro_rules! presets {
    ($($more:expr),*) => {
        &[
            PAPER,
            Preset {
                toml: &[AUTHORS_LEARNER, "[evolution]\nchampion = \"reward\"\n", $($more),*],
                ..AUTHORS
            },
            QUICK,
        ]
    };
}

const AUTHORS_RANKING: &str = "[evolution]\npf = 0.5\nearly_stop = false\n";

/// `ecrl`
pub static ECRL: Definition<Evolution> = row(
    "ecrl",
    "the paper: stochastic ranking, and multipliers fed by a constraint buffer",
    || EcrlSection::new(Ranking::stochastic(), Rule::per_actor()),
    presets![AUTHORS_RANKING, AUTHORS_ASCENT],
);
/// `erl`
pub static ERL: Definition<Evolution> = row(
    "erl",
    "evolution and SAC by reward alone (Khadka & Tumer, 2018)",
    || EcrlSection::new(Ranking::Reward, Rule::None),
    presets![],
);
/// `erl-shaped`
pub static ERL_SHAPED: Definition<Evolution> = row(
    "erl-shaped",
    "erl with a fixed penalty, --lambda",
    || EcrlSection::new(Ranking::Reward, Rule::fixed()),
    presets![],
);
/// `rcpo-erl`
pub static RCPO_ERL: Definition<Evolution> = row(
    "rcpo-erl",
    "erl with the learner's adaptive penalty for everyone",
    || EcrlSection::new(Ranking::Reward, Rule::ascent()),
    presets![AUTHORS_ASCENT],
);
/// `sr`
pub static SR: Definition<Evolution> = row(
    "sr",
    "ablation: stochastic ranking without penalties",
    || EcrlSection::new(Ranking::stochastic(), Rule::None),
    presets![AUTHORS_RANKING],
);
/// `sr-shaped`
pub static SR_SHAPED: Definition<Evolution> = row(
    "sr-shaped",
    "ablation: stochastic ranking with a fixed penalty, --lambda",
    || EcrlSection::new(Ranking::stochastic(), Rule::fixed()),
    presets![AUTHORS_RANKING],
);
/// `bc`
pub static BC: Definition<Evolution> = row(
    "bc",
    "ablation: the constraint buffer's multipliers without stochastic ranking",
    || EcrlSection::new(Ranking::Reward, Rule::per_actor()),
    presets![AUTHORS_ASCENT],
);

/// Of μ and of log σ.
const HEADS: usize = 2;

static LEARNER_COPY: Metric<String> = Metric::new(
    "learner_copy",
    "population/learner_copy",
    "",
    "What became of the copy of the learner when the population was ranked: elite, selected or discarded",
);

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EcrlSection {
    /// When the learner plays and learns.
    pub learner: LearnerConfig,
    /// Its networks, which the population shares in shape, and its updates.
    pub sac: SacConfig,
    /// What it learns from.
    pub replay: ReplayConfig,
    /// The population.
    pub evolution: EvolutionConfig,
    /// The multipliers of the transitions.
    pub multipliers: Rule,
}

impl EcrlSection {
    fn new(ranking: Ranking, multipliers: Rule) -> Self {
        let (learner, sac, replay) = Default::default();
        let evolution = EvolutionConfig::new(ranking);
        Self { learner, sac, replay, evolution, multipliers }
    }
}

impl Section for EcrlSection {
    fn validate(&self) -> Result<(), ConfigError> {
        off_policy::validate(&self.learner, &self.replay)?;
        self.sac.validate(self.replay.capacity)?;
        self.evolution.validate()?;
        self.multipliers.validate()
    }

    fn changeable() -> Vec<&'static str> {
        [&SacConfig::CHANGEABLE[..], &[Rule::CHANGEABLE]].concat()
    }
}

/// The population, the learner, and what they learn from.
pub struct Evolution {
    learner: OffPolicy<Sac>,
    population: Evolved,
    multipliers: Box<dyn Multipliers>,
}

impl Build for Evolution {
    type Section = EcrlSection;
    const STATE_VERSION: u32 = 2;

    fn metrics() -> Vec<&'static About> {
        let own = [&LAMBDA_LEARNER.about, &LEARNER_COPY.about];
        [&off_policy::METRICS[..], &[&ENTROPY.about], &contest::METRICS, &own].concat()
    }

    fn new(section: EcrlSection, setup: Setup) -> Result<Self, TrainError> {
        let EcrlSection { learner, sac, replay, evolution: config, multipliers } = section;
        let (hidden, spec, size) = (sac.hidden.clone(), setup.spec, config.population);
        let sizes = [setup.spec.observation, setup.spec.action, 0];
        let sac = Sac::new(sac, sizes, setup.rng);
        let learner = OffPolicy::new(learner, sac, &replay, setup.spec);
        let mut actor = || Sac::new_actor(&hidden, spec.observation, spec.action, setup.rng);
        let population = Evolved::new(config, (0..size).map(|_| actor()).collect());
        let multipliers = multipliers.build(spec.constraints.len(), size, setup.rng)?;
        Ok(Self { learner, population, multipliers })
    }
}

impl Algorithm for Evolution {
    /// Lines 7-16 of Algorithm 1: see docs/paper.md.
    fn collect(&mut self, context: &mut Context, record: &mut Record) -> Collected {
        let played = context.play_each(&self.population.actors, Stream::Population);
        for (slot, rollout) in played.iter().enumerate() {
            self.learner.experience.remember(rollout, self.multipliers.of_actor(slot));
        }
        let lambda = |slot| self.multipliers.of_actor(slot).to_vec();
        self.population.rank(&played, &lambda, context, record);
        let fate = self.population.vary(context, |actors, ranked, config, rng| {
            vary(actors, ranked, config, HEADS, rng) // elites stay, the rest change
        });
        record.set_some(&LEARNER_COPY, fate.first().map(|fate| fate.name().to_owned()));
        let learner = self.learner.play(context, self.multipliers.of_learner(), record);
        let everyone = || played.iter().chain(&learner);
        let values = constraint_values(everyone()); // B_C^g
        self.multipliers.remember(&values);
        self.population.progress.values = values;
        let steps = note_episodes(everyone(), &context.spec.constraints, record);
        Collected { steps, updates: self.learner.updates_due(context, steps, record) }
    }

    /// Lines 17-21: SAC on r - λ·c.
    fn update(&mut self, context: &Context) -> Figures {
        self.learner.update(context, Price::Stored)
    }

    /// Lines 22-28.
    fn conclude(&mut self, context: &Context, record: &mut Record) {
        if self.learner.experience.learning {
            let values = &self.population.progress.values;
            self.multipliers.update_learner(values, &context.spec.constraints);
        }
        if context.generation.is_multiple_of(self.population.config.sync_period)
            && let Some(&last) = self.population.progress.ranked.last()
        {
            // Never an elite's slot; its multipliers answer the violations in a batch of past episodes.
            self.population.inject(last, &self.learner.actor());
            let mut rng = cmdp::rng(context.key(Stream::Multipliers, 0));
            self.multipliers.update_actor(last, &context.spec.constraints, &mut rng);
        }
        record.set(&LAMBDA_LEARNER, self.multipliers.of_learner().to_vec());
    }

    /// The learner does, and one of the population, which selection may make more of.
    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        self.learner.start_from(actor)?;
        self.population.actors[0].clone_from(actor);
        Ok(())
    }

    fn longest_generation(&self, spec: &cmdp::EnvSpec) -> u64 {
        ((self.population.actors.len() + self.learner.episodes()) * spec.max_steps) as u64
    }

    fn actor(&self) -> Mlp {
        self.learner.actor().into_owned()
    }

    fn champion(&self) -> Option<Champion> {
        self.population.champion(Mlp::clone)
    }

    fn census(&self) -> Option<&Census> {
        self.population.census()
    }

    fn replay(&self) -> Option<&Replay> {
        Some(&self.learner.experience.replay)
    }

    fn replay_mut(&mut self) -> Option<&mut Replay> {
        Some(&mut self.learner.experience.replay)
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.learner.walk(walk)?;
        self.population.walk_actors(walk)?;
        self.multipliers.walk(walk)?;
        self.population.walk_progress(walk)
    }
}

#[cfg(test)]
mod tests;
