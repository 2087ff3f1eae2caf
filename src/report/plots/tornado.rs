//! How far does the objective move? One bar for each step of a knob and each changed assumption, from no change to the
//! left or right; what changes the decision or breaks a limit is marked.

use super::axis::{Axis, label};
use super::canvas::{Anchor, CHOSEN, Canvas, Chart, FRONT, GRID, INK, LIMIT, MUTED, heading};
use crate::Result;
use crate::report::record::RunRecord;
use crate::report::sensitivity::signed_percent;

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// What is changed.
    pub name: String,
    /// Change of the objective as a share; absent where a limit breaks.
    pub change: Option<f64>,
    /// The decision changes with it.
    pub decides: bool,
}

/// Horizontal bars around zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Tornado {
    /// Heading.
    pub title: String,
    /// The bars from the top.
    pub bars: Vec<Bar>,
}

/// Most bars drawn.
const BARS: usize = 24;

/// The bars of a run; `None` where nothing was looked at.
pub fn tornado(record: &RunRecord) -> Option<Tornado> {
    let sensitivity = record.sensitivity.as_ref()?;
    let knobs = sensitivity.knobs.iter().map(|k| Bar { name: k.to.clone(), change: k.change, decides: false });
    let shifts = sensitivity.assumptions.iter().map(|s| Bar {
        name: format!("{} -> {}", s.assumed, s.to),
        change: s.change,
        decides: s.instead.is_some(),
    });
    let bars: Vec<Bar> = shifts.chain(knobs).take(BARS).collect();
    let title = format!("What would move {}: {}", record.objective.label, record.title());
    (!bars.is_empty()).then_some(Tornado { title, bars })
}

const WIDTH: f64 = 960.0;
const LEFT: f64 = 330.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 72.0;
const ROW: f64 = 24.0;
const BOTTOM: f64 = 56.0;

impl Chart for Tornado {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, (TOP + ROW * self.bars.len() as f64 + BOTTOM) as u32)
    }

    fn draw(&self, canvas: &mut dyn Canvas) -> Result<()> {
        heading(canvas, &self.title, (24.0, 24.0), WIDTH - 48.0)?;
        let legend = "change of the objective; orange: another deployment would be recommended; red: a limit breaks";
        canvas.text(legend, (24.0, 48.0), 12.5, MUTED, Anchor::Left, false)?;
        let bottom = f64::from(self.size().1) - BOTTOM;
        let changes = self.bars.iter().filter_map(|b| b.change).map(|c| 100.0 * c);
        let Some(axis) = Axis::over(changes.chain([-1.0, 1.0]), LEFT, WIDTH - RIGHT) else { return Ok(()) };
        for tick in axis.ticks() {
            let Some(at) = axis.pixel(tick) else { continue };
            canvas.line(&[(at, TOP), (at, bottom)], GRID, 1.0)?;
            canvas.text(&label(tick), (at, bottom + 14.0), 12.5, MUTED, Anchor::Center, false)?;
        }
        canvas.text("change, %", ((LEFT + WIDTH - RIGHT) / 2.0, bottom + 38.0), 14.0, INK, Anchor::Center, false)?;
        let Some(zero) = axis.pixel(0.0) else { return Ok(()) };
        for (row, bar) in self.bars.iter().enumerate() {
            let middle = TOP + ROW * (row as f64 + 0.5);
            canvas.text(&bar.name, (LEFT - 10.0, middle), 12.5, INK, Anchor::Right, bar.decides)?;
            let color = if bar.decides { CHOSEN } else { FRONT };
            match bar.change.and_then(|c| Some((c, axis.pixel(100.0 * c)?))) {
                None => canvas.text("out", (zero + 8.0, middle), 12.5, LIMIT, Anchor::Left, true)?,
                Some((change, at)) => {
                    canvas.fill(
                        (zero.min(at), middle - 8.0),
                        (zero.max(at).max(zero.min(at) + 1.0), middle + 8.0),
                        color,
                    )?;
                    canvas.text(
                        &signed_percent(change),
                        (zero.max(at) + 8.0, middle),
                        12.0,
                        INK,
                        Anchor::Left,
                        false,
                    )?;
                }
            }
        }
        canvas.line(&[(zero, TOP), (zero, bottom)], INK, 1.0)
    }
}
