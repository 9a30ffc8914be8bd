//! Drawings as PNG and PDF, for where SVG cannot go, and text on pictures: all with one font, which the
//! page has, too.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use resvg::{tiny_skia, usvg};

use crate::figure::escape;

/// The font's family, as SVG and CSS name it.
pub const FONT: &str = "ecrl";

/// The font as a rule of CSS.
pub fn font_face() -> String {
    let font = BASE64_STANDARD.encode(epaint_default_fonts::UBUNTU_LIGHT);
    format!("@font-face {{ font-family: {FONT}; src: url(data:font/ttf;base64,{font}); }}\n")
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

/// An SVG as PDF.
pub fn pdf(svg: &str) -> Result<Vec<u8>, String> {
    let tree = usvg::Tree::from_str(svg, &Painter::new()?.0).map_err(|e| e.to_string())?;
    let pdf = svg2pdf::to_pdf(&tree, Default::default(), Default::default());
    Ok(in_order(&pdf.map_err(|e| e.to_string())?))
}

/// The same PDF with the names in its dictionaries in order: svg2pdf leaves them as they come, another
/// way each time. Lines only change places, so that nothing else moves.
fn in_order(pdf: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = pdf.split(|byte| *byte == b'\n').collect();
    let is_name =
        |line: &&[u8]| line.trim_ascii_start().starts_with(b"/") && line.ends_with(b" 0 R");
    for run in lines.chunk_by_mut(|a, b| is_name(a) && is_name(b)) {
        run.sort_unstable();
    }
    lines.join(&b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_lines_reach_the_png() {
        let svg = r##"<svg xmlns="http://www.w3.org/2000/svg" width="60" height="20" font-family="sans-serif"><rect width="60" height="20" fill="#fff"/><text x="2" y="14">text</text></svg>"##;
        let with = png(svg).unwrap();
        assert!(with.starts_with(b"\x89PNG"));
        let without = png(&svg.replace(">text<", "><")).unwrap();
        assert!(with.len() > without.len() + 100, "{} {}", with.len(), without.len());
    }

    #[test]
    fn text_and_lines_reach_the_pdf() {
        let svg = r##"<svg xmlns="http://www.w3.org/2000/svg" width="60" height="20" font-family="ecrl, sans-serif"><text x="2" y="14">text</text><path d="M0 0L5 5" stroke="#123456"/></svg>"##;
        let with = pdf(svg).unwrap();
        assert!(with.starts_with(b"%PDF-"));
        // The same drawing is the same file.
        let part = r#"<g opacity=".5"><path d="M0 0L5 5L9 1Z"/></g>"#;
        let many = svg.replace("<path", &format!("{}<path", part.repeat(9)));
        assert!((0..5).all(|_| pdf(&many).unwrap() == pdf(&many).unwrap()));
        let without = pdf(&svg.replace(">text<", "><")).unwrap();
        assert!(with.len() > without.len() + 1000, "{} {}", with.len(), without.len());
    }
}
