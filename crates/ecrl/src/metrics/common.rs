//! What every run records, whatever the algorithm.

use super::{About, Metric};

/// The unit of values that differ from machine to machine.
pub(super) const SECONDS_UNIT: &str = "s";

/// The number of the generation, from 1.
pub static GENERATION: Metric<u64> =
    Metric::new("generation", "train/generation", "", "Number of the generation, from 1");
/// Environment steps so far.
pub static ENV_STEPS: Metric<u64> = Metric::new(
    "env_steps",
    "train/env_steps",
    "steps",
    "Environment steps so far, by everybody who plays; tests are not counted",
);
/// Updates so far.
pub static GRAD_STEPS: Metric<u64> =
    Metric::new("grad_steps", "train/grad_steps", "updates", "Gradient updates so far");
/// Seconds since the run began.
pub static SECONDS: Metric<f64> = Metric::new(
    "seconds",
    "time/seconds",
    SECONDS_UNIT,
    "Seconds that the run has taken, without those between a stop and a resume",
);
/// Those that updates took.
pub static SECONDS_UPDATES: Metric<f64> = Metric::new(
    "seconds_updates",
    "time/updates",
    SECONDS_UNIT,
    "Seconds of them that went into gradient updates",
);
/// Those that environments took.
pub static SECONDS_PHYSICS: Metric<f64> = Metric::new(
    "seconds_physics",
    "time/physics",
    SECONDS_UNIT,
    "Seconds of them that went into the environments, in training and in tests",
);
/// The learner's mean return in the test.
pub static LEARNER_REWARD: Metric<f64> = Metric::new(
    "learner_reward",
    "test/reward",
    "return",
    "Mean return of the learner's test episodes, in generations that were tested",
);
/// The learner's mean J_C in the test.
pub static LEARNER_COST: Metric<Vec<f64>> =
    Metric::new("learner_cost", "test", "J_C", "Mean J_C of the learner's test episodes");
/// Whether the learner kept every constraint in the test.
pub static FEASIBLE: Metric<bool> = Metric::new(
    "feasible",
    "test/feasible",
    "",
    "Whether the learner's mean J_C kept every constraint in the test",
);
/// The champion's mean return in the test.
pub static CHAMPION_REWARD: Metric<f64> = Metric::new(
    "champion_reward",
    "champion/reward",
    "return",
    "Mean return of the test episodes of the champion, the first of the generation's ranking",
);
/// The champion's mean J_C in the test.
pub static CHAMPION_COST: Metric<Vec<f64>> =
    Metric::new("champion_cost", "champion", "J_C", "Mean J_C of the champion's test episodes");
/// The mean return of the learner's own episodes.
pub static ROLLOUT_REWARD: Metric<f64> = Metric::new(
    "rollout_reward",
    "rollout/reward",
    "return",
    "Mean return of the learner's training episodes, with sampled actions, that ended in the generation",
);
/// Their mean J_C.
pub static ROLLOUT_COST: Metric<Vec<f64>> =
    Metric::new("rollout_cost", "rollout", "J_C", "Mean J_C of those training episodes");
/// Episodes whose simulation broke down.
pub static UNSTABLE: Metric<u64> = Metric::new(
    "unstable",
    "train/unstable",
    "episodes",
    "Training episodes of the generation whose simulation broke down",
);
/// Whether the test gave the best policy so far.
pub static NEW_BEST: Metric<bool> = Metric::new(
    "new_best",
    "test/new_best",
    "",
    "Whether the generation's test gave the best policy so far",
);
/// The reward of the best policy so far.
pub static BEST_REWARD: Metric<f64> = Metric::new(
    "best_reward",
    "best/reward",
    "return",
    "Mean return of the best policy so far, in the test that made it the best",
);
/// Whether it keeps every constraint.
pub static BEST_FEASIBLE: Metric<bool> = Metric::new(
    "best_feasible",
    "best/feasible",
    "",
    "Whether the best policy so far kept every constraint in that test",
);

/// What every run records, whatever the algorithm.
pub static COMMON: &[&About] = &[
    &GENERATION.about,
    &ENV_STEPS.about,
    &GRAD_STEPS.about,
    &SECONDS.about,
    &SECONDS_UPDATES.about,
    &SECONDS_PHYSICS.about,
    &LEARNER_REWARD.about,
    &LEARNER_COST.about,
    &FEASIBLE.about,
    &ROLLOUT_REWARD.about,
    &ROLLOUT_COST.about,
    &UNSTABLE.about,
    &NEW_BEST.about,
    &BEST_REWARD.about,
    &BEST_FEASIBLE.about,
    &CHAMPION_REWARD.about,
    &CHAMPION_COST.about,
];
