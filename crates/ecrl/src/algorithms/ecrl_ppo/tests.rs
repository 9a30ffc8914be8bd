//! Who leaves, who is copied, and who is the policy.

use std::sync::Arc;

use super::member::Kind;
use super::*;
use crate::best::Outcome;
use crate::collect::stage::Threads;
use crate::config::Layers;
use crate::context::Times;
use crate::metrics::ROLLOUT_REWARD;
use crate::population::ranking::Ranking;
use crate::population::variation::{Descent, Origin};
use crate::population::{POPULATION_FEASIBLE, POPULATION_REWARD_MEAN};
use crate::trainer::Trainer;
use cmdp::{Constraint, Env, PointMass};

/// A run of 100 steps under `force<=0.5` and its population of four learners, of which each has had an
/// episode.
fn selected(halve_at: &[f64], copy_every: f64) -> (Context, Selected) {
    varied(halve_at, copy_every, &[Kind::PpoLag], &[1.0])
}

/// The same with these genomes.
fn varied(
    halve_at: &[f64],
    copy_every: f64,
    kinds: &[Kind],
    horizons: &[f64],
) -> (Context, Selected) {
    let mut layers = Layers::default();
    layers.set("algorithm", "ecrl-ppo").set("steps", 100);
    let values =
        "[ppo]\nhidden = [4]\ncollect = 60\nbatch = 60\nenvs = 4\n[evolution]\npopulation = 4\n";
    layers.toml(values).unwrap();
    let constraints = Constraint::parse_all(&["force<=0.5"], &PointMass::COSTS).unwrap();
    let task = PointMass::new(constraints).unwrap();
    let config = layers.build().unwrap();
    let mut section: SelectedSection = config.section().unwrap();
    section.evolution.selection.halve_at = halve_at.to_vec();
    section.evolution.copy_every = copy_every;
    section.evolution.learners = kinds.to_vec();
    section.evolution.horizons = horizons.to_vec();
    section.evolution.entropies = vec![0.0];
    section.evolution.lambdas = vec![1.0];
    let mut rng = cmdp::rng([0; 4]);
    let setup = Setup { spec: task.spec(), rng: &mut rng };
    let mut selected = Selected::new(section, setup).unwrap();
    // Two keep the constraint; of the others one earns most.
    for (number, (reward, cost)) in
        [(1.0, 0.25), (9.0, 0.75), (2.0, 0.5), (0.5, 1.5)].into_iter().enumerate()
    {
        let before = Outcome { reward: reward + 100.0, cost: vec![cost] };
        selected.selection.episodes[number] =
            vec![before, Outcome { reward: reward - 100.0, cost: vec![cost] }];
        selected.selection.fresh[number] = 1;
    }
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let context = Context {
        config,
        spec: task.spec().clone(),
        pool: Arc::clone(&pool),
        generation: 1,
        env_steps: 0,
        grad_steps: 0,
        times: Times::default(),
        fault: None,
        stage: Box::new(Threads::new(vec![Box::new(task) as Box<dyn Env>], vec![], pool)),
    };
    (context, selected)
}

fn conclude(selected: &mut Selected, context: &mut Context, steps: u64) -> Record {
    context.env_steps = steps;
    let mut record = Record::default();
    selected.conclude(context, &mut record);
    record
}

#[test]
fn the_worse_half_leaves_in_time_and_the_first_is_the_policy() {
    let (mut context, mut selected) = selected(&[0.5, 0.75], 0.0);
    selected.section.evolution.selection.ranking =
        Ranking::Stochastic { pf: 0.0, early_stop: true };
    let record = conclude(&mut selected, &mut context, 40);
    assert_eq!(record.get(&ROLLOUT_REWARD), Some(2.0 - 100.0), "in this generation");
    assert_eq!(record.get(&POPULATION_REWARD_MEAN), Some(3.125));
    assert_eq!(record.get(&POPULATION_FEASIBLE), Some(0.5));
    assert_eq!(selected.selection.left, [0, 1, 2, 3], "not yet");
    assert_eq!(selected.actor(), selected.learners[2].actor());
    conclude(&mut selected, &mut context, 50);
    assert_eq!(selected.selection.left, [0, 2]);
    // A reward alone would have kept the second.
    conclude(&mut selected, &mut context, 60);
    assert_eq!(selected.selection.left, [0, 2]);
    let record = conclude(&mut selected, &mut context, 80);
    assert_eq!((&selected.selection.left[..], record.get(&LEARNERS)), (&[2][..], Some(1)));
    conclude(&mut selected, &mut context, 100);
    assert_eq!(selected.selection.left, [2]);
}

