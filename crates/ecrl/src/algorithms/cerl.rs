//! CERL: a portfolio of learners that look ahead differently far, beside a population, with one replay buffer.
//!
//! Every generation
//! 1. all actors of the population play an episode each, and learners play as many as were dealt out to them,
//! 2. a ranking orders the population, which ERL's operators vary,
//! 3. every learner takes an update for every step that anybody played,
//! 4. the episodes of the next generation are dealt out to the learners at random, in proportion to their scores:
//!
//! ```text
//! v_k ← (1-ρ)v_k + ρR      after every episode       score_k = (v_k - min v)/(Σ (v - min v) + 0.1) + c √( ln Σn / n_k )
//! ```
//!
//! 5. now and then all learners take slots of the lowest-ranked.
//!
//! The learner that ranks first, by v and by its costs in the same way, is the policy that is tested, beside the
//! population's champion.
//!
//! 1. Khadka et al., Collaborative Evolutionary Reinforcement Learning, ICML 2019.

use cmdp::{Constraint, EnvSpec, Rng};
use nets::Mlp;
use rand::RngExt as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, Build, Champion, Collected, Definition, Setup};
use crate::best::Outcome;
use crate::collect::episodes::{Rollout, constraint_values, mean, mean_costs};
use crate::config::{ConfigError, Section, range};
use crate::context::{Context, Stream};
use crate::learners::off_policy::{
    self, Experience, Learner as _, LearnerConfig, ReplayConfig, note_episodes,
};
use crate::learners::td3::{Td3, Td3Config};
use crate::memory::replay::Replay;
use crate::metrics::{About, Figures, Metric, ROLLOUT_COST, ROLLOUT_REWARD, Record, mean_of_all};
use crate::multipliers::{LAMBDA_LEARNER, Rule};
use crate::population::EvolutionConfig;
use crate::population::census::Census;
use crate::population::contest;
use crate::population::evolved::Evolved;
use crate::population::ranking::Ranking;
use crate::population::selection::validate_dealt;
use crate::population::variation::vary;
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

use super::prices::Prices;

/// `cerl`
pub static CERL: Definition<Cerl> = Definition {
    name: "cerl",
    description: "erl with a portfolio of TD3 learners that look ahead differently far (Khadka et al., 2019)",
    defaults: CerlSection::default,
    presets: &[],
};

static LEADER: Metric<u64> = Metric::new(
    "leading_learner",
    "population/leading_learner",
    "",
    "The number of the learner that ranks first by its last episodes, which is the one that is tested",
);

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CerlSection {
    /// When learners play and learn; `episodes` are those of all together.
    pub learner: LearnerConfig,
    /// Their networks, which the population shares in shape, and their updates; γ is that of the portfolio.
    pub td3: Td3Config,
    /// What they learn from.
    pub replay: ReplayConfig,
    /// The learners.
    pub portfolio: PortfolioConfig,
    /// The population.
    pub evolution: EvolutionConfig,
    /// The multipliers of the constraints.
    pub multipliers: Rule,
}

/// The learners.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PortfolioConfig {
    /// How many times as far as with td3.gamma each looks ahead: γ = 1 - (1 - td3.gamma)/horizon. Paper, of
    /// γ: 0.9, 0.99, 0.997, 0.9995.
    pub horizons: Vec<f64>,
    /// How much rarely played learners are favoured. Authors' code: 0.9.
    pub curiosity: f64,
    /// How much the last episode counts in what a learner is worth. Authors' code: 0.2.
    pub recency: f64,
}

impl Default for CerlSection {
    fn default() -> Self {
        let td3 = Td3Config { actor_lr: 1e-3, critic_lr: 1e-3, ..Td3Config::default() };
        let horizons = vec![0.1, 1.0, 10.0 / 3.0, 20.0];
        Self {
            learner: LearnerConfig { episodes: 10, ..LearnerConfig::default() },
            td3,
            replay: ReplayConfig::default(),
            portfolio: PortfolioConfig { horizons, curiosity: 0.9, recency: 0.2 },
            evolution: EvolutionConfig { sync_period: 5, ..EvolutionConfig::new(Ranking::Reward) },
            multipliers: Rule::None,
        }
    }
}

