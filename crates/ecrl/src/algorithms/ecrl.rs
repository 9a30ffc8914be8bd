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

use crate::algorithm::{Algorithm, Build, Collected, Definition, Setup};
use crate::collect::episodes::{Rollout, constraint_values, mean_costs};
use crate::config::{ConfigError, Section};
use crate::context::{Context, Stream};
use crate::learners::off_policy::{self, LearnerConfig, OffPolicy, ReplayConfig};
use crate::learners::sac::{Sac, SacConfig};
use crate::memory::replay::Replay;
use crate::metrics::{About, Figures, Metric, Record, UNSTABLE};
use crate::multipliers::{LAMBDA_LEARNER, Multipliers, Rule};
use crate::population::EvolutionConfig;
use crate::population::census::{Census, Fate, Fates, Individual};
use crate::population::ranking::Ranking;
use crate::population::variation::{Descent, Origin, vary};
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

/// A row of the family.
const fn row(
    name: &'static str,
    description: &'static str,
    defaults: fn() -> EcrlSection,
) -> Definition<Evolution> {
    Definition { name, description, defaults, presets: off_policy::PRESETS }
}

/// `ecrl`
pub static ECRL: Definition<Evolution> = row(
    "ecrl",
    "the paper: stochastic ranking, and multipliers fed by a constraint buffer",
    || EcrlSection::new(Ranking::stochastic(), Rule::per_actor()),
);
/// `erl`
pub static ERL: Definition<Evolution> =
    row("erl", "evolution and SAC by reward alone (Khadka & Tumer, 2018)", || {
        EcrlSection::new(Ranking::Reward, Rule::None)
    });
/// `erl-shaped`
pub static ERL_SHAPED: Definition<Evolution> =
    row("erl-shaped", "erl with a fixed penalty, --lambda", || {
        EcrlSection::new(Ranking::Reward, Rule::fixed())
    });
/// `rcpo-erl`
pub static RCPO_ERL: Definition<Evolution> =
    row("rcpo-erl", "erl with the learner's adaptive penalty for everyone", || {
        EcrlSection::new(Ranking::Reward, Rule::ascent())
    });
/// `sr`
pub static SR: Definition<Evolution> =
    row("sr", "ablation: stochastic ranking without penalties", || {
        EcrlSection::new(Ranking::stochastic(), Rule::None)
    });
/// `sr-shaped`
pub static SR_SHAPED: Definition<Evolution> =
    row("sr-shaped", "ablation: stochastic ranking with a fixed penalty, --lambda", || {
        EcrlSection::new(Ranking::stochastic(), Rule::fixed())
    });
/// `bc`
pub static BC: Definition<Evolution> =
    row("bc", "ablation: the constraint buffer's multipliers without stochastic ranking", || {
        EcrlSection::new(Ranking::Reward, Rule::per_actor())
    });

static POPULATION_REWARD_MEAN: Metric<f64> = Metric::new(
    "population_reward_mean",
    "population/reward",
    "return",
    "Mean return of the population's episodes, with sampled actions",
);
static POPULATION_COST_MEAN: Metric<Vec<f64>> =
    Metric::new("population_cost_mean", "population", "J_C", "Mean J_C of those episodes");
static POPULATION_FEASIBLE: Metric<f64> = Metric::new(
    "population_feasible",
    "population/feasible",
    "share",
    "The share of the population whose episode kept every constraint",
);
static LAMBDA_MEAN: Metric<Vec<f64>> = Metric::new(
    "lambda_mean",
    "population_lambda",
    "λ",
    "Mean over the population of the multipliers its transitions were stored with",
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
        off_policy::validate(&self.learner, &self.sac, &self.replay)?;
        self.evolution.validate()?;
        self.multipliers.validate()
    }
}

/// The population, the learner, and what they learn from.
pub struct Evolution {
    config: EvolutionConfig,
    learner: OffPolicy,
    population: Vec<Mlp>,
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
}

impl Build for Evolution {
    type Section = EcrlSection;

