//! `ecrl train`.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use cmdp::{Constraint, Env};
use ecrl::algorithm::Multipliers;
use ecrl::checkpoint::Checkpoints;
use ecrl::config::{Config, Layers};
use ecrl::constraint::feasible;
use ecrl::record::Generation;
use ecrl::run::{self, Lock, Origin, RunDir};
use ecrl::trainer::Trainer;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use robots::{COSTS, Robot, Task};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;
use crate::threads;

#[derive(Args)]
pub struct TrainArgs {
    /// The task, as listed by `ecrl tasks`
    task: Option<String>,
    /// The algorithm, as listed by `ecrl algorithms` [default: ecrl]
    #[arg(long)]
    algo: Option<String>,
    /// Environment steps, as in 200000, 50k or 1e6 [default: 1e6]
    #[arg(long, allow_hyphen_values = true)]
    steps: Option<String>,
    /// The seed of all randomness [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    seed: Option<u64>,
    /// A constraint, as in 'torque<=0.4' or 'sum(torque)<=200'; may be given several times, 'none'
    /// for none [default: torque<=0.4]
    #[arg(long = "constraint", value_name = "CONSTRAINT")]
    constraints: Vec<String>,
    /// The fixed penalty of erl-shaped and sr-shaped, or where an adaptive one starts
    /// [default: 0.001]
    #[arg(long, allow_negative_numbers = true)]
    lambda: Option<f64>,
    /// The run directory [default: runs/TASK-ALGORITHM-SEED]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Take values from a TOML file, such as another run's config.toml
    #[arg(long)]
    config: Option<PathBuf>,
    /// Set any value of the configuration, as in alpha=0.2 or sac.batch=256
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Replace a run that is there already
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    drive: DriveArgs,
}

/// Options of every training run, new or resumed.
#[derive(Args)]
struct DriveArgs {
    /// Threads; the result does not depend on them [default: all]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// How often to store the whole state, as in 5min, 30s or 10gen
    #[arg(long, value_name = "TIME", default_value = "5min")]
    checkpoint_every: String,
    /// Print nothing but errors
    #[arg(long)]
    quiet: bool,
}

#[derive(Args)]
pub struct ResumeArgs {
    /// The run directory
    run: PathBuf,
    /// Environment steps of the whole run, as in 200000, 50k or 1e6 [default: as before]
    #[arg(long, allow_hyphen_values = true)]
    steps: Option<String>,
    #[command(flatten)]
    drive: DriveArgs,
}

pub fn train(args: TrainArgs, output: &mut (impl Write + Send)) -> Result<(), Failure> {
    let mut config = config(&args)?;
    let task = Task::find(&config.task)?;
    let constraints = Constraint::parse_all(&config.constraints, &COSTS)?;
    config.task = task.name.into();
    config.constraints = constraints.iter().map(Constraint::to_string).collect();
    let out = args.out.unwrap_or_else(|| {
        format!("runs/{}-{}-{}", config.task, config.algorithm, config.seed).into()
    });
    let every = Every::parse(&args.drive.checkpoint_every)?;
    let stop = Stop::install()?;
    let trainer = trainer(config, task, &constraints, &args.drive)?;
    let run = RunDir::create(&out, trainer.config(), trainer.constraints(), args.force)?;
    run.note_origin(&Origin::here(threads(args.drive.threads)))?;
    let checkpoints = Checkpoints::new(&out);
    let progress = Progress::new(&trainer, args.drive.quiet, output);
    Drive { trainer, run, checkpoints, every, stop, progress, last: Instant::now() }.run_on()
}

pub fn resume(args: ResumeArgs, output: &mut (impl Write + Send)) -> Result<(), Failure> {
    let path = &args.run;
    let every = Every::parse(&args.drive.checkpoint_every)?;
    let mut config = run::read_config(path)?;
    let lock = Lock::take(path)?;
    let config_steps = config.steps;
    if let Some(steps) = &args.steps {
        config.steps = count(steps)? as u64;
    }
    let task = Task::find(&config.task)?;
    let constraints = Constraint::parse_all(&config.constraints, &COSTS)?;
    let stop = Stop::install()?;
    let mut trainer = trainer(config, task, &constraints, &args.drive)?;
    let mut checkpoints = Checkpoints::new(path);
    let restored = checkpoints.read(&mut trainer)?;
    let begun = restored.is_some();
    let restored = restored.unwrap_or_default();
    if begun && config_steps != trainer.config().steps && trainer.config().length_matters() {
        eprintln!(
            "warning: the learning rate falls with the length of the run: this is not the same as a \
             run of {} steps from the start",
            trainer.config().steps
        );
    }
    let run = RunDir::resume(path, trainer.constraints(), &restored.logs, lock)?;
    run.save_config(trainer.config())?;
    run.note_origin(&Origin::here(threads(args.drive.threads)))?;
    if let Some(best) = trainer.best() {
        run.save_policy(run::BEST, &best.policy)?;
    }
    for reason in &restored.passed_over {
        eprintln!("warning: {reason}: going on from the checkpoint before it");
    }
    if !args.drive.quiet {
        match begun {
            true => writeln!(output, "resuming at {} steps", trainer.env_steps())?,
            false => writeln!(output, "there is no checkpoint yet: starting from the beginning")?,
        }
        output.flush()?;
    }
    let progress = Progress::new(&trainer, args.drive.quiet, output);
    Drive { trainer, run, checkpoints, every, stop, progress, last: Instant::now() }.run_on()
}

