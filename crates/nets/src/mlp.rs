//! Fully connected networks: `h_l = f(h_{l-1}·W_lᵀ + b_l)`, the last layer without `f`.
//!
//! All parameters lie in one flat vector, layer after layer, weights (one row for each output)
//! before biases. Gradients use the same layout, so an optimiser sees two slices.

use std::ops::Range;

use rand::{Rng, RngExt as _};
use rand_distr::StandardNormal;

use crate::matrix::{Matrix, Then, dot_rows, multiply};
use crate::simd::vectorised;

/// What follows every layer but the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// max(0, x)
    #[default]
    Relu,
    /// tanh x
    Tanh,
}

impl Activation {
    fn apply(self, x: f32) -> f32 {
        match self {
            // Not `max`: what is not a number stays so, as in the batch.
            Self::Relu if x < 0.0 => 0.0,
            Self::Relu => x,
            Self::Tanh => tanh(x),
        }
    }
}

/// tanh to 3e-7 of its value, in arithmetic that vectors have: a continued fraction for a quarter of
/// the argument, then twice `tanh 2y = 2 tanh y / (1 + tanh² y)`, in fractions throughout.
#[inline(always)]
fn tanh(x: f32) -> f32 {
    // Beyond, it is 1 to the last bit.
    const BOUND: f32 = 9.2;
    let y = 0.25 * x.clamp(-BOUND, BOUND);
    let s = y * y;
    let p = y * (10395.0 + s * (1260.0 + s * 21.0));
    let q = 10395.0 + s * (4725.0 + s * (210.0 + s));
    let (p, q) = (2.0 * p * q, q * q + p * p);
    2.0 * p * q / (q * q + p * p)
}

/// A network of fully connected layers.
#[derive(Debug, Clone, PartialEq)]
pub struct Mlp {
    sizes: Vec<usize>,
    activation: Activation,
    params: Vec<f32>,
}

/// What a forward pass leaves behind for the backward pass, for up to a fixed number of rows.
#[derive(Debug, Clone)]
pub struct Tape {
    rows: usize,
    /// The output of each layer, after its activation.
    outputs: Vec<Vec<f32>>,
    /// The gradient of each layer's output, before its activation.
    deltas: Vec<Vec<f32>>,
    sizes: Vec<usize>,
}

impl Tape {
    /// A tape for up to `rows` rows through `net`.
    pub fn new(net: &Mlp, rows: usize) -> Self {
        let buffers: Vec<Vec<f32>> =
            net.sizes[1..].iter().map(|size| vec![0.0; rows * size]).collect();
        Self { rows, outputs: buffers.clone(), deltas: buffers, sizes: net.sizes[1..].to_vec() }
    }

    /// The number of rows there is room for.
    pub fn capacity(&self) -> usize {
        self.outputs[0].len() / self.sizes[0]
    }

    /// The network's output, row after row.
    pub fn output(&self) -> &[f32] {
        self.layer(self.sizes.len() - 1)
    }

    /// The output of a layer after its activation, row after row.
    pub fn layer(&self, layer: usize) -> &[f32] {
        &self.outputs[layer][..self.rows * self.sizes[layer]]
    }

    /// Forgets all rows but these, which must be in rising order.
    pub fn keep_rows(&mut self, keep: &[usize]) {
        for (output, &size) in self.outputs.iter_mut().zip(&self.sizes) {
            for (to, &from) in keep.iter().enumerate() {
                output.copy_within(from * size..(from + 1) * size, to * size);
            }
        }
        self.rows = keep.len();
    }

    /// The network's output, and where the loss writes its gradient.
    pub fn output_and_gradient(&mut self) -> (&[f32], &mut [f32]) {
        let last = self.sizes.len() - 1;
        let len = self.rows * self.sizes[last];
        (&self.outputs[last][..len], &mut self.deltas[last][..len])
    }
}

