//! When a run has done enough: conditions on what a generation recorded, as `reward>=3000`.

use std::fmt;
use std::str::FromStr;

use crate::config::ConfigError;
use crate::metrics::{self, Kind, Record, Value};

/// What a metric must have come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Until {
    text: String,
    metric: &'static str,
    /// `None` for a flag, which must be set.
    bound: Option<(Side, f64)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    AtLeast,
    AtMost,
}

impl Until {
    /// Reads all of some conditions.
    pub fn parse_all(texts: &[String]) -> Result<Vec<Self>, ConfigError> {
        texts.iter().map(|text| text.parse()).collect()
    }

    /// Whether a generation's record meets it; of a metric with a number for each constraint all must.
    pub fn is_met_by(&self, record: &Record) -> bool {
        let within = |x: f64| match self.bound {
            Some((Side::AtLeast, bound)) => x >= bound,
            Some((Side::AtMost, bound)) => x <= bound,
            None => false,
        };
        match record.value(self.metric) {
            Some(Value::Flag(flag)) => self.bound.is_none() && *flag,
            Some(Value::Count(count)) => within(*count as f64),
            Some(Value::Number(number)) => within(*number),
            Some(Value::Numbers(numbers)) => numbers.iter().all(|number| within(*number)),
            Some(Value::Text(_)) | None => false,
        }
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// As in `reward>=3000`, where reward is the learner's in a test with its mean action, `sampled_cost<=0.4`,
/// or `feasible`.
impl FromStr for Until {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let refuse = |expected: String| ConfigError::Until { text: text.into(), expected };
        let split = |sign: &str, side: Side| {
            let (name, bound) = text.split_once(sign)?;
            Some((name, Some((side, bound.trim()))))
        };
        let parts = split(">=", Side::AtLeast).or_else(|| split("<=", Side::AtMost));
        let (name, bound) = parts.unwrap_or((text, None));
        let name = match name.trim() {
            "reward" => "learner_reward",
            "sampled" => "sampled_reward",
            other => other,
        };
        let about = metrics::find(name).ok_or_else(|| {
            let known = metrics::all().into_iter().map(|about| about.name);
            let known: Vec<&str> = ["reward", "sampled"].into_iter().chain(known).collect();
            refuse(match cmdp::nearest(name, known.iter().copied()).first() {
                Some(best) => format!("a metric before the sign; did you mean '{best}'?"),
                None => format!("one of {} before the sign", known.join(", ")),
            })
        })?;
        let bound = match (about.kind, bound) {
            _ if about.unit == metrics::SECONDS_UNIT => {
                return Err(refuse("a metric that is the same on every machine".into()));
            }
            (Kind::Text, _) => return Err(refuse(format!("a number, which {name} is not"))),
            (Kind::Flag, None) => None,
            (Kind::Flag, Some(_)) => {
                return Err(refuse(format!("'{name}' alone: it is yes or no")));
            }
            (_, None) => return Err(refuse("METRIC>=NUMBER or METRIC<=NUMBER".into())),
            (_, Some((side, number))) => {
                let number = number.parse().ok().filter(|x: &f64| x.is_finite());
                Some((side, number.ok_or_else(|| refuse("a number after the sign".into()))?))
            }
        };
        Ok(Self { text: text.into(), metric: about.name, bound })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{FEASIBLE, LEARNER_COST, LEARNER_REWARD};

    #[test]
    fn conditions_are_met_by_what_was_recorded() {
        let mut record = Record::default();
        record.set(&LEARNER_REWARD, 3000.0);
        record.set(&LEARNER_COST, vec![0.3, 20.0]);
        record.set(&FEASIBLE, true);
        for (text, expected) in [
            ("reward>=3000", true),
            ("reward >= 3000.5", false),
            ("learner_reward<=3000", true),
            ("learner_cost<=20", true),
            ("learner_cost<=0.4", false),
            ("feasible", true),
            ("best_reward>=0", false),
        ] {
            let until: Until = text.parse().unwrap();
            assert_eq!(until.is_met_by(&record), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_condition_is_refused_by_name() {
        for (text, expected) in [
            ("rewrd>=1", "'rewrd>=1': expected a metric before the sign; did you mean 'reward'?"),
            ("reward>=x", "'reward>=x': expected a number after the sign"),
            ("reward", "'reward': expected METRIC>=NUMBER or METRIC<=NUMBER"),
            ("feasible>=1", "'feasible>=1': expected 'feasible' alone: it is yes or no"),
        ] {
            let error = text.parse::<Until>().unwrap_err().to_string();
            assert!(error.ends_with(expected), "{error}");
        }
    }
}
