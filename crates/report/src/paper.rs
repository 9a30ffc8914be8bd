//! The paper's figures from runs: each a sheet in its layout, with what the paper says of every panel
//! and whether the runs agree.
//!
//! Algorithm 1 returns the learner; the authors' code tests the champion of a population where there is
//! one. Which of them the paper's curves are of it does not say: there is a sheet, and a verdict, for each.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use runs::output;
use runs::paper::Figure;

use crate::axis::short;
use crate::claims::{self, End, Ends, Verdict};
use crate::curves::{self, Groups, Panel, Series};
use crate::figure::{self, Style, escape};
use crate::runs::{Face, Metric, Run, RunState, Subject};
use crate::{Report, ReportError, drawing, is_our_page, paint, stats};

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
    /// Of the learner and of the champion.
    panels: [Vec<Panel>; 2],
    robots: Vec<Robot>,
    steps: Vec<u64>,
    /// Runs with other constraints, which are left out.
    others: usize,
}

/// A column of a figure.
struct Robot {
    name: &'static str,
    /// Of the learner and of the champion.
    ends: [Ends; 2],
    /// What the paper says of it.
    verdicts: [Vec<(&'static str, Verdict)>; 2],
}

const SUBJECTS: [Subject; 2] = [Subject::Learner, Subject::Champion];

impl Sheet {
    /// A figure from a report's runs; `labels` tells how those of each agent of the line-up are
    /// labelled, in its order.
    pub fn new(report: &Report, figure: Figure, labels: &[String]) -> Self {
        let names: Vec<&'static str> = figure.agents().iter().map(|agent| agent.name).collect();
        let label_of: BTreeMap<&str, &'static str> =
            labels.iter().map(String::as_str).zip(names.iter().copied()).collect();
        let named = |label: &str| label_of.get(label).copied();
        let line_up = |run: &&Run| named(&run.kind).is_some();
        let (runs, others): (Vec<&Run>, Vec<&Run>) = report
            .runs
            .iter()
            .filter(line_up)
            .partition(|run| run.config.constraints == ["mean(torque)<=0.4"]);
        let mut groups: Groups = BTreeMap::new();
        for run in &runs {
            let task = groups.entry(&run.config.task).or_default();
            task.entry(&run.kind).or_default().push(run);
        }
        let drawn = curves::panels(&groups, report.band, &mut cmdp::rng([0; 4]));
        let panels = SUBJECTS.map(|subject| panels(&drawn, subject, &names, &named));
        let robots = TASKS.map(|(task, name)| {
            let own = |run: &&&Run| run.config.task == task && run.state == RunState::Finished;
            let mut of: BTreeMap<&'static str, Vec<&Run>> = BTreeMap::new();
            for run in runs.iter().filter(own) {
                if let Some(name) = named(&run.kind) {
                    of.entry(name).or_default().push(run);
                }
            }
            let ends = SUBJECTS
                .map(|subject| of.iter().map(|(name, runs)| (*name, end(runs, subject))).collect());
            let verdicts = [0, 1].map(|i| claims::judge(figure, task, &ends[i]));
            Robot { name, ends, verdicts }
        });
        let mut steps: Vec<u64> = runs.iter().map(|run| run.config.steps).collect();
        steps.sort_unstable();
        steps.dedup();
        let others = others.len();
        Self { figure, names, panels, robots: robots.into(), steps, others }
    }

    /// How many of the paper's sentences the learners agree with, disagree with, and leave open.
    pub fn counts(&self) -> [usize; 3] {
        let all = || self.robots.iter().flat_map(|robot| &robot.verdicts[0]);
        ["agree", "disagree", "cannot tell"]
            .map(|word| all().filter(|(_, verdict)| verdict.word() == word).count())
    }

    /// Writes it to a folder, as a page, and each drawing as SVG and PNG, named after the figure.
    pub fn write(&self, out: &Path) -> Result<(), ReportError> {
        let styles = figure::styles(self.names.iter().copied());
        let name = self.figure.name();
        let page = format!("{name}.html");
        let mut all = Vec::new();
        let mut drawings = Vec::new();
        for (panels, (suffix, who)) in self.panels.iter().zip([
            ("", "the learner"),
            (
                "-champion",
                "the champion of a population, as the authors' code tests; else the learner",
            ),
        ]) {
            let note = format!(
                "Of {who}, with sampled actions; the dashed line is the bound, torque ≤ 0.4."
            );
            let svg = figure::sheet(panels, &styles, &note);
            all.extend(drawing(&format!("{name}{suffix}"), &svg)?);
            drawings.push(svg);
        }
        all.push((page.clone(), self.page(&drawings, &styles).into_bytes()));
        Ok(output::put_all(out, &page, &all, is_our_page)?)
    }

    fn page(&self, drawings: &[String], styles: &BTreeMap<String, Style>) -> String {
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
        if self.others > 0 {
            let _ = write!(
                notes,
                "<p class=\"note\">{} runs with other constraints than torque \u{2264} 0.4 are left out.</p>",
                self.others
            );
        }
        let mut robots = String::new();
        for Robot { name, ends, verdicts } in &self.robots {
            let _ = write!(robots, "<section><h2>{name}</h2>");
            robots += "<table class=\"claims\"><tr><th>the paper says</th><th>these learners</th>\
                       <th>champions</th></tr>";
            for ((says, learner), (_, champion)) in verdicts[0].iter().zip(&verdicts[1]) {
                let _ = write!(robots, "<tr><td>{}</td>", escape(says));
                for verdict in [learner, champion] {
                    let (class, more) = match verdict {
                        Verdict::Agrees => ("kept", String::new()),
                        Verdict::Disagrees => ("broken", String::new()),
                        Verdict::Open(why) => ("", format!(": {}", escape(why))),
                    };
                    let word = verdict.word();
                    let _ = write!(robots, "<td class=\"{class}\">{word}{more}</td>");
                }
                robots += "</tr>";
            }
            robots += "</table>";
            robots += &self.ends(ends, styles);
            robots += "</section>";
        }
        let figures: String = drawings
            .iter()
            .map(|svg| format!("<div class=\"scroll figure\">{svg}</div>"))
            .collect();
        let [agree, disagree, open] = self.counts();
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"generator\" content=\"ecrl\"><title>{title}</title><style>{font}{css}</style></head><body><h1>{title}</h1>\
             <p>The paper's figure, made anew: reward above, constraint below. Of what the paper says of it, \
             these learners agree with {agree}, disagree with {disagree} and leave {open} open. Algorithm 1 returns \
             the learner, the authors\u{2019} code tests the champion, the first or the most rewarding of a \
             population: the second drawing has those, with the learner of agents without a population.</p>\
             {notes}{figures}<div class=\"robots\">{robots}</div>\
             <p>At the end of training: the mean over the last tenth of the steps and over finished runs, with \
             sampled actions; J_C with the mean action beside it. \u{201c}About\u{201d} is within a fifth, \
             \u{201c}about 2000 above\u{201d} 1000 to 3000, \u{201c}nearly 5000 more\u{201d} at least 3500, \
             \u{201c}much more\u{201d} a fifth; rewards within 1000 are similar, and torques within 0.05. Hu et al., Evolving Constrained Reinforcement Learning \
             Policy, IJCNN 2023.</p></body></html>\n",
            title = escape(self.figure.title()),
            font = paint::font_face(),
            css = include_str!("page.css"),
        )
    }

    fn ends(&self, [learners, champions]: &[Ends; 2], styles: &BTreeMap<String, Style>) -> String {
        if learners.is_empty() {
            return "<p>No finished run.</p>".into();
        }
        let mut html = String::from(
            "<div class=\"scroll\"><table><tr><th>agent</th><th></th><th>reward</th><th>J_C</th>\
             <th>J_C, mean action</th><th>champion\u{2019}s reward</th><th>J_C</th><th>seeds</th></tr>",
        );
        let class = |cost: f64| if cost <= claims::EPSILON { "kept" } else { "broken" };
        for name in &self.names {
            let (Some(end), Some(champion)) = (learners.get(name), champions.get(name)) else {
                continue;
            };
            let _ = write!(
                html,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{}\">{}</td><td class=\"{}\">{}</td>\
                 <td>{}</td><td class=\"{}\">{}</td><td>{}</td></tr>",
                styles[*name].key(),
                escape(name),
                short(end.reward),
                class(end.cost),
                short(end.cost),
                class(end.mean_cost),
                short(end.mean_cost),
                short(champion.reward),
                class(champion.cost),
                short(champion.cost),
                end.seeds
            );
        }
        html + "</table></div>"
    }
}

/// The panels of a figure, in its order: of the learner, or of the champion where there is one.
fn panels(
    drawn: &[Panel],
    subject: Subject,
    names: &[&'static str],
    named: &dyn Fn(&str) -> Option<&'static str>,
) -> Vec<Panel> {
    let mut panels = Vec::new();
    for (task, name) in TASKS {
        let own = |champion: bool| {
            let own = drawn.iter().filter(move |panel| panel.task == task);
            own.filter(move |panel| panel.champion == champion)
        };
        for (i, panel) in own(false).enumerate() {
            let champions = (subject == Subject::Champion).then(|| own(true).nth(i)).flatten();
            let with = |label: &str| {
                let all = champions.into_iter().chain([panel]).flat_map(|panel| &panel.series);
                let mut own = all.filter(|s| s.label == label && s.face == Face::Sampled);
                own.find(|series| !series.points.is_empty())
            };
            let labels = panel.series.iter().filter(|series| series.face == Face::Sampled);
            let mut series: Vec<Series> = labels
                .filter_map(|series| {
                    let label = named(&series.label)?.to_owned();
                    Some(Series { label, ..with(&series.label)?.clone() })
                })
                .collect();
            series.sort_by_key(|series| names.iter().position(|name| *name == series.label));
            panels.push(Panel { task: name.into(), series, ..panel.clone() });
        }
    }
    panels
}

/// How an agent's runs ended, on the mean: its learners, or its champions where there are any.
fn end(runs: &[&Run], subject: Subject) -> End {
    let tests = |run: &Run, face: Face, metric: Metric| {
        let own = run.tests(subject, face, metric);
        if own.is_empty() { run.tests(Subject::Learner, face, metric) } else { own }
    };
    let tail = |face: Face, metric: Metric| -> f64 {
        let each = runs.iter().filter_map(|run| {
            let tests = tests(run, face, metric);
            let from = 0.9 * run.config.steps as f64;
            let last: Vec<f64> = tests.iter().filter(|t| t.0 >= from).map(|t| t.1).collect();
            // A short run may have a single test, which need not be in its last tenth.
            if last.is_empty() { tests.last().map(|t| t.1) } else { Some(stats::mean(&last)) }
        });
        stats::mean(&each.collect::<Vec<_>>())
    };
    // Over the steps, where all of them have come.
    let curve = |metric: Metric| -> Vec<(f64, f64)> {
        let all: Vec<_> = runs.iter().map(|run| tests(run, Face::Sampled, metric)).collect();
        let points = (0..=100).filter_map(|i| {
            let step = 1e4 * f64::from(i);
            let each = all.iter().map(|tests| stats::interpolate(tests, step));
            Some((step, stats::mean(&each.collect::<Option<Vec<f64>>>()?)))
        });
        points.collect()
    };
    End {
        reward: tail(Face::Sampled, Metric::Reward),
        cost: tail(Face::Sampled, Metric::Cost(0)),
        mean_cost: tail(Face::Mean, Metric::Cost(0)),
        costs: curve(Metric::Cost(0)),
        rewards: curve(Metric::Reward),
        seeds: runs.len(),
    }
}
