//! A population at work: what became of each member, who was copied and who left, and all of them between reward
//! and cost.

use std::collections::BTreeMap;

use ecrl::metrics::{ENV_STEPS, GENERATION};
use ecrl::population::census::{Census, Fates, Individual};
use ecrl::population::variation::Origin;

use crate::figure::{self, Frame, STEPS};
use crate::page::{OTHER, PLAIN, POINTS, THIRD, named};
use crate::runs::Run;

/// Dots in a run's scatter of the population.
const DOTS: usize = 400;
/// Members that are named, and copies that are marked: more would hide the lines.
const NAMED: usize = 6;
const MARKED: usize = 60;

/// The small panels of a run's population; nothing where it has none.
pub fn panels(run: &Run) -> String {
    let population = run.population();
    if population.is_empty() {
        return String::new();
    }
    let steps: BTreeMap<u64, f64> = run
        .generations
        .iter()
        .filter_map(|g| Some((g.get(&GENERATION)?, g.get(&ENV_STEPS)? as f64)))
        .collect();
    let timed: Vec<(f64, &Census)> = population
        .iter()
        .filter_map(|census| Some((*steps.get(&census.generation)?, census)))
        .collect();
    let mut svg = members(run, &timed, ("return", "return"), None, |one| Some(one.reward));
    for (i, constraint) in run.constraints.iter().enumerate() {
        let cost = format!("{} {}", constraint.aggregate.name(), constraint.name);
        let bound = Some(constraint.threshold);
        svg += &members(run, &timed, (&cost, "J_C"), bound, |one| one.cost.get(i).copied());
        let lambda = format!("\u{3bb} of {}", constraint.name);
        svg += &members(run, &timed, (&lambda, "\u{3bb}"), None, |one| one.lambda.get(i).copied());
    }
    // A population that no learner is copied into has no fates to tell.
    if population.iter().any(|census| census.learner_copies != Fates::default()) {
        svg += &copies(&timed);
    }
    svg + &scatter(run, &population)
}

/// A line for each member, with a dot where it became a copy, in the colour of whom it copies, and where it left.
fn members(
    run: &Run,
    population: &[(f64, &Census)],
    (what, unit): (&str, &str),
    bound: Option<f64>,
    value: impl Fn(&Individual) -> Option<f64>,
) -> String {
    let step = population.len().div_ceil(POINTS).max(1);
    let mut lines: BTreeMap<usize, Vec<(f64, f64)>> = BTreeMap::new();
    let mut marks: Vec<(usize, (f64, f64))> = Vec::new();
    for (i, (at, census)) in population.iter().enumerate() {
        for one in &census.individuals {
            let Some(value) = value(one) else { continue };
            if i % step == 0 || i + 1 == population.len() {
                lines.entry(one.slot).or_default().push((*at, value));
            }
            if let (Origin::Copy, [parent]) = (one.descent.origin, &one.descent.parents[..]) {
                marks.push((*parent, (*at, value)));
            }
        }
    }
    let end = population.last().map_or(1.0, |last| last.0);
    if marks.len() > MARKED {
        marks.clear();
    }
    for (slot, points) in &lines {
        marks.extend(points.last().filter(|last| last.0 < end).map(|last| (*slot, *last)));
    }
    let title = format!("{what} of each member");
    let values = lines.values().flatten().map(|point| point.1).chain(bound);
    let frame = Frame::new(&title, (0.0, run.steps() as f64), values);
    let mut svg = frame.axes(&title, [STEPS, unit]);
    let names: Vec<String> = lines.keys().map(|slot| format!("member {slot:3}")).collect();
    let styles = figure::styles(names.iter().map(String::as_str));
    let style = |slot: usize| styles.get(&format!("member {slot:3}")).copied().unwrap_or(THIRD);
    for (i, (&slot, points)) in lines.iter().enumerate() {
        svg += &frame.line(points.iter().copied(), &style(slot), 1.2);
        if lines.len() <= NAMED {
            svg += &named(&style(slot), &format!("member {slot}"), i);
        }
    }
    for (slot, point) in marks {
        svg += &frame.point(point, &style(slot));
    }
    svg += &bound.map_or(String::new(), |bound| frame.threshold(bound));
    frame.svg("small", &svg)
}

fn copies(population: &[(f64, &Census)]) -> String {
    let points: Vec<(f64, [f64; 3])> = population
        .iter()
        .map(|(at, census)| {
            let fates = census.learner_copies;
            (*at, [fates.elite, fates.selected, fates.discarded].map(|n| n as f64))
        })
        .collect();
    let end = points.last().map_or(1.0, |p| p.0);
    let title = "learner's copies so far";
    let frame = Frame::new(title, (0.0, end), points.iter().flat_map(|p| p.1));
    let mut svg = frame.axes(title, [STEPS, "copies"]);
    for (i, (name, style)) in
        [("elite", PLAIN), ("selected", OTHER), ("discarded", THIRD)].iter().enumerate()
    {
        svg += &frame.line(points.iter().map(|p| (p.0, p.1[i])), style, 1.6);
        svg += &named(style, name, i);
    }
    frame.svg("small", &svg)
}

fn scatter(run: &Run, population: &[Census]) -> String {
    let everyone: Vec<(f64, f64, bool)> = population
        .iter()
        .flat_map(|census| &census.individuals)
        .filter_map(|one| Some((*one.cost.first()?, one.reward, one.violation == 0.0)))
        .collect();
    let Some(constraint) = run.constraints.first() else { return String::new() };
    let step = everyone.len().div_ceil(DOTS).max(1);
    let some: Vec<_> = everyone.into_iter().step_by(step).collect();
    let most = some.iter().map(|p| p.0).fold(constraint.threshold, f64::max);
    let title = format!("population: reward over {}", constraint.name);
    let frame = Frame::new(&title, (0.0, 1.05 * most), some.iter().map(|p| p.1));
    let below = format!("J_C: {} {}", constraint.aggregate.name(), constraint.name);
    let mut svg = frame.axes(&title, [&below, "return"]) + &frame.limit(constraint.threshold);
    for (kept, style) in [(true, PLAIN), (false, OTHER)] {
        let dots = some.iter().filter(|p| p.2 == kept).map(|p| (p.0, p.1));
        svg += &frame.dots(dots, style.colour);
    }
    svg += &(named(&PLAIN, "kept", 0) + &named(&OTHER, "broken", 1));
    frame.svg("small", &svg)
}
