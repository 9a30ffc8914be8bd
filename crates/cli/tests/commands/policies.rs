//! What becomes of a policy: measured, watched, shipped.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::Value;

use crate::common::*;

#[test]
fn policies_are_checked_before_use() {
    let folder = Folder::new("policies");
    let (hopper, swimmer) = (folder.path("hopper"), folder.path("swimmer"));
    train(&["hopper", "--algo", "sac", "--out", &hopper]);
    train(&["swimmer", "--algo", "sac", "--out", &swimmer]);
    let best = folder.path("hopper/best.safetensors");
    std::fs::copy(folder.path("swimmer/best.safetensors"), &best).unwrap();
    fails(&["eval", &hopper], 2, &format!("{best}: a policy of swimmer; expected one of hopper"));
    std::fs::write(&best, b"nonsense").unwrap();
    let message = String::from_utf8(ecrl(&["eval", &hopper]).stderr).unwrap();
    assert!(message.starts_with(&format!("error: {best}: not a safetensors file")), "{message}");
    std::fs::remove_file(&best).unwrap();
    let expected = format!(
        "{best}: not there yet: the best is chosen now and then and at the end; --policy final takes the \
         learner"
    );
    fails(&["eval", &hopper], 2, &expected);
}

#[test]
fn an_episode_becomes_a_page_of_its_own() {
    let folder = Folder::new("play");
    let run = folder.path("run");
    train(&["ant", "--algo", "sac", "--out", &run]);
    let page = folder.path("a.html");
    let output = ecrl(&["play", &run, "--html", &page, "--episodes", "2", "--seed", "3"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The same episodes as those of eval.
    let eval = ecrl(&["eval", &run, "--episodes", "2", "--seed", "3", "--json"]);
    let eval: Value = serde_json::from_slice(&eval.stdout).unwrap();
    for (line, episode) in
        stdout(&output).lines().zip(eval["mean_action"]["each"].as_array().unwrap())
    {
        let (reward, steps) = (episode["reward"].as_f64().unwrap(), &episode["steps"]);
        assert!(line.contains(&format!("reward {reward:.1} in {steps} steps")), "{line} {episode}");
    }
    for name in ["a.html", "a-2.html"] {
        let text = std::fs::read_to_string(folder.path(name)).unwrap();
        assert!(text.len() < 5_000_000 && text.contains("sac on ant"), "{name}: {}", text.len());
        assert!(text.contains("front left ankle") && !text.contains("median of"), "{name}");
    }
    fails(
        &["play", &folder.path("no")],
        2,
        &format!("{} is not a run: it holds no config.toml", folder.path("no")),
    );
}

#[test]
fn the_median_of_several_episodes_is_played() {
    let folder = Folder::new("median");
    let (run, page) = (folder.path("run"), folder.path("a.html"));
    train(&["hopper", "--algo", "sac", "--out", &run]);
    let eval = ecrl(&["eval", &run, "--episodes", "9", "--seed", "4", "--json"]);
    let eval: Value = serde_json::from_slice(&eval.stdout).unwrap();
    let each = eval["mean_action"]["each"].as_array().unwrap();
    let reward = |i: usize| each[i]["reward"].as_f64().unwrap();
    // As many are below as above.
    let below = |i: usize| (0..9).filter(|&j| reward(j) < reward(i)).count();
    for (options, index) in
        [(&[][..], (0..9).find(|&i| below(i) == 4).unwrap()), (&["--of", "1"], 0)]
    {
        let all = [&["play", &run, "--html", &page, "--seed", "4"], options].concat();
        let output = ecrl(&all);
        let (line, text) = (stdout(&output), std::fs::read_to_string(&page).unwrap());
        let chosen = match options {
            [] => format!("episode {}, the median of 9 episodes by return: ", index + 1),
            _ => "episode 1: ".into(),
        };
        let (steps, cost) =
            (each[index]["steps"].as_u64().unwrap(), &each[index]["constraints"][0]);
        let (seconds, cost) = (0.008 * steps as f64, cost.as_f64().unwrap());
        let (reward, sign) = (reward(index), if cost <= 0.4 { "≤" } else { ">" });
        // A hopper that has learnt nothing falls.
        let told = format!(
            "{chosen}reward {reward:.1} in {steps} steps ({seconds:.2} s), mean torque {cost:.3} {sign} \
             0.4, fell at {seconds:.2} s"
        );
        assert!(line.starts_with(&format!("{page}: {told}; ")), "{line}, not {told}");
        let told = told.replace('>', "&gt;");
        assert!(text.contains(&format!("<p id=\"told\">{told}</p>")), "{told}");
        for part in [r#""action_names":["hip","knee","ankle"]"#, r#""ended":"fell""#] {
            assert!(text.contains(part), "{part}");
        }
    }
    let expected = "the argument '--of <N>' cannot be used with '--episodes <N>'";
    fails(&["play", &run, "--of", "3", "--episodes", "2"], 2, expected);
}

#[test]
fn a_video_has_the_size_that_was_asked_for() {
    let folder = Folder::new("film");
    let run = folder.path("run");
    train(&["hopper", "--algo", "sac", "--out", &run]);
    // An ffmpeg that writes the pictures as they come.
    let ffmpeg = folder.path("ffmpeg");
    std::fs::write(&ffmpeg, "#!/bin/sh\nfor last; do :; done; exec /bin/cat > \"${last#file:}\"\n")
        .unwrap();
    std::fs::set_permissions(&ffmpeg, std::fs::Permissions::from_mode(0o755)).unwrap();
    let film = folder.path("a.mp4");
    let output = Command::new(env!("CARGO_BIN_EXE_ecrl"))
        .args(["play", &run, "--video", &film, "--size", "64x48"])
        .env("PATH", &folder.0)
        .output()
        .unwrap();
    // Where there is no terminal, there is no bar.
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let frames = stdout(&output).trim_end().strip_suffix(" frames").unwrap();
    let frames: u64 = frames.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(frames > 0 && std::fs::metadata(&film).unwrap().len() == frames * 3 * 64 * 48);
    for size in ["641x480", "640", "8x8", "640x4098", "x", "-2x16", "640x480x2"] {
        let expected = format!(
            "invalid value '{size}' for '--size <WIDTHxHEIGHT>': expected two even numbers from 16 to \
             4096, such as 1280x720"
        );
        fails(&["play", &run, "--video", &film, &format!("--size={size}")], 2, &expected);
    }
    let expected = "the following required arguments were not provided: --video <FILE>";
    fails(&["play", &run, "--size", "64x48"], 2, expected);
}

#[test]
fn a_video_that_cannot_be_made_gets_one_line() {
    let folder = Folder::new("video");
    let run = folder.path("run");
    train(&["hopper", "--algo", "sac", "--out", &run]);
    let kind = "--video is 'a.avi'; expected .mp4, .webm or .gif";
    fails(&["play", &run, "--video", "a.avi"], 2, kind);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ecrl"));
    let output = command
        .args(["play", &run, "--video", &folder.path("a.mp4")])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    let expected = "error: cannot start ffmpeg, which --video needs: ";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!((output.status.code(), message.lines().count()), (Some(1), 1));
}

#[test]
fn policies_are_exported_in_every_form() {
    let folder = Folder::new("export");
    let run = folder.path("run");
    train(&["hopper", "--algo", "sac", "--out", &run]);
    for format in ["onnx", "safetensors", "json"] {
        let file = folder.path(format);
        let output = ecrl(&["export", &run, "--format", format, "--out", &file]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(std::fs::metadata(&file).unwrap().len() > 1000);
    }
    let best = std::fs::read(format!("{run}/best.safetensors")).unwrap();
    assert!(std::fs::read(folder.path("safetensors")).unwrap() == best);
    let nowhere = folder.path("nowhere");
    let missing = format!("{nowhere} is not a run: it holds no config.toml");
    fails(&["export", &nowhere, "--format", "onnx"], 2, &missing);
    std::fs::remove_file(format!("{run}/policy.safetensors")).unwrap();
    let output = ecrl(&["export", &run, "--format", "onnx", "--policy", "final"]);
    assert!(!output.status.success());
    assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1);
}

#[test]
fn a_policy_by_itself_is_measured_under_any_constraint() {
    let folder = Folder::new("bare");
    let run = folder.path("run");
    train(&["hopper", "--algo", "sac", "--out", &run]);
    let bare = folder.path("mine.safetensors");
    std::fs::copy(format!("{run}/best.safetensors"), &bare).unwrap();
    let eval = |args: &[&str]| -> Value {
        let output = ecrl(&[&["eval", "--json", "--episodes", "3"], args].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (of_run, of_file) = (eval(&[&run]), eval(&[&bare]));
    assert_eq!(of_run["mean_action"], of_file["mean_action"]);
    assert_eq!(of_file["policy"], "mine.safetensors");
    let other = eval(&[&bare, "--constraint", "sum(torque)<=7", "--constraint", "velocity<=25"]);
    let constraints = &other["mean_action"]["constraints"];
    assert_eq!(constraints[0]["constraint"], "sum(torque)<=7");
    assert_eq!(constraints[1]["threshold"], 25.0);
    let sum = constraints[0]["mean"].as_f64().unwrap();
    let mean = of_run["mean_action"]["constraints"][0]["mean"].as_f64().unwrap();
    assert!(sum > 2.0 * mean, "a sum of more than two steps: {sum} {mean}");
    assert_eq!(
        eval(&[&bare, "--constraint", "none"])["mean_action"]["constraints"],
        Value::Array(vec![])
    );
    let onnx = folder.path("a.onnx");
    assert!(ecrl(&["export", &bare, "--format", "onnx", "--out", &onnx]).status.success());
    let page = folder.path("a.html");
    assert!(ecrl(&["play", &bare, "--of", "1", "--html", &page]).status.success());
    let expected = format!("--policy: {bare} is a policy by itself; expected a run with it");
    fails(&["eval", &bare, "--policy", "final"], 2, &expected);
    // What is there already is not overwritten, unless it is such a page.
    assert!(ecrl(&["play", &bare, "--of", "1", "--html", &page]).status.success());
    std::fs::write(&page, "mine").unwrap();
    let expected = format!("{page} is there already, and not of ecrl: choose another name");
    fails(&["play", &bare, "--of", "1", "--html", &page], 2, &expected);
}
