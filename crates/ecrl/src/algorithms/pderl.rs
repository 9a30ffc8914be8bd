//! PDERL: evolution beside a learner, as in ERL, with operators that look at what actors do instead of at their
//! weights.
//!
//! Every generation
//! 1. all actors of the population play an episode each, which they also remember as their own,
//! 2. a ranking orders them; elites stay, winners of tournaments stay, the first losers become copies of the elites,
//! 3. the other losers become children of two of those, by distillation ([`DistillationConfig`]),
//! 4. everyone but the elites mutates with probability p_m, by proximal mutation ([`proximal`]),
//! 5. the learner plays and learns from what everybody played,
//! 6. the learner takes the slot of the lowest-ranked.
//!
//! 1. Bodnar, Day & Lió, Proximal Distilled Evolutionary Reinforcement Learning, AAAI 2020.

use cmdp::{EnvSpec, Rng};
use nets::{Activation, Mlp};
use rand::RngExt as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, Build, Champion, Collected, Definition, Setup};
use crate::collect::episodes::{Choice, Rollout, constraint_values};
use crate::config::{ConfigError, Section, range};
use crate::context::{Context, Stream};
use crate::learners::off_policy::{
    self, Learner as _, LearnerConfig, OffPolicy, ReplayConfig, note_episodes,
};
use crate::learners::td3::{Td3, Td3Config};
use crate::memory::replay::Replay;
use crate::metrics::{About, Figures, Record};
use crate::multipliers::{LAMBDA_LEARNER, Rule};
use crate::population::EvolutionConfig;
use crate::population::census::Census;
use crate::population::contest;
use crate::population::distillation::DistillationConfig;
use crate::population::evolved::Evolved;
use crate::population::memory::Memory;
use crate::population::proximal;
use crate::population::ranking::Ranking;
use crate::population::variation::{Brood, Descent, Origin, brood};
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

use super::prices::Prices;

/// `pderl`
pub static PDERL: Definition<Pderl> = Definition {
    name: "pderl",
    description: "erl on TD3 with distillation for crossover and proximal mutation (Bodnar et al., 2020)",
    defaults: PderlSection::default,
    presets: &[],
};

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PderlSection {
    /// When the learner plays and learns.
    pub learner: LearnerConfig,
    /// Its networks, which the population shares in shape, and its updates.
    pub td3: Td3Config,
    /// What it learns from.
    pub replay: ReplayConfig,
    /// The population.
    pub evolution: EvolutionConfig,
    /// Crossover.
    pub distillation: DistillationConfig,
    /// Mutation, and what both operators look at.
    pub proximal: ProximalConfig,
    /// The multipliers of the constraints.
    pub multipliers: Rule,
}

/// Mutation, and what both operators look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProximalConfig {
    /// Deviation of a mutation where actions are as sensitive as 1; more changes more. Authors' code: 0.05.
    pub magnitude: f64,
    /// Observations that sensitivity is measured over. Authors' code: 256.
    pub observations: usize,
    /// Transitions an actor remembers as its own, the newest. Authors' code: 8000.
    pub memory: usize,
}

impl Default for PderlSection {
    fn default() -> Self {
        let td3 = Td3Config {
            activation: Activation::Tanh,
            batch: 128,
            tau: 1e-3,
            ..Td3Config::default()
        };
        Self {
            learner: LearnerConfig { episodes: 1, ..LearnerConfig::default() },
            td3,
            replay: ReplayConfig::default(),
            evolution: EvolutionConfig::new(Ranking::Reward),
            distillation: DistillationConfig::default(),
            proximal: ProximalConfig { magnitude: 0.05, observations: 256, memory: 8000 },
            multipliers: Rule::None,
        }
    }
}

impl Section for PderlSection {
    fn validate(&self) -> Result<(), ConfigError> {
        off_policy::validate(&self.learner, &self.replay)?;
        self.td3.validate(self.replay.capacity)?;
        self.evolution.validate()?;
        self.distillation.validate()?;
        let ProximalConfig { magnitude, observations, memory } = &self.proximal;
        range::not_negative("proximal.magnitude", *magnitude)?;
        range::many("proximal.observations", *observations)?;
        let fits = (2..=1_000_000).contains(memory);
        range::check(fits, "proximal.memory", memory, "2 to 1000000")?;
        self.multipliers.validate()
    }

    fn changeable() -> Vec<&'static str> {
        [&Td3Config::CHANGEABLE[..], &["proximal.magnitude", Rule::CHANGEABLE]].concat()
    }
}

/// The population, the learner, and what they learn from.
pub struct Pderl {
    /// Of the population, which plays without noise.
    td3: Td3Config,
    distillation: DistillationConfig,
    proximal: ProximalConfig,
    learner: OffPolicy<Td3>,
    population: Evolved,
    /// What each slot remembers, then the learner.
    memories: Vec<Memory>,
    /// Transitions stored so far.
    stored: u64,
    prices: Prices,
}

