//! `ecrl report`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use report::Report;
use runs::shell::printable;

use crate::failure::Failure;

#[derive(Args)]
pub struct ReportArgs {
    /// Run directories, or folders that hold some at any depth
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// The folder of the report
    #[arg(long, default_value = "report")]
    out: PathBuf,
    /// What the band around a curve shows: the 95 % bootstrap interval of the mean, or one standard
    /// deviation over seeds
    #[arg(long, value_enum, default_value = "ci")]
    band: Band,
}

#[derive(Clone, Copy, ValueEnum)]
enum Band {
    Ci,
    Sd,
}

pub fn report(args: ReportArgs, output: &mut impl Write) -> Result<(), Failure> {
    let band = match args.band {
        Band::Ci => report::curves::Band::Bootstrap,
        Band::Sd => report::curves::Band::Deviation,
    };
    let report = Report::new(&args.runs, band)?;
    report.write(&args.out)?;
    for note in &report.notes {
        writeln!(output, "note: {}", printable(note))?;
    }
    let out = printable(&args.out.display().to_string());
    writeln!(output, "{} reported in {out}: open {out}/index.html", report.count())?;
    Ok(())
}
