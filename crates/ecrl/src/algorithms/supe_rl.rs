//! Supe-RL: a learner that now and then moves towards a mutant of its own that does better.
//!
//! Every generation the learner plays and learns. Every so many generations
//! 1. mutants of its actor, and the actor itself, play an episode each from the same start,
//! 2. a ranking orders them,
//! 3. where a mutant comes before the actor, the actor and its target move towards the first of them:
//!    `θ ← θ + τ_g(θ_best - θ)`. A mutant that was lucky moves it by little; one that was worse does not at all.
//!
//! What mutants play is learnt from as well.
//!
//! 1. Marchesini, Corsi & Farinelli, Genetic Soft Updates for Policy Evolution in Deep Reinforcement Learning, ICLR
//!    2021.

use cmdp::EnvSpec;
use nets::Mlp;
use rand::RngExt as _;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, Build, Champion, Collected, Definition, Setup};
use crate::collect::episodes::{Rollout, constraint_values};
use crate::config::{ConfigError, Section, range};
use crate::context::{Context, Stream};
use crate::learners::off_policy::{
    self, Learner as _, LearnerConfig, OffPolicy, ReplayConfig, note_episodes,
};
use crate::learners::td3::{Td3, Td3Config};
use crate::memory::replay::Replay;
use crate::metrics::{About, Figures, Metric, Record};
use crate::multipliers::{LAMBDA_LEARNER, Rule};
use crate::population::census::Census;
use crate::population::contest::{self, Contest, Standing};
use crate::population::ranking::Ranking;
use crate::population::variation::{Descent, Origin};
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

use super::prices::Prices;

/// `supe-rl`
pub static SUPE_RL: Definition<SupeRl> = Definition {
    name: "supe-rl",
    description: "TD3 with soft updates towards mutants that do better (Marchesini et al., 2021)",
    defaults: SupeRlSection::default,
    presets: &[],
};

static SOFT_UPDATES: Metric<u64> = Metric::new(
    "soft_updates",
    "population/soft_updates",
    "",
    "How often the learner has moved towards a mutant so far",
);

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SupeRlSection {
    /// When it plays and learns.
    pub learner: LearnerConfig,
    /// Its networks and updates.
    pub td3: Td3Config,
    /// What it learns from.
    pub replay: ReplayConfig,
    /// Its mutants.
    pub evolution: EvolutionConfig,
    /// The multipliers of the constraints.
    pub multipliers: Rule,
}

/// The mutants of a learner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvolutionConfig {
    /// Mutants.
    pub population: usize,
    /// How they and the learner are ordered.
    #[serde(flatten)]
    pub ranking: Ranking,
    /// Generations between two populations of mutants.
    pub period: u64,
    /// The probability that a weight of a mutant changes.
    pub mutation: f64,
    /// The deviation of what is added to it.
    pub magnitude: f64,
    /// How far the learner moves towards a mutant that does better, of the way there.
    pub soft: f64,
}

impl Default for SupeRlSection {
    fn default() -> Self {
        let evolution = EvolutionConfig {
            population: 10,
            ranking: Ranking::Reward,
            period: 10,
            mutation: 1.0,
            magnitude: 0.02,
            soft: 0.1,
        };
        Self {
            learner: LearnerConfig { episodes: 1, ..LearnerConfig::default() },
            td3: Td3Config::default(),
            replay: ReplayConfig::default(),
            evolution,
            multipliers: Rule::None,
        }
    }
}

impl Section for SupeRlSection {
    fn validate(&self) -> Result<(), ConfigError> {
        off_policy::validate(&self.learner, &self.replay)?;
        self.td3.validate(self.replay.capacity)?;
        let EvolutionConfig { population, ranking, period, mutation, magnitude, soft } =
            &self.evolution;
        range::many("evolution.population", *population)?;
        ranking.validate("evolution")?;
        range::check(*period > 0, "evolution.period", period, "at least 1")?;
        range::share("evolution.mutation", *mutation)?;
        range::not_negative("evolution.magnitude", *magnitude)?;
        range::share("evolution.soft", *soft)?;
        self.multipliers.validate()
    }

