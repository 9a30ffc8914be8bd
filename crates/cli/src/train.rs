//! `ecrl train` and `ecrl resume`.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use ecrl::config::{Config, Layers};
use robots::{AnyTask, own};
use runs::driver::{Options, Run};
use runs::grid::USUAL;
use runs::policy::Policy;
use runs::read;

use crate::environment;
use crate::failure::Failure;
use crate::live::View;
use crate::live_page::Beside;
use crate::progress::Progress;
use crate::stop::Stop;
use crate::text::count;
use crate::threads;
use crate::workers::{Stages, Workers};

#[derive(Args)]
pub struct TrainArgs {
    /// The task, as listed by `ecrl tasks`, or the file of one of your own: FILE.toml
    task: Option<String>,
    /// The algorithm, as listed by `ecrl algorithms` [default: ecrl]
    #[arg(long)]
    algo: Option<String>,
    /// Environment steps, as in 200000, 50k or 1e6; the last generation is played whole, so that it may be
    /// some more [default: 1e6]
    #[arg(long, allow_hyphen_values = true)]
    steps: Option<String>,
    /// The seed of all randomness [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    seed: Option<u64>,
    /// A constraint, as in 'torque<=0.4' or 'sum(torque)<=200'; may be given several times, 'none'
    /// for none [default: torque<=0.4; of a task of your own every cost at its threshold]
    #[arg(long = "constraint", value_name = "CONSTRAINT")]
    constraints: Vec<String>,
    /// The fixed penalty of erl-shaped and sr-shaped, or where an adaptive one starts; with several
    /// constraints one for all, or one for each, as in 0.1,0.02 [default: 0.001]
    #[arg(long, allow_hyphen_values = true)]
    lambda: Option<String>,
    /// The run directory [default: runs/TASK-ALGORITHM-SEED]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Take values from a TOML file, such as another run's config.toml
    #[arg(long)]
    config: Option<PathBuf>,
    /// Take the algorithm's values of that name, as listed by `ecrl algorithms NAME` [default: the
    /// usual ones]
    #[arg(long)]
    preset: Option<String>,
    /// Set any value of the configuration, as in alpha=0.2 or sac.batch=256; `ecrl algorithms NAME`
    /// lists them
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// End with the first test that meets this, as in 'reward>=3000' or 'feasible': reward is the learner's
    /// with its mean action, any other metric is called as in docs/metrics.md; given several times, all
    /// must be met in the same test
    #[arg(long, value_name = "CONDITION")]
    until: Vec<String>,
    /// Start from a policy, such as another run's best.safetensors; its networks must be those of the
    /// algorithm. A population gets one copy
    #[arg(long, value_name = "POLICY")]
    from: Option<PathBuf>,
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
    /// Show it and the runs beside it on a page in a browser, as `ecrl live` does, until it ends
    #[arg(long)]
    live: bool,
    /// Have episodes played by actors of a Ray cluster: ray, for the one found here, or ray://HOST:PORT (with Python's
    /// packages ecrl and ray); the result does not depend on it
    #[arg(long, value_name = "RAY")]
    workers: Option<Workers>,
    /// How many actors play [default: one for every processor of the cluster]
    #[arg(long, value_name = "N", requires = "workers", value_parser = clap::value_parser!(u16).range(1..=4096))]
    players: Option<u16>,
}

#[derive(Args)]
pub struct ResumeArgs {
    /// The run directory
    run: PathBuf,
    /// Environment steps of the whole run, as in 200000, 50k or 1e6 [default: as before]
    #[arg(long, allow_hyphen_values = true)]
    steps: Option<String>,
    /// Change a threshold from here on, as in 'torque<=0.3'; the costs must be those of the run
    #[arg(long = "constraint", value_name = "CONSTRAINT")]
    constraints: Vec<String>,
    /// Change a value from here on, such as a learning rate; the run notes it, and a report says so
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// End with the first test that meets this, as for train
    #[arg(long, value_name = "CONDITION")]
    until: Vec<String>,
    #[command(flatten)]
    drive: DriveArgs,
}

impl DriveArgs {
    fn options(&self, force: bool) -> Result<Options, Failure> {
        let every = self.checkpoint_every.parse();
        let checkpoint_every =
            every.map_err(|error| Failure::input(format!("--checkpoint-every is {error}")))?;
        let threads = threads(self.threads);
        Ok(Options { threads, checkpoint_every, force, ..Options::default() })
    }

