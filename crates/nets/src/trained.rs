//! A network with all it takes to train it.

use crate::{Adam, Mlp, Tape};

/// A network with its optimiser and its buffers.
#[derive(Debug, Clone)]
pub struct Trained {
    /// The network.
    pub net: Mlp,
    /// Its optimiser.
    pub adam: Adam,
    /// The gradient of its parameters.
    pub gradient: Vec<f32>,
    /// What passes leave behind.
    pub tape: Tape,
}

impl Trained {
    /// For passes of up to `rows` rows.
    pub fn new(net: Mlp, rows: usize, lr: f64) -> Self {
        let params = net.params().len();
        let (adam, tape) = (Adam::new(params, lr), Tape::new(&net, rows));
        Self { adam, tape, gradient: vec![0.0; params], net }
    }

    /// One step down the gradient times `factor`.
    pub fn step_scaled(&mut self, factor: f32) {
        self.adam.step_scaled(self.net.params_mut(), &self.gradient, factor);
    }
}
