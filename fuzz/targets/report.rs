//! What a report reads: parts of two runs, as the fuzzer says, with lines of zeros between them.
#![no_main]

use std::fs;

use report::Report;
use report::curves::Band;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let path = std::env::temp_dir().join(format!("ecrl-fuzz-report-{}", std::process::id()));
    let mut parts = input.split(|byte| *byte == 0);
    let mut next = || parts.next().unwrap_or_default();
    for run in ["a", "b"] {
        let folder = path.join(run);
        fs::create_dir_all(&folder).expect("a folder for temporary files");
        let config = "task = 'hopper'\nalgorithm = 'ecrl'\nsteps = 1000\nseed = 0\n\
                      constraints = ['mean(torque)<=0.4']\n";
        let config = match next() {
            [] => config.as_bytes().to_vec(),
            given => given.to_vec(),
        };
        for (name, bytes) in [
            ("config.toml", &config[..]),
            ("metrics.jsonl", next()),
            ("population.jsonl", next()),
            ("origin.jsonl", next()),
        ] {
            fs::write(folder.join(name), bytes).expect("room");
        }
    }
    if let Ok(report) = Report::new(&[path.clone()], Band::Deviation) {
        let _ = report.write(&path.join("report"));
    }
});
