//! The next population from the ranked one: ERL's operators on the weights of actors.
//!
//! - The first `elites` of the ranking stay as they are, bit for bit, in their slots.
//! - Tournaments by rank over the whole population pick winners, who stay too.
//! - The other slots are overwritten: first with one copy of each elite, the rest with children of a
//!   random elite and a random winner.
//! - Winners cross over in pairs with probability 0.15; an elite among them gives and never receives.
//! - Everyone but the elites mutates with probability p_m.
//!
//! 1. Khadka & Tumer, Evolution-Guided Policy Gradient in Reinforcement Learning, NeurIPS 2018.

use cmdp::Rng;
use nets::Mlp;
use rand::RngExt as _;
use serde::{Deserialize, Serialize};

use super::EvolutionConfig;
use super::operators::{crossover, mutate};

/// The probability that a pair of winners crosses over.
const CROSSOVER_WINNERS: f64 = 0.15;

/// Where an actor comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The first generation.
    Initial,
    /// An elite, unchanged.
    Elite,
    /// A winner of a tournament.
    Winner,
    /// A copy of an elite.
    Copy,
    /// A child of an elite and a winner.
    Child,
    /// The learner.
    Learner,
    /// Drawn from a distribution.
    Drawn,
}

/// An actor's descent: how it came about, from which slots of the generation before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descent {
    /// How it came about.
    pub origin: Origin,
    /// The slots of its parents; none for the first generation and the learner.
    pub parents: Vec<usize>,
    /// Whether it was mutated.
    pub mutated: bool,
}

impl Descent {
    /// Without parents in the population.
    pub fn without_parents(origin: Origin) -> Self {
        Self { origin, parents: vec![], mutated: false }
    }

    /// With parents in the slots of the generation before.
    pub fn of(origin: Origin, parents: &[usize]) -> Self {
        Self { origin, parents: parents.to_vec(), mutated: false }
    }
}

/// Who stays of a ranked population, and whose slots are to be filled.
pub struct Brood {
    /// How each slot came about, as far as it is filled.
    pub descents: Vec<Descent>,
    /// The slots of those who stay as they are.
    pub elites: Vec<usize>,
    /// The slots of those who stay for now, of which one may be named twice.
    pub winners: Vec<usize>,
    /// The slots that are still to be filled.
    pub orphans: Vec<usize>,
}

/// Chooses elites and winners; of the other slots the first become copies of the elites.
pub fn brood(
    population: &mut [Mlp],
    ranked: &[usize],
    config: &EvolutionConfig,
    rng: &mut Rng,
) -> Brood {
    let elites = &ranked[..config.elites];
    let is_elite = |slot: &usize| elites.contains(slot);
    let winners = tournaments(ranked, config, rng);
    let mut descents: Vec<Descent> = (0..population.len())
        .map(|slot| match is_elite(&slot) {
            true => Descent::of(Origin::Elite, &[slot]),
            false => Descent::of(Origin::Winner, &[slot]),
        })
        .collect();
    let mut losers: Vec<usize> =
        ranked.iter().copied().filter(|slot| !is_elite(slot) && !winners.contains(slot)).collect();
    let copies = elites.len().min(losers.len());
    for (&elite, slot) in elites.iter().zip(losers.drain(..copies)) {
        copy(population, elite, slot);
        descents[slot] = Descent::of(Origin::Copy, &[elite]);
    }
    Brood { descents, elites: elites.to_vec(), winners, orphans: losers }
}

