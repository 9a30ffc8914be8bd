//! `ecrl paper`: many runs, a few at a time, each a process of its own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use ecrl::config::Config;
use ecrl::grid::{Figure, Grid, Job, Seeds, Variant};
use ecrl::run;
use robots::{TASKS, Task};

use crate::failure::Failure;
use crate::threads;
use crate::train::{Stop, count, duration};

#[derive(Args)]
pub struct PaperArgs {
    /// The paper's figure to make the runs of
    #[arg(long, value_enum, default_value = "all")]
    figure: Which,
    /// A TOML file that describes any other grid: tasks, algorithms (as in "erl-shaped lambda=0.1"),
    /// seeds (a number or a list), and if need be steps, constraints and set
    #[arg(long, value_name = "FILE", conflicts_with = "figure")]
    grid: Option<PathBuf>,
    /// Only these tasks [default: all five]
    #[arg(long, value_delimiter = ',')]
    tasks: Vec<String>,
    /// Only these algorithms, as in ecrl,erl,'erl-shaped lambda=0.1' [default: the figure's]
    #[arg(long, value_delimiter = ',')]
    algos: Vec<Variant>,
    /// Environment steps of each run, as in 200000, 50k or 1e6 [default: 1e6]
    #[arg(long)]
    steps: Option<String>,
    /// Seeds, from 0 on [default: 5]
    #[arg(long)]
    seeds: Option<u64>,
    /// Runs at the same time, each with its share of the threads [default: one for each thread]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Threads in all [default: all]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Only every n-th run, beginning with the i-th: for n machines
    #[arg(long, value_name = "I/N")]
    shard: Option<String>,
    /// The folder of the runs
    #[arg(long, default_value = "experiments/paper")]
    out: PathBuf,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Which {
    Dilemma,
    Compare,
    Ablation,
    All,
}

pub fn paper(args: PaperArgs, output: &mut impl Write) -> Result<(), Failure> {
    let jobs = shard(grid(&args)?.jobs()?, args.shard.as_deref())?;
    let threads = threads(args.threads);
    let slots = args.jobs.map_or(threads, usize::from).min(jobs.len()).max(1);
    let stop = Stop::install()?;
    let logs = args.out.join("logs");
    fs::create_dir_all(&logs)
        .map_err(|error| Failure::run(format!("{}: {error}", logs.display())))?;
    let experiment = Experiment {
        states: jobs.iter().map(|_| State::Waiting).collect(),
        jobs,
        out: args.out,
        slots,
        share: (threads / slots).max(1),
        running: Vec::new(),
        begun: Instant::now(),
        taken: 0,
    };
    experiment.run(&stop, output)
}

fn grid(args: &PaperArgs) -> Result<Grid, Failure> {
    let mut grid = match &args.grid {
        Some(path) => {
            let named = |error: &dyn std::fmt::Display| {
                Failure::input(format!("{}: {error}", path.display()))
            };
            let text = fs::read_to_string(path).map_err(|e| named(&e))?;
            Grid::parse(&text).map_err(|e| named(&e))?
        }
        None => {
            let figures = match args.figure {
                Which::Dilemma => vec![Figure::Dilemma],
                Which::Compare => vec![Figure::Compare],
                Which::Ablation => vec![Figure::Ablation],
                Which::All => Figure::ALL.to_vec(),
            };
            Grid {
                tasks: TASKS.iter().map(|task| task.name.to_owned()).collect(),
                algorithms: figures.into_iter().flat_map(Figure::variants).collect(),
                seeds: Seeds::Count(5),
                steps: None,
                constraints: None,
                set: Vec::new(),
            }
        }
    };
    if !args.tasks.is_empty() {
        grid.tasks.clone_from(&args.tasks);
    }
    for task in &mut grid.tasks {
        *task = Task::find(task)?.name.into();
    }
    if !args.algos.is_empty() {
        grid.algorithms.clone_from(&args.algos);
    }
    if let Some(steps) = &args.steps {
        grid.steps = Some(count(steps)? as f64);
    }
    if let Some(seeds) = args.seeds {
        grid.seeds = Seeds::Count(seeds);
    }
    Ok(grid)
}

/// Every n-th run, from the i-th on.
fn shard(jobs: Vec<Job>, shard: Option<&str>) -> Result<Vec<Job>, Failure> {
    let Some(text) = shard else { return Ok(jobs) };
    let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    let Some((i, n)) = parts.filter(|(i, n): &(usize, usize)| (1..=*n).contains(i)) else {
        let message = format!("--shard is '{text}'; expected I/N with I from 1 to N, as in 2/4");
        return Err(Failure::input(message));
    };
    Ok(jobs.into_iter().skip(i - 1).step_by(n).collect())
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq)]
enum State {
    Waiting,
    Running,
    Done,
    Failed(String),
}

