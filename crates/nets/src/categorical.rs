//! The categorical policy head: one score s for each choice, `π(c) = e^{s_c} / Σ e^s`.
//!
//! ```text
//! log π(c) = s_c - log Σ e^s        H = -Σ π log π
//! ∂ log π(c) / ∂ s_j = [j = c] - π(j)        ∂ H / ∂ s_j = -π(j) (log π(j) + H)
//! ```

/// log Σ e^s, without overflow.
fn log_sum(scores: &[f32]) -> f32 {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    most + scores.iter().map(|s| (s - most).exp()).sum::<f32>().ln()
}

/// log π of a choice.
pub fn log_prob(scores: &[f32], choice: usize) -> f32 {
    scores[choice] - log_sum(scores)
}

/// The choice that a number drawn from [0, 1) stands for.
pub fn sample(scores: &[f32], drawn: f32) -> usize {
    let (sum, mut below) = (log_sum(scores), 0.0);
    let reached = scores.iter().position(|score| {
        below += (score - sum).exp();
        drawn < below
    });
    // What rounding leaves over is the last one's.
    reached.unwrap_or(scores.len() - 1)
}

/// The most likely choice; of equals, the first.
pub fn best(scores: &[f32]) -> usize {
    (1..scores.len()).fold(0, |best, i| if scores[i] > scores[best] { i } else { best })
}

/// Adds to the gradient of the scores from those of log π of a choice and of the entropy, which is
/// returned.
pub fn backward(
    scores: &[f32],
    choice: usize,
    d_log_prob: f32,
    d_entropy: f32,
    d_scores: &mut [f32],
) -> f32 {
    let sum = log_sum(scores);
    let logs = || scores.iter().map(|score| score - sum);
    let entropy: f32 = -logs().map(|log| log.exp() * log).sum::<f32>();
    for (j, (d, log)) in d_scores.iter_mut().zip(logs()).enumerate() {
        let (p, chosen) = (log.exp(), f32::from(u8::from(j == choice)));
        *d += d_log_prob * (chosen - p) - d_entropy * p * (log + entropy);
    }
    entropy
}

/// The divergence from these scores to others: `Σ π (log π - log π')`.
pub fn divergence(scores: &[f32], others: &[f32]) -> f32 {
    let (sum, other_sum) = (log_sum(scores), log_sum(others));
    let each = scores.iter().zip(others).map(|(score, other)| {
        let log = score - sum;
        log.exp() * (log - (other - other_sum))
    });
    each.sum()
}

/// Adds to the gradient of the scores from that of their divergence to others.
pub fn divergence_backward(scores: &[f32], others: &[f32], d: f32, d_scores: &mut [f32]) {
    let (sum, other_sum) = (log_sum(scores), log_sum(others));
    let whole = divergence(scores, others);
    for ((d_score, score), other) in d_scores.iter_mut().zip(scores).zip(others) {
        let log = score - sum;
        *d_score += d * log.exp() * (log - (other - other_sum) - whole);
    }
}

/// `(diag(π) - ππᵀ)` times how the scores `moved`, times `weight`: the second slopes of the divergence
/// to other scores, where they are the same.
pub fn curvature(scores: &[f32], moved: &[f32], weight: f32, out: &mut [f32]) {
    let sum = log_sum(scores);
    let mean: f32 =
        scores.iter().zip(moved).map(|(score, moved)| (score - sum).exp() * moved).sum();
    for ((out, score), moved) in out.iter_mut().zip(scores).zip(moved) {
        *out = weight * (score - sum).exp() * (moved - mean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divergences_worked_by_hand() {
        // From (1/4, 3/4) to (1/2, 1/2): (1/4) log(1/2) + (3/4) log(3/2).
        let (from, to) = ([0.0, 3.0f32.ln()], [7.0, 7.0]);
        let expected = 0.25 * 0.5f32.ln() + 0.75 * 1.5f32.ln();
        assert!((divergence(&from, &to) - expected).abs() < 1e-6);
        assert!(divergence(&from, &from).abs() < 1e-7);
        // Slopes against differences, and second slopes where both are the same.
        let mut slopes = [0.0; 2];
        divergence_backward(&from, &to, 2.0, &mut slopes);
        for j in 0..2 {
            let at = |h: f32| {
                let mut moved = from;
                moved[j] += h;
                divergence(&moved, &to)
            };
            let expected = 2.0 * (at(1e-2) - at(-1e-2)) / 2e-2;
            assert!((slopes[j] - expected).abs() < 1e-3, "{} {expected}", slopes[j]);
        }
        // diag(π) - ππᵀ of (1/4, 3/4) is 3/16·(1, -1; -1, 1).
        let mut out = [0.0; 2];
        curvature(&from, &[1.0, -1.0], 2.0, &mut out);
        assert!((out[0] - 0.75).abs() < 1e-6 && (out[1] + 0.75).abs() < 1e-6, "{out:?}");
    }

    #[test]
    fn probabilities_worked_by_hand() {
        // Weights 1, 2, 5 of 8.
        let scores = [1.0f32, 2.0, 5.0].map(|x| x.ln() + 300.0);
        for (choice, p) in [0.125f32, 0.25, 0.625].into_iter().enumerate() {
            assert!((log_prob(&scores, choice) - p.ln()).abs() < 1e-4, "{choice}");
        }
        let drawn = [0.0, 0.124, 0.126, 0.374, 0.376, 0.999_999_9].map(|x| sample(&scores, x));
        assert_eq!(drawn, [0, 0, 1, 1, 2, 2]);
        assert_eq!((best(&scores), best(&[1.0, 1.0]), best(&[f32::NAN])), (2, 0, 0));
    }

    #[test]
    fn the_gradient_agrees_with_finite_differences() {
        let scores = [0.3f32, -1.2, 0.5, 2.0];
        let (weight, weight_of_entropy) = (0.7, -0.4);
        let loss = |scores: &[f64]| {
            let sum = scores.iter().map(|s| s.exp()).sum::<f64>().ln();
            let entropy: f64 = scores.iter().map(|s| -(s - sum).exp() * (s - sum)).sum();
            weight * (scores[2] - sum) + weight_of_entropy * entropy
        };
        let mut d_scores = [0.0; 4];
        backward(&scores, 2, weight as f32, weight_of_entropy as f32, &mut d_scores);
        for j in 0..4 {
            let moved = |h: f64| {
                let mut scores = scores.map(f64::from);
                scores[j] += h;
                loss(&scores)
            };
            let expected = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!((f64::from(d_scores[j]) - expected).abs() < 1e-5, "{j}: {}", d_scores[j]);
        }
    }
}
