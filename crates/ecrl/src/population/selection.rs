//! Selection among learners: who of them goes on.
//!
//! Learners learn side by side. After every generation a ranking orders them by their last episodes, sampled as
//! they are trained; at some shares of the run the worse half leaves, and what it had goes to the others. The
//! best of every kind leaves after all others: who looks far ahead, say, learns late. The tolerance of stochastic
//! ranking falls to nothing until the last halving: whoever goes on from there keeps the constraints, if anybody does.
//!
//! 1. Jamieson & Talwalkar, Non-stochastic Best Arm Identification and Hyperparameter Optimization, AISTATS 2016:
//!    successive halving.

use cmdp::{Constraint, Episode};
use serde::{Deserialize, Serialize};

use super::census::{Census, Fates, Individual};
use super::ranking::Ranking;
use super::variation::{Descent, Origin};
use super::{LAMBDA_MEAN, POPULATION_COST_MEAN, POPULATION_FEASIBLE, POPULATION_REWARD_MEAN};
use crate::best::Outcome;
use crate::collect::episodes::{mean, mean_costs};
use crate::config::{ConfigError, range};
use crate::context::{Context, Stream};
use crate::metrics::{About, Metric, ROLLOUT_COST, ROLLOUT_REWARD, Record};
use crate::state::{StateError, Walk};

/// Learners left.
pub static LEARNERS: Metric<u64> =
    Metric::new("learners", "population/learners", "", "Learners that selection has left so far");

/// What it records.
pub static METRICS: [&About; 5] = [
    &LEARNERS.about,
    &POPULATION_REWARD_MEAN.about,
    &POPULATION_COST_MEAN.about,
    &POPULATION_FEASIBLE.about,
    &LAMBDA_MEAN.about,
];

/// The population and how it is selected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelectionConfig {
    /// Learners at the start.
    pub population: usize,
    /// How they are ordered; the tolerance of stochastic ranking falls to nothing until the last halving.
    #[serde(flatten)]
    pub ranking: Ranking,
    /// Episodes of a learner, the last, that it is ranked by, or all that ended in a batch where those are more;
    /// more is surer and later.
    pub judged: usize,
    /// Shares of the run after which the worse half leaves, rising.
    pub halve_at: Vec<f64>,
}

impl SelectionConfig {
    /// The usual values, for so many learners.
    pub fn of(population: usize, halve_at: &[f64]) -> Self {
        let (ranking, halve_at) = (Ranking::stochastic(), halve_at.to_vec());
        Self { population, ranking, judged: 10, halve_at }
    }

    /// How much of the time until the last halving is left: from 1 down to 0.
    pub fn rest(&self, context: &Context) -> f64 {
        let until = self.halve_at.last().copied().unwrap_or(1.0);
        let share = context.env_steps as f64 / context.config.steps as f64;
        if share < until { 1.0 - share / until } else { 0.0 }
    }

    /// Checks every value against its range; there may be so many learners, which is said in words.
    pub fn validate(&self, most: usize, why: &str) -> Result<(), ConfigError> {
        let Self { population, ranking, judged, halve_at } = self;
        let fits = (2..=most).contains(population);
        range::check(
            fits,
            "evolution.population",
            population,
            &format!("at least 2 and at most {why}"),
        )?;
        ranking.validate("evolution")?;
        range::many("evolution.judged", *judged)?;
        let shares = halve_at.iter().all(|at| (0.0..=1.0).contains(at));
        range::check(
            shares && halve_at.is_sorted() && halve_at.len() <= 10,
            "evolution.halve_at",
            format!("{halve_at:?}"),
            "at most 10 rising numbers from 0 to 1",
        )
    }
}

/// Checks the number of what is dealt out to learners in turn.
pub fn validate_dealt<T>(
    key: &str,
    dealt: &[T],
    fits: impl Fn(&T) -> bool,
    of: &str,
) -> Result<(), ConfigError>
where
    T: std::fmt::Debug,
{
    let sound = (1..=1000).contains(&dealt.len()) && dealt.iter().all(fits);
    range::check(sound, key, format!("{dealt:?}"), &format!("1 to 1000 {of}"))
}

