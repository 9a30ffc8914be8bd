//! Numbers as people write and read them.

use runs::shell::{printable, quote};

use crate::failure::Failure;

/// A number of steps: 200000, 50k, 1e6, 1.5M.
pub fn count(text: &str) -> Result<i64, Failure> {
    let lower = text.to_lowercase();
    let (number, unit) = match (lower.strip_suffix('k'), lower.strip_suffix('m')) {
        (Some(number), _) => (number, 1e3),
        (_, Some(number)) => (number, 1e6),
        _ => (&lower[..], 1.0),
    };
    let steps = number.parse::<f64>().map_or(f64::NAN, |x| x * unit);
    if (1.0..=1e15).contains(&steps) && steps.fract() == 0.0 {
        Ok(steps as i64)
    } else {
        Err(Failure::input(format!(
            "--steps is '{text}'; expected a whole number from 1 on, as in 200000, 50k or 1e6"
        )))
    }
}

/// Seconds, in words.
pub fn duration(seconds: f64) -> String {
    let s = if seconds.is_finite() { seconds.round() as u64 } else { 0 };
    match (s / 3600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m {s:02}s"),
        (h, m, _) => format!("{h}h {m:02}m"),
    }
}

/// How long ago something was, roughly.
pub fn age(seconds: f64) -> String {
    match seconds {
        s if s < 60.0 => "now".into(),
        s if s < 3600.0 => format!("{:.0}m", s / 60.0),
        s if s < 48.0 * 3600.0 => format!("{:.0}h", s / 3600.0),
        s => format!("{:.0}d", s / 86400.0),
    }
}

/// The command as it was typed, so that what is advised can be typed as it stands.
pub fn program() -> String {
    let typed = std::env::var("ECRL_COMMAND").unwrap_or_else(|_| "ecrl".into());
    printable(&quote(&typed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_as_people_write_them() {
        for (text, steps) in
            [("200000", 200_000), ("50k", 50_000), ("1e6", 1_000_000), ("1.5M", 1_500_000)]
        {
            assert_eq!(count(text).ok(), Some(steps), "{text}");
        }
        for text in ["-5", "0", "x", "", "1.5", "nan", "inf", "1e99", "k"] {
            assert!(count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(duration(5.4), "5s");
        assert_eq!(duration(65.0), "1m 05s");
        assert_eq!(duration(7322.0), "2h 02m");
    }
}
