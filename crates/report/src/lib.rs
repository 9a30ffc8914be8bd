//! Statistics and figures over run directories: one page that needs no network, figures as SVG and
//! PNG, and the numbers behind them as CSV and Markdown.

pub mod axis;
mod claims;
mod csv;
pub mod curves;
pub mod figure;
pub mod line;
pub mod live;
mod notes;
mod page;
mod paint;
pub mod paper;
pub mod picture;
pub mod playback;
mod population;
mod published;
pub mod runs;
pub mod stats;
pub mod triangles;

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use ::runs::directory::RunError;
use ::runs::output::{self, OutputError};
use cmdp::ConstraintError;
use ecrl::algorithms::ALGORITHMS;

use crate::curves::{Aggregate, Band, Improvement, Panel, Row};
use crate::runs::Run;
use crate::stats::Estimate;

/// A report that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Not a folder.
    #[error("{path}: expected a run directory, or a folder that holds some", path = .0.display())]
    NoFolder(PathBuf),
    /// There are no runs.
    #[error("no runs found in {list}", list = list(.0))]
    NoRuns(Vec<PathBuf>),
    /// A run cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A run's constraint is unknown.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// A file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Reading or writing failed.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
    /// A figure cannot be drawn.
    #[error("cannot draw a figure: {0}")]
    Figure(String),
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// What was found and computed.
pub struct Report {
    /// The runs.
    pub runs: Vec<Run>,
    /// The panels of the figure.
    pub panels: Vec<Panel>,
    /// The table.
    pub table: Vec<Row>,
    /// Aggregates over tasks.
    pub aggregates: Vec<Aggregate>,
    /// Comparisons of pairs.
    pub improvements: Vec<Improvement>,
    /// What a reader should know before believing it.
    pub notes: Vec<String>,
    /// Ours beside what others have published.
    published: Vec<published::Row>,
    overview: Vec<published::Line>,
    band: Band,
    labels: Vec<String>,
}

impl Report {
    /// Reads all runs in some folders, at any depth.
    pub fn new(folders: &[PathBuf], band: Band) -> Result<Self, ReportError> {
        let (runs, mut notes) = runs::load(folders)?;
        let groups = curves::groups(&runs);
        let mut rng = cmdp::rng([0; 4]);
        let panels = curves::panels(&groups, band, &mut rng);
        let table = curves::table(&groups, &mut rng);
        let (aggregates, improvements) = curves::aggregates(&groups, &mut rng);
        let mut labels: Vec<(&str, &str)> =
            runs.iter().map(|run| (&run.kind[..], &run.label[..])).collect();
        // In the order of the table of algorithms, so that colours are the same in most reports.
        labels.sort_by_key(|(kind, label)| {
            let name = kind.split(' ').next().unwrap_or_default();
            (ALGORITHMS.iter().position(|row| row.name() == name), *label)
        });
        labels.dedup();
        let labels: Vec<String> = labels.into_iter().map(|(_, label)| label.to_owned()).collect();
        notes.extend(notes::notes(&runs, &groups, &labels, &aggregates));
        let (overview, published) = (published::overview(&runs), published::table(&runs));
        Ok(Self {
            panels,
            table,
            aggregates,
            improvements,
            notes,
            published,
            overview,
            band,
            labels,
            runs,
        })
    }

    /// How many runs there are, in words.
    pub fn count(&self) -> String {
        match self.runs.len() {
            1 => "1 run".into(),
            n => format!("{n} runs"),
        }
    }

