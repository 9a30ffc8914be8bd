//! Plays a task file at random, and tells what it is like: what its numbers are between, what its costs come to, how
//! fast it is, and what usually goes wrong.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use cmdp::{Aggregate, Constraint, Env as _};
use rand::RngExt as _;

use super::{OwnRobot, OwnTask};

/// What random episodes told of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// The task, and its observation's, action's and episodes' sizes.
    pub task: (String, [usize; 3]),
    /// Simulated seconds of a step.
    pub dt: f64,
    /// Episodes and steps that were played, and episodes that broke down.
    pub played: [usize; 3],
    /// What ended how many episodes.
    pub ended: Vec<(String, usize)>,
    /// Every expression of the observation with its lowest and highest number, and how many of its numbers never
    /// changed.
    pub observed: Vec<(String, [f64; 2], usize)>,
    /// Every term of the reward: its mean, lowest and highest in a step.
    pub terms: Vec<(String, [f64; 3])>,
    /// Every cost: J_C of the lowest, the median and the highest episode.
    pub costs: Vec<(Constraint, [f64; 3])>,
    /// Steps a second on one thread.
    pub speed: f64,
    /// What may be amiss.
    pub warnings: Vec<String>,
}

struct Range {
    low: f64,
    high: f64,
    sum: f64,
    sum_of_sizes: f64,
}

impl Range {
    const NEW: Self =
        Self { low: f64::INFINITY, high: f64::NEG_INFINITY, sum: 0.0, sum_of_sizes: 0.0 };

    fn add(&mut self, x: f64) {
        (self.low, self.high) = (self.low.min(x), self.high.max(x));
        self.sum += x;
        self.sum_of_sizes += x.abs();
    }
}

/// Plays episodes with actions at random: in every other one they change at each step, in the others they are held for
/// twenty. Says what is wrong if the task cannot be played.
pub fn check(task: &Arc<OwnTask>, episodes: usize, seed: u64) -> Result<Check, String> {
    let plan = &task.plan;
    let mut robot =
        OwnRobot::new(task, task.default_constraints()).map_err(|error| error.to_string())?;
    let [observation, action, limit] = task.sizes();
    let mut obs = vec![0.0; observation];
    let mut costs = vec![0.0; plan.costs.len()];
    let mut seen: Vec<Range> = (0..observation).map(|_| Range::NEW).collect();
    let mut terms: Vec<Range> = plan.rewards.iter().map(|_| Range::NEW).collect();
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); plan.costs.len()];
    let mut ended: Vec<(String, usize)> =
        plan.ends.iter().map(|(name, _)| (name.clone(), 0)).collect();
    let (mut steps, mut broken) = (0, 0);
    let begun = Instant::now();
    for episode in 0..episodes {
        let mut rng = cmdp::rng([seed, 0, episode as u64, 0]);
        robot.reset(&mut rng, &mut obs);
        let mut sums = vec![0.0; plan.costs.len()];
        let hold = if episode % 2 == 0 { 1 } else { 20 };
        let mut actions = vec![0.0f32; action];
        let mut length = 0;
        loop {
            obs.iter().zip(&mut seen).for_each(|(x, range)| range.add(*x));
            if length % hold == 0 {
                actions.fill_with(|| rng.random_range(-1.0..=1.0));
            }
            let step = robot.step(&actions, &mut obs, &mut costs);
            if let Some(fault) = robot.failure() {
                return Err(fault);
            }
            robot.spec().verify(&obs, step.reward, &costs).map_err(|error| error.to_string())?;
            length += 1;
            robot.terms().zip(&mut terms).for_each(|((_, x), range)| range.add(x));
            sums.iter_mut().zip(&costs).for_each(|(sum, cost)| *sum += cost);
            if step.is_last() {
                broken += usize::from(step.unstable);
                let why = robot.ended_by();
                ended.iter_mut().filter(|(name, _)| Some(&name[..]) == why).for_each(|e| e.1 += 1);
                break;
            }
        }
        for ((values, sum), cost) in values.iter_mut().zip(sums).zip(&plan.costs) {
            values.push(cost.aggregate.of(sum, length));
        }
        steps += length;
    }
    let speed = steps as f64 / begun.elapsed().as_secs_f64();
    let mut warnings = warnings_of(task, &robot);
    let make = || OwnRobot::new(task, task.default_constraints()).expect("one was made above");
    warnings.extend(cmdp::check::check(|| Box::new(make())).problems);
    let constant = |range: &Range| range.low == range.high;
    let (mut observed, mut at) = (Vec::new(), 0);
    for (text, len) in &plan.observed {
        let ranges = &seen[at..at + len];
        at += len;
        let low = ranges.iter().map(|range| range.low).fold(f64::INFINITY, f64::min);
        let high = ranges.iter().map(|range| range.high).fold(f64::NEG_INFINITY, f64::max);
        let fixed = ranges.iter().filter(|range| constant(range)).count();
        if fixed > 0 {
            let which = if fixed == *len { String::new() } else { format!("{fixed} of ") };
            let text = format!("observe: {which}'{text}' never changes: it tells a policy nothing");
            warnings.push(text);
        }
        observed.push((text.clone(), [low, high], fixed));
    }
    let sizes: Vec<f64> = terms.iter().map(|range| range.sum_of_sizes).collect();
    let whole: f64 = sizes.iter().sum();
    for (term, size) in plan.rewards.iter().zip(&sizes) {
        if terms.len() > 1 && *size > 0.95 * whole {
            let share = 100.0 * size / whole;
            let text = format!(
                "reward: '{}' is {share:.1} % of it all: the other terms hardly count",
                term.name
            );
            warnings.push(text);
        }
    }
    if terms.iter().all(constant) {
        warnings.push("reward: it is the same in every step: there is nothing to learn".into());
    }
    let mut told = Vec::new();
    for ((cost, constraint), values) in
        plan.costs.iter().zip(task.default_constraints()).zip(&mut values)
    {
        values.sort_by(f64::total_cmp);
        let three = [values[0], values[values.len() / 2], values[values.len() - 1]];
        let name = &cost.name;
        if three == [0.0; 3] {
            warnings.push(format!(
                "cost '{name}' is always 0: no random episode comes near what it bounds"
            ));
        } else if three[2] <= cost.threshold {
            warnings.push(format!(
                "cost '{name}': no random episode breaks its bound, {}",
                cost.threshold
            ));
        } else if three[0] > cost.threshold && three[0] == three[2] {
            warnings
                .push(format!("cost '{name}' is {} in every episode, above its bound", three[0]));
        }
        told.push((constraint, three));
    }
    if broken > 0 {
        let text = format!(
            "the simulation broke down in {broken} of {episodes} episodes: a smaller timestep, more damping or \
             armature, or weaker actuators help"
        );
        warnings.push(text);
    }
    if steps < 10 * episodes {
        let mean = steps as f64 / episodes as f64;
        warnings
            .push(format!("episodes end after {mean:.1} steps on the mean: hardly time to act"));
    }
    Ok(Check {
        task: (task.name.clone(), [observation, action, limit]),
        dt: robot.data().model_opt().timestep * plan.frame_skip as f64,
        played: [episodes, steps, broken],
        ended: ended.into_iter().filter(|(_, count)| *count > 0).collect(),
        observed,
        terms: plan
            .rewards
            .iter()
            .zip(&terms)
            .map(|(term, r)| (term.name.clone(), [r.sum / steps as f64, r.low, r.high]))
            .collect(),
        costs: told,
        speed,
        warnings,
    })
}

