//! What a run tells of itself: named numbers, each with its unit and a line of help.
//!
//! A metric is a constant beside the code that measures it. An algorithm lists those it adds in its
//! row; everything that reads a run - `metrics.jsonl`, TensorBoard, CSV, the report, `docs/metrics.md` -
//! follows from there.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::LazyLock;

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::algorithms::ALGORITHMS;

/// What a metric is called and what it means.
#[derive(Debug, PartialEq, Eq)]
pub struct About {
    /// The name in `metrics.jsonl` and in CSV files.
    pub name: &'static str,
    /// The name in TensorBoard, `group/name`; of a metric with a number for each constraint, the
    /// group alone.
    pub tag: &'static str,
    /// What is counted.
    pub unit: &'static str,
    /// One line.
    pub help: &'static str,
    /// What kind of value it has.
    pub kind: Kind,
}

/// What kind of value a metric has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Count,
    /// A number.
    Number,
    /// A number for each constraint.
    Numbers,
    /// Yes or no.
    Flag,
    /// A word.
    Text,
}

impl Kind {
    /// The name used in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "whole number",
            Self::Number => "number",
            Self::Numbers => "one number a constraint",
            Self::Flag => "true or false",
            Self::Text => "word",
        }
    }
}

/// A metric whose values are of type `T`.
#[derive(Debug)]
pub struct Metric<T> {
    /// What it is called and means.
    pub about: About,
    values: PhantomData<fn() -> T>,
}

impl<T: Measure> Metric<T> {
    /// A metric; see [`About`] for the four texts.
    pub const fn new(
        name: &'static str,
        tag: &'static str,
        unit: &'static str,
        help: &'static str,
    ) -> Self {
        Self { about: About { name, tag, unit, help, kind: T::KIND }, values: PhantomData }
    }
}

/// A type that metrics can have.
pub trait Measure: Sized {
    /// The kind of its values.
    const KIND: Kind;
    /// As a record holds it.
    fn store(self) -> Value;
    /// From what a record holds.
    fn read(value: &Value) -> Option<Self>;
}

/// A value in a record.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// See [`Kind::Count`].
    Count(u64),
    /// See [`Kind::Number`].
    Number(f64),
    /// See [`Kind::Numbers`].
    Numbers(Vec<f64>),
    /// See [`Kind::Flag`].
    Flag(bool),
    /// See [`Kind::Text`].
    Text(String),
}

macro_rules! measure {
    ($type:ty, $kind:ident) => {
        impl Measure for $type {
            const KIND: Kind = Kind::$kind;

            fn store(self) -> Value {
                Value::$kind(self)
            }

            fn read(value: &Value) -> Option<Self> {
                if let Value::$kind(value) = value { Some(value.clone()) } else { None }
            }
        }
    };
}

measure!(u64, Count);
measure!(f64, Number);
measure!(Vec<f64>, Numbers);
measure!(bool, Flag);
measure!(String, Text);

/// What one generation brought: a line of `metrics.jsonl`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record(Vec<(&'static About, Value)>);

impl Record {
    /// Notes a value, in place of the one noted before.
    pub fn set<T: Measure>(&mut self, metric: &'static Metric<T>, value: T) {
        self.put(&metric.about, value.store());
    }

    /// Notes a value if there is one.
    pub fn set_some<T: Measure>(&mut self, metric: &'static Metric<T>, value: Option<T>) {
        if let Some(value) = value {
            self.set(metric, value);
        }
    }

    fn put(&mut self, about: &'static About, value: Value) {
        match self.0.iter_mut().find(|(other, _)| other.name == about.name) {
            Some((_, old)) => *old = value,
            None => self.0.push((about, value)),
        }
    }

    /// The value noted.
    pub fn get<T: Measure>(&self, metric: &'static Metric<T>) -> Option<T> {
        self.value(metric.about.name).and_then(T::read)
    }

    /// The value noted under a name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(about, _)| about.name == name).map(|(_, value)| value)
    }

    /// Everything noted, in the order in which it was.
    pub fn iter(&self) -> impl Iterator<Item = (&'static About, &Value)> {
        self.0.iter().map(|(about, value)| (*about, value))
    }

    /// The same without values that differ from machine to machine and from time to time.
    pub fn without_times(mut self) -> Self {
        self.0.retain(|(about, _)| about.unit != SECONDS_UNIT);
        self
    }

    /// Adds an update's figures to sums of them.
    pub(crate) fn add(&mut self, figures: &Figures) {
        for (metric, figure) in figures {
            let sum = self.get(*metric).unwrap_or(0.0) + figure;
            self.set(metric, sum);
        }
    }

    /// Notes what sums over `count` updates make in the mean.
    pub(crate) fn set_means(&mut self, sums: &Self, count: u64) {
        for (about, sum) in sums.iter() {
            if let Value::Number(sum) = sum {
                self.put(about, Value::Number(sum / count as f64));
            }
        }
    }
}

