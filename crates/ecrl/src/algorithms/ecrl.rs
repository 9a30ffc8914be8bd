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

use cmdp::Constraint;
use nets::Mlp;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, Build, Champion, Collected, Definition, PAPER, Preset, Setup};
use crate::best::Outcome;
use crate::collect::episodes::{Rollout, constraint_values, mean_costs};
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
use crate::population;
use crate::population::census::{Census, Fate, Fates, Individual};
use crate::population::ranking::Ranking;
use crate::population::variation::{Descent, Origin, vary};
use crate::population::{
    EvolutionConfig, LAMBDA_MEAN, POPULATION_COST_MEAN, POPULATION_FEASIBLE, POPULATION_REWARD_MEAN,
};
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
    config: EvolutionConfig,
    learner: OffPolicy<Sac>,
    population: Vec<Mlp>,
    /// The champion of the last generation, as it was before variation.
    champion: Mlp,
    multipliers: Box<dyn Multipliers>,
    progress: Progress,
}

/// How far evolution has come.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Progress {
    /// Where each actor of the population comes from.
    descents: Vec<Descent>,
    /// The slot that holds a copy of the learner that has not been ranked yet.
    injected: Option<usize>,
    fates: Fates,
    census: Option<Census>,
    /// B_C^g: J_C of the current generation's episodes.
    values: Vec<Vec<f64>>,
    /// The slots of the current generation's ranking, best first.
    ranked: Vec<usize>,
    /// How the champion did when it was ranked.
    champion: Option<Outcome>,
}

impl Build for Evolution {
    type Section = EcrlSection;
    const STATE_VERSION: u32 = 2;

    fn metrics() -> Vec<&'static About> {
        let own = [
            &POPULATION_REWARD_MEAN.about,
            &POPULATION_COST_MEAN.about,
            &POPULATION_FEASIBLE.about,
            &LAMBDA_LEARNER.about,
            &LAMBDA_MEAN.about,
            &LEARNER_COPY.about,
        ];
        [&off_policy::METRICS[..], &[&ENTROPY.about], &own].concat()
    }

    fn new(section: EcrlSection, setup: Setup) -> Result<Self, TrainError> {
        let EcrlSection { learner, sac, replay, evolution: config, multipliers } = section;
        let (hidden, spec, size) = (sac.hidden.clone(), setup.spec, config.population);
        let sizes = [setup.spec.observation, setup.spec.action, 0];
        let sac = Sac::new(sac, sizes, setup.rng);
        let learner = OffPolicy::new(learner, sac, &replay, setup.spec);
        let mut actor = || Sac::new_actor(&hidden, spec.observation, spec.action, setup.rng);
        let population: Vec<Mlp> = (0..size).map(|_| actor()).collect();
        let multipliers = multipliers.build(spec.constraints.len(), size, setup.rng)?;
        let progress = Progress {
            descents: vec![Descent::without_parents(Origin::Initial); size],
            injected: None,
            fates: Fates::default(),
            census: None,
            values: Vec::new(),
            ranked: Vec::new(),
            champion: None,
        };
        let champion = population[0].clone();
        Ok(Self { config, learner, population, champion, multipliers, progress })
    }
}

impl Evolution {
    fn rank(&self, context: &Context, played: &[Rollout]) -> Vec<usize> {
        let rewards: Vec<f64> = played.iter().map(|r| r.episode.reward()).collect();
        let violations: Vec<f64> = constraint_values(played)
            .iter()
            .map(|values| Constraint::violation(&context.spec.constraints, values))
            .collect();
        let mut rng = cmdp::rng(context.key(Stream::Evolution, 0));
        self.config.ranking.order(&rewards, &violations, &mut rng)
    }

    fn champion_of(&self, played: &[Rollout], ranked: &[usize]) -> usize {
        let reward = |slot: &usize| played[*slot].episode.reward();
        match self.config.champion {
            population::Champion::Ranking => ranked[0],
            // Of equals, the first of the ranking.
            population::Champion::Reward => *ranked
                .iter()
                .rev()
                .max_by(|a, b| reward(a).total_cmp(&reward(b)))
                .expect("a population"),
        }
    }

    /// Makes the next population, and notes who was who in this one.
    fn vary(&mut self, context: &Context, played: &[Rollout], ranked: &[usize]) -> Option<Fate> {
        let Progress { descents, injected, fates, census, .. } = &mut self.progress;
        let mut rng = cmdp::rng(context.key(Stream::Evolution, 1));
        let next = vary(&mut self.population, ranked, &self.config, &mut rng);
        let before = std::mem::replace(descents, next);
        let fate = injected.take().map(|slot| match descents[slot].origin {
            Origin::Elite => Fate::Elite,
            Origin::Winner => Fate::Selected,
            _ => Fate::Discarded,
        });
        fate.into_iter().for_each(|fate| fates.count(fate));
        let individuals = ranked.iter().enumerate().map(|(rank, &slot)| {
            let episode = &played[slot].episode;
            let cost = episode.constraint_values();
            Individual {
                slot,
                rank,
                elite: rank < self.config.elites,
                reward: episode.reward(),
                violation: Constraint::violation(&context.spec.constraints, &cost),
                cost,
                lambda: self.multipliers.of_actor(slot).to_vec(),
                descent: before[slot].clone(),
            }
        });
        *census = Some(Census {
            generation: context.generation,
            learner_copies: *fates,
            individuals: individuals.collect(),
        });
        fate
    }

