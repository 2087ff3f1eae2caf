//! Named curves over one axis, on logarithmic or data-chosen scales, with limits: a roofline, a sweep.

use super::axis::{Axis, label};
use super::canvas::{Anchor, Canvas, Chart, GRID, INK, LIMIT, MUTED, Place, heading};
use crate::Result;
use plotters::style::RGBColor;

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// x, y and what a point is called; an empty name writes nothing.
    pub points: Vec<(f64, f64, String)>,
    /// The points are joined.
    pub joined: bool,
}

/// The chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    /// Heading.
    pub title: String,
    /// Second line.
    pub subtitle: String,
    /// Horizontal axis with its unit.
    pub x_label: String,
    /// Vertical axis with its unit.
    pub y_label: String,
    /// Drawn in this order.
    pub curves: Vec<Curve>,
    /// Roofs: polylines with a name, without dots.
    pub roofs: Vec<(String, Vec<(f64, f64)>)>,
    /// Both axes are logarithmic, whatever the range.
    pub logarithmic: bool,
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = 64.0;

/// Colours that stay apart for the colour-blind (Okabe and Ito 2008).
const COLORS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x55, 0x55, 0x55),
];

impl Chart for Curves {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, HEIGHT as u32)
    }

    fn draw(&self, canvas: &mut dyn Canvas) -> Result<()> {
        heading(canvas, &self.title, (24.0, 24.0), WIDTH - 48.0)?;
        canvas.text(&self.subtitle, (24.0, 48.0), 12.5, MUTED, Anchor::Left, false)?;
        let Some((x, y)) = self.axes() else {
            let middle = (WIDTH / 2.0, HEIGHT / 2.0);
            return canvas.text("No run could be placed", middle, 16.0, MUTED, Anchor::Center, false);
        };
        self.draw_axes(canvas, &x, &y)?;
        for (_, roof) in &self.roofs {
            let places: Vec<Place> = roof.iter().filter_map(|p| Some((x.pixel(p.0)?, y.pixel(p.1)?))).collect();
            canvas.line(&places, LIMIT, 1.5)?;
        }
        for (curve, color) in self.curves.iter().zip(COLORS.iter().cycle()) {
            let places: Vec<(Place, &str)> = curve
                .points
                .iter()
                .filter_map(|(px, py, name)| Some(((x.pixel(*px)?, y.pixel(*py)?), name.as_str())))
                .collect();
            if curve.joined && places.len() > 1 {
                canvas.line(&places.iter().map(|p| p.0).collect::<Vec<_>>(), *color, 1.5)?;
            }
            let mut last = (f64::MIN, f64::MIN);
            for (place, name) in places {
                canvas.dot(place, 4.5, *color, 1.0)?;
                // A label that would stand on its neighbour's is left to the table.
                if !name.is_empty() && (place.0 - last.0).hypot(place.1 - last.1) > 22.0 {
                    canvas.text(name, (place.0, place.1 - 13.0), 11.5, *color, Anchor::Center, false)?;
                    last = place;
                }
            }
        }
        self.legend(canvas)
    }
}

impl Curves {
    fn axes(&self) -> Option<(Axis, Axis)> {
        let marks = || self.curves.iter().flat_map(|c| &c.points).map(|p| (p.0, p.1));
        marks().next()?;
        let all: Vec<(f64, f64)> = marks().chain(self.roofs.iter().flat_map(|r| r.1.clone())).collect();
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        if self.logarithmic {
            let range = |of: fn(&(f64, f64)) -> f64| {
                let values = all.iter().map(of).filter(|v| v.is_finite() && *v > 0.0);
                values.fold((f64::MAX, 0.0f64), |(low, high), v| (low.min(v), high.max(v)))
            };
            let ((x0, x1), (y0, y1)) = (range(|p| p.0), range(|p| p.1));
            let (x, y) = (
                Axis::logarithmic(x0 / 1.3, x1 * 1.3, LEFT, right),
                Axis::logarithmic(y0 / 1.5, y1 * 1.5, bottom, TOP),
            );
            return (x0 <= x1 && y0 <= y1).then_some((x, y));
        }
        Some((Axis::over(all.iter().map(|p| p.0), LEFT, right)?, Axis::over(all.iter().map(|p| p.1), bottom, TOP)?))
    }

    fn draw_axes(&self, canvas: &mut dyn Canvas, x: &Axis, y: &Axis) -> Result<()> {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in x.ticks() {
            let Some(at) = x.pixel(tick) else { continue };
            canvas.line(&[(at, TOP), (at, bottom)], GRID, 1.0)?;
            canvas.text(&label(tick), (at, bottom + 14.0), 12.5, MUTED, Anchor::Center, false)?;
        }
        for tick in y.ticks() {
            let Some(at) = y.pixel(tick) else { continue };
            canvas.line(&[(LEFT, at), (right, at)], GRID, 1.0)?;
            canvas.text(&label(tick), (LEFT - 8.0, at), 12.5, MUTED, Anchor::Right, false)?;
        }
        canvas.line(&[(LEFT, TOP), (LEFT, bottom), (right, bottom)], INK, 1.0)?;
        canvas.text(&self.x_label, ((LEFT + right) / 2.0, bottom + 42.0), 13.0, INK, Anchor::Center, false)?;
        canvas.text_upwards(&self.y_label, (24.0, (TOP + bottom) / 2.0), 13.0, INK)
    }

    fn legend(&self, canvas: &mut dyn Canvas) -> Result<()> {
        let left = WIDTH - RIGHT + 16.0;
        let mut top = TOP + 8.0;
        for (curve, color) in self.curves.iter().zip(COLORS.iter().cycle()) {
            canvas.dot((left + 4.0, top), 4.0, *color, 1.0)?;
            canvas.text(&curve.name, (left + 16.0, top), 12.0, INK, Anchor::Left, false)?;
            top += 20.0;
        }
        for (name, _) in &self.roofs {
            canvas.line(&[(left - 2.0, top), (left + 10.0, top)], LIMIT, 1.5)?;
            canvas.text(name, (left + 16.0, top), 12.0, INK, Anchor::Left, false)?;
            top += 20.0;
        }
        Ok(())
    }
}
