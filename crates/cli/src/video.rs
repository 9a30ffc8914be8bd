//! A video of an episode: pictures of ours, encoded by ffmpeg.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use report::figure::Painter;
use report::picture::picture;
use report::playback::Playback;
use report::triangles::Triangles;
use runs::output;

use crate::failure::Failure;
use crate::live::{Live, bar};

/// More pictures a second than this are left out.
const FASTEST: f64 = 60.0;

/// Width and height of a picture, as a user gives them.
pub fn size(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| {
        let number = text.parse().ok()?;
        (16..=4096).contains(&number).then_some(number).filter(|n| n % 2 == 0)
    };
    let size = text.split_once('x').and_then(|(w, h)| Some((number(w)?, number(h)?)));
    size.ok_or_else(|| "expected two even numbers from 16 to 4096, such as 1280x720".into())
}

/// What ffmpeg is told for a file of this kind.
fn encoding(path: &Path) -> Result<&'static [&'static str], Failure> {
    match path.extension().and_then(|end| end.to_str()) {
        Some("mp4") => {
            Ok(&["-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-f", "mp4"])
        }
        Some("webm") => Ok(&[
            "-c:v",
            "libvpx-vp9",
            "-pix_fmt",
            "yuv420p",
            "-crf",
            "34",
            "-b:v",
            "0",
            "-cpu-used",
            "5",
            "-row-mt",
            "1",
            "-f",
            "webm",
        ]),
        Some("gif") => Ok(&["-vf", "split[a][b];[a]palettegen[p];[b][p]paletteuse", "-f", "gif"]),
        _ => Err(Failure::input(format!(
            "--video is '{}'; expected .mp4, .webm or .gif",
            path.display()
        ))),
    }
}

/// By which a video of ours is known again.
const MARK: &str = "made by ecrl";

/// Whether there can be such a video.
pub fn check(path: &Path) -> Result<(), Failure> {
    encoding(path)?;
    Ok(output::check(path, |found| output::holds(found, MARK))?)
}

/// Writes a video, as fast as the robot moves; returns its number of frames.
pub fn write(path: &Path, size: (usize, usize), playback: &Playback) -> Result<usize, Failure> {
    let painter = Painter::new().map_err(Failure::run)?;
    // The small part makes up for what rounding adds.
    let every = (1.0 / FASTEST / playback.seconds - 1e-9).ceil().max(1.0) as usize;
    let rate = 1.0 / (playback.seconds * every as f64);
    let (width, height) = size;
    check(path)?;
    let part = output::part(path)?;
    // As a file, whatever its name looks like to ffmpeg.
    let mut file = std::ffi::OsString::from("file:");
    file.push(&part);
    let mut ffmpeg = Command::new("ffmpeg")
        .args(["-loglevel", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24"])
        .args(["-s", &format!("{width}x{height}"), "-r", &format!("{rate:.6}"), "-i", "-"])
        .args(encoding(path)?)
        .args(["-metadata", &format!("comment={MARK}")])
        .arg(file)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            Failure::run(format!("cannot start ffmpeg, which --video needs: {error}"))
        })?;
    // Text as large in a picture of any size.
    let scale = (width as f32 / 640.0).min(height as f32 / 480.0).max(0.5);
    let last = playback.rewards.len();
    // How it fell is seen for a second.
    let held = if playback.ended.is_some() { rate.ceil() as usize } else { 1 };
    let steps = (every..last).step_by(every).chain(std::iter::repeat_n(last, held));
    let steps: Vec<usize> = steps.collect();
    let meshes: Vec<Triangles> = playback.meshes.iter().map(Triangles::new).collect();
    let mut live = io::stdout().is_terminal().then(Live::default);
    let mut input = ffmpeg.stdin.take().expect("it was piped");
    for (i, &step) in steps.iter().enumerate() {
        if let Some(live) = &mut live {
            let end = format!("{i}/{} frames", steps.len());
            let _ =
                live.draw(&mut io::stdout(), &[bar("video", i as f64 / steps.len() as f64, &end)]);
        }
        let mut pixels =
            picture(&playback.shapes, &meshes, playback.frame(step), playback.view, size);
        let lines = lines(playback, step);
        painter.write(&mut pixels, width, scale, &lines).map_err(Failure::run)?;
        if input.write_all(&pixels).is_err() {
            return Err(said(path, &part, ffmpeg));
        }
    }
    drop(input);
    if let Some(live) = &mut live {
        let _ = live.clear(&mut io::stdout());
    }
    match ffmpeg.wait() {
        Ok(status) if status.success() => {
            finish(&part, path)
                .map_err(|error| Failure::run(format!("{}: {error}", path.display())))?;
            Ok(steps.len())
        }
        _ => Err(said(path, &part, ffmpeg)),
    }
}

/// Gives a whole video its name.
fn finish(part: &Path, path: &Path) -> io::Result<()> {
    if path.extension().is_some_and(|end| end == "gif") {
        // ffmpeg leaves the comment out; what follows the end of a GIF is not looked at.
        std::fs::File::options().append(true).open(part)?.write_all(MARK.as_bytes())?;
    }
    std::fs::rename(part, path)
}

/// How the episode stands after so many steps.
fn lines(playback: &Playback, step: usize) -> Vec<String> {
    let reward: f64 = playback.rewards[..step].iter().sum();
    let mut lines = vec![format!("reward {reward:.1}")];
    for watched in &playback.constraints {
        let sum: f64 = watched.costs[..step].iter().sum();
        lines.push(watched.told(if watched.mean { sum / step as f64 } else { sum }));
    }
    if let Some(ended) = playback.ended.as_ref().filter(|_| step == playback.rewards.len()) {
        lines.push(ended.into());
    }
    lines
}

/// What ffmpeg said when it failed.
fn said(path: &Path, part: &Path, mut ffmpeg: Child) -> Failure {
    let _ = std::fs::remove_file(part);
    let mut text = String::new();
    if let Some(mut stderr) = ffmpeg.stderr.take() {
        let _ = std::io::Read::read_to_string(&mut stderr, &mut text);
    }
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    Failure::run(format!("{}: ffmpeg: {}", path.display(), last.unwrap_or("it failed")))
}
