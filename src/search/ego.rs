//! Which point promises the greatest improvement? Efficient global optimisation (Jones, Schonlau and Welch, J. Global
//! Optimization 13, 1998) with egobox's Gaussian processes: one for the score, one for each limit.
//!
//! Made for evaluations that are dear: choosing eight points takes most of a CPU-second.

use super::backend::{Ask, Backend, Domain, History, Observation};
use super::cube::Cube;
use super::merit::Merit;
use super::random::{Spread, mix};
use crate::Result;
use egobox_ego::{EgorServiceBuilder, InfillOptimizer, InfillStrategy, QEiStrategy, XType};
use ndarray::Array2;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Points chosen at once.
const BATCH: usize = 8;
/// Most points the models are trained on: the best half and the newest half of them.
const TRAINED: usize = 120;
/// Farthest a limit's logarithm is told: what misses tenfold is as good as what misses a hundredfold.
const FAR: f64 = 2.3;

/// The backend `ego`.
pub struct Ego {
    seed: u64,
    spread: Spread,
    fallbacks: u32,
}

impl Ego {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, spread: Spread::new(seed), fallbacks: 0 }
    }

    /// The model's choice; empty where no model can be fitted.
    fn suggest(&self, cube: &Cube, rows: &[(Vec<usize>, Vec<f64>)], wanted: usize, round: u64) -> Vec<Vec<usize>> {
        let Some((first, outputs)) = rows.first() else { return Vec::new() };
        let x = Array2::from_shape_fn((rows.len(), first.len()), |(row, at)| rows[row].0[at] as f64);
        let y = Array2::from_shape_fn((rows.len(), outputs.len()), |(row, at)| rows[row].1[at]);
        let types: Vec<XType> = cube
            .axes()
            .iter()
            .map(|axis| match (axis.ordered, axis.size) {
                (false, 3..) => XType::Enum(axis.size),
                _ => XType::Int(0, axis.size as i32 - 1),
            })
            .collect();
        let limits = outputs.len() - 1;
        let seed = mix(self.seed ^ mix(round));
        let fitted = catch_unwind(AssertUnwindSafe(|| {
            let service = EgorServiceBuilder::optimize().configure(|config| {
                config
                    .n_cstr(limits)
                    .infill_strategy(InfillStrategy::LogEI)
                    .infill_optimizer(InfillOptimizer::Slsqp)
                    .n_start(8)
                    .configure_gp(|gp| gp.n_start(2).max_eval(20))
                    .configure_qei(|q| q.batch(wanted).strategy(QEiStrategy::KrigingBeliever).optmod(wanted))
                    .seed(seed)
            });
            service.min_within_mixint_space(&types).ok().map(|service| service.suggest(&x, &y))
        }));
        let Ok(Some(places)) = fitted else { return Vec::new() };
        let value = |v: &f64| if v.is_finite() && *v > 0.0 { v.round() as usize } else { 0 };
        places.outer_iter().map(|row| row.iter().map(value).collect()).collect()
    }
}

/// What the models learn from: places and, for each, the cost of the score and the logarithm of every limit's ratio.
fn training(domain: &dyn Domain, cube: &Cube, history: &History) -> Vec<(Vec<usize>, Vec<f64>)> {
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
    let ratio = |excess: &f64| (1.0 + excess).max(f64::MIN_POSITIVE).ln().clamp(-FAR, FAR);
    let outputs = |o: &Observation| -> Option<Vec<f64>> {
        let cost = -merit.of_score(o.score?);
        Some(std::iter::once(cost).chain(o.limits.iter().map(ratio)).collect())
    };
    // What does not run is told as the worst that does.
    let worst = running.iter().filter_map(outputs).reduce(|a, b| a.iter().zip(b).map(|(a, b)| a.max(b)).collect());
    let Some(worst) = worst else { return Vec::new() };
    let row = |o: &&Observation| (cube.values(domain, o.point), outputs(o).unwrap_or_else(|| worst.clone()));
    seen.iter().map(row).collect()
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
            let rows = training(domain, &cube, history);
            let places = self.suggest(&cube, &rows, wanted, history.evaluations());
            self.fallbacks += u32::from(places.is_empty());
            for values in places {
                let point = cube.point_of_values(domain, &values);
                chosen.extend(cube.nearest_new(domain, history, &chosen, point));
            }
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
