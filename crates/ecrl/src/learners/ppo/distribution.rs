//! What the policy draws from: `u ~ N(μ(s), σ)` with a σ that is the same everywhere, or one of several
//! choices by their scores.

use nets::categorical;

/// What the policy draws from.
#[derive(Debug, Clone, Copy)]
pub enum Distribution<'a> {
    /// The network gives μ.
    Gaussian {
        /// log σ of each entry.
        log_sigma: &'a [f32],
    },
    /// The network gives a score for each choice.
    Categorical {
        /// How many there are.
        choices: usize,
    },
}

/// The slopes of a loss.
pub struct Slopes {
    /// The mean entropy of the policy.
    pub entropy: f64,
    /// By log σ; empty where there is none.
    pub log_sigma: Vec<f32>,
}

pub(super) const LOG_SQRT_2PI: f64 = 0.918_938_533_204_672_8;

/// Of every row the Kullback-Leibler divergence from one policy to another: the mean of log π - log π' by
/// draws of the first.
pub fn divergences(
    (from, heads): (Distribution, &[f32]),
    (to, others): (Distribution, &[f32]),
) -> Vec<f32> {
    let width = from.widths().1;
    let rows = heads.chunks_exact(width).zip(others.chunks_exact(width));
    rows.map(|(head, other)| from.divergence(head, to, other)).collect()
}

/// The choice that was drawn; a damaged state may hold what is none.
fn chosen(draw: f32, choices: usize) -> usize {
    (draw as usize).min(choices - 1)
}

impl Distribution<'_> {
    /// One of the same kind with another log σ, where there is one.
    pub fn like(self, log_sigma: &[f32]) -> Distribution<'_> {
        match self {
            Self::Gaussian { .. } => Distribution::Gaussian { log_sigma },
            Self::Categorical { choices } => Distribution::Categorical { choices },
        }
    }

    /// Adds to the slopes by what the network gives and by log σ those from divergences to an old policy,
    /// of which every row has a slope.
    pub fn back_from_divergences(
        self,
        heads: &[f32],
        (old, others): (Distribution, &[f32]),
        slopes: &[f32],
        d_heads: &mut [f32],
        d_log_sigma: &mut [f32],
    ) {
        let width = self.widths().1;
        let rows = heads.chunks_exact(width).zip(others.chunks_exact(width)).zip(slopes);
        for (((head, other), slope), d_head) in rows.zip(d_heads.chunks_exact_mut(width)) {
            match (self, old) {
                (
                    Self::Gaussian { log_sigma },
                    Distribution::Gaussian { log_sigma: old_log_sigma },
                ) => {
                    for j in 0..width {
                        let precision = (-2.0 * old_log_sigma[j]).exp();
                        d_head[j] += slope * (head[j] - other[j]) * precision;
                        d_log_sigma[j] += slope * ((2.0 * log_sigma[j]).exp() * precision - 1.0);
                    }
                }
                _ => categorical::divergence_backward(head, other, *slope, d_head),
            }
        }
    }

    /// The numbers that are drawn, and those that the network gives for it.
    fn widths(self) -> (usize, usize) {
        match self {
            Self::Gaussian { log_sigma } => (log_sigma.len(), log_sigma.len()),
            Self::Categorical { choices } => (1, choices),
        }
    }

    /// log π of every draw.
    pub fn log_probs(self, draws: &[f32], heads: &[f32]) -> Vec<f32> {
        let (draw, head) = self.widths();
        let pairs = draws.chunks_exact(draw).zip(heads.chunks_exact(head));
        pairs.map(|(draw, head)| self.log_prob(draw, head)).collect()
    }

    fn log_prob(self, draw: &[f32], head: &[f32]) -> f32 {
        match self {
            Self::Categorical { choices } => categorical::log_prob(head, chosen(draw[0], choices)),
            Self::Gaussian { log_sigma } => {
                let each = draw.iter().zip(head).zip(log_sigma).map(|((u, mean), log_sigma)| {
                    let z = (u - mean) * (-log_sigma).exp();
                    -0.5 * z * z - log_sigma - LOG_SQRT_2PI as f32
                });
                each.sum()
            }
        }
    }

    fn divergence(self, head: &[f32], to: Distribution, other: &[f32]) -> f32 {
        match (self, to) {
            (Self::Gaussian { log_sigma: from }, Distribution::Gaussian { log_sigma: to }) => {
                let each = (0..from.len()).map(|j| {
                    let (apart, log) = (head[j] - other[j], to[j] - from[j]);
                    let precision = (-2.0 * to[j]).exp();
                    log + 0.5 * ((-2.0 * log).exp() + apart * apart * precision - 1.0)
                });
                each.sum()
            }
            _ => categorical::divergence(head, other),
        }
    }

    /// The second slopes of the mean divergence from this policy, where it stands: times how the network's
    /// numbers `moved` (to `d_heads`) and log σ did (returned).
    pub fn curvature(
        self,
        heads: &[f32],
        moved: &[f32],
        d_log_sigma: &[f32],
        d_heads: &mut [f32],
    ) -> Vec<f32> {
        let width = self.widths().1;
        let count = (heads.len() / width) as f32;
        let rows = heads.chunks_exact(width).zip(moved.chunks_exact(width));
        for ((head, moved), out) in rows.zip(d_heads.chunks_exact_mut(width)) {
            match self {
                Self::Gaussian { log_sigma } => {
                    for j in 0..width {
                        out[j] = moved[j] * (-2.0 * log_sigma[j]).exp() / count;
                    }
                }
                Self::Categorical { .. } => categorical::curvature(head, moved, 1.0 / count, out),
            }
        }
        d_log_sigma.iter().map(|x| 2.0 * x).collect()
    }

    /// The slopes of a loss by what the network gives (to `d_heads`) and by log σ, from its slope by log π
    /// of every draw and the weight of the entropy, whose mean it is to raise.
    pub fn backward(
        self,
        [draws, heads, slopes]: [&[f32]; 3],
        entropy_coef: f64,
        d_heads: &mut [f32],
    ) -> Slopes {
        match self {
            Self::Gaussian { log_sigma } => {
                let actions = log_sigma.len();
                let mut d_log_sigma = vec![-entropy_coef as f32; actions];
                for (row, slope) in slopes.iter().enumerate() {
                    for j in 0..actions {
                        let at = row * actions + j;
                        let precision = (-2.0 * log_sigma[j]).exp();
                        let apart = draws[at] - heads[at];
                        d_heads[at] = slope * apart * precision;
                        d_log_sigma[j] += slope * (apart * apart * precision - 1.0);
                    }
                }
                let each = log_sigma.iter().map(|&s| f64::from(s) + 0.5 + LOG_SQRT_2PI);
                Slopes { entropy: each.sum(), log_sigma: d_log_sigma }
            }
            Self::Categorical { choices } => {
                d_heads.fill(0.0);
                let d_entropy = (-entropy_coef / slopes.len() as f64) as f32;
                let rows = heads.chunks_exact(choices).zip(d_heads.chunks_exact_mut(choices));
                let entropies =
                    rows.zip(draws).zip(slopes).map(|(((head, d_head), draw), slope)| {
                        categorical::backward(
                            head,
                            chosen(*draw, choices),
                            *slope,
                            d_entropy,
                            d_head,
                        )
                    });
                let sum: f64 = entropies.map(f64::from).sum();
                Slopes { entropy: sum / slopes.len() as f64, log_sigma: Vec::new() }
            }
        }
    }
}
