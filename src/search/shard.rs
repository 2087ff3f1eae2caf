//! One part of an exhaustive search, as a file that describes itself: counts, and the numbers of the points worth
//! keeping. Figures are worked out again when the parts are joined, so that the joined answer is that of one process.

use super::Evaluator;
use super::exhaustive::{Search, Verdict};
use super::tally::{Found, Outcome, Sample, Tally, Why};
use crate::{Error, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;

/// Layout version of the file.
pub const SCHEMA: u32 = 1;

/// Which part of how many; counts from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Which.
    pub index: u64,
    /// Of how many.
    pub of: u64,
}

/// What a part found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shard {
    /// [`SCHEMA`] at the time of writing.
    pub schema: u32,
    /// Version of InferaSim that wrote it.
    pub version: String,
    /// Number that stands for everything the figures depend on.
    pub inputs: String,
    /// The command line of the whole search, program name first.
    pub arguments: Vec<String>,
    /// Which part.
    pub part: Part,
    /// Points looked at, legal and feasible.
    pub counts: [u64; 3],
    /// Points that are out, by reason.
    groups: Vec<Rejections>,
    layouts: Vec<u64>,
    front: Vec<u64>,
    cost_front: Vec<u64>,
    sample: Vec<u64>,
    kept: Vec<u64>,
    /// Wall time, seconds.
    pub elapsed_s: f64,
}

/// Points that are out for one reason: how many, and the nearest with its distance (none where it has no measure).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Rejections {
    count: u64,
    nearest: u64,
    distance: Option<f64>,
}

impl Shard {
    /// It found the same, in whatever time.
    pub fn agrees(&self, other: &Shard) -> bool {
        let timeless = |shard: &Shard| Shard { elapsed_s: 0.0, ..shard.clone() };
        timeless(self) == timeless(other)
    }
}

impl<E: Evaluator> Search<'_, E> {
    /// Looks at one part: whole layouts, as many as in any other part or one more.
    pub fn shard(&self, part: Part, progress: &(dyn Fn(u64) + Sync), interrupted: &AtomicBool) -> Shard {
        let layouts = self.space.len() / self.space.layout_len();
        let cut = |at: u64| (u128::from(layouts) * u128::from(at) / u128::from(part.of.max(1))) as u64;
        let tally = self.tally(cut(part.index)..cut(part.index + 1), progress, interrupted).settled();
        let numbers = |found: &[Found]| found.iter().map(|f| f.index).collect();
        Shard {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_string(),
            inputs: String::new(),
            arguments: Vec::new(),
            part,
            counts: [tally.looked, tally.legal, tally.feasible],
            groups: tally
                .groups
                .values()
                .map(|g| Rejections {
                    count: g.count,
                    nearest: g.nearest.index,
                    distance: Some(g.nearest.distance).filter(|d| d.is_finite()),
                })
                .collect(),
            layouts: numbers(&tally.layouts),
            front: numbers(&tally.front),
            cost_front: numbers(&tally.cost_front),
            sample: tally.sample.iter().map(|s| s.index).collect(),
            kept: numbers(&tally.kept),
            elapsed_s: 0.0,
        }
    }

    /// Joins all parts of a search.
    ///
    /// # Errors
    /// A part whose points are not what it says they are: it was written for other inputs.
    pub fn join(&self, shards: &[Shard]) -> Result<Outcome> {
        let tallies: Vec<Tally> = shards.iter().map(|s| self.tally_of(s)).collect::<Result<_>>()?;
        Ok(tallies.into_iter().fold(Tally::default(), Tally::merge).finish(self.space.len()))
    }

    fn tally_of(&self, shard: &Shard) -> Result<Tally> {
        let wrong = |point: u64| {
            Error::input(
                format!("shard {} of {}", shard.part.index, shard.part.of),
                format!("point {point} is not what the file says"),
                "Run the shard again",
            )
        };
        let known = |point: u64| if point < self.space.len() { Ok(point) } else { Err(wrong(point)) };
        let found = |points: &[u64]| -> Result<Vec<Found>> {
            points
                .par_iter()
                .map(|&point| match self.verdict(known(point)?) {
                    Verdict::Feasible(found) => Ok(found),
                    Verdict::Rejected(..) => Err(wrong(point)),
                })
                .collect()
        };
        let sample = |&index: &u64| match self.verdict(known(index)?) {
            Verdict::Feasible(found) => Ok(Sample { index, evaluation: found.evaluation, feasible: true }),
            Verdict::Rejected(_, rejected) => match rejected.why {
                Why::Missed(_, evaluation) => Ok(Sample { index, evaluation: *evaluation, feasible: false }),
                Why::Illegal(_) | Why::Refused(_) => Err(wrong(index)),
            },
        };
        let mut tally = Tally {
            looked: shard.counts[0],
            legal: shard.counts[1],
            feasible: shard.counts[2],
            layouts: found(&shard.layouts)?,
            front: found(&shard.front)?,
            cost_front: found(&shard.cost_front)?,
            sample: shard.sample.par_iter().map(sample).collect::<Result<_>>()?,
            kept: found(&shard.kept)?,
            ..Tally::default()
        };
        for group in &shard.groups {
            match self.verdict(known(group.nearest)?) {
                Verdict::Feasible(_) => return Err(wrong(group.nearest)),
                Verdict::Rejected(reason, mut rejected) => {
                    rejected.distance = group.distance.unwrap_or(f64::INFINITY);
                    tally.reject(reason, group.count, rejected);
                }
            }
        }
        Ok(tally)
    }
}
