//! The robots against Gymnasium: the same compiled models, the same steps, bit for bit.
//!
//! The fixtures come from tools/gymnasium_fixtures.py, run with the real Gymnasium.

use cmdp::{Constraint, Env as _};
use robots::{COSTS, Robot, TASKS, Task};
use serde::Deserialize;

#[derive(Deserialize)]
struct Fixture {
    gymnasium: String,
    mujoco: String,
    episodes: Vec<Episode>,
}

#[derive(Deserialize)]
struct Episode {
    about: String,
    qpos: Vec<f64>,
    qvel: Vec<f64>,
    actions: Vec<Vec<f32>>,
    first: Vec<f64>,
    /// Reward, terminated, velocity cost, digest of the observation.
    steps: Vec<(f64, bool, u8, String)>,
    every_50th: Vec<Vec<f64>>,
}

fn read(task: &Task, suffix: &str) -> String {
    let path = format!("{}/tests/fixtures/{}.{suffix}", env!("CARGO_MANIFEST_DIR"), task.name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

/// FNV-1a over the bytes of the numbers.
fn digest(numbers: &[f64]) -> String {
    let bytes = numbers.iter().flat_map(|x| x.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[test]
fn every_step_is_bit_identical() {
    let constraints = Constraint::parse_all(&["velocity<=25"], &COSTS).unwrap();
    for task in &TASKS {
        let fixture: Fixture = serde_json::from_str(&read(task, "json")).unwrap();
        assert_eq!((&*fixture.gymnasium, &*fixture.mujoco), ("1.4.0", "3.17.0"));
        assert!(fixture.episodes.len() >= 5);
        let mut robot = Robot::new(task, constraints.clone()).unwrap();
        let mut obs = vec![0.0; task.observation];
        for episode in fixture.episodes {
            robot.start(&episode.qpos, &episode.qvel, &mut obs).unwrap();
            assert_eq!(bits(&obs), bits(&episode.first), "{}: {}", task.name, episode.about);
            assert!(episode.steps.len() >= 300);
            let expected = episode.actions.iter().zip(&episode.steps).enumerate();
            for (t, (action, (reward, terminated, velocity, digested))) in expected {
                let at = format!("{}: {}: step {t}", task.name, episode.about);
                let mut costs = [f64::NAN];
                let step = robot.step(action, &mut obs, &mut costs);
                if t % 50 == 0 {
                    assert_eq!(bits(&obs), bits(&episode.every_50th[t / 50]), "{at}: obs");
                }
                assert_eq!(&digest(&obs), digested, "{at}: bits of obs {obs:?}");
                assert_eq!(step.reward.to_bits(), reward.to_bits(), "{at}: reward");
                assert_eq!(step.terminated, *terminated, "{at}: terminated");
                assert_eq!(costs, [f64::from(*velocity)], "{at}: velocity cost");
                assert!(!step.unstable && !step.truncated, "{at}");
            }
        }
    }
}

#[test]
fn every_model_compiles_to_the_same_physics() {
    for task in &TASKS {
        let path = std::env::temp_dir().join(format!("ecrl-{}-{}", std::process::id(), task.name));
        Robot::new(task, vec![]).unwrap().print_model(&path).unwrap();
        let ours = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // A robot is one tree: ours does not look for islands in it, which changes no bit of any step.
        let theirs =
            read(task, "model.txt").replace("disableflags        0", "disableflags        262144");
        let (ours, theirs) = (physics(&ours), physics(&theirs));
        assert!(theirs.len() > 500, "{}: only {} lines of physics", task.name, theirs.len());
        for (our, their) in ours.iter().zip(&theirs) {
            assert_eq!(our, their, "{}", task.name);
        }
        assert_eq!(ours.len(), theirs.len(), "{}", task.name);
    }
}

/// The lines of a printed model that bear on the physics, each behind its section's name.
///
/// Left out: names, colours, memory, and what only a renderer or a user's program reads.
fn physics(printed: &str) -> Vec<String> {
    const SECTIONS: [&str; 9] = [
        "model name",
        "MEMORY",
        "VISUAL",
        "CAMERA",
        "LIGHT",
        "TEXTURE",
        "MATERIAL",
        "NUMERIC",
        "SIGNATURE",
    ];
    const LINES: [&str; 17] = [
        "name",
        "ncam",
        "nlight",
        "ntex",
        "ntexdata",
        "nmat",
        "nnumeric",
        "nnumericdata",
        "nuser_geom",
        "nnames",
        "npaths",
        "nnames_map",
        "narena",
        "nbuffer",
        "geom_matid",
        "geom_user",
        "geom_rgba",
    ];
    let mut section = "";
    let mut lines = Vec::new();
    for line in printed.lines().filter(|line| !line.trim().is_empty()) {
        if !line.starts_with(' ') {
            section = line;
        }
        let field = line.split_whitespace().next().unwrap_or_default();
        if !SECTIONS.iter().any(|s| section.starts_with(s)) && !LINES.contains(&field) {
            lines.push(format!("{section} | {line}"));
        }
    }
    lines
}