/// Turns a ranked population into the next one; returns the descent of every slot.
///
/// `ranked` holds slots, best first; the last layer of an actor has so many heads.
pub fn vary(
    population: &mut [Mlp],
    ranked: &[usize],
    config: &EvolutionConfig,
    heads: usize,
    rng: &mut Rng,
) -> Vec<Descent> {
    let Brood { mut descents, elites, winners, orphans } = brood(population, ranked, config, rng);
    let is_elite = |slot: &usize| elites.contains(slot);
    for pair in orphans.chunks(2) {
        let (elite, winner) = (pick(&elites, rng), pick(&winners, rng));
        let mut children = [population[elite].clone(), population[winner].clone()];
        let [a, b] = &mut children;
        crossover(a, b, [true, true], heads, rng);
        for (&slot, child) in pair.iter().zip(children) {
            population[slot] = child;
            descents[slot] = Descent::of(Origin::Child, &[elite, winner]);
        }
    }
    for pair in winners.chunks_exact(2) {
        if pair[0] != pair[1] && rng.random_bool(CROSSOVER_WINNERS) {
            let receives = [!is_elite(&pair[0]), !is_elite(&pair[1])];
            let [a, b] = population.get_disjoint_mut([pair[0], pair[1]]).expect("two slots");
            crossover(a, b, receives, heads, rng);
            for (slot, other) in [(pair[0], pair[1]), (pair[1], pair[0])] {
                if !is_elite(&slot) && !descents[slot].parents.contains(&other) {
                    descents[slot].parents.push(other);
                }
            }
        }
    }
    for slot in (0..population.len()).filter(|slot| !is_elite(slot)) {
        if rng.random_bool(config.mutation) {
            mutate(&mut population[slot], heads, rng);
            descents[slot].mutated = true;
        }
        if population[slot].params().iter().any(|x| !x.is_finite()) {
            let elite = pick(&elites, rng);
            copy(population, elite, slot);
            descents[slot] = Descent::of(Origin::Copy, &[elite]);
        }
    }
    descents
}

/// Winners of as many tournaments as there are non-elites less one; each once, and made even in
/// number by naming one of them again.
fn tournaments(ranked: &[usize], config: &EvolutionConfig, rng: &mut Rng) -> Vec<usize> {
    let mut winners = Vec::new();
    for _ in 1..ranked.len() - config.elites {
        let drawn = (0..config.tournament).map(|_| rng.random_range(0..ranked.len()));
        let winner = ranked[drawn.min().expect("a tournament has entrants")];
        if !winners.contains(&winner) {
            winners.push(winner);
        }
    }
    if winners.len() % 2 == 1 {
        winners.push(pick(&winners, rng));
    }
    if winners.is_empty() {
        winners.push(ranked[0]); // a single non-elite: there was no tournament
    }
    winners
}

fn pick(slots: &[usize], rng: &mut Rng) -> usize {
    slots[rng.random_range(0..slots.len())]
}

