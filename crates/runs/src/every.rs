//! How often the whole state of a run is stored.

use std::str::FromStr;
use std::time::Duration;

/// When the whole state is stored for the first time, where that goes by time: a run that has just begun
/// would be lost whole.
const FIRST: Duration = Duration::from_secs(60);

/// How often the whole state is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Every {
    /// After so much time.
    Time(Duration),
    /// After so many generations.
    Generations(u64),
}

impl Every {
    /// The time to the next checkpoint, where that goes by time; whether there is one already.
    pub fn time(self, any: bool) -> Option<Duration> {
        match self {
            Self::Time(time) if any => Some(time),
            Self::Time(time) => Some(time.min(FIRST)),
            Self::Generations(_) => None,
        }
    }
}

/// As in 5min, 30s, 1h or 10gen.
impl FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |suffix: &str| {
            let number = text.strip_suffix(suffix)?.trim().parse::<f64>().ok()?;
            (number > 0.0 && number < 1e9).then_some(number)
        };
        let seconds = |x: f64| Self::Time(Duration::from_secs_f64(x));
        let generations = |x: f64| (x.fract() == 0.0).then_some(Self::Generations(x as u64));
        number("gen")
            .and_then(generations)
            .or_else(|| number("min").map(|x| seconds(60.0 * x)))
            .or_else(|| number("h").map(|x| seconds(3600.0 * x)))
            .or_else(|| number("s").map(seconds))
            .ok_or_else(|| {
                format!(
                    "'{text}'; expected a time or a number of generations, as in 5min, 30s or 10gen"
                )
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_checkpoint_comes_early() {
        let minutes = |n: u64| Every::Time(Duration::from_secs(60 * n));
        assert_eq!(minutes(5).time(false), Some(Duration::from_secs(60)));
        assert_eq!(minutes(5).time(true), Some(Duration::from_secs(300)));
        let second = Duration::from_secs(1);
        assert_eq!(Every::Time(second).time(false), Some(second));
        assert_eq!(Every::Generations(3).time(false), None);
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        let seconds = |x: f64| Ok(Every::Time(Duration::from_secs_f64(x)));
        for (text, expected) in [
            ("5min", seconds(300.0)),
            ("30s", seconds(30.0)),
            ("0.5 h", seconds(1800.0)),
            ("10gen", Ok(Every::Generations(10))),
        ] {
            assert_eq!(text.parse::<Every>(), expected);
        }
        for text in ["", "often", "5", "-1s", "1.5gen", "nans"] {
            assert!(text.parse::<Every>().is_err(), "{text}");
        }
    }
}