impl Mlp {
    /// A network with weights and biases uniform in ±1/√inputs, layer by layer.
    pub fn new(sizes: &[usize], activation: Activation, rng: &mut impl Rng) -> Self {
        let mut net = Self::zeros(sizes, activation);
        for layer in 0..net.layers() {
            let bound = 1.0 / (net.sizes[layer] as f32).sqrt();
            let all = net.weight_range(layer).start..net.bias_range(layer).end;
            net.params[all].fill_with(|| rng.random_range(-bound..bound));
        }
        net
    }

    /// A network whose layers' weights are orthogonal matrices times a gain each, without biases.
    pub fn orthogonal(
        sizes: &[usize],
        activation: Activation,
        gains: &[f32],
        rng: &mut impl Rng,
    ) -> Self {
        let mut net = Self::zeros(sizes, activation);
        assert_eq!(gains.len(), net.layers(), "a gain for each layer");
        for (layer, &gain) in gains.iter().enumerate() {
            let (inputs, outputs) = (sizes[layer], sizes[layer + 1]);
            let basis = orthonormal(inputs.min(outputs), inputs.max(outputs), rng);
            let weights = net.weight_range(layer);
            for (i, weight) in net.params[weights].iter_mut().enumerate() {
                let (output, input) = (i / inputs, i % inputs);
                let (vector, entry) =
                    if outputs <= inputs { (output, input) } else { (input, output) };
                *weight = gain * basis[vector][entry] as f32;
            }
        }
        net
    }

    /// A network of zeros, to be filled.
    pub fn zeros(sizes: &[usize], activation: Activation) -> Self {
        assert!(sizes.len() >= 2 && sizes.iter().all(|&size| size > 0), "sizes {sizes:?}");
        let count = sizes.windows(2).map(|pair| (pair[0] + 1) * pair[1]).sum();
        Self { sizes: sizes.to_vec(), activation, params: vec![0.0; count] }
    }

    /// The number of inputs, then of each layer's outputs.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// What follows every layer but the last.
    pub fn activation(&self) -> Activation {
        self.activation
    }

    /// The number of layers.
    pub fn layers(&self) -> usize {
        self.sizes.len() - 1
    }

    /// All weights and biases.
    pub fn params(&self) -> &[f32] {
        &self.params
    }

    /// All weights and biases, to be changed.
    pub fn params_mut(&mut self) -> &mut [f32] {
        &mut self.params
    }

    /// Where a layer's weights lie in the parameters: `outputs` × `inputs`, row after row.
    pub fn weight_range(&self, layer: usize) -> Range<usize> {
        let start = self.sizes[..=layer].windows(2).map(|pair| (pair[0] + 1) * pair[1]).sum();
        start..start + self.sizes[layer] * self.sizes[layer + 1]
    }

    /// Where a layer's biases lie in the parameters.
    pub fn bias_range(&self, layer: usize) -> Range<usize> {
        let start = self.weight_range(layer).end;
        start..start + self.sizes[layer + 1]
    }