    /// Writes everything to a folder.
    pub fn write(&self, out: &Path) -> Result<(), ReportError> {
        let styles = figure::styles(self.labels.iter().map(String::as_str));
        let mut tasks: Vec<&str> = self.panels.iter().map(|panel| panel.task.as_str()).collect();
        tasks.dedup();
        let part = |champion: bool| -> Vec<Panel> {
            self.panels.iter().filter(|panel| panel.champion == champion).cloned().collect()
        };
        let mut sheets = vec![("curves".to_owned(), part(false))];
        if self.panels.iter().any(|panel| panel.champion) {
            sheets.push(("champion".to_owned(), part(true)));
        }
        if tasks.len() > 1 {
            sheets.extend(tasks.iter().map(|task| {
                let own = self.panels.iter().filter(|panel| panel.task == *task);
                (file_name(task), own.cloned().collect())
            }));
        }
        let mut all = Vec::new();
        for (name, panels) in sheets {
            let note = "Solid: mean action. Dotted: sampled actions. J_C: what a constraint measures over \
                        an episode, to stay at or below its bound, the dashed line.";
            let svg = figure::sheet(&panels, &styles, note);
            all.extend(drawing(&format!("figures/{name}"), &svg)?);
        }
        all.extend(
            [
                ("curves.csv", csv::curves(&self.panels)),
                ("table.csv", csv::table(&self.table)),
                ("metrics.csv", csv::metrics(&self.runs)),
                ("table.md", self.table_md()),
                ("published.md", published::markdown(&self.overview, &self.published)),
                (PAGE, page::page(self, &styles)),
            ]
            .map(|(name, text)| (name.to_owned(), text.into_bytes())),
        );
        if self.published.is_empty() {
            all.retain(|(name, _)| name != "published.md");
        }
        Ok(output::put_all(out, PAGE, &all, is_our_page)?)
    }

    fn table_md(&self) -> String {
        let head = TABLE_HEAD.join(" | ");
        let mut md = format!("| {head} |\n|{}\n", "---|".repeat(TABLE_HEAD.len()));
        for row in &self.table {
            let _ = writeln!(md, "| {} |", cells(row).join(" | "));
        }
        for note in &self.notes {
            let _ = writeln!(md, "\n- {note}");
        }
        md
    }
}

/// The report's page.
const PAGE: &str = "index.html";

/// Whether it is a page that this program wrote.
pub fn is_our_page(page: &[u8]) -> bool {
    // Pages of the first version do not name it.
    [
        "<meta name=\"generator\" content=\"ecrl\">",
        "<title>ecrl report</title>",
        "<script type=\"text/plain\" id=\"poses\">",
    ]
    .iter()
    .any(|mark| output::holds(page, mark))
}

/// A drawing's files, by name: SVG, PNG and PDF.
fn drawing(name: &str, svg: &str) -> Result<Vec<(String, Vec<u8>)>, ReportError> {
    let png = paint::png(svg).map_err(ReportError::Figure)?;
    let pdf = paint::pdf(svg).map_err(ReportError::Figure)?;
    let all = [("svg", svg.as_bytes().to_vec()), ("png", png), ("pdf", pdf)];
    Ok(all.map(|(end, bytes)| (format!("{name}.{end}"), bytes)).to_vec())
}

const TABLE_HEAD: [&str; 10] = [
    "task",
    "algorithm",
    "final reward, mean action",
    "sampled",
    "final J_C, mean action",
    "sampled",
    "feasible seeds",
    "best feasible reward",
    "excess in training",
    "seeds",
];

/// A row of the table as text.
fn cells(row: &Row) -> [String; 10] {
    let estimate = |e: &Option<Estimate>| e.as_ref().map_or("-".into(), interval);
    let all = |texts: Vec<String>| if texts.is_empty() { "-".into() } else { texts.join("; ") };
    let costs = |face: usize| all(row.cost[face].iter().map(estimate).collect());
    let excess = row.excess.iter().map(|x| x.map_or("-".into(), axis::short));
    [
        row.task.clone(),
        row.algorithm.clone(),
        estimate(&row.reward[0]),
        estimate(&row.reward[1]),
        costs(0),
        costs(1),
        row.feasible.map_or("-".into(), |share| format!("{:.0} %", 100.0 * share)),
        row.best_feasible.map_or("-".into(), |best| {
            let of = if row.with_feasible < row.seeds {
                format!(" ({} of {})", row.with_feasible, row.seeds)
            } else {
                String::new()
            };
            axis::short(best) + &of
        }),
        all(excess.collect()),
        match row.unfinished {
            0 => row.seeds.to_string(),
            more => format!("{} (+{more} unfinished)", row.seeds),
        },
    ]
}

/// A value with its interval, where there is one.
fn interval(e: &Estimate) -> String {
    let [value, low, high] = [e.value, e.low, e.high].map(axis::short);
    if e.low == e.high { value } else { format!("{value} [{low}, {high}]") }
}

fn file_name(text: &str) -> String {
    text.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
}
