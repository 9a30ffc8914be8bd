//! What the user sees while it trains: a bar on a terminal, lines elsewhere.

use std::io::{self, IsTerminal as _, Write};
use std::time::{Duration, Instant};

use cmdp::Constraint;
use ecrl::metrics::{
    CHAMPION_COST, CHAMPION_REWARD, CHAMPION_SAMPLED_COST, CHAMPION_SAMPLED_REWARD, ENV_STEPS,
    LEARNER_COST, LEARNER_REWARD, NEW_BEST, Record, SAMPLED_COST, SAMPLED_REWARD, Value,
};
use ecrl::multipliers::LAMBDA_LEARNER;
use ecrl::trainer::Trainer;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use runs::driver::{Observer, Run};

use crate::stop::Stop;
use crate::text::{duration, program};

/// Watches a run.
pub struct Progress<'a, W: Write + Send> {
    output: &'a mut W,
    quiet: bool,
    stop: Stop,
    bar: ProgressBar,
    constraints: Vec<Constraint>,
    steps: u64,
    last_test: String,
    /// When the last line was printed, and the steps taken until then: for the speed since.
    last_line: (Instant, u64),
}

impl<'a, W: Write + Send> Progress<'a, W> {
    pub fn new(run: &Run, quiet: bool, stop: Stop, output: &'a mut W) -> Self {
        let trainer = run.trainer();
        let config = trainer.config();
        let bar = match !quiet && io::stdout().is_terminal() {
            true => ProgressBar::new(config.steps),
            false => ProgressBar::hidden(),
        };
        let style =
            "{bar:20} {percent:>3}%  {human_pos}/{human_len} steps  {speed}  eta {eta}  {msg}";
        let style = ProgressStyle::with_template(style).expect("a valid template");
        let speed = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = write!(out, "{:.0}/s", state.per_sec());
        };
        bar.set_style(style.with_key("speed", speed));
        if !quiet {
            bar.set_message(format!("{} on {}", config.algorithm, config.task));
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        Self {
            output,
            quiet,
            stop,
            bar,
            constraints: trainer.spec().constraints.clone(),
            steps: config.steps,
            last_test: String::new(),
            last_line: (Instant::now(), trainer.env_steps()),
        }
    }

    /// Where there is no bar, a line.
    fn line(&mut self, steps: u64, text: &str) {
        let (since, before) = std::mem::replace(&mut self.last_line, (Instant::now(), steps));
        if self.quiet || !self.bar.is_hidden() {
            return;
        }
        let speed = steps.saturating_sub(before) as f64 / since.elapsed().as_secs_f64();
        let left = duration(self.steps.saturating_sub(steps) as f64 / speed);
        let total = self.steps;
        let line = format!("{steps:>9}/{total} steps  {speed:.0}/s  eta {left}  {text}\n");
        let written = self.output.write_all(line.as_bytes()).and_then(|()| self.output.flush());
        // Nobody reads any more (a closed pipe, a full disk): train on in silence.
        self.quiet = written.is_err();
    }

    /// Says how it went; `early` where it did not come to its end.
    pub fn finish(&mut self, run: &mut Run, early: bool) {
        self.bar.finish_and_clear();
        if !self.quiet {
            let gone = run.is_gone();
            let told = self.summary(run, early).and_then(|()| match gone {
                true => Ok(()),
                false => self.advice(run, early),
            });
            let _ = told.and_then(|()| self.output.flush());
        }
    }

    fn summary(&mut self, run: &Run, early: bool) -> io::Result<()> {
        let trainer = run.trainer();
        let (config, times) = (trainer.config(), trainer.times());
        let total = times.total;
        let (updates, physics) = (100.0 * times.updates / total, 100.0 * times.physics / total);
        let o = &mut *self.output;
        writeln!(
            o,
            "{} {} on {}: {} steps in {}",
            if early { "stopped" } else { "trained" },
            config.algorithm,
            config.task,
            trainer.env_steps(),
            duration(total)
        )?;
        writeln!(
            o,
            "  time   updates {updates:.1} %, physics {physics:.1} %, all else {:.1} %",
            100.0 - updates - physics
        )?;
        if !self.last_test.is_empty() {
            writeln!(o, "  last   {}", self.last_test)?;
        }
        match trainer.best().map(|best| &best.result) {
            Some(best) => {
                writeln!(
                    o,
                    "  best   reward {:.1} (sampled {:.1})  {}(at {} steps; {} new episodes each way{})",
                    best.mean.reward,
                    best.sampled.reward,
                    costs(&best.mean.cost, &best.sampled.cost, &self.constraints),
                    best.env_steps,
                    config.test.retest_episodes,
                    match best.is_feasible() {
                        true => "",
                        false => "; none kept every constraint both ways, this came closest",
                    }
                )?;
            }
            None => {
                let every = config.test.retest_every;
                writeln!(o, "  best   none yet: it is chosen every {every} steps and at the end")?;
            }
        }
        Ok(())
    }

