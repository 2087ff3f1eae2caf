//! Writes a fitted profile: rounded figures, the rows behind each engine on each GPU, and what it was fitted on.

use super::case::Case;
use super::fit::Fit;
use crate::cost::Calibration;
use crate::cost::calibration::Support;
use std::collections::{BTreeMap, BTreeSet};

/// The fitted profile with its support and description filled in.
pub fn finished(fit: &Fit, rows: &[&Case], source: &str) -> Calibration {
    let mut profile = fit.calibration.clone();
    for p in &mut profile.parameters {
        p.value = rounded(p.value);
        p.spread = p.spread.map(rounded);
        for factor in p.by.iter_mut().flat_map(|s| s.factors.values_mut()) {
            factor.factor = rounded(factor.factor);
            factor.spread = factor.spread.map(rounded);
        }
    }
    profile.support = support(rows);
    let dates: Vec<&str> = rows.iter().map(|c| c.point.date.as_str()).filter(|d| !d.is_empty()).collect();
    let span = match (dates.iter().min(), dates.iter().max()) {
        (Some(first), Some(last)) => format!(", dated {first} to {last}"),
        _ => String::new(),
    };
    profile.description = format!("{} measured rows of {source}{span}", rows.len());
    profile
}

/// Four significant digits: more than any fit on public rows can know.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

fn support(rows: &[&Case]) -> Vec<Support> {
    let mut found: BTreeMap<(String, String), (BTreeSet<String>, u32, u32)> = BTreeMap::new();
    for case in rows {
        let key = (case.regime.gpu.clone(), case.regime.engine.clone());
        let (models, tpot, ttft) = found.entry(key).or_default();
        models.insert(case.model.clone());
        *tpot += u32::from(case.point.tpot_ms.is_some());
        *ttft += u32::from(case.point.ttft_ms.is_some());
    }
    found
        .into_iter()
        .map(|((gpu, engine), (models, tpot_points, ttft_points))| Support {
            gpu,
            engine,
            models: models.into_iter().collect(),
            tpot_points,
            ttft_points,
        })
        .collect()
}
