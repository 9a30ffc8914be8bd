//! A run with one checkpoint, whose manifest or state is what the fuzzer says, with the right checksum:
//! damage that a checksum tells is covered by the tests.

use std::fs;
use std::path::PathBuf;

use cmdp::{Constraint, Env, PointMass};
use ecrl::config::Layers;
use ecrl::trainer::Trainer;
use runs::checkpoint::{Checkpoints, FOLDER};

pub struct Stored {
    path: PathBuf,
    config: String,
    trainer: Trainer,
    manifest: String,
}

impl Stored {
    /// Of a run of this configuration, after some updates.
    pub fn new(config: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ecrl-fuzz-run-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        let mut trainer = trainer(config);
        let mut updates = 0;
        while updates < 5 {
            let paused = trainer.generation(&mut |_| {
                updates += 1;
                updates < 5
            });
            paused.expect("it trains");
        }
        Checkpoints::new(&path).write(&mut trainer, &[]).expect("a checkpoint");
        let manifest = fs::read_to_string(path.join(FOLDER).join("manifest-1")).expect("it");
        let manifest = manifest.lines().next().expect("a line").to_owned();
        // A seed for whoever wants one: FUZZ_SEEDS=DIR writes what is there now.
        if let Some(seeds) = std::env::var_os("FUZZ_SEEDS").map(PathBuf::from) {
            let state = fs::read(path.join(FOLDER).join("state-1")).expect("it");
            fs::write(seeds.join("manifest"), [b"0", manifest.as_bytes()].concat()).expect("room");
            fs::write(seeds.join("state"), [b"1", &state[..]].concat()).expect("room");
        }
        Self { path, config: config.into(), trainer, manifest }
    }

    fn put_manifest(&self, json: &[u8]) {
        let crc = crc32c::crc32c(json);
        let text = [json, format!("\n{crc:08x}\n").as_bytes()].concat();
        fs::write(self.path.join(FOLDER).join("manifest-1"), text).expect("room");
    }

    /// Reads a checkpoint of which a part is this, and goes on from there if it can be read.
    pub fn read(&mut self, input: &[u8]) {
        let Some((which, bytes)) = input.split_first() else { return };
        if which % 2 == 0 {
            self.put_manifest(bytes);
        } else {
            // The manifest as it was, but for the state's length and checksum.
            let mut manifest: serde_json::Value =
                serde_json::from_str(&self.manifest).expect("our own");
            manifest["state"]["bytes"] = bytes.len().into();
            manifest["state"]["crc32c"] = crc32c::crc32c(bytes).into();
            self.put_manifest(manifest.to_string().as_bytes());
            fs::write(self.path.join(FOLDER).join("state-1"), bytes).expect("room");
        }
        if Checkpoints::new(&self.path).read(&mut self.trainer).is_ok_and(|read| read.is_some()) {
            let _ = self.trainer.play_and_learn(&mut |_| false);
            self.trainer = trainer(&self.config);
        }
    }
}

fn trainer(config: &str) -> Trainer {
    let mut layers = Layers::default();
    layers.toml(config).expect("a configuration");
    let texts = ["force<=0.1", "sum(force)<=20"];
    let constraints = Constraint::parse_all(&texts, &PointMass::COSTS).expect("constraints");
    let make = || PointMass::new(constraints.clone()).map(|env| Box::new(env) as Box<dyn Env>);
    Trainer::new(layers.build().expect("a configuration"), 1, make).expect("a trainer")
}
