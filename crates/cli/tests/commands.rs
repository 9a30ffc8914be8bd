//! The commands as a user types them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn ecrl(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ecrl")).args(args).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// A file that is gone when the test is over.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("ecrl-test-{}-{name}", std::process::id()));
        std::fs::File::create(&path).unwrap().write_all(content).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn fails(args: &[&str], code: i32, expected: &str) {
    let output = ecrl(args);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    assert_eq!(message.trim_end(), format!("error: {expected}"), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
}

#[test]
fn tasks_lists_five_robots_with_their_costs() {
    let table = ecrl(&["tasks"]);
    let json: Value = serde_json::from_slice(&ecrl(&["tasks", "--json"]).stdout).unwrap();
    let sizes = [
        ("ant", 27, 8),
        ("half-cheetah", 17, 6),
        ("walker2d", 17, 6),
        ("hopper", 11, 3),
        ("swimmer", 8, 2),
    ];
    assert_eq!(json.as_array().unwrap().len(), sizes.len());
    for (task, (name, observation, action)) in json.as_array().unwrap().iter().zip(sizes) {
        assert!(stdout(&table).contains(name));
        assert_eq!(task["name"], name);
        assert_eq!(task["observation"], observation);
        assert_eq!(task["action"], action);
        assert_eq!(task["steps"], 1000);
        assert_eq!(task["costs"][0]["name"], "torque");
        assert_eq!(task["costs"][0]["aggregate"], "mean");
        assert_eq!(task["costs"][0]["threshold"], 0.4);
        assert_eq!(task["costs"][1]["name"], "velocity");
        assert_eq!(task["costs"][1]["aggregate"], "sum");
        assert_eq!(task["costs"][1]["threshold"], 25.0);
    }
}

#[test]
fn replay_prints_what_gymnasium_computed() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../robots/tests/fixtures/ant.json");
    let fixture: Value = serde_json::from_slice(&std::fs::read(fixture).unwrap()).unwrap();
    let episode = &fixture["episodes"][0];
    let input = serde_json::json!({
        "qpos": episode["qpos"],
        "qvel": episode["qvel"],
        "actions": episode["actions"],
        "constraints": ["velocity<=25"],
    });
    let file = Temporary::new("ant.json", input.to_string().as_bytes());
    let output = ecrl(&["replay", "Ant-v4", file.path()]);
    let lines: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 301);
    assert_eq!(lines[0], serde_json::json!({"obs": episode["first"]}));
    for (t, expected) in episode["steps"].as_array().unwrap().iter().enumerate() {
        let line = &lines[t + 1];
        assert_eq!(line["reward"], expected[0], "step {t}");
        assert_eq!(line["terminated"], expected[1], "step {t}");
        assert_eq!(line["costs"]["velocity"].as_f64(), expected[2].as_f64(), "step {t}");
        if t % 50 == 0 {
            assert_eq!(line["obs"], episode["every_50th"][t / 50], "step {t}");
        }
    }
}

#[test]
fn bad_input_gets_one_line_and_exit_code_2() {
    let short = br#"{"qpos": [0,1,0,0,0], "qvel": [0,0,0,0,0,0], "actions": []}"#;
    let short = Temporary::new("short.json", short);
    let torn = Temporary::new("torn.json", b"{\"qpos\": [0, 1");
    let name = short.path().to_owned();
    fails(&["replay", "hoper", &name], 2, "unknown task 'hoper': did you mean hopper?");
    let expected = format!("{name}: qpos has 5 numbers; hopper expects 6");
    fails(&["replay", "hopper", &name], 2, &expected);
    let expected = format!("{}: qpos: EOF while parsing a list at line 1 column 14", torn.path());
    fails(&["replay", "hopper", torn.path()], 2, &expected);
    let expected = "/nowhere.json: cannot read it: No such file or directory (os error 2)";
    fails(&["replay", "hopper", "/nowhere.json"], 2, expected);
    let expected = "the following required arguments were not provided: <FILE>";
    fails(&["replay", "hopper"], 2, expected);
    let expected = "unrecognized subcommand 'tusks' (a similar subcommand exists: 'tasks')";
    fails(&["tusks"], 2, expected);
    let expected = "invalid value '0' for '--threads <THREADS>': 0 is not in 1..=1024";
    fails(&["bench", "tasks", "--threads", "0"], 2, expected);
    let expected = "invalid value '-1' for '--seed <SEED>': invalid digit found in string";
    fails(&["train", "ant", "--seed", "-1"], 2, expected);
}

