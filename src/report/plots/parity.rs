//! How near is what was predicted to what was measured? Both on logarithmic axes, with bands of 10 and 20 %.

use super::axis::{Axis, label};
use super::canvas::{Anchor, CHOSEN, Canvas, Chart, GRID, INK, MUTED, heading};
use crate::Result;
use plotters::style::RGBColor;

/// Predicted against measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Parity {
    /// Heading.
    pub title: String,
    /// Second line.
    pub subtitle: String,
    /// What is compared, with its unit.
    pub quantity: String,
    /// Named point clouds: measured, predicted; both above 0.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 720.0;
const LEFT: f64 = 88.0;
const RIGHT: f64 = 152.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = 64.0;

/// Colours that stay apart for the colour-blind (Okabe and Ito 2008), darkest last.
const COLORS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x8a, 0x5a, 0x2b),
    RGBColor(0x55, 0x55, 0x55),
];

impl Chart for Parity {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, HEIGHT as u32)
    }

    fn draw(&self, canvas: &mut dyn Canvas) -> Result<()> {
        heading(canvas, &self.title, (24.0, 24.0), WIDTH - 48.0)?;
        canvas.text(&self.subtitle, (24.0, 48.0), 12.5, MUTED, Anchor::Left, false)?;
        let values =
            self.series.iter().flat_map(|s| &s.1).flat_map(|p| [p.0, p.1]).filter(|v| v.is_finite() && *v > 0.0);
        let (low, high) = values.fold((f64::MAX, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        if low > high {
            let middle = (WIDTH / 2.0, HEIGHT / 2.0);
            return canvas.text("No row was predicted", middle, 16.0, MUTED, Anchor::Center, false);
        }
        let (low, high) = (low / 1.3, high * 1.3);
        let x = Axis::logarithmic(low, high, LEFT, right);
        let y = Axis::logarithmic(low, high, bottom, TOP);
        for tick in x.ticks() {
            if let Some(px) = x.pixel(tick) {
                canvas.line(&[(px, TOP), (px, bottom)], GRID, 1.0)?;
                canvas.text(&label(tick), (px, bottom + 16.0), 12.0, MUTED, Anchor::Center, false)?;
            }
            if let Some(py) = y.pixel(tick) {
                canvas.line(&[(LEFT, py), (right, py)], GRID, 1.0)?;
                canvas.text(&label(tick), (LEFT - 8.0, py), 12.0, MUTED, Anchor::Right, false)?;
            }
        }
        canvas.line(&[(LEFT, TOP), (LEFT, bottom), (right, bottom)], INK, 1.0)?;
        let middle = (LEFT + right) / 2.0;
        canvas.text(
            &format!("measured {}", self.quantity),
            (middle, bottom + 42.0),
            13.0,
            INK,
            Anchor::Center,
            false,
        )?;
        canvas.text_upwards(&format!("predicted {}", self.quantity), (24.0, (TOP + bottom) / 2.0), 13.0, INK)?;
        for ((_, points), color) in self.series.iter().zip(COLORS.iter().cycle()) {
            for (measured, predicted) in points {
                if let (Some(px), Some(py)) = (x.pixel(*measured), y.pixel(*predicted)) {
                    canvas.dot((px, py), 2.6, *color, 0.6)?;
                }
            }
        }
        for (factor, color, width) in
            [(1.0, INK, 1.5), (1.1, CHOSEN, 1.0), (1.0 / 1.1, CHOSEN, 1.0), (1.2, MUTED, 1.0), (1.0 / 1.2, MUTED, 1.0)]
        {
            // The line y = factor · x, cut where it leaves the square.
            let (from, to) = ((low / factor).max(low) * 1.0001, (high / factor).min(high) * 0.9999);
            let ends = [from, to].map(|v| Some((x.pixel(v)?, y.pixel((v * factor).clamp(low, high))?)));
            if let [Some(a), Some(b)] = ends {
                canvas.line(&[a, b], color, width)?;
            }
        }
        self.legend(canvas)
    }
}

impl Parity {
    fn legend(&self, canvas: &mut dyn Canvas) -> Result<()> {
        let left = WIDTH - RIGHT + 16.0;
        let mut top = TOP + 8.0;
        for ((name, points), color) in self.series.iter().zip(COLORS.iter().cycle()) {
            canvas.dot((left + 4.0, top), 4.0, *color, 1.0)?;
            let text = format!("{name} ({})", points.len());
            canvas.text(&text, (left + 16.0, top), 12.0, INK, Anchor::Left, false)?;
            top += 20.0;
        }
        top += 8.0;
        for (text, color) in [("equal", INK), ("±10 %", CHOSEN), ("±20 %", MUTED)] {
            canvas.line(&[(left - 2.0, top), (left + 10.0, top)], color, 1.5)?;
            canvas.text(text, (left + 16.0, top), 12.0, INK, Anchor::Left, false)?;
            top += 20.0;
        }
        Ok(())
    }
}
