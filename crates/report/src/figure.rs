//! Figures as SVG.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::axis::{labelled, short, ticks};
use crate::curves::{Panel, Point};
use crate::paint::FONT;
pub use crate::paint::Painter;
use crate::runs::Face;

/// The size of a panel.
pub const SIZE: (f64, f64) = (340.0, 240.0);

/// Okabe and Ito's colours, told apart by colour-blind people too, on white and on black.
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#888888"];
const DASHES: [&str; 3] = ["", "9 3", "9 3 3 3"];
/// Of what is done with sampled actions, in the same order.
const DOTTED: [&str; 3] = ["1.5 2.5", "1.5 2.5 1.5 6", "1.5 6"];

/// How an algorithm is drawn, everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// The colour.
    pub colour: &'static str,
    /// The dashes of its line.
    pub dash: &'static str,
}

impl Style {
    /// The same for what is done with sampled actions.
    pub fn dotted(self) -> Self {
        let place = DASHES.iter().position(|dash| *dash == self.dash).unwrap_or(0);
        Self { dash: DOTTED[place], ..self }
    }

    /// A piece of its line, for a legend in a page.
    pub fn key(&self) -> String {
        let Self { colour, dash } = self;
        format!(
            r#"<svg class="key" viewBox="0 0 26 6"><path d="M0 3h26" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dash}"/></svg>"#
        )
    }
}

/// A style for each label, in their order.
pub fn styles<'a>(labels: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, Style> {
    let styles = labels.into_iter().enumerate().map(|(i, label)| {
        let dash = DASHES[i / COLOURS.len() % DASHES.len()];
        (label.to_owned(), Style { colour: COLOURS[i % COLOURS.len()], dash })
    });
    styles.collect()
}

/// Where a panel's numbers lie.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Frame {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: (f64, f64),
    y: (f64, f64),
}

