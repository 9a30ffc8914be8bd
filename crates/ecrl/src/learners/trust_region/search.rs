//! Back along a step until it does what it was to do.

/// What each try is shorter than the one before.
const SHORTER: f64 = 0.8;

/// The first of up to `tries` lengths 1, 0.8, 0.64, ... that is accepted.
pub fn search(tries: usize, mut accept: impl FnMut(f64) -> bool) -> Option<f64> {
    (0..tries).map(|i| SHORTER.powi(i as i32)).find(|length| accept(*length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_that_is_accepted() {
        assert_eq!(search(10, |_| true), Some(1.0));
        // x² ≤ 0.5: 0.8² = 0.64 is too long, 0.64² is not.
        let found = search(10, |length| length * length <= 0.5).unwrap();
        assert!((found - 0.64).abs() < 1e-12);
        let mut tried = 0;
        let none = search(10, |_| {
            tried += 1;
            false
        });
        assert_eq!((none, tried), (None, 10));
    }
}