#[test]
fn by_reward_the_one_that_breaks_the_constraint_wins() {
    let (mut context, mut selected) = selected(&[0.5], 0.0);
    selected.section.evolution.selection.ranking = Ranking::Reward;
    conclude(&mut selected, &mut context, 50);
    assert_eq!((selected.selection.leader, &selected.selection.left[..]), (1, &[1, 2][..]));
}

#[test]
fn the_last_becomes_a_copy_of_the_first_until_the_last_halving() {
    let (mut context, mut selected) = selected(&[0.75], 0.5);
    selected.section.evolution.selection.ranking =
        Ranking::Stochastic { pf: 0.0, early_stop: true };
    let actors = |selected: &Selected| -> Vec<Mlp> {
        selected.learners.iter().map(Algorithm::actor).collect()
    };
    let before = actors(&selected);
    selected.selection.episodes[2].pop();
    selected.selection.fresh[3] = 2;
    conclude(&mut selected, &mut context, 40);
    assert!(actors(&selected) == before);
    conclude(&mut selected, &mut context, 50);
    let after = actors(&selected);
    assert!(after[3] == before[2] && after[..3] == before[..3]);
    assert_eq!(selected.selection.descents[3], Descent::of(Origin::Copy, &[2]));
    assert_eq!(selected.selection.episodes[3], selected.selection.episodes[2]);
    assert_eq!(selected.selection.fresh[3], 1, "as the first's, which has fewer");
}

#[test]
fn tolerance_falls_to_nothing_until_the_last_halving() {
    let (mut context, mut selected) = selected(&[0.0, 0.5], 0.0);
    selected.selection.halved = 2;
    selected.section.evolution.selection.ranking =
        Ranking::Stochastic { pf: 1.0, early_stop: true };
    conclude(&mut selected, &mut context, 0);
    assert_eq!(selected.selection.leader, 1, "who earns most and breaks the constraint");
    conclude(&mut selected, &mut context, 50);
    assert_eq!(selected.selection.leader, 2);
}

#[test]
fn exploration_falls_to_nothing_until_the_last_halving() {
    let (mut context, mut selected) = selected(&[0.25, 0.5], 0.0);
    selected.section.evolution.entropies = vec![0.5, 0.25];
    selected.section.member.ppo.entropy_coef = 0.125;
    selected.selection.genomes[2] = 1; // a copy of another explores as that does
    let mut at = |steps| {
        context.env_steps = steps;
        selected.explore(&context);
        let weight = |learner: &OnPolicy<Priced>| learner.entropy_coef();
        selected.learners.iter().map(weight).collect::<Vec<f64>>()
    };
    assert_eq!(at(0), [0.625, 0.375, 0.375, 0.375]);
    assert_eq!(at(25), [0.375, 0.25, 0.25, 0.25]);
    assert_eq!([at(50), at(100)], [[0.125; 4]; 2]);
}

#[test]
fn multipliers_start_where_the_genome_says() {
    let mut selected = varied(&[], 0.0, &KINDS, &[1.0]).1;
    selected.section.evolution.lambdas = vec![1.0, 1.0, 500.0, 1000.0];
    let start = |number| lambda(&selected.blank(number))[0];
    // λ = 0.001 times that; a barrier has a slope, which is 0 before an episode has ended.
    assert_eq!([0, 1, 2, 3].map(start), [0.001, 0.0, 0.5, 1.0]);
}

const KINDS: [Kind; 3] = [Kind::PpoLag, Kind::Ipo, Kind::RcpoPpo];

