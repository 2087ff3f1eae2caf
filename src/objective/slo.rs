//! One limit a deployment must keep, and by how much it misses it.

use super::Metric;
use crate::serve::ServingMetrics;
use crate::{Error, Result, yaml};
use std::fmt;

/// Limits outside this range are typing errors: a picosecond, a thousand years.
pub const LIMITS: (f64, f64) = (1e-6, 1e9);

/// A ceiling for latencies and costs, a floor for throughputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slo {
    /// The figure.
    pub metric: Metric,
    /// The value that must not be crossed.
    pub limit: f64,
}

/// A limit that was crossed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Miss {
    /// Position in the objective's list.
    pub slo: usize,
    /// The value.
    pub value: f64,
    /// How far over, as a factor above 1: value over limit for ceilings, limit over value for floors.
    pub overshoot: f64,
}

impl Slo {
    /// From `key=value`, or several separated by commas.
    ///
    /// # Errors
    /// Unknown keys, values that are no number, negative, zero, not finite or absurd.
    pub fn parse_list(text: &str) -> Result<Vec<Slo>> {
        text.split(',').map(Self::parse).collect()
    }

    fn parse(text: &str) -> Result<Slo> {
        let bad = |found: &str| Error::input(format!("--slo {text}"), found, "Write key=value, e.g. ttft_ms=500");
        let (key, value) = text.split_once('=').ok_or_else(|| bad("no `=` between key and value"))?;
        let metric = Metric::parse(key.trim())?;
        let limit: f64 = value.trim().parse().map_err(|_| bad("the value is not a number"))?;
        if limit >= LIMITS.0 && limit <= LIMITS.1 {
            return Ok(Slo { metric, limit });
        }
        let (low, high) = (yaml::number(LIMITS.0), yaml::number(LIMITS.1));
        Err(bad(&format!("the limit {} is not between {low} and {high}", yaml::number(limit))))
    }

    /// By what factor `metrics` crosses the limit; `None` where it is kept.
    ///
    /// A figure that is not known or not a number crosses it without bound.
    pub fn overshoot(&self, metrics: &ServingMetrics) -> Option<(f64, f64)> {
        let value = self.metric.of(metrics).unwrap_or(f64::NAN);
        let ratio = if self.metric.maximise() { self.limit / value } else { value / self.limit };
        match ratio {
            r if r <= 1.0 => None,
            r if r.is_nan() => Some((value, f64::INFINITY)),
            r => Some((value, r)),
        }
    }

    /// `ttft_ms 180 of 500`, the value beside the limit it keeps; `None` where the figure is not known.
    pub fn kept(&self, metrics: &ServingMetrics) -> Option<String> {
        let value = self.metric.of(metrics)?;
        Some(format!("{} {} of {}", self.metric, self.metric.show(value), yaml::number(self.limit)))
    }

    /// Short stable name to count misses under: `tpot_ms over 20`.
    pub fn reason(&self) -> String {
        let side = if self.metric.maximise() { "under" } else { "over" };
        format!("{} {side} {}", self.metric, yaml::number(self.limit))
    }

    /// `tpot_ms 24.1 over the budget of 20 (1.21x)`.
    pub fn describe(&self, miss: &Miss) -> String {
        let side = if self.metric.maximise() { "under the floor of" } else { "over the budget of" };
        let value = self.metric.show(miss.value);
        format!("{} {value} {side} {} ({:.2}x)", self.metric, yaml::number(self.limit), miss.overshoot)
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.metric.maximise() { ">=" } else { "<=" };
        write!(f, "{} {sign} {}", self.metric, yaml::number(self.limit))
    }
}