    fn changeable() -> Vec<&'static str> {
        let own = [
            "evolution.period",
            "evolution.mutation",
            "evolution.magnitude",
            "evolution.soft",
            Rule::CHANGEABLE,
        ];
        [&Td3Config::CHANGEABLE[..], &own].concat()
    }
}

/// The learner, and what came of its mutants.
pub struct SupeRl {
    config: EvolutionConfig,
    learner: OffPolicy<Td3>,
    prices: Prices,
    standing: Standing,
    soft_updates: u64,
}

impl Build for SupeRl {
    type Section = SupeRlSection;

    fn metrics() -> Vec<&'static About> {
        let own = [&LAMBDA_LEARNER.about, &SOFT_UPDATES.about];
        [&off_policy::METRICS[..], &contest::METRICS, &own].concat()
    }

    fn new(section: SupeRlSection, Setup { spec, rng }: Setup) -> Result<Self, TrainError> {
        let SupeRlSection { learner, td3, replay, evolution: config, multipliers } = section;
        let sizes = [spec.observation, spec.action, Prices::critics(&multipliers, spec)];
        let td3 = Td3::new(td3, sizes, rng);
        let standing = Standing::new(td3.actor().into_owned());
        let prices = Prices::new(&multipliers, spec, config.population, rng)?;
        let learner = OffPolicy::new(learner, td3, &replay, spec);
        Ok(Self { config, learner, prices, standing, soft_updates: 0 })
    }
}

impl SupeRl {
    /// Mutants of the learner's network.
    fn mutants(&self, context: &Context) -> Vec<Mlp> {
        let EvolutionConfig { population, mutation, magnitude, .. } = self.config;
        let mutant = |number| {
            let mut rng = cmdp::rng(context.key(Stream::Evolution, 2 + number));
            let mut net = self.learner.learner().policy().clone();
            for x in net.params_mut() {
                if rng.random_bool(mutation) {
                    *x += magnitude as f32 * rng.sample::<f32, _>(StandardNormal);
                }
            }
            net
        };
        (0..population as u64).map(mutant).collect()
    }

    /// Mutants and the learner play; it moves towards the first of them unless that is itself.
    fn evolve(&mut self, context: &mut Context, record: &mut Record) -> Vec<Rollout> {
        let (spec, mutants) = (context.spec.clone(), self.mutants(context));
        let td3 = self.learner.learner();
        let nets = mutants.iter().chain([td3.policy()]);
        let actors: Vec<Mlp> = nets.map(|net| td3.config().express(net)).collect();
        let played = context.play_from_one_start(&actors);
        let own = mutants.len();
        let number = |slot| (slot < own).then_some(slot);
        for (slot, rollout) in played.iter().enumerate() {
            let stored = self.prices.stored(number(slot), &spec);
            self.learner.experience.remember(rollout, &stored);
        }
        let prices = &self.prices;
        let contest = Contest {
            ranking: self.config.ranking,
            elites: 0,
            played: &played,
            fitness: None,
            lambda: &|slot| {
                number(slot).map_or_else(|| prices.of_learner(&spec), |n| prices.of_actor(n, &spec))
            },
            descent: &|slot| {
                let origin = if slot == own { Origin::Learner } else { Origin::Drawn };
                Descent { mutated: slot < own, ..Descent::without_parents(origin) }
            },
        };
        let census = contest.decide(context, record);
        let first = census.ranked()[0];
        self.standing.keep(census, actors[first].clone());
        if first < own {
            let soft = self.config.soft as f32;
            for net in self.learner.learner_mut().nets_mut() {
                let towards = net.params_mut().iter_mut().zip(mutants[first].params());
                towards.for_each(|(x, best)| *x += soft * (best - *x));
            }
            self.soft_updates += 1;
        }
        played
    }
}

