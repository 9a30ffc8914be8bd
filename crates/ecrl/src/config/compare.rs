//! What differs between two configurations, and what may come to differ in the midst of a run.

use toml::Value;

use super::{Config, ConfigError, Layers, lookup, paths};

/// The keys of every run whose values may change in the midst of it.
const CHANGEABLE: [&str; 8] = [
    "steps",
    "test.episodes",
    "test.every",
    "test.sample",
    "test.retest_every",
    "test.retest_episodes",
    "test.share",
    "test.until",
];

impl Config {
    /// What differs from another configuration, in words, but for the steps: `key is a, not b`.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let all = self.compare(other).into_iter().filter(|(key, ..)| key != "steps");
        all.map(|(key, a, b)| format!("{key} is {a}, not {b}")).collect()
    }

    /// Every key whose value differs from another configuration's, with both values as text.
    pub fn compare(&self, other: &Self) -> Vec<(String, String, String)> {
        let (own, theirs) = (self.table(), other.table());
        let mut keys = paths(&own);
        keys.extend(paths(&theirs).into_iter().filter(|key| lookup(&own, key).is_none()));
        let shown = |value: Option<&Value>| value.map_or("unset".into(), Value::to_string);
        keys.into_iter()
            .filter(|key| lookup(&own, key) != lookup(&theirs, key))
            .map(|key| (shown(lookup(&own, &key)), shown(lookup(&theirs, &key)), key))
            .map(|(a, b, key)| (key, a, b))
            .collect()
    }

    /// The configuration with other values, such as can change in the midst of a run.
    pub fn changed(&self, assignments: &[String]) -> Result<Self, ConfigError> {
        let mut layers = Layers::default();
        layers.toml(&self.to_toml())?;
        assignments.iter().try_for_each(|text| layers.assign(text))?;
        let changed = layers.build()?;
        self.may_become(&changed)?;
        Ok(changed)
    }

    /// Whether a run with these values can go on with others: where only values differ that no state has
    /// the shape of. Of constraints that is their thresholds.
    pub fn may_become(&self, other: &Self) -> Result<(), ConfigError> {
        let mut changeable = CHANGEABLE.to_vec();
        changeable.extend(self.row()?.changeable());
        let bounded = |c: &Self| -> Vec<String> {
            let name =
                |text: &String| text.split("<=").next().unwrap_or_default().trim().to_owned();
            c.constraints.iter().map(name).collect()
        };
        let same_costs = bounded(self) == bounded(other);
        let allowed = |key: &str| changeable.contains(&key) || (key == "constraints" && same_costs);
        match other.compare(self).into_iter().find(|(key, ..)| !allowed(key)) {
            None => Ok(()),
            Some((key, ..)) => {
                let keys = format!("the thresholds of constraints, {}", changeable.join(", "));
                Err(ConfigError::Fixed { key, keys })
            }
        }
    }
}
