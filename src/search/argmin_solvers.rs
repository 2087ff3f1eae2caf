//! Solvers of argmin, which want to call the objective themselves: each runs in a thread of its own and waits there
//! for answers, so that it can be asked and told like any other backend.

use super::backend::{Ask, Backend, Domain, History, Observation};
use super::cube::{Axis, Cube};
use super::merit::Merit;
use crate::Result;
use argmin::core::{CostFunction, Error as SolverError, Executor};
use argmin::solver::particleswarm::ParticleSwarm;
use argmin::solver::simulatedannealing::{Anneal, SATempFunc, SimulatedAnnealing};
use rand_xoshiro_07::Xoshiro256PlusPlus;
use rand_xoshiro_07::rand_core::{RngCore, SeedableRng};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

type Place = Vec<f64>;

/// The end of the line inside a solver's thread.
struct Line {
    asks: Sender<Vec<Place>>,
    answers: Receiver<Vec<f64>>,
}

/// An objective that asks at the other end of the line; fails once nobody listens there, which ends the solver.
struct Remote {
    line: Mutex<Line>,
    axes: Vec<Axis>,
    rng: Mutex<Xoshiro256PlusPlus>,
}

impl Remote {
    fn costs(&self, places: Vec<Place>) -> std::result::Result<Vec<f64>, SolverError> {
        let gone = || SolverError::msg("the search has ended");
        let line = self.line.lock().map_err(|_| gone())?;
        line.asks.send(places).map_err(|_| gone())?;
        line.answers.recv().map_err(|_| gone())
    }
}

impl CostFunction for Remote {
    type Param = Place;
    type Output = f64;

    fn cost(&self, place: &Place) -> std::result::Result<f64, SolverError> {
        self.costs(vec![place.clone()])?.pop().ok_or_else(|| SolverError::msg("no answer"))
    }

    fn bulk_cost<P: std::borrow::Borrow<Place>>(&self, places: &[P]) -> std::result::Result<Vec<f64>, SolverError> {
        self.costs(places.iter().map(|p| p.borrow().clone()).collect())
    }
}

/// A number in [0, 1).
fn unit(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

impl Anneal for Remote {
    type Param = Place;
    type Output = Place;
    type Float = f64;

    /// Turns one or two knobs (more while it is hot), ordered ones by a step that shrinks as it cools.
    fn anneal(&self, place: &Place, heat: f64) -> std::result::Result<Place, SolverError> {
        let mut rng = self.rng.lock().map_err(|_| SolverError::msg("poisoned"))?;
        let mut moved = place.clone();
        let hot = (heat / TEMPERATURE).clamp(0.0, 1.0);
        let turns = 1 + usize::from(unit(&mut rng) < 0.5) + usize::from(unit(&mut rng) < hot);
        for _ in 0..turns {
            let at = (unit(&mut rng) * self.axes.len() as f64) as usize;
            let Some(axis) = self.axes.get(at) else { continue };
            let size = axis.size as f64;
            if !axis.ordered {
                moved[at] = unit(&mut rng);
                continue;
            }
            let steps = 1.0 + (unit(&mut rng) * hot * size / 2.0).floor();
            let signed = if unit(&mut rng) < 0.5 { -steps } else { steps };
            let there = moved[at] + signed / size;
            // Reflected at the walls.
            moved[at] = if (0.0..1.0).contains(&there) { there } else { moved[at] - signed / size }.clamp(0.0, 1.0);
        }
        Ok(moved)
    }
}

/// Heat at which a point half as good is often accepted: the cost is logarithmic.
const TEMPERATURE: f64 = 0.5;
/// Chains of annealing side by side.
const CHAINS: u64 = 8;
/// Steps without a new best after which a chain is heated again.
const PATIENCE: u64 = 80;
/// Particles of the swarm.
const PARTICLES: usize = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Anneal,
    Swarm,
}

/// A solver's thread seen from here.
struct Puppet {
    asks: Receiver<Vec<Place>>,
    answers: Sender<Vec<f64>>,
    waiting: VecDeque<Place>,
    costs: Vec<f64>,
    ended: bool,
}

