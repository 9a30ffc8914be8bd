//! A replay file, played on the hopper.
#![no_main]

libfuzzer_sys::fuzz_target!(|json: &[u8]| {
    if let Ok(replay) = robots::Replay::parse(json)
        && replay.actions.len() < 5
    {
        let hopper = robots::AnyTask::find("hopper").expect("a task");
        let _ = replay.play(&hopper, &mut std::io::sink());
    }
});
