//! The `ecrl` command: reads what was typed, calls the libraries, prints. What Python's package shares with
//! it is public.

mod bench;
mod compare;
pub mod environment;
mod eval;
mod export;
mod failure;
mod grid;
mod list;
mod live;
mod live_page;
mod play;
mod plot;
mod policies;
mod progress;
mod report;
mod screen;
mod standing;
mod stop;
mod tasks;
mod text;
mod train;
mod video;
mod workers;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

pub use failure::Failure;
pub use live::View;
pub use progress::Progress;
pub use stop::Stop;
pub use tasks::tasks_json;
pub use workers::player;

/// Trains robot policies that earn reward and keep their constraints.
#[derive(Parser)]
#[command(name = "ecrl", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a policy
    Train(train::TrainArgs),
    /// Go on with a run that was stopped, or was killed, or is to take more steps
    Resume(train::ResumeArgs),
    /// Measure a trained policy: episodes with its mean action and with sampled ones
    Eval(eval::EvalArgs),
    /// Watch a trained policy: a page with the robot in 3-D, or a video
    Play(play::PlayArgs),
    /// Write a trained policy for other programs
    Export(export::ExportArgs),
    /// List runs: how far each is, what it earns and whether it keeps its constraints
    Runs(list::RunsArgs),
    /// Compare two runs: what differs in their values and results
    Compare(compare::CompareArgs),
    /// List the tasks, or begin and check a task of your own
    Tasks(tasks::TasksArgs),
    /// List the algorithms, or the values, presets and metrics of one
    Algorithms {
        /// The algorithm
        name: Option<String>,
    },
    /// Play recorded actions again and print every step as a line of JSON
    ///
    /// The file holds one JSON object:
    /// {"qpos": [...], "qvel": [...], "actions": [[...], ...], "constraints": ["torque<=0.4"]}
    ///
    /// The first line printed is the first observation, then one line for each action, past
    /// termination too. Without "constraints" the task's own, torque<=0.4, is measured.
    #[command(verbatim_doc_comment)]
    Replay {
        /// The task, as listed by `ecrl tasks`, or the file of one of your own
        task: String,
        /// The JSON file
        file: PathBuf,
    },
    /// Run a grid of tasks, algorithms and seeds
    ///
    /// Every run goes to a folder of its own. Started again, it goes on with what is unfinished.
    Grid(grid::GridArgs),
    /// Make the paper's figures: their runs, a sheet each, and a report
    Paper(grid::PaperArgs),
    /// Make curves, a table and statistics of runs: one page, and files for a paper
    Report(report::ReportArgs),
    /// Watch runs in a browser as they grow: curves, constraints, populations, and the robot itself
    Live(live_page::LiveArgs),
    /// Print a script that completes commands in a shell
    ///
    /// For bash, say: ecrl completions bash > ~/.local/share/bash-completion/completions/ecrl
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page: ecrl man | man -l -
    Man,
    /// Measure the speed of this machine
    Bench {
        #[command(subcommand)]
        what: bench::BenchCommand,
    },
}

/// Runs a command line, beginning with the program's name, and returns its exit code. `program` is how
/// another process is started that does the same: itself, where nothing is given.
pub fn command(
    arguments: impl IntoIterator<Item = OsString>,
    program: Option<Vec<OsString>>,
) -> u8 {
    let parsed = Cli::try_parse_from(arguments).map_err(|error| match error.kind() {
        // Help and version are no errors, and are printed whole.
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        _ => Failure::usage(&error),
    });
    match parsed.and_then(|cli| run(cli.command, program)) {
        Ok(()) => 0,
        Err(Failure { message, code }) => {
            if !message.is_empty() {
                // Nobody may read any more: the exit code still tells.
                let _ = writeln!(io::stderr(), "error: {}", runs::shell::printable(&message));
            }
            code
        }
    }
}

fn run(command: Command, program: Option<Vec<OsString>>) -> Result<(), Failure> {
    let itself = || Ok::<_, Failure>(vec![std::env::current_exe().map_err(Failure::run)?.into()]);
    let program = program.map_or_else(itself, Ok);
    let mut output = BufWriter::new(io::stdout());
    match command {
        Command::Train(args) => train::train(args, program?, &mut output)?,
        Command::Resume(args) => train::resume(args, program?, &mut output)?,
        Command::Eval(args) => eval::eval(args, &mut output)?,
        Command::Play(args) => play::play(args, &mut output)?,
        Command::Export(args) => export::export(args, &mut output)?,
        Command::Runs(args) => list::runs(args, &mut output)?,
        Command::Compare(args) => compare::compare(args, &mut output)?,
        Command::Tasks(args) => tasks::tasks(args, &mut output)?,
        Command::Algorithms { name } => tasks::algorithms(name.as_deref(), &mut output)?,
        Command::Replay { task, file } => tasks::replay(&task, file, &mut output)?,
        Command::Grid(args) => grid::grid(args, program?, &mut output)?,
        Command::Paper(args) => grid::paper(args, program?, &mut output)?,
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "ecrl", &mut output);
        }
        Command::Man => manual(&mut output)?,
        Command::Live(args) => live_page::live(args, &mut output)?,
        Command::Report(args) => report::report(args, &mut output)?,
        Command::Bench { what } => bench::bench(what, &mut output)?,
    }
    Ok(output.flush()?)
}

/// The manual page, all commands on one.
fn manual(output: &mut impl io::Write) -> Result<(), Failure> {
    let mut command = Cli::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(output)?;
    commands(&command, "ECRL", output)
}

fn commands(
    command: &clap::Command,
    name: &str,
    output: &mut impl io::Write,
) -> Result<(), Failure> {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = format!("{name} {}", sub.get_name().to_uppercase());
        writeln!(output, ".SH \"{name}\"")?;
        let page = clap_mangen::Man::new(sub.clone());
        page.render_description_section(output)?;
        page.render_synopsis_section(output)?;
        page.render_options_section(output)?;
        commands(sub, &name, output)?;
    }
    Ok(())
}

/// The number of threads asked for, or all there are.
fn threads(asked: Option<u16>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.map_or_else(all, usize::from)
}
