//! Predicts every row of a measured file, as fitted or with whole groups left out, and says what was refused and why.

use super::case::{Case, CaseBuilder, Prediction};
use super::cross_validation::{Learnable, leave_groups_out, leave_rows_out};
use super::measured::MeasuredPoint;
use super::score::Scored;
use crate::cost::Calibration;

/// Rows that can be predicted, and the reasons of those that cannot.
#[derive(Debug)]
pub struct Cases {
    /// Predictable rows.
    pub cases: Vec<Case>,
    /// For each row of the file: its place in `cases`, or the reason.
    pub of_row: Vec<Result<usize, String>>,
}

/// Prepares every row.
pub fn prepare(points: &[MeasuredPoint], calibration: &Calibration) -> Cases {
    let mut builder = CaseBuilder::default();
    let mut cases = Vec::new();
    let of_row = points
        .iter()
        .map(|point| {
            let case = builder.build(point, calibration)?;
            cases.push(case);
            Ok(cases.len() - 1)
        })
        .collect();
    Cases { cases, of_row }
}

/// How the constants of a prediction were fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// With the profile as it is.
    Profile,
    /// Refitted without the row's group, groups spread over this many folds.
    GroupsLeftOut(usize),
    /// Refitted without the row's configuration, which are spread over this many folds; the rest of the group is known.
    RowsLeftOut(usize),
}

const LEARNABLE: Learnable = Learnable { constants: fits, corrections: sound };

/// Predictions of all rows, in file order.
pub fn predict<'a>(
    points: &'a [MeasuredPoint],
    prepared: &Cases,
    calibration: &Calibration,
    mode: Mode,
) -> Vec<Scored<'a>> {
    let predictions: Vec<Prediction> = match mode {
        Mode::Profile => prepared.cases.iter().map(|case| case.project(calibration)).collect(),
        Mode::GroupsLeftOut(folds) => leave_groups_out(calibration, &prepared.cases, LEARNABLE, folds),
        Mode::RowsLeftOut(folds) => leave_rows_out(calibration, &prepared.cases, LEARNABLE, folds),
    };
    points
        .iter()
        .zip(&prepared.of_row)
        .map(|(point, row)| Scored { point, outcome: row.clone().map(|i| predictions[i]) })
        .collect()
}

/// Output rate times latency over concurrency and length is 0.974 ± 0.018 on public rows (Little's law with ramp and
/// drain); a row far off contradicts itself, or its run did not ignore the end-of-text token.
const LITTLE: (f64, f64) = (0.80, 1.15);

/// A run of short answers whose prompts are this much longer spends its time in prefill.
const SHORT_ANSWER: f64 = 256.0;
/// See [`SHORT_ANSWER`].
const PREFILL_HEAVY: f64 = 8.0;
/// Such a run at a smaller share of the peak ran without the engine's usual prefill kernels; it tells nothing of other
/// combinations.
const SLOW_PREFILL: f64 = 0.08;
/// Mean over median TPOT of a run that reached a steady state; beyond it some requests stalled, and the mean is theirs.
const STEADY: (f64, f64) = (0.75, 1.35);

/// Rows that constants are fitted on: sound, of one pool (those of two add unknown networks and routers), and with the
/// engine's usual prefill.
pub fn fits(case: &Case) -> bool {
    !case.pooled() && sound(case) && !slow_prefill(case)
}

fn slow_prefill(case: &Case) -> bool {
    let m = &case.point;
    m.osl <= SHORT_ANSWER
        && m.isl >= PREFILL_HEAVY * m.osl
        && case.prefill_share_of_peak().is_some_and(|share| share < SLOW_PREFILL)
}

/// Rows a correction may be learned from: a TPOT, and figures that agree with each other.
pub fn sound(case: &Case) -> bool {
    let m = &case.point;
    if m.tpot_mean_over_median.is_some_and(|r| !(STEADY.0..STEADY.1).contains(&r)) {
        return false;
    }
    let Some(tpot) = m.tpot_ms else { return false };
    let osl = m.osl * (1.0 + m.range_ratio) / 2.0;
    match (m.ttft_ms, m.output_tok_s) {
        (Some(ttft), Some(rate)) => {
            let little = rate * (ttft + tpot * (osl - 1.0)) / 1e3 / (f64::from(m.concurrency) * osl);
            (LITTLE.0..LITTLE.1).contains(&little)
        }
        _ => true,
    }
}
