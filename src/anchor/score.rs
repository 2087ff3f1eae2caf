//! Scores predictions against measurements: error tables by slice, and the decision a user makes with them.

use super::case::Prediction;
use super::measured::{MeasuredPoint, ServingKind};
use serde::Serialize;
use std::collections::BTreeMap;

/// A row and its prediction, or the reason why there is none.
#[derive(Debug, Clone)]
pub struct Scored<'a> {
    /// The measurement.
    pub point: &'a MeasuredPoint,
    /// The prediction.
    pub outcome: Result<Prediction, String>,
}

/// Errors of one figure over one slice, %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Errors {
    /// Rows.
    pub n: usize,
    /// Mean absolute percentage error.
    pub mape: f64,
    /// Median absolute percentage error.
    pub median: f64,
    /// Mean signed error.
    pub bias: f64,
    /// Share of rows within 10 %.
    pub within_10: f64,
    /// Share of rows within 20 %.
    pub within_20: f64,
}

/// Errors of the three figures over one slice.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SliceErrors {
    /// TPOT.
    pub tpot: Option<Errors>,
    /// Mean TTFT.
    pub ttft: Option<Errors>,
    /// Output rate; total rate where only that was recorded.
    pub output: Option<Errors>,
}

/// "The most tok/s per GPU with TPOT under a limit", over all groups with at least four points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Decision {
    /// Limit, ms.
    pub limit_ms: f64,
    /// Groups in which some measured point keeps the limit.
    pub cases: usize,
    /// Share of choices whose measured TPOT exceeds the limit by more than 5 %.
    pub broken: f64,
    /// Share of choices within 2 % of the best measured one.
    pub optimum: f64,
    /// Share of groups in which nothing was offered.
    pub silent: f64,
    /// Mean shortfall where the promise was kept, %.
    pub regret: f64,
}

/// A whole score.
#[derive(Debug, Clone, Serialize)]
pub struct Score {
    /// Rows that count.
    pub rows: usize,
    /// Rows with a prediction.
    pub answered: usize,
    /// Refusals by reason.
    pub refused: BTreeMap<String, usize>,
    /// Errors by slice.
    pub slices: BTreeMap<String, SliceErrors>,
    /// Decision table over all rows.
    pub decisions: Vec<Decision>,
    /// The same over aggregated rows without speculation: of all GPUs (`agg`) and of each (`agg MI355X` …).
    pub aggregated_decisions: BTreeMap<String, Vec<Decision>>,
}

/// TPOT limits of the decision table, ms.
pub const LIMITS: [f64; 5] = [10.0, 15.0, 20.0, 30.0, 50.0];
/// A promise counts as broken beyond this; repeats of one configuration differ by less.
const BROKEN: f64 = 1.05;
/// A choice counts as the optimum within this.
const OPTIMUM: f64 = 0.98;

/// Errors of a list of predicted-over-measured minus one.
pub fn errors(relative: &[f64]) -> Option<Errors> {
    if relative.is_empty() {
        return None;
    }
    let n = relative.len() as f64;
    let mut absolute: Vec<f64> = relative.iter().map(|e| e.abs()).collect();
    absolute.sort_by(f64::total_cmp);
    let middle = absolute.len() / 2;
    let median =
        if absolute.len() % 2 == 1 { absolute[middle] } else { 0.5 * (absolute[middle - 1] + absolute[middle]) };
    let within = |limit: f64| 100.0 * absolute.iter().filter(|e| **e <= limit).count() as f64 / n;
    Some(Errors {
        n: absolute.len(),
        mape: 100.0 * absolute.iter().sum::<f64>() / n,
        median: 100.0 * median,
        bias: 100.0 * relative.iter().sum::<f64>() / n,
        within_10: within(0.10),
        within_20: within(0.20),
    })
}

/// Relative errors of a row: TPOT, TTFT, output.
pub fn relative(point: &MeasuredPoint, p: &Prediction) -> [Option<f64>; 3] {
    let against = |predicted: f64, measured: Option<f64>| measured.filter(|m| *m > 0.0).map(|m| predicted / m - 1.0);
    let output =
        against(p.output_tok_s, point.output_tok_s).or_else(|| against(p.total_tok_s / point.gpus, point.per_gpu()));
    [against(p.tpot_ms, point.tpot_ms), against(p.ttft_ms, point.ttft_ms), output]
}

fn slice_names(point: &MeasuredPoint) -> Vec<String> {
    let kind = point.kind().word();
    let load = match point.concurrency {
        0..=4 => "C 1-4",
        5..=16 => "C 5-16",
        17..=64 => "C 17-64",
        65..=256 => "C 65-256",
        _ => "C > 256",
    };
    let mut names = vec![
        "all".to_string(),
        kind.to_string(),
        format!("{kind} {}", point.hardware),
        format!("{kind} {} {}", point.hardware, point.engine),
        format!("model {}", point.model),
        format!("{kind} {load}"),
    ];
    if point.dp_attention {
        names.push("dp attention".into());
    }
    names
}

