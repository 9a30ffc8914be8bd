//! ECRL on PPO: learners side by side, each with multipliers or barriers of its own, of which selection leaves
//! ever fewer.
//!
//! Every generation each learner plays a batch and learns from it, as it would alone. Then stochastic ranking
//! orders them by their last episodes, sampled as they are trained:
//!
//! ```text
//! reward of a learner: the mean return; violation: φ of the mean J_C        over its last `judged` episodes
//! at the shares of the run in `halve_at`:          the worse half leaves, its environments go to the others
//! before the last of these, every `copy_every` of the run:     the last becomes a copy of the first
//! ```
//!
//! So the steps go to whoever does best, and a learner that is stuck does not decide the run. Learners differ by
//! their genome: whether multipliers or a barrier price their costs (`learners`), and how far they look ahead
//! (`horizons`). Which of these serves a task is selected, too; the best of each genome leaves after all others,
//! as who looks far ahead learns late. The first of the ranking is the policy that is tested. An episode under
//! way in an environment that changes hands goes on, and counts for who ends it.
//!
//! 1. Hu et al., Evolving Constrained Reinforcement Learning Policy, IJCNN 2023.
//! 2. Jaderberg et al., Population Based Training of Neural Networks, 2017.
//! 3. Jamieson & Talwalkar, Non-stochastic Best Arm Identification and Hyperparameter Optimization, AISTATS 2016:
//!    successive halving.

use cmdp::{Constraint, EnvSpec};
use nets::Mlp;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, Build, Collected, Definition, Setup};
use crate::best::Outcome;
use crate::collect::episodes::{excess, mean, mean_costs};
use crate::config::ConfigError;
use crate::context::{Context, Stream};
use crate::metrics::{
    About, EXCESS, Figures, Metric, ROLLOUT_COST, ROLLOUT_REWARD, Record, UNSTABLE,
};
use crate::multipliers::LAMBDA_LEARNER;
use crate::population::census::{Census, Fates, Individual};
use crate::population::variation::{Descent, Origin};
use crate::population::{
    LAMBDA_MEAN, POPULATION_COST_MEAN, POPULATION_FEASIBLE, POPULATION_REWARD_MEAN,
};
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

use self::config::{SelectedSection, SelectionConfig};
use self::member::Priced;
use super::on_policy::{Moment, OnPolicy, Variant as _};

mod config;
mod member;

/// `ecrl-ppo`
pub static ECRL_PPO: Definition<Selected> = Definition {
    name: "ecrl-ppo",
    description: "a population of ppo-lag and ipo learners that stochastic ranking narrows",
    defaults: SelectedSection::default,
    presets: &[],
};

/// Learners left.
static LEARNERS: Metric<u64> =
    Metric::new("learners", "population/learners", "", "Learners that selection has left so far");

/// The learners, and who of them is left.
pub struct Selected {
    section: SelectedSection,
    spec: EnvSpec,
    learners: Vec<OnPolicy<Priced>>,
    selection: Selection,
}

/// How selection stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Selection {
    /// The numbers of those left, rising.
    left: Vec<usize>,
    /// The first of the last ranking.
    leader: usize,
    /// Of every learner the last episodes, the newest last, and how many of them ended in this generation.
    episodes: Vec<Vec<Outcome>>,
    fresh: Vec<usize>,
    /// Where every learner comes from, and the number that began with what it has inherited.
    descents: Vec<Descent>,
    genomes: Vec<usize>,
    /// Halvings done, and steps until the last copy.
    halved: usize,
    copied_at: u64,
    census: Option<Census>,
}

impl Build for Selected {
    type Section = SelectedSection;
    const STATE_VERSION: u32 = 3;
    const TAKES_CHOICES: bool = true;
    const TEST_SHARE: f64 = OnPolicy::<Priced>::TEST_SHARE;

    fn metrics() -> Vec<&'static About> {
        let own = [
            &LEARNERS.about,
            &POPULATION_REWARD_MEAN.about,
            &POPULATION_COST_MEAN.about,
            &POPULATION_FEASIBLE.about,
            &LAMBDA_MEAN.about,
        ];
        [&OnPolicy::<Priced>::metrics()[..], &own].concat()
    }

    fn new(section: Self::Section, setup: Setup) -> Result<Self, TrainError> {
        let Setup { spec, rng } = setup;
        let size = section.evolution.population;
        let learner =
            |number| OnPolicy::new(section.of_genome(number), Setup { spec, rng: &mut *rng });
        let learners = (0..size).map(learner).collect::<Result<_, _>>()?;
        let selection = Selection {
            left: (0..size).collect(),
            leader: 0,
            episodes: vec![Vec::new(); size],
            fresh: vec![0; size],
            descents: vec![Descent::without_parents(Origin::Initial); size],
            genomes: (0..size).collect(),
            halved: 0,
            copied_at: 0,
            census: None,
        };
        Ok(Self { section, spec: spec.clone(), learners, selection })
    }
}

