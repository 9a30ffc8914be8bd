//! `ecrl play`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use ecrl::evaluate;
use report::playback;
use robots::Robot;
use runs::policy::Policy;

use crate::failure::Failure;
use crate::policies::PolicyArgs;
use crate::video::Video;

#[derive(Args)]
pub struct PlayArgs {
    #[command(flatten)]
    policy: PolicyArgs,
    /// Episodes, each on a page of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    episodes: u32,
    /// The seed of the start states: the same as in `ecrl eval`
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write a page to watch it in a browser; further episodes get -2, -3, ... before the extension
    /// [default: play.html, unless there is a --video]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a video: .mp4, .webm or .gif. Needs ffmpeg, and EGL to render without a display
    #[arg(long, value_name = "FILE")]
    video: Option<PathBuf>,
    /// Show it in MuJoCo's own viewer; needs a display, and a program built with `--features window`
    #[arg(long)]
    window: bool,
}

pub fn play(args: PlayArgs, output: &mut impl Write) -> Result<(), Failure> {
    let chosen = args.policy.choose(&[])?;
    let (mut robot, policy) = (chosen.robot()?, chosen.policy);
    if args.window {
        return in_window(&args, robot, &policy);
    }
    let html = match (&args.html, &args.video) {
        (None, None) => Some(PathBuf::from("play.html")),
        (html, _) => html.clone(),
    };
    if let Some(video) = &args.video {
        Video::check(video)?;
    }
    for episode in 0..args.episodes {
        let key = evaluate::key(args.seed, episode.into());
        let mut video = match &args.video {
            Some(path) => Some(Video::new(&numbered(path, episode), &robot)?),
            None => None,
        };
        let (playback, result) = playback::record(&mut robot, &policy, key, |robot, episode| {
            video.as_mut().map_or(Ok(()), |video| video.step(robot, episode))
        })?;
        let told = format!(
            "reward {:.1} in {} steps with its mean action, {}",
            result.reward(),
            result.steps(),
            if result.is_feasible() { "every constraint kept" } else { "a constraint broken" }
        );
        if let Some(video) = video {
            let (path, frames) = video.finish()?;
            writeln!(output, "{}: {told}; {frames} frames", path.display())?;
        }
        if let Some(html) = &html {
            let path = numbered(html, episode);
            let page = playback.page();
            std::fs::write(&path, &page)
                .map_err(|error| Failure::run(format!("{}: {error}", path.display())))?;
            let megabytes = page.len() as f64 / 1e6;
            let path = path.display();
            writeln!(output, "{path}: {told}; {megabytes:.1} MB, open it in a browser")?;
        }
    }
    Ok(())
}

/// Plays the episodes in a window, as fast as the robot moves.
#[cfg(feature = "window")]
fn in_window(args: &PlayArgs, mut robot: Robot, policy: &Policy) -> Result<(), Failure> {
    use cmdp::Env as _;
    let mut window = robots::Window::open(&robot).map_err(Failure::run)?;
    let step_time = std::time::Duration::from_secs_f64(cmdp::Visual::seconds_per_step(&robot));
    let mut obs = vec![0.0; robot.spec().observation];
    let mut costs = vec![0.0; robot.spec().constraints.len()];
    for episode in 0..args.episodes {
        robot.reset(&mut cmdp::rng(evaluate::key(args.seed, episode.into())), &mut obs);
        let mut due = std::time::Instant::now();
        loop {
            if !window.show(&mut robot).map_err(Failure::run)? {
                return Ok(());
            }
            due += step_time;
            std::thread::sleep(due.saturating_duration_since(std::time::Instant::now()));
            let seen: Vec<f32> = obs.iter().map(|&x| x as f32).collect();
            let action = policy.act(&seen).expect("a policy of this robot");
            if robot.step(&action, &mut obs, &mut costs).is_last() {
                break;
            }
        }
    }
    Ok(())
}

#[cfg(not(feature = "window"))]
fn in_window(_args: &PlayArgs, _robot: Robot, _policy: &Policy) -> Result<(), Failure> {
    Err(Failure::input(
        "this program was built without a window: expected one built with ECRL_FEATURES=window",
    ))
}

/// The file of an episode: the first has the name as given, then come -2, -3, ...
fn numbered(path: &Path, episode: u32) -> PathBuf {
    if episode == 0 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let end = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{}.{end}", episode + 1))
}
