//! What a run tells of itself: named numbers, each with its unit and a line of help.
//!
//! A metric is a constant beside the code that measures it. An algorithm lists those it adds in its
//! row; everything that reads a run - `metrics.jsonl`, TensorBoard, CSV, the report, `docs/metrics.md` -
//! follows from there.

mod common;
mod record;

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::LazyLock;

pub use common::*;
pub use record::{Figures, Record, Value, mean_of_all};

use crate::algorithms::ALGORITHMS;
pub(crate) use common::SECONDS_UNIT;

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

/// The text of `docs/metrics.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         Every run writes a JSON object for each generation to `metrics.jsonl`, and the numbers to \
         TensorBoard's event\nfiles; `ecrl report` writes all of them to `metrics.csv` and draws \
         those of the algorithm. A metric that does not\napply is left out. In TensorBoard, a \
         metric with one number a constraint has a curve for each, `group/aggregate_cost`.\n\n\
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
    fn a_name_and_a_tag_mean_one_thing_and_everything_is_explained() {
        let of_rows = ALGORITHMS.iter().flat_map(|row| row.metrics());
        let every: Vec<&About> = COMMON.iter().copied().chain(of_rows).collect();
        for about in &every {
            assert!(!about.help.is_empty() && !about.tag.is_empty(), "{}", about.name);
            for other in &every {
                assert_eq!(about.name == other.name, about == other, "{}", about.name);
                assert_eq!(about.tag == other.tag, about == other, "{}", about.name);
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
