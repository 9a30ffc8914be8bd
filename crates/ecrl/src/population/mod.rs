//! How actors are ranked and varied.

pub mod cem;
pub mod census;
pub mod contest;
pub mod distillation;
pub mod es;
pub mod evolved;
pub mod memory;
pub mod operators;
pub mod proximal;
pub mod ranking;
pub mod selection;
pub mod variation;

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, range};
use crate::metrics::Metric;
use ranking::Ranking;

/// The population's reward.
pub static POPULATION_REWARD_MEAN: Metric<f64> = Metric::new(
    "population_reward_mean",
    "population/reward",
    "return",
    "Mean return of the population's episodes, with sampled actions",
);
/// The population's costs.
pub static POPULATION_COST_MEAN: Metric<Vec<f64>> =
    Metric::new("population_cost_mean", "population", "J_C", "Mean J_C of those episodes");
/// How much of it is feasible.
pub static POPULATION_FEASIBLE: Metric<f64> = Metric::new(
    "population_feasible",
    "population/feasible",
    "share",
    "The share of the population whose episode, or last episodes on the mean, kept every constraint",
);
/// The population's multipliers.
pub static LAMBDA_MEAN: Metric<Vec<f64>> = Metric::new(
    "lambda_mean",
    "population_lambda",
    "λ",
    "Mean over the population of its multipliers",
);

/// The population and how it evolves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvolutionConfig {
    /// Actors μ in the population. Authors' code: 10.
    pub population: usize,
    /// Actors that pass on unchanged; more keeps more and explores less. Authors' code: 2.
    pub elites: usize,
    /// Entrants of a tournament; more favours the best. Authors' code: 3.
    pub tournament: usize,
    /// How the population is ordered.
    #[serde(flatten)]
    pub ranking: Ranking,
    /// The probability p_m that an actor mutates. Paper: 0.9.
    pub mutation: f64,
    /// Who the champion is, which is tested beside the learner.
    pub champion: Champion,
    /// Generations ω between two copies of the learner into the population. Paper: 1.
    pub sync_period: u64,
}

/// Who of a generation is its champion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Champion {
    /// The first of the ranking.
    Ranking,
    /// The most rewarding, as in the authors' code.
    Reward,
}

impl EvolutionConfig {
    /// The usual values, with a ranking.
    pub fn new(ranking: Ranking) -> Self {
        Self {
            population: 10,
            elites: 2,
            tournament: 3,
            ranking,
            mutation: 0.9,
            champion: Champion::Ranking,
            sync_period: 1,
        }
    }

    /// Checks every value against its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Self { population, elites, tournament, ranking, mutation, sync_period, .. } = self;
        let most = 10_000;
        range::check(
            (2..=most).contains(population),
            "evolution.population",
            population,
            "2 to 10000",
        )?;
        range::check(
            (1..*population).contains(elites),
            "evolution.elites",
            elites,
            "at least 1 and fewer than evolution.population",
        )?;
        range::many("evolution.tournament", *tournament)?;
        ranking.validate("evolution")?;
        range::share("evolution.mutation", *mutation)?;
        range::check(*sync_period > 0, "evolution.sync_period", sync_period, "at least 1")
    }
}
