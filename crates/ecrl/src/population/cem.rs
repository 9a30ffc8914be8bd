//! The cross-entropy method: a normal distribution of actors, with a variance for each parameter, that follows
//! the better half.
//!
//! ```text
//! x = μ ± √v·ε                                   each ε and its negative
//! w_i ∝ ln( (P+1)/i )                            over the P best of them
//! d ← τd + (1-τ)d_end        then        v ← (1/P) Σ w_i (x_i - μ)² + d        μ ← Σ w_i x_i
//! ```
//!
//! d, which every variance is raised by, falls over the generations: wide at first, fine in the end.
//!
//! 1. de Boer et al., A Tutorial on the Cross-Entropy Method, Ann. Oper. Res. 134, 2005.
//! 2. Pourchot & Sigaud, CEM-RL, ICLR 2019. As in its authors' code, the variance is divided by P once more.

use cmdp::Rng;
use nets::Mlp;
use rand::RngExt as _;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, range};
use crate::state::{StateError, Walk};

/// How the distribution moves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CemConfig {
    /// Actors drawn in each generation. Paper: 10.
    pub population: usize,
    /// The variance of every parameter at the start. Authors' code: 1e-3.
    pub variance: f64,
    /// What variances are raised by in each generation, at first; more explores more. Paper: 1e-3.
    pub noise: f64,
    /// The same in the end. Paper: 1e-5.
    pub noise_end: f64,
    /// How much of the way to the end is left after each generation. Paper: 0.95.
    pub noise_decay: f64,
}

impl Default for CemConfig {
    fn default() -> Self {
        Self { population: 10, variance: 1e-3, noise: 1e-3, noise_end: 1e-5, noise_decay: 0.95 }
    }
}

impl CemConfig {
    /// The keys whose values may change in the midst of a run.
    pub const CHANGEABLE: [&'static str; 2] = ["cem.noise_end", "cem.noise_decay"];

    /// Checks every value against its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let fits = (2..=10_000).contains(&self.population);
        range::check(fits, "cem.population", self.population, "2 to 10000")?;
        range::positive("cem.variance", self.variance)?;
        range::not_negative("cem.noise", self.noise)?;
        range::not_negative("cem.noise_end", self.noise_end)?;
        range::share("cem.noise_decay", self.noise_decay)
    }
}

/// The distribution.
pub struct Cem {
    config: CemConfig,
    mean: Mlp,
    variance: Vec<f32>,
    noise: f64,
}

impl Cem {
    /// Around an actor.
    pub fn new(config: CemConfig, mean: Mlp) -> Self {
        let variance = vec![config.variance as f32; mean.params().len()];
        Self { noise: config.noise, config, mean, variance }
    }

    /// Its mean.
    pub fn mean(&self) -> &Mlp {
        &self.mean
    }

    /// Its mean, to go on around another.
    pub fn mean_mut(&mut self) -> &mut Mlp {
        &mut self.mean
    }

    /// The deviation of a parameter, mean over all.
    pub fn deviation(&self) -> f64 {
        let sum: f64 = self.variance.iter().map(|v| f64::from(v.sqrt())).sum();
        sum / self.variance.len() as f64
    }

    /// Draws actors; the second half are the first's mirror images.
    pub fn ask(&self, rng: &mut Rng) -> Vec<Mlp> {
        let size = self.config.population;
        let drawn: Vec<Vec<f32>> = (0..size.div_ceil(2))
            .map(|_| {
                self.variance
                    .iter()
                    .map(|v| v.sqrt() * rng.sample::<f32, _>(StandardNormal))
                    .collect()
            })
            .collect();
        let signed = drawn.iter().map(|d| (d, 1.0)).chain(drawn.iter().map(|d| (d, -1.0)));
        let actor = |(moved, sign): (&Vec<f32>, f32)| {
            let mut actor = self.mean.clone();
            actor.params_mut().iter_mut().zip(moved).for_each(|(x, d)| *x += sign * d);
            actor
        };
        signed.take(size).map(actor).collect()
    }

    /// Follows the better half of some actors, which come best first.
    pub fn tell(&mut self, ranked: &[&Mlp]) {
        let parents = (ranked.len() / 2).max(1);
        let weights = weights(parents);
        self.noise = self.config.noise_decay * self.noise
            + (1.0 - self.config.noise_decay) * self.config.noise_end;
        for (j, (mean, variance)) in
            self.mean.params_mut().iter_mut().zip(&mut self.variance).enumerate()
        {
            let (old, mut new, mut square) = (f64::from(*mean), 0.0, 0.0);
            for (weight, actor) in weights.iter().zip(ranked) {
                let x = f64::from(actor.params()[j]);
                new += weight * x;
                square += weight * (x - old) * (x - old);
            }
            *mean = new as f32;
            *variance = (square / parents as f64 + self.noise) as f32;
        }
    }

