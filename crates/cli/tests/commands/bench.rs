//! Speeds are measured.

use serde_json::Value;

use crate::common::*;

#[test]
fn bench_tasks_measures_every_task() {
    let args =
        ["bench", "tasks", "--json", "--threads", "2", "--milliseconds", "1", "--rounds", "1"];
    let report: Value = serde_json::from_slice(&ecrl(&args).stdout).unwrap();
    assert_eq!(report["threads"], 2);
    let tasks = report["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 5);
    for task in tasks {
        for figure in ["one_thread", "bare", "of_bare", "all_threads", "speedup"] {
            assert!(task[figure].as_f64().unwrap() > 0.0, "{task}");
        }
    }
}

#[test]
fn bench_update_reports_every_figure() {
    let output = ecrl(&["bench", "update", "--json", "--threads", "1", "--rounds", "1"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for figure in ["threads", "ms_per_update", "gflops", "gemm_peak_gflops", "ratio", "action_us"] {
        assert!(report[figure].as_f64().unwrap() > 0.0, "{report}");
    }
    assert_eq!(report["precision"], "f32");
}

#[test]
fn bench_es_reports_every_figure() {
    let output = ecrl(&["bench", "es", "swimmer", "--json", "--threads", "2", "--rounds", "1"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["task"], &report["episodes"]), (&"swimmer".into(), &41.into()));
    for figure in ["threads", "steps_per_s", "busy", "strategy"] {
        assert!(report[figure].as_f64().unwrap() > 0.0, "{report}");
    }
}

#[test]
fn bench_ppo_reports_every_figure() {
    let output = ecrl(&["bench", "ppo", "--json", "--threads", "2", "--rounds", "1"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report[0]["hidden"], serde_json::json!([64, 64]));
    assert_eq!(report[1]["hidden"], serde_json::json!([256, 256]));
    for report in [&report[0], &report[1]] {
        for figure in
            ["threads", "collect_steps_per_s", "collect_of_task", "ms_per_minibatch", "steps_per_s"]
        {
            assert!(report[figure].as_f64().unwrap() > 0.0, "{report}");
        }
    }
}
