//! The constrained family on the point mass: everybody keeps the constraint and earns near the best that it
//! allows, without one they earn more, and nobody keeps a bound on a mean by ending early.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cmdp::{Constraint, Env, EnvSpec, PointMass, Rng, Step};
use ecrl::algorithms::ALGORITHMS;
use ecrl::config::{Config, Layers};
use ecrl::metrics::{LEARNER_COST, LEARNER_REWARD, ROLLOUT_COST, Record};
use ecrl::multipliers::{LAMBDA_LEARNER, Rule};
use ecrl::population::ranking::Ranking;
use ecrl::trainer::Trainer;

/// The best return under `force<=0.1`, and without a constraint: see [`PointMass`].
const CONSTRAINED: f64 = 42.8;
const UNCONSTRAINED: f64 = 51.0;

/// What the sections of an algorithm are set to, where it has them, and the steps of a run.
const SECTIONS: [(&str, &str); 6] = [
    ("ppo", "hidden = [64, 64]\ngamma = 0.95\ncost_gamma = 0.95\nlr = 1e-3\nmargin = 0.0\n"),
    (
        "actor_critic",
        "hidden = [64, 64]\ngamma = 0.95\ncost_gamma = 0.95\nlr = 1e-3\nlr_decay = true\ncollect = 1024\nbatch = 64\nmargin = 0.0\n",
    ),
    ("learner", "learning_starts = 1000\nepisodes = 5\n"),
    (
        "sac",
        "hidden = [64, 64]\nbatch = 128\nalpha = 0.02\ntau = 0.01\nactor_lr = 1e-3\ncritic_lr = 1e-3\n",
    ),
    (
        "td3",
        "hidden = [64, 64]\nbatch = 128\ntau = 0.01\nactor_lr = 1e-3\ncritic_lr = 1e-3\nexploration = 0.3\n",
    ),
    ("replay", "capacity = 4000\n"),
];

fn config(algorithm: &str, more: &[&str]) -> Config {
    let mut layers = Layers::default();
    layers.set("algorithm", algorithm);
    let defaults = layers.build().unwrap().sections;
    layers.set("steps", if defaults.contains_key("replay") { 15_000 } else { 60_000 });
    for (section, values) in SECTIONS.iter().filter(|(name, _)| defaults.contains_key(*name)) {
        layers.toml(&format!("[{section}]\n{values}")).unwrap();
    }
    more.iter().for_each(|values| layers.toml(values).unwrap());
    layers.build().unwrap()
}

fn trainer(config: Config, threads: usize, constraints: &[&str]) -> Trainer {
    let make = || {
        let constraints = Constraint::parse_all(constraints, &PointMass::COSTS).unwrap();
        PointMass::new(constraints).map(|env| Box::new(env) as Box<dyn Env>)
    };
    Trainer::new(config, threads, make).unwrap()
}

fn train(config: Config, threads: usize) -> (Trainer, Vec<Record>) {
    let mut trainer = trainer(config, threads, &["force<=0.1"]);
    let mut log = Vec::new();
    while !trainer.is_done() {
        log.push(trainer.generation(&mut |_| true).unwrap().unwrap());
    }
    (trainer, log)
}

/// Its best earns so much of what the constraint allows and keeps it, as far as twenty episodes can tell of
/// who goes along the bound; the last test and what it played in the last third of the run are near it, a third
/// of what goes without.
fn keeps(algorithm: &str, share: f64, more: &[&str]) {
    let (trainer, log) = train(config(algorithm, more), 2);
    let (last, best) = (log.last().unwrap(), &trainer.best().unwrap().result);
    assert!(best.mean.cost[0] <= 0.1 && best.sampled.cost[0] < 0.115, "{algorithm}: {best:?}");
    assert!(best.mean.reward > share * CONSTRAINED, "{algorithm}: {best:?}");
    assert!(last.get(&LEARNER_COST).unwrap()[0] < 0.14, "{algorithm}: {last:?}");
    let late = log[2 * log.len() / 3..].iter().filter_map(|g| g.get(&ROLLOUT_COST));
    let late: Vec<f64> = late.map(|costs| costs[0]).collect();
    let mean = late.iter().sum::<f64>() / late.len() as f64;
    assert!((0.02..0.13).contains(&mean), "{algorithm}: {mean}");
}

