//! Which point promises the greatest improvement? Efficient global optimisation with Gaussian processes: one for the
//! score, one for each limit, one for whether a point runs at all.
//!
//! The points asked about are points of the space, so knobs stay whole numbers and names, and what no engine starts is
//! never proposed. Made for evaluations that are dear: choosing eight points takes some tenths of a CPU-second.

use super::acquisition::{Memory, Models, Seen, places};
use super::backend::{Ask, Backend, Domain, History, Observation};
use super::candidates::Candidates;
use super::cube::Cube;
use super::merit::Merit;
use super::random::{Spread, mix};
use crate::Result;
use ndarray::Axis;

/// Points chosen at once.
const BATCH: usize = 8;
/// Most points the models are trained on: the best half and the newest half of them.
const TRAINED: usize = 160;
/// Where a limit's logarithm levels off: what misses tenfold is much as what misses a hundredfold.
const FAR: f64 = 2.5;
/// Rounds in which the most promising points' surroundings are looked at, and how many of them.
const CLIMB: (usize, usize) = (3, 5);
/// A gain, as a share, below which no point is worth a look, and the rounds in a row after which the search ends.
const QUIET: (f64, u32) = (1e-4, 3);
/// Points that stay in the race for the places of one batch.
const RACE: usize = 100;

/// The backend `ego`.
pub struct Ego {
    seed: u64,
    spread: Spread,
    memory: Memory,
    quiet: u32,
    fallbacks: u32,
}

impl Ego {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, spread: Spread::new(seed), memory: Memory::default(), quiet: 0, fallbacks: 0 }
    }

    /// The models' choice; short of `wanted` where no model can be fitted.
    fn suggest(&mut self, domain: &dyn Domain, cube: &Cube, history: &History, wanted: usize) -> Option<Vec<u64>> {
        let models = self.memory.fit(&training(domain, cube, history))?;
        let seed = mix(self.seed ^ mix(history.evaluations()));
        let mut candidates = Candidates::new(domain, cube, history, seed);
        let mut promise = promises(&models, domain, cube, &candidates.points)?;
        for _ in 0..CLIMB.0 {
            let before = candidates.points.len();
            let leaders = best_of(&candidates.points, &promise, CLIMB.1);
            if candidates.around(&leaders) > before {
                promise.extend(promises(&models, domain, cube, &candidates.points[before..])?);
            }
        }
        let most = promise.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Scores are told as logarithms, so that a gain is a share.
        self.quiet = if models.knows_a_feasible_point() && most < QUIET.0.ln() { self.quiet + 1 } else { 0 };
        let race = best_of(&candidates.points, &promise, RACE);
        Some(pick(models, domain, cube, race, wanted))
    }
}

/// What the models say of points.
fn promises(models: &Models, domain: &dyn Domain, cube: &Cube, points: &[u64]) -> Option<Vec<f64>> {
    if points.is_empty() {
        return Some(Vec::new());
    }
    let rows: Vec<Vec<f64>> = points.iter().map(|p| cube.place(domain, *p)).collect();
    models.promise(&places(rows.iter().map(Vec::as_slice)))
}

/// The most promising points, best first.
fn best_of(points: &[u64], promise: &[f64], most: usize) -> Vec<u64> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|a, b| promise[*b].total_cmp(&promise[*a]).then(points[*a].cmp(&points[*b])));
    order.into_iter().take(most).map(|at| points[at]).collect()
}

/// Takes the most promising point, believes what the models guess of it, and takes the next.
fn pick(mut models: Models, domain: &dyn Domain, cube: &Cube, mut race: Vec<u64>, wanted: usize) -> Vec<u64> {
    let mut chosen = Vec::new();
    while chosen.len() < wanted && !race.is_empty() {
        let rows: Vec<Vec<f64>> = race.iter().map(|p| cube.place(domain, *p)).collect();
        let x = places(rows.iter().map(Vec::as_slice));
        let Some(promise) = models.promise(&x) else { break };
        let first = (0..race.len()).max_by(|a, b| promise[*a].total_cmp(&promise[*b]).then(race[*b].cmp(&race[*a])));
        let Some(first) = first else { break };
        chosen.push(race.remove(first));
        match models.believe(x.index_axis(Axis(0), first)) {
            Some(sure) => models = sure,
            None => break,
        }
    }
    chosen
}

/// What the models learn from: places and, for each that runs, the cost of its score and every limit's excess as a
/// logarithm.
fn training(domain: &dyn Domain, cube: &Cube, history: &History) -> Vec<Seen> {
    let mut seen: Vec<&Observation> = history.observations().iter().filter(|o| o.legal).collect();
    if seen.len() > TRAINED {
        let newest = seen.split_off(seen.len() - TRAINED / 2);
        seen.sort_by(|a, b| Observation::order(a, b));
        seen.truncate(TRAINED - newest.len());
        seen.extend(newest);
    }
    let mut merit = Merit::default();
    let running: Vec<Observation> = seen.iter().filter(|o| o.score.is_some()).map(|o| (*o).clone()).collect();
    merit.learn(&running);
    let level = |excess: &f64| FAR * ((1.0 + excess).max(f64::MIN_POSITIVE).ln() / FAR).tanh();
    let outputs = |o: &Observation| {
        let cost = -merit.of_score(o.score?);
        Some((cost, o.limits.iter().map(level).collect()))
    };
    seen.into_iter().map(|o| Seen { place: cube.place(domain, o.point), outputs: outputs(o) }).collect()
}

impl Backend for Ego {
    fn name(&self) -> &'static str {
        "ego"
    }

    fn batch(&self) -> usize {
        BATCH
    }

    fn ask(&mut self, domain: &dyn Domain, history: &History, wanted: usize) -> Result<Ask> {
        let cube = Cube::new(domain);
        let design = 2 * cube.axes().len() as u64 + 4;
        let mut chosen: Vec<u64> = Vec::new();
        if history.evaluations() >= design {
            chosen = self.suggest(domain, &cube, history, wanted).unwrap_or_default();
            self.fallbacks += u32::from(chosen.is_empty());
        }
        if self.quiet >= QUIET.1 {
            let why = format!("nowhere do its models expect a gain of {} %", 100.0 * QUIET.0);
            return Ok(Ask::Converged(why));
        }
        while chosen.len() < wanted {
            match self.spread.next(domain, history) {
                Some(point) if chosen.contains(&point) => {}
                Some(point) => chosen.push(point),
                None => break,
            }
        }
        Ok(if chosen.is_empty() { Ask::Exhausted } else { Ask::Points(chosen) })
    }

    fn notes(&self) -> Vec<String> {
        match self.fallbacks {
            0 => Vec::new(),
            n => vec![format!("ego could fit no model in {n} rounds and looked at evenly spread points instead.")],
        }
    }
}
