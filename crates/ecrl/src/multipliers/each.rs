//! Values that every constraint has one of.

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, range};

/// A number for all constraints, or one for each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number, or a list with one for each constraint")]
pub enum Each {
    /// The same for all.
    All(f64),
    /// One for each, in their order.
    List(Vec<f64>),
}

impl Each {
    /// Checks every number: finite and at least 0.
    pub fn validate(&self, name: &'static str) -> Result<(), ConfigError> {
        range::check(!self.numbers().is_empty(), name, "[]", "at least one number")?;
        self.numbers().iter().try_for_each(|number| range::not_negative(name, *number))
    }

    /// The same, and above 0.
    pub fn validate_above_0(&self, name: &'static str) -> Result<(), ConfigError> {
        self.validate(name)?;
        self.numbers().iter().try_for_each(|number| range::positive(name, *number))
    }

    /// So many times as much.
    pub fn times(&self, factor: f64) -> Self {
        match self {
            Self::All(number) => Self::All(factor * number),
            Self::List(numbers) => Self::List(numbers.iter().map(|x| factor * x).collect()),
        }
    }

    fn numbers(&self) -> &[f64] {
        match self {
            Self::All(number) => std::slice::from_ref(number),
            Self::List(numbers) => numbers,
        }
    }

    /// The number of each of so many constraints.
    pub fn of(&self, name: &'static str, constraints: usize) -> Result<Vec<f64>, ConfigError> {
        match self {
            Self::All(number) => Ok(vec![*number; constraints]),
            Self::List(numbers) => {
                range::check(
                    numbers.len() == constraints,
                    name,
                    format!("{numbers:?}"),
                    "a number for all constraints, or one for each",
                )?;
                Ok(numbers.clone())
            }
        }
    }
}

impl From<f64> for Each {
    fn from(number: f64) -> Self {
        Self::All(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_all_and_a_list_must_have_one_for_each() {
        assert_eq!(Each::All(0.5).of("x", 3).unwrap(), [0.5; 3]);
        let list = Each::List(vec![0.5, 2.0]);
        assert_eq!(list.of("x", 2).unwrap(), [0.5, 2.0]);
        let expected = "x is [0.5, 2.0]; expected a number for all constraints, or one for each";
        assert_eq!(list.of("x", 3).unwrap_err().to_string(), expected);
        assert!(Each::List(vec![1.0, -1.0]).validate("x").is_err());
        assert!(
            Each::List(vec![]).validate("x").is_err() && Each::All(f64::NAN).validate("x").is_err()
        );
    }
}