    /// The learner takes the slot of the lowest-ranked, never an elite's; the slot's multipliers
    /// answer the violations in a batch of past episodes.
    fn inject_learner(&mut self, context: &Context, slot: usize) {
        self.population[slot].params_mut().copy_from_slice(self.learner.actor().params());
        self.progress.descents[slot] = Descent::without_parents(Origin::Learner);
        self.progress.injected = Some(slot);
        let mut rng = cmdp::rng(context.key(Stream::Multipliers, 0));
        self.multipliers.update_actor(slot, &context.spec.constraints, &mut rng);
    }

    fn note(&self, context: &Context, played: &[Rollout], record: &mut Record) {
        let (size, constraints) = (played.len() as f64, context.spec.constraints.len());
        let rewards: f64 = played.iter().map(|r| r.episode.reward()).sum();
        let kept = played.iter().filter(|r| r.episode.is_feasible()).count() as f64;
        let lambdas: Vec<Vec<f64>> =
            (0..played.len()).map(|slot| self.multipliers.of_actor(slot).to_vec()).collect();
        record.set(&POPULATION_REWARD_MEAN, rewards / size);
        record.set(&POPULATION_COST_MEAN, mean_costs(&constraint_values(played), constraints));
        record.set(&POPULATION_FEASIBLE, kept / size);
        record.set(&LAMBDA_MEAN, mean_costs(&lambdas, constraints));
    }
}

impl Algorithm for Evolution {
    /// Lines 7-16 of Algorithm 1: see docs/paper.md.
    fn collect(&mut self, context: &mut Context, record: &mut Record) -> Collected {
        let population = context.play_each(&self.population, Stream::Population);
        for (slot, rollout) in population.iter().enumerate() {
            self.learner.experience.remember(rollout, self.multipliers.of_actor(slot));
        }
        self.note(context, &population, record);
        let ranked = self.rank(context, &population);
        let champion = self.champion_of(&population, &ranked);
        self.champion = self.population[champion].clone();
        let episode = &population[champion].episode;
        let (reward, cost) = (episode.reward(), episode.constraint_values());
        self.progress.champion = Some(Outcome { reward, cost });
        let fate = self.vary(context, &population, &ranked); // elites stay, the rest change
        record.set_some(&LEARNER_COPY, fate.map(|fate| fate.name().to_owned()));
        let learner = self.learner.play(context, self.multipliers.of_learner(), record);
        let everyone = || population.iter().chain(&learner);
        self.progress.values = constraint_values(everyone()); // B_C^g
        self.multipliers.remember(&self.progress.values);
        self.progress.ranked = ranked;
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
            self.multipliers.update_learner(&self.progress.values, &context.spec.constraints);
        }
        if context.generation.is_multiple_of(self.config.sync_period)
            && let Some(&last) = self.progress.ranked.last()
        {
            self.inject_learner(context, last); // and raise that slot's multiplier
        }
        record.set(&LAMBDA_LEARNER, self.multipliers.of_learner().to_vec());
    }

    /// The learner does, and one of the population, which selection may make more of.
    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        self.learner.start_from(actor)?;
        self.population[0].clone_from(actor);
        Ok(())
    }

    fn longest_generation(&self, spec: &cmdp::EnvSpec) -> u64 {
        ((self.population.len() + self.learner.episodes()) * spec.max_steps) as u64
    }

    fn actor(&self) -> Mlp {
        self.learner.actor().into_owned()
    }

    fn champion(&self) -> Option<Champion> {
        let played = self.progress.champion.clone()?;
        Some(Champion { actor: self.champion.clone(), played })
    }

    fn census(&self) -> Option<&Census> {
        self.progress.census.as_ref()
    }

    fn replay(&self) -> Option<&Replay> {
        Some(&self.learner.experience.replay)
    }

    fn replay_mut(&mut self) -> Option<&mut Replay> {
        Some(&mut self.learner.experience.replay)
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.learner.walk(walk)?;
        for (slot, actor) in self.population.iter_mut().enumerate() {
            walk.net(&format!("population{slot}"), actor)?;
        }
        walk.net("champion", &mut self.champion)?;
        self.multipliers.walk(walk)?;
        let slots = self.population.len();
        walk.fitting("evolution", &mut self.progress, "a population of this size", |p, _| {
            p.descents.len() == slots && p.ranked.iter().chain(&p.injected).all(|&s| s < slots)
        })
    }
}

#[cfg(test)]
mod tests;
