//! Layers, keys that apply, and every mistake told by its key.

use super::*;
use crate::algorithms::ALGORITHMS;

fn built(assignments: &[&str]) -> Result<Config, String> {
    let mut layers = Layers::default();
    for assignment in assignments {
        layers.assign(assignment).map_err(|e| e.to_string())?;
    }
    layers.build().map_err(|e| e.to_string())
}

fn value(config: &Config, path: &str) -> Value {
    lookup(&config.table(), path).unwrap_or_else(|| panic!("no {path}")).clone()
}

#[test]
fn the_defaults_of_every_algorithm_are_valid_and_survive_a_round_trip() {
    for row in ALGORITHMS {
        let config = built(&[&format!("algorithm={}", row.name())]).unwrap();
        assert_eq!(config, Config::new(row.name()).unwrap());
        let mut layers = Layers::default();
        layers.toml(&config.to_toml()).unwrap();
        assert_eq!(layers.build().unwrap(), config);
        assert!(config.changes().is_empty(), "{:?}", config.changes());
        for preset in row.presets() {
            let mut layers = Layers::default();
            layers.set("algorithm", row.name()).preset(preset.name);
            let same = layers.build().unwrap() == config;
            assert_eq!(same, preset.name == "paper", "{} {}", row.name(), preset.name);
        }
    }
}

#[test]
fn the_authors_values_are_as_many_as_a_row_has_a_use_for() {
    let changes = |row: &str| {
        built(&[&format!("algorithm={row}"), "preset=authors"]).unwrap().changes().join(" ")
    };
    let learner = "sample=true catch_up=true time_limit_terminates=true";
    assert_eq!(changes("sac"), learner);
    assert_eq!(changes("rcpo"), format!("{learner} lambda=0.0001 eta=0.0001"));
    let population = format!("{learner} champion=\"reward\"");
    assert_eq!(changes("erl-shaped"), population);
    let ecrl = changes("ecrl");
    for expected in ["pf=0.5", "early_stop=false", "lambda=0.0001", "eta=0.0001", "sample=true"] {
        assert!(ecrl.contains(expected), "{expected}: {ecrl}");
    }
}

#[test]
fn the_fast_values_are_named_once_and_written_twice() {
    let fast: crate::algorithms::ppo::PpoSection =
        built(&["algorithm=ppo", "preset=fast"]).unwrap().section().unwrap();
    assert_eq!(fast.ppo, crate::learners::ppo::PpoConfig::fast());
}

#[test]
fn a_label_names_what_distinguishes_a_run() {
    let label = |assignments: &[&str]| built(assignments).unwrap().label();
    assert_eq!(label(&["algorithm=erl-shaped"]), "erl-shaped lambda=0.001");
    assert_eq!(label(&["algorithm=erl-shaped", "lambda=1e-3"]), "erl-shaped lambda=0.001");
    assert_eq!(label(&["algorithm=sr-shaped", "lambda=0.1"]), "sr-shaped lambda=0.1");
    assert_eq!(label(&["algorithm=rcpo"]), "rcpo");
    assert_eq!(label(&["pf=0.3"]), "ecrl pf=0.3");
    assert_eq!(label(&["algorithm=ipo", "preset=fast", "clip=0.1"]), "ipo preset=fast clip=0.1");
    assert_eq!(label(&["algorithm=ipo", "hidden=[64,64]"]), "ipo hidden=[64,64]");
}

#[test]
fn a_key_has_one_name_in_every_section() {
    let all: Vec<String> = ALGORITHMS.iter().flat_map(|row| paths(&row.defaults())).collect();
    for old in ["layers", "discount", "minibatch"] {
        assert!(!all.iter().any(|path| last(path) == old), "{old}");
    }
    for row in ALGORITHMS {
        let keys = paths(&row.defaults());
        for name in ["hidden", "batch", "gamma"] {
            let count = keys.iter().filter(|path| last(path) == name).count();
            // Evolution strategies learn from no batch and look ahead to the end.
            assert_eq!(
                count,
                usize::from(row.name() != "es" || name == "hidden"),
                "{}",
                row.name()
            );
        }
    }
}

#[test]
fn later_layers_win_and_bare_names_are_enough() {
    let mut layers = Layers::default();
    layers.toml("steps = 500\n[sac]\nalpha = 0.2\nbatch = 64\n").unwrap();
    layers.assign("alpha=1").unwrap();
    layers.assign("sac.hidden=[32, 32]").unwrap();
    layers.assign("grad_steps_per_env_step=0.5").unwrap();
    layers.set("algorithm", "sac");
    let config = layers.build().unwrap();
    assert_eq!((config.steps, config.algorithm.as_str()), (500, "sac"));
    assert_eq!(value(&config, "sac.alpha"), Value::Float(1.0));
    assert_eq!(value(&config, "sac.batch"), Value::Integer(64));
    assert_eq!(value(&config, "sac.hidden"), Value::Array(vec![32.into(), 32.into()]));
    assert_eq!(value(&config, "learner.grad_steps_per_env_step"), Value::Float(0.5));
    assert_eq!(config.changes().len(), 4, "{:?}", config.changes());
    assert_eq!(built(&["steps=1e6"]).unwrap().steps, 1_000_000);
}

