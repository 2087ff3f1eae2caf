//! Did the finalists behave as predicted, and is the winner still the winner?
//!
//! A figure is *as predicted* inside its band (`predicted_X_low` to `predicted_X_high` of the entry, docs/shortlist.md);
//! outside it is *better* or *worse*, by whether the figure is better high or low. An entry without bands gets that of a
//! projection without anchors, joined with the spread of repeated runs. The measured ranking is by the objective among
//! finalists that keep the limits; two that differ by less than repeated runs do are a tie.

use super::confidence::{NO_ANCHOR, REPEAT};
use super::harvest::FinalistResult;
use crate::measure::finalist::Finalist;
use crate::measure::summary::Point;
use crate::objective::{Metric, Slo};
use crate::serve::ServingMetrics;
use serde::Serialize;
use serde_json::{Map, Value};

/// How a measured figure stands to its prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Moved {
    /// Inside the band.
    AsPredicted,
    /// Outside, on the good side.
    Better,
    /// Outside, on the bad side.
    Worse,
    /// No whole result at the predicted load.
    NotMeasured,
}

impl Moved {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Moved::AsPredicted => "as predicted",
            Moved::Better => "better",
            Moved::Worse => "worse",
            Moved::NotMeasured => "not measured",
        }
    }
}

/// One figure of one finalist.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FigurePair {
    /// Which.
    pub metric: Metric,
    /// Of the shortlist.
    pub predicted: f64,
    /// Ends of its band.
    pub low: f64,
    /// Ends of its band.
    pub high: f64,
    /// On the endpoint.
    pub measured: f64,
    /// measured / predicted.
    pub ratio: f64,
    /// By the band.
    pub moved: Moved,
}

/// One finalist.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name in the shortlist.
    pub name: String,
    /// Predicted place, from 1.
    pub predicted_rank: u64,
    /// Place by what was measured, from 1; none where it was not, or breaks a limit.
    pub measured_rank: Option<u64>,
    /// By the objective's figure.
    pub moved: Moved,
    /// Every figure with a prediction.
    pub figures: Vec<FigurePair>,
    /// Limits that the measured figures break, a phrase each.
    pub breaks: Vec<String>,
    /// Why there is no result, or why it is no anchor.
    pub note: Option<String>,
}

/// What became of the predicted winner.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Winner {
    /// Best by prediction, of all entries.
    pub predicted: String,
    /// Best by measurement; none where nothing was measured or keeps the limits.
    pub measured: Option<String>,
    /// Another one, by more than repeated runs differ.
    pub changed: bool,
    /// A sentence.
    pub verdict: String,
}

/// Prediction beside measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// What is ranked by.
    pub objective: Metric,
    /// Limits that were checked.
    pub limits: Vec<String>,
    /// By predicted rank.
    pub finalists: Vec<Row>,
    /// What became of the winner.
    pub winner: Winner,
    /// Results at other loads than predicted; they count as anchors only.
    pub other_loads: usize,
}

/// How the comparison is made.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Ranks the finalists.
    pub objective: Metric,
    /// Must be kept.
    pub slos: Vec<Slo>,
    /// In the place of each entry's own.
    pub band: Option<f64>,
}

impl Comparison {
    /// Something moved, is missing, or the winner changed.
    pub fn differs(&self) -> bool {
        self.winner.changed || self.finalists.iter().any(|f| f.moved != Moved::AsPredicted)
    }
}

/// Clients that a finalist was predicted at, or the share of one of its instances where that was measured.
fn own_load(finalist: &Finalist, result: &FinalistResult) -> usize {
    match result.entry.get("instances").and_then(Value::as_u64) {
        Some(n) if n > 1 && !finalist.fields.contains_key("instances") => finalist.concurrency.div_ceil(n as usize),
        _ => finalist.concurrency,
    }
}

