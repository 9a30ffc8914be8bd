//! A run from its command to its files.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::*;

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
    // A generation of five episodes is played whole, and that is said before and after.
    let note = "note: generations are played whole, up to 5000 steps: it may be more than 600\n";
    assert!(stdout(&output).starts_with(note), "{}", stdout(&output));
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
    let (mean, sampled) = (&report["mean_action"], &report["sampled_actions"]);
    assert_eq!((&mean["episodes"], &sampled["episodes"]), (&20.into(), &20.into()));
    assert_eq!(mean["constraints"][0]["constraint"], "mean(torque)<=0.3");
    assert_ne!(mean["reward_mean"], sampled["reward_mean"]);
    let both = mean["feasible"] == true && sampled["feasible"] == true;
    assert_eq!(report["feasible"], both);
    let last = ecrl(&["eval", &run, "--policy", "final", "--episodes", "3"]);
    for expected in ["mean action\n", "sampled actions\n", "\nfeasible: "] {
        assert!(stdout(&last).contains(expected), "{last:?}");
    }
    let sampled = ecrl(&["eval", &run, "--sample", "--episodes", "3"]);
    let sampled = stdout(&sampled);
    assert!(sampled.contains("sampled actions") && !sampled.contains("mean action"), "{sampled}");

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
                    blank_times(&mut line);
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
            "constraint 'torque<=x': expected a number from -1e30 to 1e30 after '<=', got 'x'",
        ),
        (&["ant", "--set", "alpah=1"], "unknown key 'alpah': did you mean 'sac.alpha'?"),
        (&["ant", "--set", "alpha={a=1}"], "sac.alpha: expected a single value, got a section"),
        (
            &["ant", "--algo", "erl", "--lambda", "5"],
            "key 'multipliers.lambda' does not apply to erl: expected one of task, algorithm, ",
        ),
        (
            &["ant", "--algo", "erl", "--set", "lambda=0.1"],
            "key 'lambda' does not apply to erl: expected one of task, algorithm, ",
        ),
        (
            &["ant", "--preset", "best"],
            "ecrl has no preset 'best': expected one of paper, authors, quick",
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

#[test]
fn progress_fits_a_narrow_terminal() {
    let folder = Folder::new("terminal");
    let run = folder.path("run");
    // A real one, of 50 columns.
    let typed = "stty cols 50 rows 12; exec \"$ECRL\" train hopper --algo ipo --preset fast --steps 20k \
                 --constraint 'torque<=0.4' --constraint 'velocity<=25' --out \"$RUN\"";
    let output = Command::new("script")
        .args(["-qec", typed, "/dev/null"])
        .env("ECRL", env!("CARGO_BIN_EXE_ecrl"))
        .env("RUN", &run)
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        eprintln!("not tried: there is no script(1) here");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let drawn: Vec<&str> = text
        .split("\x1b[2K")
        .skip(1)
        .map(|part| part.split(['\r', '\n']).next().unwrap())
        .collect();
    assert!(drawn.iter().any(|line| line.starts_with("learner")), "{text:?}");
    assert!(drawn.iter().all(|line| line.chars().count() < 50), "{drawn:?}");
    // What was drawn is drawn over: it goes up by as many lines as it had drawn.
    let frames: Vec<&str> = text.split("\x1b[J").collect();
    for pair in frames.windows(2).filter(|pair| pair[1].contains("\x1b[2K")) {
        let before = pair[0].matches("\x1b[2K").count();
        assert!(pair[1].starts_with(&format!("\x1b[{before}A")), "{pair:?}");
    }
}
