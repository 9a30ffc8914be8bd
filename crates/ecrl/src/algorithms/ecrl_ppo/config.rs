//! The configuration of a population on PPO: its members, and how it is selected.

use serde::{Deserialize, Serialize};

use super::member::{Kind, MemberSection};
use crate::config::{ConfigError, Pace, Section, range};
use crate::population::ranking::Ranking;

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelectedSection {
    /// Each learner's; the environments are shared among them.
    #[serde(flatten)]
    pub member: MemberSection,
    /// The population.
    pub evolution: SelectionConfig,
}

/// At the start, each learner has one environment.
impl Default for SelectedSection {
    fn default() -> Self {
        let (mut member, evolution) = (MemberSection::default(), SelectionConfig::default());
        member.ppo.actor_critic.envs = evolution.population;
        Self { member, evolution }
    }
}

impl SelectedSection {
    /// What a learner has that began with this number.
    pub(super) fn genome(&self, number: usize) -> (Kind, f64) {
        let SelectionConfig { learners, horizons, .. } = &self.evolution;
        (learners[number % learners.len()], horizons[number % horizons.len()])
    }

    /// The values of such a learner.
    pub(super) fn of_genome(&self, number: usize) -> MemberSection {
        let (kind, horizon) = self.genome(number);
        let mut section = MemberSection { kind, ..self.member.clone() };
        let gamma = &mut section.ppo.actor_critic.gamma;
        *gamma = 1.0 - (1.0 - *gamma) / horizon;
        section
    }
}

/// The population and how it is selected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelectionConfig {
    /// Learners at the start, each with an environment at least.
    pub population: usize,
    /// What they learn as, dealt out in turn: ppo-lag, ipo.
    pub learners: Vec<Kind>,
    /// How many times as far as with ppo.gamma they look ahead, dealt out in turn: γ = 1 - (1 - ppo.gamma)/horizon.
    pub horizons: Vec<f64>,
    /// How they are ordered.
    #[serde(flatten)]
    pub ranking: Ranking,
    /// Episodes of a learner, the last, that it is ranked by, or all that ended in a batch where those are more;
    /// more is surer and later.
    pub judged: usize,
    /// Shares of the run after which the worse half leaves, rising.
    pub halve_at: Vec<f64>,
    /// The share of the run after which the last of the ranking becomes a copy of the first, again and again
    /// until the last halving; 0 is never.
    pub copy_every: f64,
}

impl Default for SelectionConfig {
    fn default() -> Self {
        Self {
            population: 4,
            learners: vec![Kind::PpoLag, Kind::Ipo],
            horizons: vec![1.0, 1.0, 10.0, 10.0],
            ranking: Ranking::stochastic(),
            judged: 10,
            halve_at: vec![0.2, 0.4],
            copy_every: 0.0,
        }
    }
}

impl SelectionConfig {
    fn validate(&self, envs: usize) -> Result<(), ConfigError> {
        let Self { population, learners, horizons, ranking, judged, halve_at, copy_every } = self;
        let shares = halve_at.iter().all(|at| (0.0..=1.0).contains(at));
        range::check(
            (2..=envs).contains(population),
            "evolution.population",
            population,
            &format!("at least 2 and at most ppo.envs, the environments to share, which is {envs}"),
        )?;
        let dealt = |count: usize| (1..=1000).contains(&count);
        range::check(
            dealt(learners.len()),
            "evolution.learners",
            format!("{learners:?}"),
            "1 to 1000 of ppo-lag, ipo",
        )?;
        range::check(
            dealt(horizons.len()) && horizons.iter().all(|times| (0.01..=1e6).contains(times)),
            "evolution.horizons",
            format!("{horizons:?}"),
            "1 to 1000 numbers from 0.01 to 1e6",
        )?;
        ranking.validate()?;
        range::many("evolution.judged", *judged)?;
        range::check(
            shares && halve_at.is_sorted() && halve_at.len() <= 10,
            "evolution.halve_at",
            format!("{halve_at:?}"),
            "at most 10 rising numbers from 0 to 1",
        )?;
        range::share("evolution.copy_every", *copy_every)
    }
}

impl Section for SelectedSection {
    fn validate(&self) -> Result<(), ConfigError> {
        self.member.validate()?;
        self.evolution.validate(self.member.pace().running)?;
        let gamma = |number| self.of_genome(number).ppo.actor_critic.gamma;
        (0..self.evolution.population)
            .try_for_each(|n| range::share("ppo.gamma by evolution.horizons", gamma(n)))
    }

    fn pace(&self) -> Pace {
        Pace { length_matters: true, ..self.member.pace() }
    }

    fn changeable() -> Vec<&'static str> {
        MemberSection::changeable()
    }
}
