//! A video of an episode: pictures by MuJoCo, encoded by ffmpeg.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cmdp::{Env as _, Episode, Visual as _};
use report::figure::Painter;
use robots::{Camera, Robot};

use crate::failure::Failure;

/// More pictures a second than this are left out.
const FASTEST: f64 = 60.0;

/// A video being written.
pub struct Video {
    path: PathBuf,
    camera: Camera,
    painter: Painter,
    ffmpeg: Child,
    /// Steps from one picture to the next.
    every: usize,
    steps: usize,
    frames: usize,
}

impl Video {
    /// What ffmpeg is told for a file of this kind.
    fn encoding(path: &Path) -> Option<&'static [&'static str]> {
        match path.extension()?.to_str()? {
            "mp4" => Some(&["-c:v", "libx264", "-pix_fmt", "yuv420p"]),
            "webm" => {
                Some(&["-c:v", "libvpx-vp9", "-pix_fmt", "yuv420p", "-crf", "34", "-b:v", "0"])
            }
            "gif" => Some(&["-vf", "split[a][b];[a]palettegen[p];[b][p]paletteuse"]),
            _ => None,
        }
    }

    /// Whether there can be such a video.
    pub fn check(path: &Path) -> Result<(), Failure> {
        Self::encoding(path).map(|_| ()).ok_or_else(|| {
            Failure::input(format!("--video is '{}'; expected .mp4, .webm or .gif", path.display()))
        })
    }

    /// A video of a robot, as fast as it moves.
    pub fn new(path: &Path, robot: &Robot) -> Result<Self, Failure> {
        Self::check(path)?;
        let camera = Camera::new(robot).map_err(Failure::run)?;
        let painter = Painter::new().map_err(Failure::run)?;
        let seconds = robot.seconds_per_step();
        // The small part makes up for what rounding adds.
        let every = (1.0 / FASTEST / seconds - 1e-9).ceil().max(1.0) as usize;
        let rate = format!("{:.6}", 1.0 / (seconds * every as f64));
        let (width, height) = Camera::SIZE;
        let ffmpeg = Command::new("ffmpeg")
            .args(["-loglevel", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24"])
            .args(["-s", &format!("{width}x{height}"), "-r", &rate, "-i", "-"])
            .args(Self::encoding(path).unwrap_or_default())
            .arg(path)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                Failure::run(format!("cannot start ffmpeg, which --video needs: {error}"))
            })?;
        Ok(Self { path: path.to_owned(), camera, painter, ffmpeg, every, steps: 0, frames: 0 })
    }

    /// Takes a picture, if one is due, with how the episode stands.
    pub fn step(&mut self, robot: &mut Robot, episode: &Episode) -> Result<(), Failure> {
        self.steps += 1;
        if !self.steps.is_multiple_of(self.every) {
            return Ok(());
        }
        let mut lines = vec![format!("reward {:.1}", episode.reward())];
        let constraints = robot.spec().constraints.clone();
        for (c, value) in constraints.iter().zip(episode.constraint_values()) {
            let sign = if c.is_kept_by(value) { "<=" } else { ">" };
            lines.push(format!(
                "{} {} {value:.3} {sign} {}",
                c.aggregate.name(),
                c.name,
                c.threshold
            ));
        }
        let mut picture = self.camera.picture(robot).map_err(Failure::run)?.to_vec();
        let width = Camera::SIZE.0 as usize;
        self.painter.write(&mut picture, width, &lines).map_err(Failure::run)?;
        let input = self.ffmpeg.stdin.as_mut().expect("it was piped");
        if input.write_all(&picture).is_err() {
            return Err(self.said());
        }
        self.frames += 1;
        Ok(())
    }

    /// Waits until the file is whole; returns it and its frames.
    pub fn finish(mut self) -> Result<(PathBuf, usize), Failure> {
        drop(self.ffmpeg.stdin.take());
        match self.ffmpeg.wait() {
            Ok(status) if status.success() => Ok((self.path, self.frames)),
            _ => Err(self.said()),
        }
    }

    /// What ffmpeg said when it failed.
    fn said(&mut self) -> Failure {
        let mut text = String::new();
        if let Some(mut stderr) = self.ffmpeg.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut stderr, &mut text);
        }
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        Failure::run(format!("{}: ffmpeg: {}", self.path.display(), last.unwrap_or("it failed")))
    }
}
