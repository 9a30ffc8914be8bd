//! Does what an environment promises, and names what it does wrong.
//!
//! ```
//! use cmdp::{PointMass, check};
//!
//! let report = check::check(|| Box::new(PointMass::new(vec![]).unwrap()));
//! assert!(report.problems.is_empty(), "{report}");
//! ```

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::RngExt as _;

use crate::{Env, EnvSpec, Rng};

/// Steps that are played at most, in all episodes together.
const STEPS: usize = 2000;
/// Episodes that are played at most.
const EPISODES: usize = 5;

/// What was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// What breaks a promise of [`Env`]; algorithms rely on these.
    pub problems: Vec<String>,
    /// What keeps all promises and is seldom meant.
    pub warnings: Vec<String>,
    /// Steps that were played.
    pub steps: usize,
}

impl Report {
    fn problem(&mut self, text: String) {
        if !self.problems.contains(&text) {
            self.problems.push(text);
        }
    }

    fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, texts) in [("problem", &self.problems), ("warning", &self.warnings)] {
            texts.iter().try_for_each(|text| writeln!(f, "{kind}: {text}"))?;
        }
        let (problems, warnings) = (self.problems.len(), self.warnings.len());
        write!(f, "{} steps played: {problems} problems, {warnings} warnings", self.steps)
    }
}

/// What one episode brought, to be compared to the bit.
#[derive(Debug, PartialEq, Default)]
struct Trace {
    obs: Vec<Vec<u64>>,
    rewards: Vec<u64>,
    costs: Vec<Vec<u64>>,
    ends: Vec<(bool, bool)>,
}

fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

/// Exercises an environment that `make` makes, several times over.
pub fn check(mut make: impl FnMut() -> Box<dyn Env>) -> Report {
    let mut report = Report::default();
    let mut played = || {
        let mut env = make();
        check_spec(env.spec(), &mut report);
        if !report.problems.is_empty() {
            return;
        }
        for seed in 0..EPISODES as u64 {
            let first = episode(&mut *env, seed, &mut report);
            if seed < 2 {
                compare(&first, &episode(&mut *env, seed, &mut Report::default()), &mut report);
                let mut other = make();
                if other.spec() != env.spec() {
                    report.problem("two environments of the task have different specs".into());
                }
                let theirs = episode(&mut *other, seed, &mut Report::default());
                compare(&first, &theirs, &mut report);
            }
            if report.steps >= STEPS || !report.problems.is_empty() {
                break;
            }
        }
        check_capture(&mut *env, &mut *make(), &mut report);
        check_bad_action(&mut *env, &mut report);
    };
    let caught = catch_unwind(AssertUnwindSafe(&mut played));
    if let Err(panic) = caught {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a word");
        report.problem(format!("it panicked: {text}"));
    }
    report
}

fn check_spec(spec: &EnvSpec, report: &mut Report) {
    if spec.name.is_empty() {
        report.problem("spec.name is empty".into());
    }
    for (what, size) in
        [("observation", spec.observation), ("action", spec.action), ("max_steps", spec.max_steps)]
    {
        if size == 0 {
            report.problem(format!("spec.{what} is 0; expected at least 1"));
        }
    }
    for (i, c) in spec.constraints.iter().enumerate() {
        if !c.threshold.is_finite() {
            report.problem(format!("the threshold of {} is {}", c.name, c.threshold));
        }
        let same = |o: &crate::Constraint| o.name == c.name && o.aggregate == c.aggregate;
        if spec.constraints[..i].iter().any(same) {
            report.problem(format!("two constraints on {}({})", c.aggregate.name(), c.name));
        }
    }
}

