//! Who makes the runs of a grid, and handing them to an engine.

use std::io::Write;
use std::path::Path;

use clap::Args;
use runs::experiment::call::{Asked, Call};
use runs::experiment::launch::{Engine, Launcher as _};
use runs::experiment::slurm::Slurm;
use runs::experiment::survey::Survey;
use runs::grid::{Grid, Job};
use runs::shell::{printable, quote};

use crate::environment::Robots;
use crate::failure::Failure;
use crate::text;
use crate::threads;

/// Who makes the runs, and with what.
#[derive(Args)]
pub(super) struct EngineArgs {
    /// Where they are made: local, as processes of this machine; slurm, as a job array, which goes on without this
    /// command; or ray, or ray://HOST:PORT, as actors of a Ray cluster (with Python's packages ecrl and ray)
    #[arg(long, value_name = "ENGINE", default_value = "local")]
    pub on: Engine,
    /// Runs at the same time; here each has its share of the threads [default: here one for each thread,
    /// on a cluster as many as it has room for]
    #[arg(long, visible_alias = "max-at-once", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Threads in all, here [default: all]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print what would be submitted, and submit nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Slurm's partition
    #[arg(long)]
    partition: Option<String>,
    /// The time limit of a run on Slurm, as in 2:00:00; a run that does not end in time stores what it has and goes
    /// on in the queue
    #[arg(long)]
    time: Option<String>,
    /// The memory of a run on a cluster, as in 2G
    #[arg(long)]
    mem: Option<String>,
    /// The processors and threads of a run on a cluster [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    cpus_per_task: Option<u16>,
    /// Slurm's account
    #[arg(long)]
    account: Option<String>,
    /// After --: other options of sbatch, as in -- --qos=high --constraint=avx512
    #[arg(last = true, value_name = "SBATCH")]
    options: Vec<String>,
}

impl EngineArgs {
    /// What is asked for of these runs of a grid.
    pub(super) fn asked(&self, runs: Vec<usize>) -> Result<Asked, Failure> {
        let from = std::env::current_dir().map_err(Failure::run)?;
        let at_once = self.jobs.map(usize::from);
        let options = self.options()?;
        let name_of = |option: &String| option.split('=').next().unwrap_or_default().to_owned();
        let mut given: Vec<String> = options.iter().map(name_of).collect();
        for (name, is_given) in [
            ("--dry-run", self.dry_run),
            ("--cpus-per-task", self.cpus_per_task.is_some()),
            ("--threads", self.threads.is_some()),
        ] {
            given.extend(is_given.then(|| name.to_owned()));
        }
        let applies = |option: &str| match self.on {
            Engine::Local => option == "--threads",
            Engine::Ray(_) => ["--cpus-per-task", "--mem"].contains(&option),
            Engine::Slurm => option != "--threads",
        };
        if let Some(option) = given.iter().find(|option| !applies(option)) {
            let expected = match &option[..] {
                "--threads" => "--cpus-per-task",
                "--cpus-per-task" | "--mem" => "--on slurm or --on ray with it",
                _ => "--on slurm with it",
            };
            let message = format!("{option} does not apply on {}; expected {expected}", self.on);
            return Err(Failure::input(message));
        }
        if let (Engine::Ray(_), Some(mem)) = (&self.on, &self.mem)
            && bytes(mem).is_none()
        {
            return Err(Failure::input(format!(
                "--mem is {mem}; expected megabytes, or as in 500M or 2G"
            )));
        }
        let (threads, at_once) = match self.on {
            Engine::Local => {
                let threads = threads(self.threads);
                let slots = at_once.unwrap_or(threads).min(runs.len()).max(1);
                ((threads / slots).max(1), Some(slots))
            }
            _ => (self.cpus_per_task.map_or(1, usize::from), at_once),
        };
        Ok(Asked { engine: self.on.clone(), threads, at_once, options, runs, from })
    }

    /// What is passed on to Slurm.
    fn options(&self) -> Result<Vec<String>, Failure> {
        let named = [
            ("--partition", &self.partition),
            ("--time", &self.time),
            ("--mem", &self.mem),
            ("--account", &self.account),
        ];
        let named = named.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let mut options: Vec<String> =
            named.map(|(name, value)| format!("{name}={value}")).collect();
        options.extend(passed_on(&self.options)?);
        Ok(options)
    }
}

/// Bytes, as Slurm writes them.
fn bytes(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(['K', 'M', 'G', 'T', 'k', 'm', 'g', 't']);
    let number = number.parse().ok().filter(|_| text.len() - number.len() <= 1);
    number.filter(|number: &u64| (1..1 << 40).contains(number))
}

/// Options of sbatch, a value of its own with the option before it.
pub(super) fn passed_on(words: &[String]) -> Result<Vec<String>, Failure> {
    let mut options: Vec<String> = Vec::new();
    for word in words {
        match options.last_mut() {
            _ if word.starts_with('-') => options.push(word.clone()),
            Some(last) if last.starts_with("--") => *last += &format!("={word}"),
            Some(last) => *last += word,
            None => {
                return Err(Failure::input(format!(
                    "'{word}' after -- is no option; expected options of sbatch, as in -- --qos=high"
                )));
            }
        }
    }
    Ok(options)
}

/// Hands what is neither done nor asked for already to an engine.
pub(super) fn submit(
    out: &Path,
    grid: Grid,
    jobs: &[Job],
    asked: Asked,
    mut slurm: Slurm,
    dry: bool,
    output: &mut impl Write,
) -> Result<(), Failure> {
    let survey = Survey::of(out, &Robots::default())?;
    let all = asked.runs.len();
    let [due, done] = survey.due(out, jobs, &asked.runs);
    let (open, count) = (all - due.len() - done.len(), due.len());
    let asked = Asked { runs: due, ..asked };
    let shown = printable(&out.display().to_string());
    if dry && count > 0 {
        let call = Call::draft(out, grid, asked)?;
        write!(output, "{}", slurm.plan(&call)?)?;
        return Ok(output.flush()?);
    }
    let all = runs(all);
    writeln!(output, "{all} in {shown}: {} done, {open} asked for already", done.len())?;
    if count > 0 && !dry {
        let engine = asked.engine.clone();
        let (call, _lock) = Call::begin(out, grid, asked)?;
        let runs: Vec<(usize, &str)> =
            call.asked.runs.iter().map(|&run| (run, &jobs[run].name[..])).collect();
        slurm.start(&call, &runs)?;
        let whole = slurm.name(&call)?;
        writeln!(output, "{count} submitted to {engine} as {whole}")?;
    }
    let (out, program) = (printable(&quote(&out.display().to_string())), text::program());
    writeln!(
        output,
        "next:\n  {program} grid status {out}    how they stand\n  {program} grid cancel {out}    end them; the same command again goes on\n  {program} report {out}    curves, table, statistics"
    )?;
    Ok(output.flush()?)
}

/// So many runs, in words.
pub(super) fn runs(count: usize) -> String {
    format!("{count} run{}", if count == 1 { "" } else { "s" })
}
