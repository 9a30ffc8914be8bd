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
fn the_papers_figures_come_from_one_command() {
    let folder = Folder::new("paper");
    let out = folder.path("out");
    // Every agent on every robot, but hardly at all.
    let tiny = [
        "learning_starts=900000",
        "hidden=[8]",
        "population=2",
        "elites=1",
        "learner.episodes=1",
        "collect=600",
        "epochs=1",
        "test.episodes=1",
        "retest_episodes=1",
    ];
    let args = ["paper", "--figure", "all", "--seeds", "1", "--steps", "7000", "--out", &out];
    let set = tiny.iter().flat_map(|text| ["--set", text]);
    let output = ecrl(&args.into_iter().chain(set).collect::<Vec<_>>());
    let text = stdout(&output);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("80 of 80 runs done"), "{text}");
    for (figure, agents) in [
        (
            "dilemma",
            "ERL RCPO-ERL ERL_0.00001 ERL_0.0001 ERL_0.001 ERL_0.01 ERL_0.1 ERL_1 ERL_10 ERL_100",
        ),
        ("compare", "ECRL RCPO IPO RCPO-ERL ERL_0.001 ERL"),
        ("ablation", "ECRL SR SR_λ B_C"),
    ] {
        assert!(text.contains(&format!("{figure}.html: ")), "{text}");
        let svg = std::fs::read_to_string(format!("{out}/{figure}.svg")).unwrap();
        // Reward above, constraint below, five robots in the paper's order, its line-up in its order.
        let mut titles = Vec::new();
        for robot in ["Ant", "HalfCheetah", "Walker2d", "Hopper", "Swimmer"] {
            titles.extend([format!("{robot}: reward"), format!("{robot}: mean torque")]);
        }
        let names = agents.split(' ').map(|name| format!(">{name}</text>"));
        let mut rest = &svg[..];
        for expected in titles.into_iter().chain(names) {
            let at = rest
                .find(&expected)
                .unwrap_or_else(|| panic!("{figure}: no {expected}, or too early"));
            rest = &rest[at + expected.len()..];
        }
        assert_eq!(svg.matches("class=\"threshold\"").count(), 5, "{figure}");
        let curves = svg.matches("class=\"series\"").count();
        assert_eq!(curves, 10 * agents.split(' ').count(), "{figure}");
        let page = std::fs::read_to_string(format!("{out}/{figure}.html")).unwrap();
        assert!(page.contains("the paper says") && page.contains("These runs have 7000 steps"));
        assert!(std::fs::metadata(format!("{out}/{figure}.png")).unwrap().len() > 10_000);
    }
    // The default is labelled as what it is.
    let table = std::fs::read_to_string(format!("{out}/report/table.csv")).unwrap();
    assert!(table.contains("erl-shaped lambda=0.001"), "{table}");
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
