//! Which backend comes near the best point soonest? Evaluations until within one per cent of the optimum, and the share
//! of the front's hypervolume after so many evaluations, median and quartiles over seeds; `docs/search.md` holds the
//! tables.
//!
//! `cargo bench --bench backends -- [--seeds N] [--spaces A,…] [--only BACKEND,…] [--budget N] [--ego-budget N]` compares.
//! `--export FOLDER` writes the recorded objectives for `benches/optuna_tpe.py`; `--serve` answers its questions about the
//! space that is too large to be recorded, whose optimum `--truth FILE` keeps from one call to the next. `--speed` says
//! what choosing points and driving the search cost.

#[path = "../common/mod.rs"]
mod common;
mod live;
mod recorded;
mod simulated;
mod speed;

use inferasim::search::argmin_solvers::Argmin;
use inferasim::search::ego::Ego;
use inferasim::search::evolve::Evolve;
use inferasim::search::random::Random;
use inferasim::search::{Backend, Limits, NoWitness, Observation, Problem, drive};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;

/// Evaluations after which the hypervolume is taken.
const MARKS: [usize; 5] = [50, 100, 200, 500, 1000];

/// What the whole space holds.
#[derive(Serialize, Deserialize)]
pub struct Truth {
    /// Best score of a feasible point.
    pub best: f64,
    /// The front, both figures better high.
    pub front: Vec<[f64; 2]>,
}

/// One backend's way through a space.
struct Run {
    /// Evaluations until within one per cent of the best.
    until: f64,
    /// Share of the front's hypervolume at each of [`MARKS`].
    shares: [f64; MARKS.len()],
}

impl Truth {
    fn judge(&self, seen: &[Observation]) -> Run {
        let seen: Vec<&Observation> = seen.iter().filter(|o| o.legal).collect();
        let near = |o: &&Observation| o.feasible() && o.score.is_some_and(|s| s >= self.best - 0.01 * self.best.abs());
        let until = seen.iter().position(near).map_or(f64::INFINITY, |at| at as f64 + 1.0);
        // The least of each figure on the whole front.
        let corner = self.front.iter().fold([f64::INFINITY; 2], |c, f| [c[0].min(f[0]), c[1].min(f[1])]);
        let whole = hypervolume(&self.front, corner);
        let share = |mark: usize| {
            let known = seen.iter().take(mark).filter(|o| o.feasible()).filter_map(|o| o.front);
            hypervolume(&known.collect::<Vec<_>>(), corner) / whole
        };
        Run { until, shares: MARKS.map(share) }
    }
}

/// The area between a corner and the points that no other beats, both figures better high.
fn hypervolume(points: &[[f64; 2]], corner: [f64; 2]) -> f64 {
    let mut sorted: Vec<[f64; 2]> = points.iter().copied().filter(|[x, _]| *x > corner[0]).collect();
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

fn backend(name: &str, seed: u64) -> Box<dyn Backend> {
    match name {
        "anneal" => Box::new(Argmin::anneal(seed)),
        "swarm" => Box::new(Argmin::swarm(seed)),
        "ego" => Box::new(Ego::new(seed)),
        "evolve" => Box::new(Evolve::new(seed)),
        _ => Box::new(Random::new(seed)),
    }
}

/// Everything a backend looks at, in order.
pub fn search<P: Problem>(problem: &P, backend: &mut dyn Backend, budget: u64) -> Vec<Observation> {
    let interrupted = AtomicBool::new(false);
    let limits = Limits { budget, interrupted: &interrupted };
    let searched = drive(problem, backend, &limits, Vec::new(), &NoWitness).expect("backends answer");
    searched.history.observations().to_vec()
}

/// Lower quartile, median and upper quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|q| values[(values.len() - 1) * q / 4])
}

/// What was asked for on the command line.
pub struct Flags(Vec<String>);

impl Flags {
    pub fn word(&self, name: &str) -> Option<&str> {
        self.0.iter().position(|w| w == name).and_then(|at| self.0.get(at + 1)).map(String::as_str)
    }
    pub fn number(&self, name: &str, default: u64) -> u64 {
        self.word(name).and_then(|v| v.parse().ok()).unwrap_or(default)
    }
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|w| w == name)
    }
}

/// Runs every backend on a space and prints a line for each.
pub fn compare<P: Problem>(name: &str, problem: &P, truth: &Truth, flags: &Flags, budget: u64) {
    for chosen in flags.word("--only").unwrap_or("random,anneal,swarm,evolve,ego").split(',') {
        // A model's choice takes CPU time, and it needs fewer evaluations.
        let budget = if chosen == "ego" { budget.min(flags.number("--ego-budget", 300)) } else { budget };
        let seeds = flags.number("--seeds", 20);
        let one = |seed: u64| truth.judge(&search(problem, backend(chosen, seed).as_mut(), budget));
        let started = common::cpu_seconds();
        let runs: Vec<Run> = (1..=seeds).into_par_iter().map(one).collect();
        let spent = (common::cpu_seconds() - started) / seeds as f64;
        let [low, middle, high] = quartiles(runs.iter().map(|r| r.until).collect());
        let reached = runs.iter().filter(|r| r.until.is_finite()).count();
        let shares: Vec<String> = (0..MARKS.len())
            .filter(|at| MARKS[*at] as u64 <= budget)
            .map(|at| {
                let [low, middle, high] = quartiles(runs.iter().map(|r| r.shares[at]).collect());
                format!("{}: {middle:.3} [{low:.3}, {high:.3}]", MARKS[at])
            })
            .collect();
        println!(
            "{name} {chosen}: {middle} [{low}, {high}], {reached} of {seeds} within {budget}; hypervolume {}; {spent:.2} CPU-s a run",
            shares.join(", ")
        );
    }
}

fn main() {
    let flags = Flags(std::env::args().collect());
    if flags.has("--serve") {
        return live::serve();
    }
    if flags.has("--speed") {
        return speed::report();
    }
    let spaces = flags.word("--spaces").unwrap_or("dense,moe,default,simulated,disagg").to_string();
    for space in spaces.split(',') {
        let recorded = match space {
            "dense" => recorded::closed("dense", "llama-3.3-70b", "dense", "ttft_ms=1000,tpot_ms=40"),
            "moe" => recorded::closed("moe", "deepseek-r1", "moe", "ttft_ms=2000,tpot_ms=50"),
            "default" => recorded::closed("default", "gpt-oss-120b", "default", "ttft_ms=500"),
            "simulated" => simulated::record(),
            _ => {
                live::compare(&flags);
                continue;
            }
        };
        println!("{}: {}", recorded.name, recorded.size());
        flags.word("--export").iter().for_each(|folder| recorded.export(folder));
        compare(recorded.name, &recorded, &recorded.truth(), &flags, flags.number("--budget", 3000));
    }
}
