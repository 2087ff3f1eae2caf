//! The loop on a toy: budgets, repeats, interruptions, threads, and what an interrupted search leaves.

use super::super::backend::Dimension;
use super::super::random::Random;
use super::super::sequential::Sequential;
use super::*;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// 10 x 10 points; the score is minus the squared distance from (7, 2); points on the diagonal are not allowed; a
/// limit asks for a first coordinate of at most 8.
pub struct Bowl {
    dimensions: Vec<Dimension>,
    pub evaluations: AtomicU64,
}

impl Bowl {
    pub fn new() -> Self {
        let values: Vec<String> = (0..10).map(|v| v.to_string()).collect();
        let dimension =
            |name: &str| Dimension { name: name.into(), values: values.clone(), ordered: true, parts: vec![] };
        Self { dimensions: vec![dimension("x"), dimension("y")], evaluations: AtomicU64::new(0) }
    }
}

impl Domain for Bowl {
    fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }
    fn limits(&self) -> usize {
        1
    }
    fn allows(&self, point: u64) -> bool {
        !point.is_multiple_of(11)
    }
    fn explain(&self, _point: u64) -> Option<String> {
        None
    }
}

impl Problem for Bowl {
    type Figures = f64;
    fn evaluate(&self, point: u64) -> f64 {
        self.evaluations.fetch_add(1, Ordering::Relaxed);
        let (x, y) = ((point / 10) as f64, (point % 10) as f64);
        -(x - 7.0).powi(2) - (y - 2.0).powi(2)
    }
    fn observe(&self, point: u64, figures: &f64) -> Observation {
        let excess = (point / 10) as f64 / 8.0 - 1.0;
        Observation {
            point,
            score: Some(*figures),
            front: None,
            limits: vec![excess],
            rejection: (excess > 0.0).then(|| "x over 8".to_string()),
            legal: true,
        }
    }
    fn refuse(&self, point: u64) -> Observation {
        let rejection = Some("on the diagonal".to_string());
        Observation { point, score: None, front: None, limits: vec![], rejection, legal: false }
    }
}

fn run(backend: &mut dyn Backend, budget: u64, recorded: Vec<(u64, f64)>) -> (Searched<f64>, u64) {
    let bowl = Bowl::new();
    let interrupted = AtomicBool::new(false);
    let limits = Limits { budget, interrupted: &interrupted };
    let searched = drive(&bowl, backend, &limits, recorded, &NoWitness).unwrap();
    (searched, bowl.evaluations.into_inner())
}

fn points(searched: &Searched<f64>) -> Vec<u64> {
    searched.history.observations().iter().map(|o| o.point).collect()
}

#[test]
fn every_point_once_then_exhausted() {
    let (searched, evaluations) = run(&mut Sequential::default(), 1000, vec![]);
    assert_eq!((searched.stop, evaluations), (Stop::Exhausted, 90), "ten of a hundred are not allowed");
    assert_eq!(searched.history.best().unwrap().point, 72);
    let (searched, evaluations) = run(&mut Random::new(3), 1000, vec![]);
    assert_eq!((searched.stop, evaluations), (Stop::Exhausted, 90));
}

#[test]
fn the_budget_is_kept_to_the_evaluation() {
    let (searched, evaluations) = run(&mut Random::new(3), 17, vec![]);
    assert_eq!((searched.stop, evaluations, searched.history.evaluations()), (Stop::Budget, 17, 17));
}

#[test]
fn seeds_decide_and_threads_do_not() {
    let on = |threads, seed| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| points(&run(&mut Random::new(seed), 40, vec![]).0))
    };
    assert_eq!(on(1, 1), on(4, 1));
    assert_ne!(on(1, 1), on(1, 2));
}

#[test]
fn a_resumed_search_is_the_uninterrupted_one_and_evaluates_only_the_rest() {
    let (whole, _) = run(&mut Random::new(5), 60, vec![]);
    let mut recorded: Vec<(u64, f64)> = whole.figures.iter().map(|(p, f)| (*p, *f)).collect();
    recorded.sort_by_key(|r| r.0); // a journal is in no order
    recorded.truncate(25);
    let (resumed, evaluations) = run(&mut Random::new(5), 60, recorded);
    assert_eq!(points(&resumed), points(&whole));
    assert_eq!(evaluations, 35);
}

/// Proposes the same points for ever, one of them not allowed.
struct Stubborn {
    told: Vec<Observation>,
}

impl Backend for Stubborn {
    fn name(&self) -> &'static str {
        "stubborn"
    }
    fn ask(&mut self, _: &dyn Domain, _: &History, _: usize) -> Result<Ask> {
        Ok(Ask::Points(vec![0, 72, 72, 99_999, 95]))
    }
    fn tell(&mut self, told: &[Observation]) {
        self.told = told.to_vec();
    }
}

#[test]
fn repeats_cost_nothing_and_end_the_search() {
    let mut backend = Stubborn { told: vec![] };
    let (searched, evaluations) = run(&mut backend, 1000, vec![]);
    assert_eq!((searched.stop, evaluations), (Stop::Converged, 2));
    let told: Vec<_> = backend.told.iter().map(|o| (o.point, o.legal, o.feasible())).collect();
    let beyond_the_end = (99, false, false);
    assert_eq!(told, [(0, false, false), (72, true, true), (72, true, true), beyond_the_end, (95, true, false)]);
    assert_eq!(searched.history.best().unwrap().point, 72);
}

/// Sets the flag at the fifth evaluation.
struct Stopper<'a> {
    flag: &'a AtomicBool,
    seen: Mutex<Vec<u64>>,
}

impl Witness<f64> for Stopper<'_> {
    fn saw(&self, point: u64, _: &f64) -> Result<()> {
        let mut seen = self.seen.lock().unwrap();
        seen.push(point);
        if seen.len() >= 5 {
            self.flag.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[test]
fn an_interruption_keeps_what_was_seen() {
    let flag = AtomicBool::new(false);
    let witness = Stopper { flag: &flag, seen: Mutex::new(vec![]) };
    let limits = Limits { budget: 90, interrupted: &flag };
    let searched = drive(&Bowl::new(), &mut Random::new(1), &limits, vec![], &witness).unwrap();
    assert_eq!(searched.stop, Stop::Interrupted);
    let seen = witness.seen.into_inner().unwrap();
    assert!(seen.len() >= 5 && seen.len() < 90);
    assert_eq!(searched.history.evaluations(), seen.len() as u64);
}
