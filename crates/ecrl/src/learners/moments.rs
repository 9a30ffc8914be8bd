//! Running mean and variance, for normalising what comes in.

use nets::Mlp;

use crate::state::{StateError, Walk};

/// Running mean and variance of each of several numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    count: f64,
    /// Of each number.
    pub mean: Vec<f64>,
    /// Of each number.
    pub variance: Vec<f64>,
}

impl Moments {
    /// Of so many numbers, before the first row.
    pub fn new(numbers: usize) -> Self {
        Self { count: 0.0, mean: vec![0.0; numbers], variance: vec![1.0; numbers] }
    }

    /// Whether nothing was taken into account yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0.0
    }

    /// Takes rows into account, each with all the numbers.
    pub fn add(&mut self, rows: &[f32]) {
        let numbers = self.mean.len();
        let count = (rows.len() / numbers) as f64;
        if count == 0.0 {
            return;
        }
        let total = self.count + count;
        for i in 0..numbers {
            let column = || rows.iter().skip(i).step_by(numbers).map(|&x| f64::from(x));
            let mean = column().sum::<f64>() / count;
            let variance = column().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            let apart = mean - self.mean[i];
            let sum = self.count * self.variance[i] + count * variance;
            self.variance[i] = (sum + apart * apart * self.count * count / total) / total;
            self.mean[i] += apart * count / total;
        }
        self.count = total;
    }

    /// The standard deviation, kept away from 0: a number that hardly moves is not blown up.
    pub fn deviation(&self, i: usize) -> f64 {
        self.variance[i].sqrt().max(1e-2)
    }

    /// Of each number but the first, the first's deviation over its own: what a weight on it must be multiplied
    /// with for 1 to weigh as much as the first.
    pub fn units(&self) -> Vec<f64> {
        (1..self.mean.len()).map(|i| self.deviation(0) / self.deviation(i)).collect()
    }

    /// Works the normalisation of a network's inputs, `(x - mean)/deviation`, into its first layer.
    pub fn work_into(&self, net: &mut Mlp) {
        self.each_unit(net, |weight, i| {
            let scaled = weight / self.deviation(i);
            (scaled, -scaled * self.mean[i])
        });
    }

    /// Takes it out of the first layer: what comes before the network from now on changes nothing.
    pub fn take_out_of(&self, net: &mut Mlp) {
        self.each_unit(net, |weight, i| (weight * self.deviation(i), weight * self.mean[i]));
    }

    /// Changes every weight of the first layer, and its unit's bias by the sum of what goes with them.
    fn each_unit(&self, net: &mut Mlp, change: impl Fn(f64, usize) -> (f64, f64)) {
        let (inputs, weights) = (net.sizes()[0], net.weight_range(0));
        for (unit, bias) in net.bias_range(0).enumerate() {
            let mut shift = 0.0;
            for i in 0..inputs {
                let weight = &mut net.params_mut()[weights.start + unit * inputs + i];
                let (changed, shifts) = change(f64::from(*weight), i);
                shift += shifts;
                *weight = changed as f32;
            }
            let bias = &mut net.params_mut()[bias];
            *bias = (f64::from(*bias) + shift) as f32;
        }
    }

    /// Walks the moments under a name.
    pub fn walk(&mut self, name: &str, walk: &mut Walk) -> Result<(), StateError> {
        walk.plain(&format!("{name}.count"), &mut self.count)?;
        walk.numbers(&format!("{name}.mean"), &mut self.mean)?;
        walk.numbers(&format!("{name}.variance"), &mut self.variance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_parts_are_those_of_the_whole() {
        let rows: Vec<f32> = (0..60).map(|i| ((i * i) as f32 * 0.37).sin() + i as f32).collect();
        let (mut whole, mut parts) = (Moments::new(3), Moments::new(3));
        whole.add(&rows);
        for part in [&rows[..9], &[], &rows[9..30], &rows[30..]] {
            parts.add(part);
        }
        for i in 0..3 {
            assert!((whole.mean[i] - parts.mean[i]).abs() < 1e-9);
            assert!((whole.variance[i] - parts.variance[i]).abs() < 1e-9);
            let column: Vec<f64> = rows.iter().skip(i).step_by(3).map(|&x| x.into()).collect();
            let mean = column.iter().sum::<f64>() / 20.0;
            let variance = column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20.0;
            assert!((whole.mean[i] - mean).abs() < 1e-9);
            assert!((whole.variance[i] - variance).abs() < 1e-9);
        }
    }
}
