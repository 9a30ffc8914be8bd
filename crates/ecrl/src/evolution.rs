//! Algorithm 1 of the paper: a population evolves beside a learner. Every algorithm that learns
//! from a replay buffer is this with other choices of [`Algorithm`].

use cmdp::{EnvSpec, Rng};
use nets::Mlp;
use nets::store::Store;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::algorithm::Algorithm;
use crate::config::Config;
use crate::constraint::{Lagrange, violation};
use crate::ranking::Ranking;
use crate::record::{Census, Fate, Fates, Figures, Generation, Individual};
use crate::replay::Replay;
use crate::rollout::{Choice, Rollout, Ticket};
use crate::sac::Sac;
use crate::trainer::{
    Arena, Method, Pending, StoredReplay, Stream, constraint_values, mean, mean_costs,
};
use crate::variation::{Descent, Origin, vary};

/// The population, the learner, and what they learn from.
pub(crate) struct Evolution {
    algorithm: &'static Algorithm,
    sac: Sac,
    replay: Replay,
    population: Vec<Mlp>,
    state: State,
}

/// What there is beside tensors and the replay buffer.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    /// Where each actor of the population comes from.
    descents: Vec<Descent>,
    lagrange: Lagrange,
    /// The slot that holds a copy of the learner that has not been ranked yet.
    injected: Option<usize>,
    fates: Fates,
    census: Option<Census>,
    /// Environment steps of the generations that were learnt from.
    learnt_steps: u64,
    /// B_C^g: J_C of the current generation's episodes.
    values: Vec<Vec<f64>>,
    /// Whether there are transitions enough to learn from.
    learning: bool,
    /// The first and the last slot of the current generation's ranking.
    first: Option<usize>,
    last: Option<usize>,
    adam_steps: Vec<u64>,
}

impl Evolution {
    pub fn new(
        config: &Config,
        algorithm: &'static Algorithm,
        spec: &EnvSpec,
        rng: &mut Rng,
    ) -> Self {
        let (obs, action, constraints) = (spec.observation, spec.action, spec.constraints.len());
        let sac = Sac::new(config.sac.clone(), obs, action, rng);
        let size = if algorithm.ranking.is_some() { config.evolution.population } else { 0 };
        let population: Vec<Mlp> =
            (0..size).map(|_| Sac::new_actor(&config.sac.hidden, obs, action, rng)).collect();
        let rule = algorithm.multipliers;
        let state = State {
            descents: vec![Descent::without_parents(Origin::Initial); size],
            lagrange: Lagrange::new(rule, &config.multipliers, constraints, size, rng),
            injected: None,
            fates: Fates::default(),
            census: None,
            learnt_steps: 0,
            values: Vec::new(),
            learning: false,
            first: None,
            last: None,
            adam_steps: Vec::new(),
        };
        let replay = Replay::new(config.replay.capacity, obs, action, constraints);
        Self { algorithm, sac, replay, population, state }
    }

    fn play_population(&self, arena: &mut Arena) -> Vec<Rollout> {
        let actors = self.population.iter().enumerate();
        let tickets: Vec<Ticket> = actors
            .map(|(i, actor)| Ticket { actor, key: arena.key(Stream::Population, i as u64) })
            .collect();
        arena.play(&tickets, Choice::Sample)
    }

    fn play_learner(&self, arena: &mut Arena) -> Vec<Rollout> {
        let episodes = arena.config.learner.episodes;
        let tickets = arena.tickets(self.sac.actor(), Stream::Learner, episodes);
        arena.play(&tickets, Choice::Sample)
    }

    fn rank(&self, arena: &Arena, population: &[Rollout]) -> Vec<usize> {
        let rewards: Vec<f64> = population.iter().map(|r| r.episode.reward()).collect();
        let violations: Vec<f64> = constraint_values(population)
            .iter()
            .map(|values| violation(values, &arena.spec.constraints))
            .collect();
        let mut rng = cmdp::rng(arena.key(Stream::Evolution, 0));
        let order = |ranking: Ranking| {
            ranking.order(&rewards, &violations, arena.config.evolution.pf, &mut rng)
        };
        self.algorithm.ranking.map(order).unwrap_or_default()
    }

