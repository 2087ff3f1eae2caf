//! Where does a search begin? A few legal points around the middle of the space, before any model is asked.

use crate::search::{Evaluator, Search};

/// Most points of the sweep.
pub const SEEDS: usize = 12;

/// The middle of the space, then points that differ from it in one knob, the knobs taking turns; legal ones only.
pub fn seeds<E: Evaluator>(search: &Search<'_, E>) -> Vec<u64> {
    let space = search.space;
    let middle = space.middle();
    let legal = |index: &u64| search.legality.violations(&space.deployment(*index), space.gpus(*index)).is_empty();
    let mut by_knob: Vec<Vec<u64>> = Vec::new();
    let mut last = None;
    // The ends of each knob first: they differ most.
    for (knob, index) in space.one_turn(middle, SEEDS) {
        if last != Some(knob) {
            by_knob.push(Vec::new());
            last = Some(knob);
        }
        if let Some(points) = by_knob.last_mut() {
            points.push(index);
        }
    }
    let mut seeds: Vec<u64> = std::iter::once(middle).filter(|index| legal(index)).collect();
    let longest = by_knob.iter().map(Vec::len).max().unwrap_or(0);
    for turn in 0..longest {
        for points in &by_knob {
            let at = if turn % 2 == 0 { points.len().checked_sub(1 + turn / 2) } else { Some(turn / 2) };
            let point = at.filter(|at| turn < points.len() && *at < points.len()).map(|at| points[at]);
            if let Some(point) = point.filter(legal).filter(|p| !seeds.contains(p)) {
                seeds.push(point);
            }
        }
    }
    seeds.truncate(SEEDS);
    seeds
}
