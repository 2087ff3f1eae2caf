//! What can be drawn, independent of the file format: lines, dots, boxes and text in abstract pixels.

use super::raster_text;
use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::sync::Once;

/// Ink of axes and text; the report's style sheet repaints it in the dark.
pub const INK: RGBColor = RGBColor(0x1f, 0x29, 0x33);
/// Secondary text.
pub const MUTED: RGBColor = RGBColor(0x5f, 0x6b, 0x7a);
/// Grid lines.
pub const GRID: RGBColor = RGBColor(0xe3, 0xe7, 0xec);
/// Background.
pub const PAPER: RGBColor = RGBColor(0xfe, 0xfe, 0xfe);
/// Cloud of evaluated points that keep every SLO.
pub const CLOUD: RGBColor = RGBColor(0x8f, 0xa3, 0xbf);
/// The front.
pub const FRONT: RGBColor = RGBColor(0x1f, 0x6f, 0xb5);
/// The recommendation.
pub const CHOSEN: RGBColor = RGBColor(0xd9, 0x48, 0x0f);
/// Limits.
pub const LIMIT: RGBColor = RGBColor(0xb0, 0x2a, 0x37);

/// A place on the canvas, in abstract pixels from the top left corner.
pub type Place = (f64, f64);

/// Which point of a text its place names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Left edge, middle height.
    Left,
    /// Middle.
    Center,
    /// Right edge, middle height.
    Right,
}

/// What a chart draws on.
pub trait Canvas {
    /// A polyline.
    fn line(&mut self, points: &[Place], color: RGBColor, width: f64) -> Result<()>;
    /// A filled disc.
    fn dot(&mut self, at: Place, radius: f64, color: RGBColor, opacity: f64) -> Result<()>;
    /// A filled box.
    fn fill(&mut self, from: Place, to: Place, color: RGBColor) -> Result<()>;
    /// Text, horizontal.
    fn text(&mut self, text: &str, at: Place, size: f64, color: RGBColor, anchor: Anchor, bold: bool) -> Result<()>;
    /// Text turned by 90° against the clock, centred.
    fn text_upwards(&mut self, text: &str, at: Place, size: f64, color: RGBColor) -> Result<()>;
    /// Width of a text of normal weight.
    fn text_width(&self, text: &str, size: f64) -> f64;
}

/// A chart: its size and how it is drawn.
pub trait Chart {
    /// Width and height in abstract pixels.
    fn size(&self) -> (u32, u32);
    /// Draws it.
    fn draw(&self, canvas: &mut dyn Canvas) -> Result<()>;
}

/// A heading at its size, smaller or shortened where it is wider than `room`.
pub fn heading(canvas: &mut dyn Canvas, text: &str, at: Place, room: f64) -> Result<()> {
    // Bold is about an eighth wider than what `text_width` measures.
    let width = |canvas: &dyn Canvas, text: &str, size: f64| 1.13 * canvas.text_width(text, size);
    let size = [19.0, 17.0, 15.0].into_iter().find(|s| width(canvas, text, *s) <= room).unwrap_or(15.0);
    let mut shown = text.to_string();
    while width(canvas, &shown, size) > room && shown.pop().is_some() {}
    if shown.len() < text.len() {
        shown.pop();
        shown.push('…');
    }
    canvas.text(&shown, at, size, INK, Anchor::Left, true)
}

const FAMILY: &str = "sans-serif";

fn register_fonts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // The bytes are the crate's own and parse; a failure would surface as FontUnavailable when text is drawn.
        let _ = register_font(FAMILY, FontStyle::Normal, dejavu::sans::regular());
        let _ = register_font(FAMILY, FontStyle::Bold, dejavu::sans::bold());
    });
}

/// The chart as an SVG document.
pub fn svg(chart: &dyn Chart) -> Result<String> {
    register_fonts();
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, chart.size()).into_drawing_area();
        area.fill(&PAPER).map_err(failed)?;
        chart.draw(&mut Scaled { area: &area, scale: 1.0, raster: false })?;
        area.present().map_err(failed)?;
    }
    Ok(text)
}

/// The chart as a PNG file, two device pixels to an abstract one.
pub fn png(chart: &dyn Chart, path: &std::path::Path) -> Result<()> {
    register_fonts();
    const SCALE: u32 = 2;
    let (width, height) = chart.size();
    let area = BitMapBackend::new(path, (width * SCALE, height * SCALE)).into_drawing_area();
    area.fill(&PAPER).map_err(failed)?;
    chart.draw(&mut Scaled { area: &area, scale: f64::from(SCALE), raster: true })?;
    area.present().map_err(failed)
}

