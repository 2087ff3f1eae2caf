//! Learns what the physics leaves over per combination, and keeps it only where leave-one-out says that it helps.

use super::case::Case;
use super::score::relative;
use crate::cost::Calibration;
use crate::cost::residual::{Correction, Residual, TERMS};
use nalgebra::{SMatrix, SVector};
use std::collections::BTreeMap;

/// How far each coefficient may move, and the scatter of a row around the fit: standard deviations of logarithms.
struct Prior {
    coefficients: [f64; TERMS],
    scatter: f64,
}

const TPOT: Prior = Prior { coefficients: [0.3, 0.05, 0.08, 0.05, 0.05], scatter: 0.08 };
const TTFT: Prior = Prior { coefficients: [0.5, 0.12, 0.12, 0.12, 0.12], scatter: 0.25 };
/// Fewer rows say too little.
const LEAST_ROWS: usize = 4;
/// A correction must take this share off the leave-one-out error to be kept.
const LEAST_GAIN: f64 = 0.05;
/// A single row far off must not set the correction: logarithms beyond this count as this.
const OUTLIER: f64 = 0.7;

/// Corrections of every combination that gains from one.
pub fn residuals(calibration: &Calibration, rows: &[&Case]) -> Vec<Residual> {
    let mut groups: BTreeMap<String, Vec<&Case>> = BTreeMap::new();
    for &case in rows {
        groups.entry(case.regime.residual_key()).or_default().push(case);
    }
    groups.into_iter().filter_map(|(key, cases)| residual(calibration, key, &cases)).collect()
}

fn residual(calibration: &Calibration, key: String, cases: &[&Case]) -> Option<Residual> {
    let bare = Calibration { residuals: Vec::new(), ..calibration.clone() };
    let constants = bare.resolve(&cases[0].regime);
    let mut tpot = Vec::new();
    let mut ttft = Vec::new();
    for case in cases {
        let [t, f, _] = relative(&case.point, &case.predict(&constants));
        let terms = SVector::from(case.residual_point().terms());
        let log = |ratio: f64| (-(1.0 + ratio).ln()).clamp(-OUTLIER, OUTLIER);
        tpot.extend(t.map(|r| (terms, log(r))));
        ttft.extend(f.map(|r| (terms, log(r))));
    }
    let (tpot, ttft) = (correction(&TPOT, &tpot), correction(&TTFT, &ttft));
    if tpot.is_none() && ttft.is_none() {
        return None;
    }
    let mut low = [f64::INFINITY; TERMS];
    let mut high = [f64::NEG_INFINITY; TERMS];
    for case in cases {
        for (i, term) in case.residual_point().terms().into_iter().enumerate() {
            low[i] = low[i].min((1e3 * term).floor() / 1e3);
            high[i] = high[i].max((1e3 * term).ceil() / 1e3);
        }
    }
    Some(Residual { key, low, high, tpot, ttft })
}

type Row = (SVector<f64, TERMS>, f64);

fn correction(prior: &Prior, rows: &[Row]) -> Option<Correction> {
    if rows.len() < LEAST_ROWS {
        return None;
    }
    let error = |log: f64| (log.exp() - 1.0).abs();
    let before: f64 = rows.iter().map(|(_, log)| error(-log)).sum();
    let after: f64 = rows
        .iter()
        .enumerate()
        .map(|(i, (terms, log))| {
            let others = rows.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, r)| r);
            solve(prior, others).map_or(error(-log), |c| error(c.dot(terms) - log))
        })
        .sum();
    if after > (1.0 - LEAST_GAIN) * before {
        return None;
    }
    let solution = solve(prior, rows.iter())?;
    let pct = |sum: f64| (1e3 * sum / rows.len() as f64).round() / 10.0;
    Some(Correction {
        coefficients: std::array::from_fn(|i| (1e4 * solution[i]).round() / 1e4),
        before_pct: pct(before),
        after_pct: pct(after),
        points: rows.len() as u32,
    })
}

/// Ridge regression: the posterior mean under independent normal priors.
fn solve<'a>(prior: &Prior, rows: impl Iterator<Item = &'a Row>) -> Option<SVector<f64, TERMS>> {
    let weight = prior.scatter.powi(-2);
    let mut normal = SMatrix::<f64, TERMS, TERMS>::zeros();
    let mut right = SVector::<f64, TERMS>::zeros();
    for (i, sd) in prior.coefficients.iter().enumerate() {
        normal[(i, i)] = sd.powi(-2);
    }
    for (terms, log) in rows {
        normal += terms * terms.transpose() * weight;
        right += terms * (*log * weight);
    }
    Some(normal.cholesky()?.solve(&right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_offset_is_found_and_noise_is_not() {
        let terms = |x: f64| SVector::from([1.0, x, 0.0, 0.0, 0.0]);
        let offset: Vec<Row> = (0..12).map(|i| (terms(f64::from(i) / 4.0), 0.2)).collect();
        let found = correction(&TPOT, &offset).unwrap();
        assert!((found.coefficients[0] - 0.2).abs() < 0.01 && found.after_pct < 2.0, "{found:?}");
        let noise: Vec<Row> = (0..12).map(|i| (terms(0.0), if i % 2 == 0 { 0.05 } else { -0.05 })).collect();
        assert_eq!(correction(&TPOT, &noise), None);
        assert_eq!(correction(&TPOT, &offset[..3]), None);
    }
}
