//! Critics of costs, and Lagrange multipliers in force when a learner with a replay buffer learns.
//!
//! ```text
//! the actor descends   mean ( [α log π] - min_j Q_j + Σ_i w_i Q_ci ) / ( 1 + Σ_i w_i )        w_i = λ_i·d_r/d_i
//! λ_i answers          e_i = min( 4, mean(J_Ci - ε_i)/ε_i )        over the episodes just played
//! ```
//!
//! `sac-lag` and `sac-pid` on SAC, `td3-lag` and, without multipliers, `td3` on TD3. Unlike in `rcpo`, a λ that
//! has moved changes at once what every stored transition counts for. Of a constraint on a mean cost the mean
//! of what was just played is taken from the cost: else to end early would look cheap. d are the running
//! deviations of the reward and of the cost of a step: λ has no unit.
//!
//! 1. Haarnoja et al., Soft Actor-Critic, ICML 2018.
//! 2. Fujimoto, van Hoof & Meger, Addressing Function Approximation Error in Actor-Critic Methods, ICML 2018.
//! 3. Ha et al., Learning to Walk in the Real World with Minimal Human Effort, CoRL 2020.
//! 4. Stooke, Achiam & Abbeel, Responsive Safety in Reinforcement Learning by PID Lagrangian Methods, ICML
//!    2020.

use cmdp::{Aggregate, Constraint, EnvSpec, Rng};
use serde::{Deserialize, Serialize};

use crate::algorithm::{Definition, Setup};
use crate::collect::episodes::{Rollout, constraint_values, mean_costs};
use crate::config::{ConfigError, Section};
use crate::context::Context;
use crate::learners::ENTROPY;
use crate::learners::critic::Price;
use crate::learners::moments::Moments;
use crate::learners::off_policy::{self, Learner, LearnerConfig, OffPolicy, ReplayConfig};
use crate::learners::sac::{Sac, SacConfig};
use crate::learners::td3::{Td3, Td3Config};
use crate::metrics::{About, Figures, Record};
use crate::multipliers::{LAMBDA_LEARNER, Lambdas, Rule};
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

use super::off_policy::{Alone, Pricing};
use super::sac::SacSection;

/// `sac-lag`
pub static SAC_LAG: Definition<Alone<Sac, Critics>> = Definition {
    name: "sac-lag",
    description: "SAC with critics of costs and a Lagrange multiplier on each (Ha et al., 2020)",
    defaults: || fast_sac(Rule::relative()),
    presets: &[],
};

/// `sac-pid`
pub static SAC_PID: Definition<Alone<Sac, Critics>> = Definition {
    name: "sac-pid",
    description: "SAC with critics of costs and multipliers by a PID controller (Stooke et al., 2020)",
    defaults: || fast_sac(Rule::pid()),
    presets: &[],
};

/// `td3`
pub static TD3: Definition<Alone<Td3, Critics>> = Definition {
    name: "td3",
    description: "TD3 by reward alone (Fujimoto et al., 2018)",
    defaults: || Td3Section::new(Rule::None),
    presets: &[],
};

/// `td3-lag`
pub static TD3_LAG: Definition<Alone<Td3, Critics>> = Definition {
    name: "td3-lag",
    description: "TD3 with critics of costs and a Lagrange multiplier on each",
    defaults: || Td3Section::new(Rule::relative()),
    presets: &[],
};

/// SAC with the values that are usual elsewhere: half the paper's batch, targets that follow faster.
pub fn fast_sac(multipliers: Rule) -> SacSection {
    let sac = SacConfig { batch: 256, tau: 5e-3, actor_lr: 3e-4, ..SacConfig::default() };
    let learner = LearnerConfig { episodes: 1, ..LearnerConfig::default() };
    SacSection { learner, sac, replay: ReplayConfig::default(), multipliers }
}

/// The configuration of those on TD3.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Td3Section {
    /// When it plays and learns.
    pub learner: LearnerConfig,
    /// Its networks and updates.
    pub td3: Td3Config,
    /// What it learns from.
    pub replay: ReplayConfig,
    /// The multipliers of the constraints.
    pub multipliers: Rule,
}

impl Td3Section {
    fn new(multipliers: Rule) -> Self {
        let learner = LearnerConfig { episodes: 1, ..LearnerConfig::default() };
        Self { learner, td3: Td3Config::default(), replay: ReplayConfig::default(), multipliers }
    }
}

impl Section for Td3Section {
    fn validate(&self) -> Result<(), ConfigError> {
        off_policy::validate(&self.learner, &self.replay)?;
        self.td3.validate(self.replay.capacity)?;
        self.multipliers.validate_alone()
    }

    fn changeable() -> Vec<&'static str> {
        [&Td3Config::CHANGEABLE[..], &[Rule::CHANGEABLE]].concat()
    }
}

/// A learner that can have critics of costs.
pub trait Critical: Learner + Sized + 'static {
    /// The sections of its configuration.
    type Section: Section;
    /// What its updates record beside the losses of actor and critics.
    const METRICS: &'static [&'static About];

    /// When it plays and learns, what from, and the rule of its multipliers.
    fn parts(section: &Self::Section) -> (&LearnerConfig, &ReplayConfig, &Rule);

    /// A new one for these sizes: an observation's, an action's, and the number of costs with critics.
    fn new(section: &Self::Section, sizes: [usize; 3], rng: &mut Rng) -> Self;
}

