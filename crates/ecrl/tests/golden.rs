//! Golden digests: which bits every algorithm computes on the toy task.
//!
//! A change that is meant to change no result keeps them. A new algorithm has its digest recorded by
//! `make docs`, which touches no other. A change of results says so in its commit and records them
//! anew:
//!
//!     ECRL_BLESS=all cargo test --release -p ecrl --test golden
//!
//! Last bits depend on the vector instructions and on the system's mathematical functions, so there
//! is a digest for each pair. Where there is none, the test says so and checks nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cmdp::{Constraint, Env, PointMass};
use ecrl::algorithms::ALGORITHMS;
use ecrl::config::Layers;
use ecrl::memory::replay::StoredReplay;
use ecrl::metrics::{Record, Value};
use ecrl::trainer::Trainer;
use nets::simd;
use nets::store::Store;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/golden.txt");
/// What is digested of a generation, in this order.
const METRICS: [&str; 30] = [
    "generation",
    "env_steps",
    "grad_steps",
    "replay",
    "learner_reward",
    "champion_reward",
    "rollout_reward",
    "population_reward_mean",
    "population_feasible",
    "critic_loss",
    "actor_loss",
    "entropy",
    "kl",
    "clipped",
    "recovery",
    "best_reward",
    "learner_cost",
    "champion_cost",
    "rollout_cost",
    "population_cost_mean",
    "lambda_learner",
    "lambda_mean",
    "sampled_reward",
    "sampled_cost",
    "champion_sampled_reward",
    "champion_sampled_cost",
    "best_cost",
    "best_sampled_reward",
    "best_sampled_cost",
    "excess",
];

/// FNV-1a.
struct Digest(u64);

impl Digest {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// Numbers with their name; none where there are none, so that a new metric changes nothing.
    fn numbers(&mut self, name: &str, numbers: &[f64]) {
        if !numbers.is_empty() {
            self.add(name.as_bytes());
            numbers.iter().for_each(|x| self.add(&x.to_bits().to_le_bytes()));
        }
    }

    fn generation(&mut self, record: &Record) {
        for name in METRICS {
            match record.value(name) {
                Some(Value::Count(count)) => self.numbers(name, &[*count as f64]),
                Some(Value::Number(number)) => self.numbers(name, &[*number]),
                Some(Value::Numbers(numbers)) => self.numbers(name, numbers),
                _ if name == "replay" => self.numbers(name, &[0.0]),
                _ => {}
            }
        }
    }

    fn policy(&mut self, params: &[f32]) {
        params.iter().for_each(|x| self.add(&x.to_bits().to_le_bytes()));
    }
}

const COMMON: &str = "steps = 3000\nseed = 7\n[test]\nevery = 500\nshare = 1e9\n";
/// What the sections of an algorithm are set to, where it has them.
const SECTIONS: [(&str, &str); 6] = [
    ("learner", "learning_starts = 800\ngrad_steps_per_env_step = 0.3\n"),
    ("sac", "hidden = [16, 12]\nbatch = 30\n"),
    ("td3", "hidden = [16, 12]\nbatch = 30\n"),
    ("replay", "capacity = 2500 # less than the steps, so that the ring wraps\n"),
    (
        "ppo",
        "hidden = [10, 8]\ncollect = 601\nbatch = 64\nepochs = 3\nrecompute_advantages = true\n",
    ),
    ("actor_critic", "hidden = [10, 8]\ncollect = 601\nbatch = 64\nepochs = 3\n"),
];

fn trainer(algorithm: &str, constraints: &[&str]) -> Trainer {
    let mut layers = Layers::default();
    layers.toml(COMMON).unwrap();
    layers.set("algorithm", algorithm);
    let defaults = layers.build().unwrap().sections;
    for (section, values) in SECTIONS.iter().filter(|(name, _)| defaults.contains_key(*name)) {
        layers.toml(&format!("[{section}]\n{values}")).unwrap();
    }
    for (key, value) in [("lambda", 0.3), ("eta", 0.1)] {
        if defaults.get("multipliers").is_some_and(|rule| rule.get(key).is_some()) {
            layers.set(&format!("multipliers.{key}"), value);
        }
    }
    let constraints = Constraint::parse_all(constraints, &PointMass::COSTS).unwrap();
    let make = || PointMass::new(constraints.clone()).map(|env| Box::new(env) as Box<dyn Env>);
    Trainer::new(layers.build().unwrap(), 2, make).unwrap()
}

