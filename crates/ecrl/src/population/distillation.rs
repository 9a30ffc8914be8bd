//! Crossover by distillation: a child learns to act as whichever of its parents acts better.
//!
//! ```text
//! a(s) = the parent's action whose Q is larger                   over both parents' last transitions
//! the child descends   Σ (π(s) - a(s))² + mean π(s)²             over batches, from the second parent's weights
//! ```
//!
//! 1. Bodnar, Day & Lió, Proximal Distilled Evolutionary Reinforcement Learning, AAAI 2020.

use cmdp::Rng;
use nets::{Mlp, Tape, Trained};
use rand::RngExt as _;
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, range};

/// How a child learns from its parents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DistillationConfig {
    /// Times that a child sees as many transitions as it has. Paper: 12.
    pub crossover_epochs: usize,
    /// Transitions in a batch. Paper: 128.
    pub crossover_batch: usize,
    /// Learning rate. Paper: 1e-3.
    pub crossover_lr: f64,
}

impl Default for DistillationConfig {
    fn default() -> Self {
        Self { crossover_epochs: 12, crossover_batch: 128, crossover_lr: 1e-3 }
    }
}

impl DistillationConfig {
    /// Checks every value against its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        range::many("distillation.crossover_epochs", self.crossover_epochs)?;
        range::many("distillation.crossover_batch", self.crossover_batch)?;
        range::positive("distillation.crossover_lr", self.crossover_lr)
    }

    /// The child of two parents, by the observations that it learns from, row after row, and a judge of
    /// actions there; as it is the second parent where there are none.
    pub fn child(
        &self,
        parents: [&Mlp; 2],
        obs: &[f32],
        judge: impl Fn(&[f32]) -> Vec<f32>,
        rng: &mut Rng,
    ) -> Mlp {
        let [width, actions] =
            [parents[0].sizes()[0], *parents[0].sizes().last().expect("a layer")];
        let rows = obs.len() / width;
        if rows == 0 {
            return parents[1].clone();
        }
        let [first, second] = parents.map(|parent| acted(parent, obs));
        let (better, worse) = (judge(&first), judge(&second));
        let mut targets = second;
        for row in (0..rows).filter(|&row| better[row] > worse[row]) {
            let row = row * actions..(row + 1) * actions;
            targets[row.clone()].copy_from_slice(&first[row]);
        }
        let batch = self.crossover_batch.min(rows);
        let mut child = Trained::new(parents[1].clone(), batch, self.crossover_lr);
        let (mut seen, mut wanted) = (vec![0.0; batch * width], vec![0.0; batch * actions]);
        for _ in 0..self.crossover_epochs * (rows / batch) {
            let places = seen.chunks_exact_mut(width).zip(wanted.chunks_exact_mut(actions));
            for (seen, wanted) in places {
                let row = rng.random_range(0..rows);
                seen.copy_from_slice(&obs[row * width..][..width]);
                wanted.copy_from_slice(&targets[row * actions..][..actions]);
            }
            imitate(&mut child, &seen, &wanted);
        }
        child.net
    }
}

/// What a network does where it observes these rows.
fn acted(net: &Mlp, obs: &[f32]) -> Vec<f32> {
    let mut tape = Tape::new(net, obs.len() / net.sizes()[0]);
    net.forward(obs, &mut tape);
    tape.output().iter().map(|mean| mean.tanh()).collect()
}

/// One step towards some actions; returns the loss before it.
fn imitate(child: &mut Trained, obs: &[f32], wanted: &[f32]) -> f64 {
    let Trained { net, adam, gradient, tape } = child;
    net.forward(obs, tape);
    let count = wanted.len() as f32;
    let mut loss = 0.0;
    let (heads, d_heads) = tape.output_and_gradient();
    for ((head, d_head), wanted) in heads.iter().zip(d_heads).zip(wanted) {
        let a = head.tanh();
        let error = a - wanted;
        loss += f64::from(error * error) + f64::from(a * a / count);
        *d_head = (2.0 * error + 2.0 * a / count) * (1.0 - a * a);
    }
    net.backward(obs, tape, gradient);
    adam.step(net.params_mut(), [gradient]);
    loss
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learners::ppo::tests::floats;
    use nets::Activation;
    use serde_json::Value;

    #[test]
    fn steps_towards_a_target_agree_with_pytorch() {
        const FIXTURE: &str = include_str!("../../tests/fixtures/evolution.json");
        let fixture: Value = serde_json::from_str(FIXTURE).unwrap();
        let case = &fixture["distillation"];
        let sizes: Vec<usize> = floats(&case["sizes"]).iter().map(|&x| x as usize).collect();
        let mut net = Mlp::zeros(&sizes, Activation::Tanh);
        net.params_mut().copy_from_slice(&floats(&case["start"]));
        let batches = case["batches"].as_array().unwrap();
        let rows = floats(&batches[0]["obs"]).len() / sizes[0];
        let mut child = Trained::new(net, rows, case["lr"].as_f64().unwrap());
        for batch in batches {
            let loss = imitate(&mut child, &floats(&batch["obs"]), &floats(&batch["wanted"]));
            let theirs = batch["loss"].as_f64().unwrap();
            assert!((loss - theirs).abs() <= 1e-5 * theirs.abs(), "{loss} {theirs}");
        }
        for (ours, theirs) in child.net.params().iter().zip(floats(&case["after"])) {
            assert!((ours - theirs).abs() <= 1e-5 * theirs.abs().max(0.1), "{ours} {theirs}");
        }
    }

    #[test]
    fn a_child_acts_as_the_better_parent_does_in_each_state() {
        let mut rng = cmdp::rng([4; 4]);
        let parents = [(); 2].map(|()| Mlp::new(&[2, 16, 1], Activation::Tanh, &mut rng));
        let mut parents = parents;
        for (parent, action) in parents.iter_mut().zip([0.5f32, -0.5]) {
            let bias = parent.bias_range(1).start;
            parent.params_mut()[bias] += action;
        }
        let obs: Vec<f32> = (0..1000).map(|_| rng.random_range(-1.0..1.0)).collect();
        // The first is right where x > 0, the second elsewhere.
        let judge = |actions: &[f32]| -> Vec<f32> {
            actions.iter().zip(obs.chunks(2)).map(|(a, obs)| a * obs[0].signum()).collect()
        };
        let config =
            DistillationConfig { crossover_epochs: 60, crossover_batch: 50, crossover_lr: 1e-2 };
        let child = config.child([&parents[0], &parents[1]], &obs, judge, &mut rng);
        let [first, second, own] = [&parents[0], &parents[1], &child].map(|net| acted(net, &obs));
        let mut errors = [0.0f32; 2];
        for (row, seen) in obs.chunks(2).enumerate().filter(|(_, seen)| seen[0].abs() > 0.2) {
            let better = if seen[0] > 0.0 { first[row] } else { second[row] };
            errors[0] += (own[row] - better).abs() / 400.0;
            errors[1] += (first[row] - second[row]).abs() / 400.0;
        }
        assert!(errors[0] < 0.15 * errors[1], "{errors:?}");
        // Nothing was played: nothing to learn from.
        let same = config.child([&parents[0], &parents[1]], &[], |_| vec![], &mut rng);
        assert_eq!(same, parents[1]);
    }
}
