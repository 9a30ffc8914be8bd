//! The tanh-squashed Gaussian policy head.
//!
//! A network's output row is `[μ, log σ]`, one of each for every action. With noise ε ~ N(0, 1):
//!
//! ```text
//! u = μ + σ·ε      a = tanh u      log π(a) = Σ [ -ε²/2 - log σ - log√(2π) - log(1 - a²) ]
//! log(1 - tanh² u) = 2(log 2 - |u| - log(1 + e^{-2|u|}))      (no loss of digits for large |u|)
//! ```
//!
//! log σ is clamped to [-20, 2]; where the clamp holds it, no gradient passes.

/// Where log σ is held.
pub const LOG_SIGMA: std::ops::RangeInclusive<f32> = -20.0..=2.0;
const LOG_SQRT_2PI: f32 = 0.918_938_5;
const LN_2: f32 = std::f32::consts::LN_2;

/// Draws the actions of a batch and their log-probabilities.
///
/// `head` has a row `[μ, log σ]` for each sample, `noise` a row of numbers. The actions are written
/// to the last columns of `rows`, which are `width` wide and may hold something else before.
pub fn sample(head: &[f32], noise: &[f32], rows: &mut [f32], width: usize, log_probs: &mut [f32]) {
    let count = head.len() / 2 / log_probs.len().max(1);
    for (i, row) in rows.chunks_exact_mut(width).enumerate() {
        let (head, noise) = (&head[2 * i * count..][..2 * count], &noise[i * count..][..count]);
        let actions = &mut row[width - count..];
        let (mu, log_sigma) = head.split_at(count);
        let mut log_prob = 0.0;
        for j in 0..count {
            let log_sigma = clamp(log_sigma[j]);
            let u = mu[j] + log_sigma.exp() * noise[j];
            actions[j] = u.tanh();
            let correction = 2.0 * (LN_2 - u.abs() - (-2.0 * u.abs()).exp().ln_1p());
            log_prob += -0.5 * noise[j] * noise[j] - log_sigma - LOG_SQRT_2PI - correction;
        }
        log_probs[i] = log_prob;
    }
}

/// The gradient of the head from those of the actions and of the log-probability.
///
/// `rows` are those filled by [`sample`] with the same `head` and `noise`, and `d_actions` has a row
/// of actions for each; `d_log_prob` is the same for every row.
pub fn backward(
    head: &[f32],
    noise: &[f32],
    rows: &[f32],
    width: usize,
    d_actions: &[f32],
    d_log_prob: f32,
    d_head: &mut [f32],
) {
    let count = d_actions.len() * width / rows.len().max(1);
    for (i, row) in rows.chunks_exact(width).enumerate() {
        let actions = &row[width - count..];
        let (d_mu, d_log_sigma) = d_head[2 * i * count..][..2 * count].split_at_mut(count);
        for j in 0..count {
            let log_sigma = head[(2 * i + 1) * count + j];
            let (a, noise) = (actions[j], noise[i * count + j]);
            // da/du = 1 - a², and -log(1 - a²) grows with 2a.
            let d_u = d_actions[i * count + j] * (1.0 - a * a) + d_log_prob * 2.0 * a;
            d_mu[j] = d_u;
            d_log_sigma[j] = match LOG_SIGMA.contains(&log_sigma) {
                true => d_u * log_sigma.exp() * noise - d_log_prob,
                false => 0.0,
            };
        }
    }
}

/// One action: a draw with the given noise, or without noise the mean action tanh μ.
pub fn act(head: &[f32], noise: Option<&[f32]>, action: &mut [f32]) {
    let (mu, log_sigma) = head.split_at(action.len());
    for j in 0..action.len() {
        let drawn = noise.map_or(0.0, |noise| clamp(log_sigma[j]).exp() * noise[j]);
        action[j] = (mu[j] + drawn).tanh();
    }
}