    /// Makes the next population, and notes who was who in this one.
    fn vary(&mut self, arena: &Arena, played: &[Rollout], ranked: &[usize]) -> Option<Fate> {
        if ranked.is_empty() {
            return None;
        }
        let State { descents, lagrange, injected, fates, census, .. } = &mut self.state;
        let elites = arena.config.evolution.elites;
        let mut rng = cmdp::rng(arena.key(Stream::Evolution, 1));
        let next = vary(&mut self.population, ranked, &arena.config.evolution, &mut rng);
        let before = std::mem::replace(descents, next);
        let fate = injected.take().map(|slot| match descents[slot].origin {
            Origin::Elite => Fate::Elite,
            Origin::Winner => Fate::Selected,
            _ => Fate::Discarded,
        });
        match fate {
            Some(Fate::Elite) => fates.elite += 1,
            Some(Fate::Selected) => fates.selected += 1,
            Some(Fate::Discarded) => fates.discarded += 1,
            None => {}
        }
        let individuals = ranked.iter().enumerate().map(|(rank, &slot)| {
            let episode = &played[slot].episode;
            let cost = episode.constraint_values();
            Individual {
                slot,
                rank,
                elite: rank < elites,
                reward: episode.reward(),
                violation: violation(&cost, &arena.spec.constraints),
                cost,
                lambda: lagrange.of_slot(slot).to_vec(),
                descent: before[slot].clone(),
            }
        });
        *census = Some(Census {
            generation: arena.generation,
            learner_copies: *fates,
            individuals: individuals.collect(),
        });
        fate
    }

    /// The updates that a generation's steps ask for; counted from the start of the run, so that
    /// fractions of an update add up.
    fn updates_due(&mut self, arena: &Arena, steps: u64) -> u64 {
        if !self.state.learning {
            return 0;
        }
        self.state.learnt_steps += steps;
        let ratio = arena.config.learner.grad_steps_per_env_step;
        ((self.state.learnt_steps as f64 * ratio).round() as u64).saturating_sub(arena.grad_steps)
    }

    /// The learner takes the slot of the lowest-ranked, never an elite's; the slot's multipliers
    /// answer the violations in a batch of past episodes.
    fn inject_learner(&mut self, arena: &Arena, slot: usize) {
        self.population[slot].params_mut().copy_from_slice(self.sac.actor().params());
        self.state.descents[slot] = Descent::without_parents(Origin::Learner);
        self.state.injected = Some(slot);
        let mut rng = cmdp::rng(arena.key(Stream::Multipliers, 0));
        self.state.lagrange.raise_slot(slot, &arena.spec.constraints, &mut rng);
    }
}

impl Method for Evolution {
    /// Lines 7-20 of Algorithm 1.
    fn play(&mut self, arena: &mut Arena) -> Pending {
        let population = self.play_population(arena); // every actor, one episode, in parallel
        let lagrange = &self.state.lagrange;
        for (slot, rollout) in population.iter().enumerate() {
            rollout.remember(&mut self.replay, lagrange.of_slot(slot));
        }
        let lambdas: Vec<Vec<f64>> =
            (0..population.len()).map(|slot| lagrange.of_slot(slot).to_vec()).collect();
        let ranked = self.rank(arena, &population);
        let fate = self.vary(arena, &population, &ranked); // elites stay, the rest change
        let learner = self.play_learner(arena);
        for rollout in &learner {
            rollout.remember(&mut self.replay, self.state.lagrange.of_learner());
        }
        let everyone = || population.iter().chain(&learner);
        self.state.values = constraint_values(everyone()); // B_C^g
        self.state.lagrange.remember(&self.state.values);
        (self.state.first, self.state.last) = (ranked.first().copied(), ranked.last().copied());

        let steps = everyone().map(|r| r.episode.steps() as u64).sum();
        arena.env_steps += steps;
        self.state.learning = self.replay.len() >= arena.config.learner.learning_starts;
        let constraints = arena.spec.constraints.len();
        let (played, rolled) = (constraint_values(&population), constraint_values(&learner));
        let some = |values: Vec<f64>| (!population.is_empty()).then_some(values);
        let share = |sum: f64| (!population.is_empty()).then(|| sum / population.len() as f64);
        let kept = population.iter().filter(|r| r.episode.is_feasible()).count() as f64;
        let record = Generation {
            generation: arena.generation,
            env_steps: arena.env_steps,
            rollout_reward: Some(mean(learner.iter().map(|r| r.episode.reward()))),
            rollout_cost: Some(mean_costs(&rolled, constraints)),
            population_reward_mean: share(population.iter().map(|r| r.episode.reward()).sum()),
            population_cost_mean: some(mean_costs(&played, constraints)),
            population_feasible: share(kept),
            lambda_mean: some(mean_costs(&lambdas, constraints)),
            learner_copy: fate,
            unstable: everyone().filter(|r| r.unstable).count(),
            replay: self.replay.len(),
            ..Generation::default()
        };
        let updates = self.updates_due(arena, steps);
        Pending::new(record, steps, updates)
    }

