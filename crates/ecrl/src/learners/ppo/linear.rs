//! The policy around where it stands, over all that was played: slopes of its surrogates, products with
//! Fisher's matrix, and what comes of a step.
//!
//! A direction has a number for every parameter of the network, then one for each log σ. With J the slopes
//! of what the network gives and M those of the distribution's divergence, Fisher's matrix is `mean JᵀMJ`:
//! `1/σ²` for μ and 2 for log σ, or `diag(p) - ppᵀ` for scores.

use nets::{Tangent, Tape};

use super::distribution::{Slopes, divergences};
use super::{Ppo, distribution, gathered};

/// The policy around where it stands.
pub struct Linear<'a> {
    ppo: &'a mut Ppo,
    input: Vec<f32>,
    tape: Tape,
    tangent: Tangent,
    /// What the network gave, and all parameters, where it stands.
    heads: Vec<f32>,
    start: Vec<f32>,
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// Of each signal the mean of (ρ - 1)A.
    pub signals: Vec<f64>,
    /// The mean divergence from the policy that stood there to the one after the step.
    pub kl: f64,
}

impl Ppo {
    /// The policy around where it stands.
    pub fn linear(&mut self) -> Linear<'_> {
        let rows: Vec<usize> = (0..self.rows()).collect();
        let input = gathered(&self.batch.obs, &rows, &self.observations);
        let mut tape = Tape::new(&self.policy.net, rows.len());
        self.policy.net.forward(&input, &mut tape);
        let heads = tape.output().to_vec();
        let start = [self.policy.net.params(), &self.log_sigma].concat();
        Linear { ppo: self, input, tape, tangent: Tangent::default(), heads, start }
    }
}

impl Linear<'_> {
    /// The advantages of a signal.
    pub fn advantages(&self, signal: usize) -> &[f32] {
        &self.ppo.batch.advantages[signal]
    }

    /// The slope of the mean of ρ times these numbers, one for each row.
    pub fn gradient(&mut self, numbers: &[f32]) -> Vec<f32> {
        let count = numbers.len() as f32;
        let slopes: Vec<f32> = numbers.iter().map(|x| x / count).collect();
        let distribution = distribution(self.ppo.choices, &self.ppo.log_sigma);
        let rows = [&self.ppo.batch.draws[..], &self.heads, &slopes];
        let d_heads = self.tape.output_and_gradient().1;
        let Slopes { log_sigma, .. } = distribution.backward(rows, 0.0, d_heads);
        self.back(&log_sigma)
    }

    /// Fisher's matrix times a direction, and so much of the direction itself.
    pub fn fisher(&mut self, direction: &[f32], damping: f64) -> Vec<f32> {
        let net = &self.ppo.policy.net;
        let (along, d_log_sigma) = direction.split_at(net.params().len());
        let moved = self.tangent.forward(net, &self.input, &self.tape, along);
        let distribution = distribution(self.ppo.choices, &self.ppo.log_sigma);
        let d_heads = self.tape.output_and_gradient().1;
        let log_sigma = distribution.curvature(&self.heads, moved, d_log_sigma, d_heads);
        let mut product = self.back(&log_sigma);
        product.iter_mut().zip(direction).for_each(|(x, d)| *x += damping as f32 * d);
        product
    }

    fn back(&mut self, log_sigma: &[f32]) -> Vec<f32> {
        let net = &self.ppo.policy.net;
        let mut gradient = vec![0.0; net.params().len()];
        net.backward(&self.input, &mut self.tape, &mut gradient);
        gradient.extend(log_sigma);
        gradient
    }

    /// Takes a step from where it stood, as long as `length` says, and tells what came of it. Slopes and
    /// products are of no use any more.
    pub fn step(&mut self, direction: &[f32], length: f64) -> Moved {
        let moved = self.start.iter().zip(direction).map(|(x, d)| x + length as f32 * d);
        let moved: Vec<f32> = moved.collect();
        self.set(&moved);
        let Ppo { policy, choices, log_sigma, batch, .. } = &*self.ppo;
        policy.net.forward(&self.input, &mut self.tape);
        let now = distribution(*choices, log_sigma);
        let logs = now.log_probs(&batch.draws, self.tape.output());
        let ratios: Vec<f32> =
            logs.iter().zip(&batch.log_prob).map(|(new, old)| (new - old).exp()).collect();
        let old = distribution(*choices, &self.start[policy.net.params().len()..]);
        let apart = divergences((old, &self.heads), (now, self.tape.output()));
        let count = ratios.len() as f64;
        let mean = |advantages: &Vec<f32>| {
            let each = ratios.iter().zip(advantages).map(|(r, a)| f64::from((r - 1.0) * a));
            each.sum::<f64>() / count
        };
        Moved {
            signals: batch.advantages.iter().map(mean).collect(),
            kl: apart.iter().map(|&x| f64::from(x)).sum::<f64>() / count,
        }
    }

    /// Back to where it stood.
    pub fn back_to_start(&mut self) {
        let start = self.start.clone();
        self.set(&start);
    }

    fn set(&mut self, params: &[f32]) {
        let Ppo { policy, log_sigma, .. } = &mut *self.ppo;
        let (net, sigmas) = params.split_at(policy.net.params().len());
        policy.net.params_mut().copy_from_slice(net);
        log_sigma.iter_mut().zip(sigmas).for_each(|(x, new)| *x = nets::gaussian::clamp(*new));
    }
}
