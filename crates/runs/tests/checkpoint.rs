//! A run that is stored, dropped and read back goes on as if nothing had happened.

use std::path::{Path, PathBuf};

use cmdp::{Constraint, Env, PointMass};
use ecrl::algorithms::ALGORITHMS;
use ecrl::config::{Config, Layers};
use ecrl::metrics::{LEARNER_REWARD, Record};
use ecrl::population::census::Census;
use ecrl::trainer::Trainer;
use runs::checkpoint::Checkpoints;
use runs::directory::LogState;
use runs::policy::Policy;

/// What the sections of an algorithm are set to, where it has them. Environments pause within an episode, and
/// the ring holds less than the steps, so that it wraps.
const SECTIONS: [(&str, &str); 7] = [
    ("es", "population = 4\nhidden = [8]\n"),
    ("learner", "learning_starts = 500\ngrad_steps_per_env_step = 0.3\n"),
    ("sac", "hidden = [16, 16]\nbatch = 32\n"),
    ("td3", "hidden = [16, 16]\nbatch = 32\n"),
    ("replay", "capacity = 5000\n"),
    (
        "ppo",
        "hidden = [8, 8]\ncollect = 600\nbatch = 50\nepochs = 12\nrecompute_advantages = true\n",
    ),
    ("actor_critic", "hidden = [8, 8]\ncollect = 600\nbatch = 50\nepochs = 12\n"),
];

fn config(algorithm: &str) -> Config {
    let mut layers = Layers::default();
    layers.set("algorithm", algorithm).set("steps", 6000).set("test.every", 500);
    let sections = layers.build().unwrap().sections;
    for (section, values) in SECTIONS.iter().filter(|(name, _)| sections.contains_key(*name)) {
        layers.toml(&format!("[{section}]\n{values}")).unwrap();
    }
    if sections.get("multipliers").is_some_and(|rule| rule.get("eta").is_some()) {
        layers.set("multipliers.eta", 0.1);
    }
    layers.build().unwrap()
}

fn trainer(config: &Config) -> Trainer {
    let texts = ["force<=0.1", "sum(force)<=20"];
    let constraints = Constraint::parse_all(&texts, &PointMass::COSTS).unwrap();
    let make = || PointMass::new(constraints.clone()).map(|env| Box::new(env) as Box<dyn Env>);
    Trainer::new(config.clone(), 2, make).unwrap()
}

fn at(bytes: u64) -> LogState {
    LogState { name: "metrics.jsonl".into(), bytes, crc32c: Some(7) }
}

fn learner(trainer: &Trainer) -> Vec<u8> {
    Policy::of_learner(trainer).to_bytes()
}

/// What a run leaves behind, without times.
#[derive(Debug, PartialEq, Default)]
struct Log(Vec<(Record, Option<Census>)>);

impl Log {
    /// Goes on until the run is done, or until `pause` updates later.
    fn advance(&mut self, trainer: &mut Trainer, mut pause: u64) {
        while !trainer.is_done() && pause > 0 {
            let brought = trainer.generation(&mut |_| {
                pause -= 1;
                pause > 0
            });
            if let Some(record) = brought.unwrap() {
                self.0.push((record.without_times(), trainer.census().cloned()));
            }
        }
    }
}

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ecrl-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.0.join("checkpoint")).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_algorithm_goes_on_to_the_bit() {
    ALGORITHMS.iter().for_each(|row| goes_on_to_the_bit(row.name(), config(row.name())));
}

#[test]
fn populations_with_multipliers_go_on_to_the_bit() {
    let set = |algorithm: &str, rule: &str, more: &str| {
        let mut layers = Layers::default();
        layers.toml(&config(algorithm).to_toml()).unwrap();
        let ranking = if algorithm == "es" { "[es]" } else { "[evolution]" };
        let rule = format!("[multipliers]\nrule = '{rule}'\neta = 0.1\n");
        layers.toml(&format!("{rule}{ranking}\nranking = 'stochastic'\n{more}")).unwrap();
        goes_on_to_the_bit(algorithm, layers.build().unwrap());
    };
    set("es", "relative", "");
    for rule in ["relative", "per-actor"] {
        set("cem-rl", rule, "");
        set("cerl", rule, "");
        // Actors remember more than the replay buffer holds.
        set("pderl", rule, "[proximal]\nmemory = 2000\n[replay]\ncapacity = 1500\n");
        set("supe-rl", rule, "period = 2\n");
    }
}

#[test]
fn a_population_that_is_dealt_out_unevenly_and_copied_goes_on_to_the_bit() {
    let mut layers = Layers::default();
    layers.toml(&config("ecrl-ppo").to_toml()).unwrap();
    let evolution = "population = 3\nhalve_at = [0.7]\ncopy_every = 0.1\n";
    layers.toml(&format!("[evolution]\n{evolution}")).unwrap();
    goes_on_to_the_bit("uneven", layers.build().unwrap());
}