fn trainer(
    config: Config,
    task: &'static Task,
    constraints: &[Constraint],
    args: &DriveArgs,
) -> Result<Trainer, Failure> {
    let make = || -> Result<Box<dyn Env>, Failure> {
        Ok(Box::new(Robot::new(task, constraints.to_vec())?))
    };
    Trainer::new(config, threads(args.threads), make)
}

/// How often to store the whole state.
#[derive(Debug, PartialEq)]
enum Every {
    Time(Duration),
    Generations(u64),
}

impl Every {
    fn parse(text: &str) -> Result<Self, Failure> {
        let number = |suffix: &str| {
            let number = text.strip_suffix(suffix)?.trim().parse::<f64>().ok()?;
            (number > 0.0 && number < 1e9).then_some(number)
        };
        let seconds = |x: f64| Self::Time(Duration::from_secs_f64(x));
        let generations = |x: f64| (x.fract() == 0.0).then_some(Self::Generations(x as u64));
        number("gen")
            .and_then(generations)
            .or_else(|| number("min").map(|x| seconds(60.0 * x)))
            .or_else(|| number("h").map(|x| seconds(3600.0 * x)))
            .or_else(|| number("s").map(seconds))
            .ok_or_else(|| {
                Failure::input(format!(
                    "--checkpoint-every is '{text}'; expected a time or a number of generations, \
                     as in 5min, 30s or 10gen"
                ))
            })
    }
}

/// A run under way.
struct Drive<'a, W: Write + Send> {
    trainer: Trainer,
    run: RunDir,
    checkpoints: Checkpoints,
    every: Every,
    stop: Stop,
    progress: Progress<'a, W>,
    /// When the last checkpoint was made.
    last: Instant,
}

impl<W: Write + Send> Drive<'_, W> {
    fn run_on(mut self) -> Result<(), Failure> {
        let mut trained = Ok(());
        while trained.is_ok() && !self.trainer.is_done() && !self.stop.asked() {
            trained = self.advance();
        }
        if self.stop.asked() && trained.is_ok() {
            trained = self.checkpoint();
        }
        // Whatever happened, the learner is worth keeping; but the first failure is the one to tell.
        let saved = self.run.save_policy(run::POLICY, &self.trainer.policy());
        let early = self.stop.asked() || trained.is_err();
        self.progress.finish(&self.trainer, &self.run, &self.checkpoints, early);
        trained?;
        saved?;
        self.stop.signal().map_or(Ok(()), |signal| Err(Failure::stopped(signal)))
    }

    /// Goes on to the end of the generation, or until a checkpoint is due or the user asks to stop.
    fn advance(&mut self) -> Result<(), Failure> {
        let Self { trainer, stop, progress, .. } = self;
        let deadline = match self.every {
            Every::Time(time) => Some(self.last + time),
            Every::Generations(_) => None,
        };
        let due = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let learnt = trainer.play_and_learn(&mut |steps| {
            progress.tick(steps);
            !stop.asked() && !due()
        })?;
        let timely = due();
        // The last checkpoint of a run comes before it is known to be the last: see `conclude`.
        if (timely && !stop.asked()) || (learnt && self.trainer.is_last()) {
            self.checkpoint_or_warn();
        }
        if !learnt {
            return Ok(());
        }
        let Some(generation) = self.trainer.conclude() else { return Ok(()) };
        self.run.record(&generation, self.trainer.census())?;
        if let (true, Some(best)) = (generation.new_best, self.trainer.best()) {
            self.run.save_policy(run::BEST, &best.policy)?;
        }
        self.progress.generation(&generation);
        if matches!(self.every, Every::Generations(n) if generation.generation.is_multiple_of(n))
            && !self.trainer.is_done()
        {
            self.checkpoint_or_warn();
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), Failure> {
        self.last = Instant::now();
        let logs = self.run.logs()?;
        Ok(self.checkpoints.write(&mut self.trainer, logs)?)
    }

    /// A checkpoint that fails leaves the one before it: training goes on.
    fn checkpoint_or_warn(&mut self) {
        if let Err(failure) = self.checkpoint() {
            eprintln!("warning: checkpoint not written: {}", failure.message);
        }
    }
}

