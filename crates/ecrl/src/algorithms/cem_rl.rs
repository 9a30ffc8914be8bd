//! CEM-RL: a distribution of actors follows its better half, and half of what is drawn from it learns first.
//!
//! Every generation
//! 1. all actors drawn play an episode each, and so does the mean of the distribution,
//! 2. a ranking orders them, and the distribution follows the better half ([`Cem`]),
//! 3. the next actors are drawn; for every step played
//!    - the critics, which all share, take a step, with the first half of the actors acting in their targets in turn,
//!    - each of the first half climbs the critics by a step of its own optimiser, which begins anew.
//!
//! An actor of the first half that is worth it moves the distribution; one that its critics lead astray is outranked.
//! The mean is the policy that is tested.
//!
//! 1. Pourchot & Sigaud, CEM-RL: Combining evolutionary and gradient-based methods for policy search, ICLR 2019.

use cmdp::EnvSpec;
use nets::threads::awake;
use nets::{Activation, Mlp, Tape};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, Build, Champion, Collected, Definition, Setup, verify_start};
use crate::collect::episodes::{Choice, constraint_values};
use crate::config::{ConfigError, Section, range};
use crate::context::{Context, Stream};
use crate::learners::off_policy::{
    self, Experience, LearnerConfig, ReplayConfig, note_episodes, note_play,
};
use crate::learners::td3::{Climber, Td3Config, Twins};
use crate::learners::{ACTOR_LOSS, CRITIC_LOSS};
use crate::memory::replay::Replay;
use crate::metrics::{About, Figures, Metric, Record};
use crate::multipliers::{LAMBDA_LEARNER, Rule};
use crate::population::cem::{Cem, CemConfig};
use crate::population::census::Census;
use crate::population::contest::{self, Contest, Standing};
use crate::population::ranking::Ranking;
use crate::population::variation::{Descent, Origin};
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

use super::prices::Prices;

/// `cem-rl`
pub static CEM_RL: Definition<CemRl> = Definition {
    name: "cem-rl",
    description: "the cross-entropy method on actors, half of which TD3 improves (Pourchot & Sigaud, 2019)",
    defaults: CemRlSection::default,
    presets: &[],
};

static DEVIATION: Metric<f64> = Metric::new(
    "deviation",
    "population/deviation",
    "",
    "The standard deviation of a parameter in the distribution of actors, mean over all parameters",
);

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CemRlSection {
    /// When the mean plays, and when actors learn.
    pub learner: LearnerConfig,
    /// Networks and updates.
    pub td3: Td3Config,
    /// What they learn from.
    pub replay: ReplayConfig,
    /// The distribution.
    pub cem: CemConfig,
    /// How actors are ranked, and how many learn.
    pub evolution: EvolutionConfig,
    /// The multipliers of the constraints.
    pub multipliers: Rule,
}

/// How actors are ranked, and how many learn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvolutionConfig {
    /// How actors are ordered.
    #[serde(flatten)]
    pub ranking: Ranking,
    /// Actors that learn, of those drawn; 0 is the cross-entropy method by itself, without critics. Paper: 5.
    pub learning: usize,
}

impl Default for CemRlSection {
    fn default() -> Self {
        let td3 = Td3Config {
            hidden: vec![400, 300],
            activation: Activation::Tanh,
            batch: 100,
            actor_lr: 1e-3,
            critic_lr: 1e-3,
            delay: 1,
            exploration: 0.0,
            ..Td3Config::default()
        };
        let learner =
            LearnerConfig { episodes: 1, learning_starts: 10_000, ..LearnerConfig::default() };
        Self {
            learner,
            td3,
            replay: ReplayConfig::default(),
            cem: CemConfig::default(),
            evolution: EvolutionConfig { ranking: Ranking::Reward, learning: 5 },
            multipliers: Rule::None,
        }
    }
}

impl Section for CemRlSection {
    fn validate(&self) -> Result<(), ConfigError> {
        off_policy::validate(&self.learner, &self.replay)?;
        self.td3.validate(self.replay.capacity)?;
        self.cem.validate()?;
        self.evolution.ranking.validate("evolution")?;
        range::check(
            self.evolution.learning <= self.cem.population,
            "evolution.learning",
            self.evolution.learning,
            "at most cem.population",
        )?;
        self.multipliers.validate()
    }

