//! The algorithms: compositions of the parts, each a file with its equations, its section of the
//! configuration and its rows. To add one, add a file and its rows here.

mod cem_rl;
mod cerl;
mod cpo;
pub(crate) mod cup;
mod ecrl;
mod ecrl_ppo;
mod ecrl_sac;
mod es;
pub(crate) mod focops;
pub(crate) mod ipo;
mod metal;
mod off_policy;
pub(crate) mod on_policy;
mod pdac;
mod pderl;
pub(crate) mod ppo;
mod ppo_lag;
mod prices;
mod rcpo_ppo;
mod sac;
mod sac_lag;
mod supe_rl;
mod trpo;
mod trust_region;

use crate::algorithm::Row;
use crate::config::ConfigError;

/// Every algorithm.
pub static ALGORITHMS: &[&dyn Row] = &[
    &ecrl::ECRL,
    &ecrl::ERL,
    &ecrl::ERL_SHAPED,
    &ecrl::RCPO_ERL,
    &ecrl::SR,
    &ecrl::SR_SHAPED,
    &ecrl::BC,
    &ecrl_ppo::ECRL_PPO,
    &ecrl_sac::ECRL_SAC,
    &es::ES,
    &cem_rl::CEM_RL,
    &cerl::CERL,
    &pderl::PDERL,
    &supe_rl::SUPE_RL,
    &sac::RCPO,
    &sac::SAC,
    &ipo::IPO,
    &ppo::PPO,
    &ppo_lag::PPO_LAG,
    &ppo_lag::PPO_PID,
    &rcpo_ppo::RCPO_PPO,
    &focops::FOCOPS,
    &trpo::TRPO,
    &trpo::TRPO_LAG,
    &cpo::CPO,
    &cpo::PCPO,
    &cup::CUP,
    &pdac::PDAC,
    &sac_lag::SAC_LAG,
    &sac_lag::SAC_PID,
    &sac_lag::TD3,
    &sac_lag::TD3_LAG,
    &metal::METAL,
];

/// The algorithm where none is named.
pub const DEFAULT: &str = "ecrl";

/// The row of that name.
pub fn find(name: &str) -> Result<&'static dyn Row, ConfigError> {
    ALGORITHMS.iter().find(|row| row.name() == name).copied().ok_or_else(|| {
        let hint = crate::config::hint(name, ALGORITHMS.iter().map(|row| row.name()));
        ConfigError::UnknownAlgorithm { name: name.into(), hint }
    })
}
