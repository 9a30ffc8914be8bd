//! Grids run by run, and as engines have them made; the engines themselves are in `make slurm` and `make ray`.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::*;

const GRID: &str = r#"
    tasks = ["hopper", "swimmer"]
    algorithms = ["ipo preset=fast"]
    seeds = 1
    steps = 5000
    set = ["hidden=[16,16]"]
"#;

/// A run that takes some seconds.
const LONG: &str = r#"
    tasks = ["hopper"]
    algorithms = ["ipo preset=fast"]
    seeds = 2
    steps = 80000
"#;

const NAME: &str = "hopper-ipo_preset=fast-0";

fn run(args: &[&str]) -> String {
    let output = ecrl(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    stdout(&output).to_owned()
}

fn begin(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn until(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never comes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn kill(process: u32, signal: &str) {
    let kill = Command::new("kill").args([&format!("-{signal}"), &process.to_string()]).status();
    assert!(kill.unwrap().success());
}

/// The first run is the same in both folders.
fn assert_same(a: &str, b: &str) {
    for file in ["config.toml", "policy.safetensors", "best.safetensors"] {
        let read = |folder: &str| std::fs::read(format!("{folder}/{NAME}/{file}")).unwrap();
        assert!(read(a) == read(b), "{file}");
    }
}

#[test]
fn one_run_of_a_grid_is_made_and_then_found_done() {
    let folder = Folder::new("one");
    let (grid, out) = (folder.path("grid.toml"), folder.path("out"));
    std::fs::write(&grid, GRID).unwrap();
    let one =
        |index: &str| ["grid", "run", &grid, "--index", index, "--out", &out].map(str::to_owned);
    let one = |index: &str| run(&one(index).iter().map(String::as_str).collect::<Vec<_>>());
    one("1");
    assert_eq!(folder.list("out"), ["swimmer-ipo_preset=fast-0"]);
    assert_eq!(one("1"), format!("{out}/swimmer-ipo_preset=fast-0 is done\n"));
    // It is the grid's, which makes the other.
    let told = run(&["grid", &grid, "--out", &out]);
    assert!(told.contains(": 1 done, ") && told.contains("2 of 2 runs done"), "{told}");
    let origin = std::fs::read_to_string(format!("{out}/swimmer-ipo_preset=fast-0/origin.jsonl"));
    assert!(origin.unwrap().contains("train swimmer --algo ipo --steps 5000"));
    let beyond = ["grid", "run", &grid, "--index", "2", "--out", &out];
    fails(&beyond, 2, "--index is 2; expected 0 to 1");
}

#[test]
fn how_runs_stand_is_told_while_they_are_made_and_they_are_ended_and_tried_again() {
    let folder = Folder::new("standing");
    let (grid, out) = (folder.path("grid.toml"), folder.path("out"));
    std::fs::write(&grid, LONG).unwrap();
    let missing = "nothing was asked for here; expected the folder of an experiment that `ecrl grid` or \
                   `ecrl paper` began";
    fails(&["grid", "status", &out], 2, &format!("{out}: {missing}"));
    let program = env!("CARGO_BIN_EXE_ecrl");
    let args = ["grid", &grid, "--out", &out, "--jobs", "1"];
    let mut made = begin(Command::new(program).args(args));
    let status = || run(&["grid", "status", &out]);
    let metrics = |name: &str| std::fs::read(format!("{out}/{name}/metrics.jsonl")).is_ok();
    until(|| metrics(NAME));
    let told = status();
    assert!(told.contains(&format!("> {NAME}  ")), "{told}");
    assert!(told.contains("# 0 done  > 1 running  . 1 waiting  ! 0 failed"), "{told}");
    assert!(run(&["grid", "cancel", &out]).starts_with("2 runs of "));
    assert_eq!(made.wait().unwrap().code(), Some(143));
    let told = status();
    assert!(told.contains("# 0 done  > 0 running  . 0 waiting  - 2 stopped"), "{told}");
    // One fails: somebody's file is in the place of its policy.
    let policy = format!("{out}/{NAME}/policy.safetensors");
    std::fs::remove_file(&policy).unwrap();
    std::fs::create_dir(&policy).unwrap();
    let output = ecrl(&args);
    assert_eq!(output.status.code(), Some(1));
    let told = status();
    assert!(told.contains("# 1 done") && told.contains(&format!("\n! {NAME}: ")), "{told}");
    assert!(told.contains("policy.safetensors"), "{told}");
    std::fs::remove_dir(&policy).unwrap();
    assert!(run(&["grid", "retry", &out]).contains("1 of 1 runs done"));
    assert!(status().contains("# 2 done  > 0 running  . 0 waiting  ! 0 failed"));
    assert!(run(&["grid", "retry", &out]).starts_with("no run of "));
    let whole = folder.path("whole");
    run(&["grid", &grid, "--out", &whole]);
    assert_same(&out, &whole);
}

#[test]
fn a_script_for_slurm_makes_its_run_stores_it_ahead_of_the_time_limit_and_goes_on() {
    let folder = Folder::new("script");
    let (grid, out) = (folder.path("grid.toml"), folder.path("o u't"));
    std::fs::write(&grid, LONG).unwrap();
    let asked = ["grid", &grid, "--out", &out, "--on", "slurm", "--time", "1:00:00", "--dry-run"];
    let options =
        ["--mem", "2G", "--cpus-per-task", "2", "--max-at-once", "7", "--", "--qos", "high"];
    let script = run(&[&asked[..], &options].concat());
    for line in [
        "#SBATCH --requeue",
        "#SBATCH --signal=B:USR1@120",
        "#SBATCH --time=1:00:00",
        "#SBATCH --mem=2G",
        "#SBATCH --cpus-per-task=2",
        "#SBATCH --qos=high",
    ] {
        assert!(script.lines().any(|found| found == line), "{line}: {script}");
    }
    assert!(script.contains("\n# sbatch --parsable --array=0-1%7 "), "{script}");
    assert!(!folder.0.join("o u't").exists(), "nothing is submitted, and nothing written");

    // What `sbatch` is given, and what Slurm would do: it is not here.
    let bin = folder.path("bin");
    std::fs::create_dir(&bin).unwrap();
    for (name, does) in [
        ("sbatch", "cp \"$(printf %s \"$3\")\" \"$0.script\"; echo 3"),
        (
            "scontrol",
            "case $1 in show) echo 'MaxArraySize = 1001';; *) echo \"$@\" >>\"$0.said\";; esac",
        ),
        ("squeue", "cat \"$0.says\" 2>/dev/null; exit 0"),
    ] {
        let path = format!("{bin}/{name}");
        std::fs::write(&path, format!("#!/bin/sh\n{does}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let command = |program: &str| {
        let mut command = Command::new(program);
        command.env("PATH", &path).env("SLURM_ARRAY_JOB_ID", "3").env("SLURM_ARRAY_TASK_ID", "0");
        command
    };
    let submit = || {
        let mut command = command(env!("CARGO_BIN_EXE_ecrl"));
        command.args(["grid", &grid, "--out", &out, "--on", "slurm"]).output().unwrap()
    };
    let told = submit();
    assert!(stdout(&told).contains("2 submitted to Slurm as job 3"), "{}", stdout(&told));
    let script = format!("{bin}/sbatch.script");
    let mut task = begin(command("sh").args([&script, "0"]));
    until(|| std::fs::read(format!("{out}/{NAME}/metrics.jsonl")).is_ok());
    kill(task.id(), "USR1");
    assert!(task.wait().unwrap().success());
    assert_eq!(std::fs::read_to_string(format!("{bin}/scontrol.said")).unwrap(), "requeue 3_0\n");
    assert!(std::fs::metadata(format!("{out}/{NAME}/checkpoint")).is_ok());
    // Preempted: the task ends with the run, which is asked more than once.
    let mut task = begin(command("sh").args([&script, "0"]));
    std::thread::sleep(Duration::from_millis(700));
    kill(task.id(), "TERM");
    assert_eq!(task.wait().unwrap().code(), Some(143));
    // The machine it was on is gone, but not its lock: the same task again knows better.
    let gone = "ecrl 77 node9 01234567-89ab-cdef-0123-456789abcdef slurm:3_0\n";
    std::fs::write(format!("{out}/{NAME}/run.lock"), gone).unwrap();
    assert!(begin(command("sh").args([&script, "0"])).wait().unwrap().success());
    let whole = folder.path("whole");
    run(&["grid", "run", &grid, "--index", "0", "--out", &whole]);
    assert_same(&out, &whole);
    let log = std::fs::read_to_string(format!("{out}/logs/{NAME}.txt")).unwrap();
    assert_eq!(log.matches("resuming at ").count(), 2, "{log}");
    // Of the other run Slurm says that it has ended, whatever its lock says.
    let other = NAME.replace("-0", "-1");
    std::fs::create_dir(format!("{out}/{other}")).unwrap();
    std::fs::write(format!("{out}/{other}/run.lock"), gone.replace("3_0", "3_1")).unwrap();
    std::fs::write(format!("{bin}/squeue.says"), "3_1|OUT_OF_MEMORY|node9|None\n").unwrap();
    std::fs::write(format!("{out}/calls/1/3_1.txt"), "slurmstepd: error: oom_kill\n").unwrap();
    let mut status = command(env!("CARGO_BIN_EXE_ecrl"));
    let told = status.args(["grid", "status", &out]).output().unwrap();
    let expected = format!("\n! {other}: out of memory: slurmstepd: error: oom_kill\n");
    assert!(stdout(&told).contains(&expected), "{}", stdout(&told));
}

#[test]
fn what_was_submitted_before_slurm_refused_the_rest_is_known_and_can_be_ended() {
    let folder = Folder::new("midway");
    let (grid, out, bin) = (folder.path("grid.toml"), folder.path("out"), folder.path("bin"));
    std::fs::write(&grid, GRID).unwrap();
    std::fs::create_dir(&bin).unwrap();
    for (name, does) in [
        (
            "sbatch",
            "test -e \"$0.again\" && { echo limit reached >&2; exit 1; }; touch \"$0.again\"; echo 41",
        ),
        ("scontrol", "echo 'MaxArraySize = 1'"),
        ("squeue", "echo '41_0|PENDING||Priority'"),
        ("scancel", "echo \"$@\" >\"$0.said\""),
    ] {
        let path = format!("{bin}/{name}");
        std::fs::write(&path, format!("#!/bin/sh\n{does}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_ecrl")).env("PATH", &path).args(args).output().unwrap()
    };
    let refused = run(&["grid", &grid, "--out", &out, "--on", "slurm"]);
    assert_eq!(String::from_utf8_lossy(&refused.stderr), "error: sbatch: limit reached\n");
    let told = run(&["grid", "status", &out]);
    assert!(stdout(&told).contains(". 1 waiting  - 1 stopped"), "{}", stdout(&told));
    assert!(run(&["grid", "cancel", &out]).status.success());
    assert_eq!(std::fs::read_to_string(format!("{bin}/scancel.said")).unwrap(), "--quiet 41\n");
    // Nothing was submitted: nothing is kept.
    let none = folder.path("none");
    assert_eq!(run(&["grid", &grid, "--out", &none, "--on", "slurm"]).status.code(), Some(1));
    assert!(!std::path::Path::new(&format!("{none}/calls/1/call.json")).exists());
}

#[test]
fn engines_that_are_not_there_and_options_that_say_nothing_get_one_line() {
    let folder = Folder::new("engines");
    let (grid, out) = (folder.path("grid.toml"), folder.path("out"));
    std::fs::write(&grid, GRID).unwrap();
    let fails = |more: &[&str], code, expected: &str| {
        fails(&[&["grid", &grid, "--out", &out], more].concat(), code, expected);
    };
    let local = "does not apply on this machine; expected --on slurm with it";
    fails(&["--time", "1"], 2, &format!("--time {local}"));
    fails(&["--", "--qos=high"], 2, &format!("--qos {local}"));
    let threads = "--threads does not apply on Slurm; expected --cpus-per-task";
    fails(&["--on", "slurm", "--threads", "2"], 2, threads);
    let mem = "--mem is 2GB; expected megabytes, or as in 500M or 2G";
    fails(&["--on", "ray", "--mem", "2GB"], 2, mem);
    let ray = "--partition does not apply on Ray; expected --on slurm with it";
    fails(&["--on", "ray", "--partition", "a"], 2, ray);
    let option = "'high' after -- is no option; expected options of sbatch, as in -- --qos=high";
    fails(&["--on", "slurm", "--", "high"], 2, option);
    let nowhere = |on: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ecrl"));
        command.env("PATH", folder.path("")).args(["grid", &grid, "--out", &out, "--on", on]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let slurm = "error: scontrol: No such file or directory (os error 2): expected Slurm's commands in PATH\n";
    assert_eq!(nowhere("slurm"), slurm);
    let ray =
        "python3: No such file or directory (os error 2); expected a Python with ecrl and Ray";
    assert!(nowhere("ray").contains(ray), "{}", nowhere("ray"));
    assert!(run(&["grid", &grid, "--out", &out]).contains("2 of 2 runs done"));
}
