//! Nothing is lost that is not ours, and nothing of ours in silence.

use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::*;

fn write(path: &str, text: &str) {
    std::fs::create_dir_all(Path::new(path).parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// A run that takes long, once it has begun.
fn long(run: &str, more: &[&str]) -> Child {
    let args = ["train", "hopper", "--algo", "ppo", "--preset", "fast", "--out", run];
    let child = Command::new(env!("CARGO_BIN_EXE_ecrl"))
        .args(args)
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(|| std::fs::read(format!("{run}/metrics.jsonl")).is_ok_and(|m| !m.is_empty()));
    child
}

fn wait_for(there: impl Fn() -> bool) {
    for _ in 0..6000 {
        if there() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came");
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn what_is_in_the_folder_already_stays() {
    let folder = Folder::new("foreign");
    let run = folder.path("run");
    let mine = ["checkpoint/model.pt", "events.out.tfevents.1699999999.host.77.0", "notes.txt"];
    for name in mine {
        write(&format!("{run}/{name}"), "mine");
    }
    let unharmed = || {
        for name in mine {
            assert_eq!(read(&format!("{run}/{name}")), "mine", "{name}");
        }
    };
    // What is left of a run that was killed while it began is no hindrance.
    write(&format!("{run}/config.toml.ecrl-part"), "task = ");
    train(&["swimmer", "--algo", "sac", "--out", &run]);
    assert!(!Path::new(&format!("{run}/config.toml.ecrl-part")).exists());
    unharmed();
    let output = ecrl(&["resume", &run, "--steps", "9000"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    unharmed();
    train(&["swimmer", "--algo", "sac", "--out", &run, "--force"]);
    unharmed();
}

#[test]
fn a_folder_that_is_no_run_is_not_replaced_even_by_force() {
    let folder = Folder::new("no-run");
    for (name, text) in [
        ("config.toml", "[server]\nport = 1\n"),
        ("metrics.jsonl", "{}"),
        ("policy.safetensors", "x"),
        ("checkpoint/state-3", "x"),
    ] {
        let run = folder.path(&format!("no-{}", name.replace('/', "-")));
        write(&format!("{run}/{name}"), text);
        let expected = format!(
            "{run} holds {name}, and is not a run: choose another --out, or move that away"
        );
        for force in [&["--force"][..], &[]] {
            fails(&[&["train", "hopper", "--out", &run], force].concat(), 2, &expected);
        }
        assert_eq!(read(&format!("{run}/{name}")), text);
    }
    for text in ["of another program", "4321\n"] {
        let run = folder.path("locked");
        write(&format!("{run}/run.lock"), text);
        let expected =
            format!("{run}/run.lock is not a run's own: move it away, or choose another --out");
        fails(&["train", "hopper", "--out", &run], 2, &expected);
        assert_eq!(read(&format!("{run}/run.lock")), text);
    }
    // Nor does a grid leave its mark there.
    let (grid, out) = (folder.path("grid.toml"), folder.path("out"));
    write(&grid, "tasks = ['hopper']\nalgorithms = ['sac']\nseeds = 1\nsteps = 500\n");
    for name in ["failure.txt", "metrics.jsonl"] {
        write(&format!("{out}/hopper-sac-0/{name}"), "mine");
    }
    assert_eq!(ecrl(&["grid", &grid, "--out", &out]).status.code(), Some(1));
    assert_eq!(read(&format!("{out}/hopper-sac-0/failure.txt")), "mine");
}

#[test]
fn links_in_the_place_of_a_runs_files_are_not_followed() {
    let folder = Folder::new("links");
    let victim = folder.path("victim");
    write(&victim, "mine");
    let link = "it is a link; expected a file of the run's own";
    for name in ["run.lock", "config.toml.ecrl-part"] {
        let run = folder.path(&format!("new-{name}"));
        std::fs::create_dir_all(&run).unwrap();
        symlink(&victim, format!("{run}/{name}")).unwrap();
        let output = ecrl(&["train", "hopper", "--out", &run]);
        assert_ne!(output.status.code(), Some(0), "{name}");
        assert_eq!(read(&victim), "mine", "{name}");
    }
    let run = folder.path("run");
    train(&["hopper", "--algo", "sac", "--out", &run]);
    for name in ["run.lock", "metrics.jsonl", "config.toml.ecrl-part", "origin.jsonl"] {
        let (file, aside) = (format!("{run}/{name}"), folder.path("aside"));
        let there = std::fs::rename(&file, &aside).is_ok();
        symlink(&victim, &file).unwrap();
        let output = ecrl(&["resume", &run, "--steps", "2000"]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}: {message}");
        assert!(message.contains(link) || message.contains("bytes; its checkpoint"), "{message}");
        assert_eq!(read(&victim), "mine", "{name}");
        std::fs::remove_file(&file).unwrap();
        if there {
            std::fs::rename(&aside, &file).unwrap();
        }
    }
    // What is passed over is not removed either.
    for name in ["failure.txt", "events.out.tfevents.1.ecrl"] {
        symlink(&victim, format!("{run}/{name}")).unwrap();
    }
    assert!(ecrl(&["resume", &run]).status.success());
    for name in ["failure.txt", "events.out.tfevents.1.ecrl"] {
        assert!(Path::new(&format!("{run}/{name}")).is_symlink(), "{name}");
    }
    // The folder of checkpoints itself.
    let (inside, aside) = (format!("{run}/checkpoint"), folder.path("aside"));
    std::fs::rename(&inside, &aside).unwrap();
    symlink(&aside, &inside).unwrap();
    let before = folder.list("aside");
    for args in [&["resume", &run][..], &["train", "hopper", "--out", &run, "--force"]] {
        let message = String::from_utf8(ecrl(args).stderr).unwrap();
        assert!(message.contains("it is a link; expected a folder of the run's own"), "{message}");
    }
    assert_eq!(folder.list("aside"), before);
}

#[test]
fn a_finished_run_of_other_values_does_not_count_as_done() {
    let folder = Folder::new("other-values");
    let (grid, out) = (folder.path("grid.toml"), folder.path("out"));
    let text = "tasks = ['hopper']\nalgorithms = ['sac learning_starts=500']\nseeds = 1\n\
                steps = 1000\nset = ['hidden=[16]', 'batch=32']\n";
    let run = |text: &str| {
        write(&grid, text);
        let output = ecrl(&["grid", &grid, "--out", &out]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(text), (Some(0), String::new()));
    let policy =
        || std::fs::read(format!("{out}/hopper-sac_learning_starts=500-0/policy.safetensors"));
    let before = policy().unwrap();
    for (from, to, expected) in [
        ("[16]", "[8]", "sac.hidden is [8], not [16]"),
        ("1000", "900", "steps is 900, not 1000"),
        (
            "set",
            "constraints = ['torque<=0.3']\nset",
            "constraints is [\"mean(torque)<=0.3\"], not",
        ),
    ] {
        let (code, message) = run(&text.replace(from, to));
        assert_eq!(code, Some(1), "{message}");
        assert!(message.contains("holds a run with other values: "), "{message}");
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(policy().unwrap(), before);
    // More steps are no other values.
    assert_eq!(run(&text.replace("1000", "1500")).0, Some(0));
}

#[test]
fn a_run_whose_folder_was_removed_ends_and_leaves_its_successor_alone() {
    let folder = Folder::new("removed");
    let run = folder.path("run");
    let first = long(&run, &["--checkpoint-every", "1gen"]);
    std::fs::rename(&run, folder.path("gone")).unwrap();
    // Until it sees that, it may write into what is being removed.
    wait_for(|| std::fs::remove_dir_all(folder.path("gone")).is_ok());
    train(&["swimmer", "--algo", "sac", "--out", &run]);
    let output = first.wait_with_output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    // In between it may have seen that it was moved.
    let expected = " was removed while the run was going, or another is in its place: nothing more was written";
    let last = message.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: ") && last.ends_with(expected), "{message}");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(!told.contains("saved:") && !told.contains("next:"), "{told}");
    let output = ecrl(&["eval", &run, "--episodes", "1"]);
    assert!(stdout(&output).contains("sac on swimmer"), "{output:?}");
    assert!(ecrl(&["resume", &run]).status.success());
}

#[test]
fn a_run_that_is_moved_goes_on_where_it_is_now() {
    let folder = Folder::new("moved");
    let (run, there) = (folder.path("run"), folder.path("there"));
    let child = long(&run, &["--checkpoint-every", "1gen"]);
    // Without its lock alone it takes another.
    std::fs::remove_file(format!("{run}/run.lock")).unwrap();
    wait_for(|| Path::new(&format!("{run}/run.lock")).exists());
    std::fs::rename(&run, &there).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(143), "{message}");
    assert_eq!(message, format!("warning: the run was moved: going on in {there}\n"));
    assert!(String::from_utf8(output.stdout).unwrap().contains(&format!("saved: {there}")));
    assert!(!Path::new(&run).exists());
    assert!(ecrl(&["eval", &there, "--policy", "final", "--episodes", "1"]).status.success());
}

#[test]
fn fewer_steps_than_were_taken_are_refused() {
    let folder = Folder::new("fewer");
    let run = folder.path("run");
    train(&["hopper", "--algo", "sac", "--out", &run]);
    let before = lasting_of(&run);
    let metrics = read(&format!("{run}/metrics.jsonl"));
    let last: serde_json::Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    let expected = format!(
        "{run} has taken {} steps already; expected --steps above that, or none to leave it at 600",
        last["env_steps"]
    );
    fails(&["resume", &run, "--steps", "100"], 2, &expected);
    assert_eq!(lasting_of(&run), before);
    assert!(ecrl(&["resume", &run, "--steps", "600"]).status.success());
}

/// Files of a run without a population that do not tell of when it was made.
fn lasting_of(run: &str) -> Vec<Vec<u8>> {
    ["config.toml", "policy.safetensors", "best.safetensors", "metrics.jsonl"]
        .map(|name| std::fs::read(format!("{run}/{name}")).unwrap())
        .to_vec()
}

#[test]
fn numbers_that_grow_out_of_bounds_are_named_when_they_do() {
    let folder = Folder::new("infinite");
    for (algorithm, expected) in [("ecrl", "lambda"), ("rcpo", "lambda")] {
        let run = folder.path(algorithm);
        let args = ["train", "hopper", "--algo", algorithm, "--out", &run, "--set", "eta=1e308"];
        let more = ["--constraint", "sum(torque)<=0.001"];
        let output = ecrl(&[&args[..], &more, &SHORT].concat());
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        let expected = format!("{expected} is not finite any more; kept the last policy that was");
        assert!(message.contains(&expected), "{message}");
        assert!(!read(&format!("{run}/metrics.jsonl")).contains("null"));
        let eval = ecrl(&["eval", &run, "--policy", "final", "--episodes", "1"]);
        assert!(eval.status.success(), "{eval:?}");
    }
    let bound = "constraint 'torque<=-1e200': expected a number from -1e30 to 1e30 after '<=', got '-1e200'";
    fails(&["train", "hopper", "--constraint", "torque<=-1e200"], 2, bound);
}

#[test]
fn a_resume_that_cannot_write_leaves_the_logs_as_they_are() {
    let folder = Folder::new("no-writing");
    let run = folder.path("run");
    train(&["hopper", "--algo", "sac", "--out", &run]);
    // As after a kill: more lines than the checkpoint knows of.
    let metrics = format!("{run}/metrics.jsonl");
    let more = read(&metrics) + "{\"generation\":99}\n";
    std::fs::write(&metrics, &more).unwrap();
    let allowed = Command::new("chmod").args(["-R", "a+rw", &run]).status().unwrap();
    assert!(allowed.success());
    assert!(Command::new("chmod").args(["a-w", &run]).status().unwrap().success());
    // Root may write anywhere: somebody else then.
    let mut command = Command::new(env!("CARGO_BIN_EXE_ecrl"));
    // SAFETY: it only asks.
    if unsafe { libc::geteuid() } == 0 {
        command.uid(65534).gid(65534);
    }
    let output = command.args(["resume", &run, "--steps", "2000"]).output();
    assert!(Command::new("chmod").args(["u+w", &run]).status().unwrap().success());
    match output {
        // The program itself may be where only root may look.
        Err(error) => eprintln!("not tried: {error}"),
        Ok(output) if output.status.code() == Some(127) => eprintln!("not tried: {output:?}"),
        Ok(output) => {
            let message = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{message}");
            assert!(message.contains("Permission denied"), "{message}");
            assert_eq!(read(&metrics), more);
        }
    }
}

#[test]
fn a_closed_terminal_leaves_a_checkpoint_and_nohup_goes_on() {
    let folder = Folder::new("hangup");
    let run = folder.path("run");
    let child = long(&run, &[]);
    signal(&child, "HUP");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(129), "{output:?}");
    assert!(Path::new(&format!("{run}/checkpoint/manifest-1")).exists());

    let run = folder.path("nohup");
    let mut child = Command::new("nohup")
        .arg(env!("CARGO_BIN_EXE_ecrl"))
        .args(["train", "hopper", "--algo", "ppo", "--preset", "fast", "--out", &run])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(|| std::fs::read(format!("{run}/metrics.jsonl")).is_ok_and(|m| !m.is_empty()));
    signal(&child, "HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_damaged_policy_is_refused_wherever_it_is_used() {
    let folder = Folder::new("flipped");
    let run = folder.path("run");
    train(&["hopper", "--algo", "sac", "--out", &run]);
    let best = format!("{run}/best.safetensors");
    let mut bytes = std::fs::read(&best).unwrap();
    let last = bytes.len() - 3;
    bytes[last] ^= 1;
    std::fs::write(&best, &bytes).unwrap();
    let expected = format!("{best}: damaged: it does not match its checksum");
    let onnx = folder.path("a.onnx");
    for args in [
        &["eval", &run][..],
        &["play", &run, "--html", &onnx],
        &["export", &run, "--format", "onnx", "--out", &onnx],
    ] {
        fails(args, 2, &expected);
    }
    assert!(!Path::new(&onnx).exists());
    let output = ecrl(&["resume", &run]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message, format!("warning: {expected}: it is written anew\n"));
    assert!(ecrl(&["eval", &run, "--episodes", "1"]).status.success());
    // Metrics, too, are known again.
    let metrics = format!("{run}/metrics.jsonl");
    std::fs::write(&metrics, read(&metrics).replacen("\"generation\":1,", "\"generation\":7,", 1))
        .unwrap();
    let message = String::from_utf8(ecrl(&["resume", &run]).stderr).unwrap();
    assert!(message.starts_with(&format!("warning: {metrics} has been changed")), "{message}");
}

#[test]
fn a_log_that_was_lost_does_not_lose_the_run() {
    let folder = Folder::new("lost-log");
    let (run, whole) = (folder.path("run"), folder.path("whole"));
    train(&["hopper", "--algo", "sac", "--out", &run]);
    train(&["hopper", "--algo", "sac", "--out", &whole]);
    std::fs::remove_file(format!("{run}/metrics.jsonl")).unwrap();
    for run in [&run, &whole] {
        let output = ecrl(&["resume", run, "--steps", "9000"]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{message}");
        assert_eq!(message.contains("metrics.jsonl has been changed"), run.ends_with("run"));
    }
    let policy = |run: &str| std::fs::read(format!("{run}/policy.safetensors")).unwrap();
    assert!(policy(&run) == policy(&whole));
}

#[test]
fn nothing_that_a_user_has_is_overwritten_by_what_a_user_asks_for() {
    let folder = Folder::new("outputs");
    let run = folder.path("run");
    train(&["hopper", "--algo", "sac", "--out", &run]);
    // The run's own files, not even by the default name.
    let before = std::fs::read(format!("{run}/policy.safetensors")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ecrl"))
        .args(["export", ".", "--format", "safetensors"])
        .current_dir(&run)
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message, "error: policy.safetensors is a run's own: choose another name\n");
    assert!(std::fs::read(format!("{run}/policy.safetensors")).unwrap() == before);
    for (name, args) in [
        ("a.onnx", &["export", &run, "--format", "onnx", "--out"][..]),
        ("a.json", &["export", &run, "--format", "json", "--out"]),
        ("a.safetensors", &["export", &run, "--format", "safetensors", "--out"]),
        ("a.html", &["play", &run, "--of", "1", "--html"]),
        ("a.mp4", &["play", &run, "--of", "1", "--size", "64x48", "--video"]),
    ] {
        let file = folder.path(name);
        let command = [args, &[&file]].concat();
        let expected = format!("{file} is there already, and not of ecrl: choose another name");
        write(&file, "mine");
        fails(&command, 2, &expected);
        assert_eq!(read(&file), "mine");
        // Nor is a link followed.
        let elsewhere = folder.path("elsewhere");
        std::fs::remove_file(&file).unwrap();
        symlink(&elsewhere, &file).unwrap();
        fails(&command, 2, &expected);
        assert!(!Path::new(&elsewhere).exists());
        std::fs::remove_file(&file).unwrap();
        if name == "a.mp4" && Command::new("ffmpeg").arg("-version").output().is_err() {
            eprintln!("not tried: there is no ffmpeg");
            continue;
        }
        // One's own is.
        for _ in 0..2 {
            let output = ecrl(&command);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}
