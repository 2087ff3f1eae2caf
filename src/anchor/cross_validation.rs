//! Predicts every row with constants fitted without it, so that the printed error is an honest one.

use super::case::{Case, Prediction};
use super::fit::{Knowledge, Weights, fit};
use super::residual_fit::residuals;
use crate::cost::Calibration;
use std::collections::BTreeMap;

/// Which rows a fit may learn from.
#[derive(Debug, Clone, Copy)]
pub struct Learnable {
    /// Constants.
    pub constants: fn(&Case) -> bool,
    /// Corrections.
    pub corrections: fn(&Case) -> bool,
}

/// Predictions in the order of the cases; groups are left out whole, several small ones at a time. No correction of a
/// group survives its absence.
pub fn leave_groups_out(base: &Calibration, cases: &[Case], learnable: Learnable, folds: usize) -> Vec<Prediction> {
    let fold_of = groups_to_folds(cases, folds);
    let refit = |train: &[&Case]| {
        fit(base, &learned(train, learnable.constants), Weights::default(), Knowledge::Priors).calibration
    };
    in_folds(cases, &fold_of, folds, |train| Calibration { residuals: Vec::new(), ..refit(train) })
}

/// Predictions in the order of the cases; single configurations are left out, so that the rest of their group is known,
/// corrections included.
pub fn leave_rows_out(base: &Calibration, cases: &[Case], learnable: Learnable, folds: usize) -> Vec<Prediction> {
    let fold_of = rows_to_folds(cases, folds);
    in_folds(cases, &fold_of, folds, |train| {
        let mut calibration =
            fit(base, &learned(train, learnable.constants), Weights::default(), Knowledge::Priors).calibration;
        calibration.residuals = residuals(&calibration, &learned(train, learnable.corrections), &[]);
        calibration
    })
}

fn learned<'a>(train: &[&'a Case], test: fn(&Case) -> bool) -> Vec<&'a Case> {
    train.iter().copied().filter(|c| test(c)).collect()
}

fn in_folds(
    cases: &[Case],
    fold_of: &[usize],
    folds: usize,
    refit: impl Fn(&[&Case]) -> Calibration,
) -> Vec<Prediction> {
    let mut out: Vec<Option<Prediction>> = vec![None; cases.len()];
    for fold in 0..folds {
        let train: Vec<&Case> = cases.iter().zip(fold_of).filter(|(_, f)| **f != fold).map(|(c, _)| c).collect();
        let calibration = refit(&train);
        for (i, case) in cases.iter().enumerate().filter(|(i, _)| fold_of[*i] == fold) {
            out[i] = Some(case.project(&calibration));
        }
    }
    out.into_iter().flatten().collect()
}

/// Spreads groups over folds: the largest first, each into the emptiest fold.
fn groups_to_folds(cases: &[Case], folds: usize) -> Vec<usize> {
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for case in cases {
        *sizes.entry(case.group()).or_default() += 1;
    }
    let mut order: Vec<(&String, &usize)> = sizes.iter().collect();
    order.sort_by_key(|(name, n)| (std::cmp::Reverse(**n), (*name).clone()));
    let mut load = vec![0usize; folds];
    let mut fold_of: BTreeMap<String, usize> = BTreeMap::new();
    for (name, n) in order {
        let fold = (0..folds).min_by_key(|f| load[*f]).unwrap_or(0);
        load[fold] += n;
        fold_of.insert(name.clone(), fold);
    }
    cases.iter().map(|c| fold_of[&c.group()]).collect()
}

/// Spreads a group's configurations over all folds, in an order that has nothing to do with the file's; repeats of one
/// configuration share a fold.
fn rows_to_folds(cases: &[Case], folds: usize) -> Vec<usize> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    cases
        .iter()
        .map(|case| {
            let (p, mut hasher) = (&case.point, DefaultHasher::new());
            (case.group(), format!("{:?}", case.deployment), p.isl.to_bits(), p.osl.to_bits()).hash(&mut hasher);
            (hasher.finish() % folds as u64) as usize
        })
        .collect()
}
