//! What becomes of a policy: measured, watched, shipped.

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
    }
    fails(
        &["play", &folder.path("no")],
        2,
        &format!("{} is not a run: it holds no config.toml", folder.path("no")),
    );
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
    // Without EGL it does not even come to ffmpeg.
    let message = String::from_utf8(output.stderr).unwrap();
    let expected = ["error: cannot start ffmpeg, which --video needs: ", "error: cannot render: "];
    assert!(expected.iter().any(|start| message.starts_with(start)), "{message}");
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
