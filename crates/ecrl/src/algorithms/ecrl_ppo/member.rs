//! A member of the population: PPO with costs that multipliers price, as in `ppo-lag` or in `rcpo-ppo`, or a barrier, as in
//! `ipo`.

use cmdp::{EnvSpec, Episode, Rng};
use serde::{Deserialize, Serialize};

use crate::algorithms::ipo::{Barrier, IpoConfig, IpoSection};
use crate::algorithms::on_policy::{Part, Variant};
use crate::algorithms::ppo_lag::{LagSection, Lagrangian};
use crate::algorithms::rcpo_ppo::{RcpoConfig, RcpoSection, Shaped};
use crate::config::{ConfigError, Pace, Section};
use crate::learners::ppo::{Ppo, PpoConfig};
use crate::memory::batch::Batch;
use crate::metrics::{About, Figures, Record};
use crate::multipliers::{LAMBDA_LEARNER, Rule};
use crate::state::{StateError, Walk};

/// What a member learns as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// With multipliers.
    #[default]
    PpoLag,
    /// On a reward that multipliers shape.
    RcpoPpo,
    /// Within a barrier.
    Ipo,
}

/// The configuration of a member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberSection {
    /// What it learns as; a genome says so.
    #[serde(skip)]
    pub kind: Kind,
    /// The learner.
    pub ppo: PpoConfig,
    /// The barrier.
    pub ipo: IpoConfig,
    /// The multipliers.
    pub multipliers: Rule,
}

impl Default for MemberSection {
    fn default() -> Self {
        let LagSection { ppo, multipliers } = LagSection::new(Rule::relative());
        Self { kind: Kind::default(), ppo, ipo: IpoConfig::default(), multipliers }
    }
}

impl MemberSection {
    fn lag(&self) -> LagSection {
        LagSection { ppo: self.ppo.clone(), multipliers: self.multipliers.clone() }
    }

    fn rcpo(&self) -> RcpoSection {
        let LagSection { ppo, multipliers } = self.lag();
        RcpoSection { ppo, multipliers, rcpo: RcpoConfig { scaled: true } }
    }

    fn ipo(&self) -> IpoSection {
        IpoSection { ppo: self.ppo.clone(), ipo: self.ipo.clone() }
    }
}

impl Section for MemberSection {
    fn validate(&self) -> Result<(), ConfigError> {
        self.lag().validate()?;
        self.ipo().validate()
    }

    fn pace(&self) -> Pace {
        self.ppo.pace()
    }

    fn changeable() -> Vec<&'static str> {
        let mut keys = [LagSection::changeable(), IpoSection::changeable()].concat();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// How a member prices costs.
pub enum Priced {
    /// By multipliers.
    Lagrangian(Lagrangian),
    /// Within the reward, by multipliers.
    Shaped(Shaped),
    /// By a barrier.
    Barrier(Barrier),
}

/// The same of whichever it is.
macro_rules! either {
    ($self:ident, $one:ident => $what:expr) => {
        match $self {
            Self::Lagrangian($one) => $what,
            Self::Shaped($one) => $what,
            Self::Barrier($one) => $what,
        }
    };
}

impl Variant for Priced {
    type Section = MemberSection;
    const USES_COSTS: bool = true;
    const METRICS: &'static [&'static About] = &[&LAMBDA_LEARNER.about];

    fn ppo(section: &MemberSection) -> PpoConfig {
        section.ppo.clone()
    }

    fn has_critics(section: &MemberSection) -> bool {
        section.kind != Kind::RcpoPpo
    }

    fn new(section: &MemberSection, spec: &EnvSpec, rng: &mut Rng) -> Result<Self, ConfigError> {
        Ok(match section.kind {
            Kind::PpoLag => Self::Lagrangian(Lagrangian::new(&section.lag(), spec, rng)?),
            Kind::RcpoPpo => Self::Shaped(Shaped::new(&section.rcpo(), spec, rng)?),
            Kind::Ipo => Self::Barrier(Barrier::new(&section.ipo(), spec, rng)?),
        })
    }

    fn observe(&mut self, ended: &[Episode]) {
        either!(self, one => one.observe(ended));
    }

    fn shape(&mut self, batch: &mut Batch) {
        either!(self, one => one.shape(batch));
    }

    fn begin(&mut self, ppo: &Ppo) {
        either!(self, one => one.begin(ppo));
    }

    fn next_epoch(&mut self, ppo: &mut Ppo) {
        either!(self, one => one.next_epoch(ppo));
    }

    fn update(&mut self, ppo: &mut Ppo, part: Part) -> Figures {
        either!(self, one => one.update(ppo, part))
    }

    fn conclude(&self, record: &mut Record) {
        either!(self, one => one.conclude(record));
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        either!(self, one => one.walk(walk))
    }
}
