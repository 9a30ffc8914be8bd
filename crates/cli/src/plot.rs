//! A small drawing of two curves for a terminal.

use report::axis::short;

/// Two curves over the same steps, the one drawn as a, the other as b, and as x where they meet; with a
/// bound across where there is one.
pub fn plot(
    curves: [&[(f64, f64)]; 2],
    bound: Option<f64>,
    (width, height): (usize, usize),
) -> Vec<String> {
    let points = || curves.into_iter().flatten();
    let values = || points().map(|point| point.1).chain(bound);
    let (low, high) =
        values().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    let end = points().map(|point| point.0).fold(0.0, f64::max);
    if low > high || end <= 0.0 {
        return Vec::new();
    }
    let span = if high > low { high - low } else { 1.0 };
    let row = |value: f64| ((high - value) / span * (height - 1) as f64).round() as usize;
    let mut cells = vec![vec![' '; width]; height];
    if let Some(bound) = bound {
        cells[row(bound)].fill('-');
    }
    for (points, mark) in curves.into_iter().zip(['a', 'b']) {
        for (step, value) in points {
            let column = (step / end * (width - 1) as f64).round() as usize;
            let cell = &mut cells[row(*value)][column];
            *cell = if *cell == ' ' || *cell == '-' || *cell == mark { mark } else { 'x' };
        }
    }
    let labels: Vec<String> = [high, low].map(short).to_vec();
    let room = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let mut lines: Vec<String> = Vec::new();
    for (i, cells) in cells.iter().enumerate() {
        let label = match i {
            0 => &labels[0],
            _ if i == height - 1 => &labels[1],
            _ => "",
        };
        let line: String = cells.iter().collect();
        lines.push(format!("{label:>room$} |{}", line.trim_end()));
    }
    let steps = format!("{} steps", short(end));
    lines.push(format!("{:>room$} 0{steps:>width$}", ""));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_stand_where_their_numbers_are() {
        let (a, b) = ([(50.0, 0.0), (100.0, 10.0)], [(50.0, 0.0), (75.0, 5.0)]);
        let lines = plot([&a, &b], Some(10.0), (9, 3));
        let expected = ["10 |--------a", "   |      b", " 0 |    x", "   0100 steps"];
        assert_eq!(lines, expected);
        assert!(plot([&[], &[]], None, (9, 3)).is_empty());
        assert_eq!(plot([&[(5.0, 2.0)], &[]], None, (9, 3)).len(), 4);
    }
}
