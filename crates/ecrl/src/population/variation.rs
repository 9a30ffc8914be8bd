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

use std::ops::Range;

use cmdp::Rng;
use nets::Mlp;
use rand::RngExt as _;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use super::EvolutionConfig;

/// The largest share of a weight matrix's rows that one crossover copies.
const CROSSOVER_ROWS: f64 = 0.3;
/// The probability that a crossover touches a bias vector.
const CROSSOVER_BIAS: f64 = 0.2;
/// The probability that a pair of winners crosses over.
const CROSSOVER_WINNERS: f64 = 0.15;
/// The largest share of a tensor's entries that one mutation changes.
const MUTATED_SHARE: f64 = 0.05;
/// The probability of a super-mutation of an entry, w += N(0, 10|w|).
const SUPER: f64 = 0.05;
/// The probability of a reset of an entry, w = N(0, 0.1), or N(0, 1) for a bias.
const RESET: f64 = 0.02;
/// How much rarer bias vectors mutate than weight matrices.
const BIAS: f64 = 0.04;

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

    fn of(origin: Origin, parents: &[usize]) -> Self {
        Self { origin, parents: parents.to_vec(), mutated: false }
    }
}

/// Turns a ranked population into the next one; returns the descent of every slot.
///
/// `ranked` holds slots, best first.
pub fn vary(
    population: &mut [Mlp],
    ranked: &[usize],
    config: &EvolutionConfig,
    rng: &mut Rng,
) -> Vec<Descent> {
    let elites = &ranked[..config.elites];
    let is_elite = |slot: &usize| elites.contains(slot);
    let winners = tournaments(ranked, config, rng);
    let mut descents: Vec<Descent> = (0..population.len())
        .map(|slot| match is_elite(&slot) {
            true => Descent::of(Origin::Elite, &[slot]),
            false => Descent::of(Origin::Winner, &[slot]),
        })
        .collect();

    let losers: Vec<usize> =
        ranked.iter().copied().filter(|slot| !is_elite(slot) && !winners.contains(slot)).collect();
    let copies = elites.len().min(losers.len());
    for (&elite, &slot) in elites.iter().zip(&losers) {
        copy(population, elite, slot);
        descents[slot] = Descent::of(Origin::Copy, &[elite]);
    }
    for pair in losers[copies..].chunks(2) {
        let (elite, winner) = (pick(elites, rng), pick(&winners, rng));
        let mut children = [population[elite].clone(), population[winner].clone()];
        let [a, b] = &mut children;
        crossover(a, b, [true, true], rng);
        for (&slot, child) in pair.iter().zip(children) {
            population[slot] = child;
            descents[slot] = Descent::of(Origin::Child, &[elite, winner]);
        }
    }
    for pair in winners.chunks_exact(2) {
        if pair[0] != pair[1] && rng.random_bool(CROSSOVER_WINNERS) {
            let receives = [!is_elite(&pair[0]), !is_elite(&pair[1])];
            let [a, b] = population.get_disjoint_mut([pair[0], pair[1]]).expect("two slots");
            crossover(a, b, receives, rng);
            for (slot, other) in [(pair[0], pair[1]), (pair[1], pair[0])] {
                if !is_elite(&slot) && !descents[slot].parents.contains(&other) {
                    descents[slot].parents.push(other);
                }
            }
        }
    }
    for slot in (0..population.len()).filter(|slot| !is_elite(slot)) {
        if rng.random_bool(config.mutation) {
            mutate(&mut population[slot], rng);
            descents[slot].mutated = true;
        }
        if population[slot].params().iter().any(|x| !x.is_finite()) {
            let elite = pick(elites, rng);
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

/// Exchanges rows of weights and entries of biases between two actors of the same shape; only those
/// who receive are changed.
pub fn crossover(a: &mut Mlp, b: &mut Mlp, receives: [bool; 2], rng: &mut Rng) {
    for layer in 0..a.layers() {
        let (inputs, rows) = (a.sizes()[layer], a.sizes()[layer + 1]);
        let (weight, bias) = (a.weight_range(layer), a.bias_range(layer));
        let copies = rng.random_range(0..=(CROSSOVER_ROWS * rows as f64) as usize);
        for _ in 0..copies {
            let start = weight.start + inputs * rng.random_range(0..rows);
            exchange(a, b, start..start + inputs, receives, rng);
        }
        if rng.random_bool(CROSSOVER_BIAS) {
            let entry = bias.start + rng.random_range(0..rows);
            exchange(a, b, entry..entry + 1, receives, rng);
        }
    }
}

/// Copies some parameters in a random direction, unless who would receive them does not.
fn exchange(a: &mut Mlp, b: &mut Mlp, range: Range<usize>, receives: [bool; 2], rng: &mut Rng) {
    let (from, to, allowed) = match rng.random_bool(0.5) {
        true => (b, a, receives[0]),
        false => (a, b, receives[1]),
    };
    if allowed {
        to.params_mut()[range.clone()].copy_from_slice(&from.params()[range]);
    }
}

/// Changes some entries of some tensors.
pub fn mutate(actor: &mut Mlp, rng: &mut Rng) {
    for layer in 0..actor.layers() {
        for (range, rarity, reset) in
            [(actor.weight_range(layer), 1.0, 0.1), (actor.bias_range(layer), BIAS, 1.0)]
        {
            let u: f64 = rng.random();
            if rng.random_bool((rarity * 2.0 * u).min(1.0)) {
                mutate_entries(&mut actor.params_mut()[range], reset, rng);
            }
        }
    }
}

fn mutate_entries(entries: &mut [f32], reset: f32, rng: &mut Rng) {
    let most = (MUTATED_SHARE * entries.len() as f64).ceil() as usize;
    for _ in 0..rng.random_range(0..=most) {
        let entry = rng.random_range(0..entries.len());
        let (w, kind) = (&mut entries[entry], rng.random::<f64>());
        let normal: f32 = rng.sample(StandardNormal);
        if kind < SUPER {
            *w += 10.0 * w.abs() * normal;
        } else if kind < SUPER + RESET {
            *w = reset * normal;
        } else {
            *w += 0.1 * w.abs() * normal;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::ranking::Ranking;
    use nets::Activation;

    /// Actors whose every parameter tells the slot.
    fn marked(count: usize) -> Vec<Mlp> {
        let mark = |slot: usize| {
            let mut net = Mlp::zeros(&[4, 20, 6], Activation::Relu);
            net.params_mut().fill(slot as f32 + 1.0);
            net
        };
        (0..count).map(mark).collect()
    }

    fn evolution(change: impl Fn(&mut EvolutionConfig)) -> EvolutionConfig {
        let mut config = EvolutionConfig::new(Ranking::Reward);
        change(&mut config);
        config
    }

    fn close(found: f64, expected: f64, draws: usize, what: &str) {
        let deviation = (expected * (1.0 - expected) / draws as f64).sqrt();
        assert!((found - expected).abs() <= 4.0 * deviation, "{what}: {found} of {expected}");
    }

    #[test]
    fn elites_stay_bit_for_bit_and_everyone_else_has_a_descent() {
        let ranked = [7, 2, 9, 0, 4, 1, 3, 8, 5, 6];
        let config = evolution(|_| {});
        for seed in 0..300 {
            let mut population = marked(10);
            let before = population.clone();
            let descents = vary(&mut population, &ranked, &config, &mut cmdp::rng([seed, 0, 0, 0]));
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
    fn crossover_copies_rows_and_single_biases_in_both_directions() {
        const DRAWS: usize = 20_000;
        let (mut to_first, mut events, mut bias) = (0, 0, 0);
        let mut most = 0;
        let mut counts = [0; 7];
        for seed in 0..DRAWS as u64 {
            let mut pair = marked(2);
            let mut rng = cmdp::rng([seed, 0, 0, 0]);
            let [a, b] = pair.get_disjoint_mut([0, 1]).unwrap();
            crossover(a, b, [true, true], &mut rng);
            let weight = a.weight_range(0);
            for row in a.params()[weight.clone()].chunks(4).zip(b.params()[weight].chunks(4)) {
                for (numbers, own) in [(row.0, 1.0), (row.1, 2.0)] {
                    assert!(numbers.iter().all(|&x| x == numbers[0]), "a row is copied whole");
                    if numbers[0] != own {
                        events += 1;
                        to_first += usize::from(own == 1.0);
                    }
                }
            }
            let changed = |net: &Mlp, range: Range<usize>, own: f32| {
                net.params()[range].iter().filter(|&&x| x != own).count()
            };
            let biases = changed(a, a.bias_range(0), 1.0) + changed(b, b.bias_range(0), 2.0);
            assert!(biases <= 1);
            bias += biases;
            let rows =
                (changed(a, a.weight_range(0), 1.0) + changed(b, b.weight_range(0), 2.0)) / 4;
            most = most.max(rows);
            counts[rows] += 1;
        }
        assert_eq!(most, 6, "three tenths of 20 rows");
        close(to_first as f64 / events as f64, 0.5, events, "direction");
        close(bias as f64 / DRAWS as f64, CROSSOVER_BIAS, DRAWS, "biases");
        // None copied: one of seven numbers of copies.
        close(f64::from(counts[0]) / DRAWS as f64, 1.0 / 7.0, DRAWS, "no rows");
    }

    #[test]
    fn who_does_not_receive_is_never_changed() {
        for seed in 0..200 {
            let mut pair = marked(2);
            let [a, b] = pair.get_disjoint_mut([0, 1]).unwrap();
            crossover(a, b, [false, true], &mut cmdp::rng([seed, 0, 0, 0]));
            assert!(a.params().iter().all(|&x| x == 1.0));
        }
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
            let descents = vary(&mut population, &ranked, &config, &mut cmdp::rng(key));
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
            let descents = vary(&mut marked(10), &ranked, &config, &mut cmdp::rng([seed, 0, 0, 0]));
            mutated += descents.iter().filter(|d| d.mutated).count();
        }
        close(mutated as f64 / (8 * DRAWS) as f64, 0.9, 8 * DRAWS, "p_m");
    }

    #[test]
    fn tensors_mutate_with_their_probabilities() {
        // Weights: P(u' < 2u) = 3/4. Biases: P(u' < 0.08u) = 0.04. No entry is chosen with probability
        // 1/(most + 1).
        const DRAWS: usize = 40_000;
        let (mut weights, mut biases) = (0, 0);
        for seed in 0..DRAWS as u64 {
            let mut net = Mlp::zeros(&[30, 40, 1], Activation::Relu);
            net.params_mut().fill(1.0);
            mutate(&mut net, &mut cmdp::rng([seed, 0, 0, 0]));
            let changed =
                |range: Range<usize>| net.params()[range].iter().filter(|&&x| x != 1.0).count();
            assert!(changed(net.weight_range(0)) <= 60, "a twentieth of 1200");
            assert!(changed(net.bias_range(0)) <= 2, "a twentieth of 40");
            weights += usize::from(changed(net.weight_range(0)) > 0);
            biases += usize::from(changed(net.bias_range(0)) > 0);
        }
        close(weights as f64 / DRAWS as f64, 0.75 * 60.0 / 61.0, DRAWS, "weights");
        close(biases as f64 / DRAWS as f64, 0.04 * 2.0 / 3.0, DRAWS, "biases");
    }

    #[test]
    fn entries_mutate_by_the_three_kinds() {
        // One entry of value 1, mutated once: large steps, resets around 0, small steps around 1.
        let mut rng = cmdp::rng([5; 4]);
        let (mut small, mut reset, mut large, mut none) = (vec![], vec![], vec![], 0);
        const DRAWS: usize = 100_000;
        for _ in 0..DRAWS {
            let mut entry = [1.0f32];
            mutate_entries(&mut entry, 0.001, &mut rng);
            match entry[0] {
                1.0 => none += 1,
                x if x.abs() < 0.01 => reset.push(f64::from(x)),
                x if (x - 1.0).abs() < 0.6 => small.push(f64::from(x - 1.0)),
                x => large.push(f64::from(x - 1.0)),
            }
        }
        close(f64::from(none) / DRAWS as f64, 0.5, DRAWS, "none or one");
        let mutated = DRAWS - none as usize;
        // A large step hides among the others when it is smaller than 0.6: 4.8 % of the time. It
        // looks like a reset when it lands within 0.01 of 0: 0.08 %.
        let share = |n: usize| n as f64 / mutated as f64;
        close(share(large.len()), SUPER * (1.0 - 0.0478), mutated, "super");
        close(share(reset.len()), RESET + SUPER * 0.0008, mutated, "reset");
        let deviation = |x: &[f64]| (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64).sqrt();
        assert!((deviation(&small) - 0.1).abs() < 0.005, "{}", deviation(&small));
        assert!((deviation(&reset) / 0.001 - 1.0).abs() < 0.15, "{}", deviation(&reset));
        assert!((deviation(&large) / 10.2 - 1.0).abs() < 0.06, "{}", deviation(&large));
    }

    #[test]
    fn weights_and_biases_are_reset_with_their_own_deviation() {
        // Of entries that are 0, only a reset makes anything else.
        let (mut weights, mut biases) = (vec![], vec![]);
        for seed in 0..20_000 {
            let mut net = Mlp::zeros(&[30, 40, 1], Activation::Relu);
            mutate(&mut net, &mut cmdp::rng([seed, 0, 0, 0]));
            let reset = |range: Range<usize>| {
                net.params()[range]
                    .iter()
                    .filter(|x| **x != 0.0)
                    .map(|&x| f64::from(x))
                    .collect::<Vec<_>>()
            };
            weights.extend(reset(net.weight_range(0)));
            biases.extend(reset(net.bias_range(0)));
        }
        let deviation = |x: &[f64]| (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64).sqrt();
        assert!(weights.len() > 1000 && (deviation(&weights) / 0.1 - 1.0).abs() < 0.05);
        assert!(biases.len() > 5 && (0.4..2.0).contains(&deviation(&biases)), "{biases:?}");
    }

    #[test]
    fn a_mutant_that_is_not_finite_becomes_an_elite_again() {
        let ranked: Vec<usize> = (0..10).collect();
        let mut population = marked(10);
        population[5].params_mut()[3] = f32::INFINITY;
        population[6].params_mut()[0] = f32::NAN;
        vary(&mut population, &ranked, &evolution(|_| {}), &mut cmdp::rng([1; 4]));
        assert!(population.iter().all(|net| net.params().iter().all(|x| x.is_finite())));
    }

    #[test]
    fn small_populations_work() {
        for (size, elites) in [(2, 1), (3, 1), (3, 2), (4, 2)] {
            let ranked: Vec<usize> = (0..size).collect();
            let config = evolution(|c| (c.population, c.elites) = (size, elites));
            for seed in 0..50 {
                let mut population = marked(size);
                vary(&mut population, &ranked, &config, &mut cmdp::rng([seed, 0, 0, 0]));
                assert_eq!(population[0], marked(1)[0]);
            }
        }
    }
}