    fn changeable() -> Vec<&'static str> {
        [&Td3Config::CHANGEABLE[..], &CemConfig::CHANGEABLE, &[Rule::CHANGEABLE]].concat()
    }
}

/// The distribution, what was drawn from it, and what they learn from.
pub struct CemRl {
    td3: Td3Config,
    evolution: EvolutionConfig,
    cem: Cem,
    /// The actors drawn last: those that learn, then the others.
    climbers: Vec<Climber>,
    others: Vec<Mlp>,
    twins: Twins,
    tape: Tape,
    /// In the last update that actors took part in.
    actor_loss: f64,
    experience: Experience,
    prices: Prices,
    standing: Standing,
}

impl Build for CemRl {
    type Section = CemRlSection;

    fn metrics() -> Vec<&'static About> {
        let own = [&LAMBDA_LEARNER.about, &DEVIATION.about];
        [&off_policy::METRICS[..], &contest::METRICS, &own].concat()
    }

    fn new(section: CemRlSection, Setup { spec, rng }: Setup) -> Result<Self, TrainError> {
        let CemRlSection { learner, td3, replay, cem, evolution, multipliers } = section;
        let sizes = [spec.observation, spec.action, Prices::critics(&multipliers, spec)];
        let population = cem.population;
        let mean = td3.new_actor([sizes[0], sizes[1]], rng);
        let twins = Twins::new(td3.clone(), sizes, rng);
        let prices = Prices::new(&multipliers, spec, population, rng)?;
        let tape = Tape::new(&mean, td3.batch);
        let standing = Standing::new(td3.express(&mean));
        let cem = Cem::new(cem, mean);
        let mut drawn = cem.ask(rng);
        let others = drawn.split_off(evolution.learning);
        let climbers = drawn.into_iter().map(|net| Climber::new(&td3, net)).collect();
        let experience = Experience::new(learner, &replay, spec);
        Ok(Self {
            td3,
            evolution,
            cem,
            climbers,
            others,
            twins,
            tape,
            actor_loss: 0.0,
            experience,
            prices,
            standing,
        })
    }
}

impl CemRl {
    /// The actors drawn last.
    fn drawn(&self) -> impl Iterator<Item = &Mlp> {
        self.climbers.iter().map(|climber| &climber.actor.net).chain(&self.others)
    }

    /// The distribution follows the better half of what was drawn, and others are drawn.
    fn evolve(&mut self, ranked: &[usize], context: &Context) {
        let drawn: Vec<Mlp> = self.drawn().cloned().collect();
        let ranked: Vec<&Mlp> = ranked.iter().map(|&slot| &drawn[slot]).collect();
        self.cem.tell(&ranked);
        let mut rng = cmdp::rng(context.key(Stream::Evolution, 1));
        let mut next = self.cem.ask(&mut rng);
        self.others = next.split_off(self.evolution.learning);
        self.climbers = next.into_iter().map(|net| Climber::new(&self.td3, net)).collect();
    }
}

impl Algorithm for CemRl {
    fn collect(&mut self, context: &mut Context, record: &mut Record) -> Collected {
        let actors: Vec<Mlp> = self.drawn().map(|net| self.td3.express(net)).collect();
        let played = context.play_each(&actors, Stream::Population);
        let episodes = self.experience.config().episodes;
        let mean = context.play_several(&self.actor(), episodes, Stream::Learner, Choice::Sample);
        let spec = context.spec.clone();
        for (slot, rollout) in played.iter().enumerate() {
            self.experience.remember(rollout, &self.prices.stored(Some(slot), &spec));
        }
        for rollout in &mean {
            self.experience.remember(rollout, &self.prices.stored(None, &spec));
        }
        note_play(&mean, spec.constraints.len(), record);
        let contest = Contest {
            ranking: self.evolution.ranking,
            elites: 0,
            played: &played,
            fitness: None,
            lambda: &|slot| self.prices.of_actor(slot, &spec),
            descent: &|_| Descent::without_parents(Origin::Drawn),
        };
        let census = contest.decide(context, record);
        let ranked = census.ranked();
        self.standing.keep(census, actors[ranked[0]].clone());
        let everyone = || played.iter().chain(&mean);
        let steps = note_episodes(everyone(), &spec.constraints, record);
        let updates = match self.climbers.is_empty() {
            true => {
                self.experience.count(steps, record);
                0 // nobody asks the critics
            }
            false => self.experience.updates_due(context, steps, record),
        };
        self.prices.observe(&mean, constraint_values(everyone()), &spec, self.experience.learning);
        self.evolve(&ranked, context);
        record.set(&DEVIATION, self.cem.deviation());
        Collected { steps, updates }
    }

