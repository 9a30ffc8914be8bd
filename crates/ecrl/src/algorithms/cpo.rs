//! CPO and PCPO: steps within a trust region that keep constraints to first order.
//!
//! With c_i = (J_i - ε_i)/L_i, times h where it is above 0, how far a constraint is broken in the unit of one
//! step's cost (L_i is 1 for a constraint on the mean cost, and the mean length of an episode for one on the sum),
//!
//! ```text
//! cpo:   maximise gᵀx    while    ½xᵀHx ≤ δ    and    c_i + b_iᵀx ≤ 0
//! pcpo:  the step without constraints, then by the shortest way in H's distance to where they are kept
//! ```
//!
//! Where no step within the region keeps a broken constraint, CPO's goes down its cost alone. The small
//! problems are solved in `learners/trust_region`.
//!
//! The haste h makes up for promises that are kept in part: a step's slopes are those of the very rows that they are
//! estimated from, so that played anew it lowers the cost by less than they say, batch after batch, and with h = 1
//! costs settle well beyond the threshold. (With a discount, the paper's own L_i would be 1/(1 - γ), a tenth of an
//! episode's length: the same as h = 10.)
//!
//! 1. Achiam et al., Constrained Policy Optimization, ICML 2017.
//! 2. Yang et al., Projection-Based Constrained Policy Optimization, ICLR 2020.

use std::marker::PhantomData;

use cmdp::{Constraint, EnvSpec, Episode, Rng};
use serde::{Deserialize, Serialize};

use crate::algorithm::Definition;
use crate::config::{ConfigError, Pace, Section, range};
use crate::learners::ppo::{ActorCriticConfig, Ppo, PpoConfig};
use crate::learners::trust_region::{Problem, Step};
use crate::metrics::{About, Figures, Record};
use crate::state::{StateError, Walk};

use super::on_policy::{OnPolicy, Part, Standing, Variant};
use super::trpo::TrustRegionSection;
use super::trust_region::{Bound, STEPS, Stepped, TrustRegionConfig, improve};

/// `cpo`
pub static CPO: Definition<OnPolicy<Constrained<Cpo>>> = Definition {
    name: "cpo",
    description: "steps within a trust region and the constraints (Achiam et al., 2017)",
    defaults: CpoSection::default,
    presets: &[],
};

/// `pcpo`
pub static PCPO: Definition<OnPolicy<Constrained<Pcpo>>> = Definition {
    name: "pcpo",
    description: "steps within a trust region, projected on the constraints (Yang et al., 2020)",
    defaults: CpoSection::default,
    presets: &[],
};

/// Their configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpoSection {
    /// Networks, batches and critics.
    pub actor_critic: ActorCriticConfig,
    /// The trust region.
    pub trust_region: TrustRegionConfig,
    /// The constraints.
    pub cpo: CpoConfig,
}

/// How constraints are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpoConfig {
    /// Haste h: how many times its size a breach counts in a step; more comes back
    /// sooner and swings more.
    pub haste: f64,
}

impl Default for CpoSection {
    fn default() -> Self {
        let TrustRegionSection { actor_critic, trust_region } = TrustRegionSection::default();
        Self { actor_critic, trust_region, cpo: CpoConfig { haste: 10.0 } }
    }
}

impl Section for CpoSection {
    fn validate(&self) -> Result<(), ConfigError> {
        self.actor_critic.validate()?;
        self.trust_region.validate()?;
        range::positive("cpo.haste", self.cpo.haste)
    }

    fn pace(&self) -> Pace {
        self.actor_critic.pace()
    }

    fn changeable() -> Vec<&'static str> {
        [&TrustRegionSection::changeable()[..], &["cpo.haste"]].concat()
    }
}

/// How the small problem is solved.
pub trait Solve: Send + 'static {
    /// The weights of the step.
    fn solve(problem: &Problem) -> Step;
}

/// All at once.
pub struct Cpo;

impl Solve for Cpo {
    fn solve(problem: &Problem) -> Step {
        problem.constrained()
    }
}

/// By reward alone, then projected.
pub struct Pcpo;

impl Solve for Pcpo {
    fn solve(problem: &Problem) -> Step {
        problem.projected()
    }
}

