//! Which points make up the front? The `optimizer` library's NSGA-II (Deb et al., IEEE Trans. Evol. Comp. 6(2), 2002),
//! on the two figures of the front where there are any, else on the score.

use super::backend::{Ask, Backend, Domain, History, Observation};
use super::cube::Cube;
use super::random::mix;
use crate::{Error, Result};
use optimizer::multi_objective::MultiObjectiveStudy;
use optimizer::parameter::{CategoricalParam, IntParam, Parameter};
use optimizer::sampler::Nsga2Sampler;
use optimizer::{Direction, Trial};

/// Points of one generation.
const POPULATION: usize = 40;
/// A limit's excess where a point does not run.
const BROKEN: f64 = 1e6;

enum Knob {
    Ordered(IntParam),
    Names(CategoricalParam<usize>),
}

impl Knob {
    fn value(&self, trial: &mut Trial) -> Result<usize> {
        let read = match self {
            Knob::Ordered(knob) => knob.suggest(trial).map(|v| usize::try_from(v).unwrap_or(0)),
            Knob::Names(knob) => knob.suggest(trial),
        };
        read.map_err(|e| Error::input("backend evolve", e.to_string(), "Use another backend"))
    }
}

/// The backend `evolve`.
pub struct Evolve {
    seed: u64,
    state: Option<State>,
    asked: Vec<Trial>,
}

struct State {
    cube: Cube,
    knobs: Vec<Knob>,
    limits: usize,
    figures: usize,
    study: MultiObjectiveStudy,
}

impl Evolve {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, state: None, asked: Vec::new() }
    }
}

impl State {
    fn new(domain: &dyn Domain, seed: u64) -> Self {
        let cube = Cube::new(domain);
        let knob = |axis: &super::cube::Axis| match axis.ordered {
            true => Knob::Ordered(IntParam::new(0, axis.size as i64 - 1)),
            false => Knob::Names(CategoricalParam::new((0..axis.size).collect())),
        };
        let knobs = cube.axes().iter().map(knob).collect();
        let figures = domain.figures();
        let sampler = Nsga2Sampler::builder().population_size(POPULATION).seed(mix(seed)).build();
        let study = MultiObjectiveStudy::with_sampler(vec![Direction::Maximize; figures], sampler);
        Self { cube, knobs, limits: domain.limits(), figures, study }
    }

    /// The figures and the excess over each limit of what came of a point.
    fn results(&self, observation: &Observation) -> (Vec<f64>, Vec<f64>) {
        let Some(score) = observation.score else {
            return (vec![-BROKEN; self.figures], vec![BROKEN; self.limits.max(1)]);
        };
        let figures = observation.front.filter(|_| self.figures == 2).map_or_else(|| vec![score], |f| f.to_vec());
        let limits: Vec<f64> = observation.limits.iter().map(|l| l.min(BROKEN)).collect();
        (figures, if limits.is_empty() { vec![0.0] } else { limits })
    }
}

impl Backend for Evolve {
    fn name(&self) -> &'static str {
        "evolve"
    }

    /// The first point alone: by it the library learns the knobs, and generations count from the second on.
    fn batch(&self) -> usize {
        if self.state.is_some() { POPULATION } else { 1 }
    }

    fn ask(&mut self, domain: &dyn Domain, _history: &History, wanted: usize) -> Result<Ask> {
        let state = self.state.get_or_insert_with(|| State::new(domain, self.seed));
        self.asked.clear();
        let mut points = Vec::new();
        for _ in 0..wanted {
            let mut trial = state.study.ask();
            let values = state.knobs.iter().map(|k| k.value(&mut trial)).collect::<Result<Vec<_>>>()?;
            let point = state.cube.point_of_values(domain, &values);
            points.push(state.cube.nearest_allowed(domain, point).unwrap_or(point));
            self.asked.push(trial);
        }
        Ok(Ask::Points(points))
    }

    fn tell(&mut self, told: &[Observation]) {
        let Some(state) = &self.state else { return };
        for (mut trial, observation) in self.asked.drain(..).zip(told) {
            let (figures, limits) = state.results(observation);
            trial.set_constraints(limits);
            // The number of figures is the study's own, the one thing that could be wrong.
            let _ = state.study.tell(trial, Ok::<_, String>(figures));
        }
    }
}
