//! IPO: PPO with a log barrier at every threshold.
//!
//! To PPO's objective it adds `-Σ_i log(ε_i - Ĵ_i)/t` with the constraint's value as the new policy
//! would have it, `Ĵ_i = J_i + L·mean (ρ - 1) A_i`; A_i are advantages of the cost by a critic of its
//! own, L is 1 for a constraint on the mean cost and the mean length of an episode for one on the sum.
//! Ĵ_i is estimated before every epoch from all that was played: in a minibatch of 64 its noise would
//! decide. Within the epoch the barrier is its tangent there, of slope `L/(t·(ε_i - Ĵ_i))`.
//!
//! The barrier of a broken constraint is undefined: where J_i ≥ ε_i, or Ĵ_i has come there, updates
//! leave the reward alone and descend the cost, `mean max( ρA_i, clip(ρ, 1-c, 1+c) A_i )`; of several
//! broken ones each with the weight L/s_i, where s_i is what its excess is measured by. Constraints
//! that are kept keep their barrier.
//!
//! 1. Liu, Ding & Liu, IPO: Interior-Point Policy Optimization under Constraints, AAAI 2020.

use cmdp::{Aggregate, Constraint, EnvSpec, Episode, Rng};
use serde::{Deserialize, Serialize};

use crate::algorithm::{Definition, PAPER};
use crate::collect::episodes::{mean, mean_costs};
use crate::config::{ConfigError, Section, range};
use crate::learners::ppo::{Objective, Ppo, PpoConfig, Terms};
use crate::metrics::{About, Figures, Metric};
use crate::state::{StateError, Walk};

use super::on_policy::{FAST, OnPolicy, Part, Variant};

/// `ipo`
pub static IPO: Definition<OnPolicy<Barrier>> = Definition {
    name: "ipo",
    description: "PPO with a log barrier at every threshold (Liu et al., 2020)",
    defaults: IpoSection::default,
    presets: &[PAPER, FAST],
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

    fn running(&self) -> usize {
        self.ppo.envs
    }

    fn changeable() -> Vec<&'static str> {
        [&PpoConfig::CHANGEABLE[..], &["ipo.barrier"]].concat()
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
    /// s, what its excess is measured by.
    pub scale: f64,
    /// mean (ρ - 1) A_i over all that was played, before the current epoch.
    pub moved: f64,
}

