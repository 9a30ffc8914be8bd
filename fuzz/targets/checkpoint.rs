//! A checkpoint whose manifest or state is what the fuzzer says, with the right checksum: damage
//! that a checksum tells is covered by the tests.
#![no_main]

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use cmdp::{Env, PointMass};
use ecrl::config::Layers;
use ecrl::trainer::Trainer;
use runs::checkpoint::{Checkpoints, FOLDER};

/// A run with one checkpoint.
struct Run {
    path: PathBuf,
    trainer: Trainer,
    manifest: String,
}

impl Run {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("ecrl-fuzz-run-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        let mut layers = Layers::default();
        let config = "steps = 400\n[learner]\nlearning_starts = 100\n[sac]\nhidden = [4]\nbatch = 8\n\
            [replay]\ncapacity = 500\n[evolution]\npopulation = 4\nelites = 1\ntournament = 2";
        layers.toml(config).expect("a configuration");
        let make = || PointMass::new(Vec::new()).map(|env| Box::new(env) as Box<dyn Env>);
        let config = layers.build().expect("a configuration");
        let mut trainer = Trainer::new(config, 1, make).expect("a trainer");
        Checkpoints::new(&path).write(&mut trainer, Vec::new()).expect("a checkpoint");
        let manifest = fs::read_to_string(path.join(FOLDER).join("manifest-1")).expect("it");
        let manifest = manifest.lines().next().expect("a line").to_owned();
        Self { path, trainer, manifest }
    }

    fn put_manifest(&self, json: &[u8]) {
        let crc = crc32c::crc32c(json);
        let text = [json, format!("\n{crc:08x}\n").as_bytes()].concat();
        fs::write(self.path.join(FOLDER).join("manifest-1"), text).expect("room");
    }
}

thread_local! {
    static RUN: RefCell<Run> = RefCell::new(Run::new());
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((which, bytes)) = input.split_first() else { return };
    RUN.with_borrow_mut(|run| {
        if which % 2 == 0 {
            run.put_manifest(bytes);
        } else {
            // The manifest as it was, but for the state's length and checksum.
            let mut manifest: serde_json::Value =
                serde_json::from_str(&run.manifest).expect("our own");
            manifest["state"]["bytes"] = bytes.len().into();
            manifest["state"]["crc32c"] = crc32c::crc32c(bytes).into();
            run.put_manifest(manifest.to_string().as_bytes());
            fs::write(run.path.join(FOLDER).join("state-1"), bytes).expect("room");
        }
        let _ = Checkpoints::new(&run.path).read(&mut run.trainer);
    });
});