/// What one update saw.
pub type Figures = Vec<(&'static Metric<f64>, f64)>;

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (about, value) in &self.0 {
            map.serialize_entry(about.name, value)?;
        }
        map.end()
    }
}

/// Reads what it knows: other programs' metrics, and values that are not there, are passed over.
impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Record;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of metrics")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
                let mut record = Record::default();
                while let Some(name) = map.next_key::<std::borrow::Cow<str>>()? {
                    match find(&name) {
                        None => _ = map.next_value::<de::IgnoredAny>()?,
                        Some(about) => {
                            let value = map.next_value_seed(Expected(about.kind))?;
                            record.0.extend(value.map(|value| (about, value)));
                        }
                    }
                }
                Ok(record)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// Reads a value of a kind, or nothing where there is none.
struct Expected(Kind);

impl<'de> de::DeserializeSeed<'de> for Expected {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<Value>, D::Error> {
        Ok(match self.0 {
            Kind::Count => Option::deserialize(from)?.map(Value::Count),
            Kind::Number => Option::deserialize(from)?.map(Value::Number),
            Kind::Flag => Option::deserialize(from)?.map(Value::Flag),
            Kind::Text => Option::deserialize(from)?.map(Value::Text),
            Kind::Numbers => {
                // JSON has no infinity: what was one comes back as none.
                let numbers: Option<Vec<Option<f64>>> = Option::deserialize(from)?;
                let numbers = numbers.map(|all| all.into_iter().map(|x| x.unwrap_or(f64::NAN)));
                numbers.map(|all| Value::Numbers(all.collect()))
            }
        })
    }
}

/// The metric of that name.
pub fn find(name: &str) -> Option<&'static About> {
    static BY_NAME: LazyLock<HashMap<&'static str, &'static About>> =
        LazyLock::new(|| all().into_iter().map(|about| (about.name, about)).collect());
    BY_NAME.get(name).copied()
}

/// Every metric: those of every run, then those that algorithms add.
pub fn all() -> Vec<&'static About> {
    let mut all = COMMON.to_vec();
    for about in ALGORITHMS.iter().flat_map(|row| row.metrics()) {
        if !all.iter().any(|other| other.name == about.name) {
            all.push(about);
        }
    }
    all
}

const SECONDS_UNIT: &str = "s";

/// The number of the generation, from 1.
pub static GENERATION: Metric<u64> =
    Metric::new("generation", "train/generation", "", "Number of the generation, from 1");
/// Environment steps so far.
pub static ENV_STEPS: Metric<u64> = Metric::new(
    "env_steps",
    "train/env_steps",
    "steps",
    "Environment steps so far, by everybody who plays; tests are not counted",
);
/// Updates so far.
pub static GRAD_STEPS: Metric<u64> =
    Metric::new("grad_steps", "train/grad_steps", "updates", "Gradient updates so far");
/// Seconds since the run began.
pub static SECONDS: Metric<f64> = Metric::new(
    "seconds",
    "time/seconds",
    SECONDS_UNIT,
    "Seconds that the run has taken, without those between a stop and a resume",
);
/// Those that updates took.
pub static SECONDS_UPDATES: Metric<f64> = Metric::new(
    "seconds_updates",
    "time/updates",
    SECONDS_UNIT,
    "Seconds of them that went into gradient updates",
);
/// Those that environments took.
pub static SECONDS_PHYSICS: Metric<f64> = Metric::new(
    "seconds_physics",
    "time/physics",
    SECONDS_UNIT,
    "Seconds of them that went into the environments, in training and in tests",
);
/// The learner's mean return in the test.
pub static LEARNER_REWARD: Metric<f64> = Metric::new(
    "learner_reward",
    "test/reward",
    "return",
    "Mean return of the learner's test episodes, in generations that were tested",
);
/// The learner's mean J_C in the test.
pub static LEARNER_COST: Metric<Vec<f64>> =
    Metric::new("learner_cost", "test", "J_C", "Mean J_C of the learner's test episodes");
/// Whether the learner kept every constraint in the test.
pub static FEASIBLE: Metric<bool> = Metric::new(
    "feasible",
    "test/feasible",
    "",
    "Whether the learner's mean J_C kept every constraint in the test",
);
/// The champion's mean return in the test.
pub static CHAMPION_REWARD: Metric<f64> = Metric::new(
    "champion_reward",
    "champion/reward",
    "return",
    "Mean return of the test episodes of the champion, the first of the generation's ranking",
);
/// The champion's mean J_C in the test.
pub static CHAMPION_COST: Metric<Vec<f64>> =
    Metric::new("champion_cost", "champion", "J_C", "Mean J_C of the champion's test episodes");
/// The mean return of the learner's own episodes.
pub static ROLLOUT_REWARD: Metric<f64> = Metric::new(
    "rollout_reward",
    "rollout/reward",
    "return",
    "Mean return of the learner's training episodes, with sampled actions, that ended in the generation",
);
/// Their mean J_C.
pub static ROLLOUT_COST: Metric<Vec<f64>> =
    Metric::new("rollout_cost", "rollout", "J_C", "Mean J_C of those training episodes");
