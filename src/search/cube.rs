//! Points as places in the unit cube, for solvers that know nothing of knobs, and back to the nearest allowed point.

use super::backend::{Domain, History};
use std::collections::{HashSet, VecDeque};

/// Neighbours looked at before the search for an allowed point is given up.
const REACH: usize = 4000;

/// The dimensions that vary, each cut into as many equal cells as it has values.
#[derive(Debug, Clone)]
pub struct Cube {
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
        Self { axes: all.iter().enumerate().map(axis).filter(|a| a.size > 1).collect(), dimensions: all.len() }
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

    /// A point's coordinates for a model of distances: ordered axes from 0 to 1, names one coordinate a value.
    pub fn place(&self, domain: &dyn Domain, point: u64) -> Vec<f64> {
        let mut place = Vec::new();
        for (axis, value) in self.axes.iter().zip(self.values(domain, point)) {
            if axis.ordered || axis.size == 2 {
                place.push(value as f64 / (axis.size - 1) as f64);
            } else {
                place.extend((0..axis.size).map(|v| f64::from(u8::from(v == value))));
            }
        }
        place
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