/// Scores rows. Disaggregated rows whose layout was not recorded do not count.
pub fn score(rows: &[Scored<'_>]) -> Score {
    let rows: Vec<&Scored<'_>> = rows
        .iter()
        .filter(|r| r.point.kind() != ServingKind::Disaggregated || !r.point.disagg.contains("not in scrape"))
        .collect();
    let mut lists: BTreeMap<String, [Vec<f64>; 3]> = BTreeMap::new();
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: BTreeMap<String, Vec<[f64; 4]>> = BTreeMap::new();
    let mut aggregated: BTreeMap<String, BTreeMap<String, Vec<[f64; 4]>>> = BTreeMap::new();
    let mut answered = 0;
    for row in &rows {
        let p = match &row.outcome {
            Ok(p) => p,
            Err(reason) => {
                *refused.entry(reason.clone()).or_default() += 1;
                continue;
            }
        };
        answered += 1;
        for name in slice_names(row.point) {
            let list = lists.entry(name).or_default();
            for (store, error) in list.iter_mut().zip(relative(row.point, p)) {
                store.extend(error);
            }
        }
        let m = row.point;
        if let (Some(tpot), Some(rate)) = (m.tpot_ms, m.per_gpu()) {
            let key = [
                &m.hardware,
                &m.model,
                &m.engine,
                &m.precision,
                &m.isl.to_string(),
                &m.osl.to_string(),
                &m.speculation,
            ]
            .map(String::as_str)
            .join("|");
            let point = [tpot, rate, p.tpot_ms, p.total_tok_s / m.gpus];
            if m.kind() == ServingKind::Aggregated {
                for slice in [m.kind().word().to_string(), format!("{} {}", m.kind().word(), m.hardware)] {
                    aggregated.entry(slice).or_default().entry(key.clone()).or_default().push(point);
                }
            }
            groups.entry(key).or_default().push(point);
        }
    }
    let slices = lists
        .into_iter()
        .map(|(name, [tpot, ttft, output])| {
            (name, SliceErrors { tpot: errors(&tpot), ttft: errors(&ttft), output: errors(&output) })
        })
        .collect();
    let decided = |groups: &BTreeMap<String, Vec<[f64; 4]>>| -> Vec<Decision> {
        LIMITS.iter().filter_map(|&l| decision(l, groups.values())).collect()
    };
    let aggregated_decisions = aggregated.iter().map(|(slice, groups)| (slice.clone(), decided(groups))).collect();
    Score { rows: rows.len(), answered, refused, slices, decisions: decided(&groups), aggregated_decisions }
}

/// Each point: measured TPOT, measured rate, predicted TPOT, predicted rate.
fn decision<'a>(limit: f64, groups: impl Iterator<Item = &'a Vec<[f64; 4]>>) -> Option<Decision> {
    let (mut cases, mut broken, mut optimum, mut silent) = (0, 0, 0, 0);
    let mut regrets = Vec::new();
    for points in groups.filter(|p| p.len() >= 4) {
        let Some(best) = points.iter().filter(|p| p[0] <= limit).map(|p| p[1]).max_by(f64::total_cmp) else {
            continue;
        };
        cases += 1;
        let Some(choice) = points.iter().filter(|p| p[2] <= limit).max_by(|a, b| a[3].total_cmp(&b[3])) else {
            silent += 1;
            continue;
        };
        if choice[0] > BROKEN * limit {
            broken += 1;
        } else {
            regrets.push((1.0 - choice[1] / best).max(0.0));
            optimum += usize::from(choice[1] >= OPTIMUM * best);
        }
    }
    let share = |n: usize| 100.0 * n as f64 / cases as f64;
    (cases > 0).then(|| Decision {
        limit_ms: limit,
        cases,
        broken: share(broken),
        optimum: share(optimum),
        silent: share(silent),
        regret: 100.0 * regrets.iter().sum::<f64>() / regrets.len().max(1) as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_follow_their_definitions() {
        let e = errors(&[0.10, -0.30, 0.05, 0.05]).unwrap();
        assert!((e.mape - 12.5).abs() < 1e-9);
        assert!((e.median - 7.5).abs() < 1e-9);
        assert!((e.bias + 2.5).abs() < 1e-9);
        assert_eq!((e.within_10, e.within_20), (75.0, 75.0));
    }

    #[test]
    fn a_choice_that_breaks_its_promise_is_counted_apart() {
        // Measured TPOT 30 but predicted 15: chosen at a limit of 20, and broken.
        let group = vec![[30.0, 9.0, 15.0, 9.0], [19.0, 5.0, 19.0, 5.0], [10.0, 3.0, 10.0, 3.0], [5.0, 1.0, 5.0, 1.0]];
        let d = decision(20.0, [&group].into_iter()).unwrap();
        assert_eq!((d.cases, d.broken, d.optimum), (1, 100.0, 0.0));
        let d = decision(50.0, [&group].into_iter()).unwrap();
        assert_eq!((d.broken, d.optimum, d.regret), (0.0, 100.0, 0.0));
    }
}