    fn metrics() -> Vec<&'static About> {
        let own = [
            &POPULATION_REWARD_MEAN.about,
            &POPULATION_COST_MEAN.about,
            &POPULATION_FEASIBLE.about,
            &LAMBDA_LEARNER.about,
            &LAMBDA_MEAN.about,
            &LEARNER_COPY.about,
        ];
        [&off_policy::METRICS[..], &own].concat()
    }

    fn new(section: EcrlSection, mut setup: Setup) -> Result<Self, TrainError> {
        let EcrlSection { learner, sac, replay, evolution: config, multipliers } = section;
        let (hidden, spec, size) = (sac.hidden.clone(), setup.spec, config.population);
        let learner = OffPolicy::new(learner, sac, &replay, &mut setup);
        let mut actor = || Sac::new_actor(&hidden, spec.observation, spec.action, setup.rng);
        let population: Vec<Mlp> = (0..size).map(|_| actor()).collect();
        let multipliers = multipliers.build(spec.constraints.len(), size, setup.rng);
        let progress = Progress {
            descents: vec![Descent::without_parents(Origin::Initial); size],
            injected: None,
            fates: Fates::default(),
            census: None,
            values: Vec::new(),
            ranked: Vec::new(),
        };
        Ok(Self { config, learner, population, multipliers, progress })
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
    /// Lines 7-20 of Algorithm 1.
    fn collect(&mut self, context: &mut Context, record: &mut Record) -> Collected {
        let population = context.play_each(&self.population, Stream::Population);
        for (slot, rollout) in population.iter().enumerate() {
            rollout.remember(&mut self.learner.replay, self.multipliers.of_actor(slot));
        }
        self.note(context, &population, record);
        let ranked = self.rank(context, &population);
        let fate = self.vary(context, &population, &ranked); // elites stay, the rest change
        record.set_some(&LEARNER_COPY, fate.map(|fate| fate.name().to_owned()));
        let learner = self.learner.play(context, self.multipliers.of_learner(), record);
        let everyone = || population.iter().chain(&learner);
        self.progress.values = constraint_values(everyone()); // B_C^g
        self.multipliers.remember(&self.progress.values);
        self.progress.ranked = ranked;
        record.set(&UNSTABLE, everyone().filter(|r| r.unstable).count() as u64);
        let steps = everyone().map(|r| r.episode.steps() as u64).sum();
        Collected { steps, updates: self.learner.updates_due(context, steps, record) }
    }

    /// SAC on r - λ·c.
    fn update(&mut self, context: &Context) -> Figures {
        self.learner.update(context)
    }

    /// Lines 25-30 of Algorithm 1.
    fn conclude(&mut self, context: &Context, record: &mut Record) {
        if self.learner.learning {
            self.multipliers.update_learner(&self.progress.values, &context.spec.constraints);
        }
        if context.generation.is_multiple_of(self.config.sync_period)
            && let Some(&last) = self.progress.ranked.last()
        {
            self.inject_learner(context, last); // and raise that slot's multiplier
        }
        record.set(&LAMBDA_LEARNER, self.multipliers.of_learner().to_vec());
    }

    fn actor(&self) -> Mlp {
        self.learner.actor().clone()
    }

    /// An elite: variation has left it as it was ranked.
    fn champion(&self) -> Option<Mlp> {
        self.progress.ranked.first().map(|&slot| self.population[slot].clone())
    }

    fn census(&self) -> Option<&Census> {
        self.progress.census.as_ref()
    }

    fn replay(&self) -> Option<&Replay> {
        Some(&self.learner.replay)
    }

    fn replay_mut(&mut self) -> Option<&mut Replay> {
        Some(&mut self.learner.replay)
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.learner.walk(walk)?;
        for (slot, actor) in self.population.iter_mut().enumerate() {
            walk.net(&format!("population{slot}"), actor)?;
        }
        self.multipliers.walk(walk)?;
        let slots = self.population.len();
        walk.fitting("evolution", &mut self.progress, "a population of this size", |p, _| {
            p.descents.len() == slots && p.ranked.iter().chain(&p.injected).all(|&s| s < slots)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use super::*;
    use crate::config::Layers;
    use crate::metrics::{CHAMPION_REWARD, ENV_STEPS, GRAD_STEPS};
    use crate::trainer::Trainer;
    use cmdp::{Env, PointMass};

    fn evolution(trainer: &Trainer) -> &Evolution {
        (&*trainer.algorithm as &dyn Any).downcast_ref().unwrap()
    }

    fn trainer(algorithm: &str, more: &str) -> Trainer {
        let mut layers = Layers::default();
        let small = "task = \"point-mass\"\nconstraints = [\"force<=0.1\"]\n";
        let config = "[sac]\nhidden = [16]\nbatch = 16\n[learner]\nlearning_starts = 500\n";
        layers.toml(&format!("{small}{config}{more}")).unwrap();
        layers.set("algorithm", algorithm);
        let config = layers.build().unwrap();
        let constraints = Constraint::parse_all(&config.constraints, &PointMass::COSTS).unwrap();
        let make = || PointMass::new(constraints.clone()).map(|env| Box::new(env) as Box<dyn Env>);
        Trainer::new(config, 2, make).unwrap()
    }

    fn step(trainer: &mut Trainer) -> Record {
        trainer.generation(&mut |_| true).unwrap().unwrap()
    }

    /// The multipliers stored with transitions from `first` on, each named once, in order.
    fn stored(trainer: &Trainer, first: usize) -> Vec<f32> {
        let replay = trainer.replay().unwrap();
        let mut all: Vec<f32> =
            (first..replay.len()).map(|i| replay.get(i).multipliers[0]).collect();
        all.dedup();
        all
    }

    fn slots(trainer: &Trainer) -> Vec<Vec<f64>> {
        (0..10).map(|slot| evolution(trainer).multipliers.of_actor(slot).to_vec()).collect()
    }

    fn single(lambda: &[Vec<f64>]) -> Vec<f32> {
        lambda.iter().map(|values| values[0] as f32).collect()
    }

    #[test]
    fn every_transition_keeps_the_multiplier_it_was_collected_with() {
        for algorithm in ["ecrl", "bc"] {
            let mut trainer = trainer(algorithm, "[multipliers]\neta = 0.1\n");
            let (mut expected, mut first) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                expected.extend(single(&slots(&trainer)));
                expected.push(evolution(&trainer).multipliers.of_learner()[0] as f32);
                first.push(slots(&trainer));
                step(&mut trainer);
            }
            assert_eq!(stored(&trainer, 0), expected, "{algorithm}");
            // Each generation raises the one slot that the learner took.
            for pair in first.windows(2) {
                let changed = pair[0].iter().zip(&pair[1]).filter(|(a, b)| a != b).count();
                assert_eq!(changed, 1, "{algorithm}");
            }
            let distinct = &first[0];
            assert!(distinct.iter().all(|l| (0.0..1.0).contains(&l[0])), "{distinct:?}");
        }
    }

    #[test]
    fn the_other_algorithms_store_one_multiplier_for_all() {
        for (algorithm, values, expected) in [
            ("erl", "", 0.0),
            ("sr", "", 0.0),
            ("sac", "", 0.0),
            ("erl-shaped", "[multipliers]\nlambda = 0.25\n", 0.25),
            ("sr-shaped", "[multipliers]\nlambda = 0.25\n", 0.25),
        ] {
            let mut trainer = trainer(algorithm, values);
            (0..3).for_each(|_| _ = step(&mut trainer));
            assert_eq!(stored(&trainer, 0), [expected], "{algorithm}");
        }
        for algorithm in ["rcpo-erl", "rcpo"] {
            let mut trainer = trainer(algorithm, "[multipliers]\nlambda = 0.25\neta = 0.1\n");
            let mut lambda = 0.25;
            for _ in 0..4 {
                let first = trainer.replay().unwrap().len();
                let record = step(&mut trainer);
                assert_eq!(stored(&trainer, first), [lambda as f32], "{algorithm}");
                lambda = record.get(&LAMBDA_LEARNER).unwrap()[0];
            }
            assert_ne!(lambda, 0.25, "{algorithm}");
        }
    }

    #[test]
    fn the_learner_joins_the_population_every_sync_period_and_never_on_an_elite() {
        let mut trainer = trainer("ecrl", "[evolution]\nsync_period = 2\n");
        let mut fates = 0;
        for n in 1..=30 {
            let record = step(&mut trainer);
            let census = evolution(&trainer).progress.census.clone().unwrap();
            let learners: Vec<&Individual> = census
                .individuals
                .iter()
                .filter(|one| one.descent.origin == Origin::Learner)
                .collect();
            // Injected at the end of an even generation, ranked in the odd one that follows.
            assert_eq!(learners.len(), usize::from(n % 2 == 1 && n > 1), "generation {n}");
            assert_eq!(record.get(&LEARNER_COPY).is_some(), n % 2 == 1 && n > 1);
            fates += u64::from(record.get(&LEARNER_COPY).is_some());
            if n % 2 == 0 {
                let slot = evolution(&trainer).progress.injected.unwrap();
                let last = census.individuals.last().unwrap();
                assert!(!last.elite && last.slot == slot);
                assert_eq!(
                    evolution(&trainer).population[slot].params(),
                    evolution(&trainer).learner.actor().params()
                );
            }
        }
        let Fates { elite, selected, discarded } = evolution(&trainer).progress.fates;
        assert_eq!(elite + selected + discarded, fates);
    }

    #[test]
    fn the_champion_is_tested_as_it_was_ranked() {
        let mut trainer = trainer("ecrl", "[test]\nevery = 0\n");
        for _ in 0..5 {
            let before = evolution(&trainer).population.clone();
            let record = step(&mut trainer);
            let first = evolution(&trainer).census().unwrap().individuals[0].slot;
            assert_eq!(evolution(&trainer).population[first], before[first]);
            assert!(record.get(&CHAMPION_REWARD).is_some());
        }
    }

    #[test]
    fn gradient_steps_follow_the_configured_ratio() {
        let mut trainer = trainer("ecrl", "grad_steps_per_env_step = 0.25\n");
        let records: Vec<Record> = (0..3).map(|_| step(&mut trainer)).collect();
        let counted = |metric| records[2].get(metric).unwrap() - records[1].get(metric).unwrap();
        let (steps, updates): (u64, u64) = (counted(&ENV_STEPS), counted(&GRAD_STEPS));
        assert_eq!(updates, (steps as f64 / 4.0).round() as u64);
    }
}
