//! What the tests share: the command, folders that are gone afterwards, short runs.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

pub fn ecrl(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ecrl")).args(args).output().unwrap()
}

pub fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// A file that is gone when the test is over.
pub struct Temporary(PathBuf);

impl Temporary {
    pub fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("ecrl-test-{}-{name}", std::process::id()));
        std::fs::File::create(&path).unwrap().write_all(content).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub fn fails(args: &[&str], code: i32, expected: &str) {
    let output = ecrl(args);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    assert_eq!(message.trim_end(), format!("error: {expected}"), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
}

/// A folder that is gone when the test is over.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ecrl-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub fn list(&self, name: &str) -> Vec<String> {
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
pub const SHORT: [&str; 10] = [
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

pub fn train(args: &[&str]) -> Output {
    let output = ecrl(&[&["train"], args, &SHORT].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Files of a run that must not depend on when it was interrupted; times are blanked.
pub fn lasting(run: &str) -> Vec<(String, Vec<u8>)> {
    ["config.toml", "policy.safetensors", "best.safetensors", "population.jsonl", "metrics.jsonl"]
        .into_iter()
        .map(|name| {
            let mut bytes = std::fs::read(format!("{run}/{name}")).unwrap();
            if name == "metrics.jsonl" {
                let text = String::from_utf8(bytes).unwrap();
                let blank = |line: &str| {
                    let mut line: Value = serde_json::from_str(line).unwrap();
                    blank_times(&mut line);
                    line.to_string() + "\n"
                };
                bytes = text.lines().map(blank).collect::<String>().into_bytes();
            }
            (name.to_owned(), bytes)
        })
        .collect()
}

/// Leaves out of a line of metrics what differs from time to time.
pub fn blank_times(line: &mut Value) {
    for name in
        ["seconds", "seconds_collect", "seconds_updates", "seconds_tests", "seconds_physics"]
    {
        line[name] = Value::Null;
    }
}
