//! A policy file: a safetensors header and what follows.
#![no_main]

use std::sync::LazyLock;

use cmdp::{Env as _, EnvSpec};
use robots::{Robot, Task};

static HOPPER: LazyLock<EnvSpec> = LazyLock::new(|| {
    let task = Task::find("hopper").expect("a task");
    Robot::new(task, Task::default_constraints()).expect("a robot").spec().clone()
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("ecrl-fuzz-policy-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("a folder for temporary files");
    let _ = runs::policy::Policy::load(&path, &HOPPER);
    if let Ok(policy) = runs::policy::Policy::open(&path) {
        policy.act(&vec![0.5; policy.actor.sizes()[0]]).expect("as many as it takes");
        runs::export::onnx(&policy);
        runs::export::json(&policy);
    }
});
