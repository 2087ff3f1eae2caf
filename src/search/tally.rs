//! What a search keeps of the points it has seen: counts, the nearest miss of each kind, the best of each layout and
//! the fronts. A few kilobytes however many points there are; the same whatever order they were seen in.

use crate::config::Violation;
use crate::objective::Miss;
use crate::objective::pareto::{self, Placed};
use crate::serve::{Evaluation, Refusal};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A feasible point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// Its number in the space.
    pub index: u64,
    /// The ranking figure, turned so that high is good.
    pub score: f64,
    /// Its figures.
    pub evaluation: Evaluation,
}

impl Found {
    /// Best first: the higher score, then the lower TPOT, then the smaller number.
    pub fn order(a: &Found, b: &Found) -> Ordering {
        b.score
            .total_cmp(&a.score)
            .then(a.evaluation.metrics.tpot_ms.total_cmp(&b.evaluation.metrics.tpot_ms))
            .then(a.index.cmp(&b.index))
    }
}

/// What points are counted under.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Misses the objective's limit of this position most.
    Slo(usize),
    /// Does not fit in memory.
    Memory,
    /// The cost model has no figures for it.
    NoModel(String),
    /// No engine starts it.
    Illegal(&'static str),
}

/// A point that is out.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejected {
    /// Its number in the space.
    pub index: u64,
    /// How far out, comparable within one reason; for limits the overshoot as a factor.
    pub distance: f64,
    /// Why.
    pub why: Why,
}

/// Why a point is out.
#[derive(Debug, Clone, PartialEq)]
pub enum Why {
    /// The first rule it breaks.
    Illegal(Violation),
    /// It cannot run.
    Refused(Refusal),
    /// It runs, but misses a limit.
    Missed(Miss, Box<Evaluation>),
}

/// Points that are out for the same reason, and the one that comes nearest to being in.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The reason.
    pub reason: Reason,
    /// How many.
    pub count: u64,
    /// The nearest.
    pub nearest: Rejected,
}

/// One evaluated point of the even sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Its number in the space.
    pub index: u64,
    /// Its figures.
    pub evaluation: Evaluation,
    /// It keeps every limit.
    pub feasible: bool,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Points of the space.
    pub points: u64,
    /// Points looked at, legal or not; fewer than `points` where the search ended early or was selective.
    pub looked: u64,
    /// Points an engine starts.
    pub legal: u64,
    /// Points that run and keep every limit.
    pub feasible: u64,
    /// The rest by reason, most frequent first.
    pub groups: Vec<Group>,
    /// The best point of every layout with a feasible one, best first.
    pub layouts: Vec<Found>,
    /// Front of tok/s/user against tok/s/GPU, by rising tok/s/user.
    pub front: Vec<Found>,
    /// Front of tok/s/user against low cost per token, by rising tok/s/user; empty without a price.
    pub cost_front: Vec<Found>,
    /// An even sample of the evaluated points, by number.
    pub sample: Vec<Sample>,
    /// The best points of all, best first; at most [`KEPT`].
    pub kept: Vec<Found>,
}

/// Most feasible points kept one by one.
pub const KEPT: usize = 20_000;

/// An [`Outcome`] in the making.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub looked: u64,
    pub legal: u64,
    pub feasible: u64,
    pub groups: BTreeMap<Reason, Group>,
    pub layouts: Vec<Found>,
    pub front: Vec<Found>,
    pub cost_front: Vec<Found>,
    pub sample: Vec<Sample>,
    pub kept: Vec<Found>,
}

impl Tally {
    pub fn reject(&mut self, reason: Reason, count: u64, rejected: Rejected) {
        match self.groups.get_mut(&reason) {
            None => {
                self.groups.insert(reason.clone(), Group { reason, count, nearest: rejected });
            }
            Some(group) => {
                group.count += count;
                let (new, old) = (&rejected, &group.nearest);
                if new.distance.total_cmp(&old.distance).then(new.index.cmp(&old.index)) == Ordering::Less {
                    group.nearest = rejected;
                }
            }
        }
    }

    pub fn merge(mut self, other: Tally) -> Tally {
        self.looked += other.looked;
        self.legal += other.legal;
        self.feasible += other.feasible;
        for (reason, group) in other.groups {
            self.reject(reason, group.count, group.nearest);
        }
        self.layouts.extend(other.layouts);
        self.sample.extend(other.sample);
        self.kept.extend(other.kept);
        keep_best(&mut self.kept);
        self.front.extend(other.front);
        self.cost_front.extend(other.cost_front);
        self.prune();
        self
    }

    /// Drops what is on no front.
    pub fn prune(&mut self) {
        keep_front(&mut self.front, |e| Some(e.metrics.tok_s_per_gpu));
        keep_front(&mut self.cost_front, |e| e.metrics.usd_per_m_total.map(|usd| -usd));
    }

    pub fn finish(mut self, points: u64) -> Outcome {
        self.prune();
        keep_best(&mut self.kept);
        self.kept.sort_by(Found::order);
        self.layouts.sort_by(Found::order);
        self.sample.sort_by_key(|s| s.index);
        let mut groups: Vec<Group> = self.groups.into_values().collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then(a.reason.cmp(&b.reason)));
        Outcome {
            points,
            looked: self.looked,
            legal: self.legal,
            feasible: self.feasible,
            groups,
            layouts: self.layouts,
            front: self.front,
            cost_front: self.cost_front,
            sample: self.sample,
            kept: self.kept,
        }
    }
}

/// Drops all but the best; in no order.
fn keep_best(points: &mut Vec<Found>) {
    if points.len() > KEPT {
        points.select_nth_unstable_by(KEPT, Found::order);
        points.truncate(KEPT);
    }
}

fn keep_front(points: &mut Vec<Found>, y: impl Fn(&Evaluation) -> Option<f64>) {
    let placed = points
        .iter()
        .enumerate()
        .filter_map(|(at, p)| {
            let y = y(&p.evaluation)?;
            Some(Placed { x: p.evaluation.metrics.tok_s_per_user, y, item: (p.index, at) })
        })
        .collect();
    *points = pareto::front(placed).into_iter().map(|p| points[p.item.1]).collect();
}
