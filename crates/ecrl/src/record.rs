//! What a run tells of itself: the lines of `metrics.jsonl` and `population.jsonl`.

use serde::{Deserialize, Serialize};

use crate::variation::Descent;

/// What one generation brought: one line of `metrics.jsonl`.
///
/// Costs and multipliers have one entry for each constraint. Test figures are there in generations
/// that were tested.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)] // older runs have fewer
pub struct Generation {
    /// Its number, from 1.
    pub generation: u64,
    /// Environment steps so far.
    pub env_steps: u64,
    /// Updates so far.
    pub grad_steps: u64,
    /// Seconds since the run began.
    pub seconds: f64,
    /// Where they went.
    pub times: Times,
    /// The learner's mean return in the test.
    pub learner_reward: Option<f64>,
    /// The learner's mean J_C in the test.
    pub learner_cost: Option<Vec<f64>>,
    /// Whether the learner's mean J_C kept every constraint in the test.
    pub feasible: Option<bool>,
    /// The champion's mean return in the test: the first of this generation's ranking.
    pub champion_reward: Option<f64>,
    /// The champion's mean J_C in the test.
    pub champion_cost: Option<Vec<f64>>,
    /// The mean return of the learner's own sampled episodes that ended in this generation.
    pub rollout_reward: Option<f64>,
    /// Their mean J_C.
    pub rollout_cost: Option<Vec<f64>>,
    /// The mean return of the population's episodes.
    pub population_reward_mean: Option<f64>,
    /// Their mean J_C.
    pub population_cost_mean: Option<Vec<f64>>,
    /// The share of the population that kept every constraint.
    pub population_feasible: Option<f64>,
    /// The learner's multipliers after the generation.
    pub lambda_learner: Vec<f64>,
    /// The mean over the population of the multipliers its transitions were stored with.
    pub lambda_mean: Option<Vec<f64>>,
    /// What became of the copy of the learner in the population.
    pub learner_copy: Option<Fate>,
    /// Means over the generation's updates.
    pub critic_loss: Option<f64>,
    /// The actor's loss.
    pub actor_loss: Option<f64>,
    /// The policy's entropy.
    pub entropy: Option<f64>,
    /// On-policy: how far the policy moved, as the mean of `log π_old - log π`.
    pub kl: Option<f64>,
    /// On-policy: the share of samples that the clipped objective held back.
    pub clipped: Option<f64>,
    /// IPO: the share of updates that followed the cost alone, because the barrier was undefined.
    pub recovery: Option<f64>,
    /// Episodes whose simulation broke down.
    pub unstable: usize,
    /// Transitions stored.
    pub replay: usize,
    /// Whether this generation's test gave the best policy so far.
    pub new_best: bool,
    /// The reward of the best policy so far.
    pub best_reward: Option<f64>,
    /// Whether it keeps every constraint.
    pub best_feasible: Option<bool>,
}

/// What became of the copy of the learner when the population it joined was ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It was among the elites.
    Elite,
    /// It won a tournament.
    Selected,
    /// It was overwritten.
    Discarded,
}

/// How often the learner's copy met each fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fates {
    /// Among the elites.
    pub elite: u64,
    /// Won a tournament.
    pub selected: u64,
    /// Overwritten.
    pub discarded: u64,
}

/// One actor of the population, as it was ranked: part of a line of `population.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Individual {
    /// Its slot.
    pub slot: usize,
    /// Its place in the ranking, from 0.
    pub rank: usize,
    /// Whether it passed on unchanged.
    pub elite: bool,
    /// The return of its episode.
    pub reward: f64,
    /// J_C of its episode.
    pub cost: Vec<f64>,
    /// Its violation φ.
    pub violation: f64,
    /// The multipliers its transitions were stored with.
    pub lambda: Vec<f64>,
    /// How it came about, from which slots of the generation before.
    #[serde(flatten)]
    pub descent: Descent,
}

/// The population of one generation: a line of `population.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Census {
    /// The generation.
    pub generation: u64,
    /// How often the learner's copy met each fate so far.
    pub learner_copies: Fates,
    /// Every actor, best first.
    pub individuals: Vec<Individual>,
}

/// Where the time went, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Times {
    /// Gradient updates.
    pub updates: f64,
    /// The environments, in training and in tests.
    pub physics: f64,
    /// The whole run.
    pub total: f64,
}

/// What one update saw; sums and means of it over several.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// The critics' loss.
    pub critic: f64,
    /// The actor's loss.
    pub actor: f64,
    /// The policy's entropy.
    pub entropy: f64,
    /// See [`Generation::kl`].
    pub kl: f64,
    /// See [`Generation::clipped`].
    pub clipped: f64,
    /// See [`Generation::recovery`].
    pub recovery: f64,
}

impl Figures {
    fn all(&mut self) -> [&mut f64; 6] {
        let Self { critic, actor, entropy, kl, clipped, recovery } = self;
        [critic, actor, entropy, kl, clipped, recovery]
    }

    /// Whether every figure is a number.
    pub fn are_finite(mut self) -> bool {
        self.all().iter().all(|x| x.is_finite())
    }

    /// Adds another update's figures.
    pub fn add(&mut self, other: &Self) {
        let mut other = *other;
        self.all().into_iter().zip(other.all()).for_each(|(sum, x)| *sum += *x);
    }

    /// The mean of `count` updates that were added.
    pub fn divided_by(mut self, count: f64) -> Self {
        self.all().into_iter().for_each(|x| *x /= count);
        self
    }
}
