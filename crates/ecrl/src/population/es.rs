//! Evolution strategies: a policy climbs the returns of its perturbations.
//!
//! ```text
//! θ ± σε_k        k = 1..n, mirrored                u = ½ - place/(2n-1)        in the ranking of all 2n
//! g = 1/(2n) Σ_k (u⁺_k - u⁻_k) ε_k                  Adam descends  -g + l·θ
//! ```
//!
//! Only places in the ranking count, not returns. A perturbation is never stored: its key draws it again when the
//! returns are in.
//!
//! 1. Salimans et al., Evolution Strategies as a Scalable Alternative to Reinforcement Learning, 2017.

use cmdp::Rng;
use nets::{Adam, Mlp};
use rand::RngExt as _;
use rand_distr::StandardNormal;
use rayon::prelude::*;

use crate::state::{StateError, Walk};

/// Pairs whose slopes are added up by one thread.
const PIECE: usize = 4;

/// The policy, and how it climbs.
pub struct Es {
    /// The policy.
    pub centre: Mlp,
    adam: Adam,
}

impl Es {
    /// Around a policy.
    pub fn new(centre: Mlp, lr: f64) -> Self {
        Self { adam: Adam::new(centre.params().len(), lr), centre }
    }

    /// So many pairs of perturbations of a deviation σ, by the keys of their numbers: first both of the first.
    pub fn ask(&self, pairs: u64, sigma: f64, key: impl Fn(u64) -> [u64; 4] + Sync) -> Vec<Mlp> {
        let each = (0..pairs).into_par_iter().flat_map_iter(|pair| {
            let mut both = [self.centre.clone(), self.centre.clone()];
            let [plus, minus] = &mut both;
            let rows = plus.params_mut().iter_mut().zip(minus.params_mut());
            for ((plus, minus), noise) in rows.zip(noise(key(pair))) {
                let moved = sigma as f32 * noise;
                *plus += moved;
                *minus -= moved;
            }
            both
        });
        each.collect()
    }

    /// One step up, by the utilities of those asked for, with so much weight decay.
    pub fn tell(&mut self, utilities: &[f64], decay: f64, key: impl Fn(u64) -> [u64; 4] + Sync) {
        let count = self.centre.params().len();
        let weights: Vec<f32> =
            utilities.chunks_exact(2).map(|both| (both[0] - both[1]) as f32).collect();
        let pieces: Vec<Vec<f32>> = weights
            .par_chunks(PIECE)
            .enumerate()
            .map(|(piece, weights)| {
                let mut sum = vec![0.0f32; count];
                for (i, weight) in weights.iter().enumerate() {
                    let noise = noise(key((piece * PIECE + i) as u64));
                    sum.iter_mut().zip(noise).for_each(|(sum, x)| *sum += weight * x);
                }
                sum
            })
            .collect();
        let shared = 1.0 / utilities.len() as f32;
        let mut gradient: Vec<f32> =
            self.centre.params().iter().map(|x| decay as f32 * x).collect();
        for piece in &pieces {
            gradient.iter_mut().zip(piece).for_each(|(g, x)| *g -= shared * x);
        }
        self.adam.step(self.centre.params_mut(), [&gradient]);
    }

    /// Walks everything that lasts.
    pub fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        walk.net("centre", &mut self.centre)?;
        walk.adam("centre.adam", &mut self.adam)
    }
}

/// A perturbation, number after number.
fn noise(key: [u64; 4]) -> impl Iterator<Item = f32> {
    let mut rng: Rng = cmdp::rng(key);
    std::iter::repeat_with(move || rng.sample(StandardNormal))
}

/// The utility of everybody, from ½ for the first of a ranking to -½ for the last.
pub fn utilities(ranked: &[usize]) -> Vec<f64> {
    let mut each = vec![0.0; ranked.len()];
    for (place, &slot) in ranked.iter().enumerate() {
        each[slot] = 0.5 - place as f64 / (ranked.len() - 1) as f64;
    }
    each
}

#[cfg(test)]
mod tests {
    use super::*;
    use nets::Activation;

    fn es(params: [f32; 2], lr: f64) -> Es {
        let mut net = Mlp::zeros(&[1, 1], Activation::Tanh);
        net.params_mut().copy_from_slice(&params);
        Es::new(net, lr)
    }

    #[test]
    fn utilities_are_centred_places() {
        assert_eq!(utilities(&[2, 0, 3, 1]), [0.5 - 1.0 / 3.0, -0.5, 0.5, 0.5 - 2.0 / 3.0]);
        assert_eq!(utilities(&[1, 0]), [-0.5, 0.5]);
        let many = utilities(&(0..41).collect::<Vec<_>>());
        assert!(many.iter().sum::<f64>().abs() < 1e-12);
    }

    #[test]
    fn pairs_mirror_each_other_and_come_again_from_their_keys() {
        let es = es([1.0, -2.0], 0.1);
        let key = |pair| [1, 2, 3, pair];
        let asked = es.ask(5, 0.25, key);
        assert_eq!(asked.len(), 10);
        for (pair, both) in asked.chunks_exact(2).enumerate() {
            for (j, noise) in noise(key(pair as u64)).take(2).enumerate() {
                let at = es.centre.params()[j];
                assert_eq!(both[0].params()[j], at + 0.25 * noise);
                assert_eq!(both[1].params()[j], at - 0.25 * noise);
            }
        }
    }

    #[test]
    fn a_step_is_adams_along_the_slope_by_hand() {
        let key = |pair| [9, 9, 9, pair];
        let noises: Vec<Vec<f32>> = (0..2).map(|pair| noise(key(pair)).take(2).collect()).collect();
        let utilities = [0.5, -0.5, -1.0 / 6.0, 1.0 / 6.0];
        let mut es = es([1.0, -2.0], 0.1);
        es.tell(&utilities, 0.01, key);
        for j in 0..2 {
            let at = [1.0f32, -2.0][j];
            let slope = 0.25 * (noises[0][j] - noises[1][j] / 3.0);
            let g = 0.01 * at - slope;
            // The first step of Adam: m/(1-β₁) over √(v/(1-β₂)).
            let expected = at - 0.1 * g / (g.abs() + 1e-8);
            assert!((es.centre.params()[j] - expected).abs() < 1e-5);
        }
    }

    #[test]
    fn it_climbs_a_hill_on_any_number_of_threads() {
        let climbed = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut es = es([3.0, -3.0], 0.05);
                for generation in 0..200 {
                    let key = |pair| [0, 1, generation, pair];
                    let asked = es.ask(10, 0.1, key);
                    let height = |i: &usize| {
                        let [x, y] = [asked[*i].params()[0], asked[*i].params()[1]];
                        -(x - 1.0) * (x - 1.0) - 9.0 * (y + 2.0) * (y + 2.0)
                    };
                    let mut ranked: Vec<usize> = (0..20).collect();
                    ranked.sort_by(|a, b| height(b).total_cmp(&height(a)));
                    es.tell(&utilities(&ranked), 0.0, key);
                }
                es.centre.params().to_vec()
            })
        };
        let one = climbed(1);
        assert!((one[0] - 1.0).abs() < 0.15 && (one[1] + 2.0).abs() < 0.15, "{one:?}");
        assert_eq!(climbed(3), one);
    }
}
