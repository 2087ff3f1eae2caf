//! How does a search decide where to look next? A backend is asked for points and told what came of them; it knows
//! dimensions, scores and limits, and nothing of serving.

use crate::Result;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// One knob as a backend sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Dimension {
    /// Its name.
    pub name: String,
    /// Its values as a reader knows them, in order; a coordinate is a place in this list.
    pub values: Vec<String>,
    /// Neighbouring values are alike; unordered values are names.
    pub ordered: bool,
    /// Numbers that a name stands for, one row a value, so that models know which names are alike; empty where values
    /// are ordered or mere names.
    pub parts: Vec<Vec<f64>>,
}

/// What may be searched: a numbered product of dimensions, some points of which are not allowed.
///
/// A point is its number; [`Domain::coordinates`] and [`Domain::point`] translate. Knobs that do not apply to a point
/// (draft tokens without speculation) are merged with those they depend on, so that every number is a point of its own.
pub trait Domain: Sync {
    /// The dimensions, outermost first; the last counts fastest.
    fn dimensions(&self) -> &[Dimension];

    /// Limits every point is held against; the length of [`Observation::limits`].
    fn limits(&self) -> usize;

    /// Figures of the front ([`Observation::front`]): two, or one where there is only the score.
    fn figures(&self) -> usize {
        1
    }

    /// The rules allow the point; others are told at once as rejected and cost no evaluation.
    fn allows(&self, point: u64) -> bool;

    /// Why a point is out and which change helps, as one line a planner can act on; `None` for a point that is in.
    /// May look at the point's neighbours, so it is not for every point.
    fn explain(&self, point: u64) -> Option<String>;

    /// Number of points, allowed or not.
    fn len(&self) -> u64 {
        self.dimensions().iter().fold(1, |n: u64, d| n.saturating_mul(d.values.len() as u64))
    }

    /// There is nothing to search.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The coordinates of a point, one a dimension.
    fn coordinates(&self, point: u64) -> Vec<usize> {
        let mut rest = point;
        let mut coordinates = vec![0; self.dimensions().len()];
        for (at, dimension) in self.dimensions().iter().enumerate().rev() {
            let size = dimension.values.len() as u64;
            coordinates[at] = (rest % size) as usize;
            rest /= size;
        }
        coordinates
    }

    /// The point of coordinates; those beyond a dimension's end are taken as its end.
    fn point(&self, coordinates: &[usize]) -> u64 {
        self.dimensions().iter().zip(coordinates).fold(0, |point, (dimension, &at)| {
            let size = dimension.values.len() as u64;
            point * size + (at as u64).min(size.saturating_sub(1))
        })
    }
}

/// What came of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The point.
    pub point: u64,
    /// The figure to raise, where the point runs, whether or not it keeps the limits.
    pub score: Option<f64>,
    /// Two figures of the front, both better high, where the point runs.
    pub front: Option<[f64; 2]>,
    /// One a limit: value over limit (limit over value for floors), minus one. At most 0 keeps it. Empty where the
    /// point does not run.
    pub limits: Vec<f64>,
    /// The name of the reason a point is out; `None` for a feasible one.
    pub rejection: Option<String>,
    /// An engine starts it; illegal points cost no evaluation.
    pub legal: bool,
}

impl Observation {
    /// It runs and keeps every limit.
    pub fn feasible(&self) -> bool {
        self.rejection.is_none()
    }

    /// The greatest excess over a limit, 0 where all are kept; `None` where the point does not run.
    pub fn excess(&self) -> Option<f64> {
        self.score?;
        Some(self.limits.iter().fold(0.0, |worst: f64, l| worst.max(if l.is_nan() { f64::INFINITY } else { *l })))
    }

    /// Feasible before infeasible before what does not run; then the higher score, or the smaller excess; then the
    /// smaller number. Less is better.
    pub fn order(a: &Observation, b: &Observation) -> std::cmp::Ordering {
        let class = |o: &Observation| if o.feasible() { 0 } else { 1 + u8::from(o.score.is_none()) };
        let score = |o: &Observation| o.score.unwrap_or(f64::NEG_INFINITY);
        let excess = |o: &Observation| if o.feasible() { 0.0 } else { o.excess().unwrap_or(f64::INFINITY) };
        class(a)
            .cmp(&class(b))
            .then(excess(a).total_cmp(&excess(b)))
            .then(score(b).total_cmp(&score(a)))
            .then(a.point.cmp(&b.point))
    }
}

/// Everything told so far, each point once, in the order in which it was asked for.
#[derive(Debug, Clone, Default)]
pub struct History {
    observations: Vec<Observation>,
    places: HashMap<u64, usize>,
    evaluations: u64,
    best: Option<usize>,
}

impl History {
    /// All of it.
    pub fn observations(&self) -> &[Observation] {
        &self.observations
    }

    /// What came of a point, if it was looked at.
    pub fn of(&self, point: u64) -> Option<&Observation> {
        self.places.get(&point).map(|&at| &self.observations[at])
    }

    /// Legal points looked at.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// The best feasible point.
    pub fn best(&self) -> Option<&Observation> {
        self.best.map(|at| &self.observations[at])
    }

    /// Adds one; a point already known is left as it is.
    pub fn push(&mut self, observation: Observation) {
        let at = self.observations.len();
        if self.places.contains_key(&observation.point) {
            return;
        }
        self.places.insert(observation.point, at);
        self.evaluations += u64::from(observation.legal);
        if observation.feasible() && self.best().is_none_or(|b| Observation::order(&observation, b).is_lt()) {
            self.best = Some(at);
        }
        self.observations.push(observation);
    }
}

/// A backend's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// Look at these, in this order. Points that are known are told again without an evaluation.
    Points(Vec<u64>),
    /// Every point has been proposed.
    Exhausted,
    /// More looking is not worth it, and why.
    Converged(String),
}

/// A way to choose points. It may be slow, and it may fail.
///
/// Answers depend on the seed, the domain and what was told alone, never on time or threads: a resumed search asks the
/// same questions again and takes the answers from its journal. A backend whose answers cannot be repeated (a language
/// model) takes over a recorded history in [`Backend::restore`] instead.
pub trait Backend {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Most points it wants to be asked for at once.
    fn batch(&self) -> usize {
        64
    }

    /// Up to `wanted` points to look at next.
    ///
    /// # Errors
    /// Why it cannot answer; the search ends with this error, and what was looked at stays in the journal.
    fn ask(&mut self, domain: &dyn Domain, history: &History, wanted: usize) -> Result<Ask>;

    /// What came of the points asked for, in their order. `history` holds it too.
    fn tell(&mut self, told: &[Observation]) {
        let _ = told;
    }

    /// Takes over what an interrupted search had looked at. `false`: ask me again from the start.
    fn restore(&mut self, history: &History) -> bool {
        let _ = history;
        false
    }

    /// What a reader must know of how the points were chosen.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Why a search stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Every point was looked at.
    Exhausted,
    /// The budget of evaluations is spent.
    Budget,
    /// The backend expects nothing more.
    Converged,
    /// Somebody stopped it.
    Interrupted,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stop::Exhausted => "exhausted",
            Stop::Budget => "budget",
            Stop::Converged => "converged",
            Stop::Interrupted => "interrupted",
        })
    }
}
