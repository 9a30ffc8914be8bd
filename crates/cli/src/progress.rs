//! What the user sees while it trains: a bar on a terminal, lines elsewhere.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use cmdp::Constraint;
use ecrl::best::TestResult;
use ecrl::context::Times;
use ecrl::metrics::{ENV_STEPS, NEW_BEST, Record};
use ecrl::trainer::Trainer;
use runs::driver::{Observer, Run};
use runs::shell::{printable, quote};

use crate::live::{Live, View, bar};
use crate::standing::{Faces, Standing};
use crate::stop::Stop;
use crate::text::{duration, program};

/// How long a picture on a terminal stays as it is.
const PICTURE: Duration = Duration::from_millis(250);

/// Watches a run.
pub struct Progress<'a, W: Write + Send> {
    output: &'a mut W,
    quiet: bool,
    stop: Stop,
    /// Where there is a terminal.
    live: Option<Live>,
    drawn: Option<Instant>,
    title: String,
    constraints: Vec<Constraint>,
    steps: u64,
    taken: u64,
    speed: Speed,
    standing: Option<Standing>,
    last_line: Instant,
}

/// Steps a second of late, in this process: a run that was resumed has its own.
struct Speed(VecDeque<(Instant, u64)>);

impl Speed {
    /// Over which it is measured.
    const WINDOW: Duration = Duration::from_secs(60);

    fn new(steps: u64) -> Self {
        Self([(Instant::now(), steps)].into())
    }

    fn note(&mut self, now: Instant, steps: u64) {
        if self.0.back().is_none_or(|last| now - last.0 >= Duration::from_millis(500)) {
            self.0.push_back((now, steps));
            while self.0.len() > 2 && now - self.0[1].0 >= Self::WINDOW {
                self.0.pop_front();
            }
        }
    }

    fn per_second(&self) -> Option<f64> {
        let ((start, before), (end, after)) = (self.0.front()?, self.0.back()?);
        let (seconds, steps) = ((*end - *start).as_secs_f64(), after.saturating_sub(*before));
        (steps > 0 && seconds > 0.0).then(|| steps as f64 / seconds)
    }

    /// In words, with the time that so many steps will take.
    fn text(&self, left: u64) -> String {
        match self.per_second() {
            None => "eta ?".into(),
            Some(speed) => format!("{speed:.0}/s  eta {}", duration(left as f64 / speed)),
        }
    }
}

impl<'a, W: Write + Send> Progress<'a, W> {
    /// Watches a run from where it is; `stop` ends it.
    pub fn new(run: &Run, view: View, stop: Stop, output: &'a mut W) -> Self {
        let trainer = run.trainer();
        let config = trainer.config();
        let mut progress = Self {
            output,
            quiet: view == View::Quiet,
            stop,
            live: view.live(),
            drawn: None,
            title: format!("{} on {}", config.algorithm, config.task),
            constraints: trainer.spec().constraints.clone(),
            steps: config.steps,
            taken: trainer.env_steps(),
            speed: Speed::new(trainer.learnt_steps_so_far()),
            standing: None,
            last_line: Instant::now(),
        };
        let longest = trainer.longest_generation();
        if longest > config.steps / 10 && !trainer.is_done() {
            let steps = config.steps;
            progress.say(&format!(
                "note: generations are played whole, up to {longest} steps: it may be more than {steps}\n"
            ));
        }
        progress
    }

    /// Nobody may read any more (a closed pipe, a full disk): train on in silence.
    fn say(&mut self, text: &str) {
        if !self.quiet {
            let written = self.output.write_all(text.as_bytes()).and_then(|()| self.output.flush());
            self.quiet = written.is_err();
        }
    }

    /// Where there is no terminal, a line.
    fn line(&mut self, text: &str) {
        self.last_line = Instant::now();
        if self.live.is_none() {
            let (taken, steps) = (self.taken, self.steps);
            let speed = self.speed.text(steps.saturating_sub(taken));
            self.say(&format!("{taken:>9}/{steps} steps  {speed}  {text}\n"));
        }
    }

    /// Where there is one, a picture.
    fn draw(&mut self) {
        let Some(live) = &mut self.live else { return };
        if self.quiet {
            return;
        }
        self.drawn = Some(Instant::now());
        let (taken, steps) = (self.taken.min(self.steps), self.steps);
        let share = taken as f64 / steps as f64;
        let speed = self.speed.text(steps - taken);
        let end = format!("{:>3.0} %  {taken}/{steps} steps  {speed}", 100.0 * share);
        let mut lines = vec![bar(&self.title, share, &end)];
        lines.extend(self.standing.iter().flat_map(|standing| standing.table(&self.constraints)));
        self.quiet = live.draw(self.output, &lines).is_err();
    }

    /// Says how it went, where all is and, if `advise`, what can be typed next; `early` where it did not
    /// come to its end.
    pub fn finish(&mut self, run: &mut Run, early: bool, advise: bool) {
        if let Some(live) = &mut self.live {
            let _ = live.clear(self.output);
        }
        if !self.quiet {
            let gone = run.is_gone();
            let told = self.summary(run, early).and_then(|()| match gone {
                true => Ok(()),
                false => self.saved(run).and_then(|()| match advise {
                    true => self.advice(run, early),
                    false => Ok(()),
                }),
            });
            let _ = told.and_then(|()| self.output.flush());
        }
    }

