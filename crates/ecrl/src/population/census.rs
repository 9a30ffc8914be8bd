//! Who was who in a generation: a line of `population.jsonl`.

use serde::{Deserialize, Serialize};

use super::variation::Descent;

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

impl Fate {
    /// The name used in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Elite => "elite",
            Self::Selected => "selected",
            Self::Discarded => "discarded",
        }
    }
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

impl Fates {
    /// Counts one more.
    pub fn count(&mut self, fate: Fate) {
        match fate {
            Fate::Elite => self.elite += 1,
            Fate::Selected => self.selected += 1,
            Fate::Discarded => self.discarded += 1,
        }
    }
}

/// One actor of the population, as it was ranked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Individual {
    /// Its slot.
    pub slot: usize,
    /// Its place in the ranking, from 0.
    pub rank: usize,
    /// Whether it is an elite, which passes on unchanged; where all do, the first.
    pub elite: bool,
    /// The return of its episode, or the mean of its last ones; so with J_C.
    pub reward: f64,
    /// J_C.
    pub cost: Vec<f64>,
    /// Its violation φ.
    pub violation: f64,
    /// Its multipliers.
    pub lambda: Vec<f64>,
    /// How it came about, from which slots of the generation before.
    #[serde(flatten)]
    pub descent: Descent,
}

/// The population of one generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Census {
    /// The generation.
    pub generation: u64,
    /// How often the learner's copy met each fate so far.
    pub learner_copies: Fates,
    /// Every actor, best first.
    pub individuals: Vec<Individual>,
}
