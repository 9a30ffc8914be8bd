//! `ecrl eval`.

use std::io::Write;

use clap::Args;
use cmdp::Env;
use ecrl::collect::episodes::Choice;
use ecrl::evaluate::evaluate;
use runs::shell::printable;
use serde_json::json;

use crate::failure::Failure;
use crate::policies::PolicyArgs;
use crate::threads;

#[derive(Args)]
pub struct EvalArgs {
    #[command(flatten)]
    policy: PolicyArgs,
    /// Measure it under this constraint instead of those it was trained with, as in 'torque<=0.3'; may be
    /// given several times, 'none' for none
    #[arg(long = "constraint", value_name = "CONSTRAINT")]
    constraints: Vec<String>,
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
    /// Print one JSON object: task, algorithm, policy (the file), env_steps (when it was stored), feasible
    /// (both ways), and for mean_action and sampled_actions: episodes, reward_mean, reward_sd,
    /// steps_mean, constraints (each with constraint, mean, sd, threshold), feasible, feasible_share, and
    /// each (of every episode: start, reward, steps, constraints)
    #[arg(long)]
    json: bool,
}

pub fn eval(args: EvalArgs, output: &mut impl Write) -> Result<(), Failure> {
    let chosen = args.policy.choose(&args.constraints)?;
    let (policy, task) = (&chosen.policy, chosen.task.name());
    let name = chosen.path.file_name().unwrap_or_default().to_string_lossy();
    let name = printable(&name);
    let faces: &[(&str, Choice)] = match (args.mean, args.sample) {
        (true, _) => &[("mean action", Choice::Mean)],
        (_, true) => &[("sampled actions", Choice::Sample)],
        _ => &[("mean action", Choice::Mean), ("sampled actions", Choice::Sample)],
    };
    let mut results = Vec::new();
    for (name, choice) in faces {
        let envs = (0..threads(args.threads))
            .map(|_| Ok(chosen.robot()? as Box<dyn Env>))
            .collect::<Result<Vec<_>, Failure>>()?;
        let result = evaluate(&policy.actor, envs, args.episodes as usize, args.seed, *choice)?;
        results.push((*name, result));
    }
    let feasible = results.iter().all(|(_, result)| result.feasible);
    if args.json {
        let mut report = json!({
            "task": task,
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
        policy.about.algorithm, task, policy.about.env_steps, args.episodes
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
