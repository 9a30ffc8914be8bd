//! What a reader should know before believing a report.

use crate::curves::{self, Aggregate};
use crate::runs::{Run, RunState};

/// What a reader should know: nothing is left out in silence.
pub fn notes(
    runs: &[Run],
    groups: &curves::Groups,
    labels: &[String],
    aggregates: &[Aggregate],
) -> Vec<String> {
    let mut notes = Vec::new();
    for run in runs {
        let (name, taken, all) = (run.path.display(), run.steps(), run.config.steps);
        let far = format!("{taken} of {all} steps");
        let left_out = "in the curves as far as it goes, not in the table";
        match &run.state {
            RunState::Finished => {}
            RunState::Going => notes.push(format!("{name} is still going, at {far}: {left_out}.")),
            RunState::Unfinished => notes.push(format!("{name} stopped at {far}: {left_out}.")),
            RunState::Failed(reason) => {
                notes.push(format!("{name} failed at {far} ({reason}): {left_out}."));
            }
        }
    }
    for run in runs {
        let name = run.path.display();
        for origin in run.origins.iter().filter(|origin| !origin.changes.is_empty()) {
            let (at, changes) = (origin.at, origin.changes.join("; "));
            notes.push(format!("{name} was changed at {at} steps: {changes}."));
        }
        if run.reached() {
            let (until, steps) = (run.config.test.until.join(", "), run.steps());
            notes.push(format!("{name} ended at {steps} steps, when it had come to {until}."));
        }
    }
    for (panel, labels) in groups {
        let seeds_of = |runs: &Vec<&Run>| -> Vec<u64> {
            let mut seeds: Vec<u64> = runs.iter().map(|run| run.config.seed).collect();
            seeds.sort_unstable();
            seeds
        };
        let mut all: Vec<u64> = labels.values().flat_map(seeds_of).collect();
        all.sort_unstable();
        all.dedup();
        for (label, runs) in labels {
            let seeds = seeds_of(runs);
            let missing: Vec<String> =
                all.iter().filter(|s| !seeds.contains(s)).map(u64::to_string).collect();
            if !missing.is_empty() {
                let list = missing.join(", ");
                notes
                    .push(format!("{panel}, {label}: no run with seed {list}, which others have."));
            }
        }
    }
    let finished = runs.iter().filter(|run| run.state == RunState::Finished);
    match finished.filter(|run| run.best().is_none()).count() {
        0 => {}
        n => notes.push(format!(
            "{n} of the runs are of an earlier version, which did not test its best policy again: their \
             best policies are not in the table."
        )),
    }
    let mut panels: Vec<&Run> = runs.iter().collect();
    panels.sort_by_key(|run| &run.panel);
    panels.dedup_by_key(|run| &run.panel);
    for pair in panels.windows(2) {
        if pair[0].config.task == pair[1].config.task {
            notes.push(format!(
                "{}: runs with different constraints; each set has its own panels.",
                pair[0].config.task
            ));
        }
    }
    let without: Vec<&str> = labels
        .iter()
        .map(String::as_str)
        .filter(|label| aggregates.iter().all(|a| a.algorithm != *label))
        .collect();
    if !without.is_empty() {
        notes.push(format!(
            "Not in the aggregates, for want of a finished run on every task: {}.",
            without.join("; ")
        ));
    }
    if groups.values().flat_map(|labels| labels.values()).any(|runs| runs.len() < 5) {
        notes.push("Fewer than five seeds: read the intervals as hints, not as proof.".into());
    }
    notes.dedup();
    notes
}