#[test]
fn genomes_are_dealt_out_in_turn_inherited_and_stored() {
    let of = |selected: &Selected| -> Vec<(Kind, f64)> {
        let kind = |one: &OnPolicy<Priced>| match one.variant() {
            Priced::Lagrangian(_) => Kind::PpoLag,
            Priced::Shaped(_) => Kind::RcpoPpo,
            Priced::Barrier(_) => Kind::Ipo,
        };
        selected.learners.iter().map(|one| (kind(one), one.config().gamma)).collect()
    };
    let [near, far] =
        [0.99, 1.0 - (1.0 - 0.99) / 10.0].map(|gamma| KINDS.map(|kind| (kind, gamma)));
    assert_eq!(of(&selected(&[0.75], 0.5).1), [near[0]; 4]);
    let new = || varied(&[0.75], 0.5, &KINDS, &[1.0, 1.0, 10.0, 10.0]);
    let (mut context, mut one) = new();
    one.section.evolution.selection.ranking = Ranking::Stochastic { pf: 0.0, early_stop: true };
    assert_eq!(of(&one), [near[0], near[1], far[2], far[0]]);
    conclude(&mut one, &mut context, 50);
    assert_eq!(of(&one), [near[0], near[1], far[2], far[2]], "the last is a copy of the third");
    let store = Walk::save(|walk| one.walk(walk)).unwrap();
    let mut again = new().1;
    Walk::load(&store, |walk| again.walk(walk)).unwrap();
    assert_eq!(of(&again), of(&one));
    let actors = |selected: &Selected| -> Vec<Mlp> {
        selected.learners.iter().map(Algorithm::actor).collect()
    };
    assert!(actors(&again) == actors(&one));
}

#[test]
fn the_best_of_every_kind_stays_before_others_do() {
    let (mut context, mut one) = varied(&[0.5, 0.75], 0.0, &KINDS[..2], &[1.0]);
    one.section.evolution.selection.ranking = Ranking::Stochastic { pf: 0.0, early_stop: true };
    // By rank: 2, 0, 1, 3, of which 2 and 0 have multipliers, 1 and 3 a barrier.
    conclude(&mut one, &mut context, 50);
    assert_eq!(one.selection.left, [1, 2]);
    conclude(&mut one, &mut context, 80);
    assert_eq!(one.selection.left, [2]);
}

#[test]
fn nobody_is_judged_before_all_have_ended_an_episode() {
    let (mut context, mut selected) = selected(&[0.5], 0.0);
    selected.selection.episodes[3].clear();
    let record = conclude(&mut selected, &mut context, 90);
    assert_eq!((record.get(&LEARNERS), record.get(&POPULATION_FEASIBLE)), (Some(4), None));
}

#[test]
fn those_who_left_play_no_more_and_their_environments_go_to_the_others() {
    let mut layers = Layers::default();
    layers.set("algorithm", "ecrl-ppo").set("steps", 6000);
    // Three learners on four environments, then two, then one.
    let values = "[ppo]\nhidden = [4]\ncollect = 200\nbatch = 50\nepochs = 2\nenvs = 4\n\
                  [evolution]\npopulation = 3\nhalve_at = [0.3, 0.6]\ncopy_every = 0.1\n";
    layers.toml(values).unwrap();
    let make = || PointMass::new(vec![]).map(|env| Box::new(env) as Box<dyn Env>);
    let mut trainer = Trainer::new(layers.build().unwrap(), 2, make).unwrap();
    let mut seen = Vec::new();
    while !trainer.is_done() {
        let before = (trainer.env_steps(), trainer.grad_steps());
        let record = trainer.generation(&mut |_| true).unwrap().unwrap();
        let brought = (trainer.env_steps() - before.0, trainer.grad_steps() - before.1);
        seen.push((brought, record.get(&LEARNERS).unwrap()));
    }
    seen.dedup();
    // 200 steps of each on the mean; of three learners on four environments, one has two of them.
    assert_eq!(seen, [((600, 12), 3), ((600, 12), 2), ((400, 8), 2), ((400, 8), 1), ((200, 8), 1)]);
}

#[test]
fn a_stored_selection_that_does_not_fit_is_refused() {
    let damages: [fn(&mut Selection); 8] = [
        |s| s.left = vec![0, 0],
        |s| s.left = vec![4],
        |s| s.leader = 4,
        |s| s.episodes[1][0].cost.clear(),
        |s| s.episodes[1][0].reward = f64::NAN,
        |s| s.fresh[2] = 3,
        |s| s.genomes.truncate(3),
        |s| s.genomes[1] = 4,
    ];
    for damage in damages {
        let (_, mut first) = selected(&[0.5], 0.0);
        let (_, mut second) = selected(&[0.5], 0.0);
        damage(&mut first.selection);
        let store = Walk::save(|walk| first.walk(walk)).unwrap();
        let error = Walk::load(&store, |walk| second.walk(walk)).unwrap_err();
        assert!(matches!(error, StateError::Misfit { .. }), "{error}");
    }
}
