//! Figures as SVG, and as PNG for where SVG cannot go.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use resvg::{tiny_skia, usvg};

use crate::curves::{Panel, Point};
use crate::runs::Face;

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
    /// A frame in which all points are seen.
    pub fn new(width: f64, height: f64, x: (f64, f64), values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .filter(|v| v.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let room = if high > low { 0.06 * (high - low) } else { high.abs().max(1.0) * 0.1 };
        let x = if x.1 > x.0 { x } else { (x.0, x.0 + 1.0) };
        let y = (low - room, high + room);
        Self { width, height, left: 52.0, right: 18.0, top: 24.0, bottom: 26.0, x, y }
    }

    fn px(&self, x: f64) -> f64 {
        let share = (x - self.x.0) / (self.x.1 - self.x.0);
        self.left + share * (self.width - self.left - self.right)
    }

    fn py(&self, y: f64) -> f64 {
        let share = (y - self.y.0) / (self.y.1 - self.y.0);
        self.height - self.bottom - share * (self.height - self.top - self.bottom)
    }

    /// Axes with their numbers, and a title.
    pub fn axes(&self, title: &str) -> String {
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
        let _ = write!(
            svg,
            r#"<path d="M{x0:.1} {y1:.1}V{y0:.1}H{x1:.1}" stroke="currentColor" fill="none" opacity=".6"/><text x="{x0:.1}" y="15" font-weight="bold">{}</text>"#,
            escape(title)
        );
        svg
    }

    /// A dashed line across.
    pub fn threshold(&self, y: f64) -> String {
        let (x0, x1, y) = (self.left, self.width - self.right, self.py(y));
        format!(
            r#"<path class="threshold" d="M{x0:.1} {y:.1}H{x1:.1}" stroke="currentColor" stroke-width="1.3" stroke-dasharray="5 4" fill="none"/>"#
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
            r#"<svg class="{class}" viewBox="0 0 {w:.0} {h:.0}" role="img" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11" fill="currentColor">{content}</svg>"#
        )
    }
}

/// One panel: its frame and its drawing.
pub fn panel(panel: &Panel, styles: &BTreeMap<String, Style>, title: &str) -> (Frame, String) {
    let points = panel.series.iter().flat_map(|s| &s.points);
    let values = points.flat_map(|p| [p.low, p.high]).chain(panel.threshold);
    let frame = Frame::new(330.0, 220.0, (0.0, panel.steps), values);
    let mut svg = frame.axes(title);
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
            svg += &frame.line(part.iter().map(|p| (p.step, p.mean)), style, width);
        }
        svg += "</g>";
    }
    (frame, svg)
}

