//! What the user sees of an experiment: an overview on a terminal, lines elsewhere.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use ecrl::config::Config;
use runs::experiment::{Entry, Event, Experiment, Observer, State, count, seconds_left};
use runs::shell::printable;

use crate::live::{Live, View};
use crate::standing::columns;
use crate::stop::Stop;
use crate::text::duration;

/// A terminal on which the overview is drawn over the last one; elsewhere, lines.
pub struct Screen<'a, W: Write> {
    output: &'a mut W,
    stop: Stop,
    live: Option<Live>,
    drawn: Option<Instant>,
}

impl<'a, W: Write> Screen<'a, W> {
    /// Says what there is to do.
    pub fn new(experiment: &Experiment, out: &Path, stop: Stop, output: &'a mut W) -> Self {
        let live = View::of_stdout(false).live();
        let mut screen = Self { output, stop, live, drawn: None };
        let asked = &experiment.call().asked;
        let header = format!(
            "{} runs in {}: {} done, {} at a time with {} thread{} each\n",
            experiment.entries.len(),
            printable(&out.display().to_string()),
            count(&experiment.entries, |state| *state == State::Done),
            asked.at_once.unwrap_or(experiment.entries.len()),
            asked.threads,
            if asked.threads == 1 { "" } else { "s" }
        );
        screen.print(&header);
        screen
    }

    /// Draws the overview for the last time.
    pub fn close(&mut self, experiment: &Experiment) {
        self.draw(experiment);
    }

    fn draw(&mut self, experiment: &Experiment) {
        if let Some(live) = &mut self.live {
            let _ = live.draw(self.output, &overview(&experiment.entries));
            self.drawn = Some(Instant::now());
        }
    }

    /// Nobody may read any more (a closed pipe, a full disk): the experiment goes on in silence.
    fn print(&mut self, text: &str) {
        let _ = self.output.write_all(text.as_bytes()).and_then(|()| self.output.flush());
    }
}

impl<W: Write> Observer for Screen<'_, W> {
    fn event(&mut self, event: &Event) {
        if self.live.is_some() {
            return;
        }
        let line = match event {
            Event::Started(name) => format!("started  {name}\n"),
            Event::Resumed(name) => format!("resumed  {name}\n"),
            Event::Done(name, seconds) => format!("done     {name} in {}\n", duration(*seconds)),
            Event::Failed(name, reason) => {
                format!("failed   {name}: {}\n", printable(reason))
            }
        };
        self.print(&line);
    }

    fn tick(&mut self, experiment: &Experiment) {
        if self.drawn.is_none_or(|at| at.elapsed() >= Duration::from_secs(1)) {
            self.draw(experiment);
        }
    }

    fn should_stop(&self) -> bool {
        self.stop.asked()
    }
}

/// Runs of a kind that are listed one by one.
const LISTED: usize = 20;

/// A row for each algorithm and a column for each task, with a sign for each seed; then the runs under
/// way.
pub fn overview(entries: &[Entry]) -> Vec<String> {
    let mut tasks: Vec<&str> = Vec::new();
    let mut rows: Vec<(String, BTreeMap<&str, String>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for Entry { job, state, .. } in entries {
        let Config { task, seed, .. } = &job.config;
        let name = &job.name[task.len() + 1..];
        let name = name.strip_suffix(&format!("-{seed}")).unwrap_or(name).to_owned();
        if !tasks.contains(&task.as_str()) {
            tasks.push(task);
        }
        let row = *places.entry(name.clone()).or_insert_with(|| {
            rows.push((name, BTreeMap::new()));
            rows.len() - 1
        });
        rows[row].1.entry(task).or_default().push(sign(state));
    }
    let mut table: Vec<Vec<String>> =
        vec![[""].iter().chain(&tasks).map(|t| t.to_string()).collect()];
    for (name, signs) in rows {
        let signs = tasks.iter().map(|task| signs.get(task).cloned().unwrap_or_default());
        table.push([name].into_iter().chain(signs).collect());
    }
    let mut lines = columns(&table);
    lines.push(String::new());
    lines.extend(listed(entries, |Entry { job, state, progress }| {
        let State::Running(place) = state else { return None };
        let (speed, steps) = (progress.speed(), job.config.steps);
        let percent = 100.0 * progress.steps as f64 / steps as f64;
        let left = steps.saturating_sub(progress.steps) as f64 / speed;
        let eta = if speed > 0.0 { duration(left) } else { "?".into() };
        let place = if place.is_empty() { "".into() } else { format!("  on {}", printable(place)) };
        Some(format!("> {}  {percent:.0} %  {speed:.0} steps/s  eta {eta}{place}", job.name))
    }));
    let count = |which: fn(&State) -> bool| count(entries, which);
    let mut parts = vec![
        format!("# {} done", count(|s| *s == State::Done)),
        format!("> {} running", count(|s| matches!(s, State::Running(_)))),
        format!(". {} waiting", count(|s| matches!(s, State::Waiting(_)))),
    ];
    let rare = [
        ("~", "preempted", count(|s| matches!(s, State::Preempted(_)))),
        ("-", "stopped", count(|s| *s == State::Stopped)),
    ];
    let rare = rare.iter().filter(|(.., count)| *count > 0);
    parts.extend(rare.map(|(sign, word, count)| format!("{sign} {count} {word}")));
    parts.push(format!("! {} failed", count(|s| matches!(s, State::Failed(_)))));
    // Nobody goes on with what is stopped: there is no end to tell of.
    if entries.iter().any(|entry| entry.state.is_open()) {
        parts.push(format!("eta {}", seconds_left(entries).map_or("?".into(), duration)));
    }
    lines.push(parts.join("  "));
    lines
}

/// Why runs wait or have failed.
pub fn troubles(entries: &[Entry]) -> Vec<String> {
    let mut lines = listed(entries, |Entry { job, state, .. }| match state {
        State::Failed(reason) => Some(format!("! {}: {}", job.name, printable(reason))),
        _ => None,
    });
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for Entry { state, .. } in entries {
        if let State::Waiting(why) | State::Preempted(why) = state
            && !why.is_empty()
        {
            *reasons.entry(why).or_default() += 1;
        }
    }
    lines.extend(reasons.iter().map(|(why, count)| format!(". {count} wait: {}", printable(why))));
    lines
}

fn sign(state: &State) -> char {
    match state {
        State::Waiting(_) => '.',
        State::Preempted(_) => '~',
        State::Running(_) => '>',
        State::Stopped => '-',
        State::Done => '#',
        State::Failed(_) => '!',
    }
}

/// A line for each run that has one, and how many more there are.
fn listed(entries: &[Entry], line: impl Fn(&Entry) -> Option<String>) -> Vec<String> {
    let mut lines: Vec<String> = entries.iter().filter_map(line).collect();
    let more = lines.len().saturating_sub(LISTED);
    lines.truncate(LISTED);
    lines.extend((more > 0).then(|| format!("  and {more} more")));
    lines
}
