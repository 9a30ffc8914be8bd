//! What the user sees of an experiment: an overview on a terminal, lines elsewhere.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write};
use std::time::{Duration, Instant};

use ecrl::config::Config;
use runs::experiment::{Event, Experiment, JobState, Observer};
use runs::grid::Job;

use crate::stop::Stop;
use crate::text::duration;

/// A terminal on which the overview is drawn over the last one; elsewhere, lines.
pub struct Screen<'a, W: Write> {
    output: &'a mut W,
    stop: Stop,
    live: bool,
    /// Lines of the last overview, and when it was drawn.
    lines: usize,
    drawn: Option<Instant>,
}

impl<'a, W: Write> Screen<'a, W> {
    /// Says what there is to do.
    pub fn new(experiment: &Experiment, stop: Stop, output: &'a mut W) -> Self {
        let mut screen =
            Self { output, stop, live: io::stdout().is_terminal(), lines: 0, drawn: None };
        let header = format!(
            "{} runs in {}: {} done, {} at a time with {} thread{} each\n",
            experiment.jobs.len(),
            experiment.out().display(),
            experiment.count(|state| *state == JobState::Done),
            experiment.slots,
            experiment.threads_each,
            if experiment.threads_each == 1 { "" } else { "s" }
        );
        screen.print(&header);
        screen
    }

    /// Draws the overview for the last time.
    pub fn close(&mut self, experiment: &Experiment) {
        if self.live {
            self.draw(experiment);
        }
    }

    fn draw(&mut self, experiment: &Experiment) {
        let lines = overview(experiment);
        let mut text = String::new();
        if self.lines > 0 {
            text += &format!("\x1b[{}A", self.lines);
        }
        lines.iter().for_each(|line| text += &format!("\x1b[2K{line}\n"));
        self.lines = lines.len();
        self.print(&(text + "\x1b[J"));
        self.drawn = Some(Instant::now());
    }

    /// Nobody may read any more (a closed pipe, a full disk): the experiment goes on in silence.
    fn print(&mut self, text: &str) {
        let _ = self.output.write_all(text.as_bytes()).and_then(|()| self.output.flush());
    }
}

impl<W: Write> Observer for Screen<'_, W> {
    fn event(&mut self, event: &Event) {
        if self.live {
            return;
        }
        let line = match event {
            Event::Started(name) => format!("started  {name}\n"),
            Event::Resumed(name) => format!("resumed  {name}\n"),
            Event::Done(name, seconds) => format!("done     {name} in {}\n", duration(*seconds)),
            Event::Failed(name, reason) => format!("failed   {name}: {reason}\n"),
        };
        self.print(&line);
    }

    fn tick(&mut self, experiment: &Experiment) {
        if self.live && self.drawn.is_none_or(|at| at.elapsed() >= Duration::from_secs(1)) {
            self.draw(experiment);
        }
    }

    fn should_stop(&self) -> bool {
        self.stop.asked()
    }
}

/// A row for each task and a column for each algorithm, with a sign for each seed; then the runs
/// under way.
fn overview(experiment: &Experiment) -> Vec<String> {
    let mut rows: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    let mut columns: Vec<String> = Vec::new();
    for (job, state) in experiment.jobs.iter().zip(&experiment.states) {
        let Config { task, seed, .. } = &job.config;
        let column = &job.name[task.len() + 1..];
        let column = column.strip_suffix(&format!("-{seed}")).unwrap_or(column).to_owned();
        if !columns.contains(&column) {
            columns.push(column.clone());
        }
        let sign = match state {
            JobState::Waiting => '.',
            JobState::Running => '>',
            JobState::Done => '#',
            JobState::Failed(_) => '!',
        };
        rows.entry(task).or_default().entry(column).or_default().push(sign);
    }
    let widths: Vec<usize> = columns
        .iter()
        .map(|c| rows.values().filter_map(|r| r.get(c)).map(String::len).fold(c.len(), usize::max))
        .collect();
    let cells = columns.iter().zip(&widths);
    let head = cells.clone().map(|(c, w)| format!("  {c:<w$}")).collect::<String>();
    let mut lines = vec![format!("{:<13}{head}", "")];
    for (task, row) in &rows {
        let cell =
            |(c, w): (&String, &usize)| format!("  {:<w$}", row.get(c).map_or("", String::as_str));
        lines.push(format!("{task:<13}{}", cells.clone().map(cell).collect::<String>()));
    }
    lines.push(String::new());
    for running in &experiment.running {
        let Job { name, config, .. } = &experiment.jobs[running.job];
        let speed = running.speed();
        let percent = 100.0 * running.steps as f64 / config.steps as f64;
        let left = config.steps.saturating_sub(running.steps) as f64 / speed;
        let eta = if speed > 0.0 { duration(left) } else { "?".into() };
        lines.push(format!("> {name}  {percent:.0} %  {speed:.0} steps/s  eta {eta}"));
    }
    lines.push(format!(
        "{} done, {} running, {} waiting, {} failed  eta {}    (# done, > running, . waiting, ! failed)",
        experiment.count(|s| *s == JobState::Done),
        experiment.running.len(),
        experiment.count(|s| *s == JobState::Waiting),
        experiment.count(|s| matches!(s, JobState::Failed(_))),
        experiment.seconds_left().map_or("?".into(), duration)
    ));
    lines
}