#[test]
fn a_full_disk_fails_and_a_closed_pipe_does_not() {
    let full = std::fs::File::create("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ecrl"));
    let output = command.arg("tasks").stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: cannot write the output"));

    let mut command = Command::new(env!("CARGO_BIN_EXE_ecrl"));
    let mut child =
        command.arg("tasks").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
}

#[test]
fn bench_tasks_measures_every_task() {
    let args =
        ["bench", "tasks", "--json", "--threads", "2", "--milliseconds", "1", "--rounds", "1"];
    let report: Value = serde_json::from_slice(&ecrl(&args).stdout).unwrap();
    assert_eq!(report["threads"], 2);
    let tasks = report["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 5);
    for task in tasks {
        for figure in ["one_thread", "bare", "of_bare", "all_threads", "speedup"] {
            assert!(task[figure].as_f64().unwrap() > 0.0, "{task}");
        }
    }
}

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ecrl-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn list(&self, name: &str) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.0.join(name))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Options of a run that takes a second.
const SHORT: [&str; 10] = [
    "--steps",
    "600",
    "--set",
    "learning_starts=200",
    "--set",
    "hidden=[32,32]",
    "--set",
    "batch=32",
    "--set",
    "test.every=0",
];

fn train(args: &[&str]) -> Output {
    let output = ecrl(&[&["train"], args, &SHORT].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn train_writes_a_run_that_eval_and_config_read_back() {
    let folder = Folder::new("train");
    let run = folder.path("run");
    let args = [
        "Hopper-v4",
        "--algo",
        "rcpo",
        "--constraint",
        "torque<=0.3",
        "--constraint",
        "velocity<=25",
    ];
    let output = train(&[&args[..], &["--out", &run]].concat());
    for expected in ["reward", "torque", "velocity", "λ", "saved", "next:", "ecrl eval"] {
        assert!(stdout(&output).contains(expected), "{expected}: {}", stdout(&output));
    }
    let mut files = folder.list("run");
    assert!(files.remove(3).starts_with("events.out.tfevents."), "{files:?}");
    let expected = [
        "best.safetensors",
        "checkpoint",
        "config.toml",
        "metrics.jsonl",
        "origin.jsonl",
        "policy.safetensors",
        "run.lock",
    ];
    assert_eq!(files, expected);

    let metrics = std::fs::read_to_string(folder.path("run/metrics.jsonl")).unwrap();
    let mut steps = 0;
    for (i, line) in metrics.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["generation"], i + 1);
        assert!(line["env_steps"].as_u64().unwrap() > steps);
        steps = line["env_steps"].as_u64().unwrap();
        assert_eq!(line["learner_cost"].as_array().unwrap().len(), 2);
        assert_eq!(line["lambda_learner"].as_array().unwrap().len(), 2);
    }
    assert!(steps >= 600);

    let report: Value = serde_json::from_slice(&ecrl(&["eval", &run, "--json"]).stdout).unwrap();
    assert_eq!(report["task"], "hopper");
    assert_eq!(report["episodes"], 20);
    assert_eq!(report["constraints"][0]["constraint"], "mean(torque)<=0.3");
    let last = ecrl(&["eval", &run, "--policy", "final", "--episodes", "3"]);
    assert!(stdout(&last).contains("feasible"), "{last:?}");

    // The configuration alone repeats the run, to the bit.
    let again = folder.path("again");
    let config = folder.path("run/config.toml");
    let output =
        ecrl(&["train", "--config", &config, "--out", &again, "--threads", "1", "--quiet"]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    for name in ["config.toml", "policy.safetensors", "best.safetensors"] {
        let read = |run: &str| std::fs::read(folder.path(&format!("{run}/{name}"))).unwrap();
        assert!(read("run") == read("again"), "{name} differs");
    }
}

#[test]
fn evolution_is_recorded_and_does_not_depend_on_threads() {
    let folder = Folder::new("evolution");
    for algorithm in ["ecrl", "erl", "rcpo-erl"] {
        let run = |threads: &str| folder.path(&format!("{algorithm}-{threads}"));
        for threads in ["1", "2"] {
            train(&["hopper", "--algo", algorithm, "--threads", threads, "--out", &run(threads)]);
        }
        let read =
            |threads: &str, name: &str| std::fs::read(format!("{}/{name}", run(threads))).unwrap();
        for name in ["policy.safetensors", "best.safetensors", "population.jsonl"] {
            assert!(read("1", name) == read("2", name), "{algorithm}: {name} differs");
        }
        let metrics = |threads: &str| -> Vec<Value> {
            let text = String::from_utf8(read(threads, "metrics.jsonl")).unwrap();
            let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            lines
                .map(|mut line| {
                    line["seconds"] = Value::Null;
                    line["times"] = Value::Null;
                    line
                })
                .collect()
        };
        assert_eq!(metrics("1"), metrics("2"), "{algorithm}");
        let last = metrics("1").pop().unwrap();
        for key in [
            "champion_reward",
            "champion_cost",
            "population_reward_mean",
            "population_cost_mean",
            "population_feasible",
            "lambda_mean",
        ] {
            assert!(!last[key].is_null(), "{algorithm}: {key}");
        }
        let census = String::from_utf8(read("1", "population.jsonl")).unwrap();
        let census: Value = serde_json::from_str(census.lines().nth(1).unwrap()).unwrap();
        let individuals = census["individuals"].as_array().unwrap();
        assert_eq!(individuals.len(), 10);
        for (rank, one) in individuals.iter().enumerate() {
            assert_eq!(one["rank"], rank);
            assert_eq!(one["elite"], rank < 2);
            for key in
                ["slot", "reward", "cost", "violation", "lambda", "origin", "parents", "mutated"]
            {
                assert!(!one[key].is_null(), "{key}: {one}");
            }
        }
        let copies = &census["learner_copies"];
        let sum: u64 =
            ["elite", "selected", "discarded"].iter().map(|k| copies[k].as_u64().unwrap()).sum();
        assert_eq!(sum, 1, "the copy made in the first generation");
    }
}

#[test]
fn the_fixed_penalty_is_an_option() {
    let folder = Folder::new("lambda");
    let run = folder.path("run");
    train(&["hopper", "--algo", "erl-shaped", "--lambda", "0.1", "--out", &run]);
    let config = std::fs::read_to_string(folder.path("run/config.toml")).unwrap();
    assert!(config.contains("lambda = 0.1"), "{config}");
    let metrics = std::fs::read_to_string(folder.path("run/metrics.jsonl")).unwrap();
    assert!(metrics.lines().all(|line| line.contains("\"lambda_learner\":[0.1]")), "{metrics}");
}

#[test]
fn algorithms_are_listed_one_a_line() {
    let output = ecrl(&["algorithms"]);
    let names: Vec<&str> = stdout(&output).lines().map(|l| l.split(' ').next().unwrap()).collect();
    let expected = "ecrl erl erl-shaped rcpo-erl sr sr-shaped bc rcpo sac ipo ppo";
    assert_eq!(names.join(" "), expected);
}

#[test]
fn a_run_is_replaced_only_by_force_and_only_its_own_files() {
    let folder = Folder::new("force");
    let run = folder.path("run");
    train(&["swimmer", "--algo", "sac", "--out", &run]);
    std::fs::write(folder.path("run/notes.txt"), "mine").unwrap();
    let before = std::fs::read(folder.path("run/metrics.jsonl")).unwrap();
    let expected =
        format!("{run} holds a run already: choose another --out, or --force to replace it");
    fails(&["train", "swimmer", "--out", &run], 2, &expected);
    assert_eq!(std::fs::read(folder.path("run/metrics.jsonl")).unwrap(), before);
    train(&["swimmer", "--algo", "sac", "--seed", "1", "--out", &run, "--force"]);
    assert_ne!(std::fs::read(folder.path("run/metrics.jsonl")).unwrap(), before);
    assert_eq!(folder.list("run").len(), 9);
    assert_eq!(std::fs::read_to_string(folder.path("run/notes.txt")).unwrap(), "mine");
}

#[test]
fn bad_training_input_gets_one_line_and_writes_nothing() {
    let folder = Folder::new("bad");
    let run = folder.path("run");
    let torn = Temporary::new("torn.toml", b"steps = [");
    let file_message = format!("{} is a file; expected a folder for the run", torn.path());
    let torn_message = format!("{}: not valid TOML: line 1: ", torn.path());
    for (args, expected) in [
        (&["hoper"][..], "unknown task 'hoper': did you mean hopper?"),
        (&[], "no task given: expected one of those `ecrl tasks` lists"),
        (&["ant", "--algo", "rpco"], "unknown algorithm 'rpco': did you mean 'rcpo'?"),
        (
            &["ant", "--steps", "-5"],
            "--steps is '-5'; expected a whole number from 1 on, as in 200000, 50k or 1e6",
        ),
        (
            &["ant", "--constraint", "torque<=x"],
            "constraint 'torque<=x': expected a finite number after '<=', got 'x'",
        ),
        (&["ant", "--set", "alpah=1"], "unknown key 'alpah': did you mean 'sac.alpha'?"),
        (&["ant", "--set", "alpha={a=1}"], "sac.alpha: expected a single value, got a table"),
        (
            &["ant", "--algo", "erl", "--lambda", "5"],
            "--lambda has no effect on erl: expected an algorithm with penalties",
        ),
        (&["ant", "--lambda", "-1"], "multipliers.lambda is -1; expected a number from 0 on"),
        (&["ant", "--out", torn.path()], &file_message),
        (
            &["ant", "--checkpoint-every", "often"],
            "--checkpoint-every is 'often'; expected a time or a number of generations, as in 5min, 30s or 10gen",
        ),
        (&["ant", "--set", "gamma=2"], "sac.gamma is 2; expected a number from 0 to 1"),
        (
            &["ant", "--config", "/nowhere.toml"],
            "/nowhere.toml: No such file or directory (os error 2)",
        ),
        (&["ant", "--config", torn.path()], &torn_message),
    ] {
        let out: &[&str] = if args.contains(&"--out") { &[] } else { &["--out", &run] };
        let output = ecrl(&[&["train"], args, out].concat());
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.starts_with(&format!("error: {expected}")), "{args:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    assert!(!Path::new(&run).exists());
    let file = torn.path();
    fails(&["eval", file], 2, &format!("{file} is not a run: it holds no config.toml"));
    fails(&["eval", &run], 2, &format!("{run} is not a run: it holds no config.toml"));
    let output = ecrl(&["train", "ant", "--steps", "10", "--out", "/proc/nowhere"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.starts_with("error: /proc/nowhere: "), "{message}");
}

#[test]
fn policies_are_checked_before_use() {
    let folder = Folder::new("policies");
    let (hopper, swimmer) = (folder.path("hopper"), folder.path("swimmer"));
    train(&["hopper", "--algo", "sac", "--out", &hopper]);
    train(&["swimmer", "--algo", "sac", "--out", &swimmer]);
    let best = folder.path("hopper/best.safetensors");
    std::fs::copy(folder.path("swimmer/best.safetensors"), &best).unwrap();
    fails(&["eval", &hopper], 2, &format!("{best}: a policy of swimmer; expected one of hopper"));
    std::fs::write(&best, b"nonsense").unwrap();
    let message = String::from_utf8(ecrl(&["eval", &hopper]).stderr).unwrap();
    assert!(message.starts_with(&format!("error: {best}: not a safetensors file")), "{message}");
    std::fs::remove_file(&best).unwrap();
    let expected = format!("{best}: cannot read it: No such file or directory (os error 2)");
    fails(&["eval", &hopper], 2, &expected);
}

#[test]
fn ctrl_c_writes_what_there_is_and_exits_with_130() {
    let folder = Folder::new("ctrl-c");
    let run = folder.path("run");
    let child = Command::new(env!("CARGO_BIN_EXE_ecrl"))
        .args(["train", "half-cheetah", "--algo", "sac", "--out", &run])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first generation's updates take a minute: the signal comes in the midst of them.
    let config = folder.path("run/config.toml");
    while !Path::new(&config).exists() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    std::thread::sleep(std::time::Duration::from_secs(2));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(stdout(&output).contains("stopped sac on half-cheetah"), "{}", stdout(&output));
    assert!(stdout(&output).contains(&run));
    assert!(stdout(&output).contains("ecrl resume"), "{}", stdout(&output));
    let last = ecrl(&["eval", &run, "--policy", "final", "--episodes", "1"]);
    assert!(last.status.success(), "{last:?}");
}

/// Files of a run that must not depend on when it was interrupted; times are blanked.
fn lasting(run: &str) -> Vec<(String, Vec<u8>)> {
    ["config.toml", "policy.safetensors", "best.safetensors", "population.jsonl", "metrics.jsonl"]
        .into_iter()
        .map(|name| {
            let mut bytes = std::fs::read(format!("{run}/{name}")).unwrap();
            if name == "metrics.jsonl" {
                let text = String::from_utf8(bytes).unwrap();
                let blank = |line: &str| {
                    let mut line: Value = serde_json::from_str(line).unwrap();
                    line["seconds"] = Value::Null;
                    line["times"] = Value::Null;
                    line.to_string() + "\n"
                };
                bytes = text.lines().map(blank).collect::<String>().into_bytes();
            }
            (name.to_owned(), bytes)
        })
        .collect()
}

#[test]
fn a_run_killed_at_random_and_resumed_is_the_uninterrupted_run() {
    // `make chaos` asks for more.
    let wanted = std::env::var("ECRL_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(20u64);
    let steps = (600 * wanted).to_string();
    let folder = Folder::new("kill");
    let (whole, killed) = (folder.path("whole"), folder.path("killed"));
    let args = |out: &str| -> Vec<String> {
        let mut args = vec!["train", "hopper", "--steps", &steps, "--quiet", "--out", out];
        args.extend(["--checkpoint-every", "0.03s", "--set", "learning_starts=200"]);
        args.extend(["--set", "hidden=[64,64]", "--set", "batch=64", "--set", "test.every=300"]);
        args.into_iter().map(str::to_owned).collect()
    };
    let run = |args: &[String]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ecrl"));
        command.args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    assert!(run(&args(&whole)).wait().unwrap().success());

    // SIGKILL after a while that changes from time to time, checkpoint writing included; then to
    // the end.
    let resume: Vec<String> = ["resume", &killed, "--quiet", "--checkpoint-every", "0.03s"]
        .into_iter()
        .map(str::to_owned)
        .collect();
    let again = || {
        // Killed before it had begun, there is nothing to resume yet.
        let begun = Path::new(&killed).join("config.toml").exists();
        if begun { run(&resume) } else { run(&args(&killed)) }
    };
    let mut child = run(&args(&killed));
    for kill in 0..wanted {
        std::thread::sleep(std::time::Duration::from_millis(40 + kill * 37 % 100));
        assert!(child.try_wait().unwrap().is_none(), "at its end after only {kill} kills");
        child.kill().unwrap();
        child.wait().unwrap();
        child = again();
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (killed, whole) = (lasting(&killed), lasting(&whole));
    for ((name, killed), (_, whole)) in killed.iter().zip(&whole) {
        assert!(killed == whole, "{name} differs");
    }
}

#[test]
fn a_finished_run_can_take_more_steps_and_is_then_the_longer_run() {
    let folder = Folder::new("more");
    let (long, grown) = (folder.path("long"), folder.path("grown"));
    let more = ["--set", "learning_starts=200", "--set", "hidden=[32,32]", "--set", "batch=32"];
    let run = |args: &[&str]| {
        let output = ecrl(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    };
    run(&[&["train", "hopper", "--steps", "2000", "--out", &long][..], &more].concat());
    run(&[&["train", "hopper", "--steps", "900", "--out", &grown][..], &more].concat());
    let output = run(&["resume", &grown, "--steps", "2k"]);
    assert!(stdout(&output).contains("resuming at"), "{}", stdout(&output));
    assert_eq!(lasting(&grown), lasting(&long));
    // Asked again, it has nothing to do and says where it stands.
    let output = run(&["resume", &grown]);
    assert!(stdout(&output).contains("trained ecrl on hopper"), "{}", stdout(&output));
    assert_eq!(lasting(&grown), lasting(&long));
}

#[test]
fn a_run_in_use_is_refused_with_the_holder() {
    let folder = Folder::new("lock");
    let run = folder.path("run");
    let mut child = Command::new(env!("CARGO_BIN_EXE_ecrl"))
        .args(["train", "half-cheetah", "--quiet", "--out", &run])
        .spawn()
        .unwrap();
    while !Path::new(&run).join("config.toml").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let expected = format!("{run} is in use by process {}", child.id());
    fails(&["resume", &run], 2, &expected);
    fails(&["train", "half-cheetah", "--force", "--out", &run], 2, &expected);
    child.kill().unwrap();
    child.wait().unwrap();
    // The lock of a process that died is no lock.
    let mut child =
        Command::new(env!("CARGO_BIN_EXE_ecrl")).args(["resume", &run, "--quiet"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "it should be training");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_reader_that_leaves_does_not_stop_the_run() {
    let folder = Folder::new("reader");
    let run = folder.path("run");
    let args = [&["train", "hopper", "--algo", "sac", "--out", &run], &SHORT[..]].concat();
    let mut child = Command::new(env!("CARGO_BIN_EXE_ecrl"))
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
    let metrics = std::fs::read_to_string(folder.path("run/metrics.jsonl")).unwrap();
    let last: Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    assert!(last["env_steps"].as_u64().unwrap() >= 600, "{last}");
    assert!(ecrl(&["eval", &run, "--policy", "final", "--episodes", "1"]).status.success());
}

/// A small file system in memory, mounted on a folder until the test is over.
struct Mounted<'a>(&'a Folder);

impl<'a> Mounted<'a> {
    /// `None`, and said so, where mounting is not allowed.
    fn new(folder: &'a Folder, options: &str) -> Option<Self> {
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs", folder.0.to_str().unwrap()])
            .output();
        let mounted = mount.is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("not tried: mount is not allowed here");
        }
        mounted.then_some(Self(folder))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0.0).status();
    }
}

#[test]
fn a_full_disk_stops_training_and_leaves_no_half_policy() {
    let folder = Folder::new("full");
    let Some(_mounted) = Mounted::new(&folder, "size=200k") else { return };
    let run = folder.path("run");
    let output = ecrl(
        &[&["train", "hopper", "--algo", "sac", "--out", &run][..], &["--steps", "600"]].concat(),
    );
    let files = folder.list("run");
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("best.safetensors: No space left on device"), "{message}");
    assert!(
        !files.iter().any(|name| name.ends_with(".part") || name.ends_with(".safetensors")),
        "{files:?}"
    );
}

#[test]
fn a_disk_too_full_for_checkpoints_is_said_and_training_goes_on() {
    let folder = Folder::new("tight");
    let Some(_mounted) = Mounted::new(&folder, "size=300k") else { return };
    let run = folder.path("run");
    let args = [&["train", "hopper", "--algo", "sac", "--out", &run], &SHORT[..]].concat();
    let output = ecrl(&args);
    let checkpoints = folder.list("run/checkpoint");
    let eval = ecrl(&["eval", &run, "--policy", "final", "--episodes", "1"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.starts_with("warning: checkpoint not written: "), "{message}");
    assert!(message.contains("No space left on device"), "{message}");
    assert!(checkpoints.is_empty(), "{checkpoints:?}");
    assert!(eval.status.success(), "{eval:?}");
}

#[test]
fn a_read_only_folder_gets_one_line_and_keeps_what_it_holds() {
    let folder = Folder::new("read-only");
    let Some(_mounted) = Mounted::new(&folder, "size=4m") else { return };
    let (run, other) = (folder.path("run"), folder.path("other"));
    train(&["hopper", "--out", &run]);
    let before = lasting(&run);
    let remount = ["-o", "remount,ro", folder.0.to_str().unwrap()];
    assert!(Command::new("mount").args(remount).status().unwrap().success());
    let read_only = |path: &str| format!("{path}: Read-only file system (os error 30)");
    let lock = read_only(&format!("{run}/run.lock"));
    fails(&["resume", &run, "--steps", "1e6"], 1, &lock);
    fails(&["train", "hopper", "--out", &run, "--force"], 1, &lock);
    fails(&["train", "hopper", "--out", &other], 1, &read_only(&other));
    assert_eq!(lasting(&run), before);
    // Reading is all that eval does.
    assert!(ecrl(&["eval", &run, "--episodes", "1"]).status.success());
}

#[test]
fn a_damaged_checkpoint_is_said_and_the_one_before_it_taken() {
    let folder = Folder::new("damaged");
    let run = folder.path("run");
    train(&["hopper", "--out", &run, "--checkpoint-every", "1gen"]);
    let state = |number: u64| folder.path(&format!("run/checkpoint/state-{number}"));
    let newest = (1..100).rev().find(|&n| Path::new(&state(n)).exists()).unwrap();
    assert!(Path::new(&state(newest - 1)).exists(), "the one before it is kept");
    let whole = lasting(&run);
    let mut bytes = std::fs::read(state(newest)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(state(newest), bytes).unwrap();
    let output = ecrl(&["resume", &run]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{message}");
    let expected = format!(
        "warning: checkpoint {newest}: state-{newest} does not match its checksum: \
         going on from the checkpoint before it\n"
    );
    assert_eq!(message, expected);
    assert!(lasting(&run) == whole, "it comes to the same end");
    assert!(!Path::new(&state(newest)).exists(), "the damaged one makes room");
    assert!(Path::new(&state(newest - 1)).exists(), "and the whole one stays");
}

#[test]
fn bench_update_reports_every_figure() {
    let output = ecrl(&["bench", "update", "--json", "--threads", "1", "--rounds", "1"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for figure in ["threads", "ms_per_update", "gflops", "gemm_peak_gflops", "ratio", "action_us"] {
        assert!(report[figure].as_f64().unwrap() > 0.0, "{report}");
    }
    assert_eq!(report["precision"], "f32");
}

#[test]
fn bench_ppo_reports_every_figure() {
    let output = ecrl(&["bench", "ppo", "--json", "--threads", "2", "--rounds", "1"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for figure in ["threads", "collect_steps_per_s", "ms_per_minibatch", "steps_per_s"] {
        assert!(report[figure].as_f64().unwrap() > 0.0, "{report}");
    }
}

/// A grid of four runs of a second each.
const GRID: &str = r#"
    tasks = ["hopper", "swimmer"]
    algorithms = ["ipo", "sac learning_starts=500"]
    seeds = 1
    steps = 3000
    set = ["sac.hidden=[32,32]", "batch=32", "layers=[8,8]"]
"#;

#[test]
fn an_experiment_killed_and_started_again_is_the_uninterrupted_one() {
    let folder = Folder::new("grid");
    let grid = folder.path("grid.toml");
    std::fs::write(&grid, GRID).unwrap();
    let args = |out: &str| {
        let out = folder.path(out);
        ["paper", "--grid", &grid, "--out", &out, "--jobs", "2"].map(str::to_owned)
    };
    let run = |out: &str| {
        let output = ecrl(&args(out).iter().map(String::as_str).collect::<Vec<_>>());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        stdout(&output).to_owned()
    };
    let whole = run("whole");
    assert!(whole.starts_with("4 runs in ") && whole.contains("4 of 4 runs done"), "{whole}");

    for millis in [400, 900, 200] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ecrl"));
        let mut child = command.args(args("killed")).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(millis));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    run("killed");
    assert!(run("killed").contains(": 4 done"));
    for name in ["hopper-ipo-0", "swimmer-ipo-0", "hopper-sac_learning_starts=500-0"] {
        for file in ["policy.safetensors", "best.safetensors", "config.toml"] {
            let read = |out: &str| std::fs::read(folder.path(&format!("{out}/{name}/{file}")));
            assert!(read("whole").unwrap() == read("killed").unwrap(), "{name}/{file}");
        }
    }
}

#[test]
fn a_run_that_fails_does_not_stop_the_experiment() {
    let folder = Folder::new("grid-fails");
    let grid = folder.path("grid.toml");
    std::fs::write(&grid, GRID.replace("\"swimmer\"", "\"hopper\"")).unwrap();
    let out = folder.path("out");
    // The folder of one run is a file.
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(format!("{out}/hopper-ipo-0"), "x").unwrap();
    let output = ecrl(&["paper", "--grid", &grid, "--out", &out]);
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.starts_with("error: 1 failed, the first: hopper-ipo-0: "), "{message}");
    assert!(stdout(&output).contains("1 of 2 runs done"), "{}", stdout(&output));
}

#[test]
fn bad_experiments_get_one_line() {
    let folder = Folder::new("grid-bad");
    let grid = folder.path("grid.toml");
    std::fs::write(&grid, GRID.replace("ipo", "ipoo")).unwrap();
    let unknown = "hopper-ipoo-0: unknown algorithm 'ipoo': did you mean 'ipo'?";
    fails(&["paper", "--grid", &grid], 2, unknown);
    let shard = "--shard is '3/2'; expected I/N with I from 1 to N, as in 2/4";
    fails(&["paper", "--shard", "3/2"], 2, shard);
    fails(&["paper", "--seeds", "0"], 2, "seeds: expected at least one");
}

#[test]
fn an_episode_becomes_a_page_of_its_own() {
    let folder = Folder::new("play");
    let run = folder.path("run");
    train(&["ant", "--algo", "sac", "--out", &run]);
    let page = folder.path("a.html");
    let output = ecrl(&["play", &run, "--html", &page, "--episodes", "2", "--seed", "3"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The same episodes as those of eval.
    let eval = ecrl(&["eval", &run, "--episodes", "2", "--seed", "3", "--json"]);
    let eval: Value = serde_json::from_slice(&eval.stdout).unwrap();
    for (line, episode) in stdout(&output).lines().zip(eval["each"].as_array().unwrap()) {
        let (reward, steps) = (episode["reward"].as_f64().unwrap(), &episode["steps"]);
        assert!(line.contains(&format!("reward {reward:.1} in {steps} steps")), "{line} {episode}");
    }
    for name in ["a.html", "a-2.html"] {
        let text = std::fs::read_to_string(folder.path(name)).unwrap();
        assert!(text.len() < 5_000_000 && text.contains("sac on ant"), "{name}: {}", text.len());
    }
    fails(
        &["play", &folder.path("no")],
        2,
        &format!("{} is not a run: it holds no config.toml", folder.path("no")),
    );
}

#[test]
fn a_video_that_cannot_be_made_gets_one_line() {
    let folder = Folder::new("video");
    let run = folder.path("run");
    train(&["hopper", "--algo", "sac", "--out", &run]);
    let kind = "--video is 'a.avi'; expected .mp4, .webm or .gif";
    fails(&["play", &run, "--video", "a.avi"], 2, kind);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ecrl"));
    let output = command
        .args(["play", &run, "--video", &folder.path("a.mp4")])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    // Without EGL it does not even come to ffmpeg.
    let message = String::from_utf8(output.stderr).unwrap();
    let expected = ["error: cannot start ffmpeg, which --video needs: ", "error: cannot render: "];
    assert!(expected.iter().any(|start| message.starts_with(start)), "{message}");
    assert_eq!((output.status.code(), message.lines().count()), (Some(1), 1));
}

#[test]
fn policies_are_exported_in_every_form() {
    let folder = Folder::new("export");
    let run = folder.path("run");
    train(&["hopper", "--algo", "sac", "--out", &run]);
    for format in ["onnx", "safetensors", "json"] {
        let file = folder.path(format);
        let output = ecrl(&["export", &run, "--format", format, "--out", &file]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(std::fs::metadata(&file).unwrap().len() > 1000);
    }
    let best = std::fs::read(format!("{run}/best.safetensors")).unwrap();
    assert!(std::fs::read(folder.path("safetensors")).unwrap() == best);
    let nowhere = folder.path("nowhere");
    let missing = format!("{nowhere} is not a run: it holds no config.toml");
    fails(&["export", &nowhere, "--format", "onnx"], 2, &missing);
    std::fs::remove_file(format!("{run}/policy.safetensors")).unwrap();
    let output = ecrl(&["export", &run, "--format", "onnx", "--policy", "final"]);
    assert!(!output.status.success());
    assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1);
}
