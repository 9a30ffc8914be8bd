//! `ecrl eval`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ecrl::evaluate::evaluate;
use runs::policy::Policy;
use runs::{directory, read};
use serde_json::json;

use crate::environment;
use crate::failure::Failure;
use crate::threads;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// The most rewarding in tests that kept every constraint, or else the least violating
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
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    episodes: u32,
    /// The seed of the start states
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Threads; the result does not depend on them [default: all]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
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
}

pub fn eval(args: EvalArgs, output: &mut impl Write) -> Result<(), Failure> {
    let config = read::config(&args.run)?;
    let envs = (0..threads(args.threads))
        .map(|_| environment::make(&config))
        .collect::<Result<Vec<_>, Failure>>()?;
    let name = args.policy.file();
    let policy = Policy::load(&args.run.join(name), envs[0].spec())?;
    let result = evaluate(&policy.actor, envs, args.episodes as usize, args.seed)
        .map_err(|error| Failure::run(format!("cannot start threads: {error}")))?;
    if args.json {
        let mut report = json!(result);
        report["task"] = json!(config.task);
        report["algorithm"] = json!(policy.about.algorithm);
        report["policy"] = json!(name);
        report["env_steps"] = json!(policy.about.env_steps);
        writeln!(output, "{report:#}")?;
        return Ok(());
    }
    writeln!(
        output,
        "{name} of {} on {}, after {} steps, {} episodes",
        policy.about.algorithm, config.task, policy.about.env_steps, result.episodes
    )?;
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
    Ok(())
}
