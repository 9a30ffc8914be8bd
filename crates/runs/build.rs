//! Notes the commit that is built, for the files that carry it.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../../.git/logs/HEAD");
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let commit = output.ok().filter(|output| output.status.success());
    let commit = commit.and_then(|output| String::from_utf8(output.stdout).ok());
    let commit = commit.as_deref().map_or("unknown", str::trim);
    println!("cargo::rustc-env=ECRL_COMMIT={commit}");
}
