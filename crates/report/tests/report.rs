//! A report of runs of every kind: nothing is left out in silence.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ecrl::config::Config;
use ecrl::metrics::{
    BEST_COST, BEST_FEASIBLE, BEST_REWARD, BEST_SAMPLED_COST, BEST_SAMPLED_REWARD, CHAMPION_REWARD,
    ENV_STEPS, EXCESS, FEASIBLE, GENERATION, LEARNER_COST, LEARNER_REWARD, Record, SAMPLED_COST,
    SAMPLED_REWARD, SECONDS,
};
use report::Report;
use report::curves::Band;
use report::runs::RunState;
use runs::lock::Lock;

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ecrl-report-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A run of `points` tests up to `taken` steps, whose reward rises to `reward`, half of it with sampled
/// actions, and whose torque is `cost` throughout, with sampled actions `sampled`.
struct Fake {
    config: Config,
    taken: u64,
    points: u64,
    reward: f64,
    cost: f64,
    sampled: f64,
}

impl Fake {
    fn new(task: &str, algorithm: &str, seed: u64) -> Self {
        let config = Config {
            task: task.into(),
            steps: 1000,
            seed,
            constraints: vec!["mean(torque)<=0.4".into()],
            ..Config::new(algorithm).unwrap()
        };
        Self { config, taken: 1000, points: 10, reward: 100.0, cost: 0.3, sampled: 0.35 }
    }

    fn write(&self, folder: &Path) -> PathBuf {
        let Config { task, algorithm, seed, .. } = &self.config;
        let path = folder.join(format!("{task}-{algorithm}-{seed}"));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("config.toml"), self.config.to_toml()).unwrap();
        let lines = (1..=self.points).map(|i| {
            let share = i as f64 / self.points as f64;
            let mut generation = Record::default();
            generation.set(&GENERATION, i);
            generation.set(&ENV_STEPS, self.taken * i / self.points);
            generation.set(&LEARNER_REWARD, self.reward * share);
            generation.set(&LEARNER_COST, vec![self.cost]);
            generation.set(&SAMPLED_REWARD, self.reward * share / 2.0);
            generation.set(&SAMPLED_COST, vec![self.sampled]);
            let steps = (self.taken / self.points) as f64;
            generation.set(&EXCESS, vec![(self.sampled - 0.4).max(0.0) * steps]);
            generation.set(&BEST_REWARD, self.reward * share);
            generation.set(&BEST_COST, vec![self.cost]);
            generation.set(&BEST_SAMPLED_REWARD, self.reward * share / 2.0);
            generation.set(&BEST_SAMPLED_COST, vec![self.sampled]);
            generation.set(&SECONDS, 90.0 * i as f64);
            generation.set(&BEST_FEASIBLE, self.cost <= 0.4 && self.sampled <= 0.4);
            if self.config.algorithm == "ecrl" {
                generation.set(&CHAMPION_REWARD, 7.0);
            }
            if self.config.algorithm == "ppo" {
                generation.set(&FEASIBLE, false);
                generation.set(&BEST_REWARD, 1.0); // before it had learnt to break the constraint
            }
            serde_json::to_string(&generation).unwrap() + "\n"
        });
        std::fs::write(path.join("metrics.jsonl"), lines.collect::<String>()).unwrap();
        path
    }
}

fn report(folder: &Path) -> Report {
    Report::new(&[folder.to_owned()], Band::Bootstrap).unwrap()
}

#[test]
fn figures_are_those_of_the_runs() {
    let folder = Folder::new("figures");
    for (seed, reward) in [(0, 100.0), (1, 200.0), (2, 600.0)] {
        Fake { reward, ..Fake::new("hopper", "ecrl", seed) }.write(&folder.0);
        // Its mean action keeps the constraint, its sampled ones do not.
        Fake { reward: 2.0 * reward, sampled: 0.5, ..Fake::new("hopper", "erl", seed) }
            .write(&folder.0);
    }
    let report = report(&folder.0);
    // Reward and torque; and the champion's reward.
    assert_eq!(report.panels.len(), 3);
    assert!(report.panels[2].champion && report.panels[2].metric == "champion's reward");
    let [ecrl, erl] = &report.table[..] else { panic!("{:?}", report.table) };
    let reward = ecrl.reward[0].unwrap();
    assert_eq!(ecrl.reward[1].unwrap().value, 150.0);
    let costs = erl.cost.clone().map(|costs| costs[0].unwrap().value);
    assert!((costs[0] - 0.3).abs() < 1e-12 && (costs[1] - 0.5).abs() < 1e-12, "{costs:?}");
    assert_eq!((ecrl.seeds, reward.value), (3, 300.0));
    assert!(reward.low >= 100.0 && reward.low < 200.0 && reward.high > 400.0, "{reward:?}");
    assert_eq!((ecrl.feasible, erl.feasible), (Some(1.0), Some(0.0)));
    assert_eq!((ecrl.best_feasible, erl.best_feasible), (Some(300.0), None));
    assert_eq!(ecrl.excess, [Some(0.0)]);
    // 0.1 too much in each of 1000 steps.
    assert!((erl.excess[0].unwrap() - 0.1).abs() < 1e-9);
    // Half way, the mean of 50, 100 and 300.
    for (series, expected) in report.panels[0].series.iter().zip([150.0, 75.0]) {
        let middle = series.points.iter().find(|p| p.step == 500.0).unwrap();
        assert!((middle.mean - expected).abs() < 1e-9 && middle.n == 3, "{middle:?}");
    }
    let better = report.improvements.iter().find(|i| i.a == "erl" && i.b == "ecrl").unwrap();
    // 200, 400, 1200 against 100, 200, 600: seven wins and a tie of nine.
    assert!((better.reward.value - 6.5 / 9.0).abs() < 1e-12, "{better:?}");
    assert_eq!(better.violation.value, 0.0);
}

