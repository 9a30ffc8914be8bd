//! Numbers on an axis, in a table and beside a curve: one rule for all of them.

/// Round numbers between two, about `count` of them.
pub fn ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let rough = (high - low) / count as f64;
    let power = 10f64.powf(rough.log10().floor());
    // Numbers so near to each other, or so far apart, that nothing round lies between them.
    let smallest = 1e-12 * low.abs().max(high.abs());
    if !(power.is_normal() && rough.is_finite() && rough > smallest) {
        return [low, high].into_iter().filter(|x| x.is_finite()).collect();
    }
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    (first..).map(|i| i as f64 * step).take_while(|x| *x <= high + 1e-9 * step).collect()
}

/// Ticks with their texts: short ones, or where those are the same, with as many digits as it takes.
pub fn labelled(ticks: Vec<f64>) -> Vec<(f64, String)> {
    let texts: Vec<String> = ticks.iter().copied().map(short).collect();
    let same = texts.windows(2).any(|pair| pair[0] == pair[1]);
    let step = ticks.windows(2).next().map_or(1.0, |pair| pair[1] - pair[0]);
    let digits = (-step.log10() - 1e-6).ceil().clamp(0.0, 12.0) as usize;
    let label = |(tick, text)| (tick, if same { format!("{tick:.digits$}") } else { text });
    ticks.into_iter().zip(texts).map(label).collect()
}

/// A number in at most four digits: 1234, 12.35k, 2M, 0.25, 0.0012. The page's script has the same rule.
pub fn short(x: f64) -> String {
    let (scaled, unit) = match x.abs() {
        a if a < 1e-3 && a > 0.0 => return format!("{x:.1e}"),
        a if a >= 999_950.0 => (x / 1e6, "M"),
        a if a >= 9_999.5 => (x / 1e3, "k"),
        _ => (x, ""),
    };
    let before = scaled.abs().max(1.0).log10().floor() as usize + 1;
    let after = if scaled.abs() < 0.1 { 4 } else { 4usize.saturating_sub(before) };
    let text = format!("{scaled:.after$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    match text {
        "-0" => "0".into(),
        text => format!("{text}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(-0.3, 10.2, 5), [0.0, 5.0, 10.0]);
        assert_eq!(ticks(0.0, 100_000.0, 4), [0.0, 50_000.0, 100_000.0]);
        // Where there is nothing round between, the ends.
        assert_eq!(ticks(0.0, 5e-324, 5), [0.0, 5e-324]);
        assert_eq!(ticks(1.0, 1.0 + f64::EPSILON, 5).len(), 2);
        assert_eq!(ticks(-f64::MAX, f64::MAX, 5).len(), 2);
        assert!(ticks(f64::NAN, 1.0, 5).len() <= 2);
        let texts = |ticks: &[f64]| -> Vec<String> {
            labelled(ticks.to_vec()).into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(texts(&[0.0, 0.5, 1.0]), ["0", "0.5", "1"]);
        assert_eq!(
            texts(&[0.001, 0.00100001, 0.00100002]),
            ["0.00100000", "0.00100001", "0.00100002"]
        );
    }

    #[test]
    fn numbers_have_four_digits() {
        for (x, text) in [
            (0.0, "0"),
            (0.4, "0.4"),
            (0.32149, "0.321"),
            (-0.05, "-0.05"),
            (0.0012, "0.0012"),
            (1500.0, "1500"),
            (3418.27, "3418"),
            (341.26, "341.3"),
            (25.0, "25"),
            (9999.9, "10k"),
            (50_000.0, "50k"),
            (123_456.0, "123.5k"),
            (999_960.0, "1M"),
            (2e6, "2M"),
            (2.3456e6, "2.346M"),
            (0.00042, "4.2e-4"),
        ] {
            assert_eq!(short(x), text);
        }
    }
}