    /// Where all is, and what can be done with it.
    fn advice(&mut self, run: &Run, early: bool) -> io::Result<()> {
        let trainer = run.trainer();
        let (config, total) = (trainer.config(), trainer.times().total);
        let path = run.path().display();
        let o = &mut *self.output;
        let checkpoint = run.checkpoint_bytes().map(|bytes| bytes as f64 / 1e6);
        let checkpoint =
            checkpoint.map_or("no checkpoint".into(), |mb| format!("checkpoint {mb:.1} MB"));
        match run.policy_is_saved() {
            true => writeln!(o, "  saved  {path}, {checkpoint}")?,
            false => writeln!(o, "  saved  {path}: {checkpoint}, but not the last policy")?,
        }
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
            writeln!(
                o,
                "  {program} resume {path} --steps 1e6    on to the paper's length, {hours} in all here"
            )?;
        }
        writeln!(o, "  {program} tasks    the other robots")?;
        writeln!(o, "  {program} algorithms    the other algorithms")
    }
}

impl<W: Write + Send> Observer for Progress<'_, W> {
    fn progress(&mut self, steps: u64) {
        self.bar.set_position(steps.min(self.steps));
        // A generation may take minutes: say at times that it is alive.
        if self.last_line.0.elapsed() >= Duration::from_secs(60) {
            self.line(steps, "");
        }
    }

    fn generation(&mut self, record: &Record, _: &Trainer) {
        let steps = record.get(&ENV_STEPS).unwrap_or(0);
        self.bar.set_position(steps.min(self.steps));
        let (Some(reward), Some(cost)) = (record.get(&LEARNER_REWARD), record.get(&LEARNER_COST))
        else {
            return;
        };
        let lambda = record.get(&LAMBDA_LEARNER).unwrap_or_default();
        let sampled = record.get(&SAMPLED_REWARD).unwrap_or(f64::NAN);
        let sampled_cost = record.get(&SAMPLED_COST).unwrap_or_default();
        let champion = record.get(&CHAMPION_REWARD).map(|x| {
            let sampled = record.get(&CHAMPION_SAMPLED_REWARD).unwrap_or(f64::NAN);
            let cost = record.get(&CHAMPION_COST).unwrap_or_default();
            let sampled_cost = record.get(&CHAMPION_SAMPLED_COST).unwrap_or_default();
            let costs = costs(&cost, &sampled_cost, &self.constraints);
            format!("champion {x:.1} (sampled {sampled:.1})  {costs}")
        });
        let kept = match record.value("population_feasible") {
            Some(Value::Number(share)) => format!("population feasible {:.0} %", 100.0 * share),
            _ => String::new(),
        };
        self.last_test = format!(
            "reward {reward:.1} (sampled {sampled:.1})  {}{}{}{kept}",
            costs(&cost, &sampled_cost, &self.constraints),
            multipliers(&lambda, &self.constraints),
            champion.unwrap_or_default(),
        );
        self.last_test.truncate(self.last_test.trim_end().len());
        self.bar.set_message(self.last_test.clone());
        let best = if record.get(&NEW_BEST) == Some(true) { "  best so far" } else { "" };
        let text = format!("{}{best}", self.last_test);
        self.line(steps, &text);
    }

    fn should_stop(&self) -> bool {
        self.stop.asked()
    }
}

/// Each J_C against its threshold, with the mean action and with sampled ones: kept if both are.
fn costs(values: &[f64], sampled: &[f64], constraints: &[Constraint]) -> String {
    let one = |((value, sampled), c): ((&f64, &f64), &Constraint)| {
        let kept = c.is_kept_by(*value) && c.is_kept_by(*sampled);
        let word = if kept { "kept" } else { "broken" };
        format!("{}<={}: {value:.3} (sampled {sampled:.3}) {word}  ", c.name, c.threshold)
    };
    values.iter().zip(sampled).zip(constraints).map(one).collect()
}

fn multipliers(lambda: &[f64], constraints: &[Constraint]) -> String {
    match (lambda, constraints) {
        ([], _) => String::new(),
        ([one], _) => format!("λ {one:.4}  "),
        _ => {
            let named = lambda.iter().zip(constraints).map(|(l, c)| format!("{} {l:.4}", c.name));
            format!("λ {}  ", named.collect::<Vec<_>>().join(", "))
        }
    }
}
