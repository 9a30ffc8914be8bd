//! Evolution strategies: no gradients, no critics, only what perturbed policies return.
//!
//! Every generation
//! 1. all perturbations θ ± σε_k, and θ itself, play an episode each from the same start, with the same noise,
//! 2. a ranking orders the perturbations, by `R - Σ_i w_i (J_Ci - ε_i)` in place of the reward R,
//! 3. θ climbs their utilities ([`Es`]),
//! 4. λ answers the generation's episodes; `w_i = λ_i·d_R/d_i`, with d the deviations over the population.
//!
//! As whole episodes are weighed, a bound on a mean cost is not kept by ending early. Observations are normalised
//! by their running mean and deviation.
//!
//! 1. Salimans et al., Evolution Strategies as a Scalable Alternative to Reinforcement Learning, 2017.

use cmdp::{Constraint, EnvSpec};
use nets::{Activation, Mlp};
use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, Build, Champion, Collected, Definition, Setup, verify_start};
use crate::collect::episodes::Rollout;
use crate::config::{ConfigError, Section, range};
use crate::context::{Context, Stream};
use crate::learners::moments::Moments;
use crate::learners::off_policy::note_episodes;
use crate::metrics::{About, Figures, ROLLOUT_COST, ROLLOUT_REWARD, Record};
use crate::multipliers::{LAMBDA_LEARNER, Lambdas, Rule};
use crate::population::census::Census;
use crate::population::contest::{self, Contest, Standing};
use crate::population::es::{Es, utilities};
use crate::population::ranking::Ranking;
use crate::population::variation::{Descent, Origin};
use crate::state::{StateError, Walk};
use crate::trainer::TrainError;

/// `es`
pub static ES: Definition<Strategy> = Definition {
    name: "es",
    description: "evolution strategies: mirrored perturbations, no gradients (Salimans et al., 2017)",
    defaults: EsSection::default,
    presets: &[],
};

/// Its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EsSection {
    /// The policy and its perturbations.
    pub es: EsConfig,
    /// The multipliers of the constraints.
    pub multipliers: Rule,
}

/// The policy and its perturbations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EsConfig {
    /// Units of the policy's hidden layers. Paper: 64, 64.
    pub hidden: Vec<usize>,
    /// Perturbations in a generation, half of them mirror images; more climbs surer and slower. The paper's clusters
    /// had up to 10000.
    pub population: usize,
    /// How they are ordered.
    #[serde(flatten)]
    pub ranking: Ranking,
    /// Deviation σ of a perturbation; more looks further and sees less. Authors' code: 0.02, with 10000 of them.
    pub sigma: f64,
    /// Learning rate; more is faster and less steady. Authors' code: 0.01.
    pub lr: f64,
    /// Weight decay, added to the slope. Authors' code: 0.005.
    pub decay: f64,
    /// Deviation of what is added to the policy's output, before tanh, when it plays; 0 for none. Authors' code: 0.01.
    pub exploration: f64,
}

impl Default for EsSection {
    fn default() -> Self {
        let es = EsConfig {
            hidden: vec![64, 64],
            population: 40,
            ranking: Ranking::Reward,
            sigma: 0.05,
            lr: 0.02,
            decay: 0.005,
            exploration: 0.01,
        };
        Self { es, multipliers: Rule::None }
    }
}

impl Section for EsSection {
    fn validate(&self) -> Result<(), ConfigError> {
        let EsConfig { hidden, population, ranking, sigma, lr, decay, exploration } = &self.es;
        range::layers("es.hidden", hidden)?;
        let fits = (2..=10_000).contains(population) && population.is_multiple_of(2);
        range::check(fits, "es.population", population, "an even number from 2 to 10000")?;
        ranking.validate("es")?;
        range::positive("es.sigma", *sigma)?;
        range::positive("es.lr", *lr)?;
        range::not_negative("es.decay", *decay)?;
        range::not_negative("es.exploration", *exploration)?;
        self.multipliers.validate_alone()
    }

    fn changeable() -> Vec<&'static str> {
        vec!["es.sigma", "es.lr", "es.decay", "es.exploration", Rule::CHANGEABLE]
    }
}

/// The policy, and what it has seen.
pub struct Strategy {
    config: EsConfig,
    es: Es,
    observations: Moments,
    lambdas: Lambdas,
    constraints: Vec<Constraint>,
    standing: Standing,
    /// Of the perturbations of the current generation.
    utilities: Vec<f64>,
    /// Whether it started from a policy.
    started: bool,
}

impl Build for Strategy {
    type Section = EsSection;
    /// Episodes are all that it takes time for.
    const TEST_SHARE: f64 = 0.08;

    fn metrics() -> Vec<&'static About> {
        [&contest::METRICS[..], &[&LAMBDA_LEARNER.about]].concat()
    }

    fn new(section: EsSection, Setup { spec, rng }: Setup) -> Result<Self, TrainError> {
        let EsSection { es: config, multipliers } = section;
        let sizes = [&[spec.observation], &config.hidden[..], &[spec.action]].concat();
        let mut gains = vec![1.0; config.hidden.len()];
        gains.push(0.01); // a policy that hardly acts at first, whatever it sees
        let centre = Mlp::orthogonal(&sizes, Activation::Tanh, &gains, rng);
        let lambdas = Lambdas::new(&multipliers, spec, rng)?;
        let observations = Moments::new(spec.observation);
        let standing = Standing::new(express(&centre, &observations, config.exploration));
        Ok(Self {
            es: Es::new(centre, config.lr),
            observations,
            lambdas,
            constraints: spec.constraints.clone(),
            standing,
            utilities: Vec::new(),
            started: false,
            config,
        })
    }
}

