//! The one loop of every backend: ask, look, tell, until the space, the budget, the backend or somebody ends it.
//!
//! Batches are looked at in parallel and told in the order asked, so answers do not depend on the number of threads.

use super::backend::{Ask, Backend, Domain, History, Observation, Stop};
use crate::Result;
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// What is searched, and who knows what a point is worth.
pub trait Problem: Domain {
    /// All that is worth keeping of one evaluation.
    type Figures: Send + Sync;

    /// Looks at an allowed point. Equal points give equal figures.
    fn evaluate(&self, point: u64) -> Self::Figures;

    /// What a backend is told of the figures.
    fn observe(&self, point: u64, figures: &Self::Figures) -> Observation;

    /// What a backend is told of a point that is not allowed.
    fn refuse(&self, point: u64) -> Observation;
}

/// How long, and with what at hand.
pub struct Limits<'a> {
    /// Most evaluations.
    pub budget: u64,
    /// Set by whoever wants the search to stop.
    pub interrupted: &'a AtomicBool,
}

/// A finished search.
#[derive(Debug)]
pub struct Searched<F> {
    /// Why it stopped.
    pub stop: Stop,
    /// Why, in the backend's own words.
    pub reason: Option<String>,
    /// Everything that was looked at.
    pub history: History,
    /// The figures of every evaluated point.
    pub figures: HashMap<u64, F>,
}

/// Somebody who is handed every new evaluation as soon as it is known, from any thread.
pub trait Witness<F>: Sync {
    /// One evaluation.
    ///
    /// # Errors
    /// It cannot be kept; the search ends.
    fn saw(&self, point: u64, figures: &F) -> Result<()>;
}

/// Keeps nothing.
pub struct NoWitness;

impl<F> Witness<F> for NoWitness {
    fn saw(&self, _point: u64, _figures: &F) -> Result<()> {
        Ok(())
    }
}

/// Answers without anything new after which a backend is taken to have nothing more to say.
const FRUITLESS: usize = 50;

/// Runs a backend. `recorded` holds evaluations of an earlier run, in the order in which they were asked for.
///
/// # Errors
/// Whatever the backend or the witness cannot do.
pub fn drive<P: Problem>(
    problem: &P,
    backend: &mut dyn Backend,
    limits: &Limits<'_>,
    recorded: Vec<(u64, P::Figures)>,
    witness: &dyn Witness<P::Figures>,
) -> Result<Searched<P::Figures>> {
    let mut history = History::default();
    let order: Vec<u64> = recorded.iter().map(|(point, _)| *point).collect();
    let mut known: HashMap<u64, P::Figures> = recorded.into_iter().collect();
    let mut figures: HashMap<u64, P::Figures> = HashMap::new();
    let mut earlier = History::default();
    for point in order {
        if let Some(found) = known.get(&point) {
            earlier.push(problem.observe(point, found));
        }
    }
    if earlier.evaluations() > 0 && backend.restore(&earlier) {
        history = earlier;
        figures.extend(known.drain());
    }
    let mut fruitless = 0;
    let ended = |stop, reason, history, figures| Ok(Searched { stop, reason, history, figures });
    loop {
        if limits.interrupted.load(Ordering::Relaxed) {
            return ended(Stop::Interrupted, None, history, figures);
        }
        let left = limits.budget.saturating_sub(history.evaluations());
        if left == 0 {
            return ended(Stop::Budget, None, history, figures);
        }
        let wanted = backend.batch().clamp(1, 1 << 16).min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut asked = match backend.ask(problem, &history, wanted)? {
            Ask::Points(points) => points,
            Ask::Exhausted => return ended(Stop::Exhausted, None, history, figures),
            Ask::Converged(why) => return ended(Stop::Converged, Some(why), history, figures),
        };
        asked.truncate(wanted);
        asked.iter_mut().for_each(|p| *p = (*p).min(problem.len().saturating_sub(1)));
        let before = history.evaluations();
        look(problem, limits, &asked, &history, &mut known, &mut figures, witness)?;
        let mut told = Vec::with_capacity(asked.len());
        for &point in &asked {
            let observation = match (history.of(point), figures.get(&point)) {
                (Some(known), _) => known.clone(),
                (None, Some(found)) => problem.observe(point, found),
                (None, None) if problem.allows(point) => continue,
                (None, None) => problem.refuse(point),
            };
            history.push(observation.clone());
            told.push(observation);
        }
        backend.tell(&told);
        fruitless = if history.evaluations() > before { 0 } else { fruitless + 1 };
        if history.evaluations() >= problem.len() {
            return ended(Stop::Exhausted, None, history, figures);
        }
        if fruitless >= FRUITLESS {
            let why = format!("the last {FRUITLESS} answers held nothing new");
            return ended(Stop::Converged, Some(why), history, figures);
        }
    }
}

/// Evaluates what is new among `asked`, in parallel; leaves out what an interruption prevents.
fn look<P: Problem>(
    problem: &P,
    limits: &Limits<'_>,
    asked: &[u64],
    history: &History,
    known: &mut HashMap<u64, P::Figures>,
    figures: &mut HashMap<u64, P::Figures>,
    witness: &dyn Witness<P::Figures>,
) -> Result<()> {
    let mut fresh = Vec::new();
    let mut seen = HashSet::new();
    for &point in asked {
        if history.of(point).is_some() || !seen.insert(point) {
            continue;
        }
        if let Some(found) = known.remove(&point) {
            figures.insert(point, found);
        } else if problem.allows(point) {
            fresh.push(point);
        }
    }
    let evaluate = |point: &u64| -> Result<Option<(u64, P::Figures)>> {
        if limits.interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let found = problem.evaluate(*point);
        witness.saw(*point, &found)?;
        Ok(Some((*point, found)))
    };
    let found: Vec<Option<(u64, P::Figures)>> = fresh.par_iter().map(evaluate).collect::<Result<_>>()?;
    figures.extend(found.into_iter().flatten());
    Ok(())
}

#[cfg(test)]
#[path = "driver_tests.rs"]
pub(super) mod tests;
