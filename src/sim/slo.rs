//! Limits on a run's latencies: means and percentiles, and what they ask of single requests.

use super::report::{Latency, Report};
use super::scenario::Slos;
use crate::catalog::nearest;
use crate::{Error, Result};
use serde::Serialize;
use std::fmt;

const LATENCIES: [&str; 5] = ["ttft", "tpot", "itl", "e2e", "queue"];
const STATISTICS: [&str; 4] = ["mean", "p50", "p90", "p99"];

/// One limit, such as `ttft_p99_ms=800`.
#[derive(Debug, Clone, PartialEq)]
struct Limit {
    name: String,
    latency: usize,
    statistic: usize,
    limit_ms: f64,
}

/// All limits of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SloSet {
    limits: Vec<Limit>,
}

/// How a run stands to one limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// As given, without the value.
    pub slo: String,
    /// The limit, ms.
    pub limit_ms: f64,
    /// What the run shows, ms.
    pub value_ms: f64,
    /// It is kept.
    pub met: bool,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.met { "met" } else { "MISSED" };
        write!(f, "{} {word}: {:.2} ms, limit {:.2} ms", self.slo, self.value_ms, self.limit_ms)
    }
}

impl SloSet {
    /// Reads `NAME=MS` texts.
    pub fn parse(texts: &[String]) -> Result<Self> {
        let limits = texts.iter().map(|text| parse_limit(text)).collect::<Result<_>>()?;
        Ok(Self { limits })
    }

    /// No limit was given.
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// `ttft_p99_ms <= 800`, one text per limit.
    pub fn texts(&self) -> Vec<String> {
        self.limits.iter().map(|l| format!("{} <= {}", l.name, l.limit_ms)).collect()
    }

    /// The limits on a latency (`ttft`, `tpot`, `itl`, `e2e` or `queue`), ms, with their names.
    pub fn on(&self, latency: &str) -> Vec<(String, f64)> {
        let limits = self.limits.iter().filter(|l| LATENCIES[l.latency] == latency);
        limits.map(|l| (l.name.clone(), l.limit_ms)).collect()
    }

    /// The text limits a percentile, or a latency that only a simulation knows.
    pub fn needs_simulation(text: &str) -> bool {
        let name = text.split('=').next().unwrap_or_default().trim();
        name != "ttft_p50_ms"
            && LATENCIES.iter().any(|latency| {
                let rest = name.strip_prefix(latency);
                let only_here = matches!(*latency, "itl" | "queue") && rest == Some("_ms");
                only_here || rest.is_some_and(|r| matches!(r, "_p50_ms" | "_p90_ms" | "_p99_ms"))
            })
    }

    /// What the limits ask of each request, for goodput: the tightest per latency.
    pub fn per_request(&self) -> Slos {
        let tightest = |latency: usize| {
            let limits = self.limits.iter().filter(|l| l.latency == latency).map(|l| l.limit_ms / 1e3);
            limits.fold(None, |best: Option<f64>, limit| Some(best.map_or(limit, |b| b.min(limit))))
        };
        Slos { ttft_s: tightest(0), tpot_s: tightest(1), e2e_s: tightest(3) }
    }

    /// One verdict per limit.
    pub fn verdicts(&self, report: &Report) -> Vec<Verdict> {
        let verdict = |limit: &Limit| {
            let latency: &Latency = match limit.latency {
                0 => &report.ttft_ms,
                1 => &report.tpot_ms,
                2 => &report.itl_ms,
                3 => &report.e2e_ms,
                _ => &report.queue_ms,
            };
            let value_ms = [latency.mean, latency.p50, latency.p90, latency.p99][limit.statistic];
            let met = value_ms <= limit.limit_ms;
            Verdict { slo: limit.name.clone(), limit_ms: limit.limit_ms, value_ms, met }
        };
        self.limits.iter().map(verdict).collect()
    }

    /// Every limit is kept, every request was answered, and the run was not saturated.
    pub fn kept(&self, report: &Report) -> bool {
        !report.saturated && report.refused.total() == 0 && self.verdicts(report).iter().all(|v| v.met)
    }
}

fn parse_limit(text: &str) -> Result<Limit> {
    let names: Vec<String> = LATENCIES
        .iter()
        .flat_map(|l| {
            STATISTICS.iter().map(move |s| if *s == "mean" { format!("{l}_ms") } else { format!("{l}_{s}_ms") })
        })
        .collect();
    let bad = |found: String, repair: String| Err(Error::input(format!("--slo {text}"), found, repair));
    let Some((name, value)) = text.split_once('=') else {
        return bad("no `=`".into(), "Write ttft_p99_ms=800".into());
    };
    let Some(index) = names.iter().position(|n| n == name) else {
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let hint = nearest(name, &known).map_or(String::new(), |n| format!("Did you mean `{n}`? "));
        return bad(format!("no latency `{name}`"), format!("{hint}Known: {}", known.join(", ")));
    };
    match value.parse::<f64>() {
        Ok(limit_ms) if limit_ms > 0.0 && limit_ms.is_finite() => Ok(Limit {
            name: name.to_string(),
            latency: index / STATISTICS.len(),
            statistic: index % STATISTICS.len(),
            limit_ms,
        }),
        _ => bad(format!("`{value}` is not a positive number of ms"), String::new()),
    }
}
