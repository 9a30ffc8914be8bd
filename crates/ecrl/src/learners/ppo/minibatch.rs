//! A minibatch as the policy's loss sees it, and what an algorithm of PPO's family makes of it.

use crate::memory::batch::Batch;
use crate::metrics::Figures;

use super::PpoConfig;
use super::distribution::{self, Distribution, Slopes};

/// What the policy descends: a loss of a minibatch by the ratios ρ = π/π_old of its rows.
pub trait Objective: Sync {
    /// Adds up the loss and its slopes.
    fn loss(&self, terms: &mut Terms);
}

/// The loss of a minibatch in the making.
#[derive(Debug)]
pub struct Terms<'a> {
    /// ρ of every row.
    pub ratios: &'a [f32],
    /// The reward's advantage of every row.
    pub advantage: &'a [f32],
    /// What that was divided by when it was normalised, or 1; costs' advantages are as they are.
    pub scale: f32,
    /// Of each cost, the advantage of every row.
    pub costs: &'a [Vec<f32>],
    /// The divergence of the policy from the one that played, of every row, where that is remembered.
    pub divergences: &'a [f32],
    /// The weight of the policy's entropy.
    pub entropy_coef: f64,
    /// The loss so far.
    pub loss: f64,
    /// Its slope by log π, of every row.
    pub slopes: Vec<f32>,
    /// Its slope by the divergence, of every row, where there is one.
    pub d_divergences: Vec<f32>,
    /// What the objective has to tell.
    pub figures: Figures,
    low: f32,
    high: f32,
    /// Whether the clip was used.
    used: bool,
}

impl Terms<'_> {
    /// The number of rows.
    pub fn count(&self) -> f64 {
        self.ratios.len() as f64
    }

    /// Adds the clipped surrogate `-mean min( ρA, clip(ρ) A )` of an advantage times `weight`.
    pub fn clipped(&mut self, advantage: &[f32], weight: f32) {
        let count = self.count();
        self.used = true;
        for ((slope, &ratio), &a) in self.slopes.iter_mut().zip(self.ratios).zip(advantage) {
            let (free, held) = (weight * ratio * a, weight * ratio.clamp(self.low, self.high) * a);
            self.loss -= f64::from(free.min(held)) / count;
            if free <= held {
                *slope -= free / count as f32;
            }
        }
    }
}

/// The rows of a minibatch, as the policy's loss sees them.
pub struct Minibatch {
    /// What was drawn.
    pub draws: Vec<f32>,
    /// log π_old.
    pub log_prob: Vec<f32>,
    /// Of the reward.
    pub advantage: Vec<f32>,
    /// What that was divided by.
    pub scale: f32,
    /// Of each cost.
    pub costs: Vec<Vec<f32>>,
    /// The policy that played: what its network gave, and log σ; where that is remembered.
    pub old: Option<Old>,
}

/// Brings numbers to mean 0 and deviation 1; returns what they were divided by. One alone stays as it is.
pub fn normalise(numbers: &mut [f32]) -> f32 {
    if numbers.len() < 2 {
        return 1.0;
    }
    let count = numbers.len() as f64;
    let mean = numbers.iter().map(|&a| f64::from(a)).sum::<f64>() / count;
    let squares = numbers.iter().map(|&a| (f64::from(a) - mean).powi(2)).sum::<f64>();
    let deviation = (squares / (count - 1.0)).sqrt() + 1e-8;
    numbers.iter_mut().for_each(|a| *a = ((f64::from(*a) - mean) / deviation) as f32);
    deviation as f32
}

/// The policy that played, as it was then.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Old {
    /// What its network gave for every row.
    pub heads: Vec<f32>,
    /// log σ; empty where there is none.
    pub log_sigma: Vec<f32>,
}

impl Old {
    /// The same for some rows of so many.
    fn rows(&self, rows: &[usize], count: usize) -> Self {
        let width = self.heads.len() / count.max(1);
        let heads = rows.iter().flat_map(|row| &self.heads[row * width..][..width]);
        Self { heads: heads.copied().collect(), log_sigma: self.log_sigma.clone() }
    }
}

