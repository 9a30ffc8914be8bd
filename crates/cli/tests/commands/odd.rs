//! Names, pipes, sizes and streams that nobody would think of get one line.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::*;

#[test]
fn strange_names_pipes_and_sizes_get_one_line() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = Folder::new("strange");
    let mut name = folder.0.join("run").into_os_string();
    name.push(std::ffi::OsStr::from_bytes(b"-\xff"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_ecrl"));
    let output = command.args(["train", "hopper", "--algo", "sac", "--out"]).arg(&name).args(SHORT);
    let output = output.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let run = folder.path("run");
    train(&["hopper", "--algo", "sac", "--out", &run]);
    for name in ["best.safetensors", "config.toml"] {
        let file = format!("{run}/{name}");
        let aside = folder.path("aside");
        std::fs::rename(&file, &aside).unwrap();
        assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
        fails(&["eval", &run], 2, &format!("{file}: cannot read it: it is no plain file"));
        std::fs::remove_file(&file).unwrap();
        std::fs::rename(&aside, &file).unwrap();
    }
    for (args, expected) in [
        (&["train", "hopper", "--set", "buffer=9000000000000000000"][..], "multipliers.buffer is "),
        (
            &["paper", "--seeds", "9000000000000000000"],
            "seeds is 9000000000000000000; expected 1 to 10000",
        ),
        (
            &["eval", &run, "--episodes", "4000000000"],
            "invalid value '4000000000' for '--episodes ",
        ),
        (
            &["train", "hopper", "--set", "steps=9000000000000000000"],
            "steps is 9000000000000000000; ",
        ),
    ] {
        let output = ecrl(args);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.starts_with(&format!("error: {expected}")), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    // Under a limit of two gigabytes.
    let large = folder.path("large");
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 2000000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_ecrl")])
        .args([
            "train",
            "hopper",
            "--set",
            "hidden=[10000,10000]",
            "--threads",
            "1",
            "--out",
            &large,
        ])
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.starts_with("error: out of memory: "), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(!Path::new(&large).exists());
}

#[test]
fn nobody_who_reads_warnings_is_no_reason_to_end() {
    let folder = Folder::new("no-stderr");
    let run = folder.path("run");
    train(&["hopper", "--algo", "sac", "--out", &run]);
    // A warning is due: the policy is damaged.
    std::fs::write(format!("{run}/policy.safetensors"), "x").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_ecrl"))
        .args(["resume", &run, "--steps", "1500", "--quiet"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // And an error has its exit code all the same.
    let mut child = Command::new(env!("CARGO_BIN_EXE_ecrl"))
        .args(["eval", "/nowhere"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn what_a_run_says_of_itself_cannot_steer_the_terminal() {
    let folder = Folder::new("escapes");
    let run = folder.path("run");
    train(&["hopper", "--algo", "sac", "--out", &run]);
    let config = format!("{run}/config.toml");
    std::fs::write(
        &config,
        std::fs::read_to_string(&config).unwrap().replace("\"hopper\"", "\"\\u001b[2Jhop\""),
    )
    .unwrap();
    let output = ecrl(&["eval", &run]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("unknown task '\\u{1b}[2Jhop'"), "{message}");
}
