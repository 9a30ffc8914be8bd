//! The paper's figures from runs: each a sheet in its layout, with what the paper says of every panel
//! and whether the runs agree.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use runs::paper::Figure;

use crate::claims::{self, End, Ends, Verdict};
use crate::curves::Panel;
use crate::figure::{self, Style, escape, short};
use crate::runs::{Face, Metric, Run, RunState, Subject};
use crate::{Report, ReportError, put};

/// The paper's robots, in its order, and what it calls them.
const TASKS: [(&str, &str); 5] = [
    ("ant", "Ant"),
    ("half-cheetah", "HalfCheetah"),
    ("walker2d", "Walker2d"),
    ("hopper", "Hopper"),
    ("swimmer", "Swimmer"),
];

/// A figure of the paper.
pub struct Sheet {
    figure: Figure,
    /// The paper's name of every agent of the line-up.
    names: Vec<&'static str>,
    panels: Vec<Panel>,
    robots: Vec<Robot>,
    steps: Vec<u64>,
}

/// A column of a figure.
struct Robot {
    name: &'static str,
    ends: Ends,
    /// What the paper says of it.
    verdicts: Vec<(&'static str, Verdict)>,
}

impl Sheet {
    /// A figure from a report's runs; `labels` tells how those of each agent of the line-up are
    /// labelled, in its order.
    pub fn new(report: &Report, figure: Figure, labels: &[String]) -> Self {
        let names: Vec<&'static str> = figure.agents().iter().map(|agent| agent.name).collect();
        let label_of: BTreeMap<&str, &'static str> =
            labels.iter().map(String::as_str).zip(names.iter().copied()).collect();
        let (mut panels, mut robots) = (Vec::new(), Vec::new());
        for (task, name) in TASKS {
            for panel in report.panels.iter().filter(|panel| panel.task == task && !panel.champion)
            {
                let sampled = panel.series.iter().filter(|series| series.face == Face::Sampled);
                let mut series: Vec<_> = sampled
                    .filter_map(|series| {
                        let label = (*label_of.get(series.label.as_str())?).to_owned();
                        Some(crate::curves::Series { label, ..series.clone() })
                    })
                    .collect();
                series.sort_by_key(|series| names.iter().position(|name| *name == series.label));
                panels.push(Panel { task: name.into(), series, ..panel.clone() });
            }
            let own = |run: &&Run| run.panel == task && run.state == RunState::Finished;
            let mut runs: BTreeMap<&'static str, Vec<&Run>> = BTreeMap::new();
            for run in report.runs.iter().filter(own) {
                if let Some(name) = label_of.get(run.label.as_str()) {
                    runs.entry(name).or_default().push(run);
                }
            }
            let ends: Ends = runs.iter().map(|(name, runs)| (*name, end(runs))).collect();
            let verdicts = claims::judge(figure, task, &ends);
            robots.push(Robot { name, ends, verdicts });
        }
        let mut steps: Vec<u64> = report
            .runs
            .iter()
            .filter(|run| label_of.contains_key(run.label.as_str()))
            .map(|run| run.config.steps)
            .collect();
        steps.sort_unstable();
        steps.dedup();
        Self { figure, names, panels, robots, steps }
    }

    /// How many of the paper's sentences the runs agree with, disagree with, and leave open.
    pub fn counts(&self) -> [usize; 3] {
        let all = || self.robots.iter().flat_map(|robot| &robot.verdicts);
        ["agree", "disagree", "cannot tell"]
            .map(|word| all().filter(|(_, verdict)| verdict.word() == word).count())
    }

    /// Writes it to a folder, as a page, an SVG and a PNG, named after the figure.
    pub fn write(&self, out: &Path) -> Result<(), ReportError> {
        let styles = figure::styles(self.names.iter().copied());
        let note =
            "environment steps, sampled actions, as the authors test; dashed across: torque ≤ 0.4";
        let svg = figure::sheet(&self.panels, &styles, note);
        let name = self.figure.name();
        put(out, &format!("{name}.svg"), svg.as_bytes())?;
        put(out, &format!("{name}.png"), &figure::png(&svg).map_err(ReportError::Figure)?)?;
        put(out, &format!("{name}.html"), self.page(&svg, &styles).as_bytes())
    }

