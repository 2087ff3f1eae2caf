//! Points as places in the unit cube, for solvers that know nothing of knobs, and back to the nearest allowed point.

use super::backend::{Domain, History};
use std::collections::{HashSet, VecDeque};

/// Neighbours looked at before the search for an allowed point is given up.
const REACH: usize = 4000;

/// The dimensions that vary, each cut into as many equal cells as it has values.
#[derive(Debug, Clone)]
pub struct Cube {
    /// Coordinates of every value of each axis, for a model of distances.
    coordinates: Vec<Vec<Vec<f64>>>,
    /// Place in the domain's list, number of values and whether they are ordered, of each axis.
    axes: Vec<Axis>,
    dimensions: usize,
}

/// One axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// Place of its dimension in the domain's list.
    pub dimension: usize,
    /// Its values.
    pub size: usize,
    /// Neighbouring values are alike.
    pub ordered: bool,
}

impl Cube {
    /// Of a domain.
    pub fn new(domain: &dyn Domain) -> Self {
        let all = domain.dimensions();
        let axis = |(dimension, d): (usize, &super::backend::Dimension)| Axis {
            dimension,
            size: d.values.len(),
            ordered: d.ordered,
        };
        let axes: Vec<Axis> = all.iter().enumerate().map(axis).filter(|a| a.size > 1).collect();
        let coordinates = axes.iter().map(|a| coordinates(a, &all[a.dimension].parts)).collect();
        Self { coordinates, axes, dimensions: all.len() }
    }

    /// Its axes.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The point whose cell holds a place; places outside count as the nearest inside.
    pub fn point(&self, domain: &dyn Domain, place: &[f64]) -> u64 {
        let cell = |(axis, x): (&Axis, &f64)| {
            let at = (x.clamp(0.0, 1.0) * axis.size as f64) as usize;
            (axis.dimension, at.min(axis.size - 1))
        };
        self.join(domain, self.axes.iter().zip(place).map(cell))
    }

    /// The point of one value an axis.
    pub fn point_of_values(&self, domain: &dyn Domain, values: &[usize]) -> u64 {
        self.join(domain, self.axes.iter().zip(values).map(|(axis, v)| (axis.dimension, (*v).min(axis.size - 1))))
    }

    /// The value of each axis at a point.
    pub fn values(&self, domain: &dyn Domain, point: u64) -> Vec<usize> {
        let coordinates = domain.coordinates(point);
        self.axes.iter().map(|axis| coordinates[axis.dimension]).collect()
    }

    /// A point's coordinates for a model of distances: ordered axes from 0 to 1, a name the parts it is made of, also
    /// from 0 to 1, or one coordinate a value where it has none.
    pub fn place(&self, domain: &dyn Domain, point: u64) -> Vec<f64> {
        let values = self.values(domain, point);
        self.coordinates.iter().zip(values).flat_map(|(axis, value)| axis[value].iter().copied()).collect()
    }

    fn join(&self, domain: &dyn Domain, places: impl Iterator<Item = (usize, usize)>) -> u64 {
        let mut coordinates = vec![0; self.dimensions];
        places.for_each(|(dimension, at)| coordinates[dimension] = at);
        domain.point(&coordinates)
    }

    /// The allowed point with the fewest single steps from `point`, `point` itself first; `None` where none is near.
    pub fn nearest_allowed(&self, domain: &dyn Domain, point: u64) -> Option<u64> {
        self.nearest(domain, point, |_| true)
    }

    /// As [`Cube::nearest_allowed`], among points nobody has looked at and that are not in `taken`.
    pub fn nearest_new(&self, domain: &dyn Domain, history: &History, taken: &[u64], point: u64) -> Option<u64> {
        self.nearest(domain, point, |p| history.of(p).is_none() && !taken.contains(&p))
    }

    fn nearest(&self, domain: &dyn Domain, point: u64, wanted: impl Fn(u64) -> bool) -> Option<u64> {
        let mut seen = HashSet::from([point]);
        let mut queue = VecDeque::from([point]);
        while let Some(at) = queue.pop_front() {
            if domain.allows(at) && wanted(at) {
                return Some(at);
            }
            if seen.len() < REACH {
                queue.extend(self.steps(domain, at).into_iter().filter(|n| seen.insert(*n)));
            }
        }
        None
    }

    /// The points that differ in one axis.
    pub fn lines(&self, domain: &dyn Domain, point: u64) -> Vec<u64> {
        self.moved(domain, point, |_, _, _| true)
    }

    /// The points one step away: the next value of an ordered axis, any other of an unordered one.
    pub fn steps(&self, domain: &dyn Domain, point: u64) -> Vec<u64> {
        self.moved(domain, point, |axis, from, to| !axis.ordered || from.abs_diff(to) == 1)
    }

    fn moved(&self, domain: &dyn Domain, point: u64, may: impl Fn(&Axis, usize, usize) -> bool) -> Vec<u64> {
        let values = self.values(domain, point);
        let mut found = Vec::new();
        for (at, axis) in self.axes.iter().enumerate() {
            for value in (0..axis.size).filter(|v| *v != values[at] && may(axis, values[at], *v)) {
                let mut moved = values.clone();
                moved[at] = value;
                found.push(self.point_of_values(domain, &moved));
            }
        }
        found
    }
}

/// The coordinates of each value of an axis.
fn coordinates(axis: &Axis, parts: &[Vec<f64>]) -> Vec<Vec<f64>> {
    if axis.ordered || axis.size == 2 {
        return (0..axis.size).map(|v| vec![v as f64 / (axis.size - 1) as f64]).collect();
    }
    if parts.len() != axis.size {
        return (0..axis.size).map(|v| (0..axis.size).map(|at| f64::from(u8::from(v == at))).collect()).collect();
    }
    let of = |at: usize| parts.iter().map(move |row| row[at]);
    let ranges: Vec<(f64, f64)> = (0..parts[0].len())
        .map(|at| (of(at).fold(f64::INFINITY, f64::min), of(at).fold(f64::NEG_INFINITY, f64::max)))
        .collect();
    // A part that is the same everywhere tells nothing.
    let scaled = |(part, (low, high)): (&f64, &(f64, f64))| (high > low).then(|| (part - low) / (high - low));
    parts.iter().map(|row| row.iter().zip(&ranges).filter_map(scaled).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_lies_where_its_parts_say() {
        let names = Axis { dimension: 0, size: 3, ordered: false };
        // The second part is the same everywhere.
        let parts = [vec![0.0, 5.0, 2.0], vec![1.0, 5.0, 4.0], vec![1.0, 5.0, 3.0]];
        assert_eq!(coordinates(&names, &parts), [[0.0, 0.0], [1.0, 1.0], [1.0, 0.5]]);
        assert_eq!(coordinates(&names, &[]), [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);
        let numbers = Axis { ordered: true, ..names };
        assert_eq!(coordinates(&numbers, &parts), [[0.0], [0.5], [1.0]]);
    }
}