/// Sets results against predictions. `entries` may name finalists without a result.
pub fn compare(entries: &[Finalist], results: &[FinalistResult], rules: &Rules) -> Comparison {
    let mut all: Vec<Finalist> = entries.to_vec();
    for (i, result) in results.iter().enumerate() {
        let fields = result.entry.clone();
        if let Ok(f) = Finalist::from_fields(fields, &format!("result {}", i + 1))
            && !all.iter().any(|known| known.rank == f.rank && known.name == f.name)
        {
            all.push(f);
        }
    }
    all.sort_by_key(|f| f.rank);
    let own = |f: &Finalist| {
        let at = |r: &&FinalistResult| {
            r.entry.get("name") == f.fields.get("name")
                && r.entry.get("rank") == f.fields.get("rank")
                && r.point().and_then(|p| p.load.concurrency()) == Some(own_load(f, r))
        };
        results.iter().rfind(at)
    };
    let mut finalists: Vec<Row> = all.iter().map(|f| row(f, own(f), rules)).collect();
    rank(&mut finalists, rules.objective);
    let at_own_load = all.iter().filter(|f| own(f).is_some()).count();
    Comparison {
        objective: rules.objective,
        limits: rules.slos.iter().map(ToString::to_string).collect(),
        winner: winner(&finalists, rules.objective),
        finalists,
        other_loads: results.len() - at_own_load,
    }
}

/// Ends of a figure's band.
fn band(fields: &Map<String, Value>, metric: Metric, predicted: f64, rules: &Rules) -> (f64, f64) {
    let end = |side: &str| fields.get(&format!("predicted_{}_{side}", metric.key())).and_then(Value::as_f64);
    match (rules.band, end("low").zip(end("high")).filter(|(low, high)| *low > 0.0 && low <= high)) {
        (None, Some(own)) => own,
        (share, _) => {
            let factor = share.unwrap_or(NO_ANCHOR).hypot(REPEAT).exp();
            (predicted / factor, predicted * factor)
        }
    }
}

fn row(finalist: &Finalist, result: Option<&FinalistResult>, rules: &Rules) -> Row {
    let mut row = Row {
        name: finalist.name.clone(),
        predicted_rank: finalist.rank,
        measured_rank: None,
        moved: Moved::NotMeasured,
        figures: vec![],
        breaks: vec![],
        note: None,
    };
    let Some((result, point)) = result.and_then(|r| Some((r, r.point()?))) else { return row };
    let instances = result.entry.get("instances").and_then(Value::as_f64).filter(|n| *n > 1.0).unwrap_or(1.0);
    let share = || format!("measured on one of {instances} equal instances under its share of the load");
    row.note = result.no_anchor.clone().or_else(|| (instances > 1.0).then(share));
    let (predicted, measured) = (predicted(&finalist.fields), measured(point, &finalist.fields, instances));
    for &metric in Metric::ALL {
        if let Some((p, m)) = predicted(metric).zip(metric.of(&measured).filter(|m| m.is_finite() && *m > 0.0)) {
            let (low, high) = band(&finalist.fields, metric, p, rules);
            let moved = match () {
                () if (low..=high).contains(&m) => Moved::AsPredicted,
                () if (m > high) == metric.maximise() => Moved::Better,
                () => Moved::Worse,
            };
            row.figures.push(FigurePair { metric, predicted: p, low, high, measured: m, ratio: m / p, moved });
        }
    }
    // A run that is no anchor is incomplete or mostly failed: its figures are shown, and decide nothing.
    if result.no_anchor.is_none()
        && let Some(pair) = row.figures.iter().find(|f| f.metric == rules.objective)
    {
        row.moved = pair.moved;
    }
    for slo in &rules.slos {
        if slo.metric.of(&measured).is_some()
            && let Some((value, _)) = slo.overshoot(&measured)
        {
            row.breaks.push(format!("{}: {}", slo.reason(), slo.metric.show(value)));
        }
    }
    row
}

/// `predicted_<metric>` of an entry.
fn predicted(fields: &Map<String, Value>) -> impl Fn(Metric) -> Option<f64> + '_ {
    |metric| {
        let value = fields.get(&format!("predicted_{}", metric.key())).and_then(Value::as_f64);
        value.filter(|v| v.is_finite() && *v > 0.0)
    }
}

