//! Latency against load, the knee of that curve, and the highest rate that keeps given limits.

use super::fleet::Unobserved;
use super::load::Arrivals;
use super::report::Report;
use super::scenario::Scenario;
use super::simulate;
use super::slo::SloSet;
use super::step_time::StepTime;
use crate::{Error, Result};
use rayon::prelude::*;
use serde::Serialize;

/// One simulated rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Requests per second offered.
    pub rate: f64,
    /// What the run shows.
    pub report: Report,
}

/// Latency against load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// In order of rate.
    pub points: Vec<CurvePoint>,
    /// Where the ratio of requests per second to mean E2E latency is largest (Kleinrock's power), among points that
    /// are not saturated.
    pub knee: Option<usize>,
}

/// The outcome of a capacity search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MaxRate {
    /// Highest rate found that keeps the limits, within 1 %; `None` if even the lowest does not.
    pub rate: Option<f64>,
    /// The run at that rate, or at the lowest rate tried.
    pub report: Option<Report>,
    /// Lowest rate tried.
    pub lowest_tried: f64,
    /// Rates simulated.
    pub probes: u32,
    /// Every run, in order of rate.
    #[serde(skip)]
    pub tried: Vec<CurvePoint>,
}

/// Reads `FROM:TO:POINTS`; the rates are spaced evenly, both ends included.
pub fn parse_rates(text: &str) -> Result<Vec<f64>> {
    let bad = || Error::input(format!("--sweep-load {text}"), "not a range", "Write FROM:TO:POINTS, such as 1:10:10");
    let parts: Vec<f64> = text.split(':').map(|w| w.parse().map_err(|_| bad())).collect::<Result<_>>()?;
    match parts[..] {
        [from, to, points] if from > 0.0 && to >= from && to <= 1e9 && (2.0..=1000.0).contains(&points) => {
            let last = points.trunc() - 1.0;
            Ok((0..points as u32).map(|i| from + (to - from) * f64::from(i) / last).collect())
        }
        _ => Err(bad()),
    }
}

/// The scenario at another rate.
fn at_rate(scenario: &Scenario, new: f64) -> Result<Scenario> {
    let mut scenario = scenario.clone();
    match &mut scenario.load.arrivals {
        Arrivals::Open { rate, .. } => *rate = new,
        _ => {
            return Err(Error::input(
                "a search over rates",
                "the load is no open loop",
                "Leave out --concurrency and --trace",
            ));
        }
    }
    Ok(scenario)
}

/// Simulates each rate, in parallel.
pub fn sweep(scenario: &Scenario, rates: &[f64], step_time: &(dyn Fn() -> Box<dyn StepTime> + Sync)) -> Result<Curve> {
    let point = |rate: &f64| {
        let report = simulate(&at_rate(scenario, *rate)?, step_time(), &mut Unobserved)?;
        Ok(CurvePoint { rate: *rate, report })
    };
    let points: Vec<CurvePoint> = rates.par_iter().map(point).collect::<Result<_>>()?;
    let power = |p: &CurvePoint| p.report.achieved_rate / p.report.e2e_ms.mean.max(1e-12);
    let open = points.iter().enumerate().filter(|(_, p)| !p.report.saturated && p.report.measured > 0);
    let knee = open.max_by(|a, b| power(a.1).total_cmp(&power(b.1))).map(|(at, _)| at);
    Ok(Curve { points, knee })
}

/// Rates are tried between these factors of the first.
const LOWEST: f64 = 1.0 / 4096.0;
const HIGHEST: f64 = 1048576.0;

/// Finds the highest rate that keeps the limits: doubles or halves from the scenario's rate, then bisects to 1 %.
pub fn max_rate(
    scenario: &Scenario,
    slos: &SloSet,
    step_time: &(dyn Fn() -> Box<dyn StepTime> + Sync),
) -> Result<MaxRate> {
    if slos.is_empty() {
        return Err(Error::input("--max-rate", "no limit to keep", "Give --slo, such as --slo ttft_p99_ms=800"));
    }
    let start = match scenario.load.arrivals {
        Arrivals::Open { rate, .. } if rate.is_finite() => rate,
        _ => 1.0,
    };
    let mut tried: Vec<CurvePoint> = Vec::new();
    let mut probe = |rate: f64| -> Result<(bool, Report)> {
        let report = simulate(&at_rate(scenario, rate)?, step_time(), &mut Unobserved)?;
        tried.push(CurvePoint { rate, report: report.clone() });
        Ok((slos.kept(&report), report))
    };
    let (mut good, mut bad): (Option<(f64, Report)>, Option<f64>) = (None, None);
    let mut rate = start;
    let mut lowest: Option<(f64, Report)> = None;
    while rate >= start * LOWEST && rate <= start * HIGHEST {
        let (kept, report) = probe(rate)?;
        if kept {
            good = Some((rate, report));
            if bad.is_some() {
                break;
            }
            rate *= 2.0;
        } else {
            bad = Some(rate);
            lowest = Some((rate, report));
            if good.is_some() {
                break;
            }
            rate /= 2.0;
        }
    }
    let Some((mut low, mut best)) = good else {
        let (lowest_tried, report) = lowest.map_or((start, None), |(rate, report)| (rate, Some(report)));
        return Ok(MaxRate { rate: None, report, lowest_tried, probes: tried.len() as u32, tried: by_rate(tried) });
    };
    if let Some(mut high) = bad {
        while high / low > 1.01 {
            let middle = (low * high).sqrt();
            match probe(middle)? {
                (true, report) => (low, best) = (middle, report),
                (false, _) => high = middle,
            }
        }
    }
    let probes = tried.len() as u32;
    Ok(MaxRate { rate: Some(low), report: Some(best), lowest_tried: low, probes, tried: by_rate(tried) })
}

fn by_rate(mut points: Vec<CurvePoint>) -> Vec<CurvePoint> {
    points.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    points
}
