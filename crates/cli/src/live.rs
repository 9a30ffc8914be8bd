//! A few lines that are drawn over and over: at the end of a terminal, whatever its width and however it
//! changes, or where whoever reads them replaces them.

use std::io::{self, IsTerminal as _, Write};

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Not at all.
    Quiet,
    /// A line now and then.
    Lines,
    /// A picture at the end of a terminal.
    Terminal,
    /// A picture that begins with a form feed and replaces the last one; an empty one takes it away.
    Pages,
}

impl View {
    /// What fits standard output.
    pub(crate) fn of_stdout(quiet: bool) -> Self {
        match (quiet, io::stdout().is_terminal()) {
            (true, _) => Self::Quiet,
            (_, true) => Self::Terminal,
            (_, false) => Self::Lines,
        }
    }

    /// What is drawn over and over, if anything is.
    pub(crate) fn live(self) -> Option<Live> {
        let live = |pages| Live { pages, drawn: 0, size: (0, 0) };
        match self {
            Self::Quiet | Self::Lines => None,
            Self::Terminal => Some(live(false)),
            Self::Pages => Some(live(true)),
        }
    }
}

/// The lines that were drawn last.
#[derive(Default)]
pub struct Live {
    /// Whether whoever reads them replaces them.
    pages: bool,
    /// How many there are.
    drawn: usize,
    /// The terminal's size then.
    size: (usize, usize),
}

impl Live {
    /// Draws lines over the last ones.
    pub fn draw(&mut self, output: &mut impl Write, lines: &[String]) -> io::Result<()> {
        if self.pages {
            self.drawn = lines.len();
            writeln!(output, "\x0c{}", lines.join("\n"))?;
            return output.flush();
        }
        let size = size();
        let (text, drawn) = frame(self.drawn, lines, size, size != self.size);
        (self.drawn, self.size) = (drawn, size);
        output.write_all(text.as_bytes())?;
        output.flush()
    }

    /// Takes the last lines away.
    pub fn clear(&mut self, output: &mut impl Write) -> io::Result<()> {
        if self.drawn == 0 { Ok(()) } else { self.draw(output, &[]) }
    }
}

/// Columns of the terminal.
pub fn columns() -> usize {
    size().0
}

/// Columns and rows of the terminal.
fn size() -> (usize, usize) {
    let size = terminal_size::terminal_size();
    size.map_or((80, 24), |(columns, rows)| (columns.0.max(1).into(), rows.0.max(2).into()))
}

/// A bar between two texts, as wide as there is room for it.
pub fn bar(title: &str, share: f64, end: &str) -> String {
    bar_within(title, share, end, size().0 - 1)
}

fn bar_within(title: &str, share: f64, end: &str, columns: usize) -> String {
    let room = columns.saturating_sub(title.chars().count() + end.chars().count() + 4).min(30);
    match room {
        0..4 => format!("{title}  {end}"),
        _ => {
            let full = (share * room as f64) as usize;
            format!("{title}  {}{}  {end}", "━".repeat(full), "╌".repeat(room - full))
        }
    }
}

/// What draws lines over so many that were drawn before, and how many those are. A terminal that was
/// resized has broken and moved the old ones, each in its own way: then all that is seen is drawn anew.
fn frame(
    before: usize,
    lines: &[String],
    (columns, rows): (usize, usize),
    resized: bool,
) -> (String, usize) {
    let mut text = match (before, resized) {
        (0, _) => String::new(),
        (_, true) => "\x1b[H\x1b[2J".into(),
        (before, false) => format!("\x1b[{before}A\r"),
    };
    let lines = fit(lines, rows - 1);
    for line in &lines {
        // One column less: some terminals go on to the next line when the last one is written to.
        let line = cut(line, columns.saturating_sub(1).max(1));
        text += &format!("\x1b[2K{line}\n");
    }
    (text + "\x1b[J", lines.len())
}

/// At most so many lines; those in the middle are left out.
fn fit(lines: &[String], most: usize) -> Vec<String> {
    let (count, most) = (lines.len(), most.max(1));
    if count <= most {
        return lines.to_vec();
    }
    let (head, tail) = ((most - 1) / 2, (most - 1).div_ceil(2));
    let left_out = format!("... {} more", count - head - tail);
    [&lines[..head], &[left_out], &lines[count - tail..]].concat()
}

/// Text of at most so many characters.
pub fn cut(text: &str, most: usize) -> String {
    match text.chars().count() <= most {
        true => text.to_owned(),
        false => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(widths: &[usize]) -> Vec<String> {
        widths.iter().map(|n| "x".repeat(*n)).collect()
    }

    #[test]
    fn lines_are_cut_to_the_terminal_and_drawn_over_each_other() {
        let (text, drawn) = frame(0, &lines(&[5, 100]), (80, 24), true);
        assert_eq!((drawn, text.matches('x').count()), (2, 5 + 78));
        assert!(text.starts_with("\x1b[2Kxxxxx\n") && text.contains('…'), "{text:?}");
        let (text, _) = frame(drawn, &lines(&[5]), (80, 24), false);
        assert_eq!(text, "\x1b[2A\r\x1b[2Kxxxxx\n\x1b[J");
        // Where old lines are now, nobody knows.
        let (text, _) = frame(2, &lines(&[5]), (40, 24), true);
        assert_eq!(text, "\x1b[H\x1b[2J\x1b[2Kxxxxx\n\x1b[J");
    }

    #[test]
    fn the_bar_takes_the_room_there_is() {
        let end = " 43 %  430000/1000000 steps  102/s  eta 1h 33m";
        let line = bar_within("ecrl on hopper", 0.5, end, 79);
        assert_eq!(line.chars().count(), 79 - 15 + 15, "{line}");
        assert_eq!(line.matches('━').count(), line.matches('╌').count() - 1, "{line}");
        assert!(!bar_within("ecrl on hopper", 0.5, end, 40).contains('━'));
    }

    #[test]
    fn there_are_never_more_lines_than_rows() {
        let (text, drawn) = frame(0, &lines(&[1; 50]), (80, 10), false);
        assert_eq!(drawn, 9);
        assert!(text.contains("... 42 more"), "{text}");
    }
}