impl Selected {
    /// Those left, with their numbers.
    fn left(&mut self) -> impl ParallelIterator<Item = (usize, &mut OnPolicy<Priced>)> {
        let left = &self.selection.left;
        self.learners.par_iter_mut().enumerate().filter(|(number, _)| left.contains(number))
    }

    /// A learner with what a number began with, into which a state is loaded.
    fn blank(&self, genome: usize) -> OnPolicy<Priced> {
        let rng = &mut cmdp::rng([0; 4]);
        let learner =
            OnPolicy::new(self.section.of_genome(genome), Setup { spec: &self.spec, rng });
        learner.expect("one like it was made at the start")
    }

    /// The multipliers of a learner, as it would note them.
    fn lambda(&self, number: usize) -> Vec<f64> {
        let (mut record, learner) = (Record::default(), &self.learners[number]);
        learner.variant().conclude(&mut record);
        record.get(&LAMBDA_LEARNER).unwrap_or_else(|| vec![0.0; learner.costs()])
    }

    /// Those left, best first; none before all of them have ended an episode.
    fn rank(&self, context: &Context) -> Option<Vec<usize>> {
        let Selection { left, .. } = &self.selection;
        let judged = left.iter().map(|&number| outcome(&self.selection.episodes[number]));
        let judged: Vec<Outcome> = judged.collect::<Option<_>>()?;
        let rewards: Vec<f64> = judged.iter().map(|outcome| outcome.reward).collect();
        let violation = |o: &Outcome| Constraint::violation(&context.spec.constraints, &o.cost);
        let violations: Vec<f64> = judged.iter().map(violation).collect();
        let mut rng = cmdp::rng(context.key(Stream::Evolution, 0));
        let order = self.section.evolution.ranking.order(&rewards, &violations, &mut rng);
        Some(order.into_iter().map(|i| left[i]).collect())
    }