#[test]
fn a_population_that_shares_a_replay_buffer_and_narrows_goes_on_to_the_bit() {
    let mut layers = Layers::default();
    layers.toml(&config("ecrl-sac").to_toml()).unwrap();
    layers.toml("[evolution]\njudged = 1\nhalve_at = [0.3, 0.6]\n").unwrap();
    goes_on_to_the_bit("shared", layers.build().unwrap());
}

fn goes_on_to_the_bit(name: &str, config: Config) {
    let mut whole = (trainer(&config), Log::default());
    whole.1.advance(&mut whole.0, u64::MAX);

    // Some have an update a generation.
    let pause = (whole.0.grad_steps() / 5).min(201);
    let folder = Folder::new(name);
    let mut log = Log::default();
    let mut parts = 0;
    loop {
        let mut trainer = trainer(&config);
        let mut checkpoints = Checkpoints::new(&folder.0);
        let restored = checkpoints.read(&mut trainer).unwrap();
        assert_eq!(restored.is_some(), parts > 0);
        log.advance(&mut trainer, pause);
        checkpoints.write(&mut trainer, &[]).unwrap();
        parts += 1;
        if trainer.is_done() {
            assert_eq!(log, whole.1, "{}", name);
            assert_eq!(learner(&trainer), learner(&whole.0));
            let best = |t: &Trainer| Policy::of_best(t).unwrap().to_bytes();
            assert_eq!(best(&trainer), best(&whole.0), "{}", name);
            break;
        }
    }
    assert!(parts >= 4, "{}: {parts} parts", name);
}

#[test]
fn a_finished_run_asked_for_more_steps_is_the_longer_run() {
    for name in ["ecrl", "rcpo"] {
        let (short, long) = (Config { steps: 2500, ..config(name) }, config(name));
        let mut whole = (trainer(&long), Log::default());
        whole.1.advance(&mut whole.0, u64::MAX);

        let folder = Folder::new(&format!("more-{name}"));
        let mut checkpoints = Checkpoints::new(&folder.0);
        let (mut first, mut log) = (trainer(&short), Log::default());
        while !first.is_last() {
            log.advance(&mut first, 1);
        }
        assert!(first.play_and_learn(&mut |_| true).unwrap());
        checkpoints.write(&mut first, &[]).unwrap();
        let last = first.conclude().unwrap().unwrap();
        assert!(last.get(&LEARNER_REWARD).is_some(), "the end is always tested");

        let mut second = trainer(&long);
        checkpoints.read(&mut second).unwrap().unwrap();
        log.advance(&mut second, u64::MAX);
        assert_eq!(log, whole.1, "{name}");
        assert_eq!(learner(&second), learner(&whole.0));
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.join("checkpoint")).unwrap();
    for entry in std::fs::read_dir(from.join("checkpoint")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join("checkpoint").join(entry.file_name())).unwrap();
    }
}

#[test]
fn only_what_is_new_is_written_and_two_checkpoints_are_kept() {
    let folder = Folder::new("new");
    let mut layers = Layers::default();
    layers.toml(&Config { steps: 20_000, ..config("sac") }.to_toml()).unwrap();
    let config = layers.set("replay.capacity", 100_000).build().unwrap();
    let mut trainer = trainer(&config);
    let mut checkpoints = Checkpoints::new(&folder.0);
    let mut log = Log::default();
    log.advance(&mut trainer, 5000);
    checkpoints.write(&mut trainer, &[]).unwrap();
    let first = folder.files();
    log.advance(&mut trainer, 100);
    checkpoints.write(&mut trainer, &[]).unwrap();
    let second = folder.files();
    let new: Vec<&PathBuf> = second.iter().filter(|file| !first.contains(file)).collect();
    let segments = new.iter().filter(|file| file.to_string_lossy().contains("replay-")).count();
    assert_eq!(segments, 1, "the last segment alone: {new:?}");
    assert!(first.iter().all(|file| second.contains(file)), "the previous one stays whole");
    checkpoints.write(&mut trainer, &[]).unwrap();
    checkpoints.write(&mut trainer, &[]).unwrap();
    let manifests =
        folder.files().iter().filter(|f| f.to_string_lossy().contains("manifest")).count();
    assert_eq!(manifests, 2);
    let replay: u64 = trainer.replay().unwrap().bytes() as u64;
    let disk: u64 = folder.files().iter().map(|f| f.metadata().unwrap().len()).sum();
    assert!(disk < replay * 2 + 1_000_000, "{disk} for a replay buffer of {replay}");
}

