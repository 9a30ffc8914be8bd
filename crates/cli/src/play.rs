//! `ecrl play`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use ecrl::evaluate;
use report::playback;
use robots::Body;
use runs::output::put;
use runs::policy::Policy;
use runs::shell::printable;

use crate::failure::Failure;
use crate::policies::PolicyArgs;
use crate::video;

#[derive(Args)]
pub struct PlayArgs {
    #[command(flatten)]
    policy: PolicyArgs,
    /// Play so many episodes and show a typical one: the first with the median return
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    of: u32,
    /// Show the first N episodes instead, each on a page of its own
    #[arg(long, value_name = "N", conflicts_with = "of", value_parser = clap::value_parser!(u32).range(1..=1000))]
    episodes: Option<u32>,
    /// The seed of the start states: the same as in `ecrl eval`
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write a page to watch it in a browser; further episodes get -2, -3, ... before the extension
    /// [default: play.html, unless there is a --video]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a video: .mp4, .webm or .gif. Needs ffmpeg
    #[arg(long, value_name = "FILE")]
    video: Option<PathBuf>,
    /// Width and height of the video: even numbers from 16 to 4096
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "640x480", requires = "video", value_parser = video::size)]
    size: (usize, usize),
    /// Show it in MuJoCo's own viewer; needs a display, and a program built with `--features window`
    #[arg(long)]
    window: bool,
}

pub fn play(args: PlayArgs, output: &mut impl Write) -> Result<(), Failure> {
    let chosen = args.policy.choose(&[])?;
    let (mut robot, policy) = (chosen.robot()?, chosen.policy);
    let html = match (&args.html, &args.video) {
        (None, None) => Some(PathBuf::from("play.html")),
        (html, _) => html.clone(),
    };
    if let Some(video) = &args.video {
        video::check(video)?;
    }
    let key = |episode: usize| evaluate::key(args.seed, episode as u64);
    let mut record = |episode: usize| playback::record(&mut *robot, &policy, key(episode));
    let (episodes, median) = match args.episodes {
        Some(count) => ((0..count as usize).collect(), String::new()),
        None => {
            // The chosen one is played again: to keep all might fill the memory.
            let returns = (0..args.of as usize).map(|i| record(i).episode.reward());
            let typical = playback::typical(&returns.collect::<Vec<f64>>());
            let median = format!(", the median of {} episodes by return", args.of);
            (vec![typical], if args.of > 1 { median } else { String::new() })
        }
    };
    if args.window {
        let keys: Vec<[u64; 4]> = episodes.into_iter().map(key).collect();
        return in_window(&keys, robot, &policy);
    }
    for (file, &episode) in episodes.iter().enumerate() {
        let (playback, chosen) = (record(episode), format!("episode {}{median}", episode + 1));
        let told = format!("{chosen}: {}", playback.told());
        if let Some(html) = &html {
            let path = numbered(html, file);
            let page = playback.page(&chosen);
            put(&path, page.as_bytes(), report::is_our_page)?;
            let megabytes = page.len() as f64 / 1e6;
            let path = printable(&path.display().to_string());
            writeln!(output, "{path}: {told}; {megabytes:.1} MB, open it in a browser")?;
        }
        if let Some(video) = &args.video {
            let path = numbered(video, file);
            let frames = video::write(&path, args.size, &playback)?;
            let path = printable(&path.display().to_string());
            writeln!(output, "{path}: {told}; {frames} frames")?;
        }
    }
    Ok(())
}

/// Plays the episodes in a window, as fast as the robot moves.
#[cfg(feature = "window")]
fn in_window(keys: &[[u64; 4]], mut robot: Box<dyn Body>, policy: &Policy) -> Result<(), Failure> {
    use cmdp::Env as _;
    let mut window = robots::Window::open(&mut *robot).map_err(Failure::run)?;
    let step_time = std::time::Duration::from_secs_f64(cmdp::Visual::seconds_per_step(&*robot));
    let mut obs = vec![0.0; robot.spec().observation];
    let mut costs = vec![0.0; robot.spec().constraints.len()];
    for key in keys {
        robot.reset(&mut cmdp::rng(*key), &mut obs);
        let mut due = std::time::Instant::now();
        loop {
            if !window.show(&mut *robot).map_err(Failure::run)? {
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
fn in_window(_: &[[u64; 4]], _: Box<dyn Body>, _: &Policy) -> Result<(), Failure> {
    Err(Failure::input(
        "this program was built without a window: expected one built with ECRL_FEATURES=window",
    ))
}

/// The file of an episode: the first has the name as given, then come -2, -3, ...
fn numbered(path: &Path, file: usize) -> PathBuf {
    if file == 0 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let end = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{}.{end}", file + 1))
}
