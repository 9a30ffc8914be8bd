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
//! The learner of the highest v is the policy that is tested, beside the population's champion.
//!
//! 1. Khadka et al., Collaborative Evolutionary Reinforcement Learning, ICML 2019.

use cmdp::{EnvSpec, Rng};
use nets::Mlp;
use rand::RngExt as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, Build, Champion, Collected, Definition, Setup};
use crate::collect::episodes::{Rollout, constraint_values};
use crate::config::{ConfigError, Section, range};
use crate::context::{Context, Stream};
use crate::learners::off_policy::{
    self, Experience, Learner as _, LearnerConfig, ReplayConfig, note_episodes, note_play,
};
use crate::learners::td3::{Climber, Td3, Td3Config};
use crate::memory::replay::Replay;
use crate::metrics::{About, Figures, Metric, Record, mean_of_all};
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
    "The number of the learner whose episodes return the most, which is the one that is tested",
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
        for horizon in horizons {
            range::share("td3.gamma by portfolio.horizons", self.gamma(*horizon))?;
        }
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
    /// Of each learner the mean return, where the last count most; none before its first episode.
    values: Vec<Option<f64>>,
    /// Episodes of each.
    played: Vec<u64>,
    /// Who plays each of the next episodes.
    next: Vec<usize>,
}

impl Shares {
    fn new(learners: usize, episodes: usize) -> Self {
        let next = (0..episodes).map(|i| i % learners).collect();
        Self { values: vec![None; learners], played: vec![0; learners], next }
    }

    /// Takes note of what a learner played.
    fn note(&mut self, learner: usize, reward: f64, recency: f64) {
        let value = &mut self.values[learner];
        *value = Some(value.map_or(reward, |old| (1.0 - recency) * old + recency * reward));
        self.played[learner] += 1;
    }

    /// The learner that is worth the most.
    fn leader(&self) -> usize {
        let value = |learner: &usize| self.values[*learner].unwrap_or(f64::NEG_INFINITY);
        let learners = (0..self.values.len()).rev();
        learners.max_by(|a, b| value(a).total_cmp(&value(b))).expect("a learner")
    }

    /// How much each is to play; who has not yet, as much as one that has once.
    fn scores(&self, curiosity: f64) -> Vec<f64> {
        let least = self.values.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let above: Vec<f64> =
            self.values.iter().map(|value| value.map_or(0.0, |value| value - least)).collect();
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
        let mut actor = || Climber::new(&td3, [spec.observation, spec.action], rng).actor.net;
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
        for (&number, rollout) in who.iter().zip(&learners) {
            self.experience.remember(rollout, &self.prices.stored(None, &spec));
            self.shares.note(number, rollout.episode.reward(), self.portfolio.recency);
        }
        let mut rng = cmdp::rng(context.key(Stream::Evolution, 2));
        self.shares.deal(self.portfolio.curiosity, &mut rng);
        // The policy that is tested, where it has played; else it has to be tested on its own.
        let leader = self.shares.leader();
        let of_leader = who.iter().zip(&learners).filter(|(number, _)| **number == leader);
        let of_leader: Vec<Rollout> = of_leader.map(|(_, rollout)| rollout.clone()).collect();
        if !of_leader.is_empty() {
            note_play(&of_leader, spec.constraints.len(), record);
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
        self.learners[self.shares.leader()].actor().into_owned()
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
        let expected = "of as many learners and episodes";
        walk.fitting("shares", &mut self.shares, expected, |stored, own| {
            let learners = own.values.len();
            stored.values.len() == learners
                && stored.played.len() == learners
                && stored.next.len() == own.next.len()
                && stored.next.iter().all(|&number| number < learners)
                && stored.values.iter().flatten().all(|value| value.is_finite())
        })?;
        self.population.walk_progress(walk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_values_and_curiosity_by_hand() {
        let mut shares = Shares::new(3, 6);
        assert_eq!(shares.next, [0, 1, 2, 0, 1, 2]);
        for (learner, reward) in [(0, 10.0), (1, 4.0), (0, 20.0)] {
            shares.note(learner, reward, 0.2);
        }
        // v = 0.8·10 + 0.2·20 = 12, 4, none; least 4: above 8, 0, 0; played 2, 1, 0 of 3.
        assert_eq!(shares.values, [Some(12.0), Some(4.0), None]);
        let scores = shares.scores(0.9);
        let ln3 = 3f64.ln();
        let hand = [8.0 / 8.1 + 0.9 * (ln3 / 2.0).sqrt(), 0.9 * ln3.sqrt(), 0.9 * ln3.sqrt()];
        for (ours, hand) in scores.iter().zip(hand) {
            assert!((ours - hand).abs() < 1e-12, "{scores:?}");
        }
        assert_eq!(shares.leader(), 0);
        assert_eq!(Shares::new(2, 1).leader(), 0, "of equals, the first");
    }

    #[test]
    fn episodes_are_dealt_out_in_proportion_to_the_scores() {
        let mut shares = Shares::new(3, 30_000);
        for (learner, reward) in [(0, 3.0), (1, 1.0), (2, 2.0)] {
            (0..4).for_each(|_| shares.note(learner, reward, 0.2));
        }
        let scores = shares.scores(0.5);
        shares.deal(0.5, &mut cmdp::rng([8; 4]));
        for (learner, score) in scores.iter().enumerate() {
            let count = shares.next.iter().filter(|next| **next == learner).count() as f64;
            let expected = 30_000.0 * score / scores.iter().sum::<f64>();
            assert!((count - expected).abs() < 4.0 * expected.sqrt(), "{count} {expected}");
        }
    }
}