#[test]
fn presets_lie_under_everything_else() {
    let config = built(&["batch=64", "preset=quick"]).unwrap();
    assert_eq!(value(&config, "sac.batch"), Value::Integer(64));
    assert_eq!(value(&config, "sac.hidden"), Value::Array(vec![64.into(), 64.into()]));
    assert_eq!(built(&["preset=paper"]), built(&[]));
    let expected = "ecrl has no preset 'fastest': expected one of paper, authors, quick";
    assert_eq!(built(&["preset=fastest"]).unwrap_err(), expected);
}

#[test]
fn a_key_that_does_not_apply_is_refused_with_those_that_do() {
    let error = built(&["algorithm=erl", "lambda=0.1"]).unwrap_err();
    let start = "key 'lambda' does not apply to erl: expected one of task, algorithm, steps, ";
    assert!(error.starts_with(start) && error.contains("multipliers.rule"), "{error}");
    for (algorithm, key) in
        [("erl", "pf=0.3"), ("sac", "population=4"), ("ecrl", "clip=0.1"), ("ppo", "barrier=9")]
    {
        let error = built(&[&format!("algorithm={algorithm}"), key]).unwrap_err();
        assert!(error.contains(&format!("does not apply to {algorithm}")), "{error}");
    }
}

#[test]
fn a_value_may_bring_keys_of_its_own() {
    // In whichever order they come.
    for assignments in [["ranking=stochastic", "pf=0.3"], ["pf=0.3", "ranking=stochastic"]] {
        let config = built(&[&["algorithm=erl"], &assignments[..]].concat()).unwrap();
        assert_eq!(value(&config, "evolution.pf"), Value::Float(0.3));
    }
    let config = built(&["algorithm=sac", "rule=ascent"]).unwrap();
    assert_eq!(value(&config, "multipliers.eta"), Value::Float(1e-5));
    assert_eq!(config.sections, built(&["algorithm=rcpo"]).unwrap().sections);
    // And takes those away that it has no use for.
    let config = built(&["ranking=reward"]).unwrap();
    assert_eq!(config.sections, built(&["algorithm=bc"]).unwrap().sections);
    let error = built(&["pf=0.3", "ranking=reward"]).unwrap_err();
    assert!(error.starts_with("key 'pf' does not apply to ecrl"), "{error}");
}

#[test]
fn mistakes_are_told_by_key() {
    for (assignment, expected) in [
        ("alpah=1", "unknown key 'alpah': did you mean 'sac.alpha'?"),
        ("sac.bacth=1", "unknown key 'sac.bacth': did you mean 'sac.batch'?"),
        (
            "episodes=3",
            "key 'episodes' could be test.episodes or learner.episodes: expected one of them",
        ),
        ("alpha", "'alpha': expected key=value"),
        ("alpha=x", "sac.alpha: invalid type: string \"x\", expected f64"),
        ("batch=1.5", "sac.batch: invalid type: floating point `1.5`, expected usize"),
        ("batch=-1", "sac.batch: invalid value: integer `-1`, expected usize"),
        ("batch=1", "sac.batch is 1; expected at least 2 and at most replay.capacity or 1000000"),
        ("alpha={a=1}", "sac.alpha: expected a single value, got a section"),
        ("population=1e12", "evolution.population is 1000000000000; expected 2 to 10000"),
        ("gamma=1.5", "sac.gamma is 1.5; expected a number from 0 to 1"),
        ("alpha=nan", "sac.alpha is NaN; expected a number from 0 on"),
        ("hidden=[]", "sac.hidden is []; expected 1 to 16 layers of 1 to 10000 units"),
        (
            "capacity=100",
            "learner.learning_starts is 5000; expected at least 1 and at most replay.capacity",
        ),
        (
            "elites=10",
            "evolution.elites is 10; expected at least 1 and fewer than evolution.population",
        ),
        (
            "buffer_batch=200",
            "multipliers.buffer_batch is 200; expected at least 1 and at most multipliers.buffer",
        ),
        ("pf=-1", "evolution.pf is -1; expected a number from 0 to 1"),
        (
            "ranking=best",
            "evolution.ranking: unknown variant `best`, expected one of `reward`, `feasibility-first`, `stochastic`",
        ),
        ("algorithm=rpco", "unknown algorithm 'rpco': did you mean 'rcpo'?"),
        ("format=3", "a configuration of format 3; expected 2, or one by hand without a format"),
    ] {
        assert_eq!(built(&[assignment]).unwrap_err(), expected);
    }
    let mut layers = Layers::default();
    let message = layers.toml("steps = 5\nsteps = 6\n").unwrap_err().to_string();
    assert!(message.starts_with("not valid TOML: line 2"), "{message}");
    layers.toml("[sac]\n# alpha = 1\n").unwrap(); // an empty section is no mistake
    let in_file = |text: &str| {
        let mut layers = Layers::default();
        layers.file("a.toml", text).and_then(|()| layers.build().map(|_| ()))
    };
    let message = in_file("[sac.alpha]\nx = 1\n").unwrap_err().to_string();
    assert!(message.starts_with("a.toml: unknown key 'sac.alpha.x'"), "{message}");
    let message = in_file("[sca]\nalpha = 1\n").unwrap_err().to_string();
    assert_eq!(message, "a.toml: unknown key 'sca.alpha': did you mean 'sac.alpha'?");
    assert!(in_file("alpha = 1").is_err(), "bare names are for assignments");
    let message = in_file("format = 3\nnew = 1").unwrap_err().to_string();
    assert!(message.starts_with("a.toml: a configuration of format 3; expected 2"), "{message}");
    for (key, new) in [("layers=[8]", "ppo.hidden"), ("ppo.discount=0.9", "ppo.gamma")] {
        let message = built(&["algorithm=ppo", key]).unwrap_err();
        assert!(message.ends_with(&format!("it is called '{new}' now")), "{message}");
    }
}

