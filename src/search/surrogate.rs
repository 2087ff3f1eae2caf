//! What is a figure likely to be at a point nobody has looked at? A Gaussian process of egobox (Matérn 5/2, constant
//! mean), whose length scales are carried from one fit to the next.
//!
//! Fitting from scratch costs a hundred factorisations; going on from the last scales costs a few dozen, and only some
//! of the scales move at a time.

use super::kernel::Matern52;
use egobox_gp::mean_models::ConstantMean;
use egobox_gp::{GaussianProcess, ThetaTuning};
use linfa::Dataset;
use linfa::prelude::Fit;
use ndarray::{Array1, Array2, ArrayView1, array};
use std::panic::{AssertUnwindSafe, catch_unwind};

type Process = GaussianProcess<f64, ConstantMean, Matern52>;

/// Inverse length scales over the spread of the training points.
const SCALES: (f64, f64) = (0.01, 20.0);
/// The one a fit begins with where nothing is known.
const SCALE: f64 = 0.3;
/// Scales that move in one fit.
const MOVED: usize = 6;
/// Tries of one fit that goes on from another.
const TRIES: usize = 30;
/// Tries and further beginnings of a first fit, and up to how many places it may have so many.
const FIRST: (usize, usize, usize) = (100, 3, 60);
/// Share of the variance that is noise: the least, the most, and the step by which it moves.
const NOISE: (f64, f64, f64) = (1e-8, 1e-2, 10.0);

/// What one figure's models have in common.
#[derive(Debug, Clone)]
pub struct Scales {
    theta: Array1<f64>,
    noise: f64,
    fits: usize,
}

impl Default for Scales {
    fn default() -> Self {
        Self { theta: array![], noise: NOISE.0 * NOISE.2, fits: 0 }
    }
}

/// A fitted model of one figure.
pub struct Surrogate(Process);

impl Scales {
    /// Fits places (one a row) and what was seen there; `None` where no model can be fitted.
    pub fn fit(&mut self, x: &Array2<f64>, y: &Array1<f64>) -> Option<Surrogate> {
        let columns = x.ncols();
        let first = self.theta.len() != columns;
        if first {
            self.theta = Array1::from_elem(columns, SCALE);
        }
        let bounds = Array1::from_elem(columns, SCALES);
        let init = self.theta.clone();
        let tuning = if first || columns <= MOVED {
            ThetaTuning::Full { init, bounds }
        } else {
            let active = (0..MOVED).map(|at| (self.fits * MOVED + at) % columns).collect();
            ThetaTuning::Partial { init, bounds, active }
        };
        let thorough = first && x.nrows() <= FIRST.2;
        let (tries, starts) = if thorough { (FIRST.0, FIRST.1) } else { (TRIES, 0) };
        let mut best = process(x, y, tuning, self.noise, (tries, starts))?;
        self.theta = best.theta().mapv(|t| if t.is_finite() { t.clamp(SCALES.0, SCALES.1) } else { SCALE });
        self.fits += 1;
        // The noise goes one step up or down where that makes the data likelier.
        for noise in [self.noise * NOISE.2, self.noise / NOISE.2] {
            if !(0.99 * NOISE.0..=1.01 * NOISE.1).contains(&noise) {
                continue;
            }
            let fixed = ThetaTuning::Fixed(self.theta.clone());
            match process(x, y, fixed, noise, (1, 0)) {
                Some(other) if other.likelihood() > best.likelihood() => {
                    (best, self.noise) = (other, noise);
                    break;
                }
                _ => {}
            }
        }
        Some(Surrogate(best))
    }
}

/// The library panics where a factorisation fails half-way.
fn process(
    x: &Array2<f64>,
    y: &Array1<f64>,
    tuning: ThetaTuning<f64>,
    noise: f64,
    (tries, starts): (usize, usize),
) -> Option<Process> {
    let data = Dataset::new(x.clone(), y.clone());
    let fit = || {
        let parameters = Process::params(ConstantMean::default(), Matern52);
        let parameters = parameters.theta_tuning(tuning).nugget(noise).n_start(starts).max_eval(tries);
        parameters.fit(&data).ok()
    };
    catch_unwind(AssertUnwindSafe(fit)).ok().flatten().filter(|process| process.likelihood().is_finite())
}

impl Surrogate {
    /// Means and standard deviations at places, one a row.
    pub fn guess(&self, x: &Array2<f64>) -> Option<(Array1<f64>, Array1<f64>)> {
        let guess = catch_unwind(AssertUnwindSafe(|| self.0.predict_valvar(x))).ok()?.ok()?;
        Some((guess.0, guess.1.mapv(f64::sqrt)))
    }

    /// Takes its own guess at a place for the truth, so that the next choice goes elsewhere.
    pub fn believe(self, place: ArrayView1<'_, f64>, guess: f64) -> Option<Self> {
        let (x, y) = (place.to_owned().insert_axis(ndarray::Axis(0)), array![guess]);
        catch_unwind(AssertUnwindSafe(|| self.0.update(&x, &y))).ok()?.ok().map(Surrogate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(n: usize) -> Array2<f64> {
        Array2::from_shape_fn((n, 2), |(row, at)| ((row * (7 + 6 * at)) % 31) as f64 / 30.0)
    }

    #[test]
    fn what_was_seen_is_known_and_what_lies_between_is_near() {
        let truth = |x: ArrayView1<'_, f64>| (3.0 * x[0]).sin() + 0.5 * x[1];
        let x = places(30);
        let y: Array1<f64> = x.outer_iter().map(truth).collect();
        let mut scales = Scales::default();
        scales.fit(&x, &y).unwrap();
        let model = scales.fit(&x, &y).unwrap();
        let (mean, _) = model.guess(&x).unwrap();
        mean.iter().zip(&y).for_each(|(m, y)| assert!((m - y).abs() < 1e-2, "{m} {y}"));
        let new = array![[0.41, 0.23]];
        let (mean, sd) = model.guess(&new).unwrap();
        assert!((mean[0] - truth(new.row(0))).abs() < 0.05, "{mean} ± {sd}");
        let sure = model.believe(new.row(0), mean[0]).unwrap();
        assert!(sure.guess(&new).unwrap().1[0] < sd[0]);
    }

    #[test]
    fn noise_is_told_from_detail() {
        let x = places(31);
        let rough = |at: usize| if at.is_multiple_of(2) { 0.3 } else { -0.3 };
        let y: Array1<f64> = x.outer_iter().enumerate().map(|(at, x)| x[0] + 0.1 * rough(at)).collect();
        let mut scales = Scales::default();
        (0..6).for_each(|_| drop(scales.fit(&x, &y)));
        assert!(scales.noise >= 1e-3, "{}", scales.noise);
    }
}
