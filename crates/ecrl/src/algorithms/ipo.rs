//! IPO: PPO with a log barrier at every threshold.
//!
//! To the reward it adds `Σ_i log(ε_i - Ĵ_i)/t` with the constraint's value as the new policy would have it,
//! `Ĵ_i = J_i + L_i·mean (ρ - 1) A_i`; A_i are advantages of the cost by a critic of its own, L_i is 1 for a
//! constraint on the mean cost and the mean length of an episode for one on the sum. Ĵ_i is estimated before
//! every epoch from all that was played: in a minibatch of 64 its noise would decide. Within the epoch the
//! barrier is its tangent there, and so PPO's clipped objective is that of a Lagrangian whose multipliers
//! are the barrier's slopes:
//!
//! ```text
//! A = ( A_r - Σ_i w_i A_i ) / ( 1 + Σ_i w_i )        w_i = min( L_i/(t·(ε_i - Ĵ_i)), w_max )
//! ```
//!
//! The barrier of a broken constraint is undefined. It goes on in a straight line from where its slope is
//! w_max: a policy that is out comes back without forgetting its reward. (To follow the cost alone until it is
//! back teaches robots that can fall to fall: nothing is cheaper, and nothing leads away from it. A barrier
//! outside of the clip does as much harm: minibatch after minibatch it pushes the policy further.)
//!
//! 1. Liu, Ding & Liu, IPO: Interior-Point Policy Optimization under Constraints, AAAI 2020.
//! 2. Kervadec et al., Constrained Deep Networks: Lagrangian Optimization via Log-Barrier Extensions, 2019.

use cmdp::{Constraint, EnvSpec, Episode, Rng};
use serde::{Deserialize, Serialize};

use crate::algorithm::{Definition, PAPER};
use crate::config::{ConfigError, Pace, Section, range};
use crate::learners::ppo::{Objective, Ppo, PpoConfig, Terms};
use crate::metrics::{About, Figures, Record};
use crate::multipliers::LAMBDA_LEARNER;
use crate::state::{StateError, Walk};

use super::on_policy::{FAST, OnPolicy, Part, Standing, Variant, lagrangian};

/// `ipo`
pub static IPO: Definition<OnPolicy<Barrier>> = Definition {
    name: "ipo",
    description: "PPO with a log barrier at every threshold (Liu et al., 2020)",
    defaults: IpoSection::default,
    presets: &[PAPER, FAST],
};

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct IpoSection {
    /// The learner.
    pub ppo: PpoConfig,
    /// The barrier.
    pub ipo: IpoConfig,
}

/// The barrier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IpoConfig {
    /// Sharpness t of the barrier; more lets the policy nearer to the threshold. Paper: 50.
    pub barrier: f64,
    /// Steepest slope w_max of the barrier, from which it goes on in a straight line, in reward for cost;
    /// more leaves less to the reward once a constraint is broken.
    pub steepest: f64,
}

impl Default for IpoConfig {
    fn default() -> Self {
        Self { barrier: 50.0, steepest: 20.0 }
    }
}

impl Section for IpoSection {
    fn validate(&self) -> Result<(), ConfigError> {
        range::positive("ipo.barrier", self.ipo.barrier)?;
        range::positive("ipo.steepest", self.ipo.steepest)?;
        self.ppo.validate()
    }

    fn pace(&self) -> Pace {
        self.ppo.pace()
    }

    fn changeable() -> Vec<&'static str> {
        [&PpoConfig::CHANGEABLE[..], &["ipo.barrier", "ipo.steepest"]].concat()
    }
}

/// A constraint as the barrier sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Limit {
    /// J and L.
    pub standing: Standing,
    /// ε
    pub threshold: f64,
    /// mean (ρ - 1) A_i over all that was played, before the current epoch.
    pub moved: f64,
}

impl Limit {
    /// The slope of the barrier, w.
    fn slope(&self, config: &IpoConfig) -> f64 {
        let Standing { value, length } = self.standing;
        let left = self.threshold - value - length * self.moved;
        let slope = length / (config.barrier * left);
        if left > 0.0 { slope.min(config.steepest) } else { config.steepest }
    }
}

/// The reward within a barrier.
#[derive(Debug)]
pub struct Barrier {
    pub(crate) constraints: Vec<Constraint>,
    pub(crate) config: IpoConfig,
    /// Of the last episodes that ended; none until some have.
    pub(crate) limits: Option<Vec<Limit>>,
}

impl Barrier {
    /// The slope at every constraint: 0 until an episode has ended.
    pub(crate) fn slopes(&self) -> Vec<f64> {
        match &self.limits {
            Some(limits) => limits.iter().map(|limit| limit.slope(&self.config)).collect(),
            None => vec![0.0; self.constraints.len()],
        }
    }
}

impl Objective for Barrier {
    fn loss(&self, terms: &mut Terms) {
        let slopes = self.slopes();
        terms.clipped(&lagrangian(terms.advantage, terms.scale, terms.costs, &slopes), 1.0);
    }
}

