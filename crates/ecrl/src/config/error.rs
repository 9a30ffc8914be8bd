//! Why a configuration cannot be used.

use cmdp::nearest;

use super::last;

/// A configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// Not TOML.
    #[error("not valid TOML: {0}")]
    Syntax(String),
    /// A key that does not exist.
    #[error("unknown key '{key}': {hint}")]
    UnknownKey {
        /// The key given.
        key: String,
        /// What may have been meant.
        hint: String,
    },
    /// A key of other algorithms.
    #[error("key '{key}' does not apply to {algorithm}: expected one of {keys}")]
    DoesNotApply {
        /// The key given.
        key: String,
        /// The algorithm chosen.
        algorithm: &'static str,
        /// The keys it has.
        keys: String,
    },
    /// A bare key that stands for several.
    #[error("key '{key}' could be {candidates}: expected one of them")]
    Ambiguous {
        /// The key given.
        key: String,
        /// What it could be.
        candidates: String,
    },
    /// An assignment without `=`.
    #[error("'{0}': expected key=value")]
    Assignment(String),
    /// A value of the wrong type.
    #[error("{0}")]
    Type(String),
    /// An algorithm that does not exist.
    #[error("unknown algorithm '{name}': {hint}")]
    UnknownAlgorithm {
        /// The name given.
        name: String,
        /// What may have been meant.
        hint: String,
    },
    /// A preset that the algorithm does not bring.
    #[error("{algorithm} has no preset '{name}': expected {known}")]
    UnknownPreset {
        /// The algorithm.
        algorithm: &'static str,
        /// The name given.
        name: String,
        /// Those it brings.
        known: String,
    },
    /// A value out of range.
    #[error("{key} is {value}; expected {expected}")]
    Range {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What is allowed.
        expected: String,
    },
    /// A value that cannot change in the midst of a run.
    #[error("{key} cannot change in the midst of a run: expected one of {keys}")]
    Fixed {
        /// The key.
        key: String,
        /// Those that can.
        keys: String,
    },
    /// A condition that cannot be understood.
    #[error("until '{text}': expected {expected}")]
    Until {
        /// The text given.
        text: String,
        /// What was expected.
        expected: String,
    },
    /// A policy to start from that does not fit.
    #[error("the policy to start from has {found}; expected {expected}")]
    Start {
        /// Its networks.
        found: String,
        /// The networks expected.
        expected: String,
    },
    /// A task whose actions are choices, for an algorithm that cannot learn such.
    #[error(
        "{algorithm} takes actions in a range, and an action here is one of {choices}: expected one of {}",
        choosing()
    )]
    Choices {
        /// The algorithm.
        algorithm: &'static str,
        /// How many choices there are.
        choices: usize,
    },
    /// A file of another version.
    #[error(
        "a configuration of format {found}; expected {expected}, or one by hand without a format"
    )]
    Format {
        /// Its format.
        found: String,
        /// The format expected.
        expected: u32,
    },
    /// Any of these, in a file.
    #[error("{source_name}: {error}")]
    Within {
        /// The file.
        source_name: String,
        /// What is wrong in it.
        error: Box<ConfigError>,
    },
}

impl ConfigError {
    /// The same, said of a file.
    pub(super) fn within(self, source: &str) -> Self {
        Self::Within { source_name: source.into(), error: Box::new(self) }
    }

    /// The same, said of a file if there is one.
    pub(super) fn from(self, source: &Option<String>) -> Self {
        match source {
            Some(source) => self.within(source),
            None => self,
        }
    }
}

/// The algorithms that can learn which of several choices to take.
fn choosing() -> String {
    let rows = crate::algorithms::ALGORITHMS.iter().filter(|row| row.takes_choices());
    rows.map(|row| row.name()).collect::<Vec<_>>().join(", ")
}

/// What may have been meant by a name; a slip in a dotted path is usually in the last part.
pub(crate) fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let names: Vec<&str> = known.iter().map(|path| last(path)).collect();
    let by_name = nearest(last(name), names.iter().copied()).first().and_then(|best| {
        let at = names.iter().position(|name| name == best)?;
        known.get(at)
    });
    let by_path = nearest(name, known.iter().copied());
    match by_name.or(by_path.first()) {
        Some(best) => format!("did you mean '{best}'?"),
        None => format!("expected one of: {}", known.join(", ")),
    }
}