/// Plays one episode of random actions, at most one step more than the time limit.
fn episode(env: &mut dyn Env, seed: u64, report: &mut Report) -> Trace {
    let spec = env.spec().clone();
    let mut rng: Rng = crate::rng([seed, 0, 0, 1]);
    let mut trace = Trace::default();
    // What is not written shows.
    let mut obs = vec![f64::NAN; spec.observation];
    env.reset(&mut crate::rng([seed, 0, 0, 0]), &mut obs);
    check_numbers("reset", "observation", &obs, report);
    trace.obs.push(bits(&obs));
    let mut action = vec![0.0f32; spec.action];
    for step in 1..=spec.max_steps.min(STEPS) {
        action.fill_with(|| rng.random_range(-1.0..1.0));
        obs.fill(f64::NAN);
        let mut costs = vec![f64::NAN; spec.constraints.len()];
        let brought = env.step(&action, &mut obs, &mut costs);
        report.steps += 1;
        check_numbers("step", "observation", &obs, report);
        check_numbers("step", "cost", &costs, report);
        if !brought.reward.is_finite() {
            report.problem(format!("step: the reward is {}; expected a number", brought.reward));
        }
        for (cost, c) in costs.iter().zip(&spec.constraints).filter(|(cost, _)| **cost < 0.0) {
            report.warn(format!("a step cost {cost} of {}; costs are seldom negative", c.name));
        }
        if brought.unstable && !brought.terminated {
            report.problem("a step was unstable and did not terminate the episode".into());
        }
        trace.obs.push(bits(&obs));
        trace.rewards.push(brought.reward.to_bits());
        trace.costs.push(bits(&costs));
        trace.ends.push((brought.terminated, brought.truncated));
        if brought.truncated && step < spec.max_steps {
            report.problem(format!(
                "step {step} was truncated; expected that at spec.max_steps, {}",
                spec.max_steps
            ));
        }
        if brought.is_last() {
            return trace;
        }
    }
    if spec.max_steps <= STEPS {
        report.problem(format!(
            "the episode went on after spec.max_steps, {}; expected it truncated there",
            spec.max_steps
        ));
    }
    trace
}

fn check_numbers(call: &str, what: &str, numbers: &[f64], report: &mut Report) {
    if let Some(i) = numbers.iter().position(|x| !x.is_finite()) {
        let value = numbers[i];
        report.problem(format!(
            "{call}: {what}[{i}] is {value}, or was not written; expected a number"
        ));
    }
    if let Some(i) = numbers.iter().position(|x| x.abs() > 1e6) {
        report.warn(format!("{call}: {what}[{i}] is {:e}; networks want it near 1", numbers[i]));
    }
}

fn compare(first: &Trace, again: &Trace, report: &mut Report) {
    let what = if first.obs.first() != again.obs.first() {
        "reset gave another observation"
    } else if first.obs != again.obs {
        "the same actions gave other observations"
    } else if first.rewards != again.rewards || first.costs != again.costs {
        "the same actions gave other rewards or costs"
    } else if first.ends != again.ends {
        "the same actions ended the episode elsewhere"
    } else {
        return;
    };
    report.problem(format!(
        "{what} from the same generator: expected all randomness to come from it"
    ));
}

/// What is captured in one environment must go on in another, as it does when a run is resumed.
fn check_capture(env: &mut dyn Env, other: &mut dyn Env, report: &mut Report) {
    let spec = env.spec().clone();
    let (mut obs, mut costs) = (vec![0.0; spec.observation], vec![0.0; spec.constraints.len()]);
    // To and fro, so that the episode lasts.
    let actions = [0.3f32, -0.3].map(|a| vec![a; spec.action]);
    env.reset(&mut crate::rng([9, 0, 0, 0]), &mut obs);
    for t in 0..3 {
        env.step(&actions[t % 2], &mut obs, &mut costs);
    }
    let Some(state) = env.capture() else {
        report.warn(
            "it does not capture its state: on-policy runs begin their episodes anew when resumed"
                .into(),
        );
        return;
    };
    let mut restored = vec![f64::NAN; spec.observation];
    if let Err(error) = other.restore(&state, &mut restored) {
        report.problem(format!("restore refused what capture gave: {error}"));
        return;
    }
    if bits(&restored) != bits(&obs) {
        report.problem("restore wrote another observation than the one captured".into());
    }
    // To the end of the episode, which must come at the same step.
    let mut go_on = |env: &mut dyn Env| {
        let mut all = Vec::new();
        for t in 0..spec.max_steps.min(STEPS) {
            let step = env.step(&actions[t % 2], &mut obs, &mut costs);
            all.push((bits(&obs), bits(&costs), step.reward.to_bits(), step.is_last()));
            if step.is_last() {
                break;
            }
        }
        all
    };
    if go_on(env) != go_on(other) {
        report.problem("after restore the same actions gave something else".into());
    }
}