/// Earns near the best that there is, at a force above the bound.
fn breaks(algorithm: &str, more: &[&str]) {
    let (_, log) = train(config(algorithm, more), 2);
    let last = log.last().unwrap();
    assert!(last.get(&LEARNER_REWARD).unwrap() > 0.95 * UNCONSTRAINED, "{algorithm}: {last:?}");
    assert!(last.get(&LEARNER_COST).unwrap()[0] > 0.2, "{algorithm}: {last:?}");
}

#[test]
fn without_a_constraint_in_its_objective_the_bound_is_broken() {
    ["ppo", "trpo", "td3"].into_iter().for_each(|algorithm| breaks(algorithm, &[]));
}

#[test]
fn multipliers_on_ppo() {
    keeps("ppo-lag", 0.55, &[]);
    keeps("ppo-pid", 0.6, &[]);
    keeps("rcpo-ppo", 0.5, &["[multipliers]\neta = 0.1\n"]);
    keeps("rcpo-ppo", 0.5, &["[multipliers]\neta = 0.05\n[rcpo]\nscaled = true\n"]);
}

#[test]
fn a_population_that_narrows() {
    // The run is too short for large batches, for who explores and for who looks ten times as far.
    let own = "[ppo]\ncollect = 256\nbatch = 32\n[evolution]\npopulation = 4\nhorizons = [1.0]\n\
               entropies = [0.0]\nlambdas = [1.0]\nhalve_at = [0.2, 0.4]\n";
    let all = |learners: &str| format!("{own}learners = [{learners}]\n");
    for learners in ["'ppo-lag', 'ipo'", "'ppo-lag'", "'rcpo-ppo'", "'ipo'"] {
        keeps("ecrl-ppo", 0.55, &[&all(learners)]);
    }
}

#[test]
fn a_population_that_shares_what_it_plays() {
    let more = "[learner]\nepisodes = 2\n[multipliers]\nlambda = 0.5\neta = 0.1\n";
    keeps("ecrl-sac", 0.8, &[more]);
}

#[test]
fn focops_and_trust_regions() {
    keeps("focops", 0.55, &["[multipliers]\neta = 0.01\n"]);
    keeps("trpo-lag", 0.6, &[]);
    keeps("cpo", 0.65, &[]);
    keeps("pcpo", 0.7, &[]);
    keeps("cup", 0.55, &["[multipliers]\nlambda = 0.5\neta = 0.1\n"]);
}

#[test]
fn primal_and_dual_on_several_time_scales() {
    let values =
        "[actor_critic]\ncollect = 120\nbatch = 120\nlog_sigma = -1.5\n[pdac]\nactor_lr = 3e-3\n";
    keeps("pdac", 0.5, &[values, "[multipliers]\neta = 0.005\n"]);
}

#[test]
fn multipliers_on_critics_of_costs() {
    keeps("sac-lag", 0.8, &["[multipliers]\nlambda = 0.5\neta = 0.1\n"]);
    keeps("sac-pid", 0.8, &["[multipliers]\nlambda = 0.5\nki = 0.1\n"]);
    keeps("td3-lag", 0.75, &["[multipliers]\neta = 0.1\n[td3]\nexploration = 0.05\n"]);
}

/// What evolution is given on so short a run.
const EVOLVED: [(&str, &str); 5] = [
    ("es", "[es]\npopulation = 20\nsigma = 0.1\nlr = 0.05\nhidden = [16]\n"),
    ("cem-rl", "[learner]\nepisodes = 1\n[cem]\npopulation = 4\n[evolution]\nlearning = 2\n"),
    (
        "cerl",
        "[portfolio]\nhorizons = [0.1, 1.0]\n[learner]\nepisodes = 4\n[evolution]\npopulation = 6\n",
    ),
    ("pderl", "[evolution]\npopulation = 6\n"),
    ("supe-rl", "[evolution]\nperiod = 2\n"),
];

#[test]
fn evolution_earns_most_without_a_constraint_in_its_objective() {
    for (algorithm, more) in EVOLVED {
        breaks(algorithm, &[more]);
    }
}

