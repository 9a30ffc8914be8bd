//! CUP: a step for the reward, then the nearest policy that keeps the constraints.
//!
//! What was played is learnt from twice. First some epochs of PPO on the reward alone lead to a policy π_½, then
//! others project it: they descend, in states where the policy has not left π_½ too far yet,
//!
//! ```text
//! mean [ D ≤ δ ]·( D + Σ_i λ_i·ρ A_i/d_i )        D = KL(π, π_½)        ρ = π/π_old
//! ```
//!
//! with advantages A_i of the costs by critics of their own and their deviations d_i, smoothed over batches, so that
//! λ has no unit. The multipliers follow a rule of `multipliers/`.
//!
//! 1. Yang et al., Constrained Update Projection Approach to Safe Policy Optimization, NeurIPS 2022.

use cmdp::{EnvSpec, Episode, Rng};
use serde::{Deserialize, Serialize};

use crate::algorithm::Definition;
use crate::config::{ConfigError, Pace, Section, range};
use crate::learners::ppo::{CLIPPED, Objective, Ppo, PpoConfig, Terms};
use crate::learners::{ACTOR_LOSS, ENTROPY};
use crate::metrics::{About, Figures, Record};
use crate::multipliers::{LAMBDA_LEARNER, Lambdas, Rule};
use crate::state::{StateError, Walk};

use super::focops::LEFT;
use super::on_policy::{KL, OnPolicy, Part, Variant};

/// `cup`
pub static CUP: Definition<OnPolicy<Cup>> = Definition {
    name: "cup",
    description: "PPO, then a projection to the nearest policy that keeps the constraints (Yang et al., 2022)",
    defaults: CupSection::default,
    presets: &[],
};

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CupSection {
    /// The learner.
    pub ppo: PpoConfig,
    /// The projection.
    pub cup: CupConfig,
    /// The multipliers of the constraints.
    pub multipliers: Rule,
}

/// The projection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CupConfig {
    /// Epochs of it, after those of PPO.
    pub projection: usize,
    /// How far it may lead in a state.
    pub delta: f64,
}

impl Default for CupSection {
    fn default() -> Self {
        Self {
            ppo: PpoConfig::fast(),
            cup: CupConfig { projection: 10, delta: 0.1 },
            multipliers: Rule::relative(),
        }
    }
}

impl Section for CupSection {
    fn validate(&self) -> Result<(), ConfigError> {
        self.ppo.validate()?;
        range::many("cup.projection", self.cup.projection)?;
        range::positive("cup.delta", self.cup.delta)?;
        self.multipliers.validate_alone()
    }

    fn pace(&self) -> Pace {
        self.ppo.pace()
    }

    fn changeable() -> Vec<&'static str> {
        [&PpoConfig::CHANGEABLE[..], &["cup.delta", Rule::CHANGEABLE]].concat()
    }
}

/// What is descended now, and the multipliers in force.
pub struct Cup {
    pub(crate) delta: f64,
    pub(crate) lambdas: Lambdas,
    /// Epochs before the projection.
    pub(crate) improving: usize,
    /// The current epoch.
    pub(crate) epoch: usize,
}

impl Objective for Cup {
    fn loss(&self, terms: &mut Terms) {
        if self.epoch < self.improving {
            return terms.clipped(terms.advantage, 1.0);
        }
        let (count, weights) = (terms.count(), self.lambdas.per_deviation());
        let mut left = 0.0;
        for (row, (&apart, ratio)) in terms.divergences.iter().zip(terms.ratios).enumerate() {
            if apart > self.delta as f32 {
                left += 1.0;
                continue;
            }
            let costs = terms.costs.iter().zip(&weights);
            let cost: f32 = costs.map(|(costs, &weight)| weight as f32 * ratio * costs[row]).sum();
            terms.loss += f64::from(apart + cost) / count;
            terms.slopes[row] += cost / count as f32;
            terms.d_divergences[row] += 1.0 / count as f32;
        }
        terms.figures.push((&LEFT, left / count));
    }
}

impl Variant for Cup {
    type Section = CupSection;
    const USES_COSTS: bool = true;
    const REMEMBERS: bool = true;
    const UPDATES: &'static [&'static About] =
        &[&ACTOR_LOSS.about, &ENTROPY.about, &KL.about, &CLIPPED.about, &LEFT.about];
    const METRICS: &'static [&'static About] = &[&LAMBDA_LEARNER.about];

    fn ppo(section: &CupSection) -> PpoConfig {
        let mut ppo = section.ppo.clone();
        ppo.actor_critic.epochs += section.cup.projection;
        ppo
    }

    fn new(section: &CupSection, spec: &EnvSpec, rng: &mut Rng) -> Result<Self, ConfigError> {
        let lambdas = Lambdas::new(&section.multipliers, spec, rng)?;
        Ok(Self {
            delta: section.cup.delta,
            lambdas,
            improving: section.ppo.actor_critic.epochs,
            epoch: 0,
        })
    }

    fn observe(&mut self, ended: &[Episode]) {
        self.lambdas.answer(ended);
    }

    fn begin(&mut self, ppo: &Ppo) {
        self.lambdas.measure(&ppo.spreads());
        self.epoch = 0;
    }

    fn next_epoch(&mut self, ppo: &mut Ppo) {
        self.epoch += 1;
        if self.epoch == self.improving {
            ppo.remember();
        }
    }

    fn update(&mut self, ppo: &mut Ppo, Part { rows, rate, .. }: Part) -> Figures {
        ppo.update(rows, rate, self)
    }

    fn conclude(&self, record: &mut Record) {
        self.lambdas.note(record);
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.lambdas.walk(walk)?;
        walk.plain("epoch", &mut self.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learners::ppo::tests::by_hand_apart;
    use cmdp::{Constraint, Env as _, PointMass};

    fn cup(epoch: usize) -> Cup {
        let constraints = Constraint::parse_all(&["force<=0.5"], &PointMass::COSTS).unwrap();
        let (task, rule) =
            (PointMass::new(constraints).unwrap(), Rule::Fixed { lambda: 3.0.into() });
        let mut lambdas = Lambdas::new(&rule, task.spec(), &mut cmdp::rng([0; 4])).unwrap();
        lambdas.measure(&[8.0, 0.5]);
        Cup { delta: 0.5, lambdas, improving: 2, epoch }
    }

    #[test]
    fn both_halves_by_hand() {
        // First the reward alone: min(2·1, 1.2·1) = 1.2; min(-0.5, -0.8) = -0.8; mean 0.2.
        let (ratios, advantage, cost) = ([2.0, 0.5], [1.0, -1.0], [0.1, -0.4]);
        let losses = by_hand_apart(&ratios, &advantage, &cost, 0.5, &cup(1));
        assert!((losses.actor + 0.2).abs() < 1e-6, "{losses:?}");
        // Then costs by λ/d = 6, whatever the reward: 2·6·0.1 = 1.2 and 0.5·6·-0.4 = -1.2. The means are 0.5
        // apart, and so KL = 0.5²/2 = 0.125 in both: mean 0.125.
        let losses = by_hand_apart(&ratios, &advantage, &cost, 0.5, &cup(2));
        assert!((losses.actor - 0.125).abs() < 1e-6, "{losses:?}");
        assert!(
            losses.more.iter().any(|(metric, left)| metric.about.name == "left" && *left == 0.0)
        );
        // 2 apart, KL = 2: both have left.
        let losses = by_hand_apart(&ratios, &advantage, &cost, 2.0, &cup(2));
        assert!(losses.actor == 0.0, "{losses:?}");
    }
}
