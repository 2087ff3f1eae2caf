//! A space small enough to be looked at whole once and searched many times.

use super::Truth;
use super::common::Setup;
use inferasim::objective::{Metric, Slo};
use inferasim::search::{Dimension, Domain, Observation, Problem, Search, SpaceProblem};
use rayon::prelude::*;

/// What an exhaustive search saw at every point; `None` for points that are not allowed.
pub struct Recorded {
    pub name: &'static str,
    pub dimensions: Vec<Dimension>,
    pub limits: usize,
    pub points: Vec<Option<Observation>>,
}

/// A built-in space in closed form, for throughput per GPU.
pub fn closed(name: &'static str, model: &str, space: &str, slos: &str) -> Recorded {
    let mut setup = Setup::new(model, "vllm", space);
    setup.aim(slos);
    let search = setup.search();
    let problem = SpaceProblem::new(&search);
    let look = |point: u64| problem.allows(point).then(|| problem.observe(point, &problem.evaluate(point)));
    let points = (0..problem.len()).into_par_iter().map(look).collect();
    Recorded { name, dimensions: problem.dimensions().to_vec(), limits: problem.limits(), points }
}

impl Setup {
    /// Throughput per GPU within limits.
    pub fn aim(&mut self, slos: &str) {
        self.objective.slos.clear();
        self.objective.metric = Metric::TokSPerGpu;
        self.objective.override_slos(Slo::parse_list(slos).expect("limits"));
    }

    pub fn search(&self) -> Search<'_, inferasim::serve::Projector> {
        Search { space: &self.space, legality: &self.legality, objective: &self.objective, evaluator: &self.projector }
    }
}

impl Recorded {
    pub fn truth(&self) -> Truth {
        let feasible = || self.points.iter().flatten().filter(|o| o.feasible());
        let best = feasible().filter_map(|o| o.score).fold(f64::NEG_INFINITY, f64::max);
        let mut front: Vec<[f64; 2]> = feasible().filter_map(|o| o.front).collect();
        front.sort_by(|a, b| b[0].total_cmp(&a[0]));
        let mut height = f64::NEG_INFINITY;
        front.retain(|[_, y]| {
            let better = *y > height;
            height = height.max(*y);
            better
        });
        Truth { best, front }
    }

    /// How many points there are, of what kind.
    pub fn size(&self) -> String {
        let best = self.truth().best;
        let feasible = || self.points.iter().flatten().filter(|o| o.feasible());
        let near = feasible().filter(|o| o.score.is_some_and(|s| s >= 0.99 * best)).count();
        format!(
            "{} points, {} allowed, {} feasible, {near} within 1 % of the best, {best:.1}",
            self.points.len(),
            self.points.iter().flatten().count(),
            feasible().count(),
        )
    }

    /// For `benches/optuna_tpe.py`; null for a point that is not allowed.
    pub fn export(&self, folder: &str) {
        let rows: Vec<String> = self.points.iter().map(|o| o.as_ref().map_or_else(|| "null".into(), spelt)).collect();
        let sizes: Vec<usize> = self.dimensions.iter().map(|d| d.values.len()).collect();
        let ordered: Vec<bool> = self.dimensions.iter().map(|d| d.ordered).collect();
        let text = format!(
            "{{\"sizes\": {sizes:?}, \"ordered\": {ordered:?}, \"best\": {}, \"points\": [{}]}}",
            self.truth().best,
            rows.join(",")
        );
        std::fs::write(format!("{folder}/{}.json", self.name), text).expect("the export can be written");
    }
}

/// An allowed point as JSON: its score and its greatest excess over a limit; one that does not run scores nothing.
pub fn spelt(observation: &Observation) -> String {
    let excess = if observation.feasible() { 0.0 } else { observation.excess().map_or(1e6, |e| e.min(1e6)) };
    format!("[{}, {excess}]", observation.score.unwrap_or(0.0))
}

impl Domain for Recorded {
    fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }
    fn limits(&self) -> usize {
        self.limits
    }
    fn figures(&self) -> usize {
        2
    }
    fn allows(&self, point: u64) -> bool {
        self.points[point as usize].is_some()
    }
    fn explain(&self, _point: u64) -> Option<String> {
        None
    }
}

impl Problem for Recorded {
    type Figures = ();
    fn evaluate(&self, _point: u64) {}
    fn observe(&self, point: u64, _figures: &()) -> Observation {
        self.refuse(point)
    }
    fn refuse(&self, point: u64) -> Observation {
        let none = Observation { point, score: None, front: None, limits: vec![], rejection: None, legal: false };
        self.points[point as usize].clone().unwrap_or(Observation { rejection: Some("not allowed".into()), ..none })
    }
}
