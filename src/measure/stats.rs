//! What do many observations say? Mean and percentiles, with the definition AIPerf publishes.

use serde::{Deserialize, Serialize};

/// A set of observations in few numbers. Percentiles interpolate linearly between order statistics
/// (rank p·(n−1)); the standard deviation is that of the population (divisor n).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Unit of every figure but `count`.
    pub unit: String,
    /// Arithmetic mean.
    pub mean: f64,
    #[allow(missing_docs)]
    pub p1: f64,
    #[allow(missing_docs)]
    pub p5: f64,
    #[allow(missing_docs)]
    pub p10: f64,
    #[allow(missing_docs)]
    pub p25: f64,
    #[allow(missing_docs)]
    pub p50: f64,
    #[allow(missing_docs)]
    pub p75: f64,
    #[allow(missing_docs)]
    pub p90: f64,
    #[allow(missing_docs)]
    pub p95: f64,
    #[allow(missing_docs)]
    pub p99: f64,
    /// Smallest observation.
    pub min: f64,
    /// Largest observation.
    pub max: f64,
    /// Standard deviation, divisor n.
    pub std: f64,
    /// Number of observations.
    pub count: usize,
    /// Sum of the observations.
    pub sum: f64,
}

impl Distribution {
    /// Of the observations, which need no order; none for an empty set (nothing observed is not zero).
    pub fn of(unit: &str, values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut v: Vec<f64> = values.into_iter().filter(|x| x.is_finite()).collect();
        if v.is_empty() {
            return None;
        }
        v.sort_by(f64::total_cmp);
        let n = v.len() as f64;
        let sum: f64 = v.iter().sum();
        let mean = sum / n;
        let std = (v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        let p = |q| percentile(&v, q);
        Some(Self {
            unit: unit.into(),
            mean,
            p1: p(1.0),
            p5: p(5.0),
            p10: p(10.0),
            p25: p(25.0),
            p50: p(50.0),
            p75: p(75.0),
            p90: p(90.0),
            p95: p(95.0),
            p99: p(99.0),
            min: v[0],
            max: v[v.len() - 1],
            std,
            count: v.len(),
            sum,
        })
    }
}

/// The q-th percentile (0 to 100) of sorted values, linear between order statistics; 0 for an empty slice.
pub fn percentile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let rank = q / 100.0 * last as f64;
    let low = rank.floor() as usize;
    let high = (low + 1).min(last);
    sorted[low] + (sorted[high] - sorted[low]) * (rank - low as f64)
}

/// Percentiles over every request, where one that did not succeed counts as infinitely late (nearest rank).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WithFailures {
    /// Median; null when unbounded, because too many requests did not succeed.
    pub p50: Option<f64>,
    /// 90th percentile; null when unbounded.
    pub p90: Option<f64>,
    /// 95th percentile; null when unbounded.
    pub p95: Option<f64>,
    /// 99th percentile; null when unbounded.
    pub p99: Option<f64>,
}

impl WithFailures {
    /// Of the successes' values and the number of requests that have none.
    pub fn of(values: impl IntoIterator<Item = f64>, failures: usize) -> Self {
        let mut v: Vec<f64> = values.into_iter().collect();
        v.sort_by(f64::total_cmp);
        let n = v.len() + failures;
        let at = |q: f64| v.get(((q / 100.0 * n as f64).ceil() as usize).max(1) - 1).copied();
        Self { p50: at(50.0), p90: at(90.0), p95: at(95.0), p99: at(99.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `numpy.percentile` of 1..=10 at 25, 50, 90, 99: 3.25, 5.5, 9.1, 9.91; `numpy.std`: 2.8722813.
    #[test]
    fn percentiles_interpolate_between_order_statistics() {
        let d = Distribution::of("ms", (1..=10).rev().map(f64::from)).unwrap();
        for (got, want) in [(d.p25, 3.25), (d.p50, 5.5), (d.p90, 9.1), (d.p99, 9.91), (d.std, 2.872_281_3)] {
            assert!((got - want).abs() < 1e-6, "{got} is not {want}");
        }
        assert_eq!((d.mean, d.count, d.sum), (5.5, 10, 55.0));
    }

    #[test]
    fn nothing_observed_is_not_zero() {
        assert_eq!(Distribution::of("ms", []), None);
    }

    /// 98 successes and 2 failures: nearest rank 99 of 100 is a failure, rank 95 is the 95th success.
    #[test]
    fn failures_push_the_tail_to_infinity() {
        let w = WithFailures::of((1..=98).map(f64::from), 2);
        assert_eq!((w.p50, w.p95, w.p99), (Some(50.0), Some(95.0), None));
    }
}
