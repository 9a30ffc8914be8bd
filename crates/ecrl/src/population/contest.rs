//! A contest: actors are ranked by an episode each, and it is noted who was who.

use cmdp::Constraint;
use nets::Mlp;
use serde::{Deserialize, Serialize};

use super::census::{Census, Fates, Individual};
use super::ranking::Ranking;
use super::variation::Descent;
use super::{LAMBDA_MEAN, POPULATION_COST_MEAN, POPULATION_FEASIBLE, POPULATION_REWARD_MEAN};
use crate::algorithm;
use crate::best::Outcome;
use crate::collect::episodes::{Rollout, constraint_values, mean_costs};
use crate::context::{Context, Stream};
use crate::metrics::{About, Record};
use crate::state::{StateError, Walk};

/// What is recorded of it.
pub static METRICS: [&About; 4] = [
    &POPULATION_REWARD_MEAN.about,
    &POPULATION_COST_MEAN.about,
    &POPULATION_FEASIBLE.about,
    &LAMBDA_MEAN.about,
];

/// Who is to be ranked, and how.
pub struct Contest<'a> {
    /// How they are ordered.
    pub ranking: Ranking,
    /// How many pass on unchanged.
    pub elites: usize,
    /// What each played.
    pub played: &'a [Rollout],
    /// What they are ranked by in place of the reward, if it is not that.
    pub fitness: Option<Vec<f64>>,
    /// The multipliers of each.
    pub lambda: &'a dyn Fn(usize) -> Vec<f64>,
    /// Where each comes from.
    pub descent: &'a dyn Fn(usize) -> Descent,
}

impl Contest<'_> {
    /// Ranks them, notes what there is to tell of it, and returns who was who, best first.
    pub fn decide(self, context: &Context, record: &mut Record) -> Census {
        let Self { ranking, elites, played, fitness, lambda, descent } = self;
        let constraints = &context.spec.constraints;
        let rewards: Vec<f64> = played.iter().map(|r| r.episode.reward()).collect();
        let values = constraint_values(played);
        let violations: Vec<f64> =
            values.iter().map(|values| Constraint::violation(constraints, values)).collect();
        let mut rng = cmdp::rng(context.key(Stream::Evolution, 0));
        let order = ranking.order(fitness.as_ref().unwrap_or(&rewards), &violations, &mut rng);

        let (size, count) = (played.len() as f64, constraints.len());
        let kept = played.iter().filter(|r| r.episode.is_feasible()).count() as f64;
        let lambdas: Vec<Vec<f64>> = (0..played.len()).map(lambda).collect();
        record.set(&POPULATION_REWARD_MEAN, rewards.iter().sum::<f64>() / size);
        record.set(&POPULATION_COST_MEAN, mean_costs(&values, count));
        record.set(&POPULATION_FEASIBLE, kept / size);
        record.set(&LAMBDA_MEAN, mean_costs(&lambdas, count));
        let individuals = order.into_iter().enumerate().map(|(rank, slot)| Individual {
            slot,
            rank,
            elite: rank < elites,
            reward: rewards[slot],
            violation: violations[slot],
            cost: values[slot].clone(),
            lambda: lambdas[slot].clone(),
            descent: descent(slot),
        });
        let (generation, learner_copies) = (context.generation, Fates::default());
        Census { generation, learner_copies, individuals: individuals.collect() }
    }
}

impl Census {
    /// The slots, best first.
    pub fn ranked(&self) -> Vec<usize> {
        self.individuals.iter().map(|one| one.slot).collect()
    }

    /// How the one in a slot did.
    pub fn outcome(&self, slot: usize) -> Option<Outcome> {
        let one = self.individuals.iter().find(|one| one.slot == slot)?;
        Some(Outcome { reward: one.reward, cost: one.cost.clone() })
    }
}

/// What is kept of the last contest, of actors that themselves are not.
pub struct Standing {
    /// The policy that came first.
    champion: Mlp,
    census: Option<Census>,
}

#[derive(Serialize, Deserialize)]
struct Held(Option<Census>);

impl Standing {
    /// Before the first, with a policy in the champion's place.
    pub fn new(champion: Mlp) -> Self {
        Self { champion, census: None }
    }

    /// Takes note of a contest and who came first.
    pub fn keep(&mut self, census: Census, champion: Mlp) {
        (self.census, self.champion) = (Some(census), champion);
    }

    /// Forgets it: there was none in this generation.
    pub fn clear(&mut self) {
        self.census = None;
    }

    /// Who was who.
    pub fn census(&self) -> Option<&Census> {
        self.census.as_ref()
    }

    /// Who came first.
    pub fn champion(&self) -> Option<algorithm::Champion> {
        let census = self.census.as_ref()?;
        let played = census.outcome(census.individuals.first()?.slot)?;
        Some(algorithm::Champion { actor: self.champion.clone(), played })
    }

    /// Walks everything that lasts, of a population of that size.
    pub fn walk(&mut self, size: usize, walk: &mut Walk) -> Result<(), StateError> {
        walk.net("champion", &mut self.champion)?;
        let mut held = Held(self.census.take());
        let fits = |held: &Held, _: &Held| {
            let slots = held.0.iter().flat_map(Census::ranked);
            slots.clone().all(|slot| slot < size) && slots.count() <= size
        };
        let walked = walk.fitting("census", &mut held, "a population of this size", fits);
        self.census = held.0;
        walked
    }
}