fn copy(population: &mut [Mlp], from: usize, to: usize) {
    let [from, to] = population.get_disjoint_mut([from, to]).expect("two slots");
    to.params_mut().copy_from_slice(from.params());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::operators::tests::{close, marked};
    use crate::population::ranking::Ranking;

    fn evolution(change: impl Fn(&mut EvolutionConfig)) -> EvolutionConfig {
        let mut config = EvolutionConfig::new(Ranking::Reward);
        change(&mut config);
        config
    }

    #[test]
    fn elites_stay_bit_for_bit_and_everyone_else_has_a_descent() {
        let ranked = [7, 2, 9, 0, 4, 1, 3, 8, 5, 6];
        let config = evolution(|_| {});
        for seed in 0..300 {
            let mut population = marked(10);
            let before = population.clone();
            let descents =
                vary(&mut population, &ranked, &config, 2, &mut cmdp::rng([seed, 0, 0, 0]));
            for elite in [7, 2] {
                assert_eq!(population[elite], before[elite]);
                assert_eq!(descents[elite], Descent::of(Origin::Elite, &[elite]));
            }
            let copies = descents.iter().filter(|d| d.origin == Origin::Copy);
            let copied: Vec<usize> = copies.map(|d| d.parents[0]).collect();
            let losers = 10 - 2 - descents.iter().filter(|d| d.origin == Origin::Winner).count();
            assert_eq!(copied.len(), losers.min(2), "{descents:?}");
            assert!(copied.len() < 2 || copied[0] != copied[1], "one copy of each");
            let won =
                |slot: &usize| matches!(descents[*slot].origin, Origin::Winner | Origin::Elite);
            for d in descents.iter().filter(|d| d.origin == Origin::Child) {
                assert!([7, 2].contains(&d.parents[0]) && won(&d.parents[1]), "{d:?}");
            }
        }
    }

    #[test]
    fn the_last_rank_wins_only_against_itself() {
        // It needs to be drawn three times out of ten in one of seven tournaments.
        let ranked: Vec<usize> = (0..10).collect();
        let config = evolution(|_| {});
        const DRAWS: usize = 20_000;
        let (mut last, mut first) = (0, 0);
        for seed in 0..DRAWS as u64 {
            let winners = tournaments(&ranked, &config, &mut cmdp::rng([seed, 0, 0, 0]));
            assert!(winners.len().is_multiple_of(2) && winners.len() <= 8, "{winners:?}");
            last += usize::from(winners.contains(&9));
            first += usize::from(winners.contains(&0));
        }
        close(last as f64 / DRAWS as f64, 1.0 - 0.999f64.powi(7), DRAWS, "last");
        close(first as f64 / DRAWS as f64, 1.0 - 0.729f64.powi(7), DRAWS, "first");
    }

    #[test]
    fn winners_cross_over_with_their_probability() {
        // All ten win, so that the elite pair is in the tournament and nobody is overwritten.
        let config = evolution(|c| (c.mutation, c.tournament) = (0.0, 1));
        let ranked: Vec<usize> = (0..10).collect();
        const DRAWS: usize = 20_000;
        let (mut pairs, mut crossed) = (0, 0);
        for seed in 0..DRAWS as u64 {
            let key = [seed, 0, 0, 0];
            let winners = tournaments(&ranked, &config, &mut cmdp::rng(key));
            let mut population = marked(10);
            let descents = vary(&mut population, &ranked, &config, 2, &mut cmdp::rng(key));
            for pair in winners.chunks_exact(2).filter(|p| p[0] > 1 && p[1] > 1 && p[0] != p[1]) {
                // The doubled winner stands in two pairs: leave those out.
                if winners.iter().filter(|w| pair.contains(w)).count() == 2 {
                    pairs += 1;
                    crossed += usize::from(descents[pair[0]].parents.len() == 2);
                }
            }
        }
        close(crossed as f64 / pairs as f64, CROSSOVER_WINNERS, pairs, "winners");
    }

    #[test]
    fn actors_mutate_with_their_probability() {
        let ranked: Vec<usize> = (0..10).collect();
        let config = evolution(|_| {});
        const DRAWS: usize = 5000;
        let mut mutated = 0;
        for seed in 0..DRAWS as u64 {
            let descents =
                vary(&mut marked(10), &ranked, &config, 2, &mut cmdp::rng([seed, 0, 0, 0]));
            mutated += descents.iter().filter(|d| d.mutated).count();
        }
        close(mutated as f64 / (8 * DRAWS) as f64, 0.9, 8 * DRAWS, "p_m");
    }

    #[test]
    fn a_mutant_that_is_not_finite_becomes_an_elite_again() {
        let ranked: Vec<usize> = (0..10).collect();
        let mut population = marked(10);
        population[5].params_mut()[3] = f32::INFINITY;
        population[6].params_mut()[0] = f32::NAN;
        vary(&mut population, &ranked, &evolution(|_| {}), 2, &mut cmdp::rng([1; 4]));
        assert!(population.iter().all(|net| net.params().iter().all(|x| x.is_finite())));
    }

    #[test]
    fn small_populations_work() {
        for (size, elites) in [(2, 1), (3, 1), (3, 2), (4, 2)] {
            let ranked: Vec<usize> = (0..size).collect();
            let config = evolution(|c| (c.population, c.elites) = (size, elites));
            for seed in 0..50 {
                let mut population = marked(size);
                vary(&mut population, &ranked, &config, 2, &mut cmdp::rng([seed, 0, 0, 0]));
                assert_eq!(population[0], marked(1)[0]);
            }
        }
    }
}
