//! MetaL: SAC on shaped rewards, whose multipliers learn how fast to learn.
//!
//! ```text
//! y    = r - Σ_i w_i c_i + γ (1 - terminated)( min_j Q̄_j - α log π )        w_i = λ_i·d_r/d_i, in force
//! λ_i  ← max( 0, λ_i + η_i e_i )        e_i = min( 4, mean(J_Ci - ε_i)/ε_i )        η_i = exp m_i
//! m_i  descends the critic's loss after its update:  dL(θ')/dm_i = dL(θ')/dλ_i·η_i e_i
//! ```
//!
//! Each update of a generation tells dL(θ')/dλ_i, through the targets and through the parameters that the
//! update moves; at the generation's end m_i takes one step of Adam down their mean. A λ whose steps make what
//! the critic learnt wrong at once is slowed down. As in `sac-lag`, d are the running deviations of the reward
//! and of the cost of a step, and of a constraint on a mean cost the mean is taken from the cost.
//!
//! 1. Calian et al., Balancing Constraints and Rewards with Meta-Gradient D4PG, ICLR 2021.

use cmdp::EnvSpec;
use nets::Adam;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Definition, Setup};
use crate::collect::episodes::{Rollout, constraint_values};
use crate::config::{ConfigError, Section, range};
use crate::context::Context;
use crate::learners::ENTROPY;
use crate::learners::critic::Price;
use crate::learners::moments::Moments;
use crate::learners::off_policy::{self, LearnerConfig, OffPolicy, ReplayConfig};
use crate::learners::sac::{Sac, SacConfig};
use crate::metrics::{About, Figures, Metric, Record};
use crate::multipliers::{Each, LAMBDA_LEARNER, relative_errors};
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

use super::off_policy::{Alone, Pricing};
use super::sac_lag::{centres, fast_sac};

/// `metal`
pub static METAL: Definition<Alone<Sac, InForce>> = Definition {
    name: "metal",
    description: "SAC whose multipliers learn their learning rate by meta-gradient (Calian et al., 2021)",
    defaults: MetalSection::default,
    presets: &[],
};

/// η of every multiplier.
static META_ETA: Metric<Vec<f64>> = Metric::new(
    "meta_eta",
    "meta_eta",
    "",
    "The learning rates of the multipliers, which are learnt, after the generation",
);

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetalSection {
    /// When it plays and learns.
    pub learner: LearnerConfig,
    /// Its networks and updates.
    pub sac: SacConfig,
    /// What it learns from.
    pub replay: ReplayConfig,
    /// The multipliers.
    pub metal: MetalConfig,
}

/// The multipliers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetalConfig {
    /// λ at the start.
    pub lambda: Each,
    /// η at the start.
    pub eta: Each,
    /// Learning rate of log η; 0 leaves η as it is.
    pub meta_lr: f64,
}

impl Default for MetalSection {
    fn default() -> Self {
        let super::sac::SacSection { learner, sac, replay, .. } =
            fast_sac(crate::multipliers::Rule::None);
        let metal = MetalConfig { lambda: 0.001.into(), eta: 0.02.into(), meta_lr: 0.01 };
        Self { learner, sac, replay, metal }
    }
}

impl Section for MetalSection {
    fn validate(&self) -> Result<(), ConfigError> {
        off_policy::validate(&self.learner, &self.replay)?;
        self.sac.validate(self.replay.capacity)?;
        self.metal.lambda.validate("metal.lambda")?;
        self.metal.eta.validate_above_0("metal.eta")?;
        range::not_negative("metal.meta_lr", self.metal.meta_lr)
    }

    fn changeable() -> Vec<&'static str> {
        [&SacConfig::CHANGEABLE[..], &["metal.meta_lr"]].concat()
    }
}

/// Multipliers that learn how fast to learn.
struct Meta {
    lambda: Vec<f64>,
    /// m = log η
    log_eta: Vec<f32>,
    adam: Adam,
    /// η_i e_i of the last step, where λ was free to take it.
    step: Vec<f64>,
    /// Sums of slopes over the generation's updates, and how many there were.
    slopes: Vec<f64>,
    count: u64,
}

/// log η, held where it can be told from standing still and from running away.
const LOG_ETA: std::ops::RangeInclusive<f32> = -16.0..=2.0;

impl Meta {
    fn new(lambda: Vec<f64>, eta: &[f64], rate: f64) -> Self {
        let count = lambda.len();
        let log_eta = eta.iter().map(|eta| eta.ln() as f32).collect();
        let (step, slopes) = (vec![0.0; count], vec![0.0; count]);
        Self { lambda, log_eta, adam: Adam::new(count, rate), step, slopes, count: 0 }
    }

    fn eta(&self) -> Vec<f64> {
        self.log_eta.iter().map(|&m| f64::from(m).exp()).collect()
    }

    /// λ answers errors.
    fn answer(&mut self, errors: &[f64]) {
        for (i, (eta, error)) in self.eta().iter().zip(errors).enumerate() {
            let next = self.lambda[i] + eta * error;
            self.step[i] = if next > 0.0 { eta * error } else { 0.0 };
            self.lambda[i] = next.max(0.0);
        }
        self.slopes.fill(0.0);
        self.count = 0;
    }

