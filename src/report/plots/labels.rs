//! Where may a label stand so that it hides neither another label nor a marker nor the front? Pure geometry.

use super::canvas::Place;

/// An axis-parallel box: left, top, right, bottom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    /// Left edge.
    pub left: f64,
    /// Top edge (smaller is higher).
    pub top: f64,
    /// Right edge.
    pub right: f64,
    /// Bottom edge.
    pub bottom: f64,
}

impl Area {
    /// Shares any point with another.
    pub fn overlaps(&self, other: &Area) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn contains(&self, other: &Area) -> bool {
        self.left <= other.left && self.top <= other.top && self.right >= other.right && self.bottom >= other.bottom
    }

    /// A square around a marker.
    pub fn around(at: Place, reach: f64) -> Self {
        Self { left: at.0 - reach, top: at.1 - reach, right: at.0 + reach, bottom: at.1 + reach }
    }

    /// Crossed by a line segment (sampled every two pixels).
    fn crossed_by(&self, from: Place, to: Place) -> bool {
        let steps = ((to.0 - from.0).hypot(to.1 - from.1) / 2.0).ceil().max(1.0) as usize;
        (0..=steps).any(|i| {
            let share = i as f64 / steps as f64;
            let (x, y) = (from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1));
            x >= self.left && x <= self.right && y >= self.top && y <= self.bottom
        })
    }
}

/// Places labels one after another; what was placed first keeps its place.
pub struct Placer {
    bounds: Area,
    taken: Vec<Area>,
    lines: Vec<(Place, Place)>,
}

impl Placer {
    /// Labels stay inside `bounds`, off the `markers` and off the polyline `line`.
    pub fn new(bounds: Area, markers: &[Area], line: &[Place]) -> Self {
        Self { bounds, taken: markers.to_vec(), lines: line.windows(2).map(|w| (w[0], w[1])).collect() }
    }

    /// Keeps an area free of labels.
    pub fn reserve(&mut self, area: Area) {
        self.taken.push(area);
    }

    /// A free area of this size beside a point, the upper right preferred; `None` where all are taken.
    pub fn place(&mut self, at: Place, width: f64, height: f64) -> Option<Area> {
        let found = [9.0, 15.0].into_iter().find_map(|gap| {
            let (x, y) = at;
            let spots = [
                (x + gap, y - gap - height / 2.0),
                (x + gap, y - height / 2.0),
                (x - width / 2.0, y - gap - height),
                (x + gap, y + gap - height / 2.0),
                (x - gap - width, y + gap - height / 2.0),
                (x - gap - width, y - height / 2.0),
                (x - width / 2.0, y + gap),
                (x - gap - width, y - gap - height / 2.0),
            ];
            let areas = spots.map(|(left, top)| Area { left, top, right: left + width, bottom: top + height });
            areas.into_iter().find(|area| self.is_free(area))
        })?;
        self.taken.push(found);
        Some(found)
    }

    fn is_free(&self, area: &Area) -> bool {
        self.bounds.contains(area)
            && !self.taken.iter().any(|t| t.overlaps(area))
            && !self.lines.iter().any(|(from, to)| area.crossed_by(*from, *to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crowded_labels_never_overlap_and_some_are_left_out() {
        let bounds = Area { left: 0.0, top: 0.0, right: 200.0, bottom: 200.0 };
        let points: Vec<Place> = (0..60).map(|i| (90.0 + f64::from(i % 8), 90.0 + f64::from(i / 8))).collect();
        let markers: Vec<Area> = points.iter().map(|p| Area::around(*p, 3.0)).collect();
        let mut placer = Placer::new(bounds, &markers, &points);
        let placed: Vec<Area> = points.iter().filter_map(|p| placer.place(*p, 50.0, 14.0)).collect();
        assert!(!placed.is_empty() && placed.len() < points.len());
        for (i, a) in placed.iter().enumerate() {
            assert!(bounds.contains(a));
            assert!(markers.iter().chain(&placed[i + 1..]).all(|b| !a.overlaps(b)));
        }
    }

    #[test]
    fn a_label_keeps_off_the_line() {
        let bounds = Area { left: 0.0, top: 0.0, right: 100.0, bottom: 100.0 };
        let line = [(0.0, 0.0), (100.0, 100.0)];
        let mut placer = Placer::new(bounds, &[], &line);
        let area = placer.place((50.0, 50.0), 30.0, 10.0).expect("room beside the diagonal");
        // The diagonal is y = x: the label lies wholly on one side.
        assert!(area.left > area.bottom || area.right < area.top);
    }
}