    fn summary(&mut self, run: &Run, early: bool) -> io::Result<()> {
        let trainer = run.trainer();
        let (config, times) = (trainer.config(), trainer.times());
        let total = times.total;
        let o = &mut *self.output;
        let (verb, taken) = (if early { "stopped" } else { "trained" }, trainer.env_steps());
        writeln!(o, "{verb} {}: {taken} steps in {}", self.title, duration(total))?;
        if taken > config.steps {
            writeln!(o, "  {} were asked for: generations are played whole", config.steps)?;
        }
        if trainer.has_reached() {
            writeln!(o, "  it has come to {}", config.test.until.join(", "))?;
        }
        let best = trainer.best().map(|best| best.result.clone());
        let faces = |best: TestResult| Faces { mean: best.mean, sampled: best.sampled };
        let mut standing = self.standing.take().unwrap_or_default();
        standing.best = best.clone().map(faces);
        for line in standing.table(&self.constraints) {
            writeln!(o, "  {line}")?;
        }
        match best {
            Some(best) => {
                let (steps, episodes) = (best.env_steps, config.test.retest_episodes);
                writeln!(
                    o,
                    "  the best is of step {steps}, tested on {episodes} new episodes each way"
                )?;
                if !best.is_feasible() {
                    writeln!(o, "  none kept every constraint both ways: it came closest")?;
                }
            }
            None => {
                let every = config.test.retest_every;
                writeln!(
                    o,
                    "  there is no best yet: it is chosen every {every} steps and at the end"
                )?;
            }
        }
        let Times { collect, updates, tests, physics, .. } = times;
        let phases = [("playing", collect), ("updates", updates), ("tests", tests)];
        let phases = phases.map(|(name, time)| format!("{name} {:.1} %", 100.0 * time / total));
        let physics = 100.0 * physics / total;
        writeln!(o, "time: {}; physics, a part of that: {physics:.1} %", phases.join(", "))?;
        Ok(())
    }

    /// Where all is.
    fn saved(&mut self, run: &Run) -> io::Result<()> {
        let shown = printable(&run.path().display().to_string());
        let o = &mut *self.output;
        let checkpoint = run.last_checkpoint().map_or("no checkpoint".into(), |(steps, bytes)| {
            format!("checkpoint of step {steps}, {:.1} MB", bytes as f64 / 1e6)
        });
        match run.policy_is_saved() {
            true => writeln!(o, "saved: {shown}, {checkpoint}"),
            false => writeln!(o, "saved: {shown}, {checkpoint}, but not the last policy"),
        }
    }

    /// What can be done with it.
    fn advice(&mut self, run: &Run, early: bool) -> io::Result<()> {
        let trainer = run.trainer();
        let (config, total) = (trainer.config(), trainer.times().total);
        let path = printable(&quote(&run.path().display().to_string()));
        let o = &mut *self.output;
        writeln!(o, "next:")?;
        let program = program();
        if early {
            writeln!(o, "  {program} resume {path}    go on where it stopped")?;
        }
        let policy = if trainer.best().is_some() { "" } else { " --policy final" };
        writeln!(o, "  {program} eval {path}{policy}    how good the policy is")?;
        writeln!(o, "  {program} play {path}{policy}    watch it")?;
        if config.steps < 1_000_000 && trainer.learnt_steps() > 0 {
            // Updates take the time, and they may begin late.
            let done = trainer.learnt_steps() as f64;
            let hours = duration(1e6 * total / done);
            writeln!(o, "  {program} resume {path} --steps 1e6    to the paper's length: {hours}")?;
        }
        writeln!(o, "  {program} tasks    the other robots")?;
        writeln!(o, "  {program} algorithms    the other algorithms")
    }
}

impl<W: Write + Send> Observer for Progress<'_, W> {
    fn progress(&mut self, steps: u64) {
        let now = Instant::now();
        self.taken = steps;
        self.speed.note(now, steps);
        if self.drawn.is_none_or(|drawn| now - drawn >= PICTURE) {
            self.draw();
        }
        // A generation may take minutes: say at times that it is alive.
        if now - self.last_line >= Duration::from_secs(60) {
            self.line("");
        }
    }

    fn generation(&mut self, record: &Record, _: &Trainer) {
        self.taken = record.get(&ENV_STEPS).unwrap_or(0);
        self.speed.note(Instant::now(), self.taken);
        let Some(standing) = Standing::of(record) else { return };
        let best = if record.get(&NEW_BEST) == Some(true) { "  |  best so far" } else { "" };
        let text = standing.line(&self.constraints) + best;
        self.standing = Some(standing);
        self.line(&text);
        self.draw();
    }

    fn warning(&mut self, text: &str) {
        if let Some(live) = &mut self.live {
            let _ = live.clear(self.output);
        }
        let _ = writeln!(io::stderr(), "warning: {}", printable(text));
    }

    fn should_stop(&self) -> bool {
        self.stop.asked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_run_has_a_speed_of_its_own() {
        let mut speed = Speed::new(100_000);
        assert_eq!(speed.text(1000), "eta ?");
        let start = speed.0[0].0;
        speed.note(start + Duration::from_secs(10), 101_000);
        assert_eq!(speed.text(1000), "100/s  eta 10s");
        // What was long ago does not count.
        speed.note(start + Duration::from_secs(80), 101_000);
        speed.note(start + Duration::from_secs(90), 105_000);
        assert_eq!(speed.text(1000), "50/s  eta 20s");
    }
}
