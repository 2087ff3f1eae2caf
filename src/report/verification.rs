//! What the simulation said of the points that the closed form ranked first.

use crate::config::Deployment;
use crate::serve::ServingMetrics;
use serde::{Deserialize, Serialize};

/// The outcome of `--verify simulate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// Limits on percentiles; those on means were checked too.
    pub limits: Vec<String>,
    /// Points simulated.
    pub simulated: u64,
    /// Of those, points that keep every limit.
    pub passed: u64,
    /// Seed of the runs.
    pub seed: u64,
    /// Requests of the recommended point's run.
    pub requests: u64,
    /// Points that the closed form would have recommended or listed, and the limit each misses.
    pub failed: Vec<FailedPoint>,
    /// The recommended point's simulated figures; absent where no point passed.
    pub best: Option<Latencies>,
}

/// A point that fails its verification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailedPoint {
    /// The point.
    pub deployment: Deployment,
    /// The limit it misses.
    pub missed: String,
}

/// Simulated latencies, ms: mean, p50, p90, p99.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Arrival to first token.
    pub ttft_ms: [f64; 4],
    /// Time per output token after the first.
    pub tpot_ms: [f64; 4],
    /// Gaps between tokens.
    pub itl_ms: [f64; 4],
    /// Arrival to last token.
    pub e2e_ms: [f64; 4],
    /// The figures that the closed form gives too.
    pub metrics: ServingMetrics,
}

/// Failed points that are printed.
const SHOWN: usize = 5;

impl Verification {
    /// It, a line each, for a reader.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{} points simulated (seed {}), {} keep every limit{}",
            self.simulated,
            self.seed,
            self.passed,
            if self.limits.is_empty() { String::new() } else { format!("; percentiles: {}", self.limits.join(", ")) }
        )];
        for point in self.failed.iter().take(SHOWN) {
            lines.push(format!("out: {}: {}", point.deployment, point.missed));
        }
        if self.failed.len() > SHOWN {
            lines.push(format!("and {} more that fail", self.failed.len() - SHOWN));
        }
        match &self.best {
            None => lines.push("no point of the closed form passes; --verify-budget tries more".to_string()),
            Some(best) => {
                for (name, [mean, p50, p90, p99]) in
                    [("TTFT", best.ttft_ms), ("TPOT", best.tpot_ms), ("ITL", best.itl_ms), ("E2E", best.e2e_ms)]
                {
                    lines.push(format!(
                        "recommended, {name} ms: {mean:.1} mean, {p50:.1} p50, {p90:.1} p90, {p99:.1} p99"
                    ));
                }
            }
        }
        lines
    }
}
