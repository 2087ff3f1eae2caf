//! Which points is a model asked about? All of a small space; of a large one an even share, the points near the best
//! ones, and from there wherever the model's promise leads.

use super::backend::{Domain, History, Observation};
use super::cube::Cube;
use super::random::mix;
use std::collections::HashSet;

/// Spaces up to this many points are taken whole.
const WHOLE: u64 = 1500;
/// Points drawn from a larger one.
const DRAWN: usize = 500;
/// Draws in a row that may be known or not allowed.
const DRAWS: usize = 20_000;
/// Best points whose surroundings are looked at.
const LEADERS: usize = 5;
/// Most points two steps from the best one.
const PAIRS: usize = 300;

/// Points that are allowed, new, and each in the list once.
pub struct Candidates<'a> {
    domain: &'a dyn Domain,
    cube: &'a Cube,
    history: &'a History,
    known: HashSet<u64>,
    /// The points.
    pub points: Vec<u64>,
}

impl<'a> Candidates<'a> {
    /// The first choice.
    pub fn new(domain: &'a dyn Domain, cube: &'a Cube, history: &'a History, seed: u64) -> Self {
        let mut found = Self { domain, cube, history, known: HashSet::new(), points: Vec::new() };
        if domain.len() <= WHOLE {
            found.extend(0..domain.len());
            return found;
        }
        let mut seen: Vec<&Observation> = history.observations().iter().filter(|o| o.legal).collect();
        seen.sort_by(|a, b| Observation::order(a, b));
        seen.truncate(LEADERS);
        if let Some(best) = seen.first() {
            found.extend(cube.lines(domain, best.point));
            let near = cube.steps(domain, best.point);
            let pairs: Vec<u64> = near.iter().flat_map(|n| cube.steps(domain, *n)).collect();
            found.extend(pairs.iter().copied().step_by(pairs.len().div_ceil(PAIRS).max(1)));
        }
        for leader in seen {
            found.extend(cube.steps(domain, leader.point));
        }
        let wanted = found.points.len() + DRAWN;
        let mut state = seed;
        for _ in 0..DRAWS {
            if found.points.len() >= wanted {
                break;
            }
            state = mix(state);
            found.extend(std::iter::once(state % domain.len()));
        }
        found
    }

    /// Adds the surroundings of points; how many there are from then on.
    pub fn around(&mut self, points: &[u64]) -> usize {
        for point in points {
            self.extend(self.cube.steps(self.domain, *point));
        }
        self.points.len()
    }

    fn extend(&mut self, points: impl IntoIterator<Item = u64>) {
        for point in points {
            if self.known.insert(point) && self.history.of(point).is_none() && self.domain.allows(point) {
                self.points.push(point);
            }
        }
    }
}
