//! Every algorithm is one loop with choices made once: this is the table of choices.

use serde::{Deserialize, Serialize};

use crate::ranking::Ranking;

/// Which multipliers λ transitions are shaped with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Multipliers {
    /// None: λ = 0, the constraints are measured and nothing else.
    None,
    /// The same fixed λ for everyone.
    Fixed,
    /// The learner's, which follows the violation, for everyone.
    Adaptive,
    /// Each actor its own, raised from the constraint buffer; the learner has its own, too.
    PerActor,
}

/// What learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learner {
    /// SAC, from a replay buffer.
    Sac,
    /// PPO, from what was just played; with a log barrier, IPO.
    Ppo {
        /// Whether there is one.
        barrier: bool,
    },
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Algorithm {
    /// The name as typed on the command line.
    pub name: &'static str,
    /// What learns.
    pub learner: Learner,
    /// How the population is ranked; without a ranking there is no population.
    pub ranking: Option<Ranking>,
    /// The multipliers of the transitions.
    pub multipliers: Multipliers,
    /// What it is, in one line.
    pub description: &'static str,
}

const fn row(
    name: &'static str,
    ranking: Option<Ranking>,
    multipliers: Multipliers,
    description: &'static str,
) -> Algorithm {
    Algorithm { name, learner: Learner::Sac, ranking, multipliers, description }
}

const fn on_policy(name: &'static str, barrier: bool, description: &'static str) -> Algorithm {
    let (learner, multipliers) = (Learner::Ppo { barrier }, Multipliers::None);
    Algorithm { name, learner, ranking: None, multipliers, description }
}

/// Every algorithm.
pub const ALGORITHMS: [Algorithm; 11] = [
    row(
        "ecrl",
        Some(Ranking::Stochastic),
        Multipliers::PerActor,
        "the paper: stochastic ranking, and multipliers fed by a constraint buffer",
    ),
    row(
        "erl",
        Some(Ranking::Reward),
        Multipliers::None,
        "evolution and SAC by reward alone (Khadka & Tumer, 2018)",
    ),
    row(
        "erl-shaped",
        Some(Ranking::Reward),
        Multipliers::Fixed,
        "erl with a fixed penalty, --lambda",
    ),
    row(
        "rcpo-erl",
        Some(Ranking::Reward),
        Multipliers::Adaptive,
        "erl with the learner's adaptive penalty for everyone",
    ),
    row(
        "sr",
        Some(Ranking::Stochastic),
        Multipliers::None,
        "ablation: stochastic ranking without penalties",
    ),
    row(
        "sr-shaped",
        Some(Ranking::Stochastic),
        Multipliers::Fixed,
        "ablation: stochastic ranking with a fixed penalty, --lambda",
    ),
    row(
        "bc",
        Some(Ranking::Reward),
        Multipliers::PerActor,
        "ablation: the constraint buffer's multipliers without stochastic ranking",
    ),
    row(
        "rcpo",
        None,
        Multipliers::Adaptive,
        "SAC with an adaptive penalty, no population (Tessler et al., 2019)",
    ),
    row(
        "sac",
        None,
        Multipliers::None,
        "SAC by reward alone, no population (Haarnoja et al., 2018)",
    ),
    on_policy("ipo", true, "PPO with a log barrier at every threshold (Liu et al., 2020)"),
    on_policy("ppo", false, "PPO by reward alone (Schulman et al., 2017)"),
];
