//! Runs the backend that was asked for.

use super::arguments::{Arguments, BackendName};
use super::inputs::Inputs;
use super::interrupt;
use super::planning;
use super::progress::Progress;
use super::resume::Kept;
use crate::Result;
use crate::report::record::SearchSummary;
use crate::search::argmin_solvers::Argmin;
use crate::search::ego::Ego;
use crate::search::evolve::Evolve;
use crate::search::journal::Journal;
use crate::search::random::Random;
use crate::search::sequential::Sequential;
use crate::search::{
    Backend, Evaluator, Figures, Limits, Outcome, Search, Searched, SpaceProblem, Stop, Witness, drive,
};
use crate::space::Space;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Evaluations of a backend that does not look at every point, where `--budget` says nothing.
const BUDGET: u64 = 1000;
/// The same for `ego` and for `auto`: what its models find they have found by then.
const MODELLED: u64 = 300;
/// Budget beyond which `auto` leaves `ego`, whose models take CPU time and learn from its best and newest points alone.
const LARGE: u64 = 1000;

/// Points up to which `auto` looks at all: a minute of one core at some 300,000 a second.
const SECONDS: u64 = 20_000_000;

/// Searches; says what was found and how. `place` is the run's folder, where there is one already.
///
/// # Errors
/// What the backend cannot do.
pub fn search<E: Evaluator>(
    search: &Search<'_, E>,
    inputs: &Inputs,
    arguments: &Arguments,
    kept: Option<Kept>,
    place: Option<&Path>,
) -> Result<(Outcome, SearchSummary)> {
    if looks_at_all(search.space, arguments) {
        return Ok(exhaustive(search, arguments));
    }
    let points = search.space.len();
    let (asks_model, beside, pair) = arguments.backend.parts();
    let modelled = matches!(arguments.backend, BackendName::Ego | BackendName::Auto);
    let budget = arguments.budget.unwrap_or(if modelled { MODELLED } else { BUDGET });
    let beside = backend(beside, budget, arguments.seed);
    let mut backend = if asks_model {
        planning::planner(search, inputs, (&arguments.planner, arguments.seed), place, beside, pair)?
    } else {
        beside
    };
    let problem = SpaceProblem::new(search);
    let progress = Progress::new(budget.min(points));
    let limits = Limits { budget, interrupted: interrupt::flag() };
    let (journal, recorded) = kept.map_or((None, Vec::new()), |k| (Some(k.journal), k.entries));
    let witness = Recorder { progress: &progress, journal };
    let searched = drive(&problem, backend.as_mut(), &limits, recorded, &witness)?;
    progress.finish();
    let outcome = problem.outcome(&searched);
    let mut how = summary(arguments, backend.as_ref(), budget, &searched);
    how.notes.splice(0..0, choice(arguments, points, budget, backend.name()));
    Ok((outcome, how))
}

/// Every point is to be looked at, without a journal: the closed form takes microseconds a point.
pub fn looks_at_all(space: &Space, arguments: &Arguments) -> bool {
    let small = space.len() <= SECONDS;
    let all = arguments.backend == BackendName::Exhaustive || (arguments.backend == BackendName::Auto && small);
    all && arguments.budget.is_none_or(|b| b >= space.len())
}

/// What `auto` chose, and why; nothing for a backend that was named.
fn choice(arguments: &Arguments, points: u64, budget: u64, chosen: &str) -> Option<String> {
    let size = match arguments.budget {
        Some(budget) if budget < points => format!("a budget of {budget} does not cover the space's {points} points"),
        _ if points <= SECONDS => format!("all {points} points take seconds in closed form"),
        _ => format!("{points} points are too many to look at each"),
    };
    let why = match chosen {
        "ego" => format!("{size}, and with {budget} evaluations its models come nearest to the best"),
        "anneal" => format!("{size}, and {budget} evaluations are more than models learn from"),
        _ => size,
    };
    (arguments.backend == BackendName::Auto).then(|| format!("auto chose {chosen}: {why}."))
}

/// A backend that asks no model.
fn backend(name: BackendName, budget: u64, seed: u64) -> Box<dyn Backend> {
    match name {
        BackendName::Auto if budget <= LARGE => Box::new(Ego::new(seed)),
        BackendName::Random => Box::new(Random::new(seed)),
        BackendName::Anneal | BackendName::Auto => Box::new(Argmin::anneal(seed)),
        BackendName::Swarm => Box::new(Argmin::swarm(seed)),
        BackendName::Ego => Box::new(Ego::new(seed)),
        BackendName::Evolve => Box::new(Evolve::new(seed)),
        // With a model, [`BackendName::parts`] names another one beside it.
        _ => Box::new(Sequential::default()),
    }
}

fn summary(arguments: &Arguments, backend: &dyn Backend, budget: u64, searched: &Searched<Figures>) -> SearchSummary {
    let mut notes = backend.notes();
    notes.extend(searched.reason.iter().map(|why| format!("{} stopped: {why}.", backend.name())));
    SearchSummary {
        backend: backend.name().to_string(),
        seed: (arguments.backend != BackendName::Exhaustive).then_some(arguments.seed),
        budget: Some(budget),
        evaluations: searched.history.evaluations(),
        stop: searched.stop.to_string(),
        notes,
    }
}

/// Every point, layout by layout: each is compiled once.
fn exhaustive<E: Evaluator>(search: &Search<'_, E>, arguments: &Arguments) -> (Outcome, SearchSummary) {
    let progress = Progress::new(search.space.len());
    let interrupted = interrupt::flag();
    let outcome = search.run_until(&|points| progress.add(points), interrupted);
    progress.finish();
    let complete = outcome.looked == outcome.points;
    let stop = if complete || !interrupted.load(Ordering::Relaxed) { Stop::Exhausted } else { Stop::Interrupted };
    let how = of_all(&outcome, arguments, stop);
    (outcome, how)
}

/// How an exhaustive search went, in one process or in parts.
pub fn of_all(outcome: &Outcome, arguments: &Arguments, stop: Stop) -> SearchSummary {
    SearchSummary {
        backend: "exhaustive".to_string(),
        seed: None,
        budget: arguments.budget,
        evaluations: outcome.legal,
        stop: stop.to_string(),
        notes: choice(arguments, outcome.points, outcome.points, "exhaustive").into_iter().collect(),
    }
}

/// Counts evaluations for the progress bar, and keeps them.
struct Recorder<'a> {
    progress: &'a Progress,
    journal: Option<Journal>,
}

impl Witness<Figures> for Recorder<'_> {
    fn saw(&self, point: u64, figures: &Figures) -> Result<()> {
        self.progress.add(1);
        self.journal.as_ref().map_or(Ok(()), |journal| journal.saw(point, figures))
    }
}