    /// SAC on r - λ·c.
    fn update(&mut self, arena: &Arena) -> Figures {
        let key = |half| [arena.config.seed, Stream::Update as u64, arena.grad_steps, half];
        let mut rngs = [cmdp::rng(key(0)), cmdp::rng(key(1))];
        let losses = self.sac.update(&self.replay, &mut rngs);
        Figures {
            critic: (losses.critic[0] + losses.critic[1]) / 2.0,
            actor: losses.actor,
            entropy: losses.entropy,
            ..Figures::default()
        }
    }

    /// Lines 25-30 of Algorithm 1.
    fn conclude(&mut self, arena: &Arena, record: &mut Generation, _means: Option<Figures>) {
        if self.state.learning {
            self.state.lagrange.raise_learner(&self.state.values, &arena.spec.constraints);
        }
        if arena.generation.is_multiple_of(arena.config.evolution.sync_period)
            && let Some(last) = self.state.last
        {
            self.inject_learner(arena, last); // and raise that slot's multiplier
        }
        record.lambda_learner = self.state.lagrange.of_learner().to_vec();
    }

    fn actor(&self) -> Mlp {
        self.sac.actor().clone()
    }

    /// An elite: variation has left it as it was ranked.
    fn champion(&self) -> Option<Mlp> {
        self.state.first.map(|slot| self.population[slot].clone())
    }

    fn census(&self) -> Option<&Census> {
        self.state.census.as_ref()
    }

    fn broken_tensor(&self) -> Option<String> {
        self.sac.broken_tensor()
    }

    fn replay(&self) -> Option<&Replay> {
        Some(&self.replay)
    }

    fn replay_mut(&mut self) -> Option<&mut Replay> {
        Some(&mut self.replay)
    }

    fn save(&self, store: &mut Store) -> Value {
        let adam_steps = self.sac.save(store);
        for (slot, actor) in self.population.iter().enumerate() {
            store.add_mlp(&format!("population{slot}"), actor);
        }
        let state = State { adam_steps, ..self.state.clone() };
        serde_json::to_value(state).expect("plain data")
    }

    fn load(&mut self, store: &Store, rest: Value, replay: StoredReplay) -> Result<(), String> {
        let state: State = serde_json::from_value(rest).map_err(|e| e.to_string())?;
        let mut sac = self.sac.clone();
        sac.load(store, &state.adam_steps).map_err(|e| e.to_string())?;
        let slots = self.population.iter().enumerate();
        let population = slots
            .map(|(slot, actor)| store.mlp_like(&format!("population{slot}"), actor))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| e.to_string())?;
        let slots = [state.injected, state.first, state.last];
        let beyond = slots.iter().flatten().any(|&slot| slot >= population.len());
        let fits = state.lagrange.fits(&self.state.lagrange);
        if state.descents.len() != population.len() || beyond || !fits {
            return Err("its population has another size".into());
        }
        if !self.replay.restore(replay.segments, replay.len, replay.next) {
            return Err("its replay buffer has another size".into());
        }
        (self.sac, self.population, self.state) = (sac, population, state);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use super::*;
    use crate::config::Layers;
    use crate::trainer::{TrainError, Trainer};
    use cmdp::{Constraint, Env, PointMass};

    fn evolution(trainer: &Trainer) -> &Evolution {
        (&*trainer.method as &dyn Any).downcast_ref().unwrap()
    }

    fn trainer(algorithm: &str, more: &str) -> Trainer {
        let mut layers = Layers::default();
        let small = "task = \"point-mass\"\nconstraints = [\"force<=0.1\"]\n";
        let config = "[sac]\nhidden = [16]\nbatch = 16\n[learner]\nlearning_starts = 500\n";
        layers.toml(&format!("{small}{config}{more}")).unwrap();
        layers.set("algorithm", algorithm);
        let config = layers.build().unwrap();
        let constraints = Constraint::parse_all(&config.constraints, &PointMass::COSTS).unwrap();
        let make = || -> Result<Box<dyn Env>, TrainError> {
            Ok(Box::new(PointMass::new(constraints.clone())?))
        };
        Trainer::new(config, 2, make).unwrap()
    }

    fn step(trainer: &mut Trainer) -> Generation {
        trainer.generation(&mut |_| true).unwrap().unwrap()
    }

    /// The multipliers stored with transitions from `first` on, each named once, in order.
    fn stored(trainer: &Trainer, first: usize) -> Vec<f32> {
        let mut all: Vec<f32> = (first..evolution(trainer).replay.len())
            .map(|i| evolution(trainer).replay.get(i).multipliers[0])
            .collect();
        all.dedup();
        all
    }

