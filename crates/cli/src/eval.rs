//! `ecrl eval`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use ecrl::collect::episodes::Choice;
use ecrl::evaluate::evaluate;
use runs::policy::Policy;
use runs::{directory, read};
use serde_json::json;

use crate::environment;
use crate::failure::Failure;
use crate::threads;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// The most rewarding that kept every constraint both ways, or else the least violating
    Best,
    /// The learner at the end of training
    Final,
}

#[derive(Args)]
pub struct EvalArgs {
    /// The run directory
    run: PathBuf,
    /// Which of the run's policies
    #[arg(long, value_enum, default_value = "best")]
    policy: Which,
    /// Episodes
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    episodes: u32,
    /// The seed of the start states
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Threads; the result does not depend on them [default: all]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Only with sampled actions, as it was trained [default: both ways]
    #[arg(long, conflicts_with = "mean")]
    sample: bool,
    /// Only with its mean action, as a robot is shipped with it [default: both ways]
    #[arg(long)]
    mean: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Which {
    /// The file within a run.
    pub fn file(self) -> &'static str {
        match self {
            Self::Best => directory::BEST,
            Self::Final => directory::POLICY,
        }
    }

    /// Where it is, if it is there.
    pub fn path(self, run: &Path) -> Result<PathBuf, Failure> {
        let path = run.join(self.file());
        if self == Self::Best && !path.exists() && run.join(Self::Final.file()).exists() {
            let text = format!(
                "{}: not there yet: the best is chosen now and then and at the end; --policy final takes \
                 the learner",
                path.display()
            );
            return Err(Failure::input(text));
        }
        Ok(path)
    }
}

pub fn eval(args: EvalArgs, output: &mut impl Write) -> Result<(), Failure> {
    let config = read::config(&args.run)?;
    let name = args.policy.file();
    let path = args.policy.path(&args.run)?;
    let policy = Policy::load(&path, environment::make(&config)?.spec())?;
    let faces: &[(&str, Choice)] = match (args.mean, args.sample) {
        (true, _) => &[("mean action", Choice::Mean)],
        (_, true) => &[("sampled actions", Choice::Sample)],
        _ => &[("mean action", Choice::Mean), ("sampled actions", Choice::Sample)],
    };
    let mut results = Vec::new();
    for (name, choice) in faces {
        let envs = (0..threads(args.threads))
            .map(|_| environment::make(&config))
            .collect::<Result<Vec<_>, Failure>>()?;
        let result = evaluate(&policy.actor, envs, args.episodes as usize, args.seed, *choice)?;
        results.push((*name, result));
    }
    let feasible = results.iter().all(|(_, result)| result.feasible);
    if args.json {
        let mut report = json!({
            "task": config.task,
            "algorithm": policy.about.algorithm,
            "policy": name,
            "env_steps": policy.about.env_steps,
        });
        if results.len() > 1 {
            report["feasible"] = json!(feasible);
        }
        for (name, result) in &results {
            report[name.replace(' ', "_")] = json!(result);
        }
        writeln!(output, "{report:#}")?;
        return Ok(());
    }
    writeln!(
        output,
        "{name} of {} on {}, after {} steps, {} episodes",
        policy.about.algorithm, config.task, policy.about.env_steps, args.episodes
    )?;
    for (name, result) in &results {
        writeln!(output, "{name}")?;
        writeln!(output, "  reward     {:.1} ± {:.1}", result.reward_mean, result.reward_sd)?;
        writeln!(output, "  length     {:.0} steps", result.steps_mean)?;
        for c in &result.constraints {
            writeln!(
                output,
                "  constraint {}: {:.3} ± {:.3}, {}",
                c.constraint,
                c.mean,
                c.sd,
                if c.mean <= c.threshold { "kept" } else { "broken" }
            )?;
        }
        writeln!(output, "  feasible   {:.0} % of episodes", 100.0 * result.feasible_share)?;
    }
    if results.len() > 1 && !results[0].1.constraints.is_empty() {
        let broken = results.iter().filter(|(_, result)| !result.feasible).map(|(name, _)| *name);
        match broken.collect::<Vec<_>>()[..] {
            [] => writeln!(output, "feasible: yes, both ways")?,
            [one] => writeln!(output, "feasible: no, not with its {one}")?,
            _ => writeln!(output, "feasible: no, neither way")?,
        }
    }
    Ok(())
}
