//! A run driven as a program of one's own would.

use std::path::{Path, PathBuf};

use cmdp::{Constraint, Env, PointMass};
use ecrl::algorithms::ALGORITHMS;
use ecrl::config::{Config, Layers};
use ecrl::metrics::Record;
use ecrl::trainer::Trainer;
use runs::driver::{Every, Observer, Options, Run};
use runs::experiment::call::{Asked, Call};
use runs::experiment::launch::Engine;
use runs::experiment::{self, Event, Experiment, State};
use runs::grid::{Grid, Tasks};
use runs::read;

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ecrl-driver-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn make(_: &Config) -> Result<Box<dyn Env>, cmdp::ConstraintError> {
    let constraints = Constraint::parse_all(&["force<=0.1"], &PointMass::COSTS)?;
    Ok(Box::new(PointMass::new(constraints)?))
}

fn config(algorithm: &str) -> Config {
    let mut layers = Layers::default();
    // One of its updates takes a generation.
    let steps = if algorithm == "es" { 5000 } else { 1500 };
    layers.set("algorithm", algorithm).set("steps", steps).set("test.every", 0);
    let sections = layers.build().unwrap().sections;
    for (section, values) in [
        ("ppo", "hidden = [8]\ncollect = 500\nbatch = 50\nepochs = 2\n"),
        ("actor_critic", "hidden = [8]\ncollect = 500\nbatch = 50\nepochs = 2\n"),
        ("sac", "hidden = [8]\nbatch = 16\n"),
        ("td3", "hidden = [8]\nbatch = 16\n"),
        ("learner", "learning_starts = 300\n"),
        ("es", "hidden = [8]\npopulation = 2\n"),
    ] {
        if sections.contains_key(section) {
            layers.toml(&format!("[{section}]\n{values}")).unwrap();
        }
    }
    layers.build().unwrap()
}

fn options() -> Options {
    Options { threads: 2, checkpoint_every: Every::Generations(100), ..Options::default() }
}

/// Stops a run after so many calls of `progress`.
#[derive(Default)]
struct Stopper {
    left: usize,
    generations: usize,
    warnings: Vec<String>,
}

impl Observer for Stopper {
    fn progress(&mut self, _: u64) {
        self.left = self.left.saturating_sub(1);
    }

    fn generation(&mut self, _: &Record, _: &Trainer) {
        self.generations += 1;
    }

    fn warning(&mut self, text: &str) {
        self.warnings.push(text.into());
    }

    fn should_stop(&self) -> bool {
        self.left == 0
    }
}

/// What a run leaves behind that must not depend on when it was stopped.
fn lasting(run: &Path) -> (Vec<Record>, [Vec<u8>; 2]) {
    let records = read::metrics(run).unwrap().into_iter().map(Record::without_times).collect();
    let files = ["policy.safetensors", "best.safetensors"];
    (records, files.map(|name| std::fs::read(run.join(name)).unwrap()))
}

#[test]
fn every_algorithm_stopped_at_once_and_again_ends_as_if_it_had_not_been() {
    for row in ALGORITHMS {
        let (whole, stopped) = (Folder::new("whole"), Folder::new("stopped"));
        let mut run = Run::create(config(row.name()), &whole.0, &options(), make).unwrap();
        run.train(&mut ()).unwrap();
        // Before the first step, in the midst, and to the end.
        for left in [0, 1, 17, usize::MAX] {
            let mut run =
                Run::create_or_resume(config(row.name()), &stopped.0, &options(), make).unwrap();
            let mut observer = Stopper { left, ..Stopper::default() };
            run.train(&mut observer).unwrap();
            assert_eq!(run.trainer().is_done(), left == usize::MAX, "{}", row.name());
            assert!(observer.warnings.is_empty(), "{:?}", observer.warnings);
        }
        assert!(lasting(&stopped.0) == lasting(&whole.0), "{}", row.name());
    }
}