impl Puppet {
    fn start(kind: Kind, axes: &[Axis], seed: u64) -> Self {
        let (ask, asks) = channel();
        let (answers, answer) = channel();
        let remote = Remote {
            line: Mutex::new(Line { asks: ask, answers: answer }),
            axes: axes.to_vec(),
            rng: Mutex::new(Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5eed)),
        };
        thread::spawn(move || solve(kind, remote, seed));
        Self { asks, answers, waiting: VecDeque::new(), costs: Vec::new(), ended: false }
    }

    /// Fetches the next question where the last one is answered.
    fn fetch(&mut self) {
        if self.waiting.is_empty() && self.costs.is_empty() && !self.ended {
            match self.asks.recv() {
                Ok(places) => self.waiting.extend(places),
                Err(_) => self.ended = true,
            }
        }
    }

    fn answer(&mut self, cost: f64) {
        self.waiting.pop_front();
        self.costs.push(cost);
        if self.waiting.is_empty() {
            // A thread that has ended is noticed at the next fetch.
            let _ = self.answers.send(std::mem::take(&mut self.costs));
        }
    }
}

/// Runs a solver until nobody listens.
fn solve(kind: Kind, remote: Remote, seed: u64) {
    let size = remote.axes.len();
    let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    match kind {
        Kind::Swarm => {
            let bounds = (vec![0.0; size], vec![1.0; size]);
            let solver = ParticleSwarm::new(bounds, PARTICLES).with_rng_generator(rng);
            // The error is that nobody listens.
            let _ = Executor::new(remote, solver).configure(|s| s.max_iters(u64::MAX)).timer(false).run();
        }
        Kind::Anneal => {
            let mut rng = rng;
            let start: Place = (0..size).map(|_| unit(&mut rng)).collect();
            let Ok(solver) = SimulatedAnnealing::new_with_rng(TEMPERATURE, rng) else { return };
            let solver = solver.with_temp_func(SATempFunc::Exponential(0.95)).with_reannealing_best(PATIENCE);
            let _ = Executor::new(remote, solver).configure(|s| s.param(start).max_iters(u64::MAX)).timer(false).run();
        }
    }
}

/// The backends `anneal` (Kirkpatrick, Gelatt and Vecchi, Science 220, 1983) and `swarm` (Kennedy and Eberhart, ICNN
/// 1995). Limits are penalties; places that are not allowed stand for the nearest that is.
pub struct Argmin {
    kind: Kind,
    seed: u64,
    cube: Option<Cube>,
    puppets: Vec<Puppet>,
    asked: Vec<usize>,
    merit: Merit,
}

impl Argmin {
    /// Simulated annealing, eight chains side by side.
    pub fn anneal(seed: u64) -> Self {
        Self { kind: Kind::Anneal, seed, cube: None, puppets: vec![], asked: vec![], merit: Merit::default() }
    }

    /// Particle swarm.
    pub fn swarm(seed: u64) -> Self {
        Self { kind: Kind::Swarm, ..Self::anneal(seed) }
    }
}

impl Backend for Argmin {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Anneal => "anneal",
            Kind::Swarm => "swarm",
        }
    }

    fn batch(&self) -> usize {
        match self.kind {
            Kind::Anneal => CHAINS as usize,
            Kind::Swarm => PARTICLES,
        }
    }

    fn ask(&mut self, domain: &dyn Domain, _history: &History, wanted: usize) -> Result<Ask> {
        let cube = self.cube.get_or_insert_with(|| Cube::new(domain));
        if self.puppets.is_empty() {
            let chains = if self.kind == Kind::Anneal { CHAINS } else { 1 };
            let start =
                |chain: u64| Puppet::start(self.kind, cube.axes(), super::random::mix(self.seed ^ (chain << 32)));
            self.puppets = (0..chains).map(start).collect();
        }
        self.asked.clear();
        let mut points = Vec::new();
        for (number, puppet) in self.puppets.iter_mut().enumerate() {
            puppet.fetch();
            for place in puppet.waiting.iter().take(wanted - points.len()) {
                let point = cube.point(domain, place);
                points.push(cube.nearest_allowed(domain, point).unwrap_or(point));
                self.asked.push(number);
            }
        }
        Ok(if points.is_empty() { Ask::Converged("every solver has ended".into()) } else { Ask::Points(points) })
    }

    fn tell(&mut self, told: &[Observation]) {
        self.merit.learn(told);
        for (&number, observation) in self.asked.iter().zip(told) {
            let cost = self.merit.cost(observation);
            self.puppets[number].answer(cost);
        }
        self.asked.clear();
    }
}
