//! The policy around where it stands, over all that was played: slopes of its surrogates, products with
//! Fisher's matrix, and what comes of a step.
//!
//! A direction has a number for every parameter of the network, then one for each log σ. With J the slopes
//! of what the network gives and M those of the distribution's divergence, Fisher's matrix is `mean JᵀMJ`:
//! `1/σ²` for μ and 2 for log σ, or `diag(p) - ppᵀ` for scores.

use nets::{Tangent, Tape};

use super::distribution::{Slopes, divergences};
use super::{Ppo, distribution, gathered, surrogate};

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
    ratios: Vec<f32>,
    /// Of each signal the mean of (ρ - 1)A.
    pub signals: Vec<f64>,
    /// The mean divergence from the policy that stood there to the one after the step.
    pub kl: f64,
}

impl Moved {
    /// The mean of (ρ - 1) times these numbers, one for each row.
    pub fn surrogate(&self, numbers: &[f32]) -> f64 {
        surrogate(&self.ratios, numbers)
    }
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
        let kl = apart.iter().map(|&x| f64::from(x)).sum::<f64>() / apart.len() as f64;
        let signals = batch.advantages.iter().map(|numbers| surrogate(&ratios, numbers)).collect();
        Moved { ratios, signals, kl }
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

#[cfg(test)]
mod tests {
    use cmdp::EnvSpec;
    use serde_json::Value;

    use super::*;
    use crate::learners::ppo::ActorCriticConfig;
    use crate::learners::ppo::tests::{floats, rows_of};
    use crate::learners::trust_region::{Problem, add, conjugate_gradient, dot};
    use crate::memory::batch::Batch;

    /// The learner of a case of the fixture.
    fn learner(fixture: &Value) -> Ppo {
        let hidden = floats(&fixture["layers"]).iter().map(|&x| x as usize).collect();
        let config = ActorCriticConfig { hidden, ..Default::default() }.ppo();
        let choices = fixture["case"]["choices"].as_u64().map(|choices| choices as usize);
        let (name, action) = ("a task".into(), if choices.is_some() { 1 } else { 2 });
        let spec =
            EnvSpec { name, observation: 4, action, choices, max_steps: 9, constraints: vec![] };
        let mut ppo = Ppo::new(config, &spec, 1, &mut cmdp::rng([0; 4]));
        let start = floats(&fixture["start"]);
        let (net, log_sigma) = start.split_at(ppo.policy.net.params().len());
        ppo.policy.net.params_mut().copy_from_slice(net);
        ppo.log_sigma = log_sigma.to_vec();
        ppo.batch = Batch {
            obs: floats(&fixture["obs"]),
            draws: floats(&fixture["draws"]),
            log_prob: floats(&fixture["log_prob"]),
            advantages: rows_of(&fixture["advantages"]),
            last: vec![0.0; 16],
            ..Batch::default()
        };
        ppo
    }

    fn assert_near(ours: &[f32], theirs: &[f32], tolerance: f32, what: &str) {
        assert_eq!(ours.len(), theirs.len(), "{what}");
        let largest = theirs.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        for (ours, theirs) in ours.iter().zip(theirs) {
            let apart = (ours - theirs).abs();
            assert!(apart <= tolerance * largest, "{what}: {ours} {theirs} of {largest}");
        }
    }

    #[test]
    fn slopes_products_and_steps_agree_with_pytorch() {
        let fixture: Value =
            serde_json::from_str(include_str!("../../../tests/fixtures/trust_region.json"))
                .unwrap();
        let cases = fixture["cases"].as_object().unwrap();
        assert_eq!(cases.len(), 2);
        for (name, fixture) in cases {
            let number = |name: &str| fixture[name].as_f64().unwrap();
            let (damping, delta) = (number("damping"), number("delta"));
            let mut ppo = learner(fixture);
            let mut linear = ppo.linear();
            let slopes = [0, 1].map(|signal| {
                let advantages = linear.advantages(signal).to_vec();
                linear.gradient(&advantages)
            });
            for (ours, theirs) in slopes.iter().zip(rows_of(&fixture["gradients"])) {
                assert_near(ours, &theirs, 1e-5, name);
            }
            let product = linear.fisher(&floats(&fixture["direction"]), damping);
            assert_near(&product, &floats(&fixture["product"]), 1e-5, name);
            let inverse = slopes.each_ref().map(|slope| {
                // As many as there are unknowns, and some for rounding.
                conjugate_gradient(|x| linear.fisher(x, damping), slope, 2 * slope.len())
            });
            let steps = fixture["steps"].as_array().unwrap();
            assert_eq!(steps.len(), 9);
            for expected in steps {
                let problem = Problem {
                    q: dot(&slopes[0], &inverse[0]),
                    r: vec![dot(&slopes[1], &inverse[0])],
                    s: vec![vec![dot(&slopes[1], &inverse[1])]],
                    c: vec![expected["broken"].as_f64().unwrap()],
                    delta,
                };
                let which = expected["name"].as_str().unwrap();
                let step = match which {
                    "trpo" => problem.free(),
                    "cpo" => problem.constrained(),
                    _ => problem.projected(),
                };
                let what = format!("{name}, {which} at {:?}: {step:?}", problem.c);
                let mut direction = vec![0.0; slopes[0].len()];
                add(&mut direction, step.reward as f32, &inverse[0]);
                add(&mut direction, -step.costs[0] as f32, &inverse[1]);
                assert_near(&direction, &floats(&expected["step"]), 1e-3, &what);
                let moved = linear.step(&direction, 1.0);
                let signals = floats(&expected["signals"]);
                for (ours, theirs) in moved.signals.iter().zip(signals) {
                    assert!((ours - f64::from(theirs)).abs() < 1e-4, "{what}: {ours} {theirs}");
                }
                assert!((moved.kl - expected["kl"].as_f64().unwrap()).abs() < 1e-5, "{what}");
                linear.back_to_start();
            }
            assert_eq!(
                [linear.ppo.policy.net.params(), &linear.ppo.log_sigma].concat(),
                linear.start
            );
        }
    }
}