#[test]
fn a_damaged_checkpoint_is_passed_over_and_said_so() {
    let folder = Folder::new("damage");
    let config = config("ecrl");
    let mut first = trainer(&config);
    let mut checkpoints = Checkpoints::new(&folder.0);
    let mut log = Log::default();
    log.advance(&mut first, 100);
    checkpoints.write(&mut first, &[at(1)]).unwrap();
    log.advance(&mut first, 600);
    checkpoints.write(&mut first, &[at(2)]).unwrap();
    let newest = folder.files().into_iter().filter(|f| f.to_string_lossy().ends_with("-2"));
    let newest: Vec<PathBuf> = newest.collect();
    assert!(newest.len() >= 3, "{newest:?}");
    for file in &newest {
        let length = file.metadata().unwrap().len() as usize;
        for damage in ["flip first", "flip middle", "flip last", "cut", "missing"] {
            let broken = Folder::new("broken");
            copy(&folder.0, &broken.0);
            let target = broken.0.join("checkpoint").join(file.file_name().unwrap());
            let mut bytes = std::fs::read(&target).unwrap();
            match damage {
                "flip first" => bytes[0] ^= 1,
                "flip middle" => bytes[length / 2] ^= 1,
                "flip last" => bytes[length - 2] ^= 1,
                "cut" => bytes.truncate(length / 3),
                _ => {}
            }
            std::fs::write(&target, bytes).unwrap();
            if damage == "missing" {
                std::fs::remove_file(&target).unwrap();
            }
            let mut again = trainer(&config);
            let restored = Checkpoints::new(&broken.0).read(&mut again).unwrap().unwrap();
            assert_eq!(restored.logs, [at(1)], "{damage} {file:?}");
            let said = restored.passed_over.len();
            let gone = damage == "missing" && file.to_string_lossy().contains("manifest");
            assert_eq!(said, usize::from(!gone), "{damage} {file:?}: {restored:?}");
        }
    }
    // With nothing whole left, nothing is changed.
    for file in folder.files() {
        std::fs::write(file, b"nonsense").unwrap();
    }
    let mut fresh = trainer(&config);
    let error = Checkpoints::new(&folder.0).read(&mut fresh).unwrap_err().to_string();
    assert!(error.contains("no whole checkpoint"), "{error}");
    assert_eq!(fresh.env_steps(), 0);
}

#[test]
fn another_configuration_or_version_is_refused() {
    let folder = Folder::new("other");
    let mut first = trainer(&config("ecrl"));
    let mut log = Log::default();
    log.advance(&mut first, 100);
    Checkpoints::new(&folder.0).write(&mut first, &[]).unwrap();
    let mut other = trainer(&config("bc"));
    let error = Checkpoints::new(&folder.0).read(&mut other).unwrap_err().to_string();
    assert!(error.contains("it is a state of ecrl, version 2; expected one of bc"), "{error}");
    let mut longer = trainer(&Config { steps: 9000, ..config("ecrl") });
    assert!(Checkpoints::new(&folder.0).read(&mut longer).unwrap().is_some());

    rewrite(&folder.0.join("checkpoint/manifest-1"), |json| {
        json.replace("\"format\":4", "\"format\":99")
    });
    let mut again = trainer(&config("ecrl"));
    let error = Checkpoints::new(&folder.0).read(&mut again).unwrap_err().to_string();
    assert!(error.contains("has format 99, by \"ecrl"), "{error}");
}

/// Changes a manifest, with a checksum to match.
fn rewrite(path: &Path, change: impl Fn(&str) -> String) {
    let text = std::fs::read_to_string(path).unwrap();
    let json = change(text.lines().next().unwrap());
    assert_ne!(json, text.lines().next().unwrap());
    std::fs::write(path, format!("{json}\n{:08x}\n", crc32c::crc32c(json.as_bytes()))).unwrap();
}

#[test]
fn what_is_not_of_a_checkpoint_stays_where_it_is() {
    let folder = Folder::new("foreign");
    let inside = folder.0.join("checkpoint");
    std::fs::create_dir_all(inside.join("state-99")).unwrap(); // a folder
    std::fs::write(inside.join("model.pt"), "mine").unwrap();
    std::fs::write(inside.join("state-final"), "mine").unwrap();
    let mut first = trainer(&config("ecrl"));
    let (mut log, mut checkpoints) = (Log::default(), Checkpoints::new(&folder.0));
    for _ in 0..4 {
        log.advance(&mut first, 100);
        checkpoints.write(&mut first, &[]).unwrap();
    }
    let names: Vec<String> = folder
        .files()
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    for kept in ["model.pt", "state-final", "state-99", "state-3", "state-4", "manifest-3"] {
        assert!(names.iter().any(|name| name == kept), "{kept}: {names:?}");
    }
    assert!(!names.iter().any(|name| name == "state-2"), "the older ones make room: {names:?}");
    // A link in the folder's place leads nowhere.
    let elsewhere = Folder::new("elsewhere");
    std::os::unix::fs::symlink(&inside, elsewhere.0.join("checkpoint")).unwrap();
    let error = Checkpoints::new(&elsewhere.0).write(&mut first, &[]).unwrap_err().to_string();
    assert!(error.ends_with("it is a link; expected a folder of the run's own"), "{error}");
}