/// The measured point in the projector's terms, of all equal `instances` where one was measured; a figure that was not
/// observed is NaN.
fn measured(point: &Point, fields: &Map<String, Value>, instances: f64) -> ServingMetrics {
    let m = &point.metrics;
    let tpot_ms = m.tpot_ms.as_ref().map_or(f64::NAN, |d| d.mean);
    let gpus = fields.get("gpus").and_then(Value::as_f64).filter(|g| *g >= 1.0).unwrap_or(f64::NAN);
    let price = |key: &str, rate: &str, now: f64| {
        // Cost falls as throughput rises: the entry's own price stands in both.
        let of = |key: &str| fields.get(&format!("predicted_{key}")).and_then(Value::as_f64);
        Some(of(key)? * of(rate)? / now).filter(|usd| usd.is_finite())
    };
    let (output, total) = (instances * point.system.output_tok_s, instances * point.system.total_tok_s);
    ServingMetrics {
        ttft_ms: m.ttft_ms.as_ref().map_or(f64::NAN, |d| d.mean),
        ttft_p50_ms: m.ttft_ms.as_ref().map_or(f64::NAN, |d| d.p50),
        tpot_ms,
        e2e_ms: m.latency_ms.as_ref().map_or(f64::NAN, |d| d.mean),
        output_tok_s: output,
        total_tok_s: total,
        tok_s_per_gpu: total / gpus,
        tok_s_per_user: 1e3 / tpot_ms,
        running: instances * point.system.concurrency,
        usd_per_m_output: price("usd_per_m_output", "output_tok_s", output),
        usd_per_m_total: price("usd_per_m_total", "total_tok_s", total),
    }
}

fn value(row: &Row, objective: Metric) -> Option<f64> {
    let pair = row.figures.iter().find(|f| f.metric == objective)?;
    Some(if objective.maximise() { pair.measured } else { 1.0 / pair.measured })
}

fn rank(rows: &mut [Row], objective: Metric) {
    let eligible = |r: &Row| r.moved != Moved::NotMeasured && r.breaks.is_empty();
    let mut order: Vec<(usize, f64)> = rows
        .iter()
        .enumerate()
        .filter(|(_, r)| eligible(r))
        .filter_map(|(i, r)| Some((i, value(r, objective)?)))
        .collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (place, (i, _)) in (1..).zip(order) {
        rows[i].measured_rank = Some(place);
    }
}

fn winner(rows: &[Row], objective: Metric) -> Winner {
    let predicted = rows.first();
    let best = rows.iter().find(|r| r.measured_rank == Some(1));
    let name = |r: &Row| r.name.clone();
    let (changed, verdict) = match (predicted, best) {
        (Some(p), Some(b)) if p.name == b.name && p.predicted_rank == b.predicted_rank => {
            (false, format!("{} was predicted best and is measured best.", p.name))
        }
        (Some(p), Some(b)) => {
            let gap = value(p, objective).filter(|_| p.measured_rank.is_some()).zip(value(b, objective));
            match gap.map(|(p, b)| (b / p).ln()) {
                Some(gap) if gap <= REPEAT * 2f64.sqrt() => (
                    false,
                    format!("{} was predicted best; {} is as good (a tie within repeated runs).", p.name, b.name),
                ),
                Some(gap) => {
                    let by = 100.0 * (gap.exp() - 1.0);
                    (true, format!("The winner changed: {} instead of {}, by {by:.1} %.", b.name, p.name))
                }
                None if p.breaks.is_empty() => {
                    (true, format!("{} was predicted best and has no result; {} leads.", p.name, b.name))
                }
                None => (true, format!("The winner changed: {} breaks a limit, {} leads.", p.name, b.name)),
            }
        }
        (Some(p), None) => (true, format!("{} was predicted best; nothing measured keeps the limits.", p.name)),
        (None, _) => (false, "No finalist.".to_string()),
    };
    Winner { predicted: predicted.map(name).unwrap_or_default(), measured: best.map(name), changed, verdict }
}

#[cfg(test)]
#[path = "comparison_tests.rs"]
mod tests;
