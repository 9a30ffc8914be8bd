//! IPO: PPO with a log barrier at every threshold.
//!
//! To PPO's objective it adds `-Σ_i log(ε_i - Ĵ_i)/t` with the constraint's value as the new policy
//! would have it, `Ĵ_i = J_i + L·mean (ρ - 1) A_i`; A_i are advantages of the cost by a critic of its
//! own, L is 1 for a constraint on the mean cost and the mean length of an episode for one on the sum.
//! Where a constraint is broken, Ĵ_i ≥ ε_i, the barrier is undefined: then the update follows the cost
//! alone, descending `mean max( ρA_i, clip(ρ, 1-c, 1+c) A_i )` of every broken constraint.
//!
//! 1. Liu, Ding & Liu, IPO: Interior-Point Policy Optimization under Constraints, AAAI 2020.

use cmdp::{Aggregate, Constraint, EnvSpec, Episode, Rng};
use serde::{Deserialize, Serialize};

use crate::algorithm::Definition;
use crate::collect::episodes::{mean, mean_costs};
use crate::config::{ConfigError, Section, range};
use crate::learners::ppo::{Objective, PpoConfig, Terms};
use crate::metrics::{About, Metric};
use crate::state::{StateError, Walk};

use super::on_policy::{OnPolicy, PRESETS, Variant};

/// `ipo`
pub static IPO: Definition<OnPolicy<Barrier>> = Definition {
    name: "ipo",
    description: "PPO with a log barrier at every threshold (Liu et al., 2020)",
    defaults: IpoSection::default,
    presets: PRESETS,
};

/// Updates that followed the cost alone.
static RECOVERY: Metric<f64> = Metric::new(
    "recovery",
    "train/recovery",
    "share",
    "The share of updates that followed the cost alone, because the barrier was undefined",
);

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
}

impl Default for IpoConfig {
    fn default() -> Self {
        Self { barrier: 50.0 }
    }
}

impl Section for IpoSection {
    fn validate(&self) -> Result<(), ConfigError> {
        range::positive("ipo.barrier", self.ipo.barrier)?;
        self.ppo.validate()
    }

    fn length_matters(&self) -> bool {
        self.ppo.lr_decay
    }
}

/// A constraint as the barrier sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Limit {
    /// J
    pub value: f64,
    /// ε
    pub threshold: f64,
    /// L
    pub length: f64,
}

/// The reward within a barrier.
#[derive(Debug)]
pub struct Barrier {
    constraints: Vec<Constraint>,
    /// t
    pub(crate) sharpness: f64,
    /// Of the last episodes that ended; none until some have.
    pub(crate) limits: Option<Vec<Limit>>,
}

impl Objective for Barrier {
    fn loss(&self, terms: &mut Terms) {
        let (ratios, costs, count) = (terms.ratios, terms.costs, terms.count());
        // What is left to each threshold, as the policy is now.
        let left = |(limit, costs): (&Limit, &Vec<f32>)| {
            let change = ratios.iter().zip(costs).map(|(r, a)| f64::from((r - 1.0) * a));
            limit.threshold - limit.value - limit.length * change.sum::<f64>() / count
        };
        let limits = self.limits.as_deref().unwrap_or_default();
        let left: Vec<f64> = limits.iter().zip(costs).map(left).collect();
        let recovery = left.iter().any(|&left| left <= 0.0);
        terms.figures.push((&RECOVERY, f64::from(u8::from(recovery))));
        if recovery {
            let broken = left.iter().zip(costs).filter(|(left, _)| **left <= 0.0);
            broken.for_each(|(_, costs)| terms.clipped(costs, -1.0));
            // The cost alone: no room for entropy either.
            terms.entropy_coef = 0.0;
            return;
        }
        terms.clipped(terms.advantage, 1.0);
        for ((left, limit), costs) in left.iter().zip(limits).zip(costs) {
            terms.loss -= left.ln() / self.sharpness;
            let weight = (limit.length / (self.sharpness * left * count)) as f32;
            for ((slope, ratio), a) in terms.slopes.iter_mut().zip(ratios).zip(costs) {
                *slope += weight * ratio * a;
            }
        }
    }
}

impl Variant for Barrier {
    type Section = IpoSection;
    const USES_COSTS: bool = true;
    const METRICS: &'static [&'static About] = &[&RECOVERY.about];

    fn ppo(section: &IpoSection) -> &PpoConfig {
        &section.ppo
    }

    fn new(section: &IpoSection, spec: &EnvSpec, _: &mut Rng) -> Self {
        let constraints = spec.constraints.clone();
        Self { constraints, sharpness: section.ipo.barrier, limits: None }
    }

    fn observe(&mut self, ended: &[Episode]) {
        if ended.is_empty() {
            return;
        }
        let values: Vec<Vec<f64>> = ended.iter().map(|e| e.constraint_values()).collect();
        let values = mean_costs(&values, self.constraints.len());
        let length = mean(ended.iter().map(|e| e.steps() as f64));
        let limits = self.constraints.iter().zip(values).map(|(c, value)| Limit {
            value,
            threshold: c.threshold,
            length: if c.aggregate == Aggregate::Sum { length } else { 1.0 },
        });
        self.limits = Some(limits.collect());
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        let constraints = self.constraints.len();
        walk.fitting("limits", &mut self.limits, "a limit for each constraint", |limits, _| {
            limits.as_ref().is_none_or(|limits| limits.len() == constraints)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learners::ppo::tests::by_hand;

    #[test]
    fn the_barrier_by_hand() {
        let barrier = |value: f64, length: f64| Barrier {
            constraints: vec![],
            sharpness: 50.0,
            limits: Some(vec![Limit { value, threshold: 0.5, length }]),
        };
        let recovery = |figures: &crate::metrics::Figures| figures[0].1;
        // PPO's own part is 0.2: see there.
        // Ĵ = 0.3 + 2·mean(1·0.1, -0.5·0.1) = 0.35, so 0.15 is left.
        let losses = by_hand(&[2.0, 0.5], &[1.0, -1.0], &[0.1, 0.1], &barrier(0.3, 2.0));
        let expected = -0.2 - 0.15f64.ln() / 50.0;
        assert!((losses.actor - expected).abs() < 1e-6, "{losses:?} {expected}");
        assert_eq!((losses.clipped, recovery(&losses.more)), (1.0, 0.0));
        // Broken: max(2·0.1, 1.2·0.1) = 0.2; max(0.5·-0.4, 0.8·-0.4) = -0.2; mean 0.
        let losses = by_hand(&[2.0, 0.5], &[1.0, -1.0], &[0.1, -0.4], &barrier(0.6, 1.0));
        assert!(losses.actor.abs() < 1e-6 && recovery(&losses.more) == 1.0, "{losses:?}");
    }
}