#[test]
fn a_run_of_other_values_is_not_gone_on_with() {
    let folder = Folder::new("other");
    let mut run = Run::create(config("sac"), &folder.0, &options(), make).unwrap();
    let mut observer = Stopper { left: usize::MAX, ..Stopper::default() };
    run.train(&mut observer).unwrap();
    assert!(observer.generations > 3);
    drop(run);
    let other = Config { seed: 1, ..config("sac") };
    let error = Run::create_or_resume(other, &folder.0, &options(), make).unwrap_err().to_string();
    assert!(error.ends_with("holds a run with other values: seed is 1, not 0"), "{error}");
    let longer = Config { steps: 3000, ..config("sac") };
    let mut run = Run::create_or_resume(longer, &folder.0, &options(), make).unwrap();
    assert!(run.resumed_at().unwrap() >= 1500);
    run.train(&mut ()).unwrap();
    assert!(run.trainer().env_steps() >= 3000);
    drop(run);
    std::fs::write(folder.0.join("config.toml"), "steps = [").unwrap();
    let error = Run::create_or_resume(config("sac"), &folder.0, &options(), make).unwrap_err();
    assert!(error.to_string().contains("not valid TOML"), "{error}");
}

struct Any;

impl Tasks for Any {
    fn resolve(&self, config: &mut Config) -> Result<(), String> {
        config.constraints.clear();
        Ok(())
    }
}

#[derive(Default)]
struct Failures(Vec<String>);

impl experiment::Observer for Failures {
    fn event(&mut self, event: &Event) {
        if let Event::Failed(name, reason) = event {
            self.0.push(format!("{name}: {reason}"));
        }
    }
}

#[test]
fn an_experiment_tells_of_runs_that_fail() {
    let folder = Folder::new("experiment");
    let grid = Grid::parse("tasks = ['a']\nalgorithms = ['sac', 'ppo']\nseeds = 2").unwrap();
    let asked = Asked {
        engine: Engine::Local,
        threads: 1,
        at_once: Some(3),
        options: Vec::new(),
        runs: (0..4).collect(),
        from: "/".into(),
    };
    let jobs = grid.jobs(&Any).unwrap();
    let (call, _lock) = Call::begin(&folder.0, grid, asked).unwrap();
    let launcher = Engine::Local.launcher(vec!["/bin/false".into()]);
    let mut experiment = Experiment::new(call, &jobs, launcher);
    let mut observer = Failures::default();
    experiment.run(&mut observer).unwrap();
    let failed = |state: &State| matches!(state, State::Failed(_));
    assert_eq!(experiment::count(&experiment.entries, failed), 4);
    assert_eq!(observer.0.len(), 4);
    let expected = "a-sac-0: exit status: 1";
    assert!(observer.0.iter().any(|text| text == expected), "{:?}", observer.0);
    assert_eq!(experiment.first_failure().unwrap().0, "a-sac-0");
    assert_eq!(experiment::seconds_left(&experiment.entries), Some(0.0));
}

#[test]
fn values_that_change_are_never_lost_and_never_untold_wherever_it_is_killed() {
    let changed = Options { set: vec!["sac.tau=0.25".into()], ..options() };
    let tau = |run: &Run| run.trainer().config().sections["sac"]["tau"].as_float();
    let told = |path: &Path| {
        let all = runs::provenance::read(path);
        all.iter().filter(|origin| origin.changes == ["sac.tau is 0.25, not 0.001"]).count()
    };
    // Killed right after it was asked for, before a first checkpoint and after one.
    for left in [0, 400] {
        let folder = Folder::new(&format!("change-{left}"));
        let mut run = Run::create(config("sac"), &folder.0, &options(), make).unwrap();
        if left > 0 {
            run.train(&mut Stopper { left, ..Stopper::default() }).unwrap();
        }
        drop(run);
        assert_eq!(tau(&Run::resume(&folder.0, None, &changed, make).unwrap()), Some(0.25));
        let mut again = Run::resume(&folder.0, None, &options(), make).unwrap();
        assert_eq!((tau(&again), told(&folder.0) >= 1), (Some(0.25), true), "{left}");
        again.train(&mut ()).unwrap();
        assert!(again.trainer().is_done());
        drop(again);
        let before = told(&folder.0);
        drop(Run::resume(&folder.0, None, &options(), make).unwrap());
        assert_eq!(told(&folder.0), before, "a checkpoint that has it says nothing");
    }
    // Killed after the configuration was written, and before that was noted.
    let folder = Folder::new("change-untold");
    let mut run = Run::create(config("sac"), &folder.0, &options(), make).unwrap();
    run.train(&mut Stopper { left: 400, ..Stopper::default() }).unwrap();
    let new = run.trainer().config().changed(&changed.set).unwrap();
    drop(run);
    std::fs::write(folder.0.join("config.toml"), new.to_toml()).unwrap();
    assert_eq!(tau(&Run::resume(&folder.0, None, &options(), make).unwrap()), Some(0.25));
    assert_eq!(told(&folder.0), 1);
}
