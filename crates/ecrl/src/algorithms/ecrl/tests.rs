//! Algorithm 1, observed from outside.

use std::any::Any;

use super::*;
use crate::config::Layers;
use crate::metrics::{CHAMPION_REWARD, ENV_STEPS, GRAD_STEPS};
use crate::population::census::{Fates, Individual};
use crate::population::variation::Origin;
use crate::trainer::Trainer;
use cmdp::{Constraint, Env, PointMass};

fn evolution(trainer: &Trainer) -> &Evolution {
    (&*trainer.algorithm as &dyn Any).downcast_ref().unwrap()
}

fn trainer(algorithm: &str, more: &str) -> Trainer {
    let mut layers = Layers::default();
    let small = "task = \"point-mass\"\nconstraints = [\"force<=0.1\"]\n";
    let config = "[sac]\nhidden = [16]\nbatch = 16\n[learner]\nlearning_starts = 500\n";
    layers.toml(&format!("{small}{config}{more}")).unwrap();
    layers.set("algorithm", algorithm);
    let config = layers.build().unwrap();
    let constraints = Constraint::parse_all(&config.constraints, &PointMass::COSTS).unwrap();
    let make = || PointMass::new(constraints.clone()).map(|env| Box::new(env) as Box<dyn Env>);
    Trainer::new(config, 2, make).unwrap()
}

fn step(trainer: &mut Trainer) -> Record {
    trainer.generation(&mut |_| true).unwrap().unwrap()
}

/// The multipliers stored with transitions from `first` on, each named once, in order.
fn stored(trainer: &Trainer, first: usize) -> Vec<f32> {
    let replay = trainer.replay().unwrap();
    let mut all: Vec<f32> = (first..replay.len()).map(|i| replay.get(i).multipliers[0]).collect();
    all.dedup();
    all
}

fn slots(trainer: &Trainer) -> Vec<Vec<f64>> {
    (0..10).map(|slot| evolution(trainer).multipliers.of_actor(slot).to_vec()).collect()
}

fn single(lambda: &[Vec<f64>]) -> Vec<f32> {
    lambda.iter().map(|values| values[0] as f32).collect()
}

#[test]
fn every_transition_keeps_the_multiplier_it_was_collected_with() {
    for algorithm in ["ecrl", "bc"] {
        let mut trainer = trainer(algorithm, "[multipliers]\neta = 0.1\n");
        let (mut expected, mut first) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            expected.extend(single(&slots(&trainer)));
            expected.push(evolution(&trainer).multipliers.of_learner()[0] as f32);
            first.push(slots(&trainer));
            step(&mut trainer);
        }
        assert_eq!(stored(&trainer, 0), expected, "{algorithm}");
        // Each generation raises the one slot that the learner took.
        for pair in first.windows(2) {
            let changed = pair[0].iter().zip(&pair[1]).filter(|(a, b)| a != b).count();
            assert_eq!(changed, 1, "{algorithm}");
        }
        let distinct = &first[0];
        assert!(distinct.iter().all(|l| (0.0..1.0).contains(&l[0])), "{distinct:?}");
    }
}

#[test]
fn the_other_algorithms_store_one_multiplier_for_all() {
    for (algorithm, values, expected) in [
        ("erl", "", 0.0),
        ("sr", "", 0.0),
        ("sac", "", 0.0),
        ("erl-shaped", "[multipliers]\nlambda = 0.25\n", 0.25),
        ("sr-shaped", "[multipliers]\nlambda = 0.25\n", 0.25),
    ] {
        let mut trainer = trainer(algorithm, values);
        (0..3).for_each(|_| _ = step(&mut trainer));
        assert_eq!(stored(&trainer, 0), [expected], "{algorithm}");
    }
    for algorithm in ["rcpo-erl", "rcpo"] {
        let mut trainer = trainer(algorithm, "[multipliers]\nlambda = 0.25\neta = 0.1\n");
        let mut lambda = 0.25;
        for _ in 0..4 {
            let first = trainer.replay().unwrap().len();
            let record = step(&mut trainer);
            assert_eq!(stored(&trainer, first), [lambda as f32], "{algorithm}");
            lambda = record.get(&LAMBDA_LEARNER).unwrap()[0];
        }
        assert_ne!(lambda, 0.25, "{algorithm}");
    }
}

