//! A configuration file, and an assignment (`--set`) after it.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (file, assignment) = text.split_once('\0').unwrap_or((text, ""));
    let mut layers = ecrl::config::Layers::default();
    if layers.toml(file).is_ok()
        && (assignment.is_empty() || layers.assign(assignment).is_ok())
        && let Ok(config) = layers.build()
    {
        // What is in force can be written and read again.
        let mut again = ecrl::config::Layers::default();
        again.toml(&config.to_toml()).expect("our own file");
        assert_eq!(again.build().expect("our own file"), config);
    }
});