fn check_bad_action(env: &mut dyn Env, report: &mut Report) {
    let spec = env.spec().clone();
    let (mut obs, mut costs) = (vec![0.0; spec.observation], vec![0.0; spec.constraints.len()]);
    env.reset(&mut crate::rng([9, 0, 0, 0]), &mut obs);
    for (name, value) in [("far out of [-1, 1]", 1e9), ("not a number", f32::NAN)] {
        let step = env.step(&vec![value; spec.action], &mut obs, &mut costs);
        let numbers = [step.reward].into_iter().chain(obs.iter().chain(&costs).copied());
        if numbers.into_iter().any(|x| !x.is_finite()) {
            report.problem(format!(
                "an action {name} gave a number that is not finite; expected it clipped, or the \
                 episode ended as unstable"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Constraint, PointMass, Step};

    fn point_mass() -> PointMass {
        let constraints = Constraint::parse_all(&["force<=0.1"], &PointMass::COSTS).unwrap();
        PointMass::new(constraints).unwrap()
    }

    /// The point mass with a fault.
    struct Faulty(PointMass, &'static str, u64);

    impl Env for Faulty {
        fn spec(&self) -> &EnvSpec {
            self.0.spec()
        }

        fn reset(&mut self, rng: &mut Rng, obs: &mut [f64]) {
            self.0.reset(rng, obs);
            match self.1 {
                "own randomness" => {
                    self.2 += 1;
                    obs[0] += self.2 as f64;
                }
                "panic" => panic!("no world to reset"),
                _ => {}
            }
        }

        fn step(&mut self, action: &[f32], obs: &mut [f64], costs: &mut [f64]) -> Step {
            let step = self.0.step(action, obs, costs);
            match self.1 {
                "nan reward" => Step { reward: f64::NAN, ..step },
                "nan observation" => {
                    obs[1] = f64::NAN;
                    step
                }
                "endless" => Step { truncated: false, ..step },
                "early" => Step { truncated: true, ..step },
                "unwritten cost" => {
                    costs[0] = f64::NAN;
                    step
                }
                _ => step,
            }
        }

        fn capture(&self) -> Option<Vec<f64>> {
            let mut state = self.0.capture()?;
            match self.1 {
                "no capture" => return None,
                "bad capture" => state[0] += 1.0,
                "half a capture" => state[2] = 0.0,
                "refused capture" => state.truncate(1),
                _ => {}
            }
            Some(state)
        }

        fn restore(&mut self, state: &[f64], obs: &mut [f64]) -> Result<(), crate::StateError> {
            self.0.restore(state, obs)
        }
    }

    #[test]
    fn a_sound_environment_has_no_problems() {
        let report = check(|| Box::new(point_mass()));
        assert_eq!((report.problems.len(), report.warnings.len()), (0, 0), "{report}");
        assert!(report.steps >= 100, "{report}");
    }

    #[test]
    fn every_fault_is_named() {
        for (fault, expected) in [
            ("own randomness", "reset gave another observation from the same generator"),
            ("panic", "it panicked: no world to reset"),
            ("nan reward", "step: the reward is NaN"),
            ("nan observation", "step: observation[1] is NaN"),
            ("endless", "the episode went on after spec.max_steps, 60"),
            ("early", "step 1 was truncated; expected that at spec.max_steps, 60"),
            ("unwritten cost", "step: cost[0] is NaN"),
            ("bad capture", "restore wrote another observation"),
            ("half a capture", "after restore the same actions gave something else"),
            ("refused capture", "restore refused what capture gave: state has 1 numbers"),
        ] {
            let report = check(|| Box::new(Faulty(point_mass(), fault, 0)));
            let found = report.problems.iter().any(|text| text.contains(expected));
            assert!(found, "{fault}: {report}");
        }
        let report = check(|| Box::new(Faulty(point_mass(), "no capture", 0)));
        assert!(report.problems.is_empty() && report.warnings.len() == 1, "{report}");
    }
}