impl CerlSection {
    fn gamma(&self, horizon: f64) -> f64 {
        1.0 - (1.0 - self.td3.gamma) / horizon
    }
}

impl Section for CerlSection {
    fn validate(&self) -> Result<(), ConfigError> {
        off_policy::validate(&self.learner, &self.replay)?;
        self.td3.validate(self.replay.capacity)?;
        self.evolution.validate()?;
        let PortfolioConfig { horizons, curiosity, recency } = &self.portfolio;
        let fits = |horizon: &f64| (1e-6..=1e6).contains(horizon);
        validate_dealt("portfolio.horizons", horizons, fits, "numbers from 1e-6 to 1e6")?;
        let elites = self.evolution.elites;
        range::check(
            horizons.len() + elites <= self.evolution.population,
            "portfolio.horizons",
            format!("{} of them", horizons.len()),
            "at most evolution.population less evolution.elites, as all join the population",
        )?;
        let least = 1.0 - self.td3.gamma;
        range::check(
            horizons.iter().all(|horizon| *horizon >= least),
            "portfolio.horizons",
            format!("{horizons:?}"),
            &format!("numbers from {least:.6} on, which is 1 - td3.gamma"),
        )?;
        range::not_negative("portfolio.curiosity", *curiosity)?;
        range::share("portfolio.recency", *recency)?;
        self.multipliers.validate()
    }

    fn changeable() -> Vec<&'static str> {
        let own = ["portfolio.curiosity", "portfolio.recency", Rule::CHANGEABLE];
        [&Td3Config::CHANGEABLE[..], &own].concat()
    }
}

/// What learners are worth, and who plays next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Shares {
    /// Of each learner the mean return and J_C, where the last count most; none before its first episode.
    values: Vec<Option<Outcome>>,
    /// What each played last, mean over the episodes of a generation.
    last: Vec<Option<Outcome>>,
    /// Episodes of each.
    played: Vec<u64>,
    /// Who plays each of the next episodes.
    next: Vec<usize>,
    /// The first of the last ranking.
    leader: usize,
}

impl Shares {
    fn new(learners: usize, episodes: usize) -> Self {
        let next = (0..episodes).map(|i| i % learners).collect();
        let none = || vec![None; learners];
        Self { values: none(), last: none(), played: vec![0; learners], next, leader: 0 }
    }

    /// Takes note of the next episodes, which have been played.
    fn note(&mut self, played: &[Rollout], recency: f64, constraints: usize) {
        for learner in 0..self.values.len() {
            let own = self.next.iter().zip(played).filter(|(next, _)| **next == learner);
            let own: Vec<&Rollout> = own.map(|(_, rollout)| rollout).collect();
            let values = constraint_values(own.iter().copied());
            for (rollout, cost) in own.iter().zip(&values) {
                let reward = rollout.episode.reward();
                let mixed = |old: f64, new: f64| (1.0 - recency) * old + recency * new;
                let value = self.values[learner].take().map_or_else(
                    || Outcome { reward, cost: cost.clone() },
                    |old| Outcome {
                        reward: mixed(old.reward, reward),
                        cost: old
                            .cost
                            .iter()
                            .zip(cost)
                            .map(|(old, new)| mixed(*old, *new))
                            .collect(),
                    },
                );
                self.values[learner] = Some(value);
                self.played[learner] += 1;
            }
            if !own.is_empty() {
                let reward = mean(own.iter().map(|rollout| rollout.episode.reward()));
                let cost = mean_costs(&values, constraints);
                self.last[learner] = Some(Outcome { reward, cost });
            }
        }
    }

    /// Ranks all learners that have played.
    fn rank(&mut self, ranking: Ranking, constraints: &[Constraint], rng: &mut Rng) {
        let worth = self.values.iter().enumerate();
        let (known, values): (Vec<usize>, Vec<&Outcome>) =
            worth.filter_map(|(learner, value)| Some((learner, value.as_ref()?))).unzip();
        let rewards: Vec<f64> = values.iter().map(|value| value.reward).collect();
        let violations: Vec<f64> =
            values.iter().map(|value| Constraint::violation(constraints, &value.cost)).collect();
        self.leader = known[ranking.order(&rewards, &violations, rng)[0]];
    }

