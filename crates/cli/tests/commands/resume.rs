//! A run that was stopped, killed or damaged goes on as if it had not been.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::*;

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
        let ended = child.try_wait().unwrap();
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(ended.is_none(), "at its end after only {kill} kills: {message}");
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
fn a_run_ends_when_it_has_come_to_what_was_asked() {
    let folder = Folder::new("until");
    let (run, again) = (folder.path("run"), folder.path("again"));
    let args = ["train", "hopper", "--algo", "ppo", "--preset", "fast", "--steps", "200k", "--out"];
    let output = ecrl(&[&args[..], &[&run, "--until", "reward>=60"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout(&output).contains("it has come to reward>=60"), "{}", stdout(&output));
    let lines = |run: &str| {
        let text = std::fs::read_to_string(format!("{run}/metrics.jsonl")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect::<Vec<serde_json::Value>>()
    };
    let (last, before) = {
        let mut all = lines(&run);
        (all.pop().unwrap(), all)
    };
    assert!(last["env_steps"].as_u64().unwrap() < 100_000, "{last}");
    assert!(last["learner_reward"].as_f64().unwrap() >= 60.0 && last["reached"] == true, "{last}");
    assert!(before.iter().all(|line| line["learner_reward"].as_f64().is_none_or(|r| r < 60.0)));
    // The best was tested again, as at the end of any run.
    assert!(ecrl(&["eval", &run, "--episodes", "1"]).status.success());
    // Its configuration repeats it; asked to go on, it has nothing to do unless something else is asked.
    let config = format!("{run}/config.toml");
    assert!(ecrl(&["train", "--config", &config, "--out", &again, "--quiet"]).status.success());
    let policy = |run: &str| std::fs::read(format!("{run}/policy.safetensors")).unwrap();
    assert!(policy(&run) == policy(&again));
    assert!(ecrl(&["resume", &run]).status.success());
    assert_eq!(lines(&run).len(), before.len() + 1);
    let steps = ecrl(&["resume", &run, "--steps", "300k"]);
    let message = String::from_utf8(steps.stderr).unwrap();
    assert_eq!(steps.status.code(), Some(2), "{message}");
    assert!(
        message.contains("when it had come to reward>=60; expected another --until"),
        "{message}"
    );
    let more = ecrl(&["resume", &run, "--until", "reward>=90"]);
    assert!(more.status.success(), "{}", String::from_utf8_lossy(&more.stderr));
    assert!(lines(&run).last().unwrap()["learner_reward"].as_f64().unwrap() >= 90.0);
    let message = "until 'rewrd>=1': expected a metric before the sign; did you mean 'reward'?";
    fails(&["train", "hopper", "--until", "rewrd>=1"], 2, message);
}

#[test]
fn a_run_starts_from_a_policy_and_says_so() {
    let folder = Folder::new("from");
    for (algorithm, more) in [("ppo", &["--steps", "8192"][..]), ("ecrl", &[])] {
        let (first, second) = (
            folder.path(&format!("{algorithm}-first")),
            folder.path(&format!("{algorithm}-second")),
        );
        let short: &[&str] = if more.is_empty() { &SHORT } else { more };
        let run = |args: &[&str]| {
            let args = [&["train", "hopper", "--algo", algorithm], args, short].concat();
            let output = ecrl(&args);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        run(&["--out", &first]);
        let policy = format!("{first}/policy.safetensors");
        run(&["--out", &second, "--from", &policy, "--seed", "1"]);
        let read = |path: String| std::fs::read(path).unwrap();
        assert!(read(policy.clone()) == read(format!("{second}/start.safetensors")));
        let config = read(format!("{second}/config.toml"));
        let config = String::from_utf8(config).unwrap();
        let start = config.lines().find(|line| line.starts_with("start = ")).unwrap();
        assert_eq!(start.len(), "start = \"01234567\"".len(), "{start}");
        // It is repeated only from the same policy.
        let path = format!("{second}/config.toml");
        let again = folder.path("again");
        let output = ecrl(&["train", "--config", &path, "--out", &again]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(message.contains("expected it after --from, found none"), "{message}");
        let from = format!("{second}/start.safetensors");
        let args =
            ["train", "--config", &path, "--out", &again, "--from", &from, "--quiet", "--force"];
        assert!(ecrl(&args).status.success());
        let end = |run: &str| std::fs::read(format!("{run}/policy.safetensors")).unwrap();
        assert!(end(&again) == end(&second), "{algorithm}");
        std::fs::remove_dir_all(&again).unwrap();
    }
    // A policy of other networks, or of another robot.
    let policy = folder.path("ppo-first/policy.safetensors");
    let output =
        ecrl(&["train", "hopper", "--algo", "sac", "--from", &policy, "--out", &folder.path("x")]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    let expected = "error: the policy to start from has layers [11, 256, 256, 6] with Tanh; expected layers \
                    [11, 256, 256, 6] with Relu\n";
    assert_eq!(message, expected);
    let other = "the policy to start from is one of hopper; expected one of ant";
    fails(&["train", "ant", "--algo", "ppo", "--from", &policy], 2, other);
    assert!(!Path::new(&folder.path("x")).exists());
}

#[test]
fn values_that_change_midway_are_noted() {
    let folder = Folder::new("changed");
    let run = folder.path("run");
    let args =
        ["train", "hopper", "--algo", "ipo", "--preset", "fast", "--steps", "6144", "--out", &run];
    assert!(ecrl(&args).status.success());
    let fixed = ecrl(&["resume", &run, "--steps", "20k", "--set", "hidden=[8]"]);
    let message = String::from_utf8(fixed.stderr).unwrap();
    let expected = "error: ppo.hidden cannot change in the midst of a run: expected one of the thresholds of \
                    constraints, steps, test.episodes, ";
    assert!(fixed.status.code() == Some(2) && message.starts_with(expected), "{message}");
    let cost = ecrl(&["resume", &run, "--steps", "20k", "--constraint", "velocity<=25"]);
    assert_eq!(cost.status.code(), Some(2));
    let changed =
        ["resume", &run, "--steps", "20k", "--set", "lr=1e-4", "--constraint", "torque<=0.3"];
    let output = ecrl(&changed);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| std::fs::read_to_string(format!("{run}/{name}")).unwrap();
    assert!(read("config.toml").contains("lr = 0.0001") && read("config.toml").contains("<=0.3"));
    let origin = read("origin.jsonl");
    let last: serde_json::Value = serde_json::from_str(origin.lines().last().unwrap()).unwrap();
    assert_eq!(last["at"], 6144);
    assert_eq!(last["changes"][1], "ppo.lr is 0.0001, not 0.0003", "{last}");
    // It goes on as it is now, even from a checkpoint of before, and says so again.
    let state = |n: u64| format!("{run}/checkpoint/state-{n}");
    let newest = (1..100).rev().find(|&n| Path::new(&state(n)).exists()).unwrap();
    std::fs::write(state(newest), "damaged").unwrap();
    let output = ecrl(&["resume", &run, "--steps", "24k"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && message.contains("the checkpoint before it"), "{message}");
    assert_eq!(read("origin.jsonl").matches("ppo.lr is 0.0001, not 0.0003").count(), 2);
    let report = ecrl(&["report", &run, "--out", &folder.path("report")]);
    let told = stdout(&report);
    assert!(told.contains("was changed at 6144 steps: constraints is "), "{told}");
    let table = std::fs::read_to_string(folder.path("report/table.md")).unwrap();
    assert!(table.contains("changed midway"), "{table}");
}