#[test]
fn what_was_removed_is_written_again() {
    let folder = Folder::new("removed-parts");
    let config = config("ecrl");
    let (mut first, mut log) = (trainer(&config), Log::default());
    let mut checkpoints = Checkpoints::new(&folder.0);
    log.advance(&mut first, 100);
    checkpoints.write(&mut first, &[]).unwrap();
    std::fs::remove_dir_all(folder.0.join("checkpoint")).unwrap();
    log.advance(&mut first, 1); // no new transition: no segment has changed
    checkpoints.write(&mut first, &[]).unwrap();
    let mut again = trainer(&config);
    assert!(Checkpoints::new(&folder.0).read(&mut again).unwrap().is_some());
    // A number that leaves no room for the next one is nobody's.
    std::fs::write(folder.0.join("checkpoint/manifest-9007199254740991"), "").unwrap();
    log.advance(&mut first, 100);
    checkpoints.write(&mut first, &[]).unwrap();
    let mut again = trainer(&config);
    let restored = Checkpoints::new(&folder.0).read(&mut again).unwrap().unwrap();
    assert!(restored.passed_over.is_empty(), "{restored:?}");
    assert_eq!(again.grad_steps(), first.grad_steps());
}

#[test]
fn a_crafted_manifest_is_refused_before_it_leads_anywhere() {
    let folder = Folder::new("crafted");
    let mut first = trainer(&config("ecrl"));
    Log::default().advance(&mut first, 400);
    Checkpoints::new(&folder.0).write(&mut first, &[at(3)]).unwrap();
    let victim = folder.0.join("victim");
    std::fs::write(&victim, "mine").unwrap();
    let many = |json: &str| {
        let start = json.find("{\"name\":\"replay-0-1\"").expect("a segment");
        let part = &json[start..start + json[start..].find('}').unwrap() + 1];
        json.replace(part, &vec![part; 100_000].join(","))
    };
    for (expected, change) in [
        (
            "it names \"../victim\", which is no file of a run",
            &(|json: &str| json.replace("metrics.jsonl", "../victim")) as &dyn Fn(&str) -> String,
        ),
        ("it names \"../victim\", which is no file of a run", &|json: &str| {
            json.replace("\"name\":\"state-1\"", "\"name\":\"../victim\"")
        }),
        ("replay buffer: expected one of this run's size", &many),
    ] {
        let crafted = Folder::new("crafted-copy");
        copy(&folder.0, &crafted.0);
        rewrite(&crafted.0.join("checkpoint/manifest-1"), change);
        let mut again = trainer(&config("ecrl"));
        let error = Checkpoints::new(&crafted.0).read(&mut again).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
}

/// The point mass as an environment from outside: it cannot tell its state.
struct Outside(PointMass);

impl Env for Outside {
    fn spec(&self) -> &cmdp::EnvSpec {
        self.0.spec()
    }

    fn reset(&mut self, rng: &mut cmdp::Rng, obs: &mut [f64]) {
        self.0.reset(rng, obs);
    }

    fn step(&mut self, action: &[f32], obs: &mut [f64], costs: &mut [f64]) -> cmdp::Step {
        self.0.step(action, obs, costs)
    }
}

#[test]
fn environments_that_cannot_tell_their_state_begin_episodes_anew_and_say_so() {
    for (algorithm, told) in [("ipo", 1), ("ecrl", 0)] {
        let config = config(algorithm);
        let make = || PointMass::new(vec![]).map(|env| Box::new(Outside(env)) as Box<dyn Env>);
        let new = || Trainer::new(config.clone(), 2, make).unwrap();
        let folder = Folder::new(&format!("outside-{algorithm}"));
        let (mut first, mut log) = (new(), Log::default());
        log.advance(&mut first, 20);
        Checkpoints::new(&folder.0).write(&mut first, &[]).unwrap();
        let mut second = new();
        let restored = Checkpoints::new(&folder.0).read(&mut second).unwrap().unwrap();
        assert_eq!(restored.notes.len(), told, "{algorithm}: {:?}", restored.notes);
        assert!(restored.notes.iter().all(|note| note.contains("episodes under way begin anew")));
        log.advance(&mut second, u64::MAX);
        assert!(second.is_done());
        // What plays whole episodes is the uninterrupted run all the same.
        if told == 0 {
            let mut whole = (new(), Log::default());
            whole.1.advance(&mut whole.0, u64::MAX);
            assert_eq!(log, whole.1);
        }
    }
}