fn config(args: &TrainArgs) -> Result<Config, Failure> {
    let mut layers = Layers::default();
    if let Some(path) = &args.config {
        let named =
            |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| named(&e))?;
        layers.toml(&text).map_err(|e| named(&e))?;
    }
    if let Some(task) = &args.task {
        layers.set("task", task.as_str());
    }
    if let Some(algorithm) = &args.algo {
        layers.set("algorithm", algorithm.as_str());
    }
    if let Some(steps) = &args.steps {
        layers.set("steps", count(steps)?);
    }
    if let Some(seed) = args.seed {
        let seed = i64::try_from(seed);
        layers.set("seed", seed.map_err(|_| Failure::input("--seed: expected at most 2^63-1"))?);
    }
    if args.constraints == ["none"] {
        layers.set("constraints", Vec::<String>::new());
    } else if !args.constraints.is_empty() {
        layers.set("constraints", args.constraints.clone());
    }
    if let Some(lambda) = args.lambda {
        layers.set("multipliers.lambda", lambda);
    }
    for assignment in &args.set {
        layers.assign(assignment)?;
    }
    let config = layers.build()?;
    if args.lambda.is_some() && config.algorithm()?.multipliers == Multipliers::None {
        return Err(Failure::input(format!(
            "--lambda has no effect on {}: expected an algorithm with penalties",
            config.algorithm
        )));
    }
    if config.task.is_empty() {
        return Err(Failure::input("no task given: expected one of those `ecrl tasks` lists"));
    }
    Ok(config)
}

/// A number of steps: 200000, 50k, 1e6, 1.5M.
pub fn count(text: &str) -> Result<i64, Failure> {
    let lower = text.to_lowercase();
    let (number, unit) = match (lower.strip_suffix('k'), lower.strip_suffix('m')) {
        (Some(number), _) => (number, 1e3),
        (_, Some(number)) => (number, 1e6),
        _ => (&lower[..], 1.0),
    };
    let steps = number.parse::<f64>().map_or(f64::NAN, |x| x * unit);
    if (1.0..=1e15).contains(&steps) && steps.fract() == 0.0 {
        Ok(steps as i64)
    } else {
        Err(Failure::input(format!(
            "--steps is '{text}'; expected a whole number from 1 on, as in 200000, 50k or 1e6"
        )))
    }
}

/// Ctrl-C and SIGTERM: the first asks the run to end well, the second ends it.
pub struct Stop {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Stop {
    pub fn install() -> Result<Self, Failure> {
        let stop = Self { asked: Arc::default(), signal: Arc::default() };
        for signal in [SIGINT, SIGTERM] {
            let register = || -> io::Result<()> {
                use signal_hook::flag;
                // In this order: the second signal finds the flag that the first one set.
                flag::register_conditional_shutdown(signal, 128 + signal, stop.asked.clone())?;
                flag::register(signal, stop.asked.clone())?;
                flag::register_usize(signal, stop.signal.clone(), signal as usize)?;
                Ok(())
            };
            register().map_err(|e| Failure::run(format!("cannot listen for Ctrl-C: {e}")))?;
        }
        Ok(stop)
    }

    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    pub fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Relaxed) as i32).filter(|&signal| signal != 0)
    }
}

/// What the user sees while it trains: a bar on a terminal, lines elsewhere.
struct Progress<'a, W: Write + Send> {
    output: &'a mut W,
    quiet: bool,
    bar: ProgressBar,
    constraints: Vec<Constraint>,
    steps: u64,
    last_test: String,
    /// When the last line was printed, and the steps taken until then: for the speed since.
    last_line: (Instant, u64),
}