/// log σ, held in its range.
pub fn clamp(log_sigma: f32) -> f32 {
    log_sigma.clamp(*LOG_SIGMA.start(), *LOG_SIGMA.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// log π and the actions in f64, by the textbook formula.
    fn reference(head: &[f64], noise: &[f64]) -> (Vec<f64>, f64) {
        let n = noise.len();
        let mut log_prob = 0.0;
        let actions = (0..n)
            .map(|j| {
                let log_sigma = head[n + j].clamp(-20.0, 2.0);
                let a = (head[j] + log_sigma.exp() * noise[j]).tanh();
                log_prob += -0.5 * noise[j].powi(2) - log_sigma;
                log_prob -= 0.5 * (2.0 * std::f64::consts::PI).ln() + (1.0 - a * a).ln();
                a
            })
            .collect();
        (actions, log_prob)
    }

    fn single(numbers: &[f64]) -> Vec<f32> {
        numbers.iter().map(|&x| x as f32).collect()
    }

    #[test]
    fn draws_agree_with_the_textbook() {
        let head = [0.3, -1.2, 0.5, -0.5, 0.1, -3.0];
        let noise = [0.7, -1.5, 2.0];
        let (expected, log_prob) = reference(&head, &noise);
        let (mut actions, mut log_probs) = (vec![0.0; 3], [0.0]);
        sample(&single(&head), &single(&noise), &mut actions, 3, &mut log_probs);
        for (a, e) in actions.iter().zip(&expected) {
            assert!((f64::from(*a) - e).abs() < 1e-6);
        }
        assert!((f64::from(log_probs[0]) - log_prob).abs() < 1e-5, "{} {log_prob}", log_probs[0]);
    }

    #[test]
    fn extreme_actions_keep_a_finite_probability() {
        for mu in [-200.0, -20.0, 20.0, 200.0] {
            let mut log_probs = [0.0];
            sample(&[mu, 0.0], &[0.0], &mut [0.0], 1, &mut log_probs);
            let expected = -LOG_SQRT_2PI - 2.0 * (LN_2 - mu.abs());
            assert!((log_probs[0] / expected - 1.0).abs() < 1e-6, "{mu}: {}", log_probs[0]);
        }
    }

    #[test]
    fn the_gradient_agrees_with_finite_differences() {
        // The fifth and sixth log σ are outside the clamp.
        let head = [0.3, -1.2, 0.5, 0.9, -0.4, 0.2, -0.5, 0.1, -3.0, 1.9, 2.5, -21.0];
        let noise = [0.7, -1.5, 2.0, 0.01, 0.3, -0.6];
        let weights = [0.2, -0.7, 0.4, 1.1, -0.3, 0.8];
        let loss = |head: &[f64]| {
            let (actions, log_prob) = reference(head, &noise);
            actions.iter().zip(&weights).map(|(a, w)| a * w).sum::<f64>() + 0.25 * log_prob
        };
        let (mut actions, mut d_head) = (vec![0.0; 6], vec![0.0; 12]);
        let (head32, noise32) = (single(&head), single(&noise));
        sample(&head32, &noise32, &mut actions, 6, &mut [0.0]);
        backward(&head32, &noise32, &actions, 6, &single(&weights), 0.25, &mut d_head);
        for i in 0..12 {
            let moved = |h: f64| {
                let mut head = head;
                head[i] += h;
                loss(&head)
            };
            let expected = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            let error = (f64::from(d_head[i]) - expected).abs();
            assert!(error <= 1e-4 * expected.abs().max(0.1), "{i}: {} {expected}", d_head[i]);
        }
        assert_eq!(d_head[10..], [0.0, 0.0]);
    }

    #[test]
    fn actions_in_the_last_columns_are_the_same_whatever_stands_before() {
        // One row of eight actions behind 27 other numbers, as for a small batch of the ant.
        let head: Vec<f32> = (0..16).map(|i| (i as f32).sin()).collect();
        let noise: Vec<f32> = (0..8).map(|i| (i as f32).cos()).collect();
        let (mut alone, mut wide) = (vec![0.0; 8], vec![7.0; 35]);
        let (mut p, mut q) = ([0.0], [0.0]);
        sample(&head, &noise, &mut alone, 8, &mut p);
        sample(&head, &noise, &mut wide, 35, &mut q);
        assert_eq!((&wide[..27], &wide[27..], q), (&[7.0; 27][..], &alone[..], p));
        let (mut d_alone, mut d_wide) = (vec![0.0; 16], vec![f32::NAN; 16]);
        backward(&head, &noise, &alone, 8, &noise, 0.5, &mut d_alone);
        backward(&head, &noise, &wide, 35, &noise, 0.5, &mut d_wide);
        assert_eq!(d_wide, d_alone);
    }

    #[test]
    fn the_mean_action_needs_no_noise() {
        let mut action = [0.0; 2];
        act(&[0.5, -1.0, 1.0, 1.0], None, &mut action);
        assert_eq!(action, [0.5f32.tanh(), (-1.0f32).tanh()]);
        act(&[0.5, -1.0, 0.0, 9.0], Some(&[1.0, 0.5]), &mut action);
        let clamped = (-1.0 + 2.0f32.exp() * 0.5).tanh();
        assert_eq!(action, [1.5f32.tanh(), clamped]);
    }
}
