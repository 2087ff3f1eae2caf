//! Where does the time of a decode token go? Stacked bars, ms, for the recommendation and its runners-up.

use super::axis::{Axis, label};
use super::canvas::{Anchor, Canvas, Chart, GRID, INK, MUTED, heading};
use crate::Result;
use crate::report::record::{Candidate, RunRecord};
use crate::report::text;
use plotters::style::RGBColor;

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// What it stands for.
    pub name: String,
    /// Second line under the name.
    pub detail: String,
    /// Parts with their labels, ms.
    pub parts: [(&'static str, f64); 7],
}

/// Stacked horizontal bars.
#[derive(Debug, Clone, PartialEq)]
pub struct BreakdownChart {
    /// Heading.
    pub title: String,
    /// Second line.
    pub subtitle: String,
    /// The bars, the recommendation first.
    pub bars: Vec<Bar>,
}

/// Most bars drawn.
const BARS: usize = 6;

/// Okabe and Ito's palette (distinguishable with colour-blindness), without black and yellow, and one grey-violet.
const COLORS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x8a, 0x84, 0xb8),
    RGBColor(0xd5, 0x5e, 0x00),
];

/// The recommendation and the best points of other layouts.
pub fn breakdown(record: &RunRecord) -> BreakdownChart {
    let mut bars: Vec<Bar> = Vec::new();
    let mut layouts: Vec<String> = Vec::new();
    let closest = record.closest.as_ref().map(|c| &c.candidate);
    for candidate in record.best.iter().chain(closest).chain(&record.top) {
        let layout = text::layout(&candidate.deployment);
        if bars.len() < BARS && !layouts.contains(&layout) {
            bars.push(bar(candidate, &layout));
            layouts.push(layout);
        }
    }
    BreakdownChart {
        title: "Where the time of one output token goes".to_string(),
        subtitle: format!(
            "{}; best point of each layout, recommendation first; the parts add up to TPOT",
            record.title()
        ),
        bars,
    }
}

fn bar(candidate: &Candidate, layout: &str) -> Bar {
    Bar {
        name: layout.to_string(),
        detail: format!("concurrency {}", candidate.deployment.concurrency),
        parts: candidate.evaluation.breakdown.parts(),
    }
}

const WIDTH: f64 = 960.0;
const LEFT: f64 = 180.0;
const RIGHT: f64 = 96.0;
const TOP: f64 = 104.0;
const ROW: f64 = 52.0;
const THICKNESS: f64 = 30.0;
const BOTTOM: f64 = 56.0;

impl Chart for BreakdownChart {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, (TOP + ROW * self.bars.len().max(1) as f64 + BOTTOM) as u32)
    }

    fn draw(&self, canvas: &mut dyn Canvas) -> Result<()> {
        heading(canvas, &self.title, (24.0, 24.0), WIDTH - 48.0)?;
        canvas.text(&self.subtitle, (24.0, 48.0), 12.5, MUTED, Anchor::Left, false)?;
        let bottom = f64::from(self.size().1) - BOTTOM;
        let totals = self.bars.iter().map(|b| b.parts.iter().map(|p| p.1).sum::<f64>());
        let axis = Axis::over(totals.chain([0.0]), LEFT, WIDTH - RIGHT);
        let (Some(axis), false) = (axis, self.bars.is_empty()) else {
            return canvas.text("No point could be evaluated", (WIDTH / 2.0, TOP), 16.0, MUTED, Anchor::Center, false);
        };
        self.draw_legend(canvas)?;
        for tick in axis.ticks() {
            let Some(at) = axis.pixel(tick) else { continue };
            canvas.line(&[(at, TOP - 4.0), (at, bottom)], GRID, 1.0)?;
            canvas.text(&label(tick), (at, bottom + 14.0), 12.5, MUTED, Anchor::Center, false)?;
        }
        canvas.text(
            "ms per output token",
            ((LEFT + WIDTH - RIGHT) / 2.0, bottom + 38.0),
            14.0,
            INK,
            Anchor::Center,
            false,
        )?;
        for (row, bar) in self.bars.iter().enumerate() {
            draw_bar(canvas, bar, &axis, TOP + ROW * (row as f64 + 0.5), row == 0)?;
        }
        Ok(())
    }
}

impl BreakdownChart {
    fn draw_legend(&self, canvas: &mut dyn Canvas) -> Result<()> {
        let mut at = 24.0;
        for (index, (name, _)) in self.bars[0].parts.iter().enumerate() {
            if self.bars.iter().all(|b| b.parts[index].1 <= 0.0) {
                continue;
            }
            canvas.fill((at, 70.0), (at + 12.0, 82.0), COLORS[index])?;
            canvas.text(name, (at + 18.0, 76.0), 12.5, MUTED, Anchor::Left, false)?;
            at += 18.0 + canvas.text_width(name, 12.5) + 20.0;
        }
        Ok(())
    }
}

fn draw_bar(canvas: &mut dyn Canvas, bar: &Bar, axis: &Axis, middle: f64, first: bool) -> Result<()> {
    canvas.text(&bar.name, (LEFT - 12.0, middle - 8.0), 14.0, INK, Anchor::Right, first)?;
    canvas.text(&bar.detail, (LEFT - 12.0, middle + 10.0), 12.0, MUTED, Anchor::Right, false)?;
    let (top, bottom) = (middle - THICKNESS / 2.0, middle + THICKNESS / 2.0);
    let mut sum = 0.0;
    for (index, (_, ms)) in bar.parts.iter().enumerate().filter(|(_, p)| p.1 > 0.0) {
        let (Some(from), Some(to)) = (axis.pixel(sum), axis.pixel(sum + ms)) else { continue };
        sum += ms;
        canvas.fill((from, top), (to, bottom), COLORS[index])?;
        let value = text::number(*ms);
        if to - from > canvas.text_width(&value, 12.0) + 8.0 {
            canvas.text(&value, ((from + to) / 2.0, middle), 12.0, RGBColor(0, 0, 0), Anchor::Center, false)?;
        }
    }
    let end = axis.pixel(sum).unwrap_or(LEFT);
    canvas.text(&format!("{} ms", text::number(sum)), (end + 8.0, middle), 13.0, INK, Anchor::Left, first)
}