/// All panels in the paper's layout: a column for each task, reward above, constraints below; and a note.
pub fn sheet(panels: &[Panel], styles: &BTreeMap<String, Style>, note: &str) -> String {
    let mut columns: Vec<Vec<&Panel>> = Vec::new();
    for one in panels {
        match columns.last_mut() {
            Some(column) if column[0].task == one.task => column.push(one),
            _ => columns.push(vec![one]),
        }
    }
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    // The note needs some room.
    let width = (330.0 * columns.len() as f64).max(760.0);
    let longest = styles.keys().map(|label| label.chars().count()).max().unwrap_or(0);
    let slot = 56.0 + 6.5 * longest as f64;
    let per_row = ((width / slot) as usize).max(1);
    let legend = 24.0 + 18.0 * styles.len().div_ceil(per_row) as f64;
    let height = 220.0 * rows as f64 + legend;
    let mut svg = format!(
        r##"<svg viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11" color="#111" fill="currentColor"><rect width="100%" height="100%" fill="#fff"/>"##
    );
    for (x, column) in columns.iter().enumerate() {
        for (y, one) in column.iter().enumerate() {
            let title = format!("{}: {}", one.task, one.metric);
            let (x, y) = (330 * x, 220 * y);
            let content = panel(one, styles, &title).1;
            let _ = write!(svg, r#"<g transform="translate({x} {y})">{content}</g>"#);
        }
    }
    for (i, (label, style)) in ordered(styles).into_iter().enumerate() {
        let x = 16.0 + slot * (i % per_row) as f64;
        let y = 220.0 * rows as f64 + 16.0 + 18.0 * (i / per_row) as f64;
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
    let y = height - 6.0;
    let _ = write!(svg, r#"<text x="16" y="{y:.0}" opacity=".7">{}</text></svg>"#, escape(note));
    svg
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

/// What draws an SVG, with a font: none need be installed.
pub struct Painter(usvg::Options<'static>);

impl Painter {
    /// Loads the font.
    pub fn new() -> Result<Self, String> {
        let mut options = usvg::Options::default();
        let fonts = options.fontdb_mut();
        fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
        let family = fonts.faces().next().map(|face| face.families[0].0.clone());
        fonts.set_sans_serif_family(family.ok_or("no font")?);
        Ok(Self(options))
    }

    fn paint(&self, svg: &str, scale: f32) -> Result<tiny_skia::Pixmap, String> {
        let tree = usvg::Tree::from_str(svg, &self.0).map_err(|e| e.to_string())?;
        let size = tree.size().to_int_size().scale_by(scale).ok_or("no size")?;
        let mut pixels = tiny_skia::Pixmap::new(size.width(), size.height()).ok_or("no memory")?;
        resvg::render(&tree, tiny_skia::Transform::from_scale(scale, scale), &mut pixels.as_mut());
        Ok(pixels)
    }

    /// Writes lines of text into the upper left corner of a picture, so many times as large as usual:
    /// red, green, blue, row after row.
    pub fn write(
        &self,
        picture: &mut [u8],
        width: usize,
        scale: f32,
        lines: &[String],
    ) -> Result<(), String> {
        let height = 10 + 18 * lines.len();
        let mut svg = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="300" height="{height}" font-family="sans-serif" font-size="14"><rect width="300" height="{height}" fill="#000" opacity=".55"/>"##
        );
        for (i, line) in lines.iter().enumerate() {
            let y = 19 + 18 * i;
            let _ = write!(svg, r##"<text x="9" y="{y}" fill="#fff">{}</text>"##, escape(line));
        }
        let over = self.paint(&(svg + "</svg>"), scale)?;
        for (y, row) in over.pixels().chunks_exact(over.width() as usize).enumerate() {
            for (x, pixel) in row.iter().enumerate().take(width) {
                let Some(under) = picture.get_mut(3 * (y * width + x)..3 * (y * width + x) + 3)
                else {
                    break;
                };
                let rest = 255 - u32::from(pixel.alpha());
                let colours = [pixel.red(), pixel.green(), pixel.blue()];
                for (under, over) in under.iter_mut().zip(colours) {
                    *under = (u32::from(over) + u32::from(*under) * rest / 255).min(255) as u8;
                }
            }
        }
        Ok(())
    }
}

/// An SVG as PNG, twice as large.
pub fn png(svg: &str) -> Result<Vec<u8>, String> {
    Painter::new()?.paint(svg, 2.0)?.encode_png().map_err(|e| e.to_string())
}

/// Round numbers between two, about `count` of them.
pub fn ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let rough = (high - low) / count as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    (first..).map(|i| i as f64 * step).take_while(|x| *x <= high + 1e-9 * step).collect()
}

/// Ticks with their texts: short ones, or where those are the same, with as many digits as it takes.
fn labelled(ticks: Vec<f64>) -> Vec<(f64, String)> {
    let texts: Vec<String> = ticks.iter().copied().map(short).collect();
    let same = texts.windows(2).any(|pair| pair[0] == pair[1]);
    let step = ticks.windows(2).next().map_or(1.0, |pair| pair[1] - pair[0]);
    let digits = (-step.log10() - 1e-6).ceil().clamp(0.0, 12.0) as usize;
    let label = |(tick, text)| (tick, if same { format!("{tick:.digits$}") } else { text });
    ticks.into_iter().zip(texts).map(label).collect()
}

/// A number for an axis: 1.5k, 2M, 0.25.
pub fn short(x: f64) -> String {
    let trim = |text: String| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    };
    match x.abs() {
        0.0 => "0".into(),
        a if a >= 1e6 => trim(format!("{:.2}", x / 1e6)) + "M",
        a if a >= 1e4 => trim(format!("{:.1}", x / 1e3)) + "k",
        a if a >= 1.0 => trim(format!("{x:.2}")),
        a if a >= 1e-3 => trim(format!("{x:.4}")),
        _ => format!("{x:.1e}"),
    }
}

/// Text as it may stand in HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(-0.3, 10.2, 5), [0.0, 5.0, 10.0]);
        assert_eq!(ticks(0.0, 100_000.0, 4), [0.0, 50_000.0, 100_000.0]);
        let texts: Vec<String> = [0.0, 0.4, 1500.0, 50_000.0, 2e6, -0.05].map(short).to_vec();
        assert_eq!(texts, ["0", "0.4", "1500", "50k", "2M", "-0.05"]);
        let texts = |ticks: &[f64]| -> Vec<String> {
            labelled(ticks.to_vec()).into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(texts(&[0.0, 0.5, 1.0]), ["0", "0.5", "1"]);
        assert_eq!(
            texts(&[0.001, 0.00100001, 0.00100002]),
            ["0.00100000", "0.00100001", "0.00100002"]
        );
    }

    #[test]
    fn text_and_lines_reach_the_png() {
        let svg = r##"<svg xmlns="http://www.w3.org/2000/svg" width="60" height="20" font-family="sans-serif"><rect width="60" height="20" fill="#fff"/><text x="2" y="14">text</text></svg>"##;
        let with = png(svg).unwrap();
        assert!(with.starts_with(b"\x89PNG"));
        let without = png(&svg.replace(">text<", "><")).unwrap();
        assert!(with.len() > without.len() + 100, "{} {}", with.len(), without.len());
    }
}