impl Build for Pderl {
    type Section = PderlSection;

    fn metrics() -> Vec<&'static About> {
        [&off_policy::METRICS[..], &contest::METRICS, &[&LAMBDA_LEARNER.about]].concat()
    }

    fn new(section: PderlSection, Setup { spec, rng }: Setup) -> Result<Self, TrainError> {
        let PderlSection { learner, td3, replay, evolution, distillation, proximal, multipliers } =
            section;
        let sizes = [spec.observation, spec.action, Prices::critics(&multipliers, spec)];
        let own = Td3::new(td3.clone(), sizes, rng);
        let slots = evolution.population;
        let mut actor = || td3.new_actor([spec.observation, spec.action], rng);
        let actors = (0..slots).map(|_| actor()).collect();
        let prices = Prices::new(&multipliers, spec, slots, rng)?;
        Ok(Self {
            td3: Td3Config { exploration: 0.0, ..td3 },
            distillation,
            proximal,
            learner: OffPolicy::new(learner, own, &replay, spec),
            population: Evolved::new(evolution, actors),
            memories: vec![Memory::default(); slots + 1],
            stored: 0,
            prices,
        })
    }
}

impl Pderl {
    /// Stores an episode of a slot, or of the learner behind the last.
    fn remember(&mut self, slot: usize, rollout: &Rollout, multipliers: &[f64]) {
        let count = self.learner.experience.remember(rollout, multipliers) as u64;
        self.memories[slot].push(self.stored, count, self.proximal.memory as u64);
        self.stored += count;
    }

    fn vary(&mut self, context: &Context) {
        let Self { distillation, proximal, learner, population, memories, stored, prices, .. } =
            self;
        let (replay, stored) = (&learner.experience.replay, *stored);
        let (twins, price) = (learner.learner().twins(), prices.price());
        let observed = |places: &[usize]| -> Vec<f32> {
            places.iter().flat_map(|&place| replay.get(place).obs).copied().collect()
        };
        let [seed, stream, generation, first] = context.key(Stream::Evolution, 2);
        let number = |index: usize| cmdp::rng([seed, stream, generation, first + index as u64]);
        population.vary(context, |actors, ranked, config, rng| {
            let Brood { mut descents, elites, winners, orphans } =
                brood(actors, ranked, config, rng);
            for (slot, descent) in descents.iter().enumerate() {
                if let (Origin::Copy, [parent]) = (descent.origin, &descent.parents[..]) {
                    memories[slot] = memories[*parent].clone();
                }
            }
            let pairs = pairs(ranked, &elites, &winners);
            let children: Vec<(Mlp, Memory)> = context.pool.install(|| {
                let each = orphans.par_iter().enumerate().map(|(i, &slot)| {
                    let [a, b] = pairs[i % pairs.len()];
                    let most = proximal.memory as u64;
                    let memory = Memory::of_both(&memories[a], &memories[b], most);
                    let obs = observed(&memory.places(replay, stored));
                    let judge = |actions: &[f32]| twins.judge(&obs, actions, price);
                    let parents = [&actors[a], &actors[b]];
                    (distillation.child(parents, &obs, judge, &mut number(slot)), memory)
                });
                each.collect()
            });
            for (i, (&slot, (child, memory))) in orphans.iter().zip(children).enumerate() {
                (actors[slot], memories[slot]) = (child, memory);
                descents[slot] = Descent::of(Origin::Child, &pairs[i % pairs.len()]);
            }
            for (slot, descent) in descents.iter_mut().enumerate() {
                descent.mutated = !elites.contains(&slot) && rng.random_bool(config.mutation);
            }
            context.pool.install(|| {
                let slots = actors.par_iter_mut().zip(&descents).zip(&*memories).enumerate();
                slots.filter(|(_, ((_, descent), _))| descent.mutated).for_each(
                    |(slot, ((actor, _), memory))| {
                        let mut rng: Rng = number(config.population + slot);
                        let places = memory.places(replay, stored);
                        let some: Vec<usize> = match places.len() {
                            0 => Vec::new(),
                            all => {
                                let count = proximal.observations.min(all);
                                (0..count).map(|_| places[rng.random_range(0..all)]).collect()
                            }
                        };
                        proximal::mutate(actor, &observed(&some), proximal.magnitude, &mut rng);
                    },
                );
            });
            for slot in (0..actors.len()).filter(|slot| !elites.contains(slot)) {
                if actors[slot].params().iter().any(|x| !x.is_finite()) {
                    actors[slot] = actors[elites[0]].clone();
                    memories[slot] = memories[elites[0]].clone();
                    descents[slot] = Descent::of(Origin::Copy, &[elites[0]]);
                }
            }
            descents
        });
    }
}

