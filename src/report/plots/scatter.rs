//! Which points are worth a look? All evaluated points, their Pareto front with labels, the recommendation, limits.

use super::axis::{Axis, label};
use super::canvas::{Anchor, CHOSEN, CLOUD, Canvas, Chart, FRONT, GRID, INK, LIMIT, MUTED, Place, heading};
use super::labels::{Area, Placer};
use crate::Result;

/// A point of the cloud.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CloudPoint {
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// Keeps every SLO.
    pub feasible: bool,
}

/// A point of the front.
#[derive(Debug, Clone, PartialEq)]
pub struct FrontPoint {
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// What it is.
    pub label: String,
}

/// A limit drawn as a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Guide {
    /// Where.
    pub value: f64,
    /// A vertical line at an x rather than a horizontal one at a y.
    pub vertical: bool,
    /// What it says.
    pub label: String,
}

/// A scatter plot with a front.
#[derive(Debug, Clone, PartialEq)]
pub struct Scatter {
    /// Heading.
    pub title: String,
    /// Second line.
    pub subtitle: String,
    /// Horizontal axis with its unit.
    pub x_label: String,
    /// Vertical axis with its unit.
    pub y_label: String,
    /// All points.
    pub cloud: Vec<CloudPoint>,
    /// The front, by rising x.
    pub front: Vec<FrontPoint>,
    /// The recommended point.
    pub chosen: Option<FrontPoint>,
    /// Limits.
    pub guides: Vec<Guide>,
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 600.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = 64.0;
const LABEL_SIZE: f64 = 12.0;

impl Chart for Scatter {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, HEIGHT as u32)
    }

    fn draw(&self, canvas: &mut dyn Canvas) -> Result<()> {
        heading(canvas, &self.title, (24.0, 24.0), WIDTH - 48.0)?;
        canvas.text(&self.subtitle, (24.0, 48.0), 12.5, MUTED, Anchor::Left, false)?;
        let Some((x, y)) = self.axes() else {
            let middle = (WIDTH / 2.0, HEIGHT / 2.0);
            return canvas.text("No point could be evaluated", middle, 16.0, MUTED, Anchor::Center, false);
        };
        self.draw_axes(canvas, &x, &y)?;
        self.draw_cloud(canvas, &x, &y)?;
        self.draw_legend(canvas)?;
        let mut reserved = self.draw_guides(canvas, &x, &y)?;
        let front: Vec<(Place, &FrontPoint)> =
            self.front.iter().filter_map(|p| Some(((x.pixel(p.x)?, y.pixel(p.y)?), p))).collect();
        let places: Vec<Place> = front.iter().map(|(place, _)| *place).collect();
        if places.len() > 1 {
            canvas.line(&places, FRONT, 2.0)?;
        }
        for place in &places {
            canvas.dot(*place, 4.0, FRONT, 1.0)?;
        }
        let chosen = self.chosen.as_ref().and_then(|p| Some(((x.pixel(p.x)?, y.pixel(p.y)?), p)));
        if let Some((place, _)) = chosen {
            canvas.dot(place, 8.0, CHOSEN, 1.0)?;
            canvas.dot(place, 4.0, super::canvas::PAPER, 1.0)?;
            reserved.push(Area::around(place, 10.0));
        }
        let markers: Vec<Area> = places.iter().map(|p| Area::around(*p, 5.0)).chain(reserved).collect();
        self.draw_labels(canvas, &front, chosen, Placer::new(plot_area(), &markers, &places))
    }
}

fn plot_area() -> Area {
    Area { left: LEFT + 2.0, top: TOP + 2.0, right: WIDTH - RIGHT, bottom: HEIGHT - BOTTOM - 2.0 }
}

impl Scatter {
    fn axes(&self) -> Option<(Axis, Axis)> {
        let guides = |vertical| self.guides.iter().filter(move |g| g.vertical == vertical);
        let marks = || self.front.iter().chain(&self.chosen);
        let xs: Vec<f64> = self.cloud.iter().map(|p| p.x).chain(marks().map(|p| p.x)).collect();
        let ys: Vec<f64> = self.cloud.iter().map(|p| p.y).chain(marks().map(|p| p.y)).collect();
        // A limit far off the data would squeeze the data; it is then named in the subtitle only.
        let near = |values: &[f64], guide: f64| {
            let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
            (low / 2.0..=high * 2.0).contains(&guide)
        };
        let x_guides: Vec<f64> = guides(true).map(|g| g.value).filter(|v| near(&xs, *v)).collect();
        let y_guides: Vec<f64> = guides(false).map(|g| g.value).filter(|v| near(&ys, *v)).collect();
        let x = Axis::over(xs.into_iter().chain(x_guides), LEFT, WIDTH - RIGHT)?;
        let y = Axis::over(ys.into_iter().chain(y_guides), HEIGHT - BOTTOM, TOP)?;
        Some((x, y))
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
        let scale = |axis: &Axis| if axis.is_logarithmic() { ", log scale" } else { "" };
        let x_text = format!("{}{}", self.x_label, scale(x));
        canvas.text(&x_text, ((LEFT + right) / 2.0, HEIGHT - 18.0), 14.0, INK, Anchor::Center, false)?;
        let y_text = format!("{}{}", self.y_label, scale(y));
        canvas.text_upwards(&y_text, (20.0, (TOP + bottom) / 2.0), 14.0, INK)
    }

