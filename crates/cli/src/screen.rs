//! What the user sees of an experiment: an overview on a terminal, lines elsewhere.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use ecrl::config::Config;
use runs::experiment::{Event, Experiment, JobState, Observer};
use runs::grid::Job;
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
    pub fn new(experiment: &Experiment, stop: Stop, output: &'a mut W) -> Self {
        let live = View::of_stdout(false).live();
        let mut screen = Self { output, stop, live, drawn: None };
        let header = format!(
            "{} runs in {}: {} done, {} at a time with {} thread{} each\n",
            experiment.jobs.len(),
            printable(&experiment.out().display().to_string()),
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
        self.draw(experiment);
    }

    fn draw(&mut self, experiment: &Experiment) {
        if let Some(live) = &mut self.live {
            let _ = live.draw(self.output, &overview(experiment));
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

/// A row for each algorithm and a column for each task, with a sign for each seed; then the runs under
/// way.
fn overview(experiment: &Experiment) -> Vec<String> {
    let mut tasks: Vec<&str> = Vec::new();
    let mut rows: Vec<(String, BTreeMap<&str, String>)> = Vec::new();
    for (job, state) in experiment.jobs.iter().zip(&experiment.states) {
        let Config { task, seed, .. } = &job.config;
        let name = &job.name[task.len() + 1..];
        let name = name.strip_suffix(&format!("-{seed}")).unwrap_or(name).to_owned();
        if !tasks.contains(&task.as_str()) {
            tasks.push(task);
        }
        let row = rows.iter().position(|row| row.0 == name).unwrap_or_else(|| {
            rows.push((name, BTreeMap::new()));
            rows.len() - 1
        });
        let sign = match state {
            JobState::Waiting => '.',
            JobState::Running => '>',
            JobState::Done => '#',
            JobState::Failed(_) => '!',
        };
        rows[row].1.entry(task).or_default().push(sign);
    }
    let mut table: Vec<Vec<String>> =
        vec![[""].iter().chain(&tasks).map(|t| t.to_string()).collect()];
    for (name, signs) in rows {
        let signs = tasks.iter().map(|task| signs.get(task).cloned().unwrap_or_default());
        table.push([name].into_iter().chain(signs).collect());
    }
    let mut lines = columns(&table);
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
        "# {} done  > {} running  . {} waiting  ! {} failed  eta {}",
        experiment.count(|s| *s == JobState::Done),
        experiment.running.len(),
        experiment.count(|s| *s == JobState::Waiting),
        experiment.count(|s| matches!(s, JobState::Failed(_))),
        experiment.seconds_left().map_or("?".into(), duration)
    ));
    lines
}
