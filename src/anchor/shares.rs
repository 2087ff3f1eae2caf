//! Where does an error sit: in the level of a combination of GPU, engine and model, or in its shape over load and layout?

use super::measured::ServingKind;
use super::score::{Errors, Scored, errors, relative};
use serde::Serialize;
use std::collections::BTreeMap;

/// Errors of one slice, as predicted and with what no prediction could know of a combination taken out.
#[derive(Debug, Clone, Serialize)]
pub struct Shares {
    /// `agg`, or `agg MI355X` …
    pub slice: String,
    /// As predicted.
    pub predicted: Errors,
    /// With each combination's own mean error taken out: what a perfect constant per combination would leave.
    pub levelled: Errors,
    /// Standard deviation of the combinations' mean errors, as logarithms.
    pub between: f64,
}

/// TPOT of aggregated rows without speculation: all of them, and each GPU's.
pub fn shares(rows: &[Scored<'_>]) -> Vec<Shares> {
    let mut slices: BTreeMap<String, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for row in rows.iter().filter(|r| r.point.kind() == ServingKind::Aggregated) {
        let Some(error) = row.outcome.as_ref().ok().and_then(|p| relative(row.point, p)[0]) else { continue };
        let m = row.point;
        let combination = format!("{}|{}|{}", m.hardware, m.engine, m.model);
        for slice in ["agg".to_string(), format!("agg {}", m.hardware)] {
            slices.entry(slice).or_default().entry(combination.clone()).or_default().push(error.ln_1p());
        }
    }
    slices.into_iter().filter_map(|(slice, combinations)| share(slice, &combinations)).collect()
}

fn share(slice: String, combinations: &BTreeMap<String, Vec<f64>>) -> Option<Shares> {
    let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
    let predicted: Vec<f64> = combinations.values().flatten().map(|log| log.exp_m1()).collect();
    let levelled: Vec<f64> = combinations
        .values()
        .flat_map(|logs| {
            let level = mean(logs);
            logs.iter().map(move |log| (log - level).exp_m1())
        })
        .collect();
    let levels: Vec<f64> = combinations.values().map(|logs| mean(logs)).collect();
    let centre = mean(&levels);
    let between = (levels.iter().map(|l| (l - centre).powi(2)).sum::<f64>() / levels.len() as f64).sqrt();
    Some(Shares { slice, predicted: errors(&predicted)?, levelled: errors(&levelled)?, between })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_taken_out_and_a_shape_stays() {
        // One combination 20 % slow throughout, one that errs by ±10 % around its level.
        let combinations = BTreeMap::from([
            ("a".to_string(), vec![1.2f64.ln(); 4]),
            ("b".to_string(), vec![1.1f64.ln(), (1.0f64 / 1.1).ln()]),
        ]);
        let found = share("agg".into(), &combinations).unwrap();
        assert!((found.predicted.mape - (4.0 * 20.0 + 10.0 + 100.0 / 11.0) / 6.0).abs() < 1e-9);
        assert!((found.levelled.mape - (10.0 + 100.0 / 11.0) / 6.0).abs() < 1e-9);
        assert!((found.between - 0.5 * 1.2f64.ln()).abs() < 1e-12);
    }
}