    /// Notes who was who.
    fn note(&mut self, ranked: &[usize], context: &Context, record: &mut Record) {
        let constraints = &context.spec.constraints;
        let individual = |(rank, &slot): (usize, &usize)| {
            let episodes = &self.selection.episodes[slot];
            let Outcome { reward, cost } = outcome(episodes).expect("it was ranked");
            Individual {
                slot,
                rank,
                elite: rank == 0,
                reward,
                violation: Constraint::violation(constraints, &cost),
                cost,
                lambda: self.lambda(slot),
                descent: self.selection.descents[slot].clone(),
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
        self.selection.census = Some(Census { generation, learner_copies, individuals });
    }

    /// The worse half leaves, or the last becomes a copy of the first, if it is time.
    fn select(&mut self, ranked: &[usize], context: &Context) {
        let share = |steps: u64| steps as f64 / context.config.steps as f64;
        let steps = context.env_steps;
        let SelectionConfig { halve_at, copy_every, .. } = &self.section.evolution;
        let Selection { descents, halved, copied_at, .. } = &mut self.selection;
        for &number in ranked {
            descents[number] = Descent::of(Origin::Elite, &[number]);
        }
        if halve_at.get(*halved).is_some_and(|&at| share(steps) >= at) {
            *halved += 1;
            return self.halve(ranked);
        }
        let copying = *copy_every > 0.0 && (halve_at.is_empty() || *halved < halve_at.len());
        let (Some(&first), Some(&last)) = (ranked.first(), ranked.last()) else { return };
        let due = share(steps.saturating_sub(*copied_at)) >= *copy_every;
        if copying && due && first != last && self.copy(first, last) {
            self.selection.copied_at = steps;
        }
    }

    fn halve(&mut self, ranked: &[usize]) {
        let Selection { left, genomes, .. } = &mut self.selection;
        // The first of every genome before all others: who looks far ahead learns late.
        let has = |number: usize| self.section.genome(genomes[number]);
        let leads =
            |number: usize| ranked.iter().find(|&&one| has(one) == has(number)) == Some(&number);
        let mut order = ranked.to_vec();
        order.sort_by_key(|&number| !leads(number));
        let (stay, leave) = order.split_at(order.len().div_ceil(2));
        *left = stay.to_vec();
        left.sort_unstable();
        leave.iter().for_each(|&number| self.learners[number].forget());
    }

    /// Returns whether it could: what is not finite is not copied, and the run ends with its name.
    fn copy(&mut self, from: usize, to: usize) -> bool {
        let mut learner = self.blank(self.selection.genomes[from]);
        let store = Walk::save(|walk| self.learners[from].walk(walk));
        let copied = store.and_then(|store| Walk::load(&store, |walk| learner.walk(walk)));
        if copied.is_err() {
            return false;
        }
        self.learners[to] = learner;
        let Selection { episodes, fresh, descents, genomes, .. } = &mut self.selection;
        descents[to] = Descent::of(Origin::Copy, &[from]);
        episodes[to] = episodes[from].clone();
        fresh[to] = fresh[from];
        genomes[to] = genomes[from];
        true
    }
}

/// What some episodes came to on the mean; none without episodes.
fn outcome(episodes: &[Outcome]) -> Option<Outcome> {
    let costs: Vec<Vec<f64>> = episodes.iter().map(|episode| episode.cost.clone()).collect();
    let reward = mean(episodes.iter().map(|episode| episode.reward));
    let count = episodes.first()?.cost.len();
    Some(Outcome { reward, cost: mean_costs(&costs, count) })
}

impl Algorithm for Selected {
    fn collect(&mut self, context: &mut Context, record: &mut Record) -> Collected {
        let left = self.selection.left.clone();
        let actors: Vec<Mlp> = left.iter().map(|&number| self.learners[number].actor()).collect();
        let (steps, costs) = (self.learners[0].config().collect, self.learners[0].costs());
        let played = context.go_on(&actors, steps, costs);
        let constraints = &context.spec.constraints;
        let ended = played.iter().flat_map(|segment| &segment.ended);
        record.set(&EXCESS, excess(ended, constraints));
        record.set(&UNSTABLE, played.iter().map(|segment| segment.unstable as u64).sum());
        let mut collected = Collected { steps: 0, updates: 0 };
        for (number, segment) in left.into_iter().zip(played) {
            let episodes = &mut self.selection.episodes[number];
            episodes.extend(segment.ended.iter().map(|episode| Outcome {
                reward: episode.reward(),
                cost: episode.constraint_values(),
            }));
            let fresh = segment.ended.len();
            episodes
                .drain(..episodes.len().saturating_sub(self.section.evolution.judged.max(fresh)));
            self.selection.fresh[number] = fresh;
            let Collected { steps, updates } = self.learners[number].take(segment, constraints);
            collected.steps += steps;
            collected.updates = collected.updates.max(updates);
        }
        collected
    }

    /// One of every learner's.
    fn update(&mut self, context: &Context) -> Figures {
        let steps = self.selection.left.iter().map(|&number| self.learners[number].rows() as u64);
        let moment = Moment::of(context, steps.sum());
        let each = self.left().map(|(number, one)| one.update_at(moment.of_learner(number)));
        let each: Vec<Figures> = each.filter(|figures| !figures.is_empty()).collect();
        let figures = each.first().map_or(&[][..], |first| first).iter().enumerate();
        let mean = |i: usize| mean(each.iter().map(|figures| figures[i].1));
        figures.map(|(i, (metric, _))| (*metric, mean(i))).collect()
    }

    fn conclude(&mut self, context: &Context, record: &mut Record) {
        for &number in &self.selection.left {
            self.learners[number].end_generation();
        }
        let ranked = self.rank(context);
        if let Some(ranked) = &ranked {
            self.selection.leader = ranked[0];
            self.note(ranked, context, record);
        }
        let Selection { leader, episodes, fresh, .. } = &self.selection;
        let old = episodes[*leader].len() - fresh[*leader];
        if let Some(Outcome { reward, cost }) = outcome(&episodes[*leader][old..]) {
            record.set(&ROLLOUT_REWARD, reward);
            record.set(&ROLLOUT_COST, cost);
        }
        if let Some(ranked) = ranked {
            self.select(&ranked, context);
        }
        record.set(&LEARNERS, self.selection.left.len() as u64);
        self.learners[self.selection.leader].variant().conclude(record);
    }

    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        self.learners.iter_mut().try_for_each(|learner| learner.start_from(actor))
    }

    fn longest_generation(&self, _: &EnvSpec) -> u64 {
        (self.learners[0].config().collect * self.selection.left.len()) as u64
    }

    fn actor(&self) -> Mlp {
        self.learners[self.selection.leader].actor()
    }

    fn census(&self) -> Option<&Census> {
        self.selection.census.as_ref()
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        let (size, costs) = (self.learners.len(), self.learners[0].costs());
        let fits = |stored: &Selection| {
            let Selection { left, leader, episodes, fresh, descents, genomes, .. } = stored;
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
        };
        let before = self.selection.genomes.clone();
        walk.fitting(
            "selection",
            &mut self.selection,
            "a population of this size",
            |stored, _| fits(stored),
        )?;
        let genomes = walk.peek("selection", self.selection.clone())?.genomes;
        for number in 0..size {
            let walked = |learner: &mut OnPolicy<Priced>, walk: &mut Walk| {
                walk.within(&format!("learner{number}"), |walk| learner.walk(walk))
            };
            if genomes.get(number) == before.get(number) {
                walked(&mut self.learners[number], walk)?;
                continue;
            }
            // It had become a copy, and may learn as another than it began.
            let mut learner = self.blank(genomes[number]);
            walked(&mut learner, walk)?;
            if walk.is_loading() {
                self.learners[number] = learner;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
