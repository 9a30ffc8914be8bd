//! The file of a task of one's own: its TOML and the expressions in it.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use cmdp::Env as _;
use robots::own::{OwnRobot, OwnTask};

libfuzzer_sys::fuzz_target!(|text: &str| {
    static MODEL: OnceLock<Vec<u8>> = OnceLock::new();
    let model = MODEL.get_or_init(|| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/robots/arm.toml");
        OwnTask::read(&file).expect("an example").copy().1
    });
    match OwnTask::of_copy("task.toml", "task", text.into(), model) {
        Err(error) => {
            let error = error.to_string();
            assert!(error.starts_with("task.toml:") && !error.contains('\n'), "{error}");
        }
        Ok(task) => {
            let mut robot = OwnRobot::new(&task, task.default_constraints()).expect("its own");
            let mut obs = vec![0.0; robot.spec().observation];
            let mut costs = vec![0.0; robot.spec().constraints.len()];
            let action = vec![0.5; robot.spec().action];
            robot.reset(&mut cmdp::rng([0; 4]), &mut obs);
            robot.step(&action, &mut obs, &mut costs);
        }
    }
});
