//! The ranges of values, each said in words.

use std::fmt::Display;

use super::ConfigError;

/// Refuses a value that is not what was expected.
pub fn check(ok: bool, key: &str, value: impl Display, expected: &str) -> Result<(), ConfigError> {
    match ok {
        true => Ok(()),
        false => Err(ConfigError::Range {
            key: key.into(),
            value: value.to_string(),
            expected: expected.into(),
        }),
    }
}

/// 1 to 10000: far beyond use; above, memory would run out before anybody could say why.
pub fn many(key: &str, count: usize) -> Result<(), ConfigError> {
    check((1..=10_000).contains(&count), key, count, "1 to 10000")
}

/// Above 0.
pub fn positive(key: &str, x: f64) -> Result<(), ConfigError> {
    check(x > 0.0 && x.is_finite(), key, x, "a number above 0")
}

/// From 0 on.
pub fn not_negative(key: &str, x: f64) -> Result<(), ConfigError> {
    check(x >= 0.0 && x.is_finite(), key, x, "a number from 0 on")
}

/// From 0 to 1.
pub fn share(key: &str, x: f64) -> Result<(), ConfigError> {
    check((0.0..=1.0).contains(&x), key, x, "a number from 0 to 1")
}

/// Units of hidden layers.
pub fn layers(key: &str, layers: &[usize]) -> Result<(), ConfigError> {
    let fits = (1..=16).contains(&layers.len()) && layers.iter().all(|n| (1..=10_000).contains(n));
    check(fits, key, format!("{layers:?}"), "1 to 16 layers of 1 to 10000 units")
}
