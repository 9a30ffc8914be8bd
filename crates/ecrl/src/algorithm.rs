//! What an algorithm is to the training loop, and its row in the table of algorithms.

use std::any::Any;

use cmdp::{EnvSpec, Rng};
use nets::Mlp;
use toml::Table;

use crate::best::Outcome;
use crate::config::{Config, ConfigError, Pace, Section, UNBOUNDED};
use crate::context::Context;
use crate::memory::replay::Replay;
use crate::metrics::{About, Figures, Record};
use crate::population::census::Census;
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

/// What a generation plays and how it is learnt from.
pub trait Algorithm: Any + Send {
    /// The first half of a generation: everybody plays. Notes what came of it.
    fn collect(&mut self, context: &mut Context, record: &mut Record) -> Collected;

    /// One of the updates that a generation asks for; called in the pool.
    fn update(&mut self, context: &Context) -> Figures;

    /// The end of a generation, after its last update.
    fn conclude(&mut self, context: &Context, record: &mut Record);

    /// The most environment steps that a generation can take.
    fn longest_generation(&self, spec: &EnvSpec) -> u64;

    /// The learner's policy: a network from an observation to `[μ, log σ]`.
    fn actor(&self) -> Mlp;

    /// Takes a policy to start from, before anything was played.
    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError>;

    /// The champion of the generation, as it was ranked.
    fn champion(&self) -> Option<Champion> {
        None
    }

    /// The population of the last generation.
    fn census(&self) -> Option<&Census> {
        None
    }

    /// The replay buffer, if there is one; it is stored by itself.
    fn replay(&self) -> Option<&Replay> {
        None
    }

    /// The replay buffer, to be stored or restored.
    fn replay_mut(&mut self) -> Option<&mut Replay> {
        None
    }

    /// Walks everything that lasts but the replay buffer; what trouble spreads from comes first.
    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError>;
}

/// Refuses a policy to start from that has other networks than an algorithm's own.
pub fn verify_start(own: &Mlp, actor: &Mlp) -> Result<(), ConfigError> {
    let text = |net: &Mlp| format!("layers {:?} with {:?}", net.sizes(), net.activation());
    match own.sizes() == actor.sizes() && own.activation() == actor.activation() {
        true => Ok(()),
        false => Err(ConfigError::Start { found: text(actor), expected: text(own) }),
    }
}

/// The one of a population that is tested beside the learner.
#[derive(Debug, Clone, PartialEq)]
pub struct Champion {
    /// The policy.
    pub actor: Mlp,
    /// The episode it was ranked by.
    pub played: Outcome,
}

/// What a generation brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collected {
    /// Environment steps it took.
    pub steps: u64,
    /// Updates it asks for.
    pub updates: u64,
}

/// What an algorithm starts with.
pub struct Setup<'a> {
    /// The task.
    pub spec: &'a EnvSpec,
    /// The generator of all that is random at the start.
    pub rng: &'a mut Rng,
}

/// An algorithm that can be made from its configuration.
pub trait Build: Algorithm + Sized {
    /// The sections of its configuration.
    type Section: Section;
    /// The version of its state; raised when an older state would be misread.
    const STATE_VERSION: u32 = 1;
    /// Whether it can learn which of several choices to take.
    const TAKES_CHOICES: bool = false;

    /// Steps of tests for each step of training, if nothing else is said.
    const TEST_SHARE: f64 = UNBOUNDED;

    /// What it records, beside what every run does.
    fn metrics() -> Vec<&'static About>;

    /// A new one.
    fn new(section: Self::Section, setup: Setup) -> Result<Self, TrainError>;
}

/// Named values that an algorithm brings, as TOML.
#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name.
    pub name: &'static str,
    /// What it is for, in one line.
    pub help: &'static str,
    /// The values, in parts that presets may share.
    pub toml: &'static [&'static str],
}