/// All pairs of elites and winners, those of the best places first; the better one first.
fn pairs(ranked: &[usize], elites: &[usize], winners: &[usize]) -> Vec<[usize; 2]> {
    let chosen = |slot: &&usize| elites.contains(slot) || winners.contains(slot);
    let places: Vec<(usize, usize)> =
        ranked.iter().enumerate().filter(|(_, slot)| chosen(slot)).map(|(i, s)| (i, *s)).collect();
    let mut pairs: Vec<(usize, [usize; 2])> = Vec::new();
    for (i, (place, a)) in places.iter().enumerate() {
        pairs.extend(places[i + 1..].iter().map(|(other, b)| (place + other, [*a, *b])));
    }
    pairs.sort_by_key(|(sum, _)| *sum);
    match pairs.is_empty() {
        true => vec![[ranked[0]; 2]],
        false => pairs.into_iter().map(|(_, pair)| pair).collect(),
    }
}

impl Algorithm for Pderl {
    fn collect(&mut self, context: &mut Context, record: &mut Record) -> Collected {
        let spec = context.spec.clone();
        let actors: Vec<Mlp> =
            self.population.actors.iter().map(|net| self.td3.express(net)).collect();
        let played = context.play_each(&actors, Stream::Population);
        for (slot, rollout) in played.iter().enumerate() {
            self.remember(slot, rollout, &self.prices.stored(Some(slot), &spec));
        }
        let lambda = |slot| self.prices.of_actor(slot, &spec);
        self.population.rank(&played, &lambda, context, record);
        self.vary(context);
        let (own, episodes) = (self.actor(), self.learner.episodes());
        let learner = context.play_several(&own, episodes, Stream::Learner, Choice::Sample);
        for rollout in &learner {
            self.remember(self.population.actors.len(), rollout, &self.prices.stored(None, &spec));
        }
        off_policy::note_play(&learner, spec.constraints.len(), record);
        let everyone = || played.iter().chain(&learner);
        let steps = note_episodes(everyone(), &spec.constraints, record);
        let updates = self.learner.updates_due(context, steps, record);
        let learning = self.learner.experience.learning;
        self.prices.observe(&learner, constraint_values(everyone()), &spec, learning);
        Collected { steps, updates }
    }

    fn update(&mut self, context: &Context) -> Figures {
        self.learner.update(context, self.prices.price())
    }

    fn conclude(&mut self, context: &Context, record: &mut Record) {
        let mut taken = Vec::new();
        if context.generation.is_multiple_of(self.population.config.sync_period)
            && let Some(&last) = self.population.progress.ranked.last()
        {
            self.population.inject(last, self.learner.learner().policy());
            self.memories[last] = self.memories[self.population.actors.len()].clone();
            taken.push(last);
        }
        self.prices.conclude(&taken, context, self.learner.experience.learning, record);
    }

    /// The learner does, and one of the population, which selection may make more of.
    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        self.learner.start_from(actor)?;
        self.population.actors[0].take_without_constants(actor);
        Ok(())
    }

    fn longest_generation(&self, spec: &EnvSpec) -> u64 {
        ((self.population.actors.len() + self.learner.episodes()) * spec.max_steps) as u64
    }

    fn actor(&self) -> Mlp {
        self.learner.learner().actor().into_owned()
    }

    fn champion(&self) -> Option<Champion> {
        self.population.champion(|net| self.td3.express(net))
    }

    fn census(&self) -> Option<&Census> {
        self.population.census()
    }

    fn replay(&self) -> Option<&Replay> {
        Some(&self.learner.experience.replay)
    }

    fn replay_mut(&mut self) -> Option<&mut Replay> {
        Some(&mut self.learner.experience.replay)
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.learner.walk(walk)?;
        self.population.walk_actors(walk)?;
        self.prices.walk(walk)?;
        let mut held = (self.stored, std::mem::take(&mut self.memories));
        let fits = |held: &(u64, Vec<Memory>), own: &(u64, Vec<Memory>)| {
            held.1.len() == own.1.len() && held.1.iter().all(|memory| memory.fits(held.0))
        };
        let walked = walk.fitting("memories", &mut held, "one of each actor", fits);
        (self.stored, self.memories) = held;
        walked?;
        self.population.walk_progress(walk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_the_best_places_come_first() {
        let found = pairs(&[4, 0, 3, 1, 2], &[4], &[3, 1]);
        // Places 0, 2, 3: sums 2, 3, 5.
        assert_eq!(found, [[4, 3], [4, 1], [3, 1]]);
        assert_eq!(pairs(&[1, 0], &[1], &[]), [[1, 1]]);
    }
}
