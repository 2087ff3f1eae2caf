//! Problems whose optimum is known from the literature, on grids fine enough to come close to it.

use super::backend::{Backend, Dimension, Domain, Observation, Stop};
use super::driver::{Limits, NoWitness, Problem, Searched, drive};
use std::sync::atomic::AtomicBool;

type Objective = fn(&[f64]) -> f64;
/// At most 0 where the limit is kept.
type Limit = fn(&[f64]) -> f64;

/// Two figures to maximise.
type Pair = fn(&[f64]) -> [f64; 2];

/// A function to minimise on a grid of a box.
pub struct Grid {
    dimensions: Vec<Dimension>,
    bounds: Vec<(f64, f64)>,
    objective: Objective,
    limit: Option<Limit>,
    /// Two figures to maximise, for fronts.
    front: Option<Pair>,
    /// Points whose coordinates add up to a multiple of five are not allowed.
    holes: bool,
}

impl Grid {
    pub fn new(bounds: &[(f64, f64)], cells: usize, objective: Objective) -> Self {
        let dimension = |at: usize| Dimension {
            name: format!("x{at}"),
            values: (0..cells).map(|v| v.to_string()).collect(),
            ordered: true,
            parts: vec![],
        };
        let dimensions = (0..bounds.len()).map(dimension).collect();
        Self { dimensions, bounds: bounds.to_vec(), objective, limit: None, front: None, holes: false }
    }

    pub fn with_limit(self, limit: Limit) -> Self {
        Self { limit: Some(limit), ..self }
    }

    pub fn with_front(self, front: fn(&[f64]) -> [f64; 2]) -> Self {
        Self { front: Some(front), ..self }
    }

    pub fn with_holes(self) -> Self {
        Self { holes: true, ..self }
    }

    pub fn place(&self, point: u64) -> Vec<f64> {
        let at = |((low, high), (c, d)): (&(f64, f64), (usize, &Dimension))| {
            low + (high - low) * c as f64 / (d.values.len() - 1) as f64
        };
        self.bounds.iter().zip(self.coordinates(point).into_iter().zip(&self.dimensions)).map(at).collect()
    }

    /// Runs a backend; `(best value, its place, evaluations)`.
    pub fn minimise(&self, mut backend: impl Backend, budget: u64) -> (f64, Vec<f64>, Searched<f64>) {
        let interrupted = AtomicBool::new(false);
        let limits = Limits { budget, interrupted: &interrupted };
        let searched = drive(self, &mut backend, &limits, vec![], &NoWitness).unwrap();
        assert!(matches!(searched.stop, Stop::Budget | Stop::Converged | Stop::Exhausted), "{:?}", searched.stop);
        assert!(searched.history.evaluations() <= budget);
        assert!(!self.holes || searched.history.observations().iter().all(|o| o.legal), "asked for a hole");
        let best = searched.history.best().expect("a feasible point");
        (-best.score.unwrap(), self.place(best.point), searched)
    }
}

impl Domain for Grid {
    fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }
    fn limits(&self) -> usize {
        usize::from(self.limit.is_some())
    }
    fn figures(&self) -> usize {
        if self.front.is_some() { 2 } else { 1 }
    }
    fn allows(&self, point: u64) -> bool {
        !self.holes || self.coordinates(point).iter().sum::<usize>() % 5 != 0
    }
    fn explain(&self, _point: u64) -> Option<String> {
        None
    }
}

impl Problem for Grid {
    type Figures = f64;
    fn evaluate(&self, point: u64) -> f64 {
        (self.objective)(&self.place(point))
    }
    fn observe(&self, point: u64, value: &f64) -> Observation {
        let excess = self.limit.map(|limit| limit(&self.place(point)));
        Observation {
            point,
            score: Some(-value),
            front: self.front.map(|front| front(&self.place(point))),
            limits: excess.into_iter().collect(),
            rejection: excess.filter(|e| *e > 0.0).map(|_| "over the limit".to_string()),
            legal: true,
        }
    }
    fn refuse(&self, point: u64) -> Observation {
        let rejection = Some("a hole".to_string());
        Observation { point, score: None, front: None, limits: vec![], rejection, legal: false }
    }
}

/// Branin and Hoo (1972): three minima of 0.397887.
pub fn branin(x: &[f64]) -> f64 {
    let pi = std::f64::consts::PI;
    let a = x[1] - 5.1 / (4.0 * pi * pi) * x[0] * x[0] + 5.0 / pi * x[0] - 6.0;
    a * a + 10.0 * (1.0 - 1.0 / (8.0 * pi)) * x[0].cos() + 10.0
}

pub const BRANIN: [(f64, f64); 2] = [(-5.0, 10.0), (0.0, 15.0)];

/// Rastrigin (1974): minimum 0 at the origin among 11^n others.
pub fn rastrigin(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x - 10.0 * (2.0 * std::f64::consts::PI * x).cos() + 10.0).sum()
}

/// Hartmann (1970) in three dimensions: minimum -3.86278.
pub fn hartmann3(x: &[f64]) -> f64 {
    const A: [[f64; 3]; 4] = [[3.0, 10.0, 30.0], [0.1, 10.0, 35.0], [3.0, 10.0, 30.0], [0.1, 10.0, 35.0]];
    const P: [[f64; 3]; 4] =
        [[0.3689, 0.1170, 0.2673], [0.4699, 0.4387, 0.7470], [0.1091, 0.8732, 0.5547], [0.03815, 0.5743, 0.8828]];
    const ALPHA: [f64; 4] = [1.0, 1.2, 3.0, 3.2];
    let inner = |i: usize| (0..3).map(|j| A[i][j] * (x[j] - P[i][j]).powi(2)).sum::<f64>();
    -(0..4).map(|i| ALPHA[i] * (-inner(i)).exp()).sum::<f64>()
}

/// G24 of the CEC 2006 collection (Liang et al.): minimum -5.50801 at (2.32952, 3.17849), where both limits bind, in a
/// feasible region of two parts.
pub fn g24(x: &[f64]) -> f64 {
    -x[0] - x[1]
}

/// The greater one of the two limits of [`g24`].
pub fn g24_limit(x: &[f64]) -> f64 {
    let a = x[0];
    let first = -2.0 * a.powi(4) + 8.0 * a.powi(3) - 8.0 * a * a + x[1] - 2.0;
    let second = -4.0 * a.powi(4) + 32.0 * a.powi(3) - 88.0 * a * a + 96.0 * a + x[1] - 36.0;
    first.max(second)
}

/// Schaffer's first problem (1985), maximised: the front is `sqrt(-f2) = 2 - sqrt(-f1)` for x in [0, 2].
pub fn schaffer(x: &[f64]) -> [f64; 2] {
    [-x[0] * x[0], -(x[0] - 2.0).powi(2)]
}