    fn draw_cloud(&self, canvas: &mut dyn Canvas, x: &Axis, y: &Axis) -> Result<()> {
        // Rejected points first, so that feasible ones stay visible.
        for feasible in [false, true] {
            for point in self.cloud.iter().filter(|p| p.feasible == feasible) {
                let (Some(px), Some(py)) = (x.pixel(point.x), y.pixel(point.y)) else { continue };
                if feasible {
                    canvas.dot((px, py), 2.0, CLOUD, 0.55)?;
                } else {
                    canvas.dot((px, py), 1.4, LIMIT, 0.18)?;
                }
            }
        }
        Ok(())
    }

    fn draw_legend(&self, canvas: &mut dyn Canvas) -> Result<()> {
        let mut at = LEFT;
        let y = 72.0;
        let has = |feasible| self.cloud.iter().any(|p| p.feasible == feasible);
        let entries = [
            (self.chosen.is_some(), "recommended", CHOSEN, 6.0),
            (!self.front.is_empty(), "Pareto front", FRONT, 4.0),
            (has(true), "keeps every SLO", CLOUD, 3.0),
            (has(false), "breaks an SLO", LIMIT, 2.0),
        ];
        for (_, text, color, radius) in entries.into_iter().filter(|e| e.0) {
            canvas.dot((at + 6.0, y), radius, color, 1.0)?;
            canvas.text(text, (at + 18.0, y), 12.5, MUTED, Anchor::Left, false)?;
            at += 18.0 + canvas.text_width(text, 12.5) + 24.0;
        }
        Ok(())
    }

    fn draw_guides(&self, canvas: &mut dyn Canvas, x: &Axis, y: &Axis) -> Result<Vec<Area>> {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let mut areas = Vec::new();
        for guide in &self.guides {
            let width = canvas.text_width(&guide.label, LABEL_SIZE);
            let center = if guide.vertical {
                let Some(at) = x.pixel(guide.value) else { continue };
                dashed(canvas, (at, TOP), (at, bottom))?;
                areas.push(Area { left: at - 2.0, top: TOP, right: at + 2.0, bottom });
                let beside = if at + 8.0 + width < right { at + 6.0 + width / 2.0 } else { at - 6.0 - width / 2.0 };
                (beside, bottom - 12.0)
            } else {
                let Some(at) = y.pixel(guide.value) else { continue };
                dashed(canvas, (LEFT, at), (right, at))?;
                areas.push(Area { left: LEFT, top: at - 2.0, right, bottom: at + 2.0 });
                (right - 6.0 - width / 2.0, at - 10.0)
            };
            canvas.text(&guide.label, center, LABEL_SIZE, LIMIT, Anchor::Center, false)?;
            areas.push(Area {
                left: center.0 - width / 2.0 - 4.0,
                top: center.1 - 9.0,
                right: center.0 + width / 2.0 + 4.0,
                bottom: center.1 + 9.0,
            });
        }
        Ok(areas)
    }

    fn draw_labels(
        &self,
        canvas: &mut dyn Canvas,
        front: &[(Place, &FrontPoint)],
        chosen: Option<(Place, &FrontPoint)>,
        mut placer: Placer,
    ) -> Result<()> {
        let mut write = |canvas: &mut dyn Canvas, place: Place, text: &str, is_chosen: bool| -> Result<()> {
            let size = if is_chosen { LABEL_SIZE + 1.0 } else { LABEL_SIZE };
            let bold = if is_chosen { 1.12 } else { 1.0 };
            let Some(area) = placer.place(place, canvas.text_width(text, size) * bold + 4.0, size + 5.0) else {
                return Ok(());
            };
            let color = if is_chosen { CHOSEN } else { INK };
            let middle = (area.top + area.bottom) / 2.0;
            canvas.text(text, (area.left + 2.0, middle), size, color, Anchor::Left, is_chosen)
        };
        if let Some((place, point)) = chosen {
            write(canvas, place, &point.label, true)?;
        }
        for index in labelling_order(front.len()) {
            let (place, point) = front[index];
            if chosen.is_none_or(|(at, _)| (at.0 - place.0).hypot(at.1 - place.1) > 1.0) {
                write(canvas, place, &point.label, false)?;
            }
        }
        Ok(())
    }
}

/// The ends first, then the middles between what is labelled already, so that labels spread evenly.
fn labelling_order(len: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(len);
    let mut step = len.saturating_sub(1).max(1);
    while order.len() < len {
        let all = (0..len).step_by(step).chain([len - 1]);
        for index in all {
            if !order.contains(&index) {
                order.push(index);
            }
        }
        step = (step / 2).max(1);
    }
    order
}

fn dashed(canvas: &mut dyn Canvas, from: Place, to: Place) -> Result<()> {
    let length = (to.0 - from.0).hypot(to.1 - from.1);
    let point = |at: f64| (from.0 + (to.0 - from.0) * at / length, from.1 + (to.1 - from.1) * at / length);
    let mut at = 0.0;
    while at < length {
        canvas.line(&[point(at), point((at + 6.0).min(length))], LIMIT, 1.0)?;
        at += 10.0;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_front_point_gets_its_turn_ends_first() {
        for len in [0, 1, 2, 3, 9, 50] {
            let order = labelling_order(len);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..len).collect::<Vec<_>>(), "{len}");
        }
        assert_eq!(&labelling_order(9)[..3], &[0, 8, 4]);
    }
}