impl<'a, W: Write + Send> Progress<'a, W> {
    fn new(trainer: &Trainer, quiet: bool, output: &'a mut W) -> Self {
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
            bar,
            constraints: trainer.constraints().to_vec(),
            steps: config.steps,
            last_test: String::new(),
            last_line: (Instant::now(), trainer.env_steps()),
        }
    }

    /// After an update, with the steps taken and learnt from.
    fn tick(&mut self, steps: u64) {
        self.bar.set_position(steps.min(self.steps));
        // A generation may take minutes: say at times that it is alive.
        if self.last_line.0.elapsed() >= Duration::from_secs(60) {
            self.line(steps, "");
        }
    }

    fn generation(&mut self, g: &Generation) {
        self.bar.set_position(g.env_steps.min(self.steps));
        let (Some(reward), Some(cost)) = (g.learner_reward, &g.learner_cost) else {
            return;
        };
        let kept = g.population_feasible.map(|x| format!("  feasible {:.0} %", 100.0 * x));
        self.last_test = format!(
            "reward {reward:.1}  {}{}{}{}",
            costs(cost, &self.constraints),
            multipliers(&g.lambda_learner, &self.constraints),
            g.champion_reward.map(|x| format!("  champion {x:.1}")).unwrap_or_default(),
            kept.unwrap_or_default()
        );
        self.bar.set_message(self.last_test.clone());
        let best = if g.new_best { "  best so far" } else { "" };
        let text = format!("{}{best}", self.last_test);
        self.line(g.env_steps, &text);
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

    fn finish(&mut self, trainer: &Trainer, run: &RunDir, stored: &Checkpoints, early: bool) {
        self.bar.finish_and_clear();
        if !self.quiet {
            let told = self.summary(trainer, run, stored, early);
            let _ = told.and_then(|()| self.output.flush());
        }
    }

    fn summary(
        &mut self,
        trainer: &Trainer,
        run: &RunDir,
        stored: &Checkpoints,
        early: bool,
    ) -> io::Result<()> {
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
        if let Some(best) = trainer.best() {
            let kept = feasible(&best.cost, &self.constraints);
            writeln!(
                o,
                "  best   reward {:.1}  {}(at {} steps{})",
                best.reward,
                costs(&best.cost, &self.constraints),
                best.policy.about.env_steps,
                if kept { "" } else { "; no policy kept every constraint, this came closest" }
            )?;
        }
        let path = run.path().display();
        let megabytes = stored.bytes() as f64 / 1e6;
        writeln!(o, "  saved  {path}, checkpoint {megabytes:.1} MB")?;
        writeln!(o, "next:")?;
        let program = std::env::var("ECRL_COMMAND").unwrap_or_else(|_| "ecrl".into());
        if early {
            writeln!(o, "  {program} resume {path}    go on where it stopped")?;
        }
        let policy = if trainer.best().is_some() { "" } else { " --policy final" };
        writeln!(o, "  {program} eval {path}{policy}    how good the policy is")?;
        writeln!(o, "  {program} play {path}{policy}    watch it")?;
        if config.steps < 1_000_000 && trainer.grad_steps() > 0 {
            // With a replay buffer, updates take the time, and they begin late: count by them.
            let done = match trainer.replay() {
                Some(_) => trainer.grad_steps() as f64 / config.learner.grad_steps_per_env_step,
                None => trainer.env_steps() as f64,
            };
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

/// Each J_C against its threshold.
fn costs(values: &[f64], constraints: &[Constraint]) -> String {
    let one = |(value, c): (&f64, &Constraint)| {
        let (sign, word) = if c.is_kept_by(*value) { ("<=", "kept") } else { (">", "broken") };
        format!("{} {value:.3} {sign} {} {word}  ", c.name, c.threshold)
    };
    values.iter().zip(constraints).map(one).collect()
}

fn multipliers(lambda: &[f64], constraints: &[Constraint]) -> String {
    match (lambda, constraints) {
        ([], _) => String::new(),
        ([one], _) => format!("λ {one:.4}"),
        _ => {
            let named = lambda.iter().zip(constraints).map(|(l, c)| format!("{} {l:.4}", c.name));
            format!("λ {}", named.collect::<Vec<_>>().join(", "))
        }
    }
}

pub fn duration(seconds: f64) -> String {
    let s = if seconds.is_finite() { seconds.round() as u64 } else { 0 };
    match (s / 3600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m {s:02}s"),
        (h, m, _) => format!("{h}h {m:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_as_people_write_them() {
        for (text, steps) in
            [("200000", 200_000), ("50k", 50_000), ("1e6", 1_000_000), ("1.5M", 1_500_000)]
        {
            assert_eq!(count(text).ok(), Some(steps), "{text}");
        }
        for text in ["-5", "0", "x", "", "1.5", "nan", "inf", "1e99", "k"] {
            assert!(count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(duration(5.4), "5s");
        assert_eq!(duration(65.0), "1m 05s");
        assert_eq!(duration(7322.0), "2h 02m");
    }
}
