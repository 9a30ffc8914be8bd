//! The configuration of a population on PPO: its members, and how it is selected.

use serde::{Deserialize, Serialize};

use super::member::{Kind, MemberSection};
use crate::config::{ConfigError, Pace, Section, range};
use crate::multipliers::Rule;
use crate::population::selection::{SelectionConfig, dealt, validate_dealt};

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelectedSection {
    /// Each learner's; the environments are shared among them.
    #[serde(flatten)]
    pub member: MemberSection,
    /// The population.
    pub evolution: EvolutionConfig,
}

/// At the start, each learner has one environment.
impl Default for SelectedSection {
    fn default() -> Self {
        let (mut member, evolution) = (MemberSection::default(), EvolutionConfig::default());
        let ppo = &mut member.ppo.actor_critic;
        (ppo.envs, ppo.collect, ppo.batch) = (evolution.selection.population, 4096, 128);
        ppo.margin = 0.05;
        member.multipliers = Rule::Relative { lambda: 1e-3.into(), eta: 0.05.into() };
        Self { member, evolution }
    }
}

impl SelectedSection {
    /// What a learner has that began with this number.
    pub(super) fn genome(&self, number: usize) -> Genome {
        let EvolutionConfig { learners, horizons, entropies, lambdas, .. } = &self.evolution;
        Genome {
            kind: dealt(learners, number),
            horizon: dealt(horizons, number),
            entropy: dealt(entropies, number),
            lambda: dealt(lambdas, number),
        }
    }

    /// The values of such a learner.
    pub(super) fn of_genome(&self, number: usize) -> MemberSection {
        let Genome { kind, horizon, lambda, .. } = self.genome(number);
        let mut section = MemberSection { kind, ..self.member.clone() };
        section.multipliers = section.multipliers.from_times(lambda);
        let gamma = &mut section.ppo.actor_critic.gamma;
        *gamma = 1.0 - (1.0 - *gamma) / horizon;
        section
    }
}

/// What a learner inherits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Genome {
    pub kind: Kind,
    pub horizon: f64,
    pub entropy: f64,
    pub lambda: f64,
}

/// The population: what its learners differ in, and how they are selected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvolutionConfig {
    /// What they learn as, dealt out in turn: ppo-lag, rcpo-ppo, ipo.
    pub learners: Vec<Kind>,
    /// How many times as far as with ppo.gamma they look ahead, dealt out in turn: γ = 1 - (1 - ppo.gamma)/horizon.
    pub horizons: Vec<f64>,
    /// What the policy's entropy weighs at first beside ppo.entropy_coef, dealt out in turn; more explores more. It falls
    /// to nothing until the last halving.
    pub entropies: Vec<f64>,
    /// How many times multipliers.lambda their multipliers start from, dealt out in turn; more keeps constraints from
    /// the start and finds less.
    pub lambdas: Vec<f64>,
    /// How they are selected.
    #[serde(flatten)]
    pub selection: SelectionConfig,
    /// The share of the run after which the last of the ranking becomes a copy of the first, again and again
    /// until the last halving; 0 is never.
    pub copy_every: f64,
}

impl Default for EvolutionConfig {
    fn default() -> Self {
        Self {
            learners: vec![Kind::Ipo, Kind::RcpoPpo],
            horizons: vec![1.0, 1.0, 2.0, 1.0, 10.0, 1.0, 1.0, 1.0],
            entropies: vec![0.01, 0.0, 0.02, 0.0, 0.0, 0.0, 0.0, 0.0],
            lambdas: vec![1.0, 1.0, 1000.0, 1000.0],
            selection: SelectionConfig::of(8, &[0.2, 0.35, 0.65]),
            copy_every: 0.0,
        }
    }
}

impl EvolutionConfig {
    fn validate(&self, envs: usize) -> Result<(), ConfigError> {
        let Self { learners, horizons, entropies, lambdas, selection, copy_every } = self;
        let why = format!("ppo.envs, the environments to share, which is {envs}");
        selection.validate(envs, &why)?;
        validate_dealt("evolution.learners", learners, |_| true, "of ppo-lag, rcpo-ppo, ipo")?;
        let fits = |times: &f64| (0.01..=1e6).contains(times);
        validate_dealt("evolution.horizons", horizons, fits, "numbers from 0.01 to 1e6")?;
        let fits = |weight: &f64| (0.0..=1e6).contains(weight);
        validate_dealt("evolution.entropies", entropies, fits, "numbers from 0 to 1e6")?;
        validate_dealt("evolution.lambdas", lambdas, fits, "numbers from 0 to 1e6")?;
        range::share("evolution.copy_every", *copy_every)
    }
}

impl Section for SelectedSection {
    fn validate(&self) -> Result<(), ConfigError> {
        self.member.validate()?;
        self.evolution.validate(self.member.pace().running)?;
        let gamma = |number| self.of_genome(number).ppo.actor_critic.gamma;
        (0..self.evolution.selection.population)
            .try_for_each(|n| range::share("ppo.gamma by evolution.horizons", gamma(n)))
    }

    fn pace(&self) -> Pace {
        Pace { length_matters: true, ..self.member.pace() }
    }

    fn changeable() -> Vec<&'static str> {
        MemberSection::changeable()
    }
}