/// The state of a run as it lies on disk.
fn stored(run: &mut Trainer) -> (Vec<u8>, StoredReplay) {
    let state = run.state().unwrap().to_bytes();
    let replay = run.replay().map(|replay| StoredReplay {
        segments: replay.segments().map(|(rows, _)| rows.to_vec()).collect(),
        len: replay.len(),
        next: replay.next(),
    });
    (state, replay.unwrap_or_default())
}

/// Trains to the end; with `pause`, stores the run after so many updates, drops it and goes on.
fn digest(algorithm: &str, constraints: &[&str], pause: Option<u64>) -> u64 {
    let mut digest = Digest::new();
    let mut run = trainer(algorithm, constraints);
    let mut left = pause.unwrap_or(u64::MAX);
    while !run.is_done() {
        let brought = run.generation(&mut |_| {
            left -= 1;
            left > 0
        });
        match brought.unwrap() {
            Some(generation) => digest.generation(&generation),
            None => {
                let (state, replay) = stored(&mut run);
                run = trainer(algorithm, constraints);
                run.restore(&Store::from_bytes(&state).unwrap(), replay).unwrap();
                left = u64::MAX;
            }
        }
    }
    assert!(pause.is_none() || left > u64::MAX / 2, "it was paused");
    digest.policy(run.actor().params());
    digest.policy(run.best().unwrap().actor.params());
    digest.0
}

fn all() -> Vec<(String, u64)> {
    let one = ["force<=0.1"];
    let two = ["force<=0.1", "sum(force)<=12"];
    let mut all: Vec<(String, u64)> =
        ALGORITHMS.iter().map(|row| (row.name().into(), digest(row.name(), &one, None))).collect();
    all.push(("ecrl-two-constraints".into(), digest("ecrl", &two, None)));
    all.push(("ipo-two-constraints".into(), digest("ipo", &two, None)));
    all.push(("ecrl-resumed".into(), digest("ecrl", &one, Some(432))));
    all.push(("ipo-resumed".into(), digest("ipo", &one, Some(41))));
    let of = |name: &str| all.iter().find(|one| one.0 == name).unwrap().1;
    assert_eq!(of("ecrl-resumed"), of("ecrl"));
    assert_eq!(of("ipo-resumed"), of("ipo"));
    all
}

/// What the system's mathematical functions compute.
fn functions() -> u64 {
    let mut digest = Digest::new();
    for i in -2000..2000 {
        let x = i as f32 / 250.0;
        for y in [x.tanh(), x.exp(), x.abs().ln_1p(), x.abs().ln()] {
            digest.add(&y.to_bits().to_le_bytes());
        }
    }
    digest.0
}

/// Past the test runner, which shows nothing of tests that pass.
fn say(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "golden digests: not checked: {text}");
}

#[test]
fn no_result_has_changed_by_a_bit() {
    let text = std::fs::read_to_string(FILE).unwrap_or_default();
    let mut known: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [kind, name, digest] = words[..] else { panic!("{FILE}: {line}") };
        known.entry(kind.into()).or_default().insert(name.into(), digest.into());
    }
    let bless = std::env::var("ECRL_BLESS").unwrap_or_default();
    for kind in simd::available() {
        assert!(simd::limit(Some(kind)));
        let key = format!("{}-{:08x}", kind.name(), functions() >> 32);
        if !known.contains_key(&key) && bless.is_empty() {
            say(&format!("no golden digests for {key}"));
            continue;
        }
        for (name, digest) in all() {
            let digest = format!("{digest:016x}");
            let elsewhere = known.values().any(|digests| digests.contains_key(&name));
            match known.entry(key.clone()).or_default().get_mut(&name) {
                Some(old) if bless == "all" => *old = digest,
                Some(old) => assert_eq!(*old, digest, "{key}: results of {name} have changed"),
                None if !bless.is_empty() => {
                    known.entry(key.clone()).or_default().insert(name, digest);
                }
                None if elsewhere => say(&format!("no golden digest of {name} for {key}")),
                None => panic!("{name} has no golden digest: expected after `make docs`"),
            }
        }
    }
    simd::limit(None);
    if !bless.is_empty() {
        let mut text = String::from("# instructions-functions, case, digest: see ../golden.rs\n");
        for (kind, digests) in &known {
            for (name, digest) in digests {
                writeln!(text, "{kind} {name} {digest}").unwrap();
            }
        }
        std::fs::write(FILE, text).unwrap();
    }
}
