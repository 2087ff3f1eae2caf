//! Predicts every row with constants fitted without the row's group, so that the printed error is an honest one.

use super::case::{Case, Prediction};
use super::fit::{Weights, fit};
use crate::cost::Calibration;
use std::collections::BTreeMap;

/// Predictions in the order of the cases; groups are left out whole, several small ones at a time.
pub fn leave_groups_out(
    base: &Calibration,
    cases: &[Case],
    fitted: impl Fn(&Case) -> bool,
    folds: usize,
    weights: Weights,
) -> Vec<Prediction> {
    let fold_of = assign(cases, folds);
    let mut out: Vec<Option<Prediction>> = vec![None; cases.len()];
    for fold in 0..folds {
        let train: Vec<&Case> =
            cases.iter().zip(&fold_of).filter(|(c, f)| **f != fold && fitted(c)).map(|(c, _)| c).collect();
        let calibration = fit(base, &train, weights).calibration;
        for (i, case) in cases.iter().enumerate().filter(|(i, _)| fold_of[*i] == fold) {
            out[i] = Some(case.predict(&calibration.resolve(&case.regime)));
        }
    }
    out.into_iter().flatten().collect()
}

/// Spreads groups over folds: the largest first, each into the emptiest fold.
fn assign(cases: &[Case], folds: usize) -> Vec<usize> {
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
