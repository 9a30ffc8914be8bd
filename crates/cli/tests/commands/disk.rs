//! Disks that are full or read-only.

use std::process::Command;

use crate::common::*;

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
    let told = String::from_utf8(output.stdout).unwrap();
    let saved = told.lines().find(|line| line.starts_with("saved: ")).unwrap();
    assert!(saved.ends_with(", but not the last policy"), "{told}");
    assert!(
        !files.iter().any(|name| name.ends_with(".ecrl-part") || name.ends_with(".safetensors")),
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
