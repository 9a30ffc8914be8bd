//! The page: everything in one file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ecrl::algorithms;
use ecrl::metrics::{About, ENV_STEPS, Kind, Value};
use serde_json::json;

use crate::figure::{self, Frame, STEPS, Style, escape, ordered};
use crate::paint;
use crate::runs::Run;
use crate::{Report, TABLE_HEAD, cells, interval, population, published};

/// The whole page.
pub fn page(report: &Report, styles: &BTreeMap<String, Style>) -> String {
    let mut frames = Vec::new();
    let curves = curves(report, styles, &mut frames);
    let data = json!({
        "algorithms": report.labels,
        "colours": styles.iter().map(|(l, s)| (l, s.colour)).collect::<BTreeMap<_, _>>(),
        "panels": report.panels.iter().zip(frames).map(|(panel, frame)| json!({
            "frame": frame,
            "steps": panel.steps,
            "series": panel.series.iter().map(|series| json!({
                "label": series.label,
                "face": series.face,
                "points": series.points.iter().map(|p| {
                    let [mean, low, high] = [p.mean, p.low, p.high].map(digits);
                    json!([p.step.round(), mean, low, high, p.n])
                }).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    });
    // Within a script element, only this would end it.
    let data = data.to_string().replace("</", "<\\/");
    let (css, js) =
        (include_str!("page.css"), concat!(include_str!("plot.js"), include_str!("page.js")));
    let font = paint::font_face();
    let mut notes = String::new();
    for note in &report.notes {
        let _ = write!(notes, "<li class=\"note\">{}</li>", escape(note));
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"generator\" content=\"ecrl\">\
         <title>ecrl report</title><style>{font}{css}</style></head><body>\
         <h1>Reward and constraints</h1>\
         <p>{}. A policy has two faces: solid curves are tests with its mean action, which a robot is \
         shipped with; dotted ones are its sampled actions, which it is trained on. Feasible means both. \
         Band: {}. J_C is what a constraint measures over an episode, the mean or the sum of what its steps \
         cost; it must stay at or below the bound \u{3b5}, the dashed line across.</p><ul>{notes}</ul>{}\
         <h2>Learning curves</h2>{curves}<h2>Table</h2>{}{}<h2>Over all tasks</h2>{}\
         <h2>Training, run by run</h2>{}<h2>How to make this again</h2>{}\
         <script type=\"application/json\" id=\"data\">{data}</script><script>{js}</script>\
         </body></html>\n",
        report.count(),
        report.band.text(),
        controls(report, styles),
        table(report),
        beside(report),
        aggregates(report),
        training(report),
        again(report),
    )
}

fn digits(x: f64) -> f64 {
    format!("{x:.5e}").parse().unwrap_or(x)
}

fn controls(report: &Report, styles: &BTreeMap<String, Style>) -> String {
    let mut html = String::from(
        "<div class=\"controls\"><label>task <select id=\"task\"><option value=\"\">all</option>",
    );
    let mut tasks: Vec<&str> = report.panels.iter().map(|p| p.task.as_str()).collect();
    tasks.dedup();
    for task in tasks {
        let task = escape(task);
        let _ = write!(html, "<option value=\"{task}\">{task}</option>");
    }
    html += "</select></label>";
    let solid = Style { colour: "currentColor", dash: "" };
    for (face, text, style) in
        [("mean", "mean action", solid), ("sampled", "sampled", solid.dotted())]
    {
        let key = style.key();
        let _ = write!(
            html,
            "<label><input type=\"checkbox\" checked data-toggle-face=\"{face}\">{key}{text}</label>",
        );
    }
    for (label, style) in ordered(styles) {
        let label = escape(label);
        let _ = write!(
            html,
            "<label><input type=\"checkbox\" checked data-toggle=\"{label}\">\
             {}{label}</label>",
            style.key()
        );
    }
    html + "</div>"
}

fn curves(report: &Report, styles: &BTreeMap<String, Style>, frames: &mut Vec<Frame>) -> String {
    // One task alone has the whole width.
    let alone = report.panels.iter().all(|panel| panel.task == report.panels[0].task);
    let class = if alone { "panels alone" } else { "panels" };
    let mut html = format!("<div class=\"{class}\">");
    let mut open = None;
    for (i, panel) in report.panels.iter().enumerate() {
        if open != Some(&panel.task) {
            if open.is_some() {
                html += "</div>";
            }
            let _ = write!(html, "<div class=\"task\" data-task=\"{}\">", escape(&panel.task));
            open = Some(&panel.task);
        }
        let title = panel.title();
        let (frame, content) = figure::panel(panel, styles, &title);
        frames.push(frame);
        let _ = write!(
            html,
            "<div class=\"panel\" tabindex=\"0\" data-panel=\"{i}\" aria-label=\"{}, arrow keys read values\">{}</div>",
            escape(&title),
            frame.svg("curves", &content)
        );
    }
    html + "</div></div><p>Move over a curve, or focus a panel and use \
            the arrow keys, to read values. Lines are thin where some seeds are missing.</p>"
}

fn table(report: &Report) -> String {
    let head: String = TABLE_HEAD.iter().map(|name| format!("<th>{name}</th>")).collect();
    let mut html = format!("<div class=\"scroll\"><table><tr>{head}</tr>");
    for row in &report.table {
        let class = match row.feasible {
            Some(1.0) => "kept",
            Some(share) if share < 0.5 => "broken",
            _ => "",
        };
        let cells: String = cells(row)
            .iter()
            .enumerate()
            .map(|(i, text)| {
                let class = if i == 6 { class } else { "" };
                // An interval, or a second constraint, may stand on a line of its own.
                let text = escape(text).replace(" [", "<br>[").replace("; ", ";<br>");
                format!("<td class=\"{class}\">{text}</td>")
            })
            .collect();
        let (task, algorithm) = (escape(&row.task), escape(&row.algorithm));
        let _ =
            write!(html, "<tr data-task=\"{task}\" data-algorithm=\"{algorithm}\">{cells}</tr>");
    }
    html + "</table></div><p>Final: the last test of finished runs, mean over seeds with its 95 % \
            bootstrap interval, with the mean action and with sampled ones. Feasible: both kept every \
            constraint. Best feasible: the reward of the best policy, learner or champion, when it was \
            tested again on fresh starts and kept every constraint both ways. Excess in training: max(0, \
            J_C \u{2212} \u{3b5}) of the episodes really played, by population and learner, on the mean \
            over all steps.</p>"
}

fn beside(report: &Report) -> String {
    if report.published.is_empty() {
        return String::new();
    }
    let head = |names: &[&str]| -> String {
        names.iter().map(|name| format!("<th>{name}</th>")).collect()
    };
    let mut html = format!(
        "<h2>Beside published figures</h2><div class=\"scroll\"><table class=\"overview\"><tr>{}</tr>",
        head(&published::OVERVIEW_HEAD)
    );
    for published::Line { cells, ours } in &report.overview {
        let class = if *ours { "ours" } else { "" };
        let cells = cells.iter().map(|text| format!("<td>{}</td>", escape(text)));
        let _ = write!(html, "<tr class=\"{class}\">{}</tr>", cells.collect::<String>());
    }
    let _ = write!(
        html,
        "</table></div><p>{}</p><div class=\"scroll\"><table><tr>{}</tr>",
        published::NOTE,
        head(&published::HEAD)
    );
    for row in &report.published {
        let class = match row.feasible {
            Some(true) => "kept",
            Some(false) => "broken",
            None => "",
        };
        let cells = row.cells.iter().enumerate().map(|(i, text)| {
            let class = if i == 6 { class } else { "" };
            format!("<td class=\"{class}\">{}</td>", escape(text))
        });
        let task = escape(&row.cells[0]);
        let _ = write!(html, "<tr data-task=\"{task}\">{}</tr>", cells.collect::<String>());
    }
    html + "</table></div>"
}

fn aggregates(report: &Report) -> String {
    // Rewards are scaled by the runs at hand: of one algorithm alone they say nothing.
    if report.improvements.is_empty() {
        return "<p>For this, two algorithms need a finished run on every task.</p>".into();
    }
    let mut html = String::from(
        "<div class=\"scroll\"><table><tr><th>algorithm</th><th></th><th>reward, IQM</th>\
         <th>violation, IQM</th></tr>",
    );
    for a in &report.aggregates {
        let name = escape(&a.algorithm);
        let _ = write!(
            html,
            "<tr data-algorithm=\"{name}\"><td>{name}</td><td></td><td>{}</td><td>{}</td></tr>",
            interval(&a.reward),
            interval(&a.violation)
        );
    }
    html += "</table></div><p>Interquartile means over all tasks and finished runs, with 95 % stratified \
             bootstrap intervals. Reward: 0 is the least and 1 the most of any run on the task. \
             Violation: \u{3a3} max(0, J_C \u{2212} \u{3b5})/\u{3b5} of the worse face, less is better.</p>";
    html += "<div class=\"scroll\"><table><tr><th>A</th><th>B</th><th>P(A earns more)</th>\
             <th>P(A violates less)</th></tr>";
    for i in &report.improvements {
        let (a, b) = (escape(&i.a), escape(&i.b));
        let _ = write!(
            html,
            "<tr data-algorithm=\"{a}\"><td>{a}</td><td>{b}</td><td>{}</td><td>{}</td></tr>",
            interval(&i.reward),
            interval(&i.violation)
        );
    }
    html + "</table></div><p>Probability of improvement, averaged over tasks; a tie counts half.</p>"
}

/// What each run recorded of its algorithm, and of its population where there is one.
fn training(report: &Report) -> String {
    let mut html = String::new();
    for run in &report.runs {
        let (task, label) = (escape(&run.panel), escape(&run.label));
        let metrics = algorithms::find(&run.config.algorithm).map(|row| row.metrics());
        let mut panels: String =
            metrics.unwrap_or_default().into_iter().map(|about| metric(run, about)).collect();
        panels += &population::panels(run);
        if !panels.is_empty() {
            let _ = write!(
                html,
                "<details data-task=\"{task}\" data-algorithm=\"{label}\"><summary>{task}, {label}, \
                 seed {}</summary><div class=\"panels\">{panels}</div></details>",
                run.config.seed,
            );
        }
    }
    if html.is_empty() { "<p>Nothing has been recorded yet.</p>".into() } else { html }
}

/// Of what is drawn in small panels.
pub const PLAIN: Style = Style { colour: "#0072b2", dash: "" };
pub const OTHER: Style = Style { colour: "#d55e00", dash: "" };
pub const THIRD: Style = Style { colour: "#888888", dash: "" };

/// A line of a small panel's legend.
pub fn named(style: &Style, text: &str, line: usize) -> String {
    format!(
        "<text x=\"70\" y=\"{}\" fill=\"{}\">{}</text>",
        38 + 14 * line,
        style.colour,
        escape(text)
    )
}

/// Points of a small panel.
pub const POINTS: usize = 300;

/// A small panel of a metric, with a line for each constraint where it has a number for each; nothing
/// where it was not recorded.
fn metric(run: &Run, about: &About) -> String {
    let lines = if about.kind == Kind::Numbers { run.constraints.len() } else { 1 };
    let number = |value: &Value, i: usize| match value {
        Value::Count(count) => Some(*count as f64),
        Value::Number(number) => Some(*number),
        Value::Numbers(all) => all.get(i).copied(),
        Value::Flag(_) | Value::Text(_) => None,
    };
    let step = run.generations.len().div_ceil(POINTS).max(1);
    let points = |i: usize| -> Vec<(f64, f64)> {
        let some = run.generations.iter().step_by(step);
        some.filter_map(|g| Some((g.get(&ENV_STEPS)? as f64, number(g.value(about.name)?, i)?)))
            .filter(|point| point.1.is_finite())
            .collect()
    };
    let all: Vec<Vec<(f64, f64)>> = (0..lines).map(points).collect();
    if all.iter().all(Vec::is_empty) {
        return String::new();
    }
    let values = all.iter().flatten().map(|point| point.1);
    let title = about.name.replace('_', " ");
    let frame = Frame::new(&title, (0.0, run.steps() as f64), values);
    let axes = frame.axes(&title, [STEPS, about.unit]);
    let mut svg = format!("<title>{}</title>", escape(about.help)) + &axes;
    for (i, points) in all.into_iter().enumerate() {
        let style = [PLAIN, OTHER, THIRD][i % 3];
        svg += &match points[..] {
            [one] => frame.point(one, &style),
            _ => frame.line(points, &style, 1.4),
        };
        if lines > 1 {
            svg += &named(&style, &run.constraints[i].name, i);
        }
    }
    frame.svg("small", &svg)
}

fn again(report: &Report) -> String {
    let mut commands = String::new();
    for run in &report.runs {
        let _ = writeln!(commands, "{}", escape(&run.command()));
    }
    let mut made: Vec<String> = report
        .runs
        .iter()
        .flat_map(|run| &run.origins)
        .map(|o| format!("{} on {}, {} thread(s) a run", o.program, o.cpu, o.threads))
        .collect();
    made.sort();
    made.dedup();
    let unknown = report.runs.iter().filter(|run| run.origins.is_empty()).count();
    if unknown > 0 {
        made.push(format!("{unknown} runs do not say what they were made with"));
    }
    format!(
        "<p>Every run, whichever the machine and the number of threads: the same seed gives the same \
         numbers on the same kind of processor. Made with: {}.</p><pre>{commands}</pre><p>Then \
         <code>ecrl report</code> with their folders; the bootstrap always draws the same.</p>",
        escape(&made.join("; "))
    )
}
