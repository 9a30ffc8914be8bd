//! Forward differentiation: how a network's output moves when its parameters do.
//!
//! ```text
//! ḣ_l = f'(h_l)·( ḣ_{l-1}·W_lᵀ + h_{l-1}·Ẇ_lᵀ + ḃ_l )          ḣ_0 = 0
//! ```
//!
//! With [`Mlp::backward`] it gives products with `JᵀMJ`, J the slopes of the outputs by the parameters,
//! without ever writing J down: Fisher's matrix, for one.

use crate::matrix::{Matrix, Then, multiply};
use crate::{Activation, Mlp, Tape};

/// Buffers of such passes.
#[derive(Debug, Clone, Default)]
pub struct Tangent {
    moved: Vec<f32>,
    through: Vec<f32>,
    own: Vec<f32>,
}

impl Tangent {
    /// How the output moves, row after row, when the parameters move along `direction`; given the
    /// `input` of the forward pass whose `tape` this is.
    pub fn forward<'a>(
        &mut self,
        net: &'a Mlp,
        input: &[f32],
        tape: &Tape,
        direction: &'a [f32],
    ) -> &[f32] {
        assert_eq!(direction.len(), net.params().len(), "a number for each parameter");
        let rows = input.len() / net.sizes()[0];
        for layer in 0..net.layers() {
            let (inputs, outputs) = (net.sizes()[layer], net.sizes()[layer + 1]);
            let x = if layer == 0 { input } else { tape.layer(layer - 1) };
            let weight = |params: &'a [f32]| {
                Matrix::new(&params[net.weight_range(layer)], outputs, inputs).transposed()
            };
            let then = Then::Bias(&direction[net.bias_range(layer)]);
            self.own.resize(rows * outputs, 0.0);
            multiply(&mut self.own, Matrix::new(x, rows, inputs), weight(direction), then);
            if layer > 0 {
                self.through.resize(rows * outputs, 0.0);
                let moved = Matrix::new(&self.moved, rows, inputs);
                multiply(&mut self.through, moved, weight(net.params()), Then::Store);
                self.own.iter_mut().zip(&self.through).for_each(|(own, through)| *own += through);
            }
            if layer + 1 < net.layers() {
                let outputs = tape.layer(layer);
                match net.activation() {
                    Activation::Relu => {
                        let all = self.own.iter_mut().zip(outputs);
                        all.filter(|(_, y)| **y <= 0.0).for_each(|(own, _)| *own = 0.0);
                    }
                    Activation::Tanh => {
                        self.own.iter_mut().zip(outputs).for_each(|(own, y)| *own *= 1.0 - y * y);
                    }
                }
            }
            std::mem::swap(&mut self.moved, &mut self.own);
        }
        &self.moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt as _;

    #[test]
    fn it_agrees_with_moving_the_parameters() {
        for activation in [Activation::Relu, Activation::Tanh] {
            let mut rng = cmdp::rng([4, 0, 0, 0]);
            let net = Mlp::new(&[3, 7, 5, 2], activation, &mut rng);
            let mut input = vec![0.0; 6 * 3];
            input.fill_with(|| rng.random_range(-2.0f32..2.0));
            let mut direction = vec![0.0; net.params().len()];
            direction.fill_with(|| rng.random_range(-1.0f32..1.0));
            let mut tape = Tape::new(&net, 6);
            let mut at = |h: f32| {
                let mut net = net.clone();
                net.params_mut().iter_mut().zip(&direction).for_each(|(x, d)| *x += h * d);
                net.forward(&input, &mut tape);
                tape.output().to_vec()
            };
            let (up, down) = (at(1e-3), at(-1e-3));
            net.forward(&input, &mut tape);
            let mut tangent = Tangent::default();
            // Twice: what an earlier pass left behind must not matter.
            tangent.forward(&net, &input, &tape, &vec![1.0; direction.len()]);
            let moved = tangent.forward(&net, &input, &tape, &direction);
            assert_eq!(moved.len(), 12);
            for ((moved, up), down) in moved.iter().zip(up).zip(down) {
                let expected = (up - down) / 2e-3;
                assert!(
                    (moved - expected).abs() < 2e-3 * expected.abs().max(1.0),
                    "{moved} {expected}"
                );
            }
        }
    }

    #[test]
    fn it_is_the_other_side_of_the_backward_pass() {
        // uᵀ(Jv) = (Jᵀu)ᵀv, to rounding.
        let mut rng = cmdp::rng([5, 0, 0, 0]);
        let net = Mlp::new(&[4, 9, 3], Activation::Tanh, &mut rng);
        let mut draw = |count: usize| -> Vec<f32> {
            (0..count).map(|_| rng.random_range(-1.0f32..1.0)).collect()
        };
        let (input, v, u) = (draw(5 * 4), draw(net.params().len()), draw(5 * 3));
        let mut tape = Tape::new(&net, 5);
        net.forward(&input, &mut tape);
        let mut tangent = Tangent::default();
        let dot = |a: &[f32], b: &[f32]| -> f64 {
            a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let left = dot(&u, tangent.forward(&net, &input, &tape, &v));
        tape.output_and_gradient().1.copy_from_slice(&u);
        let mut gradient = vec![0.0; v.len()];
        net.backward(&input, &mut tape, &mut gradient);
        let right = dot(&gradient, &v);
        assert!((left - right).abs() < 1e-5 * left.abs().max(1.0), "{left} {right}");
    }
}
