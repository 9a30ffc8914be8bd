//! Conjugate gradients: solves `Hx = b` for a symmetric H above 0 that is known only by its products.
//!
//! 1. Hestenes & Stiefel, Methods of Conjugate Gradients for Solving Linear Systems, 1952.

/// Where what is left of b has become this small a part of it, x is good enough.
const LEFT: f64 = 1e-10;

/// x after so many iterations; exact, to rounding, once they are as many as x has numbers.
pub fn conjugate_gradient(
    mut multiply: impl FnMut(&[f32]) -> Vec<f32>,
    b: &[f32],
    iterations: usize,
) -> Vec<f32> {
    let mut x = vec![0.0; b.len()];
    let (mut left, mut direction) = (b.to_vec(), b.to_vec());
    let mut squares = dot(&left, &left);
    let enough = LEFT * squares;
    for _ in 0..iterations {
        if squares <= enough {
            break;
        }
        let product = multiply(&direction);
        let along = (squares / dot(&direction, &product)) as f32;
        add(&mut x, along, &direction);
        add(&mut left, -along, &product);
        let before = std::mem::replace(&mut squares, dot(&left, &left));
        let keep = (squares / before) as f32;
        direction.iter_mut().zip(&left).for_each(|(d, r)| *d = r + keep * *d);
    }
    x
}

/// The sum of products.
pub fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// `to += factor·numbers`
pub fn add(to: &mut [f32], factor: f32, numbers: &[f32]) {
    to.iter_mut().zip(numbers).for_each(|(to, x)| *to += factor * x);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a system with the solution (1, -2, 0.5).
    fn multiply(x: &[f32]) -> Vec<f32> {
        let h = [[4.0, 1.0, 0.0], [1.0, 3.0, -1.0], [0.0, -1.0, 2.0]];
        h.iter().map(|row| row.iter().zip(x).map(|(h, x)| h * x).sum()).collect()
    }

    #[test]
    fn three_unknowns_take_three_iterations() {
        let b = multiply(&[1.0, -2.0, 0.5]);
        assert_eq!(b, [2.0, -5.5, 3.0]);
        let mut products = 0;
        let mut counted = |x: &[f32]| {
            products += 1;
            multiply(x)
        };
        let x = conjugate_gradient(&mut counted, &b, 10);
        for (x, expected) in x.iter().zip([1.0, -2.0, 0.5]) {
            assert!((x - expected).abs() < 1e-5, "{x} {expected}");
        }
        assert!((3..=4).contains(&products), "{products}");
        // One iteration is the step down the gradient that goes furthest: bᵀb/bᵀHb·b.
        let one = conjugate_gradient(multiply, &b, 1);
        let along = dot(&b, &b) / dot(&b, &multiply(&b));
        for (x, b) in one.iter().zip(&b) {
            assert!((f64::from(*x) - along * f64::from(*b)).abs() < 1e-6);
        }
    }

    #[test]
    fn nothing_is_solved_by_nothing() {
        assert_eq!(conjugate_gradient(|_| panic!("nothing to do"), &[0.0; 2], 10), [0.0; 2]);
    }
}