/// What is dealt out in turn to a learner of that number.
pub fn dealt<T: Copy>(all: &[T], number: usize) -> T {
    all[number % all.len()]
}

/// How selection stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    /// The numbers of those left, rising.
    pub left: Vec<usize>,
    /// The first of the last ranking.
    pub leader: usize,
    /// Of every learner the last episodes, the newest last, and how many of them ended in this generation.
    pub episodes: Vec<Vec<Outcome>>,
    /// See there.
    pub fresh: Vec<usize>,
    /// Where every learner comes from.
    pub descents: Vec<Descent>,
    /// The number that began with what it has inherited.
    pub genomes: Vec<usize>,
    /// Halvings done.
    pub halved: usize,
    /// Steps until the last copy.
    pub copied_at: u64,
    /// Who was who in the last generation.
    pub census: Option<Census>,
}

impl Selection {
    /// Of so many learners, who are all there.
    pub fn new(size: usize) -> Self {
        Self {
            left: (0..size).collect(),
            leader: 0,
            episodes: vec![Vec::new(); size],
            fresh: vec![0; size],
            descents: vec![Descent::without_parents(Origin::Initial); size],
            genomes: (0..size).collect(),
            halved: 0,
            copied_at: 0,
            census: None,
        }
    }

    /// Takes note of the episodes that ended for a learner.
    pub fn remember<'a>(
        &mut self,
        number: usize,
        ended: impl IntoIterator<Item = &'a Episode>,
        config: &SelectionConfig,
    ) {
        let episodes = &mut self.episodes[number];
        let before = episodes.len();
        episodes.extend(ended.into_iter().map(|episode| Outcome {
            reward: episode.reward(),
            cost: episode.constraint_values(),
        }));
        let fresh = episodes.len() - before;
        episodes.drain(..episodes.len().saturating_sub(config.judged.max(fresh)));
        self.fresh[number] = fresh;
    }

    /// Orders those left, best first, and notes who was who, with the multipliers of each; nobody is ordered before
    /// all of them have ended an episode. The first is the policy from now on.
    pub fn rank(
        &mut self,
        config: &SelectionConfig,
        lambda: impl Fn(usize) -> Vec<f64>,
        context: &Context,
        record: &mut Record,
    ) -> Option<Vec<usize>> {
        let ranked = self.order(config.ranking.with_share(config.rest(context)), context);
        if let Some(ranked) = &ranked {
            self.leader = ranked[0];
            self.note(ranked, lambda, context, record);
        }
        let old = self.episodes[self.leader].len() - self.fresh[self.leader];
        if let Some(Outcome { reward, cost }) = outcome(&self.episodes[self.leader][old..]) {
            record.set(&ROLLOUT_REWARD, reward);
            record.set(&ROLLOUT_COST, cost);
        }
        ranked
    }

    fn order(&self, ranking: Ranking, context: &Context) -> Option<Vec<usize>> {
        let judged = self.left.iter().map(|&number| outcome(&self.episodes[number]));
        let judged: Vec<Outcome> = judged.collect::<Option<_>>()?;
        let rewards: Vec<f64> = judged.iter().map(|outcome| outcome.reward).collect();
        let violation = |o: &Outcome| Constraint::violation(&context.spec.constraints, &o.cost);
        let violations: Vec<f64> = judged.iter().map(violation).collect();
        let mut rng = cmdp::rng(context.key(Stream::Evolution, 0));
        let order = ranking.order(&rewards, &violations, &mut rng);
        Some(order.into_iter().map(|i| self.left[i]).collect())
    }

    fn note(
        &mut self,
        ranked: &[usize],
        lambda: impl Fn(usize) -> Vec<f64>,
        context: &Context,
        record: &mut Record,
    ) {
        let constraints = &context.spec.constraints;
        let individual = |(rank, &slot): (usize, &usize)| {
            let Outcome { reward, cost } = outcome(&self.episodes[slot]).expect("it was ranked");
            Individual {
                slot,
                rank,
                elite: rank == 0,
                reward,
                violation: Constraint::violation(constraints, &cost),
                cost,
                lambda: lambda(slot),
                descent: self.descents[slot].clone(),
            }
        };
        let individuals: Vec<Individual> = ranked.iter().enumerate().map(individual).collect();
        let of = |part: fn(&Individual) -> &Vec<f64>| {
            let each: Vec<Vec<f64>> = individuals.iter().map(|one| part(one).clone()).collect();
            mean_costs(&each, constraints.len())
        };
        let kept = individuals.iter().filter(|one| one.violation == 0.0).count();
        record.set(&POPULATION_REWARD_MEAN, mean(individuals.iter().map(|one| one.reward)));
        record.set(&POPULATION_COST_MEAN, of(|one| &one.cost));
        record.set(&LAMBDA_MEAN, of(|one| &one.lambda));
        record.set(&POPULATION_FEASIBLE, kept as f64 / individuals.len() as f64);
        let (generation, learner_copies) = (context.generation, Fates::default());
        self.census = Some(Census { generation, learner_copies, individuals });
        for &number in ranked {
            self.descents[number] = Descent::of(Origin::Elite, &[number]);
        }
    }

    /// If it is time, the worse half of a ranking leaves; returns who. The first of every kind stays before all others;
    /// the kind is that of the number a learner has inherited from.
    pub fn halve<K: PartialEq>(
        &mut self,
        ranked: &[usize],
        halve_at: &[f64],
        kind: impl Fn(usize) -> K,
        context: &Context,
    ) -> Option<Vec<usize>> {
        let share = context.env_steps as f64 / context.config.steps as f64;
        if halve_at.get(self.halved).is_none_or(|&at| share < at) {
            return None;
        }
        self.halved += 1;
        let has = |number: usize| kind(self.genomes[number]);
        let leads =
            |number: usize| ranked.iter().find(|&&one| has(one) == has(number)) == Some(&number);
        let mut order = ranked.to_vec();
        order.sort_by_key(|&number| !leads(number));
        let leave = order.split_off(order.len().div_ceil(2));
        order.sort_unstable();
        self.left = order;
        Some(leave)
    }

    /// A learner has become a copy of another.
    pub fn copied(&mut self, from: usize, to: usize, steps: u64) {
        self.descents[to] = Descent::of(Origin::Copy, &[from]);
        self.episodes[to] = self.episodes[from].clone();
        self.fresh[to] = self.fresh[from];
        self.genomes[to] = self.genomes[from];
        self.copied_at = steps;
    }

    fn fits(&self, size: usize, costs: usize) -> bool {
        let Self { left, leader, episodes, fresh, descents, genomes, .. } = self;
        let sound = |outcome: &Outcome| {
            let numbers = outcome.cost.iter().chain([&outcome.reward]);
            outcome.cost.len() == costs && numbers.copied().all(f64::is_finite)
        };
        [episodes.len(), fresh.len(), descents.len(), genomes.len()] == [size; 4]
            && left.is_sorted_by(|a, b| a < b)
            && left.last().is_some_and(|&last| last < size)
            && *leader < size
            && genomes.iter().all(|&genome| genome < size)
            && episodes.iter().zip(fresh).all(|(episodes, &fresh)| episodes.len() >= fresh)
            && episodes.iter().flatten().all(sound)
    }

    /// Walks it, for a task with so many constraints.
    pub fn walk(&mut self, costs: usize, walk: &mut Walk) -> Result<(), StateError> {
        let size = self.episodes.len();
        walk.fitting("selection", self, "a population of this size", |stored: &Self, _| {
            stored.fits(size, costs)
        })
    }
}

/// What some episodes came to on the mean; none without episodes.
fn outcome(episodes: &[Outcome]) -> Option<Outcome> {
    let costs: Vec<Vec<f64>> = episodes.iter().map(|episode| episode.cost.clone()).collect();
    let reward = mean(episodes.iter().map(|episode| episode.reward));
    let count = episodes.first()?.cost.len();
    Some(Outcome { reward, cost: mean_costs(&costs, count) })
}