impl Minibatch {
    /// Some rows of a batch.
    pub fn new(batch: &Batch, rows: &[usize], config: &PpoConfig, old: Option<&Old>) -> Self {
        let pick = |numbers: &[f32]| rows.iter().map(|&row| numbers[row]).collect::<Vec<f32>>();
        let mut advantage = pick(&batch.advantages[0]);
        let mut scale = 1.0;
        let width = batch.draws.len() / batch.log_prob.len().max(1);
        if config.normalise_advantages {
            scale = normalise(&mut advantage);
        }
        Self {
            draws: rows
                .iter()
                .flat_map(|row| &batch.draws[row * width..][..width])
                .copied()
                .collect(),
            log_prob: pick(&batch.log_prob),
            advantage,
            scale,
            costs: batch.advantages[1..].iter().map(|numbers| pick(numbers)).collect(),
            old: old.map(|old| old.rows(rows, batch.rows())),
        }
    }

    /// The policy's loss, its gradient for what the network gives (to `d_heads`) and for log σ.
    pub fn losses(
        &self,
        heads: &[f32],
        distribution: Distribution,
        config: &PpoConfig,
        objective: &dyn Objective,
        d_heads: &mut [f32],
    ) -> (Losses, Vec<f32>) {
        let count = self.log_prob.len() as f64;
        let (low, high) = (1.0 - config.clip as f32, 1.0 + config.clip as f32);
        let logs = distribution.log_probs(&self.draws, heads);
        let moved: Vec<f32> = logs.iter().zip(&self.log_prob).map(|(new, old)| new - old).collect();
        let ratios: Vec<f32> = moved.iter().map(|moved| moved.exp()).collect();
        let old = self.old.as_ref().map(|old| (distribution.like(&old.log_sigma), &old.heads[..]));
        let divergences =
            old.map_or(Vec::new(), |old| distribution::divergences((distribution, heads), old));
        let mut terms = Terms {
            ratios: &ratios,
            advantage: &self.advantage,
            scale: self.scale,
            costs: &self.costs,
            divergences: &divergences,
            entropy_coef: config.entropy_coef,
            loss: 0.0,
            slopes: vec![0.0; ratios.len()],
            d_divergences: vec![0.0; divergences.len()],
            figures: Vec::new(),
            low,
            high,
            used: false,
        };
        objective.loss(&mut terms);
        let Terms { loss, slopes, d_divergences, entropy_coef, figures, used, .. } = terms;

        let rows = [&self.draws[..], heads, &slopes];
        let Slopes { entropy, mut log_sigma } = distribution.backward(rows, entropy_coef, d_heads);
        if let Some(old) = old {
            distribution.back_from_divergences(heads, old, &d_divergences, d_heads, &mut log_sigma);
        }
        let held = ratios.iter().filter(|ratio| !(low..=high).contains(*ratio)).count();
        let losses = Losses {
            actor: loss - entropy_coef * entropy,
            entropy,
            kl: -moved.iter().map(|&x| f64::from(x)).sum::<f64>() / count,
            clipped: used.then_some(held as f64 / count),
            more: figures,
        };
        (losses, log_sigma)
    }
}

/// What the policy's side of an update saw.
#[derive(Debug)]
pub struct Losses {
    /// The loss.
    pub actor: f64,
    /// The policy's entropy.
    pub entropy: f64,
    /// How far the policy moved.
    pub kl: f64,
    /// The share of rows held back by the clip, where one is used.
    pub clipped: Option<f64>,
    /// What the objective told.
    pub more: Figures,
}

/// The critic's loss and its gradient, for targets of (value when advantages were estimated, return).
pub(super) fn value_loss(
    values: &[f32],
    targets: impl ExactSizeIterator<Item = (f32, f32)>,
    config: &PpoConfig,
    d_values: &mut [f32],
) -> f64 {
    let count = targets.len() as f64;
    let (weight, clip) = ((2.0 * config.value_coef / count) as f32, config.clip as f32);
    let mut loss = 0.0;
    for ((&value, d), (before, target)) in values.iter().zip(d_values).zip(targets) {
        let error = value - target;
        let held = before + (value - before).clamp(-clip, clip) - target;
        // The larger of the two counts; where that is the clipped one, nothing moves it.
        let free = !config.value_clip || error * error >= held * held;
        let counted = if free { error } else { held };
        *d = if free { weight * error } else { 0.0 };
        loss += f64::from(counted) * f64::from(counted) / count;
    }
    config.value_coef * loss
}
