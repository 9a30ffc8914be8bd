//! A record: what one generation brought, metric by metric.

use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{About, Kind, Measure, Metric, SECONDS_UNIT, find};

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

    /// The name of the first value that is not finite.
    pub fn find_not_finite(&self) -> Option<&'static str> {
        let broken = |value: &Value| match value {
            Value::Number(number) => !number.is_finite(),
            Value::Numbers(numbers) => !numbers.iter().all(|number| number.is_finite()),
            Value::Count(_) | Value::Flag(_) | Value::Text(_) => false,
        };
        self.iter().find(|(_, value)| broken(value)).map(|(about, _)| about.name)
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

/// The mean of what each of several learners told of an update; who told nothing does not count.
pub fn mean_of_all(each: &[Figures]) -> Figures {
    let each = || each.iter().filter(|figures| !figures.is_empty());
    let mean = |i: usize| each().map(|figures| figures[i].1).sum::<f64>() / each().count() as f64;
    let names = each().next().map_or(&[][..], |figures| figures).iter().enumerate();
    names.map(|(i, (metric, _))| (*metric, mean(i))).collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{FEASIBLE, GENERATION, LEARNER_COST, LEARNER_REWARD};

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
}