struct Scaled<'a, B: DrawingBackend> {
    area: &'a DrawingArea<B, Shift>,
    scale: f64,
    /// Text is drawn as pixels rather than named to the reader's program.
    raster: bool,
}

fn failed<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> Error {
    Error::input("drawing a plot", error.to_string(), "Check free space and permissions of the report folder")
}

impl<B: DrawingBackend> Scaled<'_, B> {
    fn pixel(&self, at: Place) -> (i32, i32) {
        ((at.0 * self.scale).round() as i32, (at.1 * self.scale).round() as i32)
    }
}

/// The SVG back end divides its nominal size by this to get a font size in pixels.
const SVG_NOMINAL: f64 = 1.24;

impl<B: DrawingBackend> Scaled<'_, B> {
    fn text_pixels(
        &self,
        text: &str,
        middle: Place,
        size: f64,
        color: RGBColor,
        bold: bool,
        turn: impl Fn(i32, i32) -> (i32, i32),
    ) -> Result<()> {
        let (cx, cy) = self.pixel(middle);
        for (x, y, share) in raster_text::pixels(text, (size * self.scale) as f32, bold) {
            let (dx, dy) = turn(x, y);
            self.area.draw_pixel((cx + dx, cy + dy), &color.mix(f64::from(share))).map_err(failed)?;
        }
        Ok(())
    }
}

impl<B: DrawingBackend> Canvas for Scaled<'_, B> {
    fn line(&mut self, points: &[Place], color: RGBColor, width: f64) -> Result<()> {
        let pixels: Vec<_> = points.iter().map(|p| self.pixel(*p)).collect();
        let stroke = (width * self.scale).round().max(1.0) as u32;
        self.area.draw(&PathElement::new(pixels, color.stroke_width(stroke))).map_err(failed)
    }

    fn dot(&mut self, at: Place, radius: f64, color: RGBColor, opacity: f64) -> Result<()> {
        let radius = (radius * self.scale).round() as i32;
        self.area.draw(&Circle::new(self.pixel(at), radius, color.mix(opacity).filled())).map_err(failed)
    }

    fn fill(&mut self, from: Place, to: Place, color: RGBColor) -> Result<()> {
        self.area.draw(&Rectangle::new([self.pixel(from), self.pixel(to)], color.filled())).map_err(failed)
    }

    fn text(&mut self, text: &str, at: Place, size: f64, color: RGBColor, anchor: Anchor, bold: bool) -> Result<()> {
        if self.raster {
            let width = f64::from(raster_text::width(text, size as f32, bold));
            let middle = match anchor {
                Anchor::Left => at.0 + width / 2.0,
                Anchor::Center => at.0,
                Anchor::Right => at.0 - width / 2.0,
            };
            return self.text_pixels(text, (middle, at.1), size, color, bold, |x, y| (x, y));
        }
        let side = match anchor {
            Anchor::Left => HPos::Left,
            Anchor::Center => HPos::Center,
            Anchor::Right => HPos::Right,
        };
        let weight = if bold { FontStyle::Bold } else { FontStyle::Normal };
        let style = (FAMILY, size * SVG_NOMINAL, weight).into_text_style(self.area).color(&color);
        let style = style.pos(Pos::new(side, VPos::Center));
        // The back end centres on small letters; figures and capitals are taller.
        let lowered = self.pixel((at.0, at.1 + 0.08 * size));
        self.area.draw(&Text::new(text, lowered, style)).map_err(failed)
    }

    fn text_upwards(&mut self, text: &str, at: Place, size: f64, color: RGBColor) -> Result<()> {
        if self.raster {
            return self.text_pixels(text, at, size, color, false, |x, y| (y, -x));
        }
        let font = (FAMILY, size * SVG_NOMINAL).into_font().transform(FontTransform::Rotate270);
        let style = font.color(&color).pos(Pos::new(HPos::Center, VPos::Center));
        self.area.draw(&Text::new(text, self.pixel(at), style)).map_err(failed)
    }

    fn text_width(&self, text: &str, size: f64) -> f64 {
        f64::from(raster_text::width(text, size as f32, false))
    }
}
