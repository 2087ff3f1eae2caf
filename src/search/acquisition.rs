//! What does a look at a point promise? The improvement to be expected on the best feasible point (Jones, Schonlau and
//! Welch, J. Global Optimization 13, 1998), times the odds that every limit is kept (Schonlau, Welch and Jones, 1998).

use super::surrogate::{Scales, Surrogate};
use ndarray::{Array1, Array2, ArrayView1};

/// A place and what was seen there.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The place.
    pub place: Vec<f64>,
    /// Cost and the limits' excess, where the point runs; an excess of at most 0 keeps the limit.
    pub outputs: Option<(f64, Vec<f64>)>,
}

/// The scales of every figure, carried from one round to the next.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    cost: Scales,
    limits: Vec<Scales>,
    runs: Scales,
}

/// Models of everything a point is judged by.
pub struct Models {
    cost: Surrogate,
    /// Limits that somebody has broken.
    limits: Vec<Surrogate>,
    /// 1 for places that run, 0 for those that do not; where both were seen.
    runs: Option<Surrogate>,
    /// The least cost within all limits.
    best: Option<f64>,
}

impl Memory {
    /// Fits what was seen; `None` where nothing runs or no model can be fitted.
    pub fn fit(&mut self, seen: &[Seen]) -> Option<Models> {
        let running: Vec<(&Seen, &(f64, Vec<f64>))> =
            seen.iter().filter_map(|s| s.outputs.as_ref().map(|o| (s, o))).collect();
        let count = running.first()?.1.1.len();
        self.limits.resize_with(count, Scales::default);
        let x = places(running.iter().map(|(s, _)| s.place.as_slice()));
        let cost = self.cost.fit(&x, &running.iter().map(|(_, o)| o.0).collect())?;
        let mut limits = Vec::new();
        for (at, scales) in self.limits.iter_mut().enumerate() {
            let excess: Array1<f64> = running.iter().map(|(_, o)| o.1[at]).collect();
            if excess.iter().any(|e| *e > 0.0) {
                limits.push(scales.fit(&x, &excess)?);
            }
        }
        let runs = if running.len() < seen.len() {
            let all = places(seen.iter().map(|s| s.place.as_slice()));
            let runs = seen.iter().map(|s| f64::from(u8::from(s.outputs.is_some()))).collect();
            Some(self.runs.fit(&all, &runs)?)
        } else {
            None
        };
        let kept = running.iter().filter(|(_, o)| o.1.iter().all(|e| *e <= 0.0)).map(|(_, o)| o.0);
        Some(Models { cost, limits, runs, best: kept.reduce(f64::min) })
    }
}

impl Models {
    /// Some point keeps every limit, or is believed to.
    pub fn knows_a_feasible_point(&self) -> bool {
        self.best.is_some()
    }

    /// The logarithm of what each place promises; without a feasible point the odds that it is one.
    pub fn promise(&self, x: &Array2<f64>) -> Option<Vec<f64>> {
        let (cost, spread) = self.cost.guess(x)?;
        let mut promise: Vec<f64> = match self.best {
            Some(best) => cost.iter().zip(&spread).map(|(m, s)| log_improvement(best - m, *s)).collect(),
            None => vec![0.0; x.nrows()],
        };
        for limit in &self.limits {
            let (excess, spread) = limit.guess(x)?;
            promise.iter_mut().zip(excess.iter().zip(&spread)).for_each(|(p, (m, s))| *p += log_odds(-m, *s));
        }
        if let Some(runs) = &self.runs {
            let (runs, spread) = runs.guess(x)?;
            promise.iter_mut().zip(runs.iter().zip(&spread)).for_each(|(p, (m, s))| *p += log_odds(m - 0.5, *s));
        }
        Some(promise)
    }

    /// Takes the guesses at a place for the truth.
    pub fn believe(self, place: ArrayView1<'_, f64>) -> Option<Self> {
        let x = place.to_owned().insert_axis(ndarray::Axis(0));
        let surely = |model: Surrogate| {
            let guess = model.guess(&x)?.0[0];
            Some((model.believe(place, guess)?, guess))
        };
        let (cost, guess) = surely(self.cost)?;
        let mut kept = true;
        let mut limits = Vec::with_capacity(self.limits.len());
        for limit in self.limits {
            let (limit, excess) = surely(limit)?;
            kept &= excess <= 0.0;
            limits.push(limit);
        }
        let runs = match self.runs {
            Some(runs) => {
                let (runs, odds) = surely(runs)?;
                kept &= odds > 0.5;
                Some(runs)
            }
            None => None,
        };
        let best = if kept { Some(self.best.map_or(guess, |b| b.min(guess))) } else { self.best };
        Some(Self { cost, limits, runs, best })
    }
}

/// Places as rows.
pub fn places<'a>(rows: impl Iterator<Item = &'a [f64]>) -> Array2<f64> {
    let rows: Vec<&[f64]> = rows.collect();
    let columns = rows.first().map_or(0, |r| r.len());
    Array2::from_shape_fn((rows.len(), columns), |(row, at)| rows[row][at])
}

/// The density of the standard normal distribution.
fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Where the tail of the normal distribution is taken from its asymptotic series.
const TAIL: f64 = -6.0;

/// ln P(Z < margin / spread).
fn log_odds(margin: f64, spread: f64) -> f64 {
    let z = margin / spread.max(1e-9);
    if z > TAIL {
        return (0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)).ln();
    }
    -0.5 * z * z - (-z).ln() - 0.5 * (2.0 * std::f64::consts::PI).ln()
}

/// ln E[max(0, gain + spread Z)].
fn log_improvement(gain: f64, spread: f64) -> f64 {
    let spread = spread.max(1e-9);
    let z = gain / spread;
    if z > TAIL {
        return (spread * (density(z) + z * 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2))).max(1e-300).ln();
    }
    spread.ln() - 0.5 * z * z - 2.0 * (-z).ln() - 0.5 * (2.0 * std::f64::consts::PI).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_is_followed_into_its_tail() {
        // P(Z < -1) and E[max(0, Z)], from tables.
        assert!((log_odds(-1.0, 1.0) - 0.158_655_253_931f64.ln()).abs() < 1e-9);
        assert!((log_improvement(0.0, 2.0) - (2.0 * 0.398_942_280_401f64).ln()).abs() < 1e-9);
        for f in [log_odds, log_improvement] {
            let near = [TAIL - 1e-9, TAIL + 1e-9].map(|z| f(z, 1.0));
            assert!((near[0] - near[1]).abs() < 0.1, "{near:?}");
            assert!(f(-40.0, 1.0) < f(-39.0, 1.0) && f(-40.0, 1.0).is_finite());
        }
    }

    #[test]
    fn a_limit_turns_the_choice_away() {
        // The cost falls to the right; beyond 0.5 the limit is broken.
        let row = |x: f64| Seen { place: vec![x], outputs: Some((-x, vec![x - 0.5])) };
        let seen: Vec<Seen> = [0.0, 0.1, 0.3, 0.45, 0.6, 0.8, 1.0].map(row).into();
        let models = Memory::default().fit(&seen).unwrap();
        let x = Array2::from_shape_fn((41, 1), |(at, _)| at as f64 / 40.0);
        let promise = models.promise(&x).unwrap();
        let best = (0..41).max_by(|a, b| promise[*a].total_cmp(&promise[*b])).unwrap() as f64 / 40.0;
        assert!((0.45..=0.525).contains(&best), "{best}");
    }
}