#[test]
fn evolution_with_multipliers() {
    for (algorithm, more) in EVOLVED {
        let rule = "[multipliers]\nrule = \"relative\"\nlambda = 0.5\neta = 0.1\n";
        let ranking = match algorithm {
            "es" => "",
            _ => "[evolution]\nranking = \"feasibility-first\"\n[td3]\nexploration = 0.05\n",
        };
        keeps(algorithm, 0.6, &[more, rule, ranking]);
    }
}

#[test]
fn every_population_takes_every_ranking_and_rule() {
    let taken = |algorithm: &str, ranking: &str, rule: &str| {
        let section = if algorithm == "es" { "es" } else { "evolution" };
        let choice =
            format!("[{section}]\nranking = '{ranking}'\n[multipliers]\nrule = '{rule}'\n");
        let small = "[td3]\nhidden = [8]\nbatch = 8\n[learner]\nlearning_starts = 100\n";
        let small = if algorithm == "es" { "" } else { small };
        let (_, more) = EVOLVED.iter().find(|(name, _)| *name == algorithm).unwrap();
        let mut config = config(algorithm, &[more, small, &choice, "[test]\nevery = 99999\n"]);
        config.steps = 1500;
        config.test.retest_episodes = 1;
        let mut trainer = trainer(config, 2, &["force<=0.01", "sum(force)<=1"]);
        let mut lambdas: Vec<Vec<f64>> = Vec::new();
        while !trainer.is_done() {
            let record = trainer.generation(&mut |_| true).unwrap().unwrap();
            lambdas.push(record.get(&LAMBDA_LEARNER).unwrap());
        }
        let (first, last) = (&lambdas[0], &lambdas[lambdas.len() - 1]);
        // Both constraints are broken: λ rises unless it stands.
        let rises = first.iter().zip(last).all(|(first, last)| first < last);
        assert_eq!(
            rises,
            !["none", "fixed"].contains(&rule),
            "{algorithm} {ranking} {rule}: {lambdas:?}"
        );
    };
    for (algorithm, _) in EVOLVED {
        Ranking::NAMES.into_iter().for_each(|ranking| taken(algorithm, ranking, "relative"));
        let rules =
            Rule::NAMES.into_iter().filter(|rule| algorithm != "es" || *rule != "per-actor");
        rules.for_each(|rule| taken(algorithm, "stochastic", rule));
    }
}

#[test]
fn meta_gradients() {
    keeps("metal", 0.8, &["[metal]\neta = 0.1\n"]);
}

/// A task that can be left: every step brings 0.1 and costs 0.5 + a₀/4, and a₁ above 0.5 ends the episode.
struct Mortal {
    spec: EnvSpec,
    steps: u64,
    /// Episodes ended, of all environments.
    ended: Arc<AtomicU64>,
}

impl Env for Mortal {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn reset(&mut self, _: &mut Rng, obs: &mut [f64]) {
        self.steps = 0;
        obs[0] = 1.0;
    }

    fn step(&mut self, action: &[f32], obs: &mut [f64], costs: &mut [f64]) -> Step {
        self.steps += 1;
        obs[0] = 1.0;
        costs[0] = 0.5 + 0.25 * f64::from(action[0]);
        let (terminated, truncated) = (action[1] > 0.5, self.steps == 50);
        self.ended.fetch_add(u64::from(terminated || truncated), Ordering::Relaxed);
        Step { reward: 0.1, terminated, truncated, unstable: false }
    }
}