impl Critical for Sac {
    type Section = SacSection;
    const METRICS: &'static [&'static About] = &[&ENTROPY.about];

    fn parts(section: &SacSection) -> (&LearnerConfig, &ReplayConfig, &Rule) {
        (&section.learner, &section.replay, &section.multipliers)
    }

    fn new(section: &SacSection, sizes: [usize; 3], rng: &mut Rng) -> Self {
        Sac::new(section.sac.clone(), sizes, rng)
    }
}

impl Critical for Td3 {
    type Section = Td3Section;
    const METRICS: &'static [&'static About] = &[];

    fn parts(section: &Td3Section) -> (&LearnerConfig, &ReplayConfig, &Rule) {
        (&section.learner, &section.replay, &section.multipliers)
    }

    fn new(section: &Td3Section, sizes: [usize; 3], rng: &mut Rng) -> Self {
        Td3::new(section.td3.clone(), sizes, rng)
    }
}

/// What is taken from each cost: of a constraint on a mean, the mean of what was just played.
pub fn centres(played: &[Rollout], constraints: &[Constraint]) -> Vec<f64> {
    let means = mean_costs(&constraint_values(played), constraints.len());
    let centre = |(constraint, mean): (&Constraint, f64)| match constraint.aggregate {
        Aggregate::Mean => mean,
        Aggregate::Sum => 0.0,
    };
    constraints.iter().zip(means).map(centre).collect()
}

/// Costs by critics of their own, with multipliers in force.
pub struct Critics {
    /// None without a rule: then costs have no critics.
    lambdas: Option<Lambdas>,
    /// Of the reward and of each cost of a step.
    signals: Moments,
    /// What is taken from each cost.
    centres: Vec<f64>,
    /// λ_i·d_r/d_i in the current generation.
    weights: Vec<f64>,
}

impl Critics {
    /// By a rule, if it is one, for a task.
    pub fn new(rule: &Rule, spec: &EnvSpec, rng: &mut Rng) -> Result<Self, ConfigError> {
        let count = spec.constraints.len();
        let costs = costs(rule, spec);
        let lambdas = (costs > 0).then(|| Lambdas::new(rule, spec, rng)).transpose()?;
        let (centres, weights) = (vec![0.0; costs], vec![0.0; costs]);
        Ok(Self { lambdas, signals: Moments::new(1 + count), centres, weights })
    }

    /// Takes note of what was played; before the first update nothing answers it.
    pub fn observe(&mut self, played: &[Rollout], spec: &EnvSpec, learning: bool) {
        let Some(lambdas) = &mut self.lambdas else { return };
        played.iter().for_each(|rollout| self.signals.add(&rollout.signals()));
        self.centres = centres(played, &spec.constraints);
        if learning {
            let ended: Vec<cmdp::Episode> = played.iter().map(|r| r.episode.clone()).collect();
            lambdas.answer(&ended);
        }
        let units = self.signals.units();
        self.weights =
            lambdas.get().iter().zip(units).map(|(lambda, unit)| lambda * unit).collect();
    }

    /// What costs count for in an update.
    pub fn price(&self) -> Price<'_> {
        match self.lambdas {
            Some(_) => Price::Critics { lambdas: &self.weights, centres: &self.centres },
            None => Price::Stored,
        }
    }

    /// The multipliers, one for each constraint of the task.
    pub fn lambda(&self, spec: &EnvSpec) -> Vec<f64> {
        let none = || vec![0.0; spec.constraints.len()];
        self.lambdas.as_ref().map_or_else(none, |lambdas| lambdas.get().to_vec())
    }

    /// Walks everything that lasts.
    pub fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        let Some(lambdas) = &mut self.lambdas else { return Ok(()) };
        lambdas.walk(walk)?;
        self.signals.walk("signals", walk)?;
        walk.numbers("centres", &mut self.centres)?;
        walk.numbers("weights", &mut self.weights)
    }
}

/// How many costs have critics by a rule.
pub fn costs(rule: &Rule, spec: &EnvSpec) -> usize {
    if *rule == Rule::None { 0 } else { spec.constraints.len() }
}

impl<L: Critical> Pricing<L> for Critics {
    type Section = L::Section;

    fn metrics() -> Vec<&'static About> {
        [L::METRICS, &[&LAMBDA_LEARNER.about]].concat()
    }

    fn new(
        section: L::Section,
        Setup { spec, rng }: Setup,
    ) -> Result<(OffPolicy<L>, Self), TrainError> {
        let (config, replay, rule) = L::parts(&section);
        let sizes = [spec.observation, spec.action, costs(rule, spec)];
        let learner = L::new(&section, sizes, rng);
        let critics = Self::new(rule, spec, rng)?;
        Ok((OffPolicy::new(config.clone(), learner, replay, spec), critics))
    }

    fn observe(&mut self, played: &[Rollout], spec: &EnvSpec, learning: bool) {
        self.observe(played, spec, learning);
    }

    fn update(&mut self, learner: &mut OffPolicy<L>, context: &Context) -> Figures {
        learner.update(context, self.price())
    }

    fn conclude(&mut self, spec: &EnvSpec, _: bool, record: &mut Record) {
        record.set(&LAMBDA_LEARNER, self.lambda(spec));
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.walk(walk)
    }
}