/// A run under way.
struct Running {
    job: usize,
    child: Child,
    begun: Instant,
    /// Steps it had taken when it was started.
    before: u64,
    steps: u64,
}

impl Running {
    /// Asks it to store what it has and end.
    fn stop(&self) {
        // SAFETY: the process is our child and has not been waited for, so the number is its own.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
    }
}

struct Experiment {
    jobs: Vec<Job>,
    states: Vec<State>,
    out: PathBuf,
    slots: usize,
    /// Threads of each run.
    share: usize,
    running: Vec<Running>,
    begun: Instant,
    /// Steps taken by runs that have ended since.
    taken: u64,
}

impl Experiment {
    fn run(mut self, stop: &Stop, output: &mut impl Write) -> Result<(), Failure> {
        for (state, job) in self.states.iter_mut().zip(&self.jobs) {
            if run::progress(&self.out.join(&job.name), job.config.steps).1 {
                *state = State::Done;
            }
        }
        let done = self.count(|state| *state == State::Done);
        let header = format!(
            "{} runs in {}: {done} done, {} at a time with {} thread{} each\n",
            self.jobs.len(),
            self.out.display(),
            self.slots,
            self.share,
            if self.share == 1 { "" } else { "s" }
        );
        print(&header, output);
        let mut screen = Screen { live: io::stdout().is_terminal(), lines: 0 };
        let mut drawn = None::<Instant>;
        let mut told = false;
        loop {
            if !stop.asked() {
                self.start_some(&screen, output);
            } else if !std::mem::replace(&mut told, true) {
                self.running.iter().for_each(|running| running.stop());
            }
            self.collect(stop, &screen, output)?;
            if self.running.is_empty() && (stop.asked() || !self.states.contains(&State::Waiting)) {
                break;
            }
            if screen.live && drawn.is_none_or(|at| at.elapsed() >= Duration::from_secs(1)) {
                screen.draw(&self.overview(), output);
                drawn = Some(Instant::now());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        if screen.live {
            screen.draw(&self.overview(), output);
        }
        self.close(stop, output)
    }

    fn count(&self, which: impl Fn(&State) -> bool) -> usize {
        self.states.iter().filter(|state| which(state)).count()
    }

    /// Starts runs while there are slots.
    fn start_some(&mut self, screen: &Screen, output: &mut impl Write) {
        for job in 0..self.jobs.len() {
            if self.running.len() >= self.slots {
                break;
            }
            if self.states[job] != State::Waiting {
                continue;
            }
            let path = self.out.join(&self.jobs[job].name);
            // Somebody else may be at it: another shard, or what is left of an earlier call.
            if run::in_use(&path) {
                continue;
            }
            let (before, finished) = run::progress(&path, self.jobs[job].config.steps);
            if finished {
                self.states[job] = State::Done;
                continue;
            }
            match self.spawn(&self.jobs[job], &path) {
                Ok(child) => {
                    let begun = Instant::now();
                    self.running.push(Running { job, child, begun, before, steps: before });
                    self.states[job] = State::Running;
                    let word = if before > 0 { "resumed" } else { "started" };
                    screen.line(&format!("{word}  {}", self.jobs[job].name), output);
                }
                Err(reason) => {
                    screen.line(&format!("failed   {}: {reason}", self.jobs[job].name), output);
                    self.states[job] = State::Failed(reason);
                }
            }
        }
    }

    fn spawn(&self, job: &Job, path: &Path) -> Result<Child, String> {
        let text = |error: io::Error| error.to_string();
        let mut command = Command::new(std::env::current_exe().map_err(text)?);
        if path.join("config.toml").exists() {
            let there = run::read_config(path).map_err(|e| e.to_string())?;
            if !same_but_steps(&there, &job.config) {
                return Err(format!("{} holds a run with other values", path.display()));
            }
            command.arg("resume").arg(path).args(["--steps", &job.config.steps.to_string()]);
        } else {
            command.args(&job.arguments).arg("--out").arg(path);
        }
        let _ = fs::remove_file(path.join(run::FAILURE));
        let log = self.out.join("logs").join(format!("{}.txt", job.name));
        let log = File::options().create(true).append(true).open(log).map_err(text)?;
        command.args(["--threads", &self.share.to_string()]);
        command.stdin(Stdio::null()).stderr(log.try_clone().map_err(text)?).stdout(log);
        // Out of reach of the terminal's Ctrl-C: a run that is asked twice to stop does so at once.
        command.process_group(0);
        let parent = std::process::id();
        // SAFETY: between fork and exec, only two system calls that may be made there.
        unsafe {
            command.pre_exec(move || {
                // If this process is killed, its runs store what they have and end.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                if libc::getppid() as u32 != parent {
                    return Err(io::Error::other("the experiment was killed"));
                }
                Ok(())
            });
        }
        command.spawn().map_err(text)
    }

    /// Takes note of runs that have ended, and of how far the others are.
    fn collect(
        &mut self,
        stop: &Stop,
        screen: &Screen,
        output: &mut impl Write,
    ) -> Result<(), Failure> {
        let mut i = 0;
        while i < self.running.len() {
            let Running { job, child, begun, before, steps } = &mut self.running[i];
            let Job { name, config, .. } = &self.jobs[*job];
            let path = self.out.join(name);
            let ended = child.try_wait().map_err(Failure::run)?;
            let (taken, finished) = run::progress(&path, config.steps);
            *steps = taken;
            let Some(status) = ended else {
                i += 1;
                continue;
            };
            let seconds = begun.elapsed().as_secs_f64();
            self.taken += taken.saturating_sub(*before);
            let state = if status.success() && finished {
                screen.line(&format!("done     {name} in {}", duration(seconds)), output);
                State::Done
            } else if stop.asked() || run::in_use(&path) {
                // Somebody else was faster: look again later.
                State::Waiting
            } else {
                let log = self.out.join("logs").join(format!("{name}.txt"));
                let text = fs::read_to_string(&log).unwrap_or_default();
                let last = text.lines().rev().find(|line| !line.trim().is_empty());
                let reason = last.unwrap_or("it said nothing").trim_start_matches("error: ");
                let reason = format!("{reason} ({status})");
                if path.is_dir() {
                    let _ = fs::write(path.join(run::FAILURE), format!("{reason}\n"));
                }
                screen.line(&format!("failed   {name}: {reason}"), output);
                State::Failed(reason)
            };
            self.states[*job] = state;
            self.running.remove(i);
        }
        Ok(())
    }

    /// A row for each task and a column for each algorithm, with a sign for each seed; then the runs
    /// under way.
    fn overview(&self) -> Vec<String> {
        let mut rows: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
        let mut columns: Vec<String> = Vec::new();
        for (job, state) in self.jobs.iter().zip(&self.states) {
            let Config { task, seed, .. } = &job.config;
            let column = &job.name[task.len() + 1..];
            let column = column.strip_suffix(&format!("-{seed}")).unwrap_or(column).to_owned();
            if !columns.contains(&column) {
                columns.push(column.clone());
            }
            let sign = match state {
                State::Waiting => '.',
                State::Running => '>',
                State::Done => '#',
                State::Failed(_) => '!',
            };
            rows.entry(task).or_default().entry(column).or_default().push(sign);
        }
        let widths: Vec<usize> = columns
            .iter()
            .map(|c| {
                rows.values().filter_map(|r| r.get(c)).map(String::len).fold(c.len(), usize::max)
            })
            .collect();
        let cells = columns.iter().zip(&widths);
        let head = cells.clone().map(|(c, w)| format!("  {c:<w$}")).collect::<String>();
        let mut lines = vec![format!("{:<13}{head}", "")];
        for (task, row) in &rows {
            let cell = |(c, w): (&String, &usize)| {
                format!("  {:<w$}", row.get(c).map_or("", String::as_str))
            };
            lines.push(format!("{task:<13}{}", cells.clone().map(cell).collect::<String>()));
        }
        lines.push(String::new());
        for Running { job, begun, before, steps, .. } in &self.running {
            let Job { name, config, .. } = &self.jobs[*job];
            let speed = steps.saturating_sub(*before) as f64 / begun.elapsed().as_secs_f64();
            let percent = 100.0 * *steps as f64 / config.steps as f64;
            let left = config.steps.saturating_sub(*steps) as f64 / speed;
            let eta = if speed > 0.0 { duration(left) } else { "?".into() };
            lines.push(format!("> {name}  {percent:.0} %  {speed:.0} steps/s  eta {eta}"));
        }
        lines.push(format!(
            "{} done, {} running, {} waiting, {} failed  eta {}    (# done, > running, . waiting, ! failed)",
            self.count(|s| *s == State::Done),
            self.running.len(),
            self.count(|s| *s == State::Waiting),
            self.count(|s| matches!(s, State::Failed(_))),
            self.eta()
        ));
        lines
    }

    /// The time that all runs still take, at the speed so far.
    fn eta(&self) -> String {
        let under_way: u64 = self.running.iter().map(|r| r.steps.saturating_sub(r.before)).sum();
        let speed = (self.taken + under_way) as f64 / self.begun.elapsed().as_secs_f64();
        let waiting = self.jobs.iter().zip(&self.states).filter(|(_, s)| **s == State::Waiting);
        let waiting: u64 = waiting.map(|(job, _)| job.config.steps).sum();
        let rest = |r: &Running| self.jobs[r.job].config.steps.saturating_sub(r.steps);
        let left = waiting + self.running.iter().map(rest).sum::<u64>();
        if left == 0 {
            "0s".into()
        } else if speed > 0.0 {
            duration(left as f64 / speed)
        } else {
            "?".into()
        }
    }

    fn close(&self, stop: &Stop, output: &mut impl Write) -> Result<(), Failure> {
        let program = std::env::var("ECRL_COMMAND").unwrap_or_else(|_| "ecrl".into());
        let out = self.out.display();
        let done = self.count(|state| *state == State::Done);
        let mut text = format!("{done} of {} runs done in {out}\n", self.jobs.len());
        if done > 0 {
            text += &format!("next:\n  {program} report {out}    curves, table, statistics\n");
        }
        if let Some(signal) = stop.signal() {
            print(&(text + "the same command again goes on\n"), output);
            return Err(Failure::stopped(signal));
        }
        print(&text, output);
        let failed = self.jobs.iter().zip(&self.states).find_map(|(job, state)| match state {
            State::Failed(reason) => Some(format!("{}: {reason}", job.name)),
            _ => None,
        });
        let count = self.count(|s| matches!(s, State::Failed(_)));
        match failed {
            None => Ok(()),
            Some(first) => Err(Failure::run(format!("{count} failed, the first: {first}"))),
        }
    }
}

/// Whether one run is the other, or its beginning or continuation.
fn same_but_steps(there: &Config, wanted: &Config) -> bool {
    if there.steps != wanted.steps && wanted.length_matters() {
        return false;
    }
    // Constraints are written out in the run's own file.
    let constraints = |config: &Config| {
        cmdp::Constraint::parse_all(&config.constraints, &robots::COSTS)
            .map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())
            .unwrap_or_default()
    };
    let plain =
        |config: &Config| Config { steps: 0, constraints: constraints(config), ..config.clone() };
    plain(there) == plain(wanted)
}

/// A terminal on which the overview is drawn over the last one; elsewhere, lines.
struct Screen {
    live: bool,
    lines: usize,
}

impl Screen {
    fn draw(&mut self, lines: &[String], output: &mut impl Write) {
        let mut text = String::new();
        if self.lines > 0 {
            text += &format!("\x1b[{}A", self.lines);
        }
        lines.iter().for_each(|line| text += &format!("\x1b[2K{line}\n"));
        self.lines = lines.len();
        print(&(text + "\x1b[J"), output);
    }

    fn line(&self, text: &str, output: &mut impl Write) {
        if !self.live {
            print(&format!("{text}\n"), output);
        }
    }
}

/// Nobody may read any more (a closed pipe, a full disk): the experiment goes on in silence.
fn print(text: &str, output: &mut impl Write) {
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}