#[test]
fn a_constraint_on_a_mean_is_not_kept_by_ending_early() {
    // Nobody can keep this bound: the cost is nearly all that counts, throughout.
    let constraints = vec!["mean(effort)<=0.2".parse::<Constraint>().unwrap()];
    let spec = EnvSpec {
        name: "mortal".into(),
        observation: 1,
        action: 2,
        choices: None,
        max_steps: 50,
        constraints,
    };
    let many = "[multipliers]\nlambda = 100.0\n";
    let on_policy = "hidden = [16]\ncollect = 800\nlr = 3e-3\n";
    for (algorithm, section, more) in [
        ("ipo", "ppo", ""),
        ("ppo-lag", "ppo", many),
        ("rcpo-ppo", "ppo", many),
        ("focops", "actor_critic", many),
        ("cup", "ppo", many),
        ("trpo-lag", "actor_critic", many),
        ("cpo", "actor_critic", ""),
        ("pcpo", "actor_critic", ""),
        ("sac-lag", "sac", many),
        ("td3-lag", "td3", "[multipliers]\nlambda = 10.0\neta = 0.0\n[td3]\nexploration = 0.5\n"),
    ] {
        let off_policy = ["sac", "td3"].contains(&section);
        let values = match off_policy {
            true => format!("[test]\nevery = 99999\n[learner]\nepisodes = 20\n{more}"),
            false => format!("[test]\nevery = 99999\n[{section}]\n{on_policy}{more}"),
        };
        let ended = Arc::new(AtomicU64::new(0));
        let make = || {
            let (spec, ended) = (spec.clone(), Arc::clone(&ended));
            let env = Mortal { spec, steps: 0, ended };
            Ok::<_, std::convert::Infallible>(Box::new(env) as Box<dyn Env>)
        };
        let mut config = config(algorithm, &[&values]);
        config.steps = if off_policy { 5000 } else { 16_000 };
        let mut trainer = Trainer::new(config, 1, make).unwrap();
        let (mut lengths, mut costs) = (Vec::new(), Vec::new());
        while !trainer.is_done() {
            let before = (ended.load(Ordering::Relaxed), trainer.env_steps());
            assert!(trainer.play_and_learn(&mut |_| true).unwrap());
            let steps = (trainer.env_steps() - before.1) as f64;
            lengths.push(steps / (ended.load(Ordering::Relaxed) - before.0) as f64);
            costs.push(trainer.conclude().unwrap().unwrap().get(&ROLLOUT_COST).unwrap()[0]);
        }
        let (first, last) = (lengths[0], lengths[lengths.len() - 5..].iter().sum::<f64>() / 5.0);
        assert!(costs[0] > 0.45 && costs[costs.len() - 1] < 0.36, "{algorithm}: {costs:?}");
        // Uncentred they come down to one or two.
        assert!(first < 10.0 && last > 0.55 * first, "{algorithm}: {lengths:?}");
    }
}

#[test]
fn populations_with_multipliers_give_the_same_bits_on_any_number_of_threads() {
    for (algorithm, more) in EVOLVED {
        for rule in ["relative", "per-actor"]
            .into_iter()
            .filter(|rule| algorithm != "es" || *rule == "relative")
        {
            let rule = format!("[multipliers]\nrule = '{rule}'\neta = 0.1\n");
            let small = || {
                let mut config = config(algorithm, &[more, &rule]);
                config.steps = 2000;
                config.test.every = 1000;
                config.test.retest_episodes = 2;
                config
            };
            let (one, one_log) = train(small(), 1);
            let (three, three_log) = train(small(), 3);
            let bare =
                |log: Vec<Record>| log.into_iter().map(Record::without_times).collect::<Vec<_>>();
            assert_eq!(bare(one_log), bare(three_log), "{algorithm}");
            assert_eq!(one.actor(), three.actor(), "{algorithm}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bits_on_any_number_of_threads_for_all() {
    let small = |algorithm: &str| {
        let mut config = config(algorithm, &[]);
        config.steps = 2500;
        config.test.every = 1000;
        config.test.retest_episodes = 3;
        config
    };
    for row in ALGORITHMS {
        let (one, one_log) = train(small(row.name()), 1);
        let (three, three_log) = train(small(row.name()), 3);
        let bare =
            |log: Vec<Record>| log.into_iter().map(Record::without_times).collect::<Vec<_>>();
        assert_eq!(bare(one_log), bare(three_log), "{}", row.name());
        assert_eq!(one.actor(), three.actor(), "{}", row.name());
    }
}

#[test]
fn all_take_any_number_of_constraints() {
    for row in ALGORITHMS {
        for constraints in [&[][..], &["force<=0.1", "sum(force)<=12"]] {
            let mut config = config(row.name(), &[]);
            config.steps = 2500;
            config.test.every = 2000;
            config.test.retest_episodes = 2;
            let mut trainer = trainer(config, 2, constraints);
            while !trainer.is_done() {
                let record = trainer.generation(&mut |_| true).unwrap().unwrap();
                let costs = record.get(&ROLLOUT_COST).unwrap_or_default();
                assert_eq!(costs.len(), constraints.len(), "{}", row.name());
            }
        }
    }
}
