//! Which states a trainer goes on from.

use super::*;
use cmdp::PointMass;

fn trainer(config: Config) -> Trainer {
    let make = || PointMass::new(vec![]).map(|env| Box::new(env) as Box<dyn Env>);
    Trainer::new(config, 1, make).unwrap()
}

#[test]
fn a_state_of_another_algorithm_version_or_configuration_is_refused_by_name() {
    let config = |name: &str| Config::new(name).unwrap();
    let state = trainer(config("sac")).state().unwrap();
    let refused = |state: &Store, config: Config| {
        let restored = trainer(config).restore(state, StoredReplay::default());
        restored.unwrap_err().to_string()
    };
    let expected = "it is a state of sac, version 1; expected one of rcpo, version 1";
    assert_eq!(refused(&state, config("rcpo")), expected);
    let mut newer = state.clone();
    let mut bytes = Vec::new();
    ciborium::into_writer(&("sac", 7), &mut bytes).unwrap();
    newer.add_bytes("algorithm", bytes);
    let expected = "it is a state of sac, version 7; expected one of sac, version 1";
    assert_eq!(refused(&newer, config("sac")), expected);
    let other = Layers::default().set("algorithm", "sac").set("sac.batch", 64).build().unwrap();
    let expected = "'run' does not fit: expected the configuration of this run";
    assert_eq!(refused(&state, other), expected);
    let longer = Config { steps: 5_000_000, ..config("sac") };
    assert!(trainer(longer).restore(&state, StoredReplay::default()).is_ok());
    // What no state has the shape of may have been changed, and is told.
    let other = Layers::default().set("algorithm", "sac").set("sac.tau", 0.5).build().unwrap();
    let mut changed = trainer(other);
    changed.restore(&state, StoredReplay::default()).unwrap();
    assert_eq!(changed.changes(), ["sac.tau is 0.5, not 0.001"]);
}
