//! What the physics leaves over for one model on one engine and GPU: a small log-linear correction learned from measured
//! runs of just that combination, kept only where leaving each run out in turn showed that it helps.

use serde::{Deserialize, Serialize};

/// What a correction depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResidualPoint {
    /// Requests in flight per instance.
    pub concurrency: f64,
    /// Ranks of an instance.
    pub ranks: f64,
    /// Nominal prompt length, tokens.
    pub isl: f64,
    /// Nominal answer length, tokens.
    pub osl: f64,
}

/// Terms of a correction: constant, and the logarithms of concurrency, ranks, prompt and answer length.
pub const TERMS: usize = 5;

impl ResidualPoint {
    /// The terms, centred on an ordinary run.
    pub fn terms(&self) -> [f64; TERMS] {
        let log = |value: f64, centre: f64| (value.max(1.0) / centre).ln();
        [1.0, log(self.concurrency, 32.0), log(self.ranks, 4.0), log(self.isl, 1024.0), log(self.osl, 1024.0)]
    }
}

/// A correction never leaves this range, whatever its terms say.
const LIMIT: f64 = 0.5;

/// Log-linear correction of one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    /// Coefficients of the terms.
    pub coefficients: [f64; TERMS],
    /// Mean absolute error of the rows before, %.
    pub before_pct: f64,
    /// The same with each row predicted from the others, %.
    pub after_pct: f64,
    /// Rows.
    pub points: u32,
}

/// Corrections of one combination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Residual {
    /// `GPU/engine/model/bits/variant/epoch`, as [`super::Regime::residual_key`] spells it.
    pub key: String,
    /// Smallest value of each term among the rows; beyond it the correction stays as it is there.
    pub low: [f64; TERMS],
    /// Largest value of each term among the rows.
    pub high: [f64; TERMS],
    /// Correction of TPOT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot: Option<Correction>,
    /// Correction of mean TTFT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft: Option<Correction>,
}

impl Residual {
    /// Factors on TPOT and TTFT.
    pub fn factors(&self, point: &ResidualPoint) -> (f64, f64) {
        let mut terms = point.terms();
        for ((term, low), high) in terms.iter_mut().zip(&self.low).zip(&self.high) {
            *term = term.clamp(*low, *high);
        }
        let factor = |correction: &Option<Correction>| {
            correction.as_ref().map_or(1.0, |c| {
                let log: f64 = c.coefficients.iter().zip(&terms).map(|(a, b)| a * b).sum();
                log.clamp(-LIMIT, LIMIT).exp()
            })
        };
        (factor(&self.tpot), factor(&self.ttft))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correction_holds_its_edge_value_outside_the_rows_it_was_learned_on() {
        let correction =
            Correction { coefficients: [0.1, 0.05, 0.0, 0.0, 0.0], before_pct: 9.0, after_pct: 5.0, points: 8 };
        let at = |concurrency| ResidualPoint { concurrency, ranks: 4.0, isl: 1024.0, osl: 1024.0 };
        let (low, high) = (at(4.0).terms(), at(64.0).terms());
        let residual = Residual { key: "k".into(), low, high, tpot: Some(correction), ttft: None };
        let expected = (0.1 + 0.05 * (64.0f64 / 32.0).ln()).exp();
        assert!((residual.factors(&at(64.0)).0 - expected).abs() < 1e-12);
        assert_eq!(residual.factors(&at(64.0)), residual.factors(&at(4096.0)));
        assert_eq!(residual.factors(&at(64.0)).1, 1.0);
    }
}
