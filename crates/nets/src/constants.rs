//! Outputs that do not depend on the input: how a policy whose log σ is the same everywhere becomes one
//! network like all others.

use crate::Mlp;

impl Mlp {
    /// The same network with further outputs, which are constants.
    pub fn with_constants(&self, constants: &[f32]) -> Self {
        let mut sizes = self.sizes().to_vec();
        *sizes.last_mut().expect("a layer") += constants.len();
        let mut wider = Self::zeros(&sizes, self.activation());
        for layer in 0..self.layers() {
            for (to, from) in [
                (wider.weight_range(layer), self.weight_range(layer)),
                (wider.bias_range(layer), self.bias_range(layer)),
            ] {
                let count = from.len();
                wider.params_mut()[to][..count].copy_from_slice(&self.params()[from]);
            }
        }
        let biases = wider.bias_range(self.layers() - 1);
        let given = biases.len() - constants.len();
        wider.params_mut()[biases][given..].copy_from_slice(constants);
        wider
    }

    /// Takes all numbers over from a network with further outputs; returns the biases of those.
    pub fn take_without_constants(&mut self, wider: &Self) -> Vec<f32> {
        for layer in 0..self.layers() {
            for (to, from) in [
                (self.weight_range(layer), wider.weight_range(layer)),
                (self.bias_range(layer), wider.bias_range(layer)),
            ] {
                let count = to.len();
                self.params_mut()[to].copy_from_slice(&wider.params()[from][..count]);
            }
        }
        let given = self.bias_range(self.layers() - 1).len();
        wider.params()[wider.bias_range(self.layers() - 1)][given..].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Activation, Mlp};

    #[test]
    fn constants_are_added_and_taken_away_again() {
        let net = Mlp::new(&[3, 5, 2], Activation::Tanh, &mut cmdp::rng([1; 4]));
        let wider = net.with_constants(&[7.0, -8.0]);
        for input in [[0.0, 1.0, 2.0], [-3.0, 0.5, 9.0]] {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            let out = wider.forward_one(&input, &mut a);
            assert_eq!(out[..2], *net.forward_one(&input, &mut b));
            assert_eq!(out[2..], [7.0, -8.0]);
        }
        let mut other = Mlp::zeros(&[3, 5, 2], Activation::Tanh);
        assert_eq!(other.take_without_constants(&wider), [7.0, -8.0]);
        assert_eq!(other, net);
    }
}
