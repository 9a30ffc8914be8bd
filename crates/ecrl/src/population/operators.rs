//! ERL's operators on the weights of actors: crossover and mutation.
//!
//! 1. Khadka & Tumer, Evolution-Guided Policy Gradient in Reinforcement Learning, NeurIPS 2018.

use std::ops::Range;

use cmdp::Rng;
use nets::Mlp;
use rand::RngExt as _;
use rand_distr::StandardNormal;

/// The largest share of a weight matrix's rows that one crossover copies.
const CROSSOVER_ROWS: f64 = 0.3;
/// The probability that a crossover touches a bias vector.
const CROSSOVER_BIAS: f64 = 0.2;
/// The largest share of a tensor's entries that one mutation changes.
const MUTATED_SHARE: f64 = 0.05;
/// The probability of a super-mutation of an entry, w += N(0, 10|w|).
const SUPER: f64 = 0.05;
/// The probability of a reset of an entry, w = N(0, 0.1), or N(0, 1) for a bias.
const RESET: f64 = 0.02;
/// How much rarer bias vectors mutate than weight matrices.
const BIAS: f64 = 0.04;

/// A weight matrix of an actor with its bias vector: where they lie in the parameters.
struct Tensors {
    inputs: usize,
    rows: usize,
    weight: Range<usize>,
    bias: Range<usize>,
}

/// Every weight matrix; that of the last layer counts as one for each head.
fn tensors(actor: &Mlp, heads: usize) -> Vec<Tensors> {
    let last = actor.layers() - 1;
    let layers = (0..=last).flat_map(|layer| {
        let (inputs, outputs) = (actor.sizes()[layer], actor.sizes()[layer + 1]);
        let (weight, bias) = (actor.weight_range(layer).start, actor.bias_range(layer).start);
        let heads = if layer == last { heads } else { 1 };
        let rows = outputs / heads;
        (0..heads).map(move |head| {
            let (weight, bias) = (weight + head * rows * inputs, bias + head * rows);
            let (weight, bias) = (weight..weight + rows * inputs, bias..bias + rows);
            Tensors { inputs, rows, weight, bias }
        })
    });
    layers.collect()
}

/// Exchanges rows of weights and entries of biases between two actors of the same shape, whose last layer has so
/// many heads; only those who receive are changed.
pub fn crossover(a: &mut Mlp, b: &mut Mlp, receives: [bool; 2], heads: usize, rng: &mut Rng) {
    for Tensors { inputs, rows, weight, bias } in tensors(a, heads) {
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

/// Changes some entries of some tensors of an actor whose last layer has so many heads.
pub fn mutate(actor: &mut Mlp, heads: usize, rng: &mut Rng) {
    for Tensors { weight, bias, .. } in tensors(actor, heads) {
        for (range, rarity, reset) in [(weight, 1.0, 0.1), (bias, BIAS, 1.0)] {
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
pub(super) mod tests {
    use super::*;
    use nets::Activation;

    /// Actors whose every parameter tells the slot.
    pub fn marked(count: usize) -> Vec<Mlp> {
        let mark = |slot: usize| {
            let mut net = Mlp::zeros(&[4, 20, 6], Activation::Relu);
            net.params_mut().fill(slot as f32 + 1.0);
            net
        };
        (0..count).map(mark).collect()
    }

    pub fn close(found: f64, expected: f64, draws: usize, what: &str) {
        let deviation = (expected * (1.0 - expected) / draws as f64).sqrt();
        assert!((found - expected).abs() <= 4.0 * deviation, "{what}: {found} of {expected}");
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
            crossover(a, b, [true, true], 2, &mut rng);
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
    fn the_two_heads_are_two_matrices() {
        // 20 rows of means, then 20 of log σ: up to 6 of each are copied, in no relation.
        let heads = |net: &Mlp, own: f32| -> [usize; 2] {
            let rows: Vec<bool> =
                net.params()[net.weight_range(1)].chunks(3).map(|row| row[0] != own).collect();
            [&rows[..20], &rows[20..]].map(|head| head.iter().filter(|copied| **copied).count())
        };
        const DRAWS: usize = 20_000;
        let (mut most, mut none, mut biases) = ([0; 2], [0; 3], [0; 3]);
        for seed in 0..DRAWS as u64 {
            let mut pair = [1.0, 2.0].map(|mark| {
                let mut net = Mlp::zeros(&[2, 3, 40], Activation::Relu);
                net.params_mut().fill(mark);
                net
            });
            let [a, b] = &mut pair;
            crossover(a, b, [true, true], 2, &mut cmdp::rng([seed, 0, 0, 0]));
            let (first, second) = (heads(a, 1.0), heads(b, 2.0));
            let copied = [first[0] + second[0], first[1] + second[1]];
            for (head, &copied) in copied.iter().enumerate() {
                most[head] = most[head].max(copied);
                none[head] += usize::from(copied == 0);
            }
            none[2] += usize::from(copied == [0, 0]);
            let bias = |net: &Mlp, own: f32, head: usize| {
                let range = net.bias_range(1);
                net.params()[range][20 * head..][..20].iter().filter(|x| **x != own).count()
            };
            let touched = [0, 1].map(|head| bias(a, 1.0, head) + bias(b, 2.0, head));
            assert!(touched.iter().all(|count| *count <= 1), "one entry of each");
            biases[0] += touched[0];
            biases[1] += touched[1];
            biases[2] += touched[0] * touched[1];
        }
        assert_eq!(most, [6, 6]);
        let share = |count: usize| count as f64 / DRAWS as f64;
        for head in 0..2 {
            close(share(none[head]), 1.0 / 7.0, DRAWS, "a head untouched");
            close(share(biases[head]), CROSSOVER_BIAS, DRAWS, "a head's bias");
        }
        close(share(none[2]), 1.0 / 49.0, DRAWS, "both untouched");
        close(share(biases[2]), CROSSOVER_BIAS * CROSSOVER_BIAS, DRAWS, "both biases");
    }

    #[test]
    fn who_does_not_receive_is_never_changed() {
        for seed in 0..200 {
            let mut pair = marked(2);
            let [a, b] = pair.get_disjoint_mut([0, 1]).unwrap();
            crossover(a, b, [false, true], 2, &mut cmdp::rng([seed, 0, 0, 0]));
            assert!(a.params().iter().all(|&x| x == 1.0));
        }
    }

    #[test]
    fn tensors_mutate_with_their_probabilities() {
        // Weights: P(u' < 2u) = 3/4. Biases: P(u' < 0.08u) = 0.04. No entry is chosen with probability
        // 1/(most + 1).
        const DRAWS: usize = 40_000;
        let (mut weights, mut biases) = (0, 0);
        for seed in 0..DRAWS as u64 {
            let mut net = Mlp::zeros(&[30, 40, 2], Activation::Relu);
            net.params_mut().fill(1.0);
            mutate(&mut net, 2, &mut cmdp::rng([seed, 0, 0, 0]));
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
            let mut net = Mlp::zeros(&[30, 40, 2], Activation::Relu);
            mutate(&mut net, 2, &mut cmdp::rng([seed, 0, 0, 0]));
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
}