impl Limit {
    /// What is left to the threshold; nothing where J is not below it, however the policy has moved.
    fn left(&self) -> f64 {
        let now = self.threshold - self.value - self.length * self.moved;
        if self.value >= self.threshold { 0.0 } else { now.max(0.0) }
    }
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
        let limits = self.limits.as_deref().unwrap_or_default();
        let recovery = limits.iter().any(|limit| limit.left() == 0.0);
        terms.figures.push((&RECOVERY, f64::from(u8::from(recovery))));
        if recovery {
            // The cost alone: no room for entropy either.
            terms.entropy_coef = 0.0;
        } else {
            terms.clipped(terms.advantage, 1.0);
        }
        let broken = limits.iter().filter(|limit| limit.left() == 0.0);
        let whole: f64 = broken.map(|limit| limit.length / limit.scale).sum();
        for (limit, costs) in limits.iter().zip(costs) {
            let left = limit.left();
            if left == 0.0 {
                terms.clipped(costs, -(limit.length / limit.scale / whole) as f32);
                continue;
            }
            let weight = limit.length / (self.sharpness * left);
            let moved = ratios.iter().zip(costs).map(|(r, a)| f64::from((r - 1.0) * a));
            let further = moved.sum::<f64>() / count - limit.moved;
            terms.loss += weight * further - left.ln() / self.sharpness;
            let weight = (weight / count) as f32;
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

    fn new(section: &IpoSection, spec: &EnvSpec, _: &mut Rng) -> Result<Self, ConfigError> {
        let constraints = spec.constraints.clone();
        Ok(Self { constraints, sharpness: section.ipo.barrier, limits: None })
    }

    fn observe(&mut self, ended: &[Episode]) {
        if ended.is_empty() {
            // The same values must do; the policy has not moved since it played.
            self.limits.iter_mut().flatten().for_each(|limit| limit.moved = 0.0);
            return;
        }
        let values: Vec<Vec<f64>> = ended.iter().map(|e| e.constraint_values()).collect();
        let values = mean_costs(&values, self.constraints.len());
        let length = mean(ended.iter().map(|e| e.steps() as f64));
        let scaled = self.constraints.iter().zip(Constraint::scales(&self.constraints));
        let limits = scaled.zip(values).map(|((c, scale), value)| Limit {
            value,
            threshold: c.threshold,
            scale,
            length: if c.aggregate == Aggregate::Sum { length } else { 1.0 },
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

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        let constraints = self.constraints.len();
        walk.fitting("limits", &mut self.limits, "a limit for each constraint", |limits, _| {
            limits.as_ref().is_none_or(|limits| limits.len() == constraints)
        })?;
        // Thresholds may have been changed since.
        let scales = Constraint::scales(&self.constraints);
        let limits = self.limits.iter_mut().flatten().zip(self.constraints.iter().zip(scales));
        for (limit, (constraint, scale)) in limits {
            (limit.threshold, limit.scale) = (constraint.threshold, scale);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learners::ppo::Losses;
    use crate::learners::ppo::tests::by_hand;

    fn barrier(limits: &[Limit]) -> Barrier {
        Barrier { constraints: vec![], sharpness: 50.0, limits: Some(limits.to_vec()) }
    }

    fn limit(value: f64, length: f64, moved: f64) -> Limit {
        Limit { value, threshold: 0.5, length, scale: 1.0, moved }
    }

    fn recovery(losses: &Losses) -> bool {
        losses.more[0].1 == 1.0
    }

    #[test]
    fn the_barrier_by_hand() {
        let (ratios, advantage) = (&[2.0, 0.5], &[1.0, -1.0]);
        // PPO's own part is 0.2: see there. Before the epoch Ĵ = 0.3 + 2·0.02 = 0.34: 0.16 is left.
        // Then mean(1·0.1, -0.5·0.1) = 0.025, that is 0.005 more, on a slope of 2/(50·0.16).
        let losses = by_hand(ratios, advantage, &[0.1, 0.1], &barrier(&[limit(0.3, 2.0, 0.02)]));
        let expected = -0.2 - 0.16f64.ln() / 50.0 + 0.005 * 2.0 / (50.0 * 0.16);
        assert!((losses.actor - expected).abs() < 1e-6, "{losses:?} {expected}");
        assert!(losses.clipped == 1.0 && !recovery(&losses));
        // Broken: max(2·0.1, 1.2·0.1) = 0.2; max(0.5·-0.4, 0.8·-0.4) = -0.2; mean 0.
        let broken = barrier(&[limit(0.6, 1.0, 0.0)]);
        let losses = by_hand(ratios, advantage, &[0.1, -0.4], &broken);
        assert!(losses.actor.abs() < 1e-6 && recovery(&losses), "{losses:?}");
    }

    #[test]
    fn with_a_broken_constraint_every_update_recovers_whatever_its_minibatch_says() {
        for (value, moved, expected) in [
            (0.5, 0.0, true),   // at the threshold
            (0.6, -0.3, true),  // broken by what was played, although the policy has moved away
            (0.4, 0.11, true),  // kept, but the policy has moved beyond it
            (0.4, 0.09, false), // kept
        ] {
            for cost in [[9.0, 9.0], [-9.0, -9.0]] {
                let barrier = barrier(&[limit(value, 1.0, moved)]);
                let losses = by_hand(&[2.0, 0.5], &[1.0, -1.0], &cost, &barrier);
                assert_eq!(recovery(&losses), expected, "J {value}, moved {moved}, A {cost:?}");
            }
        }
    }
}