impl Variant for Barrier {
    type Section = IpoSection;
    const USES_COSTS: bool = true;
    const STATE_VERSION: u32 = 2;
    const METRICS: &'static [&'static About] = &[&LAMBDA_LEARNER.about];

    fn ppo(section: &IpoSection) -> PpoConfig {
        section.ppo.clone()
    }

    fn new(section: &IpoSection, spec: &EnvSpec, _: &mut Rng) -> Result<Self, ConfigError> {
        let constraints = spec.constraints.clone();
        Ok(Self { constraints, config: section.ipo.clone(), limits: None })
    }

    fn observe(&mut self, ended: &[Episode]) {
        let Some(standing) = Standing::of(ended, &self.constraints) else {
            // The same values must do; the policy has not moved since it played.
            self.limits.iter_mut().flatten().for_each(|limit| limit.moved = 0.0);
            return;
        };
        let limits = self.constraints.iter().zip(standing).map(|(constraint, standing)| Limit {
            standing,
            threshold: constraint.threshold,
            moved: 0.0,
        });
        self.limits = Some(limits.collect());
    }

    fn next_epoch(&mut self, ppo: &mut Ppo) {
        let limits = self.limits.iter_mut().flatten();
        limits.zip(ppo.moved()).for_each(|(limit, moved)| limit.moved = moved);
    }

    fn update(&mut self, ppo: &mut Ppo, Part { rows, rate, .. }: Part) -> Figures {
        ppo.update(rows, rate, self)
    }

    fn conclude(&self, record: &mut Record) {
        record.set(&LAMBDA_LEARNER, self.slopes());
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        let constraints = self.constraints.len();
        walk.fitting("limits", &mut self.limits, "a limit for each constraint", |limits, _| {
            limits.as_ref().is_none_or(|limits| limits.len() == constraints)
        })?;
        // Thresholds may have been changed since.
        let limits = self.limits.iter_mut().flatten().zip(&self.constraints);
        limits.for_each(|(limit, constraint)| limit.threshold = constraint.threshold);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learners::ppo::tests::by_hand;

    fn limit(value: f64, length: f64, moved: f64) -> Limit {
        Limit { standing: Standing { value, length }, threshold: 0.5, moved }
    }

    #[test]
    fn the_slope_by_hand() {
        let config = IpoConfig { barrier: 50.0, steepest: 20.0 };
        for (limit, expected) in [
            (limit(0.3, 1.0, 0.0), 1.0 / (50.0 * 0.2)),
            // Before the epoch Ĵ = 0.3 + 2·0.02: 0.16 is left.
            (limit(0.3, 2.0, 0.02), 2.0 / (50.0 * 0.16)),
            (limit(0.4995, 1.0, 0.0), 20.0), // 1/(50·0.0005) = 40
            (limit(0.5, 1.0, 0.0), 20.0),
            (limit(0.9, 1.0, 0.0), 20.0),
            (limit(0.4, 1.0, 0.2), 20.0), // kept, but the policy has moved beyond it
        ] {
            assert!((limit.slope(&config) - expected).abs() < 1e-9, "{limit:?}");
        }
    }

    #[test]
    fn the_objective_by_hand() {
        // w = 1/(50·0.02) = 1: A = (1 - 0.2)/2 = 0.4 and (-1 - 0.2)/2 = -0.6.
        // min(2·0.4, 1.2·0.4) = 0.48; min(0.5·-0.6, 0.8·-0.6) = -0.48; mean 0.
        let config = IpoConfig::default();
        let limits = Some(vec![limit(0.48, 1.0, 0.0)]);
        let barrier = Barrier { constraints: vec![], config: config.clone(), limits };
        let losses = by_hand(&[2.0, 0.5], &[1.0, -1.0], &[0.2, 0.2], &barrier);
        assert!(losses.actor.abs() < 1e-6 && losses.clipped == Some(1.0), "{losses:?}");
        // Broken: w = 20, and the reward still counts. A = (1 - 4)/21 and (-1 - 4)/21.
        // min(2·-3, 1.2·-3) = -6; min(0.5·-5, 0.8·-5) = -4; mean -5, over 21.
        let limits = Some(vec![limit(0.6, 1.0, 0.0)]);
        let barrier = Barrier { constraints: vec![], config: config.clone(), limits };
        let losses = by_hand(&[2.0, 0.5], &[1.0, -1.0], &[0.2, 0.2], &barrier);
        assert!((losses.actor - 5.0 / 21.0).abs() < 1e-6, "{losses:?}");
        // Before an episode has ended it is PPO: 0.2, see there.
        let barrier = Barrier { constraints: vec![], config, limits: None };
        let losses = by_hand(&[2.0, 0.5], &[1.0, -1.0], &[0.2, 0.2], &barrier);
        assert!((losses.actor + 0.2).abs() < 1e-6, "{losses:?}");
    }
}