/// The usual values of an algorithm of the paper.
pub const PAPER: Preset = Preset {
    name: "paper",
    help: "the usual values: the paper's, but for what docs/paper.md names",
    toml: &[],
};

/// One row of the table: an algorithm with its usual values. Several rows may share an algorithm.
pub struct Definition<A: Build> {
    /// The name as typed on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub description: &'static str,
    /// The usual values.
    pub defaults: fn() -> A::Section,
    /// Values by name.
    pub presets: &'static [Preset],
}

/// A row, whatever its algorithm.
pub trait Row: Sync {
    /// The name as typed on the command line.
    fn name(&self) -> &'static str;
    /// What it is, in one line.
    fn description(&self) -> &'static str;
    /// The values it brings by name.
    fn presets(&self) -> &'static [Preset];
    /// What it records, beside what every run does.
    fn metrics(&self) -> Vec<&'static About>;
    /// The version of its state.
    fn state_version(&self) -> u32;
    /// Whether it can learn which of several choices to take.
    fn takes_choices(&self) -> bool;
    /// Steps of tests for each step of training, if nothing else is said.
    fn test_share(&self) -> f64;
    /// The usual values.
    fn defaults(&self) -> Table;
    /// Fills in what a section lacks and leaves out what it has no use for.
    fn complete(&self, sections: Table) -> Result<Table, toml::de::Error>;
    /// Checks every value against its range.
    fn validate(&self, sections: &Table) -> Result<(), ConfigError>;
    /// How it plays.
    fn pace(&self, sections: &Table) -> Pace;
    /// The keys whose values may change in the midst of a run.
    fn changeable(&self) -> Vec<&'static str>;
    /// A new algorithm with these values.
    fn build(&self, config: &Config, setup: Setup) -> Result<Box<dyn Algorithm>, TrainError>;

    /// The values of a preset.
    fn preset(&self, name: &str) -> Result<&'static [&'static str], ConfigError> {
        let found = self.presets().iter().find(|preset| preset.name == name);
        found.map(|preset| preset.toml).ok_or_else(|| {
            let names: Vec<&str> = self.presets().iter().map(|preset| preset.name).collect();
            let known = match names.is_empty() {
                true => "none, for it brings none".into(),
                false => format!("one of {}", names.join(", ")),
            };
            ConfigError::UnknownPreset { algorithm: self.name(), name: name.into(), known }
        })
    }
}

impl<A: Build> Row for Definition<A> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn description(&self) -> &'static str {
        self.description
    }

    fn presets(&self) -> &'static [Preset] {
        self.presets
    }

    fn metrics(&self) -> Vec<&'static About> {
        A::metrics()
    }

    fn state_version(&self) -> u32 {
        A::STATE_VERSION
    }

    fn takes_choices(&self) -> bool {
        A::TAKES_CHOICES
    }

    fn test_share(&self) -> f64 {
        A::TEST_SHARE
    }

    fn defaults(&self) -> Table {
        Table::try_from((self.defaults)()).expect("sections are tables")
    }

    fn complete(&self, sections: Table) -> Result<Table, toml::de::Error> {
        let section: A::Section = sections.try_into()?;
        Ok(Table::try_from(section).expect("sections are tables"))
    }

    fn validate(&self, sections: &Table) -> Result<(), ConfigError> {
        let section: Result<A::Section, _> = sections.clone().try_into();
        section.map_err(|error| ConfigError::Type(error.message().into()))?.validate()
    }

    fn pace(&self, sections: &Table) -> Pace {
        let section = sections.clone().try_into();
        section.map_or(Pace::default(), |section: A::Section| section.pace())
    }

    fn changeable(&self) -> Vec<&'static str> {
        A::Section::changeable()
    }

    fn build(&self, config: &Config, setup: Setup) -> Result<Box<dyn Algorithm>, TrainError> {
        Ok(Box::new(A::new(config.section()?, setup)?))
    }
}
