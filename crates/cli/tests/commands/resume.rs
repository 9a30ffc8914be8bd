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
