//! The figure that a noisy machine distorts least.

/// The median; the mean of the two in the middle where there are two; NaN of nothing.
pub fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = numbers.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_odd_and_even() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0]), 2.5);
        assert!(median([]).is_nan());
    }
}