#[test]
fn of_a_file_of_another_algorithm_what_is_its_own_counts() {
    let ecrl = built(&["batch=64", "seed=3"]).unwrap();
    let with = |assignments: &[&str]| {
        let mut layers = Layers::default();
        layers.file("config.toml", &ecrl.to_toml()).unwrap();
        assignments.iter().try_for_each(|text| layers.assign(text)).unwrap();
        layers.build().map_err(|e| e.to_string())
    };
    // erl is erl, not ecrl by another name.
    let erl = with(&["algorithm=erl"]).unwrap();
    assert_eq!((erl.changes(), erl.seed), (vec!["batch=64".to_owned()], 3));
    let error = with(&["algorithm=ppo"]).unwrap_err();
    assert!(error.starts_with("config.toml: key 'sac.batch' does not apply to ppo"), "{error}");
    assert_eq!(with(&[]).unwrap(), ecrl);
    // Another ranking needs no pf, which the file names only because it names everything.
    let reward = with(&["ranking=reward"]).unwrap();
    assert_eq!(reward.changes(), ["batch=64", "ranking=\"reward\""]);
}

#[test]
fn differences_are_told_in_words() {
    let (a, b) = (built(&["batch=64", "steps=5"]).unwrap(), built(&["ranking=reward"]).unwrap());
    let expected = [
        "sac.batch is 64, not 512",
        "evolution.ranking is \"stochastic\", not \"reward\"",
        "evolution.pf is 0.45, not unset",
        "evolution.early_stop is true, not unset",
    ];
    assert_eq!(a.differences(&b), expected);
    assert!(a.differences(&a).is_empty());
}

#[test]
fn whole_files_of_the_first_format_are_read() {
    let old = r#"
        task = "hopper"
        algorithm = "ALGORITHM"
        steps = 500
        seed = 3
        constraints = ["mean(torque)<=0.4"]
        [learner]
        episodes = 5
        learning_starts = 4000
        grad_steps_per_env_step = 1.0
        [sac]
        hidden = [32, 32]
        batch = 512
        [ppo]
        layers = [16, 16]
        envs = 2
        minibatch = 32
        discount = 0.9
        barrier = 20.0
        [evolution]
        population = 8
        pf = 0.3
        [replay]
        capacity = 1000000
        [multipliers]
        lambda = 0.25
        eta = 0.00001
        [test]
        episodes = 5
        every = 1000
        sample = false
    "#;
    let read = |algorithm: &str| {
        let mut layers = Layers::default();
        layers.toml(&old.replace("ALGORITHM", algorithm)).unwrap();
        let mut changes = layers.build().unwrap().changes();
        changes.sort();
        changes
    };
    assert_eq!(read("sac"), ["hidden=[32,32]", "learning_starts=4000"]);
    let ecrl = ["hidden=[32,32]", "lambda=0.25", "learning_starts=4000", "pf=0.3", "population=8"];
    assert_eq!(read("ecrl"), ecrl);
    assert_eq!(read("ipo"), ["barrier=20.0", "batch=32", "gamma=0.9", "hidden=[16,16]"]);
    // A slip in one is told as any other.
    let mut layers = Layers::default();
    layers.toml(&old.replace("ALGORITHM", "ipo").replace("batch = 512", "bacth = 512")).unwrap();
    let message = layers.build().unwrap_err().to_string();
    assert!(message.starts_with("unknown key 'sac.bacth'"), "{message}");
}

#[test]
fn every_rule_can_be_set_where_no_population_is_needed() {
    for algorithm in
        ["ppo-lag", "ppo-pid", "rcpo", "focops", "trpo-lag", "cup", "pdac", "sac-lag", "td3-lag"]
    {
        for rule in ["none", "fixed", "ascent", "relative", "falling", "pid"] {
            let mut layers = Layers::default();
            layers.set("algorithm", algorithm).assign(&format!("rule={rule}")).unwrap();
            let config = layers.build().unwrap_or_else(|e| panic!("{algorithm}, {rule}: {e}"));
            config.validate().unwrap();
            assert_eq!(config.sections["multipliers"]["rule"].as_str(), Some(rule));
        }
    }
}
