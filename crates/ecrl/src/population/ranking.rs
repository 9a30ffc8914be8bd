//! Who is better: by reward alone, by reward among those who keep the constraints and by violation among the
//! others (Deb, Comput. Methods Appl. Mech. Eng. 186, 2000), or by stochastic ranking of both together.
//!
//! Stochastic ranking (Algorithm 2 of the paper; Runarsson & Yao, IEEE Trans. Evol. Comput. 4(3),
//! 2000) bubbles individuals up a list: two neighbours are compared by reward if both keep every
//! constraint, or else with probability P_f; otherwise by violation.

use cmdp::Rng;
use rand::RngExt as _;
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, range};

/// How a population is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ranking", rename_all = "kebab-case")]
pub enum Ranking {
    /// Highest reward first.
    Reward,
    /// Those who keep every constraint by reward, then the others by violation.
    FeasibilityFirst,
    /// Stochastic ranking.
    Stochastic {
        /// The tolerance P_f: how often reward decides although a constraint is broken.
        /// Runarsson & Yao: 0.45.
        #[serde(default = "pf")]
        pf: f64,
        /// Whether a sweep without a swap is the last; the authors' code always takes them all.
        #[serde(default = "early_stop")]
        early_stop: bool,
    },
}

fn pf() -> f64 {
    0.45
}

fn early_stop() -> bool {
    true
}

impl Ranking {
    /// Stochastic ranking with the usual tolerance.
    pub fn stochastic() -> Self {
        Self::Stochastic { pf: pf(), early_stop: early_stop() }
    }

    /// What it may be, as it is written.
    pub const NAMES: [&'static str; 3] = ["reward", "feasibility-first", "stochastic"];

    /// The same with so large a share of the tolerance.
    pub fn with_share(self, share: f64) -> Self {
        match self {
            Self::Stochastic { pf, early_stop } => Self::Stochastic { pf: share * pf, early_stop },
            other => other,
        }
    }

    /// Checks every value against its range, in a section of that name.
    pub fn validate(&self, section: &str) -> Result<(), ConfigError> {
        match *self {
            Self::Reward | Self::FeasibilityFirst => Ok(()),
            Self::Stochastic { pf, .. } => range::share(&format!("{section}.pf"), pf),
        }
    }

    /// The indices of the individuals, best first.
    pub fn order(self, rewards: &[f64], violations: &[f64], rng: &mut Rng) -> Vec<usize> {
        match self {
            Self::Reward => reward_ranking(rewards),
            Self::FeasibilityFirst => feasibility_ranking(rewards, violations),
            Self::Stochastic { pf, early_stop } => {
                stochastic_ranking(rewards, violations, pf, early_stop, rng)
            }
        }
    }
}

/// Indices by falling reward; of equals, the first comes first.
pub fn reward_ranking(rewards: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rewards.len()).collect();
    order.sort_by(|&a, &b| rewards[b].total_cmp(&rewards[a]));
    order
}

/// Indices by rising violation, which is 0 for all who keep every constraint; of equals, by falling reward.
pub fn feasibility_ranking(rewards: &[f64], violations: &[f64]) -> Vec<usize> {
    let mut order = reward_ranking(rewards);
    order.sort_by(|&a, &b| violations[a].total_cmp(&violations[b]));
    order
}