/// The reward within constraints.
pub struct Constrained<S> {
    config: TrustRegionConfig,
    haste: f64,
    constraints: Vec<Constraint>,
    /// By the last episodes that ended; none until some have.
    standing: Option<Vec<Standing>>,
    stepped: Stepped,
    solve: PhantomData<S>,
}

impl<S> Constrained<S> {
    /// The constraints of a step, once it is known how they stand.
    fn bounds(&self) -> Vec<Bound> {
        let standing = self.standing.iter().flatten().zip(&self.constraints);
        let broken = standing.map(|(standing, c)| {
            let broken = (standing.value - c.threshold) / standing.length;
            if broken > 0.0 { self.haste * broken } else { broken }
        });
        broken.enumerate().map(|(i, broken)| Bound { signal: 1 + i, broken }).collect()
    }
}

impl<S: Solve> Variant for Constrained<S> {
    type Section = CpoSection;
    const USES_COSTS: bool = true;
    const UPDATES: &'static [&'static About] = &[];
    const METRICS: &'static [&'static About] = STEPS;

    fn ppo(section: &CpoSection) -> PpoConfig {
        section.actor_critic.ppo()
    }

    fn new(section: &CpoSection, spec: &EnvSpec, _: &mut Rng) -> Result<Self, ConfigError> {
        Ok(Self {
            config: section.trust_region.clone(),
            haste: section.cpo.haste,
            constraints: spec.constraints.clone(),
            standing: None,
            stepped: Stepped::default(),
            solve: PhantomData,
        })
    }

    fn observe(&mut self, ended: &[Episode]) {
        // Where none has ended, the same values must do.
        self.standing = Standing::of(ended, &self.constraints).or(self.standing.take());
    }

    fn update(&mut self, ppo: &mut Ppo, Part { rows, rate, first }: Part) -> Figures {
        if first {
            let advantages = ppo.advantages().0.to_vec();
            self.stepped = improve(ppo, &self.config, &advantages, &self.bounds(), S::solve);
        }
        ppo.update_critics(rows, rate)
    }

    fn conclude(&self, record: &mut Record) {
        self.stepped.note(record);
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        let constraints = self.constraints.len();
        walk.fitting(
            "standing",
            &mut self.standing,
            "a standing of each constraint",
            |stored, _| stored.as_ref().is_none_or(|standing| standing.len() == constraints),
        )?;
        self.stepped.walk(walk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmdp::{Aggregate, Step as Played};

    #[test]
    fn how_far_a_constraint_is_broken_is_told_in_one_steps_cost() {
        let make = |aggregate, threshold| Constraint { name: "c".into(), aggregate, threshold };
        let constraints = vec![make(Aggregate::Mean, 0.5), make(Aggregate::Sum, 1.5)];
        let mut cpo = Constrained::<Cpo> {
            config: TrustRegionConfig::default(),
            haste: 2.0,
            constraints: constraints.clone(),
            standing: None,
            stepped: Stepped::default(),
            solve: PhantomData,
        };
        assert!(cpo.bounds().is_empty());
        let played = Played { reward: 0.0, terminated: false, truncated: false, unstable: false };
        let mut episodes = vec![Episode::new(&constraints), Episode::new(&constraints)];
        (0..2).for_each(|_| episodes[0].push(&played, &[0.25, 1.0]));
        (0..6).for_each(|_| episodes[1].push(&played, &[1.25, 0.5]));
        cpo.observe(&episodes);
        cpo.observe(&[]);
        // J: 0.75 and 2.5; a mean of four steps an episode; twice.
        let broken: Vec<f64> = cpo.bounds().iter().map(|bound| bound.broken).collect();
        assert_eq!(broken, [0.5, 0.5]);
        // J: 0.25 and 1; two steps. What is kept counts as it is.
        cpo.observe(&[{
            let mut episode = Episode::new(&constraints);
            (0..2).for_each(|_| episode.push(&played, &[0.25, 0.5]));
            episode
        }]);
        let broken: Vec<f64> = cpo.bounds().iter().map(|bound| bound.broken).collect();
        assert_eq!(broken, [-0.25, -0.25]);
    }
}
