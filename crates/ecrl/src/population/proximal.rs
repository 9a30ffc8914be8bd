//! Proximal mutation: noise that is small where actions are sensitive.
//!
//! ```text
//! s_j = √( Σ_k ( Σ_s ∂a_k(s)/∂θ_j )² )                           over a batch of the actor's own observations
//! θ_j ← θ_j + N(0, magnitude²) / max(s_j, 0.01)                  of weights, not of biases; 1 where s_j is 0
//! ```
//!
//! 1. Bodnar, Day & Lió, Proximal Distilled Evolutionary Reinforcement Learning, AAAI 2020.
//! 2. Lehman et al., Safe Mutations for Deep and Recurrent Neural Networks, GECCO 2018.

use cmdp::Rng;
use nets::{Mlp, Tape};
use rand::RngExt as _;
use rand_distr::StandardNormal;

/// Sensitivities below are taken for this.
const LEAST: f32 = 0.01;

/// How sensitive actions are to each parameter, by a batch of observations, row after row.
pub fn sensitivities(net: &Mlp, obs: &[f32]) -> Vec<f32> {
    let actions = *net.sizes().last().expect("a layer");
    let mut tape = Tape::new(net, obs.len() / net.sizes()[0]);
    let mut squares = vec![0.0; net.params().len()];
    let mut gradient = vec![0.0; squares.len()];
    net.forward(obs, &mut tape);
    for k in 0..actions {
        let (heads, d_heads) = tape.output_and_gradient();
        for (i, (head, d_head)) in heads.iter().zip(d_heads).enumerate() {
            let a = head.tanh();
            *d_head = if i % actions == k { 1.0 - a * a } else { 0.0 };
        }
        net.backward(obs, &mut tape, &mut gradient);
        squares.iter_mut().zip(&gradient).for_each(|(sum, g)| *sum += g * g);
    }
    squares.iter().map(|square| square.sqrt()).collect()
}

/// Mutates an actor's weights; without observations, by noise of the same size for all.
pub fn mutate(net: &mut Mlp, obs: &[f32], magnitude: f64, rng: &mut Rng) {
    let sensitivities = match obs {
        [] => vec![0.0; net.params().len()],
        obs => sensitivities(net, obs),
    };
    for layer in 0..net.layers() {
        let weights = net.weight_range(layer);
        for (w, s) in net.params_mut()[weights.clone()].iter_mut().zip(&sensitivities[weights]) {
            let scale = if *s == 0.0 { 1.0 } else { s.max(LEAST) };
            *w += magnitude as f32 * rng.sample::<f32, _>(StandardNormal) / scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nets::Activation;

    fn sums(net: &Mlp, obs: &[f32]) -> Vec<f64> {
        let mut sums = vec![0.0; 2];
        for row in obs.chunks(3) {
            let mut scratch = Vec::new();
            let heads = net.forward_one(row, &mut scratch);
            sums.iter_mut().zip(heads).for_each(|(sum, head)| *sum += f64::from(head.tanh()));
        }
        sums
    }

    #[test]
    fn sensitivities_are_those_of_finite_differences() {
        let mut rng = cmdp::rng([5; 4]);
        let net = Mlp::new(&[3, 6, 5, 2], Activation::Tanh, &mut rng);
        let obs: Vec<f32> = (0..30).map(|_| rng.random_range(-1.0..1.0)).collect();
        let ours = sensitivities(&net, &obs);
        for (j, ours) in ours.iter().enumerate() {
            let slope = |k: usize| {
                let at = |step: f32| {
                    let mut moved = net.clone();
                    moved.params_mut()[j] += step;
                    (sums(&moved, &obs)[k], moved.params()[j])
                };
                let (up, down) = (at(0.02), at(-0.02));
                (up.0 - down.0) / f64::from(up.1 - down.1)
            };
            let theirs = (slope(0).powi(2) + slope(1).powi(2)).sqrt();
            assert!((f64::from(*ours) - theirs).abs() < 5e-3 * theirs.max(0.5), "{ours} {theirs}");
        }
    }

    #[test]
    fn noise_is_divided_by_the_sensitivity_and_biases_stay() {
        let net = {
            let mut net = Mlp::zeros(&[2, 1, 1], Activation::Tanh);
            // h = tanh(3x), a = tanh(2h); the second input is never seen.
            net.params_mut().copy_from_slice(&[3.0, 1.0, 0.0, 2.0, 0.0]);
            net
        };
        let obs = [0.1, 0.0, -0.2, 0.0];
        let s = sensitivities(&net, &obs);
        // ∂a/∂w₂ = (1-a²)h, ∂a/∂w₁ = (1-a²)·2·(1-h²)·x, summed over both rows.
        let hand = |x: f64| {
            let h = (3.0 * x).tanh();
            let a = (2.0 * h).tanh();
            let out = 1.0 - a * a;
            [out * 2.0 * (1.0 - h * h) * x, out * h]
        };
        let [w1, w2] = [0, 1].map(|i| (hand(0.1)[i] + hand(-0.2)[i]).abs() as f32);
        assert!((s[0] - w1).abs() < 1e-5 && s[1] == 0.0 && (s[3] - w2).abs() < 1e-5, "{s:?}");
        let (mut squares, draws) = ([0.0f32; 3], 4000);
        for seed in 0..draws {
            let mut mutant = net.clone();
            mutate(&mut mutant, &obs, 0.25, &mut cmdp::rng([seed, 0, 0, 0]));
            for (i, j) in [0, 1, 3].into_iter().enumerate() {
                squares[i] += (mutant.params()[j] - net.params()[j]).powi(2) / draws as f32;
            }
            assert!(mutant.params()[2] == 0.0 && mutant.params()[4] == 0.0, "biases stay");
        }
        for (square, s) in squares.iter().zip([w1, 1.0, w2]) {
            assert!((square.sqrt() * s / 0.25 - 1.0).abs() < 0.05, "{squares:?}");
        }
    }
}
