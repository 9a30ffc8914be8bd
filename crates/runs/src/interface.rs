//! What an environment that is none of this program's shows of itself: how its observations become a row
//! of numbers, and a policy's action one of its own.

use ecrl::config::Config;
use serde::{Deserialize, Serialize};

/// What an environment shows of itself, as whoever brings it describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// The parts of an observation, in the order in which they are laid out.
    pub observation: Vec<Part>,
    /// An action.
    pub action: Action,
    /// The steps after which an episode is truncated, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_episode_steps: Option<u64>,
    /// How it is made again, where whoever brings it can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
}

/// A part of an observation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The keys that lead to it; none where it is the whole observation.
    pub path: Vec<String>,
    /// Its shape; it is laid out row after row.
    pub shape: Vec<usize>,
}

/// An action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Action {
    /// Numbers between bounds: -1 stands for the lower one, 1 for the upper.
    Box {
        /// The lower bound of every number.
        low: Vec<f64>,
        /// The upper one.
        high: Vec<f64>,
        /// Its shape; it is laid out row after row.
        shape: Vec<usize>,
        /// The type of its numbers.
        dtype: String,
    },
    /// One of several choices.
    Discrete {
        /// How many there are.
        n: usize,
        /// The number of the first.
        start: i64,
    },
}

impl Interface {
    /// What the environments of a configuration show; none for those of this program.
    pub fn of(config: &Config) -> Option<Self> {
        serde_json::from_str(&config.environment).ok()
    }

    /// The numbers that a policy takes and gives; none where it contradicts itself.
    pub fn sizes(&self) -> Option<[usize; 2]> {
        let mut sizes = self.observation.iter().map(|part| size(&part.shape));
        let taken = sizes.try_fold(0usize, |sum, size| sum.checked_add(size?))?;
        let given = match &self.action {
            Action::Discrete { n, .. } => Some(*n),
            Action::Box { low, high, shape, .. } => {
                let sound = low.len() == high.len() && size(shape) == Some(low.len());
                sound.then_some(2 * low.len())
            }
        };
        Some([taken, given?])
    }
}

/// The numbers of an array.
fn size(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |product, side| product.checked_mul(*side))
}

impl Action {
    /// How many choices there are.
    pub fn choices(&self) -> Option<usize> {
        match self {
            Self::Discrete { n, .. } => Some(*n),
            Self::Box { .. } => None,
        }
    }

    /// What an entry of a policy's action is multiplied by, and what is added to it then.
    pub fn scales(&self) -> Option<(Vec<f32>, Vec<f32>)> {
        let Self::Box { low, high, .. } = self else { return None };
        let bounds = || low.iter().zip(high);
        let half = bounds().map(|(low, high)| ((high - low) / 2.0) as f32);
        Some((half.collect(), bounds().map(|(low, high)| ((low + high) / 2.0) as f32).collect()))
    }
}
