//! How do latencies grow with the load? TTFT, TPOT and E2E in three panels over the offered rate, with limits, the knee
//! and where the fleet is saturated.

use super::axis::{Axis, label};
use super::canvas::{Anchor, CHOSEN, CLOUD, Canvas, Chart, FRONT, GRID, INK, LIMIT, MUTED, heading};
use crate::Result;

/// One latency over the rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Its name with the unit.
    pub quantity: String,
    /// Mean and 99th percentile per rate, ms.
    pub values: Vec<(f64, f64)>,
    /// Limits, ms, with their names.
    pub limits: Vec<(String, f64)>,
}

/// Latency against load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadCurve {
    /// Heading.
    pub title: String,
    /// Second line.
    pub subtitle: String,
    /// Requests per second, rising.
    pub rates: Vec<f64>,
    /// The load grew beyond what the fleet can serve, per rate.
    pub saturated: Vec<bool>,
    /// A rate to mark, and what it is.
    pub mark: Option<(f64, String)>,
    /// TTFT, TPOT, E2E.
    pub panels: Vec<Panel>,
}

const WIDTH: f64 = 900.0;
const PANEL: f64 = 210.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 96.0;
const BOTTOM: f64 = 60.0;
const GAP: f64 = 22.0;

impl Chart for LoadCurve {
    fn size(&self) -> (u32, u32) {
        let panels = self.panels.len().max(1) as f64;
        (WIDTH as u32, (TOP + panels * PANEL + (panels - 1.0) * GAP + BOTTOM) as u32)
    }

    fn draw(&self, canvas: &mut dyn Canvas) -> Result<()> {
        heading(canvas, &self.title, (24.0, 24.0), WIDTH - 48.0)?;
        canvas.text(&self.subtitle, (24.0, 48.0), 12.5, MUTED, Anchor::Left, false)?;
        self.legend(canvas)?;
        let right = WIDTH - RIGHT;
        let Some(x) = Axis::over(self.rates.iter().copied(), LEFT, right) else {
            let middle = (WIDTH / 2.0, TOP + PANEL / 2.0);
            return canvas.text("No rate was simulated", middle, 16.0, MUTED, Anchor::Center, false);
        };
        let mut top = TOP;
        for panel in &self.panels {
            self.panel(canvas, panel, &x, top)?;
            top += PANEL + GAP;
        }
        let bottom = top - GAP;
        for tick in x.ticks() {
            if let Some(px) = x.pixel(tick) {
                canvas.text(&label(tick), (px, bottom + 16.0), 12.0, MUTED, Anchor::Center, false)?;
            }
        }
        canvas.text("requests per second", ((LEFT + right) / 2.0, bottom + 40.0), 13.0, INK, Anchor::Center, false)
    }
}

impl LoadCurve {
    fn panel(&self, canvas: &mut dyn Canvas, panel: &Panel, x: &Axis, top: f64) -> Result<()> {
        let (right, bottom) = (WIDTH - RIGHT, top + PANEL);
        let limits = panel.limits.iter().map(|l| l.1);
        let values = panel.values.iter().flat_map(|v| [v.0, v.1]).chain(limits).filter(|v| *v > 0.0);
        let Some(y) = Axis::over(values, bottom, top) else { return Ok(()) };
        for tick in x.ticks() {
            if let Some(px) = x.pixel(tick) {
                canvas.line(&[(px, top), (px, bottom)], GRID, 1.0)?;
            }
        }
        for tick in y.ticks() {
            if let Some(py) = y.pixel(tick) {
                canvas.line(&[(LEFT, py), (right, py)], GRID, 1.0)?;
                canvas.text(&label(tick), (LEFT - 8.0, py), 12.0, MUTED, Anchor::Right, false)?;
            }
        }
        canvas.line(&[(LEFT, top), (LEFT, bottom), (right, bottom)], INK, 1.0)?;
        canvas.text_upwards(&panel.quantity, (24.0, (top + bottom) / 2.0), 13.0, INK)?;
        for (name, limit) in &panel.limits {
            if let Some(py) = y.pixel(*limit) {
                canvas.line(&[(LEFT, py), (right, py)], LIMIT, 1.0)?;
                canvas.text(name, (LEFT + 8.0, py - 8.0), 11.5, LIMIT, Anchor::Left, false)?;
            }
        }
        if let Some(px) = self.mark.as_ref().and_then(|(rate, _)| x.pixel(*rate)) {
            canvas.line(&[(px, top), (px, bottom)], INK, 1.5)?;
        }
        for (pick, color) in [(0, FRONT), (1, CHOSEN)] {
            let mut line = Vec::new();
            for ((rate, value), saturated) in self.rates.iter().zip(&panel.values).zip(&self.saturated) {
                let value = if pick == 0 { value.0 } else { value.1 };
                if let (Some(px), Some(py)) = (x.pixel(*rate), y.pixel(value)) {
                    line.push((px, py));
                    canvas.dot((px, py), 3.2, if *saturated { CLOUD } else { color }, 1.0)?;
                }
            }
            if line.len() > 1 {
                canvas.line(&line, color, 1.5)?;
            }
        }
        Ok(())
    }

    fn legend(&self, canvas: &mut dyn Canvas) -> Result<()> {
        let mark = self.mark.as_ref().map_or(String::new(), |(_, what)| what.clone());
        let mut left = 24.0;
        for (text, color) in
            [("mean", FRONT), ("99th percentile", CHOSEN), ("limit", LIMIT), ("saturated", CLOUD), (mark.as_str(), INK)]
        {
            if text.is_empty() || (text == "limit" && self.panels.iter().all(|p| p.limits.is_empty())) {
                continue;
            }
            canvas.line(&[(left, 72.0), (left + 14.0, 72.0)], color, 2.0)?;
            canvas.text(text, (left + 20.0, 72.0), 12.0, INK, Anchor::Left, false)?;
            left += 44.0 + canvas.text_width(text, 12.0);
        }
        Ok(())
    }
}