    /// How much each is to play; who has not yet, as much as one that has once.
    fn scores(&self, curiosity: f64) -> Vec<f64> {
        let rewards = self.values.iter().map(|value| value.as_ref().map(|value| value.reward));
        let least = rewards.clone().flatten().fold(f64::INFINITY, f64::min);
        let above: Vec<f64> = rewards.map(|r| r.map_or(0.0, |reward| reward - least)).collect();
        let whole = above.iter().sum::<f64>() + 0.1;
        let all = self.played.iter().sum::<u64>().max(1) as f64;
        let score = |(above, &played): (&f64, &u64)| {
            above / whole + curiosity * (all.ln() / played.max(1) as f64).sqrt()
        };
        above.iter().zip(&self.played).map(score).collect()
    }

    /// Deals out the next episodes.
    fn deal(&mut self, curiosity: f64, rng: &mut Rng) {
        let scores = self.scores(curiosity);
        let whole: f64 = scores.iter().sum();
        for next in &mut self.next {
            let mut left = whole * rng.random::<f64>();
            let chosen = scores.iter().position(|score| {
                left -= score;
                left < 0.0
            });
            *next = chosen.unwrap_or_else(|| rng.random_range(0..scores.len()));
        }
    }
}

/// The learners, the population, and what they learn from.
pub struct Cerl {
    /// Of the population, which plays without noise.
    td3: Td3Config,
    portfolio: PortfolioConfig,
    learners: Vec<Td3>,
    shares: Shares,
    population: Evolved,
    experience: Experience,
    prices: Prices,
    constraints: usize,
}

impl Build for Cerl {
    type Section = CerlSection;

    fn metrics() -> Vec<&'static About> {
        let own = [&LAMBDA_LEARNER.about, &LEADER.about];
        [&off_policy::METRICS[..], &contest::METRICS, &own].concat()
    }

    fn new(section: CerlSection, Setup { spec, rng }: Setup) -> Result<Self, TrainError> {
        let gammas: Vec<f64> =
            section.portfolio.horizons.iter().map(|horizon| section.gamma(*horizon)).collect();
        let CerlSection { learner, td3, replay, portfolio, evolution, multipliers } = section;
        let sizes = [spec.observation, spec.action, Prices::critics(&multipliers, spec)];
        let learners: Vec<Td3> = gammas
            .into_iter()
            .map(|gamma| Td3::new(Td3Config { gamma, ..td3.clone() }, sizes, rng))
            .collect();
        let slots = evolution.population;
        let mut actor = || td3.new_actor([spec.observation, spec.action], rng);
        let actors = (0..slots).map(|_| actor()).collect();
        let prices = Prices::new(&multipliers, spec, slots, rng)?;
        Ok(Self {
            shares: Shares::new(learners.len(), learner.episodes),
            td3: Td3Config { exploration: 0.0, ..td3 },
            portfolio,
            learners,
            population: Evolved::new(evolution, actors),
            experience: Experience::new(learner, &replay, spec),
            prices,
            constraints: spec.constraints.len(),
        })
    }
}

