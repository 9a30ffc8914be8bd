//! A run on one line: where it stands, what its policy earns and costs, both ways.

use std::time::SystemTime;

use ecrl::metrics::{
    BEST_COST, BEST_REWARD, BEST_SAMPLED_COST, BEST_SAMPLED_REWARD, LEARNER_COST, LEARNER_REWARD,
    Metric, SAMPLED_COST, SAMPLED_REWARD,
};
use serde_json::json;

use crate::runs::{Run, RunState};

/// What is said of a run.
pub struct Line {
    /// Its folder.
    pub run: String,
    /// Its task.
    pub task: String,
    /// Its algorithm, with the values that are not the usual ones.
    pub algorithm: String,
    /// Its seed.
    pub seed: u64,
    /// Steps taken.
    pub steps: u64,
    /// Steps asked for.
    pub of: u64,
    /// Whose figures these are: the best policy, which was tested again, or the learner in its last test.
    pub policy: &'static str,
    /// With the mean action and with sampled ones.
    pub reward: Option<[f64; 2]>,
    /// Each constraint with its J_C both ways, and whether both keep it.
    pub costs: Vec<(String, [f64; 2], bool)>,
    /// finished, going, stopped or failed.
    pub state: &'static str,
    /// Why it failed.
    pub reason: Option<String>,
    /// Seconds since it recorded something.
    pub seconds_ago: f64,
}

impl Line {
    /// The line of a run.
    pub fn of(run: &Run) -> Self {
        let find = |rewards: [&'static Metric<f64>; 2], costs: [&'static Metric<Vec<f64>>; 2]| {
            run.generations.iter().rev().find_map(|g| {
                let [mean, sampled] = rewards.map(|metric| g.get(metric));
                let [mean_cost, sampled_cost] = costs.map(|metric| g.get(metric));
                Some(([mean?, sampled?], [mean_cost?, sampled_cost?]))
            })
        };
        let best = find([&BEST_REWARD, &BEST_SAMPLED_REWARD], [&BEST_COST, &BEST_SAMPLED_COST]);
        let policy = if best.is_some() { "best" } else { "last" };
        let last = || find([&LEARNER_REWARD, &SAMPLED_REWARD], [&LEARNER_COST, &SAMPLED_COST]);
        let found = best.or_else(last);
        let costs = found.iter().flat_map(|(_, [mean, sampled])| {
            let values = mean.iter().zip(sampled).map(|(mean, sampled)| [*mean, *sampled]);
            run.constraints.iter().zip(values).map(|(c, values)| {
                let kept = values.iter().all(|value| c.is_kept_by(*value));
                (c.to_string(), values, kept)
            })
        });
        let (state, reason) = match &run.state {
            RunState::Finished => ("finished", None),
            RunState::Going => ("going", None),
            RunState::Unfinished => ("stopped", None),
            RunState::Failed(reason) => ("failed", Some(reason.clone())),
        };
        let metadata = run.path.join("metrics.jsonl").metadata();
        let modified = metadata.and_then(|found| found.modified()).ok();
        let ago = modified.and_then(|at| SystemTime::now().duration_since(at).ok());
        Self {
            run: run.path.display().to_string(),
            task: run.config.task.clone(),
            algorithm: run.kind.clone(),
            seed: run.config.seed,
            steps: run.steps(),
            of: run.config.steps,
            policy,
            costs: costs.collect(),
            reward: found.map(|(reward, _)| reward),
            state,
            reason,
            seconds_ago: ago.map_or(0.0, |ago| ago.as_secs_f64()),
        }
    }

    /// Whether its policy keeps every constraint, both ways.
    pub fn is_feasible(&self) -> bool {
        self.reward.is_some() && self.costs.iter().all(|(_, _, kept)| *kept)
    }

    /// The same for other programs.
    pub fn json(&self) -> serde_json::Value {
        let constraint = |(constraint, [mean, sampled], kept): &(String, [f64; 2], bool)| json!({"constraint": constraint, "mean": mean, "sampled": sampled, "kept": kept});
        json!({
            "run": self.run,
            "task": self.task,
            "algorithm": self.algorithm,
            "seed": self.seed,
            "steps": self.steps,
            "of": self.of,
            "policy": self.policy,
            "reward": self.reward.map(|[mean, _]| mean),
            "sampled_reward": self.reward.map(|[_, sampled]| sampled),
            "constraints": self.costs.iter().map(constraint).collect::<Vec<_>>(),
            "state": self.state,
            "reason": self.reason,
            "seconds_ago": self.seconds_ago,
        })
    }
}
