//! Golden digests: which bits every algorithm computes on the toy task.
//!
//! A change that is meant to change no result keeps them. One that changes results says so in its
//! commit and records them anew:
//!
//!     ECRL_BLESS=1 cargo test --release -p ecrl --test golden
//!
//! Last bits depend on the vector instructions and on the system's mathematical functions, so there
//! is a set of digests for each pair. Where there is none, the test says so and checks nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cmdp::{Constraint, Env, PointMass};
use ecrl::checkpoint::Checkpoints;
use ecrl::config::{Config, Layers};
use ecrl::record::Generation;
use ecrl::trainer::{TrainError, Trainer};
use nets::simd;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/golden.txt");
const ALGORITHMS: [&str; 11] =
    ["ecrl", "erl", "erl-shaped", "rcpo-erl", "sr", "sr-shaped", "bc", "rcpo", "sac", "ipo", "ppo"];

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

    fn generation(&mut self, g: &Generation) {
        for (name, count) in [
            ("generation", g.generation),
            ("env_steps", g.env_steps),
            ("grad_steps", g.grad_steps),
            ("replay", g.replay as u64),
        ] {
            self.numbers(name, &[count as f64]);
        }
        for (name, number) in [
            ("learner_reward", g.learner_reward),
            ("champion_reward", g.champion_reward),
            ("rollout_reward", g.rollout_reward),
            ("population_reward_mean", g.population_reward_mean),
            ("population_feasible", g.population_feasible),
            ("critic_loss", g.critic_loss),
            ("actor_loss", g.actor_loss),
            ("entropy", g.entropy),
            ("kl", g.kl),
            ("clipped", g.clipped),
            ("recovery", g.recovery),
            ("best_reward", g.best_reward),
        ] {
            self.numbers(name, number.as_slice());
        }
        for (name, numbers) in [
            ("learner_cost", g.learner_cost.as_deref()),
            ("champion_cost", g.champion_cost.as_deref()),
            ("rollout_cost", g.rollout_cost.as_deref()),
            ("population_cost_mean", g.population_cost_mean.as_deref()),
            ("lambda_learner", Some(&g.lambda_learner[..])),
            ("lambda_mean", g.lambda_mean.as_deref()),
        ] {
            self.numbers(name, numbers.unwrap_or_default());
        }
    }

    fn policy(&mut self, params: &[f32]) {
        params.iter().for_each(|x| self.add(&x.to_bits().to_le_bytes()));
    }
}

fn trainer(algorithm: &str, constraints: &[&str]) -> Trainer {
    let mut layers = Layers::default();
    let values = r#"
        task = "point-mass"
        steps = 3000
        seed = 7
        [learner]
        learning_starts = 800
        grad_steps_per_env_step = 0.3
        [sac]
        hidden = [16, 12]
        batch = 30
        [ppo]
        layers = [10, 8]
        collect = 601
        minibatch = 64
        epochs = 3
        recompute_advantages = true
        [replay]
        capacity = 2500 # less than the steps, so that the ring wraps
        [multipliers]
        lambda = 0.3
        eta = 0.1
        [test]
        every = 500
    "#;
    layers.toml(values).unwrap();
    layers.set("algorithm", algorithm);
    layers.set("constraints", constraints.iter().map(|c| c.to_string()).collect::<Vec<_>>());
    let config: Config = layers.build().unwrap();
    let constraints = Constraint::parse_all(&config.constraints, &PointMass::COSTS).unwrap();
    let make = || -> Result<Box<dyn Env>, TrainError> {
        Ok(Box::new(PointMass::new(constraints.clone())?))
    };
    Trainer::new(config, 2, make).unwrap()
}

/// Trains to the end; with `pause`, stores the run after so many updates, drops it and goes on.
fn digest(algorithm: &str, constraints: &[&str], pause: Option<u64>) -> u64 {
    let folder = std::env::temp_dir().join(format!("ecrl-golden-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
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
                std::fs::create_dir_all(&folder).unwrap();
                Checkpoints::new(&folder).write(&mut run, vec![]).unwrap();
                run = trainer(algorithm, constraints);
                Checkpoints::new(&folder).read(&mut run).unwrap().unwrap();
                left = u64::MAX;
            }
        }
    }
    assert_eq!(folder.exists(), pause.is_some(), "paused or not");
    let _ = std::fs::remove_dir_all(&folder);
    digest.policy(run.policy().actor.params());
    digest.policy(run.best().unwrap().policy.actor.params());
    digest.0
}

fn all() -> Vec<(String, u64)> {
    let one = ["force<=0.1"];
    let two = ["force<=0.1", "sum(force)<=12"];
    let mut all: Vec<(String, u64)> =
        ALGORITHMS.iter().map(|name| (name.to_string(), digest(name, &one, None))).collect();
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

#[test]
fn no_result_has_changed_by_a_bit() {
    let text = std::fs::read_to_string(FILE).unwrap_or_default();
    let mut known: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [kind, name, digest] = words[..] else { panic!("{FILE}: {line}") };
        known.entry(kind.into()).or_default().insert(name.into(), digest.into());
    }
    let bless = std::env::var_os("ECRL_BLESS").is_some();
    for kind in simd::available() {
        assert!(simd::limit(Some(kind)));
        let key = format!("{}-{:08x}", kind.name(), functions() >> 32);
        if !known.contains_key(&key) && !bless {
            println!("not checked: no golden digests for {key}");
            continue;
        }
        let found: BTreeMap<String, String> =
            all().into_iter().map(|(name, digest)| (name, format!("{digest:016x}"))).collect();
        if bless {
            known.insert(key, found);
        } else {
            assert_eq!(found, known[&key], "{key}: results have changed");
        }
    }
    simd::limit(None);
    if bless {
        let mut text = String::from("# instructions-functions, case, digest: see ../golden.rs\n");
        for (kind, digests) in &known {
            for (name, digest) in digests {
                writeln!(text, "{kind} {name} {digest}").unwrap();
            }
        }
        std::fs::write(FILE, text).unwrap();
    }
}
