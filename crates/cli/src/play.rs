//! `ecrl play`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use cmdp::{Aggregate, Constraint, Env as _, Episode};
use ecrl::evaluate;
use ecrl::policy::Policy;
use ecrl::run;
use report::playback::{Playback, Watched};
use robots::{COSTS, Robot, Task};

use crate::eval::Which;
use crate::failure::Failure;

#[derive(Args)]
pub struct PlayArgs {
    /// The run directory
    run: PathBuf,
    /// Which of the run's policies
    #[arg(long, value_enum, default_value = "best")]
    policy: Which,
    /// Episodes, each on a page of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    episodes: u32,
    /// The seed of the start states: the same as in `ecrl eval`
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The page; further episodes get -2, -3, ... before the extension
    #[arg(long, default_value = "play.html")]
    html: PathBuf,
}

pub fn play(args: PlayArgs, output: &mut impl Write) -> Result<(), Failure> {
    let config = run::read_config(&args.run)?;
    let task = Task::find(&config.task)?;
    let constraints = Constraint::parse_all(&config.constraints, &COSTS)?;
    let mut robot = Robot::new(task, constraints)?;
    let policy = Policy::load(&args.run.join(args.policy.file()), robot.spec())?;
    for episode in 0..args.episodes {
        let key = evaluate::key(args.seed, episode.into());
        let (playback, result) = record(&mut robot, &policy, key);
        let path = match episode {
            0 => args.html.clone(),
            n => {
                let stem = args.html.file_stem().unwrap_or_default().to_string_lossy();
                let end = args.html.extension().unwrap_or_default().to_string_lossy();
                args.html.with_file_name(format!("{stem}-{}.{end}", n + 1))
            }
        };
        let page = playback.page();
        std::fs::write(&path, &page)
            .map_err(|error| Failure::run(format!("{}: {error}", path.display())))?;
        writeln!(
            output,
            "{}: reward {:.1} in {} steps, {}; {:.1} MB, open it in a browser",
            path.display(),
            result.reward(),
            result.steps(),
            if result.is_feasible() { "every constraint kept" } else { "a constraint broken" },
            page.len() as f64 / 1e6
        )?;
    }
    Ok(())
}

/// Plays one episode with the mean action.
fn record(robot: &mut Robot, policy: &Policy, key: [u64; 4]) -> (Playback<robots::Shape>, Episode) {
    let spec = robot.spec().clone();
    let mut episode = Episode::new(&spec.constraints);
    let mut obs = vec![0.0; spec.observation];
    let mut costs = vec![0.0; spec.constraints.len()];
    let watched = |c: &Constraint| Watched {
        name: c.name.clone(),
        mean: c.aggregate == Aggregate::Mean,
        threshold: c.threshold,
        costs: Vec::new(),
    };
    let about = &policy.about;
    let mut playback = Playback {
        title: format!("{} on {}, after {} steps", about.algorithm, about.task, about.env_steps),
        shapes: robot.shapes(),
        seconds: robot.seconds_per_step(),
        rewards: Vec::new(),
        constraints: spec.constraints.iter().map(watched).collect(),
        actions: Vec::new(),
        poses: Vec::new(),
    };
    robot.reset(&mut cmdp::rng(key), &mut obs);
    playback.poses.extend(robot.poses().iter().flatten());
    loop {
        let seen: Vec<f32> = obs.iter().map(|&x| x as f32).collect();
        let action = policy.act(&seen).expect("a policy of this robot");
        let step = robot.step(&action, &mut obs, &mut costs);
        episode.push(&step, &costs);
        playback.poses.extend(robot.poses().iter().flatten());
        playback.rewards.push(step.reward);
        let each = playback.constraints.iter_mut().zip(&costs);
        each.for_each(|(watched, cost)| watched.costs.push(*cost));
        playback.actions.push(action);
        if step.is_last() {
            return (playback, episode);
        }
    }
}
