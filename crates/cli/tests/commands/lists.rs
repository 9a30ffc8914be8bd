//! What there is: tasks, algorithms, recorded actions; and input that is none.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::*;

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
fn algorithms_are_listed_one_a_line() {
    let output = ecrl(&["algorithms"]);
    let (list, combinations) = stdout(&output).split_once("\n\n").unwrap();
    let names: Vec<&str> = list.lines().map(|l| l.split(' ').next().unwrap()).collect();
    let expected = "ecrl erl erl-shaped rcpo-erl sr sr-shaped bc ecrl-ppo ecrl-sac es cem-rl cerl pderl supe-rl rcpo \
                    sac ipo ppo ppo-lag ppo-pid rcpo-ppo focops trpo trpo-lag cpo pcpo cup pdac sac-lag sac-pid td3 td3-lag metal";
    assert_eq!(names.join(" "), expected);
    // Which of what is put together by two values has a name.
    let words: Vec<Vec<&str>> =
        combinations.lines().map(|line| line.split_whitespace().collect()).collect();
    for named in [["sr-shaped", "stochastic", "fixed"], ["cem-rl", "reward", "none"]] {
        assert!(words.iter().any(|line| *line == named), "{combinations}");
    }
}

#[test]
fn an_algorithm_shows_its_values_presets_and_metrics() {
    let output = ecrl(&["algorithms", "sr"]);
    for expected in ["quick", "[evolution]", "pf = 0.45", "rule = \"none\"", "population_feasible"]
    {
        assert!(stdout(&output).contains(expected), "{expected}: {}", stdout(&output));
    }
    assert!(!stdout(&output).contains("lambda = "), "a value it has no use for");
    let unknown = "unknown algorithm 'rpco': did you mean 'rcpo'?";
    fails(&["algorithms", "rpco"], 2, unknown);
}

#[test]
fn completions_and_the_manual_know_every_command() {
    let commands = ["train", "resume", "eval", "grid", "paper", "report", "bench"];
    for shell in ["bash", "zsh", "fish"] {
        let script = ecrl(&["completions", shell]);
        assert!(commands.iter().all(|command| stdout(&script).contains(command)), "{shell}");
    }
    let manual = ecrl(&["man"]);
    assert!(stdout(&manual).starts_with(".ie"), "{}", stdout(&manual));
    for command in commands.into_iter().chain(["bench update"]) {
        let section = format!("ECRL {}", command.to_uppercase());
        assert!(stdout(&manual).contains(&section), "{section}");
    }
    assert!(stdout(&manual).contains("checkpoint"), "with the options of each");
}

#[test]
fn runs_are_listed_and_compared() {
    let folder = Folder::new("list");
    let (a, b) = (folder.path("a"), folder.path("b"));
    train(&["hopper", "--algo", "sac", "--out", &a]);
    train(&["hopper", "--algo", "rcpo", "--constraint", "torque<=0.3", "--out", &b]);
    let all = folder.path("");
    let table = ecrl(&["runs", &all]);
    let lines: Vec<&str> = stdout(&table).lines().collect();
    assert_eq!(lines.len(), 3, "{table:?}");
    let head: Vec<&str> = lines[0].split_whitespace().collect();
    let expected = ["run", "task", "algorithm", "steps", "return", "constraints", "state", "age"];
    assert_eq!(head, expected);
    assert!(lines[1].starts_with("a") && lines[2].contains("mean(torque)<=0.3: "), "{table:?}");
    let back = ecrl(&["runs", &all, "--sort", "algorithm", "--reverse", "--json"]);
    let back: Value = serde_json::from_slice(&back.stdout).unwrap();
    let named = |i: usize| back[i]["algorithm"].as_str().unwrap().split(' ').next().unwrap();
    assert_eq!((named(0), named(1)), ("sac", "rcpo"));
    let (found, metrics) =
        (&back[1], std::fs::read_to_string(format!("{b}/metrics.jsonl")).unwrap());
    let last: Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    assert_eq!(found["reward"], last["best_reward"]);
    assert_eq!(found["constraints"][0]["sampled"], last["best_sampled_cost"][0]);
    assert_eq!((&found["state"], &found["steps"]), (&"finished".into(), &last["env_steps"]));

    let text = ecrl(&["compare", &a, &b]);
    let text = stdout(&text);
    for expected in
        ["algorithm", "\"sac\"", "\"rcpo\"", "mean(torque)<=0.3", "last return", "steps\n"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("sac.gamma"), "what is the same is not told: {text}");
    let same = ecrl(&["compare", &a, &a]);
    assert!(stdout(&same).contains("all values are the same"), "{same:?}");
    fails(&["compare", &all, &a], 2, &format!("{all} holds 2 runs; expected one run directory"));
    fails(
        &["export", &a, "--format", "torch"],
        2,
        "invalid value 'torch' for '--format <FORMAT>'; expected one of onnx, safetensors, json",
    );
}