    /// Takes note of the slopes of the loss by λ that an update told.
    fn note(&mut self, slopes: impl Iterator<Item = f64>) {
        self.slopes.iter_mut().zip(slopes).for_each(|(sum, slope)| *sum += slope);
        self.count += 1;
    }

    /// η learns from what was noted.
    fn learn(&mut self) {
        if self.count == 0 {
            return;
        }
        let gradient = self.slopes.iter().zip(&self.step);
        let gradient: Vec<f32> =
            gradient.map(|(sum, step)| (sum / self.count as f64 * step) as f32).collect();
        self.adam.step(&mut self.log_eta, [&gradient]);
        self.log_eta.iter_mut().for_each(|m| *m = m.clamp(*LOG_ETA.start(), *LOG_ETA.end()));
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        walk.numbers("lambda", &mut self.lambda)?;
        walk.tensor("log_eta", &[self.lambda.len()], &mut self.log_eta)?;
        walk.adam("log_eta.adam", &mut self.adam)?;
        walk.numbers("step", &mut self.step)?;
        walk.numbers("slopes", &mut self.slopes)?;
        walk.plain("count", &mut self.count)
    }
}

/// Costs in the reward, by such multipliers in force.
pub struct InForce {
    meta: Meta,
    /// Of the reward and of each cost of a step.
    signals: Moments,
    units: Vec<f64>,
    /// What is taken from each cost.
    centres: Vec<f64>,
}

impl Pricing<Sac> for InForce {
    type Section = MetalSection;

    fn metrics() -> Vec<&'static About> {
        vec![&ENTROPY.about, &LAMBDA_LEARNER.about, &META_ETA.about]
    }

    fn new(
        section: MetalSection,
        Setup { spec, rng }: Setup,
    ) -> Result<(OffPolicy<Sac>, Self), TrainError> {
        let MetalSection { learner, sac, replay, metal } = section;
        let count = spec.constraints.len();
        let sac = Sac::new(sac, [spec.observation, spec.action, 0], rng).noting_costs(count);
        let lambda = metal.lambda.of("metal.lambda", count)?;
        let eta = metal.eta.of("metal.eta", count)?;
        let learner = OffPolicy::new(learner, sac, &replay, spec);
        let meta = Meta::new(lambda, &eta, metal.meta_lr);
        let signals = Moments::new(1 + count);
        Ok((learner, Self { meta, signals, units: vec![1.0; count], centres: vec![0.0; count] }))
    }

    fn observe(&mut self, played: &[Rollout], spec: &EnvSpec, learning: bool) {
        played.iter().for_each(|rollout| self.signals.add(&rollout.signals()));
        self.units = self.signals.units();
        self.centres = centres(played, &spec.constraints);
        if learning {
            let values = constraint_values(played);
            self.meta.answer(&relative_errors(&values, &spec.constraints).unwrap_or_default());
        }
    }

    fn update(&mut self, learner: &mut OffPolicy<Sac>, context: &Context) -> Figures {
        let weights: Vec<f64> =
            self.meta.lambda.iter().zip(&self.units).map(|(lambda, unit)| lambda * unit).collect();
        let price = Price::InForce { lambdas: &weights, centres: &self.centres };
        let figures = learner.update(context, price);
        let slopes = learner.learner().slopes().iter().zip(&self.units);
        self.meta.note(slopes.map(|(slope, unit)| slope * unit));
        figures
    }

    fn conclude(&mut self, _: &EnvSpec, _: bool, record: &mut Record) {
        self.meta.learn();
        record.set(&LAMBDA_LEARNER, self.meta.lambda.clone());
        record.set(&META_ETA, self.meta.eta());
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.meta.walk(walk)?;
        self.signals.walk("signals", walk)?;
        walk.numbers("units", &mut self.units)?;
        walk.numbers("centres", &mut self.centres)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_by_hand() {
        let mut meta = Meta::new(vec![0.5, 0.0], &[0.1, 0.2], 0.01);
        meta.answer(&[1.0, -0.5]);
        // 0.5 + 0.1; the second cannot fall.
        assert!((meta.lambda[0] - 0.6).abs() < 1e-7 && meta.lambda[1] == 0.0);
        assert!((meta.step[0] - 0.1).abs() < 1e-7 && meta.step[1] == 0.0);
        let before = meta.log_eta.clone();
        meta.note([4.0, 4.0].into_iter());
        meta.note([2.0, 2.0].into_iter());
        meta.learn();
        // More λ means more loss: Adam's first step is its rate long, down the slope 3·0.1.
        assert!((meta.log_eta[0] - (before[0] - 0.01)).abs() < 1e-5, "{:?}", meta.log_eta);
        assert_eq!(meta.log_eta[1], before[1]);
        // Where a lower λ means less loss, its way down is made faster.
        meta.answer(&[-1.0, 1.0]);
        meta.note([3.0, -3.0].into_iter());
        let before = meta.log_eta.clone();
        (0..20).for_each(|_| meta.learn());
        assert!(meta.log_eta[0] > before[0] && meta.log_eta[1] > before[1], "{:?}", meta.log_eta);
    }
}
