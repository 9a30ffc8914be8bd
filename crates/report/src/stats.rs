//! What a few runs say, and how sure one can be of it.
//!
//! Aggregates over tasks follow Agarwal et al., Deep Reinforcement Learning at the Edge of the
//! Statistical Precipice (NeurIPS 2021): scores are grouped by task, and a bootstrap resamples the
//! runs of each task by themselves.

use cmdp::Rng;
use rand::RngExt as _;

/// A value with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

/// The scores of one algorithm: for each task, those of its runs.
pub type Scores = Vec<Vec<f64>>;

/// The mean.
pub fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// The sample standard deviation; 0 of a single number.
pub fn deviation(numbers: &[f64]) -> f64 {
    let mean = mean(numbers);
    let squares: f64 = numbers.iter().map(|x| (x - mean).powi(2)).sum();
    (squares / (numbers.len() as f64 - 1.0).max(1.0)).sqrt()
}

/// The mean of the middle half of all scores, whatever the task.
pub fn interquartile_mean(scores: &[Vec<f64>]) -> f64 {
    let mut all: Vec<f64> = scores.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let cut = all.len() / 4;
    mean(&all[cut..all.len() - cut])
}

/// How likely a run of `a` scores more than a run of `b`, averaged over tasks; a tie counts half.
pub fn probability_of_improvement(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    let task = |(a, b): (&Vec<f64>, &Vec<f64>)| {
        let pairs = a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
        let wins = pairs.map(|(x, y)| match x.total_cmp(y) {
            std::cmp::Ordering::Greater => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Less => 0.0,
        });
        wins.sum::<f64>() / (a.len() * b.len()) as f64
    };
    mean(&a.iter().zip(b).map(task).collect::<Vec<f64>>())
}

/// A statistic of several algorithms' scores with its interval by the stratified percentile
/// bootstrap.
pub fn bootstrap(
    scores: &[&Scores],
    statistic: impl Fn(&[Scores]) -> f64,
    repeats: usize,
    rng: &mut Rng,
) -> Estimate {
    let whole: Vec<Scores> = scores.iter().map(|s| (*s).clone()).collect();
    let value = statistic(&whole);
    let mut drawn = whole.clone();
    let mut found: Vec<f64> = (0..repeats)
        .map(|_| {
            for (to, from) in drawn.iter_mut().zip(&whole) {
                for (to, from) in to.iter_mut().zip(from) {
                    to.fill_with(|| from[rng.random_range(0..from.len())]);
                }
            }
            statistic(&drawn)
        })
        .collect();
    found.sort_by(f64::total_cmp);
    Estimate { value, low: percentile(&found, 0.025), high: percentile(&found, 0.975) }
}

/// A percentile of sorted numbers, between two of them where it falls there.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let (below, part) = (at.floor() as usize, at.fract());
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + part * (sorted[above] - sorted[below])
}

/// The value at `x` on the line through `points`, which rise in x; `None` outside of them.
pub fn interpolate(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let after = points.partition_point(|point| point.0 < x);
    let (x1, y1) = *points.get(after)?;
    if x1 == x {
        return Some(y1);
    }
    let (x0, y0) = *points.get(after.checked_sub(1)?)?;
    Some(y0 + (y1 - y0) * (x - x0) / (x1 - x0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn by_hand() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
        assert_eq!(deviation(&[1.0, 3.0, 5.0]), 2.0);
        assert_eq!(deviation(&[7.0]), 0.0);
        // Eight numbers: two are cut off at each end.
        let scores = [vec![100.0, 1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0, -100.0]];
        assert_eq!(interquartile_mean(&scores), 3.5);
        // 3 beats 1, ties with 3; 5 beats both.
        assert_eq!(probability_of_improvement(&[vec![3.0, 5.0]], &[vec![1.0, 3.0]]), 3.5 / 4.0);
        assert_eq!(percentile(&[0.0, 10.0, 20.0], 0.25), 5.0);
        let points = [(10.0, 1.0), (20.0, 3.0), (40.0, 0.0)];
        assert_eq!(interpolate(&points, 15.0), Some(2.0));
        assert_eq!(interpolate(&points, 40.0), Some(0.0));
        assert_eq!((interpolate(&points, 9.0), interpolate(&points, 41.0)), (None, None));
    }

    #[test]
    fn rliable_agrees() {
        let fixture: Value =
            serde_json::from_str(include_str!("../tests/fixtures/rliable.json")).unwrap();
        let scores = |name: &str| -> Scores {
            let tasks = fixture["scores"][name].as_array().unwrap().iter();
            let numbers = |task: &Value| -> Vec<f64> {
                task.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
            };
            tasks.map(numbers).collect()
        };
        let (a, b) = (scores("a"), scores("b"));
        let mut rng = cmdp::rng([0; 4]);
        let check = |name: &str, ours: Estimate| {
            let theirs = &fixture[name];
            let number = |key: &str| theirs[key].as_f64().unwrap();
            assert!((ours.value - number("value")).abs() < 1e-12, "{name} {ours:?}");
            // Both intervals are drawn by lot, ours 4000 times.
            let width = number("high") - number("low");
            assert!((ours.low - number("low")).abs() < 0.06 * width, "{name} {ours:?} {theirs}");
            assert!((ours.high - number("high")).abs() < 0.06 * width, "{name} {ours:?} {theirs}");
        };
        let iqm = |scores: &[Scores]| interquartile_mean(&scores[0]);
        check("iqm_a", bootstrap(&[&a], iqm, 4000, &mut rng));
        check("iqm_b", bootstrap(&[&b], iqm, 4000, &mut rng));
        let better = |scores: &[Scores]| probability_of_improvement(&scores[0], &scores[1]);
        check("improvement", bootstrap(&[&a, &b], better, 4000, &mut rng));
    }
}