#[test]
fn nothing_is_left_out_in_silence() {
    let folder = Folder::new("odd");
    let write = |fake: Fake| fake.write(&folder.0);
    write(Fake::new("hopper", "ecrl", 0));
    write(Fake { taken: 600, ..Fake::new("hopper", "ecrl", 1) }); // stopped
    let going = write(Fake { taken: 400, ..Fake::new("hopper", "ecrl", 2) });
    let failed = write(Fake { taken: 200, ..Fake::new("hopper", "erl", 0) });
    std::fs::write(failed.join("failure.txt"), "update 7: actor is not finite\n").unwrap();
    let mut longer = Fake::new("hopper", "erl", 1);
    (longer.config.steps, longer.taken) = (2000, 2000);
    write(longer);
    let mut other = Fake::new("swimmer", "ecrl", 0);
    other.config.constraints = vec!["mean(torque)<=0.2".into()];
    write(other);
    write(Fake::new("swimmer", "erl", 0));
    let _lock = Lock::take(&going).unwrap();
    std::fs::create_dir_all(folder.0.join("foreign")).unwrap();
    std::fs::write(folder.0.join("foreign/config.toml"), "[server]\nport = 1\n").unwrap();
    let broken = folder.0.join("hopper-broken-0");
    std::fs::create_dir_all(&broken).unwrap();
    let config = Fake::new("hopper", "erl", 0).config.to_toml().replace("format = 2", "format = 9");
    std::fs::write(broken.join("config.toml"), config).unwrap();

    let report = report(&folder.0);
    let told = report.notes.join("\n");
    for expected in [
        "hopper-ecrl-1 stopped at 600 of 1000 steps",
        "hopper-ecrl-2 is still going, at 400 of 1000 steps",
        "hopper-erl-0 failed at 200 of 1000 steps (update 7: actor is not finite)",
        "hopper, erl, 1000 steps: no run with seed 1, 2, which others have",
        "foreign/config.toml is passed over: it is not a run's",
        "hopper-broken-0 is passed over: ",
        "swimmer: runs with different constraints",
        "Not in the aggregates",
        "Fewer than five seeds",
    ] {
        assert!(told.contains(expected), "{expected} in\n{told}");
    }
    let states: Vec<&RunState> = report.runs.iter().map(|run| &run.state).collect();
    assert_eq!(states.iter().filter(|state| ***state == RunState::Finished).count(), 4);
    let row = &report.table[0];
    assert_eq!((row.seeds, row.unfinished), (1, 2));
    // A curve goes on with the seeds that are left, and says how many they are.
    let counts: Vec<usize> = report.panels[0].series[0].points.iter().map(|p| p.n).collect();
    let mut seen = counts.clone();
    seen.dedup();
    assert_eq!(seen, [1, 2, 3, 2, 1], "{counts:?}");

    report.write(&folder.0.join("report")).unwrap();
    let page = std::fs::read_to_string(folder.0.join("report/index.html")).unwrap();
    assert!(page.contains("hopper-ecrl-1 stopped at 600") && !page.contains("http://local"));
    let csv = std::fs::read_to_string(folder.0.join("report/metrics.csv")).unwrap();
    let head = "run,task,algorithm,seed,generation,env_steps,seconds,learner_reward,learner_cost_0,\
                sampled_reward,sampled_cost_0,excess_0,best_reward,best_cost_0,best_sampled_reward,\
                best_sampled_cost_0,best_feasible,champion_reward";
    assert_eq!(csv.lines().next(), Some(head));
    assert_eq!(csv.lines().count(), 1 + 7 * 10);
    let row = "hopper-ecrl-0,hopper,ecrl,0,10,1000,900,100,0.3,50,0.35,0,100,0.3,50,0.35,true,7";
    assert!(csv.contains(row), "{csv}");
    for file in [
        "curves.csv",
        "table.csv",
        "table.md",
        "figures/curves.svg",
        "figures/curves.png",
        "figures/curves.pdf",
        "figures/champion.svg",
    ] {
        assert!(folder.0.join("report").join(file).metadata().unwrap().len() > 0, "{file}");
    }
}