    fn weight(&self, layer: usize) -> Matrix<'_> {
        let (inputs, outputs) = (self.sizes[layer], self.sizes[layer + 1]);
        Matrix::new(&self.params[self.weight_range(layer)], outputs, inputs)
    }

    /// Runs a batch through the network; the result is in [`Tape::output`].
    pub fn forward(&self, input: &[f32], tape: &mut Tape) {
        tape.rows = input.len() / self.sizes[0];
        for layer in 0..self.layers() {
            let (before, after) = tape.outputs.split_at_mut(layer);
            let x = match layer {
                0 => input,
                _ => &before[layer - 1][..tape.rows * self.sizes[layer]],
            };
            let outputs = self.sizes[layer + 1];
            let out = &mut after[0][..tape.rows * outputs];
            let x = Matrix::new(x, tape.rows, self.sizes[layer]);
            let bias = &self.params[self.bias_range(layer)];
            let activation = (layer + 1 < self.layers()).then_some(self.activation);
            let then = match activation {
                Some(Activation::Relu) => Then::BiasRelu(bias),
                Some(Activation::Tanh) | None => Then::Bias(bias),
            };
            multiply(out, x, self.weight(layer).transposed(), then);
            if activation == Some(Activation::Tanh) {
                vectorised(
                    #[inline(always)]
                    || out.iter_mut().for_each(|x| *x = tanh(*x)),
                );
            }
        }
    }

    /// Back through the network, from the gradient in [`Tape::output_and_gradient`]: writes the
    /// gradient of the parameters, given the same `input` as the forward pass.
    pub fn backward(&self, input: &[f32], tape: &mut Tape, gradient: &mut [f32]) {
        for layer in (0..self.layers()).rev() {
            let (rows, inputs, outputs) = (tape.rows, self.sizes[layer], self.sizes[layer + 1]);
            let x = if layer == 0 { input } else { &tape.outputs[layer - 1][..rows * inputs] };
            let delta = &tape.deltas[layer][..rows * outputs];
            let weights = &mut gradient[self.weight_range(layer)];
            let by_output = Matrix::new(delta, rows, outputs).transposed();
            multiply(weights, by_output, Matrix::new(x, rows, inputs), Then::Store);
            let biases = &mut gradient[self.bias_range(layer)];
            biases.fill(0.0);
            add_columns(biases, delta);
            if layer > 0 {
                self.back_through(layer, tape);
            }
        }
    }

    /// Back to the input alone: writes the gradient of the input's columns from `first` on, given
    /// the gradient in [`Tape::output_and_gradient`].
    pub fn backward_input(&self, tape: &mut Tape, first: usize, out: &mut [f32]) {
        for layer in (1..self.layers()).rev() {
            self.back_through(layer, tape);
        }
        let delta = &tape.deltas[0][..tape.rows * self.sizes[1]];
        let delta = Matrix::new(delta, tape.rows, self.sizes[1]);
        multiply(out, delta, self.weight(0).columns_from(first), Then::Store);
    }

    /// The gradient before the activation of the layer below `layer`.
    fn back_through(&self, layer: usize, tape: &mut Tape) {
        let (rows, inputs, outputs) = (tape.rows, self.sizes[layer], self.sizes[layer + 1]);
        let (below, above) = tape.deltas.split_at_mut(layer);
        let delta = Matrix::new(&above[0][..rows * outputs], rows, outputs);
        let out = &mut below[layer - 1][..rows * inputs];
        let y = &tape.outputs[layer - 1][..rows * inputs];
        match self.activation {
            Activation::Relu => multiply(out, delta, self.weight(layer), Then::WherePositive(y)),
            Activation::Tanh => {
                multiply(out, delta, self.weight(layer), Then::Store);
                vectorised(
                    #[inline(always)]
                    || out.iter_mut().zip(y).for_each(|(d, y)| *d *= 1.0 - y * y),
                );
            }
        }
    }

    /// One row through the network without a tape. `scratch` grows once and is then reused; the
    /// result is its last part.
    pub fn forward_one<'a>(&self, input: &[f32], scratch: &'a mut Vec<f32>) -> &'a [f32] {
        assert_eq!(input.len(), self.sizes[0], "inputs");
        scratch.resize(self.sizes[1..].iter().sum(), 0.0);
        let mut end = 0;
        for layer in 0..self.layers() {
            let (before, after) = scratch.split_at_mut(end);
            let x = if layer == 0 { input } else { &before[end - self.sizes[layer]..] };
            let out = &mut after[..self.sizes[layer + 1]];
            let weight = &self.params[self.weight_range(layer)];
            dot_rows(out, weight, x);
            for (x, bias) in out.iter_mut().zip(&self.params[self.bias_range(layer)]) {
                *x += bias;
                if layer + 1 < self.layers() {
                    *x = self.activation.apply(*x);
                }
            }
            end += self.sizes[layer + 1];
        }
        &scratch[end - self.sizes[self.layers()]..]
    }
}