    fn page(&self, svg: &str, styles: &BTreeMap<String, Style>) -> String {
        let steps: Vec<String> = self.steps.iter().map(|steps| short(*steps as f64)).collect();
        let mut notes = String::new();
        if self.steps != [1_000_000] {
            let steps = if steps.is_empty() { "no".into() } else { steps.join(", ") };
            let _ = write!(
                notes,
                "<p class=\"note\">These runs have {steps} steps, the paper's 1M: what they say of the \
                 paper is worth little.</p>"
            );
        }
        let mut robots = String::new();
        for Robot { name, ends, verdicts } in &self.robots {
            let _ = write!(robots, "<section><h2>{name}</h2>");
            robots += "<table class=\"claims\"><tr><th>the paper says</th><th>these runs</th></tr>";
            for (says, verdict) in verdicts {
                let (class, more) = match verdict {
                    Verdict::Agrees => ("kept", String::new()),
                    Verdict::Disagrees => ("broken", String::new()),
                    Verdict::Open(why) => ("", format!(": {}", escape(why))),
                };
                let _ = write!(
                    robots,
                    "<tr><td>{}</td><td class=\"{class}\">{}{more}</td></tr>",
                    escape(says),
                    verdict.word()
                );
            }
            robots += "</table>";
            robots += &self.ends(ends, styles);
            robots += "</section>";
        }
        let [agree, disagree, open] = self.counts();
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>{title}</title><style>{css}</style></head><body><h1>{title}</h1>\
             <p>The paper's figure, made anew: reward above, constraint below. Of what the paper says of it, \
             these runs agree with {agree}, disagree with {disagree} and leave {open} open.</p>{notes}\
             <div class=\"scroll figure\">{svg}</div><div class=\"robots\">{robots}</div>\
             <p>At the end of training: the mean over the last tenth of the steps and over finished runs, with \
             sampled actions; J_C with the mean action beside it. \u{201c}About\u{201d} is within a fifth, \
             \u{201c}about 2000 above\u{201d} 1000 to 3000, \u{201c}nearly 5000 more\u{201d} at least 3500, \
             and torques within 0.05 are similar. Hu et al., Evolving Constrained Reinforcement Learning \
             Policy, IJCNN 2023.</p></body></html>\n",
            title = escape(self.figure.title()),
            css = include_str!("page.css"),
        )
    }

    fn ends(&self, ends: &Ends, styles: &BTreeMap<String, Style>) -> String {
        if ends.is_empty() {
            return "<p>No finished run.</p>".into();
        }
        let mut html = String::from(
            "<div class=\"scroll\"><table><tr><th>agent</th><th></th><th>reward</th><th>J_C</th>\
             <th>J_C, mean action</th><th>seeds</th></tr>",
        );
        for name in &self.names {
            let Some(end) = ends.get(name) else { continue };
            let class = if end.cost <= 0.4 { "kept" } else { "broken" };
            let _ = write!(
                html,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{class}\">{:.3}</td><td>{:.3}</td>\
                 <td>{}</td></tr>",
                styles[*name].key(),
                escape(name),
                short(end.reward),
                end.cost,
                end.mean_cost,
                end.seeds
            );
        }
        html + "</table></div>"
    }
}

/// How an agent's runs ended, on the mean.
fn end(runs: &[&Run]) -> End {
    let tail = |face: Face, metric: Metric| -> f64 {
        let each = runs.iter().filter_map(|run| {
            let tests = run.tests(Subject::Learner, face, metric);
            let from = 0.9 * run.config.steps as f64;
            let last: Vec<f64> = tests.iter().filter(|t| t.0 >= from).map(|t| t.1).collect();
            // A short run may have a single test, which need not be in its last tenth.
            if last.is_empty() {
                tests.last().map(|t| t.1)
            } else {
                Some(crate::stats::mean(&last))
            }
        });
        crate::stats::mean(&each.collect::<Vec<_>>())
    };
    // Over the steps, where all of them have come.
    let all: Vec<Vec<(f64, f64)>> = runs
        .iter()
        .map(|run| run.tests(Subject::Learner, Face::Sampled, Metric::Cost(0)))
        .collect();
    let costs = (0..=100).filter_map(|i| {
        let step = 1e4 * f64::from(i);
        let each: Option<Vec<f64>> =
            all.iter().map(|tests| crate::stats::interpolate(tests, step)).collect();
        Some((step, crate::stats::mean(&each?)))
    });
    End {
        reward: tail(Face::Sampled, Metric::Reward),
        cost: tail(Face::Sampled, Metric::Cost(0)),
        mean_cost: tail(Face::Mean, Metric::Cost(0)),
        costs: costs.collect(),
        seeds: runs.len(),
    }
}