    fn update(&mut self, context: &Context) -> Figures {
        let key = [context.config.seed, Stream::Update as u64, context.grad_steps, 0];
        let moves = (context.grad_steps + 1).is_multiple_of(self.td3.delay);
        let turn = context.grad_steps as usize % self.climbers.len().max(1);
        let loss = awake(|| {
            let Self { td3, cem, climbers, twins, tape, experience, prices, .. } = self;
            let price = prices.price();
            twins.draw(&experience.replay, price, &mut cmdp::rng(key));
            let next = climbers.get(turn).map_or(cem.mean(), |climber| &climber.actor.net);
            let tau = if moves { td3.tau as f32 } else { 0.0 };
            let (loss, cost_loss) = twins.improve(next, tape, tau);
            if moves {
                let climb = |climber: &mut Climber| climber.climb(twins, price, None);
                let losses: Vec<f64> = climbers.par_iter_mut().map(climb).collect();
                self.actor_loss = losses.iter().sum::<f64>() / losses.len().max(1) as f64;
            }
            loss + cost_loss.unwrap_or(0.0)
        });
        vec![(&CRITIC_LOSS, loss), (&ACTOR_LOSS, self.actor_loss)]
    }

    fn conclude(&mut self, context: &Context, record: &mut Record) {
        // Slots are drawn anew: the multipliers of all answer what was played.
        let all: Vec<usize> = (0..self.drawn().count()).collect();
        self.prices.conclude(&all, context, self.experience.learning, record);
    }

    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        verify_start(&self.actor(), actor)?;
        let before = self.cem.mean().clone();
        self.cem.mean_mut().take_without_constants(actor);
        // What was drawn around the mean moves with it.
        let climbers = self.climbers.iter_mut().map(|climber| &mut climber.actor.net);
        for net in climbers.chain(&mut self.others) {
            let rows = net.params_mut().iter_mut().zip(self.cem.mean().params());
            rows.zip(before.params()).for_each(|((x, new), old)| *x += new - old);
        }
        Ok(())
    }

    fn longest_generation(&self, spec: &EnvSpec) -> u64 {
        ((self.drawn().count() + self.experience.config().episodes) * spec.max_steps) as u64
    }

    fn actor(&self) -> Mlp {
        self.td3.express(self.cem.mean())
    }

    fn champion(&self) -> Option<Champion> {
        self.standing.champion()
    }

    fn census(&self) -> Option<&Census> {
        self.standing.census()
    }

    fn replay(&self) -> Option<&Replay> {
        Some(&self.experience.replay)
    }

    fn replay_mut(&mut self) -> Option<&mut Replay> {
        Some(&mut self.experience.replay)
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.twins.walk(walk)?;
        for (number, climber) in self.climbers.iter_mut().enumerate() {
            walk.within(&format!("climber{number}"), |walk| climber.walk(walk))?;
        }
        for (number, net) in self.others.iter_mut().enumerate() {
            walk.net(&format!("drawn{number}"), net)?;
        }
        self.cem.walk(walk)?;
        walk.plain("actor_loss", &mut self.actor_loss)?;
        self.experience.walk(walk)?;
        self.prices.walk(walk)?;
        self.standing.walk(self.climbers.len() + self.others.len(), walk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmdp::{Env as _, PointMass};

    #[test]
    fn what_is_drawn_moves_with_a_policy_that_it_starts_from() {
        let task = PointMass::new(vec![]).unwrap();
        let made = |seed| {
            let mut rng = cmdp::rng([seed; 4]);
            let setup = Setup { spec: task.spec(), rng: &mut rng };
            CemRl::new(CemRlSection::default(), setup).unwrap()
        };
        let (first, mut second) = (made(1), made(2));
        second.start_from(&first.actor()).unwrap();
        assert_eq!(second.actor(), first.actor());
        let drawn: Vec<&Mlp> = second.drawn().collect();
        for (one, other) in drawn[..5].iter().zip(&drawn[5..]) {
            let pairs = one.params().iter().zip(other.params()).zip(second.cem.mean().params());
            for ((a, b), mean) in pairs {
                assert!((0.5 * (a + b) - mean).abs() < 1e-6 && (a - mean).abs() < 0.2);
            }
        }
    }
}