    /// Walks everything that lasts.
    pub fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        walk.net("mean", &mut self.mean)?;
        walk.tensor("variance", &[self.variance.len()], &mut self.variance)?;
        let sound = |noise: &f64, _: &f64| *noise >= 0.0 && noise.is_finite();
        walk.fitting("noise", &mut self.noise, "a number from 0 on", sound)
    }
}

/// The weight of each of the best, which fall and add up to 1.
fn weights(parents: usize) -> Vec<f64> {
    let each: Vec<f64> = (1..=parents).map(|i| ((parents + 1) as f64 / i as f64).ln()).collect();
    let sum: f64 = each.iter().sum();
    each.iter().map(|weight| weight / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nets::Activation;

    fn actor(params: [f32; 2]) -> Mlp {
        let mut net = Mlp::zeros(&[1, 1], Activation::Tanh);
        net.params_mut().copy_from_slice(&params);
        net
    }

    #[test]
    fn the_distribution_follows_the_better_half_by_the_formula() {
        let config =
            CemConfig { noise: 0.5, noise_end: 0.1, noise_decay: 0.75, ..CemConfig::default() };
        let mut cem = Cem::new(config, actor([1.0, -1.0]));
        let told = [[3.0, -1.0], [2.0, 1.0], [9.0, 9.0], [-9.0, 9.0]].map(actor);
        cem.tell(&told.iter().collect::<Vec<_>>());
        // P = 2: w ∝ ln 3, ln 1.5 = 0.730426, 0.269574. d = 0.75·0.5 + 0.25·0.1 = 0.4.
        // μ' = 0.730426·(3, -1) + 0.269574·(2, 1)
        // v' = ½( 0.730426·(4, 0) + 0.269574·(1, 4) ) + 0.4
        let close = |ours: &[f32], hand: [f32; 2]| {
            for (a, b) in ours.iter().zip(hand) {
                assert!((a - b).abs() < 1e-5, "{ours:?} {hand:?}");
            }
        };
        close(cem.mean.params(), [2.730_426, -0.460_851]);
        close(&cem.variance, [1.995_639, 0.939_149]);
        cem.tell(&told.iter().collect::<Vec<_>>());
        assert!((cem.noise - 0.325).abs() < 1e-12);
    }

    #[test]
    fn actors_come_in_pairs_around_the_mean_as_wide_as_the_variance_says() {
        let config = CemConfig { population: 2000, variance: 0.04, ..CemConfig::default() };
        let mut cem = Cem::new(config, actor([1.0, -2.0]));
        cem.variance[1] = 0.25;
        let drawn = cem.ask(&mut cmdp::rng([3; 4]));
        assert_eq!(drawn.len(), 2000);
        for j in 0..2 {
            let mean = cem.mean.params()[j];
            let sum: f64 = drawn.iter().map(|a| f64::from(a.params()[j] - mean).powi(2)).sum();
            let deviation = (sum / 2000.0).sqrt();
            let expected = [0.2, 0.5][j];
            assert!((deviation / expected - 1.0).abs() < 0.07, "{deviation} {expected}");
            for i in 0..1000 {
                let sum = drawn[i].params()[j] + drawn[1000 + i].params()[j];
                assert!((sum - 2.0 * mean).abs() < 1e-6);
            }
        }
        assert!((cem.deviation() - 0.35).abs() < 1e-6);
        // An odd one has no mirror image.
        let odd = Cem::new(CemConfig { population: 3, ..CemConfig::default() }, actor([0.0; 2]));
        let drawn = odd.ask(&mut cmdp::rng([1; 4]));
        assert_eq!(drawn[0].params()[0], -drawn[2].params()[0]);
        assert_eq!(drawn.len(), 3);
    }

    #[test]
    fn it_finds_the_top_of_a_hill() {
        let config =
            CemConfig { population: 20, variance: 0.5, noise: 0.1, ..CemConfig::default() };
        let mut cem = Cem::new(config, actor([4.0, 4.0]));
        let mut rng = cmdp::rng([7; 4]);
        for _ in 0..80 {
            let drawn = cem.ask(&mut rng);
            let height = |net: &&Mlp| {
                let [x, y] = [net.params()[0], net.params()[1]];
                -(x - 1.0) * (x - 1.0) - 4.0 * (y + 2.0) * (y + 2.0)
            };
            let mut ranked: Vec<&Mlp> = drawn.iter().collect();
            ranked.sort_by(|a, b| height(b).total_cmp(&height(a)));
            cem.tell(&ranked);
        }
        let [x, y] = [cem.mean.params()[0], cem.mean.params()[1]];
        assert!((x - 1.0).abs() < 0.05 && (y + 2.0).abs() < 0.05, "{x} {y}");
    }
}