/// A network as a policy like all others: from observations as they come, with the noise it plays with.
fn express(net: &Mlp, observations: &Moments, exploration: f64) -> Mlp {
    let actions = *net.sizes().last().expect("a layer");
    let log_sigma = nets::gaussian::clamp(exploration.ln() as f32);
    let mut policy = net.with_constants(&vec![log_sigma; actions]);
    observations.work_into(&mut policy);
    policy
}

/// Draws the same perturbations whenever it is asked in a generation.
fn keys(context: &Context) -> impl Fn(u64) -> [u64; 4] + Sync {
    let (seed, generation) = (context.config.seed, context.generation);
    move |pair| [seed, Stream::Perturbation as u64, generation, pair]
}

impl Strategy {
    /// What perturbations are ranked by: the return less what breaking constraints costs.
    fn fitness(&mut self, played: &[Rollout]) -> Vec<f64> {
        let rows: Vec<Vec<f64>> = played
            .iter()
            .map(|r| [vec![r.episode.reward()], r.episode.constraint_values()].concat())
            .collect();
        let deviation = |i: usize| {
            let mean = rows.iter().map(|row| row[i]).sum::<f64>() / rows.len() as f64;
            let sum: f64 = rows.iter().map(|row| (row[i] - mean).powi(2)).sum();
            (sum / rows.len() as f64).sqrt()
        };
        let spreads: Vec<f64> = (0..=self.constraints.len()).map(deviation).collect();
        self.lambdas.measure(&spreads);
        let weights = self.lambdas.weights();
        let fitness = |row: &Vec<f64>| {
            let costs = row[1..].iter().zip(&self.constraints).zip(&weights);
            costs.fold(row[0], |sum, ((value, c), weight)| sum - weight * (value - c.threshold))
        };
        rows.iter().map(fitness).collect()
    }
}

impl Algorithm for Strategy {
    fn collect(&mut self, context: &mut Context, record: &mut Record) -> Collected {
        let EsConfig { population, ranking, sigma, exploration, .. } = self.config;
        let (pairs, key) = (population as u64 / 2, keys(context));
        let (es, observations) = (&self.es, &self.observations);
        let actors: Vec<Mlp> = context.pool.install(|| {
            let perturbed = es.ask(pairs, sigma, key);
            let all = perturbed.iter().chain([&es.centre]);
            all.map(|net| express(net, observations, exploration)).collect()
        });
        let mut played = context.play_from_one_start(&actors);
        let steps = note_episodes(played.iter(), &self.constraints, record);
        let own = played.pop().expect("the policy itself has played");
        record.set(&ROLLOUT_REWARD, own.episode.reward());
        record.set(&ROLLOUT_COST, own.episode.constraint_values());

        let fitness = Some(self.fitness(&played));
        let lambda = |_| self.lambdas.get().to_vec();
        let descent = |_| Descent::without_parents(Origin::Drawn);
        let contest = Contest {
            ranking,
            elites: 0,
            played: &played,
            fitness,
            lambda: &lambda,
            descent: &descent,
        };
        let census = contest.decide(context, record);
        let ranked = census.ranked();
        self.utilities = utilities(&ranked);
        self.standing.keep(census, actors[ranked[0]].clone());
        let episodes: Vec<_> = played.iter().map(|rollout| rollout.episode.clone()).collect();
        self.lambdas.answer(&episodes);
        let first = self.observations.is_empty();
        played.iter().for_each(|rollout| self.observations.add(rollout.observations()));
        let moved = first && self.started;
        if moved {
            // A policy that it started from goes on acting as it did; what was perturbed was another network.
            self.observations.take_out_of(&mut self.es.centre);
        }
        Collected { steps, updates: u64::from(!moved) }
    }

    fn update(&mut self, context: &Context) -> Figures {
        self.es.tell(&self.utilities, self.config.decay, keys(context));
        Vec::new()
    }

    fn conclude(&mut self, _: &Context, record: &mut Record) {
        self.lambdas.note(record);
    }

    fn start_from(&mut self, actor: &Mlp) -> Result<(), ConfigError> {
        verify_start(&self.actor(), actor)?;
        self.es.centre.take_without_constants(actor);
        self.started = true;
        Ok(())
    }

    fn longest_generation(&self, spec: &EnvSpec) -> u64 {
        ((self.config.population + 1) * spec.max_steps) as u64
    }

    fn actor(&self) -> Mlp {
        express(&self.es.centre, &self.observations, self.config.exploration)
    }

    fn champion(&self) -> Option<Champion> {
        self.standing.champion()
    }

    fn census(&self) -> Option<&Census> {
        self.standing.census()
    }

    fn walk(&mut self, walk: &mut Walk) -> Result<(), StateError> {
        self.es.walk(walk)?;
        self.observations.walk("observations", walk)?;
        self.lambdas.walk(walk)?;
        self.standing.walk(self.config.population, walk)?;
        walk.plain("started", &mut self.started)?;
        let size = self.config.population;
        walk.fitting("utilities", &mut self.utilities, "one of each perturbation", |stored, _| {
            [0, size].contains(&stored.len()) && stored.iter().all(|u| (-0.5..=0.5).contains(u))
        })
    }
}
