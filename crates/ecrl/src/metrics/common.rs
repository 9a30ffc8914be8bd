//! What every run records, whatever the algorithm.

use super::{About, Metric};

/// The unit of values that differ from machine to machine.
pub(crate) const SECONDS_UNIT: &str = "s";

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
pub static GRAD_STEPS: Metric<u64> = Metric::new(
    "grad_steps",
    "train/grad_steps",
    "updates",
    "Gradient updates so far; of each, where several learn",
);
/// Seconds since the run began.
pub static SECONDS: Metric<f64> = Metric::new(
    "seconds",
    "time/seconds",
    SECONDS_UNIT,
    "Seconds that the run has taken, without those between a stop and a resume",
);
/// Those that playing took.
pub static SECONDS_COLLECT: Metric<f64> = Metric::new(
    "seconds_collect",
    "time/collect",
    SECONDS_UNIT,
    "Seconds of them that went into playing what is learnt from",
);
/// Those that tests took.
pub static SECONDS_TESTS: Metric<f64> = Metric::new(
    "seconds_tests",
    "time/tests",
    SECONDS_UNIT,
    "Seconds of them that went into tests",
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
    "Seconds that went into the environments: of those of playing and of tests",
);
/// The learner's mean return in the test.
pub static LEARNER_REWARD: Metric<f64> = Metric::new(
    "learner_reward",
    "test/reward",
    "return",
    "Mean return of the learner's test episodes with its mean action, in generations that were tested",
);
/// The learner's mean J_C in the test.
pub static LEARNER_COST: Metric<Vec<f64>> =
    Metric::new("learner_cost", "test", "J_C", "Mean J_C of those test episodes");
/// The learner's mean return with sampled actions.
pub static SAMPLED_REWARD: Metric<f64> = Metric::new(
    "sampled_reward",
    "sampled/reward",
    "return",
    "Mean return of the learner with sampled actions: of its last training episodes that ended; at the \
     end of a run, with test.sample or where none has ended yet, of test episodes of their own",
);
/// Its mean J_C with sampled actions.
pub static SAMPLED_COST: Metric<Vec<f64>> = Metric::new(
    "sampled_cost",
    "sampled",
    "J_C",
    "Mean J_C of those episodes with sampled actions",
);
/// Whether the learner kept every constraint, with both faces.
pub static FEASIBLE: Metric<bool> = Metric::new(
    "feasible",
    "test/feasible",
    "",
    "Whether the learner's mean J_C kept every constraint, with its mean action and with sampled ones",
);
/// The champion's mean return in the test.
pub static CHAMPION_REWARD: Metric<f64> = Metric::new(
    "champion_reward",
    "champion/reward",
    "return",
    "Mean return of the champion's test episodes with its mean action; it is the first of the generation's \
     ranking, or with evolution.champion the most rewarding",
);
/// The champion's mean J_C in the test.
pub static CHAMPION_COST: Metric<Vec<f64>> =
    Metric::new("champion_cost", "champion", "J_C", "Mean J_C of those test episodes");
/// The champion's return with sampled actions.
pub static CHAMPION_SAMPLED_REWARD: Metric<f64> = Metric::new(
    "champion_sampled_reward",
    "champion_sampled/reward",
    "return",
    "Return of the champion with sampled actions: of the episode it was ranked by; at the end of a \
     run or with test.sample, the mean of test episodes of their own",
);
/// Its J_C with sampled actions.
pub static CHAMPION_SAMPLED_COST: Metric<Vec<f64>> = Metric::new(
    "champion_sampled_cost",
    "champion_sampled",
    "J_C",
    "J_C of the champion with sampled actions, in the same episodes",
);
/// How far training episodes were outside the constraints.
pub static EXCESS: Metric<Vec<f64>> = Metric::new(
    "excess",
    "excess",
    "J_C·steps",
    "How far outside its constraint the generation's training was: the sum over all episodes that ended, \
     whoever played them, of max(0, J_C - ε) times their steps",
);
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
    "Whether a policy became the best of the run, having been tested again",
);
/// The reward of the best policy so far.
pub static BEST_REWARD: Metric<f64> = Metric::new(
    "best_reward",
    "best/reward",
    "return",
    "Mean return of the best policy so far with its mean action, when it was tested again on fresh starts",
);
/// Its mean J_C.
pub static BEST_COST: Metric<Vec<f64>> =
    Metric::new("best_cost", "best", "J_C", "Mean J_C of the best policy so far in that test");
/// Its reward with sampled actions.
pub static BEST_SAMPLED_REWARD: Metric<f64> = Metric::new(
    "best_sampled_reward",
    "best_sampled/reward",
    "return",
    "Mean return of the best policy so far with sampled actions, on the same starts",
);
/// Its mean J_C with sampled actions.
pub static BEST_SAMPLED_COST: Metric<Vec<f64>> = Metric::new(
    "best_sampled_cost",
    "best_sampled",
    "J_C",
    "Mean J_C of the best policy so far with sampled actions, on the same starts",
);
/// Whether it keeps every constraint.
pub static BEST_FEASIBLE: Metric<bool> = Metric::new(
    "best_feasible",
    "best/feasible",
    "",
    "Whether the best policy so far kept every constraint when it was tested again, with both faces",
);
/// Whether the run ends here because it has come to what it was to come to.
pub static REACHED: Metric<bool> = Metric::new(
    "reached",
    "test/reached",
    "",
    "Whether the run ended here because every condition of test.until was met; recorded only if so",
);

/// What every run records, whatever the algorithm.
pub static COMMON: &[&About] = &[
    &GENERATION.about,
    &ENV_STEPS.about,
    &GRAD_STEPS.about,
    &SECONDS.about,
    &SECONDS_COLLECT.about,
    &SECONDS_UPDATES.about,
    &SECONDS_TESTS.about,
    &SECONDS_PHYSICS.about,
    &LEARNER_REWARD.about,
    &LEARNER_COST.about,
    &SAMPLED_REWARD.about,
    &SAMPLED_COST.about,
    &FEASIBLE.about,
    &REACHED.about,
    &ROLLOUT_REWARD.about,
    &ROLLOUT_COST.about,
    &EXCESS.about,
    &UNSTABLE.about,
    &NEW_BEST.about,
    &BEST_REWARD.about,
    &BEST_COST.about,
    &BEST_SAMPLED_REWARD.about,
    &BEST_SAMPLED_COST.about,
    &BEST_FEASIBLE.about,
    &CHAMPION_REWARD.about,
    &CHAMPION_COST.about,
    &CHAMPION_SAMPLED_REWARD.about,
    &CHAMPION_SAMPLED_COST.about,
];
