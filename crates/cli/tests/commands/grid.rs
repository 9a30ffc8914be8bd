//! Many runs at once.

use std::process::{Command, Stdio};

use crate::common::*;

/// A grid of four runs of a second each.
const GRID: &str = r#"
    tasks = ["hopper", "swimmer"]
    algorithms = ["ipo", "sac learning_starts=500"]
    seeds = 1
    steps = 3000
    set = ["hidden=[16,16]", "batch=32"]
"#;

#[test]
fn an_experiment_killed_and_started_again_is_the_uninterrupted_one() {
    let folder = Folder::new("grid");
    let grid = folder.path("grid.toml");
    std::fs::write(&grid, GRID).unwrap();
    let args = |out: &str| {
        let out = folder.path(out);
        ["grid", &grid, "--out", &out, "--jobs", "2"].map(str::to_owned)
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
    let output = ecrl(&["grid", &grid, "--out", &out]);
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
    fails(&["grid", &grid], 2, unknown);
    let shard = "the shard is '3/2'; expected I/N with I from 1 to N, as in 2/4";
    fails(&["paper", "--shard", "3/2"], 2, shard);
    fails(&["paper", "--seeds", "0"], 2, "seeds: expected at least one");
}
