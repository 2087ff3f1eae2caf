//! Text as pixels, for PNG: each glyph at its own bearing, sub-pixel positions kept, kerning applied.

use ab_glyph::{Font, FontRef, Glyph, ScaleFont, point};
use std::sync::OnceLock;

/// A pixel of a text: place relative to the anchor (middle of the text, middle of its capitals), and coverage in 0..1.
pub type Coverage = (i32, i32, f32);

fn font(bold: bool) -> Option<&'static FontRef<'static>> {
    static REGULAR: OnceLock<Option<FontRef<'static>>> = OnceLock::new();
    static BOLD: OnceLock<Option<FontRef<'static>>> = OnceLock::new();
    let (cell, bytes) = if bold {
        (&BOLD, dejavu::sans::bold as fn() -> &'static [u8])
    } else {
        (&REGULAR, dejavu::sans::regular as fn() -> &'static [u8])
    };
    cell.get_or_init(|| FontRef::try_from_slice(bytes()).ok()).as_ref()
}

/// Glyphs on a baseline from x = 0, and the width, for an em of `em` pixels.
fn laid_out(text: &str, em: f32, bold: bool) -> Option<(Vec<Glyph>, f32)> {
    let font = font(bold)?;
    // ab_glyph's scale is the height from ascent to descent; an em is what CSS and SVG call the font size.
    let scale = em * font.height_unscaled() / font.units_per_em()?;
    let scaled = font.as_scaled(scale);
    let mut glyphs: Vec<Glyph> = Vec::new();
    let mut x = 0.0;
    for c in text.chars() {
        let id = scaled.glyph_id(c);
        if let Some(previous) = glyphs.last() {
            x += scaled.kern(previous.id, id);
        }
        glyphs.push(id.with_scale_and_position(scale, point(x, 0.0)));
        x += scaled.h_advance(id);
    }
    Some((glyphs, x))
}

/// Width of a text in pixels.
pub fn width(text: &str, em: f32, bold: bool) -> f32 {
    laid_out(text, em, bold).map_or(0.6 * em * text.chars().count() as f32, |(_, width)| width)
}

/// The pixels of a text around its middle.
pub fn pixels(text: &str, em: f32, bold: bool) -> Vec<Coverage> {
    let (Some((glyphs, width)), Some(font)) = (laid_out(text, em, bold), font(bold)) else { return Vec::new() };
    let half_capital = 0.36 * em;
    let mut all = Vec::new();
    for mut glyph in glyphs {
        glyph.position.x -= width / 2.0;
        glyph.position.y += half_capital.round();
        let Some(outline) = font.outline_glyph(glyph) else { continue };
        let corner = outline.px_bounds().min;
        outline.draw(|x, y, share| all.push((corner.x as i32 + x as i32, corner.y as i32 + y as i32, share.min(1.0))));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_lie_around_the_middle_and_inside_the_width() {
        let text = "TP8 EP8, c256";
        let half = width(text, 26.0, false) / 2.0;
        let all = pixels(text, 26.0, false);
        assert!(!all.is_empty());
        assert!(all.iter().all(|(x, _, _)| (*x as f32).abs() <= half + 2.0));
        // Capitals and digits stand half above and half below the middle, give or take a pixel.
        let inked = |sign: i32| all.iter().filter(|p| p.2 > 0.5 && p.1.signum() == sign).count() as f32;
        assert!((0.6..1.7).contains(&(inked(1) / inked(-1))));
    }

    #[test]
    fn a_bold_text_is_wider() {
        assert!(width("recommended", 20.0, true) > width("recommended", 20.0, false));
    }
}