impl Frame {
    /// A frame in which all points are seen, under a title.
    pub fn new(title: &str, x: (f64, f64), values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .filter(|v| v.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let room = if high > low { 0.06 * (high - low) } else { high.abs().max(1.0) * 0.1 };
        let x = if x.1 > x.0 { x } else { (x.0, x.0 + 1.0) };
        let y = (low - room, high + room);
        let (width, height) = SIZE;
        let top = 10.0 + LINE * lines(title).len() as f64;
        Self { width, height, left: 62.0, right: 18.0, top, bottom: 40.0, x, y }
    }

    fn px(&self, x: f64) -> f64 {
        let share = (x - self.x.0) / (self.x.1 - self.x.0);
        self.left + share * (self.width - self.left - self.right)
    }

    fn py(&self, y: f64) -> f64 {
        let share = (y - self.y.0) / (self.y.1 - self.y.0);
        self.height - self.bottom - share * (self.height - self.top - self.bottom)
    }

    /// Axes with their numbers and names, and a title.
    pub fn axes(&self, title: &str, [below, beside]: [&str; 2]) -> String {
        let mut svg = String::new();
        let (x0, x1) = (self.left, self.width - self.right);
        let (y0, y1) = (self.height - self.bottom, self.top);
        for (tick, text) in labelled(ticks(self.y.0, self.y.1, 5)) {
            let y = self.py(tick);
            let _ = write!(
                svg,
                r#"<path d="M{x0:.1} {y:.1}H{x1:.1}" stroke="currentColor" opacity=".13"/><text x="{:.1}" y="{:.1}" text-anchor="end">{text}</text>"#,
                x0 - 5.0,
                y + 3.5
            );
        }
        for (tick, text) in labelled(ticks(self.x.0, self.x.1, 4)) {
            let x = self.px(tick);
            let _ = write!(
                svg,
                r#"<path d="M{x:.1} {y0:.1}v4" stroke="currentColor" opacity=".6"/><text x="{x:.1}" y="{:.1}" text-anchor="middle">{text}</text>"#,
                y0 + 16.0
            );
        }
        let (middle, centre) = ((x0 + x1) / 2.0, (y0 + y1) / 2.0);
        let _ = write!(
            svg,
            r#"<path d="M{x0:.1} {y1:.1}V{y0:.1}H{x1:.1}" stroke="currentColor" fill="none" opacity=".6"/><text x="{middle:.1}" y="{:.1}" text-anchor="middle" opacity=".75">{}</text><text transform="translate(13 {centre:.1}) rotate(-90)" text-anchor="middle" opacity=".75">{}</text>"#,
            self.height - 8.0,
            escape(below),
            escape(beside)
        );
        for (i, line) in lines(title).iter().enumerate() {
            let y = 15.0 + LINE * i as f64;
            let _ = write!(
                svg,
                r#"<text x="8" y="{y:.1}" font-size="12" font-weight="bold">{}</text>"#,
                escape(line)
            );
        }
        svg
    }

    /// A dashed line across, with its value.
    pub fn threshold(&self, value: f64) -> String {
        let (x0, x1, y) = (self.left, self.width - self.right, self.py(value));
        // Above the line, or below it where there is no room.
        let text = if y - 14.0 > self.top { y - 4.0 } else { y + 12.0 };
        format!(
            r#"<path class="threshold" d="M{x0:.1} {y:.1}H{x1:.1}" stroke="currentColor" stroke-width="1.3" stroke-dasharray="5 4" fill="none"/><text x="{:.1}" y="{text:.1}" text-anchor="end" font-size="10">bound ≤ {}</text>"#,
            x1 - 2.0,
            short(value)
        )
    }

    /// A dashed line upright, where what is below the axis has its bound.
    pub fn limit(&self, value: f64) -> String {
        let (x, y0, y1) = (self.px(value), self.height - self.bottom, self.top);
        format!(
            r#"<path class="threshold" d="M{x:.1} {y0:.1}V{y1:.1}" stroke="currentColor" stroke-width="1.3" stroke-dasharray="5 4" fill="none"/>"#
        )
    }

    /// A line through points.
    pub fn line(
        &self,
        points: impl IntoIterator<Item = (f64, f64)>,
        style: &Style,
        width: f64,
    ) -> String {
        let path = self.path(points);
        if path.is_empty() {
            return String::new();
        }
        format!(
            r#"<path d="M{path}" stroke="{}" stroke-width="{width}" stroke-dasharray="{}" stroke-linejoin="round" fill="none"/>"#,
            style.colour, style.dash
        )
    }

    /// A single point, which no line leads to.
    pub fn point(&self, (x, y): (f64, f64), style: &Style) -> String {
        let (x, y) = (self.px(x), self.py(y));
        format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{}"/>"#, style.colour)
    }

    /// Dots.
    pub fn dots(&self, points: impl IntoIterator<Item = (f64, f64)>, colour: &str) -> String {
        let mut svg = format!(r#"<g fill="{colour}" opacity=".35">"#);
        for (x, y) in points {
            let _ =
                write!(svg, r#"<circle cx="{:.1}" cy="{:.1}" r="1.6"/>"#, self.px(x), self.py(y));
        }
        svg + "</g>"
    }

    fn path(&self, points: impl IntoIterator<Item = (f64, f64)>) -> String {
        let points =
            points.into_iter().map(|(x, y)| format!("{:.1} {:.1}", self.px(x), self.py(y)));
        points.collect::<Vec<_>>().join("L")
    }

    fn band(&self, points: &[Point], style: &Style) -> String {
        let there = points.iter().map(|p| (p.step, p.high));
        let back = points.iter().rev().map(|p| (p.step, p.low));
        let path = self.path(there.chain(back));
        format!(r#"<path d="M{path}Z" fill="{}" opacity=".17" stroke="none"/>"#, style.colour)
    }

    /// A finished drawing of this size.
    pub fn svg(&self, class: &str, content: &str) -> String {
        let (w, h) = (self.width, self.height);
        format!(
            r#"<svg class="{class}" viewBox="0 0 {w:.0} {h:.0}" role="img" xmlns="http://www.w3.org/2000/svg" font-family="{FONT}, sans-serif" font-size="11" fill="currentColor">{content}</svg>"#
        )
    }
}

/// One panel: its frame and its drawing.
pub fn panel(panel: &Panel, styles: &BTreeMap<String, Style>, title: &str) -> (Frame, String) {
    let points = panel.series.iter().flat_map(|s| &s.points);
    let values = points.flat_map(|p| [p.low, p.high]).chain(panel.threshold);
    let frame = Frame::new(title, (0.0, panel.steps), values);
    let beside = if panel.threshold.is_some() { "J_C" } else { "return" };
    let mut svg = frame.axes(title, [STEPS, beside]);
    if let Some(threshold) = panel.threshold {
        svg += &frame.threshold(threshold);
    }
    for series in panel.series.iter().filter(|series| !series.points.is_empty()) {
        // Where both faces are drawn, the one is dotted.
        let both = panel.series.iter().any(|series| series.face == Face::Mean);
        let (style, sampled) = (styles[&series.label], both && series.face == Face::Sampled);
        let style = &if sampled { style.dotted() } else { style };
        let _ = write!(
            svg,
            r#"<g class="series" data-algorithm="{}" data-face="{}">"#,
            escape(&series.label),
            series.face.name()
        );
        // One band for each algorithm: two would hide each other.
        if !sampled && series.points.iter().any(|p| p.high > p.low) {
            svg += &frame.band(&series.points, style);
        }
        // Where seeds are missing, the line is thin.
        let all = |p: &Point| p.n == series.seeds;
        for part in series.points.chunk_by(|a, b| all(a) == all(b)) {
            let width = if all(&part[0]) && !sampled { 1.8 } else { 1.0 };
            svg += &match part {
                [one] => frame.point((one.step, one.mean), style),
                _ => frame.line(part.iter().map(|p| (p.step, p.mean)), style, width),
            };
        }
        svg += "</g>";
    }
    (frame, svg)
}

/// All panels in the paper's layout: a column for each task, reward above, constraints below; those of one
/// task alone side by side. And a note.
pub fn sheet(panels: &[Panel], styles: &BTreeMap<String, Style>, note: &str) -> String {
    let mut columns: Vec<Vec<&Panel>> = Vec::new();
    for one in panels {
        match columns.last_mut() {
            Some(column) if column[0].task == one.task => column.push(one),
            _ => columns.push(vec![one]),
        }
    }
    if let [alone] = &columns[..] {
        let across = alone.len().min(3);
        columns =
            (0..across).map(|x| alone.iter().copied().skip(x).step_by(across).collect()).collect();
    }
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    let below = SIZE.1 * rows as f64;
    // The note needs some room.
    let note = wrapped(note, 110);
    let width = (SIZE.0 * columns.len() as f64).max(680.0);
    let longest = styles.keys().map(|label| label.chars().count()).max().unwrap_or(0);
    let slot = 56.0 + 6.5 * longest as f64;
    let per_row = ((width / slot) as usize).max(1);
    let legend = 18.0 * styles.len().div_ceil(per_row) as f64;
    let height = below + legend + 8.0 + LINE * note.len() as f64 + 6.0;
    let mut svg = format!(
        r##"<svg viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" xmlns="http://www.w3.org/2000/svg" font-family="{FONT}, sans-serif" font-size="11" color="#111" fill="currentColor"><rect width="100%" height="100%" fill="#fff"/>"##
    );
    for (x, column) in columns.iter().enumerate() {
        for (y, one) in column.iter().enumerate() {
            let (x, y) = (SIZE.0 * x as f64, SIZE.1 * y as f64);
            let content = panel(one, styles, &one.title()).1;
            let _ = write!(svg, r#"<g transform="translate({x} {y})">{content}</g>"#);
        }
    }
    for (i, (label, style)) in ordered(styles).into_iter().enumerate() {
        let x = 16.0 + slot * (i % per_row) as f64;
        let y = below + 10.0 + 18.0 * (i / per_row) as f64;
        let _ = write!(
            svg,
            r#"<path d="M{x:.0} {y:.0}h26" stroke="{}" stroke-width="2.5" stroke-dasharray="{}"/><text x="{:.0}" y="{:.0}">{}</text>"#,
            style.colour,
            style.dash,
            x + 32.0,
            y + 4.0,
            escape(label)
        );
    }
    for (i, line) in note.iter().enumerate() {
        let y = below + legend + 16.0 + LINE * i as f64;
        let _ = write!(svg, r#"<text x="16" y="{y:.0}" opacity=".75">{}</text>"#, escape(line));
    }
    svg + "</svg>"
}

/// What is below the axis of most panels.
pub const STEPS: &str = "environment steps";
/// Between two lines of text.
const LINE: f64 = 15.0;

/// A title in lines that fit a panel.
fn lines(title: &str) -> Vec<String> {
    wrapped(title, 48)
}

/// Text in lines of at most so many characters, but for words that are longer.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                *line += " ";
                *line += word;
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Styles in the order of their colours.
pub fn ordered(styles: &BTreeMap<String, Style>) -> Vec<(&String, &Style)> {
    let place = |style: &Style| {
        let dash = DASHES.iter().position(|d| *d == style.dash).unwrap_or(0);
        let colour = COLOURS.iter().position(|c| *c == style.colour).unwrap_or(0);
        (dash, colour)
    };
    let mut all: Vec<_> = styles.iter().collect();
    all.sort_by_key(|(_, style)| place(style));
    all
}

/// Text as it may stand in HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_wrapped_and_never_cut() {
        let title = "half-cheetah (mean(torque)<=0.4, sum(velocity)<=25): mean torque";
        let lines = lines(title);
        assert_eq!(lines.join(" "), title);
        assert!(lines.len() == 2 && lines.iter().all(|line| line.len() <= 48), "{lines:?}");
    }
}