#[test]
fn runs_that_differ_are_never_averaged() {
    let folder = Folder::new("apart");
    let (a, b) = (folder.0.join("a"), folder.0.join("b"));
    // The same seed twice, and another length.
    for (path, reward) in [(&a, 100.0), (&b, 300.0)] {
        Fake { reward, ..Fake::new("hopper", "ecrl", 0) }.write(path);
    }
    let mut longer = Fake::new("hopper", "erl", 0);
    longer.write(&a);
    (longer.config.steps, longer.taken, longer.reward) = (20_000, 20_000, 500.0);
    longer.write(&b);
    let report = report(&folder.0);
    let mut rows: Vec<(&str, f64)> =
        report.table.iter().map(|row| (&row.algorithm[..], row.reward[0].unwrap().value)).collect();
    rows.sort_by(|x, y| x.1.total_cmp(&y.1));
    let values: Vec<f64> = rows.iter().map(|row| row.1).collect();
    assert_eq!(values, [100.0, 100.0, 300.0, 500.0], "{rows:?}");
    for expected in ["/a/hopper-ecrl-0", "/b/hopper-ecrl-0", "erl, 1000 steps", "erl, 20k steps"] {
        assert!(rows.iter().any(|(label, _)| label.ends_with(expected)), "{expected}: {rows:?}");
    }
}

#[test]
fn axes_follow_what_was_run_and_a_single_test_is_drawn() {
    let folder = Folder::new("short");
    let mut fake = Fake { taken: 300, points: 1, ..Fake::new("hopper", "ecrl", 0) };
    fake.config.steps = 1_000_000;
    fake.write(&folder.0);
    let report = report(&folder.0);
    assert_eq!(report.panels[0].steps, 300.0);
    let points = &report.panels[0].series[0].points;
    assert_eq!(points.iter().map(|p| (p.step, p.mean)).collect::<Vec<_>>(), [(300.0, 100.0)]);
    let out = folder.0.join("report");
    report.write(&out).unwrap();
    let svg = std::fs::read_to_string(out.join("figures/curves.svg")).unwrap();
    assert!(svg.contains("<circle"), "a point");
    for expected in [">environment steps<", ">return<", ">J_C<", "bound ≤ 0.4"] {
        assert!(svg.contains(expected), "{expected}");
    }
    // Numbers that nothing round lies between are drawn all the same.
    Fake { reward: 5e-324, ..Fake::new("ant", "ecrl", 0) }.write(&folder.0);
    let mut bound = Fake { cost: 0.0, sampled: 0.0, ..Fake::new("swimmer", "ecrl", 0) };
    bound.config.constraints = vec!["mean(torque)<=5e-324".into()];
    bound.write(&folder.0);
    self::report(&folder.0).write(&out).unwrap();
}

#[test]
fn a_page_that_is_not_ours_is_not_overwritten() {
    let folder = Folder::new("page");
    Fake::new("hopper", "ecrl", 0).write(&folder.0);
    let report = report(&folder.0);
    for name in ["index.html", "table.csv", "figures/curves.png"] {
        let out = folder.0.join(format!("site-{}", name.replace('/', "-")));
        std::fs::create_dir_all(out.join(name).parent().unwrap()).unwrap();
        std::fs::write(out.join(name), "mine").unwrap();
        let error = report.write(&out).unwrap_err().to_string();
        assert!(error.contains("is there already, and not of ecrl"), "{error}");
        assert_eq!(std::fs::read(out.join(name)).unwrap(), b"mine");
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1);
    }
    let out = folder.0.join("report");
    report.write(&out).unwrap();
    report.write(&out).unwrap(); // its own
}

#[test]
fn commands_to_make_it_again_can_be_typed_whatever_a_run_says() {
    let folder = Folder::new("quoted");
    let mut fake = Fake::new("hop'$(reboot)", "ecrl", 0);
    fake.config.constraints = vec!["mean(it's)<=0.4".into()];
    let path = folder.0.join("run");
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("config.toml"), fake.config.to_toml()).unwrap();
    let report = report(&folder.0);
    let expected = r"ecrl train 'hop'\''$(reboot)' --algo ecrl --steps 1000 --seed 0 --constraint 'mean(it'\''s)<=0.4'";
    assert_eq!(report.runs[0].command(), expected);
}