/// Episodes whose simulation broke down.
pub static UNSTABLE: Metric<u64> = Metric::new(
    "unstable",
    "train/unstable",
    "episodes",
    "Training episodes of the generation whose simulation broke down",
);
/// Whether the test gave the best policy so far.
pub static NEW_BEST: Metric<bool> = Metric::new(
    "new_best",
    "test/new_best",
    "",
    "Whether the generation's test gave the best policy so far",
);
/// The reward of the best policy so far.
pub static BEST_REWARD: Metric<f64> = Metric::new(
    "best_reward",
    "best/reward",
    "return",
    "Mean return of the best policy so far, in the test that made it the best",
);
/// Whether it keeps every constraint.
pub static BEST_FEASIBLE: Metric<bool> = Metric::new(
    "best_feasible",
    "best/feasible",
    "",
    "Whether the best policy so far kept every constraint in that test",
);

/// What every run records, whatever the algorithm.
pub static COMMON: &[&About] = &[
    &GENERATION.about,
    &ENV_STEPS.about,
    &GRAD_STEPS.about,
    &SECONDS.about,
    &SECONDS_UPDATES.about,
    &SECONDS_PHYSICS.about,
    &LEARNER_REWARD.about,
    &LEARNER_COST.about,
    &FEASIBLE.about,
    &ROLLOUT_REWARD.about,
    &ROLLOUT_COST.about,
    &UNSTABLE.about,
    &NEW_BEST.about,
    &BEST_REWARD.about,
    &BEST_FEASIBLE.about,
    &CHAMPION_REWARD.about,
    &CHAMPION_COST.about,
];

/// The text of `docs/metrics.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         Every run writes a JSON object for each generation to `metrics.jsonl`, and the numbers to \
         TensorBoard's event\nfiles; `ecrl report` draws them and writes them to `metrics.csv`. A \
         metric that does not apply is left out. In\nTensorBoard, a metric with one number a \
         constraint has a curve for each, `group/aggregate_cost`.\n\n\
         This page follows from the code: `make docs` writes it.\n",
    );
    let mut table = |title: &str, metrics: &[&About]| {
        text += &format!(
            "\n## {title}\n\n| name | unit | kind | TensorBoard | |\n|---|---|---|---|---|\n"
        );
        for About { name, tag, unit, help, kind } in metrics {
            let tag = if *kind == Kind::Numbers { format!("{tag}/…") } else { (*tag).into() };
            text += &format!("| `{name}` | {unit} | {} | `{tag}` | {help} |\n", kind.name());
        }
    };
    table("Every run", COMMON);
    let mut by_metrics: Vec<(Vec<&str>, Vec<&'static About>)> = Vec::new();
    for row in ALGORITHMS {
        match by_metrics.iter_mut().find(|(_, metrics)| *metrics == row.metrics()) {
            Some((names, _)) => names.push(row.name()),
            None => by_metrics.push((vec![row.name()], row.metrics())),
        }
    }
    for (names, metrics) in by_metrics {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        table(&names.join(", "), &metrics);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_written_and_read_and_keeps_its_order() {
        let mut record = Record::default();
        record.set(&LEARNER_REWARD, 5.0);
        record.set(&GENERATION, 3);
        record.set(&LEARNER_COST, vec![0.25, 1.0]);
        record.set(&FEASIBLE, true);
        record.set(&LEARNER_REWARD, 6.5);
        let json = serde_json::to_string(&record).unwrap();
        let expected =
            r#"{"learner_reward":6.5,"generation":3,"learner_cost":[0.25,1.0],"feasible":true}"#;
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<Record>(&json).unwrap(), record);
        // What older and newer programs wrote is no trouble.
        let other = r#"{"times":{"updates":1.0},"learner_reward":null,"generation":3,"more":[1]}"#;
        let read: Record = serde_json::from_str(other).unwrap();
        assert_eq!((read.get(&GENERATION), read.get(&LEARNER_REWARD)), (Some(3), None));
        assert!(serde_json::from_str::<Record>(r#"{"generation":"x"}"#).is_err());
    }

    #[test]
    fn names_and_tags_are_unique_and_everything_is_explained() {
        let all = all();
        for (i, about) in all.iter().enumerate() {
            assert!(!about.help.is_empty() && !about.tag.is_empty(), "{}", about.name);
            for other in &all[..i] {
                assert_ne!(about.name, other.name);
                assert_ne!(about.tag, other.tag, "{} and {}", about.name, other.name);
            }
        }
    }

    #[test]
    fn the_page_of_metrics_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        if std::env::var_os("ECRL_BLESS").is_some() {
            std::fs::write(path, markdown()).unwrap();
        }
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == markdown(), "docs/metrics.md is out of date: expected after `make docs`");
    }
}