impl Algorithm for SupeRl {
    fn collect(&mut self, context: &mut Context, record: &mut Record) -> Collected {
        let spec = context.spec.clone();
        let mutants = match context.generation.is_multiple_of(self.config.period) {
            true => self.evolve(context, record),
            false => {
                self.standing.clear();
                Vec::new()
            }
        };
        let stored = self.prices.stored(None, &spec);
        let played = self.learner.play(context, &stored, record);
        let everyone = || mutants.iter().chain(&played);
        let steps = note_episodes(everyone(), &spec.constraints, record);
        let updates = self.learner.updates_due(context, steps, record);
        let learning = self.learner.experience.learning;
        self.prices.observe(&played, constraint_values(everyone()), &spec, learning);
        record.set(&SOFT_UPDATES, self.soft_updates);
        Collected { steps, updates }
    }

    fn update(&mut self, context: &Context) -> Figures {
        self.learner.update(context, self.prices.price())
    }

    fn conclude(&mut self, context: &Context, record: &mut Record) {
        let all: Vec<usize> = match context.generation.is_multiple_of(self.config.period) {
            true => (0..self.config.population).collect(),
            false => Vec::new(),
        };
        self.prices.conclude(&all, context, self.learner.experience.learning, record);
    }

    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        self.learner.start_from(actor)
    }

    fn longest_generation(&self, spec: &EnvSpec) -> u64 {
        ((self.config.population + 1 + self.learner.episodes()) * spec.max_steps) as u64
    }

    fn actor(&self) -> Mlp {
        self.learner.actor().into_owned()
    }

    fn champion(&self) -> Option<Champion> {
        self.standing.champion()
    }

    fn census(&self) -> Option<&Census> {
        self.standing.census()
    }

    fn replay(&self) -> Option<&Replay> {
        Some(&self.learner.experience.replay)
    }

    fn replay_mut(&mut self) -> Option<&mut Replay> {
        Some(&mut self.learner.experience.replay)
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.learner.walk(walk)?;
        self.prices.walk(walk)?;
        self.standing.walk(self.config.population + 1, walk)?;
        walk.plain("soft_updates", &mut self.soft_updates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layers;
    use crate::trainer::Trainer;
    use cmdp::{Env, PointMass};

    #[test]
    fn a_contest_is_told_of_once_and_the_actor_moves_towards_who_wins_it() {
        let mut layers = Layers::default();
        let small = "[td3]\nhidden = [8]\nbatch = 8\n[evolution]\nperiod = 3\nmagnitude = 0.3\nsoft = 0.25\n";
        layers.toml(small).unwrap();
        layers.set("algorithm", "supe-rl");
        let make = || PointMass::new(vec![]).map(|env| Box::new(env) as Box<dyn Env>);
        let mut run = Trainer::new(layers.build().unwrap(), 1, make).unwrap();
        let own = |run: &Trainer| -> Vec<f32> {
            let any = &*run.algorithm as &dyn std::any::Any;
            any.downcast_ref::<SupeRl>().unwrap().learner.learner().policy().params().to_vec()
        };
        for generation in 1..=9 {
            let before = own(&run);
            run.generation(&mut |_| true).unwrap().unwrap();
            let census = run.census().cloned();
            assert_eq!(census.is_some(), generation % 3 == 0, "{generation}");
            // Before it learns, nothing else moves the actor: a quarter of the way.
            let Some(census) = census else {
                assert_eq!(own(&run), before);
                continue;
            };
            assert_eq!(census.individuals.len(), 11);
            let best = run.algorithm.champion().unwrap().actor;
            let mut narrow = {
                let any = &*run.algorithm as &dyn std::any::Any;
                any.downcast_ref::<SupeRl>().unwrap().learner.learner().policy().clone()
            };
            narrow.take_without_constants(&best);
            for ((now, before), best) in own(&run).iter().zip(&before).zip(narrow.params()) {
                assert!((now - (before + 0.25 * (best - before))).abs() < 1e-6);
            }
        }
    }
}