#[test]
fn the_learner_joins_the_population_every_sync_period_and_never_on_an_elite() {
    let mut trainer = trainer("ecrl", "[evolution]\nsync_period = 2\n");
    let mut fates = 0;
    for n in 1..=30 {
        let record = step(&mut trainer);
        let census = evolution(&trainer).census().unwrap().clone();
        let learners: Vec<&Individual> =
            census.individuals.iter().filter(|one| one.descent.origin == Origin::Learner).collect();
        // Injected at the end of an even generation, ranked in the odd one that follows.
        assert_eq!(learners.len(), usize::from(n % 2 == 1 && n > 1), "generation {n}");
        assert_eq!(record.get(&LEARNER_COPY).is_some(), n % 2 == 1 && n > 1);
        fates += u64::from(record.get(&LEARNER_COPY).is_some());
        if n % 2 == 0 {
            let slot = evolution(&trainer).population.progress.injected[0];
            let last = census.individuals.last().unwrap();
            assert!(!last.elite && last.slot == slot);
            assert_eq!(
                evolution(&trainer).population.actors[slot].params(),
                evolution(&trainer).learner.actor().params()
            );
        }
    }
    let Fates { elite, selected, discarded } = evolution(&trainer).population.progress.fates;
    assert_eq!(elite + selected + discarded, fates);
}

#[test]
fn the_champion_is_tested_as_it_was_ranked() {
    let mut trainer = trainer("ecrl", "[test]\nevery = 0\n");
    for _ in 0..5 {
        let before = evolution(&trainer).population.actors.clone();
        let record = step(&mut trainer);
        let first = evolution(&trainer).census().unwrap().individuals[0].slot;
        assert_eq!(evolution(&trainer).population.actors[first], before[first]);
        assert!(record.get(&CHAMPION_REWARD).is_some());
    }
}

#[test]
fn the_champion_is_the_first_of_the_ranking_or_the_most_rewarding() {
    let mut differ = 0;
    for (champion, by_reward) in [("ranking", false), ("reward", true)] {
        // All violate: with tolerance 0 the ranking is by violation alone.
        let values = format!("[evolution]\nchampion = \"{champion}\"\npf = 0.0\n");
        let mut trainer = trainer("ecrl", &values);
        for _ in 0..5 {
            let before = evolution(&trainer).population.actors.clone();
            step(&mut trainer);
            let individuals = &evolution(&trainer).census().unwrap().individuals;
            let best = individuals.iter().max_by(|a, b| a.reward.total_cmp(&b.reward)).unwrap();
            let first = individuals[0].slot;
            differ += usize::from(best.slot != first);
            let expected = if by_reward { best.slot } else { first };
            assert_eq!(evolution(&trainer).champion().unwrap().actor, before[expected]);
        }
    }
    assert!(differ > 0, "both ways agree all the time");
}

#[test]
fn steps_before_the_first_update_are_caught_up_where_asked() {
    for (catch_up, first) in [(false, "only its own"), (true, "all so far")] {
        let mut trainer = trainer("sac", &format!("catch_up = {catch_up}\nepisodes = 1\n"));
        let mut before = 0;
        let record = loop {
            let record = step(&mut trainer);
            if record.get(&GRAD_STEPS) != Some(0) {
                break record;
            }
            before = record.get(&ENV_STEPS).unwrap();
        };
        let asked = record.get(&ENV_STEPS).unwrap() - if catch_up { 0 } else { before };
        assert!(before > 0);
        assert_eq!(record.get(&GRAD_STEPS), Some(asked), "{first}");
    }
}

#[test]
fn the_time_limit_terminates_where_asked() {
    for limit in [false, true] {
        let mut trainer = trainer("sac", &format!("time_limit_terminates = {limit}\n"));
        step(&mut trainer);
        let replay = trainer.replay().unwrap();
        let ended = (0..replay.len()).filter(|&i| replay.get(i).terminated).count();
        // Of five episodes, some reach the time limit.
        assert!(if limit { ended == 5 } else { ended < 5 }, "{ended}");
    }
}

#[test]
fn gradient_steps_follow_the_configured_ratio() {
    let mut trainer = trainer("ecrl", "grad_steps_per_env_step = 0.25\n");
    let records: Vec<Record> = (0..3).map(|_| step(&mut trainer)).collect();
    let counted = |metric| records[2].get(metric).unwrap() - records[1].get(metric).unwrap();
    let (steps, updates): (u64, u64) = (counted(&ENV_STEPS), counted(&GRAD_STEPS));
    assert_eq!(updates, (steps as f64 / 4.0).round() as u64);
}