/// Random vectors of length 1 at right angles to each other, by Gram and Schmidt's method.
fn orthonormal(count: usize, dimensions: usize, rng: &mut impl Rng) -> Vec<Vec<f64>> {
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let mut basis: Vec<Vec<f64>> = Vec::new();
    while basis.len() < count {
        let mut vector: Vec<f64> = (0..dimensions).map(|_| rng.sample(StandardNormal)).collect();
        // Twice: once leaves a trace of the others.
        for other in basis.iter().chain(&basis) {
            let along = dot(&vector, other);
            vector.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
        }
        let length = dot(&vector, &vector).sqrt();
        vector.iter_mut().for_each(|x| *x /= length);
        basis.push(vector);
    }
    basis
}

fn add_columns(sums: &mut [f32], rows: &[f32]) {
    vectorised(
        #[inline(always)]
        || {
            for row in rows.chunks_exact(sums.len()) {
                for (sum, x) in sums.iter_mut().zip(row) {
                    *sum += x;
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The network in f64, as the formula says.
    fn reference(net: &Mlp, params: &[f64], input: &[f64]) -> Vec<f64> {
        let mut x = input.to_vec();
        for layer in 0..net.layers() {
            let (inputs, outputs) = (net.sizes[layer], net.sizes[layer + 1]);
            let (weight, bias) = (&params[net.weight_range(layer)], &params[net.bias_range(layer)]);
            let mut out = Vec::new();
            for row in x.chunks_exact(inputs) {
                for o in 0..outputs {
                    let w = &weight[o * inputs..(o + 1) * inputs];
                    let sum: f64 = bias[o] + w.iter().zip(row).map(|(w, x)| w * x).sum::<f64>();
                    out.push(match net.activation {
                        _ if layer + 1 == net.layers() => sum,
                        Activation::Relu => sum.max(0.0),
                        Activation::Tanh => sum.tanh(),
                    });
                }
            }
            x = out;
        }
        x
    }

    fn doubles(numbers: &[f32]) -> Vec<f64> {
        numbers.iter().map(|&x| x.into()).collect()
    }

    fn assert_close(ours: &[f32], expected: &[f64], what: &str) {
        let scale = expected.iter().fold(0.0, |max: f64, x| max.max(x.abs()));
        assert!(scale > 0.0, "{what}: nothing to compare");
        for (i, (our, expected)) in ours.iter().zip(expected).enumerate() {
            let error = (f64::from(*our) - expected).abs();
            assert!(
                error <= 1e-4 * expected.abs().max(0.01 * scale),
                "{what} {i}: {our} {expected}"
            );
        }
    }

    /// d loss/dx of every entry of `x`, by central differences.
    fn differences(x: &[f64], loss: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        const H: f64 = 1e-6;
        let at = |i: usize, h: f64| {
            let mut moved = x.to_vec();
            moved[i] += h;
            loss(&moved)
        };
        (0..x.len()).map(|i| (at(i, H) - at(i, -H)) / (2.0 * H)).collect()
    }

    #[test]
    fn every_gradient_agrees_with_finite_differences() {
        for activation in [Activation::Relu, Activation::Tanh] {
            for sizes in [&[4, 3][..], &[5, 16, 9, 2], &[3, 7, 8, 6, 1]] {
                let mut rng = cmdp::rng([3, 0, 0, 0]);
                let net = Mlp::new(sizes, activation, &mut rng);
                let (rows, inputs) = (6, sizes[0]);
                let mut input = vec![0.0; rows * inputs];
                input.fill_with(|| rng.random_range(-2.0f32..2.0));
                let mut tape = Tape::new(&net, rows + 3); // room to spare must not matter
                let mut pull = vec![0.0; rows * sizes[sizes.len() - 1]];
                pull.fill_with(|| rng.random_range(-1.0f32..1.0));
                net.forward(&input, &mut tape);
                let loss = |params: &[f64], input: &[f64]| -> f64 {
                    reference(&net, params, input)
                        .iter()
                        .zip(&pull)
                        .map(|(y, p)| y * f64::from(*p))
                        .sum()
                };
                let (params, input64) = (doubles(net.params()), doubles(&input));
                assert_close(tape.output(), &reference(&net, &params, &input64), "output");

                tape.output_and_gradient().1.copy_from_slice(&pull);
                let mut gradient = vec![f32::NAN; params.len()];
                net.backward(&input, &mut tape, &mut gradient);
                let expected = differences(&params, |params| loss(params, &input64));
                assert_close(&gradient, &expected, "parameters");

                let (first, mut d_input) = (inputs / 2, vec![0.0; rows * (inputs - inputs / 2)]);
                net.backward_input(&mut tape, first, &mut d_input);
                let all = differences(&input64, |input| loss(&params, input));
                let expected: Vec<f64> =
                    all.chunks_exact(inputs).flat_map(|row| row[first..].to_vec()).collect();
                assert_close(&d_input, &expected, "input");
            }
        }
    }

    #[test]
    fn one_row_alone_agrees_with_the_batch() {
        let mut rng = cmdp::rng([4; 4]);
        let net = Mlp::new(&[17, 256, 256, 12], Activation::Relu, &mut rng);
        let input: Vec<f32> = (0..17 * 3).map(|i| (i as f32).sin()).collect();
        let (mut tape, mut scratch) = (Tape::new(&net, 3), Vec::new());
        net.forward(&input, &mut tape);
        for row in 0..3 {
            let alone = net.forward_one(&input[row * 17..(row + 1) * 17], &mut scratch);
            assert_close(alone, &doubles(&tape.output()[row * 12..(row + 1) * 12]), "row");
        }
    }

    #[test]
    fn layers_start_within_their_bounds() {
        let net = Mlp::new(&[16, 400, 4], Activation::Relu, &mut cmdp::rng([5; 4]));
        for (layer, bound) in [(0, 0.25), (1, 0.05)] {
            for range in [net.weight_range(layer), net.bias_range(layer)] {
                let largest =
                    net.params[range.clone()].iter().fold(0.0, |m: f32, x| m.max(x.abs()));
                assert!(largest <= bound, "layer {layer}");
                assert!(largest > 0.9 * bound || range.len() < 10, "layer {layer}");
            }
        }
    }

    #[test]
    fn orthogonal_layers_keep_lengths_and_angles() {
        let gains = [2.0, 1.0, 0.5];
        let net = Mlp::orthogonal(&[5, 9, 9, 3], Activation::Tanh, &gains, &mut cmdp::rng([6; 4]));
        for (layer, gain) in gains.into_iter().enumerate() {
            let (inputs, outputs) = (net.sizes[layer], net.sizes[layer + 1]);
            let weight = &net.params[net.weight_range(layer)];
            let at = |o: usize, i: usize| f64::from(weight[o * inputs + i]);
            for a in 0..inputs.min(outputs) {
                for b in 0..inputs.min(outputs) {
                    let product: f64 = match outputs <= inputs {
                        true => (0..inputs).map(|i| at(a, i) * at(b, i)).sum(),
                        false => (0..outputs).map(|o| at(o, a) * at(o, b)).sum(),
                    };
                    let expected = if a == b { f64::from(gain * gain) } else { 0.0 };
                    assert!((product - expected).abs() < 1e-5, "layer {layer}: {a} {b}");
                }
            }
            assert!(net.params[net.bias_range(layer)].iter().all(|&b| b == 0.0));
        }
    }

    #[test]
    fn tanh_is_tanh() {
        for i in -20_000..=20_000 {
            let x = i as f32 / 1600.0;
            let expected = f64::from(x).tanh();
            assert!((f64::from(tanh(x)) - expected).abs() <= 4e-7 * expected.abs(), "{x}");
        }
        assert_eq!((tanh(1e9), tanh(f32::NEG_INFINITY)), (1.0, -1.0));
        assert!(tanh(f32::NAN).is_nan());
    }
}
