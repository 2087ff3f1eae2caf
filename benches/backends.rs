//! Which backend comes near the best point soonest? Evaluations until within one per cent of the exhaustive optimum and
//! the hypervolume of what was found, median and spread over seeds; `docs/search.md` holds the table.
//!
//! `cargo bench --bench backends -- [--seeds N] [--budget N] [--only BACKEND,…] [--export FOLDER]`: `--export` writes
//! each space's recorded objective for `benches/optuna_tpe.py`.

mod common;

use common::Setup;
use inferasim::objective::{Metric, Slo};
use inferasim::search::argmin_solvers::Argmin;
use inferasim::search::ego::Ego;
use inferasim::search::evolve::Evolve;
use inferasim::search::random::Random;
use inferasim::search::{
    Backend, Dimension, Domain, Limits, NoWitness, Observation, Problem, Search, SpaceProblem, drive,
};
use rayon::prelude::*;
use std::sync::atomic::AtomicBool;

/// What an exhaustive search saw at every point; `None` for points that are not allowed.
struct Recorded {
    name: &'static str,
    dimensions: Vec<Dimension>,
    points: Vec<Option<Observation>>,
    limits: usize,
    best: f64,
    /// Worst corner and volume of the whole front.
    corner: [f64; 2],
    volume: f64,
}

impl Recorded {
    /// With `noise` every score is off by a normal share of that size, the same each time a point is looked at.
    fn new(name: &'static str, setup: &mut Setup, slos: &str, noise: f64) -> Self {
        setup.objective.slos.clear();
        setup.objective.metric = Metric::TokSPerGpu;
        setup.objective.override_slos(Slo::parse_list(slos).expect("limits"));
        let search = Search {
            space: &setup.space,
            legality: &setup.legality,
            objective: &setup.objective,
            evaluator: &setup.projector,
        };
        let problem = SpaceProblem::new(&search);
        let look = |point: u64| {
            let mut seen = problem.allows(point).then(|| problem.observe(point, &problem.evaluate(point)))?;
            seen.score = seen.score.map(|score| score * (noise * normal(point)).exp());
            Some(seen)
        };
        let points: Vec<Option<Observation>> = (0..problem.len()).into_par_iter().map(look).collect();
        let feasible = || points.iter().flatten().filter(|o| o.feasible());
        let best = feasible().filter_map(|o| o.score).fold(f64::NEG_INFINITY, f64::max);
        let fronts: Vec<[f64; 2]> = feasible().filter_map(|o| o.front).collect();
        let corner = fronts.iter().fold([f64::INFINITY; 2], |c, f| [c[0].min(f[0]), c[1].min(f[1])]);
        let volume = hypervolume(&fronts, corner);
        let dimensions = problem.dimensions().to_vec();
        Self { name, dimensions, limits: problem.limits(), points, best, corner, volume }
    }

    fn run(&self, mut backend: Box<dyn Backend>, budget: u64) -> (f64, f64) {
        let interrupted = AtomicBool::new(false);
        let limits = Limits { budget, interrupted: &interrupted };
        let searched = drive(self, backend.as_mut(), &limits, Vec::new(), &NoWitness).expect("backends answer");
        let seen = searched.history.observations();
        let near = |o: &Observation| o.feasible() && o.score.is_some_and(|s| s >= self.best - 0.01 * self.best.abs());
        let until = seen.iter().position(near).map_or(f64::INFINITY, |at| at as f64 + 1.0);
        let fronts: Vec<[f64; 2]> = seen.iter().filter(|o| o.feasible()).filter_map(|o| o.front).collect();
        (until, hypervolume(&fronts, self.corner) / self.volume)
    }

    fn export(&self, folder: &str) {
        let rows: Vec<String> = self
            .points
            .iter()
            .map(|o| match o {
                None => "null".to_string(),
                Some(o) if o.feasible() => format!("{}", o.score.unwrap_or(f64::NAN)),
                Some(o) => format!("[{}]", o.excess().filter(|e| e.is_finite()).unwrap_or(1e6)),
            })
            .collect();
        let sizes: Vec<usize> = self.dimensions.iter().map(|d| d.values.len()).collect();
        let text = format!("{{\"sizes\": {sizes:?}, \"best\": {}, \"points\": [{}]}}", self.best, rows.join(","));
        std::fs::write(format!("{folder}/{}.json", self.name), text).expect("the export can be written");
    }
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

/// The area between a corner and the points that no other beats, both figures better high.
fn hypervolume(points: &[[f64; 2]], corner: [f64; 2]) -> f64 {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| b[0].total_cmp(&a[0]));
    let mut height = corner[1];
    let mut area = 0.0;
    for [x, y] in sorted {
        if y > height {
            area += (x - corner[0]) * (y - height);
            height = y;
        }
    }
    area
}

/// A standard normal number that belongs to a point: twelve uniform ones less six.
fn normal(point: u64) -> f64 {
    let mut state = point;
    let mut sum = -6.0;
    for _ in 0..12 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        sum += (state >> 11) as f64 / (1u64 << 53) as f64;
    }
    sum
}

fn backend(name: &str, seed: u64) -> Box<dyn Backend> {
    match name {
        "anneal" => Box::new(Argmin::anneal(seed)),
        "swarm" => Box::new(Argmin::swarm(seed)),
        "ego" => Box::new(Ego::new(seed)),
        "evolve" => Box::new(Evolve::new(seed)),
        _ => Box::new(Random::new(seed)),
    }
}

/// Lower quartile, median and upper quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|q| values[(values.len() - 1) * q / 4])
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let flag = |name: &str| words.iter().position(|w| w == name).and_then(|at| words.get(at + 1)).cloned();
    let number = |name: &str, default: u64| flag(name).and_then(|v| v.parse().ok()).unwrap_or(default);
    let (seeds, budget) = (number("--seeds", 20), number("--budget", 3000));
    let only = flag("--only").unwrap_or_else(|| "random,anneal,swarm,evolve,ego".to_string());
    let mut dense = Setup::new("llama-3.3-70b", "dense");
    let mut moe = Setup::new("deepseek-r1", "moe");
    let mut node = Setup::new("gpt-oss-120b", "default");
    let spaces = [
        Recorded::new("dense", &mut dense, "ttft_ms=1000,tpot_ms=40", 0.0),
        Recorded::new("moe", &mut moe, "ttft_ms=2000,tpot_ms=50", 0.0),
        Recorded::new("default", &mut node, "ttft_ms=500", 0.0),
        Recorded::new("noisy", &mut node, "ttft_ms=500", 0.03),
    ];
    println!("space points allowed backend evaluations-to-1% [quartiles] hypervolume-share [quartiles]");
    for space in &spaces {
        flag("--export").iter().for_each(|folder| space.export(folder));
        let allowed = space.points.iter().flatten().count();
        for name in only.split(',') {
            // A model's choice takes CPU time, and it needs fewer evaluations.
            let budget = if name == "ego" { budget.min(number("--ego-budget", 200)) } else { budget };
            let runs: Vec<(f64, f64)> =
                (1..=seeds).into_par_iter().map(|seed| space.run(backend(name, seed), budget)).collect();
            let [low, middle, high] = quartiles(runs.iter().map(|r| r.0).collect());
            let [worse, volume, better] = quartiles(runs.iter().map(|r| r.1).collect());
            println!(
                "{} {} {allowed} {name} {middle} [{low}, {high}] {volume:.3} [{worse:.3}, {better:.3}]",
                space.name,
                space.points.len()
            );
        }
    }
}