/// What can be told without playing.
fn warnings_of(task: &OwnTask, robot: &OwnRobot) -> Vec<String> {
    let mut warnings = Vec::new();
    let (model, plan) = (&task.model, &task.plan);
    let unlimited = plan.actuators.iter().filter(|&&i| !model.actuator_ctrllimited()[i]).count();
    if unlimited > 0 && plan.scales.iter().all(|scale| *scale == (1.0, 0.0)) {
        warnings.push(format!(
            "{unlimited} actuators have no control range: an action's -1 to 1 is taken as it is; \
             ctrlrange in the model, or range under [actions], says otherwise"
        ));
    }
    let dt = robot.data().model_opt().timestep * plan.frame_skip as f64;
    if !(0.002..=0.2).contains(&dt) {
        let text =
            format!("a step is {dt:.4} s: most robots are told what to do every 0.01 to 0.1 s");
        warnings.push(text);
    }
    if plan.costs.is_empty() {
        warnings.push("there is no cost: nothing can be bounded".into());
    }
    warnings
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (name, [observation, action, limit]) = &self.task;
        let [episodes, steps, broken] = self.played;
        writeln!(
            f,
            "{name}: observation {observation}, action {action}, at most {limit} steps of {} s",
            number(self.dt)
        )?;
        writeln!(f, "\n{episodes} episodes at random, {steps} steps, {broken} broke down")?;
        for (name, count) in &self.ended {
            writeln!(f, "  {count} ended by {name}")?;
        }
        writeln!(f, "\n{:<44}{:>12}{:>12}", "observed", "lowest", "highest")?;
        for (text, [low, high], _) in &self.observed {
            writeln!(f, "  {text:<42}{:>12}{:>12}", number(*low), number(*high))?;
        }
        writeln!(f, "\n{:<32}{:>12}{:>12}{:>12}", "reward in a step", "mean", "lowest", "highest")?;
        for (name, [mean, low, high]) in &self.terms {
            writeln!(
                f,
                "  {name:<30}{:>12}{:>12}{:>12}",
                number(*mean),
                number(*low),
                number(*high)
            )?;
        }
        if !self.costs.is_empty() {
            let head = "cost of an episode";
            writeln!(
                f,
                "\n{head:<32}{:>12}{:>12}{:>12}{:>12}",
                "lowest", "median", "highest", "bound"
            )?;
        }
        for (constraint, [low, median, high]) in &self.costs {
            let word = if constraint.aggregate == Aggregate::Mean { "mean" } else { "sum" };
            let name = format!("{word}({})", constraint.name);
            writeln!(
                f,
                "  {name:<30}{:>12}{:>12}{:>12}{:>12}",
                number(*low),
                number(*median),
                number(*high),
                number(constraint.threshold)
            )?;
        }
        writeln!(f, "\n{:.0} steps/s on one thread", self.speed)?;
        if !self.warnings.is_empty() {
            writeln!(f)?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}

/// A number with four digits that count.
fn number(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        size if !(1e-3..1e6).contains(&size) => format!("{x:.3e}"),
        size => {
            let decimals = (3 - size.log10().floor() as i32).clamp(0, 6) as usize;
            let text = format!("{x:.decimals$}");
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').into(),
                false => text,
            }
        }
    }
}
