//! Run directories of older programs: read, or refused by name and version.

use std::path::Path;

use ecrl::metrics::{ENV_STEPS, LEARNER_COST, LEARNER_REWARD};
use runs::{provenance, read};

/// A run of `ecrl` on hopper, made when configurations had the sections of all algorithms.
const OLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/format-1");

#[test]
fn a_run_of_the_first_format_is_read() {
    let run = Path::new(OLD);
    let config = read::config(run).unwrap();
    assert_eq!((config.task.as_str(), config.algorithm.as_str()), ("hopper", "ecrl"));
    assert_eq!(config.constraints, ["mean(torque)<=0.4"]);
    assert!(config.changes().is_empty(), "{:?}", config.changes());
    let metrics = read::metrics(run).unwrap();
    let last = metrics.last().unwrap();
    assert_eq!(metrics.len(), 3);
    assert!(last.get(&ENV_STEPS).unwrap() > 100_000 && last.get(&LEARNER_REWARD).is_some());
    assert_eq!(last.get(&LEARNER_COST).unwrap().len(), 1);
    assert_eq!(read::population(run)[0].individuals.len(), 10);
    assert!(!provenance::read(run).is_empty());
}
