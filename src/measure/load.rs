//! When does each request start?
//!
//! A closed loop keeps a number of clients busy; an open loop follows a schedule drawn beforehand, and a request's
//! latency is also reported from its intended start, so that a slow server can't hide its queue in the client.

use super::random::Random;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Gaps between the arrivals of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Arrival {
    /// Exponential gaps.
    Poisson,
    /// Gamma gaps; the burstiness is the gamma's shape: below 1 burstier than Poisson, above 1 smoother.
    Gamma,
    /// Equal gaps.
    Constant,
}

/// One load level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Load {
    /// Each of `concurrency` clients sends its next request when the last one ended.
    Closed {
        /// Clients.
        concurrency: usize,
        /// Seconds over which the clients start, evenly.
        ramp_s: f64,
    },
    /// Requests start on a schedule whatever the server does.
    Open {
        /// Mean arrivals per second.
        rate: f64,
        /// Gaps.
        arrival: Arrival,
        /// Shape of the gamma gaps; 1 for the others.
        burstiness: f64,
    },
    /// Requests start at the timestamps of a dataset.
    Trace {
        /// Timestamps are divided by this.
        speed: f64,
    },
}

impl Load {
    /// The tail of a point's name: `c4`, `r2.5`, `trace`.
    pub fn name(&self) -> String {
        match self {
            Load::Closed { concurrency, .. } => format!("c{concurrency}"),
            Load::Open { rate, .. } => format!("r{rate}"),
            Load::Trace { .. } => "trace".into(),
        }
    }

    /// Clients of a closed loop.
    pub fn concurrency(&self) -> Option<usize> {
        match self {
            Load::Closed { concurrency, .. } => Some(*concurrency),
            _ => None,
        }
    }

    /// Refuses what cannot be run.
    pub fn check(&self) -> Result<()> {
        let positive = |flag: &str, v: f64| {
            if v > 0.0 && v <= 1e6 {
                return Ok(());
            }
            Err(Error::input(format!("{flag} {v}"), "not a usable number", "Give more than 0, at most 1000000"))
        };
        match *self {
            Load::Closed { concurrency, ramp_s } => {
                if !(0.0..=86_400.0).contains(&ramp_s) {
                    return Err(Error::input(format!("--ramp {ramp_s}"), "not 0 to 86400 seconds", ""));
                }
                positive("--concurrency", concurrency as f64)
            }
            Load::Open { rate, burstiness, .. } => {
                positive("--rate", rate)?;
                positive("--burstiness", burstiness)
            }
            Load::Trace { speed } => positive("--trace-speed", speed),
        }
    }

    /// Intended starts in nanoseconds from the point's start, in order; none for a closed loop.
    /// `timestamps_ms` are those of the dataset, one per request.
    pub fn schedule_ns(&self, count: usize, seed: u64, timestamps_ms: &[Option<f64>]) -> Result<Option<Vec<u64>>> {
        match *self {
            Load::Closed { .. } => Ok(None),
            Load::Open { rate, arrival, burstiness } => {
                let mut random = Random::new(seed, 21);
                let mut at = 0.0;
                let gap = |random: &mut Random| match arrival {
                    Arrival::Poisson => -random.unit().ln(),
                    Arrival::Gamma => random.gamma_mean_one(burstiness),
                    Arrival::Constant => 1.0,
                };
                let mut next = |i: usize| {
                    at += if i == 0 { 0.0 } else { gap(&mut random) / rate };
                    (at * 1e9) as u64
                };
                Ok(Some((0..count).map(&mut next).collect()))
            }
            Load::Trace { speed } => {
                let missing = || {
                    Error::input(
                        "--trace",
                        "a row of the dataset has no timestamp",
                        "Trace replay needs one in every row",
                    )
                };
                let ms: Vec<f64> = timestamps_ms.iter().copied().collect::<Option<_>>().ok_or_else(missing)?;
                let first = ms.iter().copied().fold(f64::INFINITY, f64::min);
                let ns: Vec<u64> = ms.iter().map(|t| ((t - first) / speed * 1e6) as u64).collect();
                if ns.windows(2).any(|w| w[1] < w[0]) {
                    return Err(Error::input("--trace", "timestamps run backwards", "Sort the dataset by timestamp"));
                }
                Ok(Some(ns))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(arrival: Arrival, burstiness: f64) -> Vec<f64> {
        let load = Load::Open { rate: 50.0, arrival, burstiness };
        let at = load.schedule_ns(100_001, 5, &[]).unwrap().unwrap();
        at.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e9).collect()
    }

    /// Mean gap 1/rate; squared coefficient of variation 1 (Poisson), 1/shape (gamma), 0 (constant).
    #[test]
    fn arrivals_have_the_stated_rate_and_burstiness() {
        for (arrival, burstiness, cv2) in
            [(Arrival::Poisson, 1.0, 1.0), (Arrival::Gamma, 0.25, 4.0), (Arrival::Constant, 1.0, 0.0)]
        {
            let g = gaps(arrival, burstiness);
            let mean = g.iter().sum::<f64>() / g.len() as f64;
            let var = g.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / g.len() as f64;
            assert!((mean * 50.0 - 1.0).abs() < 0.02, "{arrival:?} mean {mean}");
            assert!((var / mean / mean - cv2).abs() < 0.05 * cv2.max(0.1), "{arrival:?} cv² {}", var / mean / mean);
        }
    }

    #[test]
    fn a_trace_keeps_its_gaps() {
        let load = Load::Trace { speed: 2.0 };
        let at = load.schedule_ns(2, 0, &[Some(1000.0), Some(1500.0)]).unwrap().unwrap();
        assert_eq!(at, [0, 250_000_000]);
        assert!(load.schedule_ns(2, 0, &[Some(1000.0), None]).is_err());
        assert!(load.schedule_ns(2, 0, &[Some(1000.0), Some(1.0)]).is_err());
    }

    #[test]
    fn unusable_loads_are_named() {
        assert!(Load::Closed { concurrency: 0, ramp_s: 0.0 }.check().is_err());
        assert!(Load::Open { rate: f64::NAN, arrival: Arrival::Poisson, burstiness: 1.0 }.check().is_err());
    }
}