    /// Where a task is played.
    fn stages(&self, task: AnyTask, program: Vec<OsString>) -> Stages {
        let (workers, players) = (self.workers.clone(), self.players.map(usize::from));
        Stages { task, workers, players, program }
    }
}

pub fn train(
    args: TrainArgs,
    program: Vec<OsString>,
    output: &mut (impl Write + Send),
) -> Result<(), Failure> {
    let mut config = config(&args)?;
    // A task that is given is not the file's, whatever that one was.
    let file = args.config.as_deref().filter(|_| args.task.is_none());
    let beside = file.map(|file| file.parent().unwrap_or("".as_ref()));
    let source = Some(config.task.clone()).filter(|task| own::is_file(task)).unwrap_or_default();
    let task = environment::resolve(&mut config, beside)?;
    let mut options = args.drive.options(args.force)?;
    options.start = args.from.as_deref().map(Policy::open).transpose()?;
    let out = args.out.unwrap_or_else(|| {
        format!("runs/{}-{}-{}", config.task, config.algorithm, config.seed).into()
    });
    options.task = environment::copy(&task, &source);
    let stop = Stop::install()?;
    let run = Run::create(config, &out, &options, args.drive.stages(task, program))?;
    drive(run, &args.drive, stop, output)
}

pub fn resume(
    args: ResumeArgs,
    program: Vec<OsString>,
    output: &mut (impl Write + Send),
) -> Result<(), Failure> {
    let mut options = args.drive.options(false)?;
    options.set = args.set;
    let task = environment::of_run(&args.run, &read::config(&args.run)?)?;
    if !args.constraints.is_empty() {
        let constraints = environment::written_out(&args.constraints, &task)?;
        options.set.push(format!("constraints={}", list(&constraints)));
    }
    if !args.until.is_empty() {
        options.set.push(format!("test.until={}", list(&args.until)));
    }
    let steps = args.steps.as_deref().map(count).transpose()?;
    let stop = Stop::install()?;
    let changed = environment::changed(&args.run);
    let make = args.drive.stages(task, program);
    let run = Run::resume(&args.run, steps.map(|steps| steps as u64), &options, make)?;
    if let Some(changed) = changed {
        let _ = writeln!(std::io::stderr(), "warning: {changed}");
    }
    if !args.drive.quiet {
        match run.resumed_at() {
            Some(steps) => writeln!(output, "resuming at {steps} steps")?,
            None => writeln!(output, "there is no checkpoint yet: starting from the beginning")?,
        }
        output.flush()?;
    }
    drive(run, &args.drive, stop, output)
}

fn drive(
    mut run: Run,
    args: &DriveArgs,
    stop: Stop,
    output: &mut (impl Write + Send),
) -> Result<(), Failure> {
    let _page = args.live.then(|| Beside::of(run.path(), output)).transpose()?;
    let mut progress = Progress::new(&run, View::of_stdout(args.quiet), stop.clone(), output);
    let trained = run.train(&mut progress);
    progress.finish(&mut run, stop.asked() || trained.is_err(), true);
    trained?;
    stop.signal().map_or(Ok(()), |signal| Err(Failure::stopped(signal)))
}

fn config(args: &TrainArgs) -> Result<Config, Failure> {
    let mut layers = Layers::default();
    layers.set("constraints", vec![USUAL.to_owned()]);
    if let Some(path) = &args.config {
        let named =
            |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| named(&e))?;
        layers.file(&path.display().to_string(), &text)?;
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
    if let Some(lambda) = &args.lambda {
        let list = if lambda.contains(',') { format!("[{lambda}]") } else { lambda.clone() };
        layers.assign(&format!("multipliers.lambda={list}"))?;
    }
    if let Some(preset) = &args.preset {
        layers.preset(preset);
    }
    if !args.until.is_empty() {
        layers.set("test.until", args.until.clone());
    }
    for assignment in &args.set {
        layers.assign(assignment)?;
    }
    let config = layers.build()?;
    if config.task.is_empty() {
        return Err(Failure::input(
            "no task given: expected one of those `ecrl tasks` lists, or a file",
        ));
    }
    Ok(config)
}

/// Texts as a list that a configuration reads.
fn list(texts: &[String]) -> String {
    serde_json::to_string(texts).expect("plain data")
}