#[test]
fn one_algorithm_alone_is_compared_with_nothing() {
    let folder = Folder::new("alone");
    let page = || {
        report(&folder.0).write(&folder.0.join("report")).unwrap();
        std::fs::read_to_string(folder.0.join("report/index.html")).unwrap()
    };
    Fake::new("hopper", "ecrl", 0).write(&folder.0);
    let alone = page();
    assert!(alone.contains("<p>1 run. ") && !alone.contains(", IQM"));
    Fake::new("hopper", "erl", 0).write(&folder.0);
    let two = page();
    assert!(two.contains("<p>2 runs. ") && two.contains(", IQM"));
}

#[test]
fn ours_stands_beside_what_was_published_for_the_same_constraint() {
    let folder = Folder::new("published");
    let mut run = Fake::new("hopper", "focops", 3);
    run.write(&folder.0);
    report(&folder.0).write(&folder.0.join("without")).unwrap();
    assert!(!folder.0.join("without/published.md").exists(), "another constraint");
    run.config.constraints = vec!["sum(velocity)<=25".into()];
    (run.reward, run.cost, run.sampled) = (1725.0, 0.25, 0.375);
    run.write(&folder.0);
    for algorithm in ["pdac", "ppo"] {
        let mut other = Fake::new("hopper", algorithm, 0);
        other.config.constraints = run.config.constraints.clone();
        other.write(&folder.0);
    }
    let out = folder.0.join("report");
    report(&folder.0).write(&out).unwrap();
    let text = std::fs::read_to_string(out.join("published.md")).unwrap();
    let ours = "| hopper | FOCOPS | 1438 / 10 | focops, seed 3 | 1725 / 0.25 | 862.5 / 0.375 | yes | 1000 | 15 |";
    assert!(text.contains(ours), "{text}");
    let at_a_glance = "| FOCOPS | 3184 / 15 | 2965 / 2 | 1438 / 10 | 54 / 30, broken | 3117 / 9 |\n\
                       | focops, 1000 steps | - | - | 1725 / 0.25 | - | - |\n| CUP |";
    assert!(text.contains(at_a_glance), "{text}");
    let best = "| best of theirs within the limit | 3262 (PPOLag) | 2965 (FOCOPS) | 1716 (CUP) | 91 (CPPOPID) | \
                3207 (TRPOLag) |\n| best of ours | - | - | 1725 (focops) | - | - |";
    assert!(text.contains(best), "{text}");
    assert!(
        text.contains("| SACPID | 1941 / 14 | 2689 / 21 | 813 / 92, broken | 8 / 8 |"),
        "{text}"
    );
    assert!(text.contains("| hopper | - | - | pdac, seed 0 |"), "{text}");
    assert!(text.contains("| ppo, 1000 steps | - | - | 100 / 0.3, broken | - | - |"), "{text}");
    assert!(text.contains("| ppo, seed 0 | 100 / 0.3 | 50 / 0.35 | no | 1000 |"), "{text}");
    assert_eq!(text.matches("\n| hopper |").count(), 3, "{text}");
    assert!(!text.contains("\n| ant |"));
    let page = std::fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.contains("Beside published figures") && page.contains("1438 / 10"));
}

#[test]
fn two_hundred_runs_take_seconds() {
    let folder = Folder::new("many");
    for task in ["ant", "half-cheetah", "walker2d", "hopper", "swimmer"] {
        for algorithm in ["ecrl", "erl", "rcpo", "sac"] {
            for seed in 0..10 {
                let fake =
                    Fake { points: 1000, taken: 1_000_000, ..Fake::new(task, algorithm, seed) };
                fake.write(&folder.0);
            }
        }
    }
    let start = Instant::now();
    report(&folder.0).write(&folder.0.join("report")).unwrap();
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn bad_folders_are_refused_by_name() {
    let folder = Folder::new("bad");
    let error = |path: PathBuf| match Report::new(&[path], Band::Bootstrap) {
        Ok(_) => panic!("a report of nothing"),
        Err(error) => error.to_string(),
    };
    assert!(error(folder.0.clone()).starts_with("no runs found in "));
    assert!(error(folder.0.join("nowhere")).contains("nowhere: expected a run directory"));
    let run = Fake::new("hopper", "ecrl", 0).write(&folder.0);
    std::fs::write(run.join("metrics.jsonl"), "{}\nnonsense\n").unwrap();
    assert!(error(folder.0.clone()).contains("metrics.jsonl, line 2: "));
}
