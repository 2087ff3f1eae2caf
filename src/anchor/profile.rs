//! Writes a fitted profile: rounded figures, the rows behind each engine on each GPU, and what it was fitted on.

use super::case::Case;
use super::fit::Fit;
use crate::cost::Calibration;
use crate::cost::calibration::Support;
use std::collections::{BTreeMap, BTreeSet};

/// The fitted profile with its support and description filled in; what stood `before` still supports it.
pub fn finished(fit: &Fit, rows: &[&Case], source: &str, before: Option<&Calibration>) -> Calibration {
    let mut profile = fit.calibration.clone();
    for p in &mut profile.parameters {
        p.value = rounded(p.value);
        p.spread = p.spread.map(rounded);
        for factor in p.by.iter_mut().flat_map(|s| s.factors.values_mut()) {
            factor.factor = rounded(factor.factor);
            factor.spread = factor.spread.map(rounded);
        }
    }
    profile.support = support(rows, before.map_or(&[], |b| &b.support));
    let dates: Vec<&str> = rows.iter().map(|c| c.point.date.as_str()).filter(|d| !d.is_empty()).collect();
    let span = match (dates.iter().min(), dates.iter().max()) {
        (Some(first), Some(last)) => format!(", dated {first} to {last}"),
        _ => String::new(),
    };
    profile.description = format!("{} measured rows of {source}{span}", rows.len());
    if let Some(before) = before {
        profile.description += &format!(", on top of {}: {}", before.name, before.description);
    }
    profile
}

/// Four significant digits: more than any fit on public rows can know.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// What is gathered per engine on a GPU.
#[derive(Default)]
struct Gathered {
    models: BTreeSet<String>,
    ttft_models: BTreeSet<String>,
    dates: BTreeSet<String>,
    most_requests: f64,
    tpot_points: u32,
    ttft_points: u32,
}

fn support(rows: &[&Case], before: &[Support]) -> Vec<Support> {
    let mut found: BTreeMap<(String, String), Gathered> = BTreeMap::new();
    for s in before {
        let gathered = Gathered {
            models: s.models.iter().cloned().collect(),
            ttft_models: s.ttft_models.iter().cloned().collect(),
            dates: s.dates.iter().filter(|d| !d.is_empty()).cloned().collect(),
            most_requests: s.most_requests,
            tpot_points: s.tpot_points,
            ttft_points: s.ttft_points,
        };
        found.insert((s.gpu.clone(), s.engine.clone()), gathered);
    }
    for case in rows {
        let g = found.entry((case.regime.gpu.clone(), case.regime.engine.clone())).or_default();
        if case.point.tpot_ms.is_some() {
            g.models.insert(case.model.clone());
            g.tpot_points += 1;
        }
        if case.point.ttft_ms.is_some() {
            g.ttft_models.insert(case.model.clone());
            g.ttft_points += 1;
        }
        g.most_requests = g.most_requests.max(case.residual_point().concurrency);
        if !case.point.date.is_empty() {
            g.dates.insert(case.point.date.clone());
        }
    }
    let list = |set: BTreeSet<String>| set.into_iter().collect();
    found
        .into_iter()
        .map(|((gpu, engine), g)| Support {
            gpu,
            engine,
            dates: [g.dates.first(), g.dates.last()].map(|d| d.cloned().unwrap_or_default()),
            models: list(g.models),
            ttft_models: list(g.ttft_models),
            most_requests: g.most_requests,
            tpot_points: g.tpot_points,
            ttft_points: g.ttft_points,
        })
        .collect()
}