impl Algorithm for Cerl {
    fn collect(&mut self, context: &mut Context, record: &mut Record) -> Collected {
        let spec = context.spec.clone();
        let actors: Vec<Mlp> =
            self.population.actors.iter().map(|net| self.td3.express(net)).collect();
        let played = context.play_each(&actors, Stream::Population);
        for (slot, rollout) in played.iter().enumerate() {
            self.experience.remember(rollout, &self.prices.stored(Some(slot), &spec));
        }
        let lambda = |slot| self.prices.of_actor(slot, &spec);
        self.population.rank(&played, &lambda, context, record);
        self.population
            .vary(context, |actors, ranked, config, rng| vary(actors, ranked, config, 1, rng));

        let who = self.shares.next.clone();
        let own: Vec<Mlp> =
            who.iter().map(|&number| self.learners[number].actor().into_owned()).collect();
        let learners: Vec<Rollout> = context.play_each(&own, Stream::Learner);
        for rollout in &learners {
            self.experience.remember(rollout, &self.prices.stored(None, &spec));
        }
        self.shares.note(&learners, self.portfolio.recency, spec.constraints.len());
        let mut rng = cmdp::rng(context.key(Stream::Evolution, 2));
        self.shares.rank(self.population.config.ranking, &spec.constraints, &mut rng);
        self.shares.deal(self.portfolio.curiosity, &mut rng);
        let leader = self.shares.leader;
        if let Some(Outcome { reward, cost }) = self.shares.last[leader].clone() {
            record.set(&ROLLOUT_REWARD, reward);
            record.set(&ROLLOUT_COST, cost);
        }
        record.set(&LEADER, leader as u64);
        let everyone = || played.iter().chain(&learners);
        let steps = note_episodes(everyone(), &spec.constraints, record);
        let updates = self.experience.updates_due(context, steps, record);
        let learning = self.experience.learning;
        self.prices.observe(&learners, constraint_values(everyone()), &spec, learning);
        Collected { steps, updates }
    }

    /// One of every learner's.
    fn update(&mut self, context: &Context) -> Figures {
        let (replay, price) = (&self.experience.replay, self.prices.price());
        let [seed, at] = [context.config.seed, context.grad_steps];
        let learners = self.learners.par_iter_mut().enumerate();
        let each = learners.map(|(number, learner)| {
            let key = |half| [seed, Stream::Update as u64, at, 2 * number as u64 + half];
            learner.update(replay, price, &mut [cmdp::rng(key(0)), cmdp::rng(key(1))])
        });
        mean_of_all(&each.collect::<Vec<Figures>>())
    }

    fn conclude(&mut self, context: &Context, record: &mut Record) {
        let mut taken = Vec::new();
        if context.generation.is_multiple_of(self.population.config.sync_period) {
            let ranked = self.population.progress.ranked.iter().rev();
            taken.extend(ranked.take(self.learners.len()));
            for (&slot, learner) in taken.iter().zip(&self.learners) {
                self.population.inject(slot, learner.policy());
            }
        }
        self.prices.conclude(&taken, context, self.experience.learning, record);
    }

    /// All learners do, and one of the population, which selection may make more of.
    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        self.learners.iter_mut().try_for_each(|learner| learner.start_from(actor))?;
        self.population.actors[0].take_without_constants(actor);
        Ok(())
    }

    fn longest_generation(&self, spec: &EnvSpec) -> u64 {
        ((self.population.actors.len() + self.shares.next.len()) * spec.max_steps) as u64
    }

    fn actor(&self) -> Mlp {
        self.learners[self.shares.leader].actor().into_owned()
    }

    fn champion(&self) -> Option<Champion> {
        self.population.champion(|net| self.td3.express(net))
    }

    fn census(&self) -> Option<&Census> {
        self.population.census()
    }

    fn replay(&self) -> Option<&Replay> {
        Some(&self.experience.replay)
    }

    fn replay_mut(&mut self) -> Option<&mut Replay> {
        Some(&mut self.experience.replay)
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        for (number, learner) in self.learners.iter_mut().enumerate() {
            walk.within(&format!("learner{number}"), |walk| learner.walk(walk))?;
        }
        self.population.walk_actors(walk)?;
        self.experience.walk(walk)?;
        self.prices.walk(walk)?;
        let (expected, constraints) = ("of as many learners and episodes", self.constraints);
        walk.fitting("shares", &mut self.shares, expected, |stored, own| {
            let learners = own.values.len();
            [stored.values.len(), stored.last.len(), stored.played.len()] == [learners; 3]
                && stored.next.len() == own.next.len()
                && stored.next.iter().chain([&stored.leader]).all(|&number| number < learners)
                && stored
                    .values
                    .iter()
                    .chain(&stored.last)
                    .flatten()
                    .all(|outcome| outcome.reward.is_finite() && outcome.cost.len() == constraints)
        })?;
        self.population.walk_progress(walk)
    }
}

#[cfg(test)]
mod tests;