    fn slots(trainer: &Trainer) -> Vec<Vec<f64>> {
        (0..10).map(|slot| evolution(trainer).state.lagrange.of_slot(slot).to_vec()).collect()
    }

    fn single(lambda: &[Vec<f64>]) -> Vec<f32> {
        lambda.iter().map(|values| values[0] as f32).collect()
    }

    #[test]
    fn every_transition_keeps_the_multiplier_it_was_collected_with() {
        for algorithm in ["ecrl", "bc"] {
            let mut trainer = trainer(algorithm, "[multipliers]\neta = 0.1\n");
            let (mut expected, mut first) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                expected.extend(single(&slots(&trainer)));
                expected.push(evolution(&trainer).state.lagrange.of_learner()[0] as f32);
                first.push(slots(&trainer));
                step(&mut trainer);
            }
            assert_eq!(stored(&trainer, 0), expected, "{algorithm}");
            // Each generation raises the one slot that the learner took.
            for pair in first.windows(2) {
                let changed = pair[0].iter().zip(&pair[1]).filter(|(a, b)| a != b).count();
                assert_eq!(changed, 1, "{algorithm}");
            }
            let distinct = &first[0];
            assert!(distinct.iter().all(|l| (0.0..1.0).contains(&l[0])), "{distinct:?}");
        }
    }

    #[test]
    fn the_other_algorithms_store_one_multiplier_for_all() {
        for (algorithm, expected) in
            [("erl", 0.0), ("sr", 0.0), ("sac", 0.0), ("erl-shaped", 0.25), ("sr-shaped", 0.25)]
        {
            let mut trainer = trainer(algorithm, "[multipliers]\nlambda = 0.25\neta = 0.1\n");
            (0..3).for_each(|_| _ = step(&mut trainer));
            assert_eq!(stored(&trainer, 0), [expected], "{algorithm}");
        }
        for algorithm in ["rcpo-erl", "rcpo"] {
            let mut trainer = trainer(algorithm, "[multipliers]\nlambda = 0.25\neta = 0.1\n");
            for _ in 0..4 {
                let (first, lambda) = (
                    evolution(&trainer).replay.len(),
                    evolution(&trainer).state.lagrange.of_learner()[0] as f32,
                );
                step(&mut trainer);
                assert_eq!(stored(&trainer, first), [lambda], "{algorithm}");
            }
            assert_ne!(evolution(&trainer).state.lagrange.of_learner(), [0.25], "{algorithm}");
        }
    }

    #[test]
    fn the_learner_joins_the_population_every_sync_period_and_never_on_an_elite() {
        let mut trainer = trainer("ecrl", "[evolution]\nsync_period = 2\n");
        let mut fates = 0;
        for n in 1..=30 {
            let record = step(&mut trainer);
            let census = evolution(&trainer).state.census.clone().unwrap();
            let learners: Vec<&Individual> = census
                .individuals
                .iter()
                .filter(|one| one.descent.origin == Origin::Learner)
                .collect();
            // Injected at the end of an even generation, ranked in the odd one that follows.
            assert_eq!(learners.len(), usize::from(n % 2 == 1 && n > 1), "generation {n}");
            assert_eq!(record.learner_copy.is_some(), n % 2 == 1 && n > 1);
            fates += u64::from(record.learner_copy.is_some());
            if n % 2 == 0 {
                let slot = evolution(&trainer).state.injected.unwrap();
                let last = census.individuals.last().unwrap();
                assert!(!last.elite && last.slot == slot);
                assert_eq!(
                    evolution(&trainer).population[slot].params(),
                    evolution(&trainer).sac.actor().params()
                );
            }
        }
        let Fates { elite, selected, discarded } = evolution(&trainer).state.fates;
        assert_eq!(elite + selected + discarded, fates);
    }

    #[test]
    fn the_champion_is_tested_as_it_was_ranked() {
        let mut trainer = trainer("ecrl", "[test]\nevery = 0\n");
        for _ in 0..5 {
            let before = evolution(&trainer).population.clone();
            let record = step(&mut trainer);
            let first = evolution(&trainer).state.census.as_ref().unwrap().individuals[0].slot;
            assert_eq!(evolution(&trainer).population[first], before[first]);
            assert!(record.champion_reward.is_some());
        }
    }

    #[test]
    fn gradient_steps_follow_the_configured_ratio() {
        let mut trainer = trainer("ecrl", "grad_steps_per_env_step = 0.25\n");
        let records: Vec<Generation> = (0..3).map(|_| step(&mut trainer)).collect();
        let steps = records[2].env_steps - records[1].env_steps;
        let updates = records[2].grad_steps - records[1].grad_steps;
        assert_eq!(updates, (steps as f64 / 4.0).round() as u64);
    }
}