/// Indices by stochastic ranking, best first, with tolerance `pf` for violations; where `early_stop`,
/// a sweep without a swap is the last.
pub fn stochastic_ranking(
    rewards: &[f64],
    violations: &[f64],
    pf: f64,
    early_stop: bool,
    rng: &mut Rng,
) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rewards.len()).collect();
    for _ in 0..order.len() {
        let mut swapped = false;
        for j in 1..order.len() {
            // Always the two who stand here now.
            let (a, b) = (order[j - 1], order[j]);
            let u: f64 = rng.random();
            let both_feasible = violations[a] == 0.0 && violations[b] == 0.0;
            let out_of_order = match both_feasible || u < pf {
                true => rewards[a] < rewards[b],
                false => violations[a] > violations[b],
            };
            if out_of_order {
                order.swap(j - 1, j);
                swapped = true;
            }
        }
        if early_stop && !swapped {
            break;
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(rewards: &[f64], violations: &[f64], pf: f64, seed: u64) -> Vec<usize> {
        stochastic_ranking(rewards, violations, pf, true, &mut cmdp::rng([seed, 0, 0, 0]))
    }

    #[test]
    fn reward_ranking_is_stable() {
        assert_eq!(reward_ranking(&[1.0, 3.0, 2.0, 3.0]), [1, 3, 2, 0]);
    }

    #[test]
    fn the_feasible_come_first_whatever_the_others_earn() {
        let (rewards, violations) = ([9.0, 1.0, 3.0, 8.0, 7.0], [0.1, 0.0, 0.0, 0.02, 0.1]);
        let mut rng = cmdp::rng([0; 4]);
        let order = Ranking::FeasibilityFirst.order(&rewards, &violations, &mut rng);
        assert_eq!(order, [2, 1, 3, 0, 4]);
    }

    #[test]
    fn without_tolerance_violation_decides_and_ties_stay_in_place() {
        let (rewards, violations) = ([1.0, 9.0, 5.0, 7.0], [0.2, 0.1, 0.2, 0.3]);
        for seed in 0..20 {
            assert_eq!(rank(&rewards, &violations, 0.0, seed), [1, 0, 2, 3]);
        }
        // Among the feasible, reward decides even so.
        assert_eq!(rank(&[1.0, 9.0, 5.0], &[0.0, 0.1, 0.0], 0.0, 1), [2, 0, 1]);
    }

    #[test]
    fn with_full_tolerance_or_all_feasible_reward_decides() {
        let rewards = [1.0, 9.0, 5.0, 7.0];
        for seed in 0..20 {
            assert_eq!(rank(&rewards, &[0.2, 0.9, 0.0, 0.3], 1.0, seed), [1, 3, 2, 0]);
            for pf in [0.0, 0.45, 1.0] {
                assert_eq!(rank(&rewards, &[0.0; 4], pf, seed), [1, 3, 2, 0]);
            }
        }
    }

    #[test]
    fn the_result_is_always_a_permutation() {
        let mut rng = cmdp::rng([7; 4]);
        for n in 0..20 {
            let mut numbers = || (0..n).map(|_| rng.random_range(0.0..1.0)).collect::<Vec<f64>>();
            let (rewards, violations) = (numbers(), numbers());
            let mut order = rank(&rewards, &violations, 0.45, n as u64);
            order.sort();
            assert_eq!(order, (0..n).collect::<Vec<_>>());
        }
    }

    /// The probability of every order of three, by following every outcome of every comparison.
    fn exact(
        rewards: &[f64; 3],
        violations: &[f64; 3],
        pf: f64,
        early_stop: bool,
    ) -> std::collections::HashMap<[usize; 3], f64> {
        // State: order, sweep, position, whether this sweep has swapped.
        let mut states = vec![([0, 1, 2], 0, 0, false, 1.0)];
        let mut done = std::collections::HashMap::new();
        while let Some((order, sweep, j, swapped, p)) = states.pop() {
            if p == 0.0 {
                continue;
            }
            if j == 2 {
                if sweep == 2 || (early_stop && !swapped) {
                    *done.entry(order).or_insert(0.0) += p;
                } else {
                    states.push((order, sweep + 1, 0, false, p));
                }
                continue;
            }
            let (a, b) = (order[j], order[j + 1]);
            let mut exchanged = order;
            exchanged.swap(j, j + 1);
            let free = violations[a] == 0.0 && violations[b] == 0.0;
            let by_reward = if free { 1.0 } else { pf };
            for (probability, swap) in [
                (by_reward, rewards[a] < rewards[b]),
                (1.0 - by_reward, violations[a] > violations[b]),
            ] {
                let next = if swap { exchanged } else { order };
                states.push((next, sweep, j + 1, swapped || swap, p * probability));
            }
        }
        done
    }

    #[test]
    fn frequencies_are_those_of_the_exact_computation() {
        let (rewards, violations, pf) = ([1.0, 3.0, 2.0], [0.0, 0.5, 0.1], 0.45);
        for early_stop in [true, false] {
            let expected = exact(&rewards, &violations, pf, early_stop);
            assert!((expected.values().sum::<f64>() - 1.0).abs() < 1e-12 && expected.len() > 2);
            let mut rng = cmdp::rng([3; 4]);
            let mut counts = std::collections::HashMap::new();
            const DRAWS: usize = 100_000;
            for _ in 0..DRAWS {
                let order = stochastic_ranking(&rewards, &violations, pf, early_stop, &mut rng);
                *counts.entry([order[0], order[1], order[2]]).or_insert(0usize) += 1;
            }
            for order in counts.keys() {
                assert!(expected.contains_key(order), "{order:?} is impossible");
            }
            for (order, p) in expected {
                let found = *counts.get(&order).unwrap_or(&0) as f64 / DRAWS as f64;
                let deviation = (p * (1.0 - p) / DRAWS as f64).sqrt();
                assert!((found - p).abs() <= 4.0 * deviation, "{order:?}: {found} of {p}");
            }
        }
        // One sweep more may undo what a lucky one left alone.
        let one = |early_stop| exact(&rewards, &violations, pf, early_stop)[&[0, 1, 2]];
        assert!(one(true) > one(false) + 0.01);
    }
}
