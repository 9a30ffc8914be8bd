//! Adam (Kingma & Ba, 2015), and Polyak averaging of a target network in the same step.
//!
//! ```text
//! m ← β₁m + (1-β₁)g     v ← β₂v + (1-β₂)g²
//! p ← p - lr · (m/(1-β₁ᵗ)) / (√(v/(1-β₂ᵗ)) + ε)     target ← target + τ(p - target)
//! ```

use rayon::prelude::*;

use crate::simd::vectorised;

const BETA1: f32 = 0.9;
const BETA2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// The optimiser's state for one network.
#[derive(Debug, Clone, PartialEq)]
pub struct Adam {
    learning_rate: f64,
    steps: u64,
    m: Vec<f32>,
    v: Vec<f32>,
}

impl Adam {
    /// An optimiser for `params` parameters, before its first step.
    pub fn new(params: usize, learning_rate: f64) -> Self {
        Self { learning_rate, steps: 0, m: vec![0.0; params], v: vec![0.0; params] }
    }

    /// The whole state: steps taken, first and second moments.
    pub fn state_mut(&mut self) -> (&mut u64, &mut [f32], &mut [f32]) {
        (&mut self.steps, &mut self.m, &mut self.v)
    }

    /// The learning rate.
    pub fn learning_rate(&self) -> f64 {
        self.learning_rate
    }

    /// Goes on with another learning rate.
    pub fn set_learning_rate(&mut self, learning_rate: f64) {
        self.learning_rate = learning_rate;
    }

    /// One step down the sum of some gradients.
    pub fn step<const N: usize>(&mut self, params: &mut [f32], gradients: [&[f32]; N]) {
        self.each(params, gradients, 1.0, None);
    }

    /// One step down a gradient times `factor`.
    pub fn step_scaled(&mut self, params: &mut [f32], gradient: &[f32], factor: f32) {
        self.each(params, [gradient], factor, None);
    }

    /// One step down the gradient, and a target network that follows with rate `tau`.
    pub fn step_with_target(
        &mut self,
        params: &mut [f32],
        gradient: &[f32],
        target: &mut [f32],
        tau: f32,
    ) {
        assert_eq!(target.len(), params.len(), "target");
        self.each(params, [gradient], 1.0, Some((target, tau)));
    }

    fn each<const N: usize>(
        &mut self,
        params: &mut [f32],
        gradients: [&[f32]; N],
        factor: f32,
        target: Option<(&mut [f32], f32)>,
    ) {
        let len = self.m.len();
        // In a pool, some 10 microseconds: less is not worth handing to another thread.
        let piece = if rayon::current_thread_index().is_some() { 1 << 14 } else { len.max(1) };
        let fits = params.len() == len && gradients.iter().all(|gradient| gradient.len() == len);
        assert!(fits, "parameters and gradient");
        self.steps += 1;
        let t = self.steps.min(i32::MAX as u64) as i32;
        let rate = (self.learning_rate / (1.0 - f64::from(BETA1).powi(t))) as f32;
        let root = (1.0 - f64::from(BETA2).powi(t)).sqrt() as f32;
        let moments = self.m.par_chunks_mut(piece).zip(self.v.par_chunks_mut(piece));
        let pieces = params.par_chunks_mut(piece).zip(moments).enumerate();
        pieces.for_each(|(i, (params, (m, v)))| {
            let first = i * piece;
            vectorised(
                #[inline(always)]
                || {
                    let len = params.len();
                    let (m, v) = (&mut m[..len], &mut v[..len]);
                    let gradients = gradients.map(
                        #[inline(always)]
                        |gradient| &gradient[first..][..len],
                    );
                    for i in 0..len {
                        let g = gradients[1..].iter().fold(gradients[0][i], |g, more| g + more[i]);
                        let g = factor * g;
                        m[i] = BETA1 * m[i] + (1.0 - BETA1) * g;
                        v[i] = BETA2 * v[i] + (1.0 - BETA2) * (g * g);
                        params[i] -= rate * m[i] / (v[i].sqrt() / root + EPSILON);
                    }
                },
            );
        });
        if let Some((target, tau)) = target {
            let pieces = target.par_chunks_mut(piece).zip(params.par_chunks(piece));
            pieces.for_each(|(target, params)| {
                vectorised(
                    #[inline(always)]
                    || {
                        for (target, p) in target.iter_mut().zip(params) {
                            *target += tau * (*p - *target);
                        }
                    },
                );
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_steps_worked_by_hand() {
        let mut adam = Adam::new(1, 0.1);
        let mut p = [1.0];
        // First step: m/(1-β₁) = g and v/(1-β₂) = g², so p moves by the learning rate.
        adam.step(&mut p, [&[0.5]]);
        assert!((p[0] - 0.9).abs() < 1e-6);
        // Second: m = 0.9·0.05 - 0.1 = -0.055, /0.19; v = 0.999·2.5e-4 + 1e-3 = 1.24975e-3,
        // /0.001999.
        adam.step(&mut p, [&[-1.25], &[0.25]]);
        let expected = 0.9 - 0.1 * (-0.055 / 0.19) / (1.24975e-3f64 / 0.001999).sqrt();
        assert!((f64::from(p[0]) - expected).abs() < 1e-6, "{} {expected}", p[0]);
    }

    #[test]
    fn the_target_follows_the_new_parameters() {
        let mut adam = Adam::new(2, 0.1);
        let (mut p, mut target) = ([1.0, -1.0], [0.0, 0.0]);
        adam.step_with_target(&mut p, &[0.5, 0.0], &mut target, 0.25);
        assert!((p[0] - 0.9).abs() < 1e-6 && p[1] == -1.0);
        assert!((target[0] - 0.225).abs() < 1e-6 && target[1] == -0.25);
    }

    #[test]
    fn pieces_shared_by_threads_have_the_same_bits() {
        let wave = |by: f32| -> Vec<f32> { (0..40_000).map(|i| (by * i as f32).sin()).collect() };
        let (a, b) = (wave(0.1), wave(0.7));
        let steps = || {
            let mut adam = Adam::new(a.len(), 0.1);
            let (mut p, mut target) = (wave(0.2), wave(0.3));
            adam.step(&mut p, [&a, &b]);
            adam.step_with_target(&mut p, &b, &mut target, 0.25);
            (p, target)
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        // Outside of a pool, all is one piece.
        assert!(pool.install(steps) == steps());
    }
}
