//! Fits a calibration profile on measured rows: robust least squares on log ratios, pulled towards the profile's priors.
//!
//! Every parameter is positive and fitted as a logarithm. Residuals are `ln(predicted / measured)` of TPOT, mean TTFT
//! and output rate, each over the scatter that repeated public measurements show; rows of a large group count less
//! than their number. Priors keep what the data cannot tell apart near its starting value.

use super::case::Case;
use crate::cost::{Calibration, Constants};
use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::{DMatrix, DVector, Dyn, Owned};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Scatter of a figure, as the standard deviation of its logarithm, and how much it matters.
#[derive(Debug, Clone, Copy)]
pub struct Weights {
    /// TPOT.
    pub tpot: f64,
    /// Mean TTFT.
    pub ttft: f64,
    /// Output rate.
    pub output: f64,
    /// Rows of a group of n weigh n^−balance each.
    pub balance: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { tpot: 0.08, ttft: 0.15, output: 0.12, balance: 0.25 }
    }
}

/// What a fit knows before its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knowledge {
    /// The priors of the profile alone: its fitted values are forgotten.
    Priors,
    /// The profile's fitted values stay: a few rows of one combination cannot tell its constants from those of all others.
    /// What the profile has no factor for (another engine, another GPU family) is fitted.
    Profile,
}

/// Residuals beyond this many standard deviations weigh in with their absolute value only (Huber).
const HUBER: f64 = 1.5;
/// Rounds of re-weighting.
const ROUNDS: usize = 5;
/// Step of the finite difference in log space.
const STEP: f64 = 1e-4;

/// Where an unknown sits in the profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    /// Index of the parameter.
    pub parameter: usize,
    /// Index of the scope and key; `None` for the value itself.
    pub factor: Option<(usize, String)>,
}

/// A fitted unknown.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// Parameter name.
    pub name: String,
    /// Scope and key, empty for the value itself.
    pub scope: String,
    /// Fitted value or factor.
    pub value: f64,
    /// Standard deviation of its logarithm.
    pub spread: f64,
    /// Standard deviation its prior allowed.
    pub prior_spread: f64,
    /// Rows in its scope.
    pub points: u32,
}

impl Fitted {
    /// The data narrowed the prior by less than a quarter: the value is the prior's, not the data's.
    pub fn identified(&self) -> bool {
        self.spread < 0.75 * self.prior_spread
    }
}

/// A fitted profile and what was fitted.
#[derive(Debug, Clone)]
pub struct Fit {
    /// The profile with fitted values.
    pub calibration: Calibration,
    /// Every unknown.
    pub unknowns: Vec<Fitted>,
}

struct Problem<'a> {
    base: &'a Calibration,
    cases: &'a [&'a Case],
    /// Regime of each case.
    regime_of: Vec<usize>,
    /// For each regime and parameter: the slots that multiply it.
    slots_of: Vec<Vec<Vec<usize>>>,
    /// What each regime's slots multiply.
    fixed: Vec<Constants>,
    prior: DVector<f64>,
    prior_spread: DVector<f64>,
    row_weight: Vec<f64>,
    robust: Vec<[f64; 3]>,
    weights: Weights,
    theta: DVector<f64>,
}

impl Problem<'_> {
    fn constants(&self, theta: &DVector<f64>) -> Vec<Constants> {
        self.slots_of
            .iter()
            .zip(&self.fixed)
            .map(|(slots, fixed)| {
                let mut constants = Constants::default();
                for (p, slots) in self.base.parameters.iter().zip(slots) {
                    let log: f64 = slots.iter().map(|&s| theta[s]).sum();
                    constants.set(&p.name, fixed.get(&p.name).unwrap_or(1.0) * log.exp());
                }
                constants
            })
            .collect()
    }

    fn raw(&self, case: &Case, constants: &Constants) -> [f64; 3] {
        let p = case.predict(constants);
        let m = &case.point;
        let ratio = |predicted: f64, measured: Option<f64>, sd: f64| {
            measured.filter(|v| *v > 0.0).map_or(0.0, |v| (predicted / v).ln() / sd)
        };
        let output = match m.output_tok_s {
            Some(v) => ratio(p.output_tok_s, Some(v), self.weights.output),
            None => ratio(p.total_tok_s / m.gpus, m.per_gpu(), self.weights.output),
        };
        [ratio(p.tpot_ms, m.tpot_ms, self.weights.tpot), ratio(p.ttft_ms, m.ttft_ms, self.weights.ttft), output]
    }

    fn residual_vector(&self, theta: &DVector<f64>) -> DVector<f64> {
        let constants = self.constants(theta);
        let rows = 3 * self.cases.len();
        let mut out = DVector::zeros(rows + theta.len());
        for (i, case) in self.cases.iter().enumerate() {
            let raw = self.raw(case, &constants[self.regime_of[i]]);
            for j in 0..3 {
                out[3 * i + j] = raw[j] * self.row_weight[i] * self.robust[i][j];
            }
        }
        for k in 0..theta.len() {
            out[rows + k] = (theta[k] - self.prior[k]) / self.prior_spread[k];
        }
        out
    }

    fn reweight(&mut self) {
        let constants = self.constants(&self.theta.clone());
        self.robust = self
            .cases
            .iter()
            .enumerate()
            .map(|(i, case)| self.raw(case, &constants[self.regime_of[i]]).map(|r| (HUBER / r.abs().max(HUBER)).sqrt()))
            .collect();
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_> {
    type ParameterStorage = Owned<f64, Dyn>;
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;

    fn set_params(&mut self, x: &DVector<f64>) {
        self.theta = x.clone();
    }

    fn params(&self) -> DVector<f64> {
        self.theta.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let r = self.residual_vector(&self.theta);
        r.iter().all(|v| v.is_finite()).then_some(r)
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let base = self.residual_vector(&self.theta);
        let columns: Vec<DVector<f64>> = (0..self.theta.len())
            .into_par_iter()
            .map(|k| {
                let mut theta = self.theta.clone();
                theta[k] += STEP;
                (self.residual_vector(&theta) - &base) / STEP
            })
            .collect();
        Some(DMatrix::from_columns(&columns))
    }
}

/// Unknowns that the rows touch.
fn slots(base: &Calibration, cases: &[&Case], knowledge: Knowledge) -> BTreeMap<Slot, u32> {
    let mut found = BTreeMap::new();
    for (index, p) in base.parameters.iter().enumerate() {
        if p.prior_spread > 0.0 && knowledge == Knowledge::Priors {
            found.insert(Slot { parameter: index, factor: None }, cases.len() as u32);
        }
        for (s, scope) in p.by.iter().enumerate().filter(|(_, s)| s.prior_spread > 0.0) {
            for case in cases {
                let key = case.regime.key(&scope.scope);
                let fitted = |key: &String| knowledge == Knowledge::Profile && scope.factors.contains_key(key);
                if let Some(key) = key.filter(|key| !fitted(key)) {
                    *found.entry(Slot { parameter: index, factor: Some((s, key)) }).or_insert(0) += 1;
                }
            }
        }
    }
    found
}

/// Fits the profile's unknowns on the cases.
pub fn fit(base: &Calibration, cases: &[&Case], weights: Weights, knowledge: Knowledge) -> Fit {
    let slots: Vec<(Slot, u32)> = slots(base, cases, knowledge).into_iter().collect();
    if slots.is_empty() {
        return Fit { calibration: base.clone(), unknowns: Vec::new() };
    }
    let index: BTreeMap<&Slot, usize> = slots.iter().enumerate().map(|(i, (s, _))| (s, i)).collect();
    let mut regimes = Vec::new();
    let mut regime_of = Vec::with_capacity(cases.len());
    for case in cases {
        let at = regimes.iter().position(|r| *r == &case.regime).unwrap_or_else(|| {
            regimes.push(&case.regime);
            regimes.len() - 1
        });
        regime_of.push(at);
    }
    let slots_of = regimes
        .iter()
        .map(|regime| {
            base.parameters
                .iter()
                .enumerate()
                .map(|(parameter, p)| {
                    let own = (p.prior_spread > 0.0).then_some(Slot { parameter, factor: None });
                    let scoped = p.by.iter().enumerate().filter_map(|(s, scope)| {
                        Some(Slot { parameter, factor: Some((s, regime.key(&scope.scope)?)) })
                    });
                    own.into_iter().chain(scoped).filter_map(|s| index.get(&s).copied()).collect()
                })
                .collect()
        })
        .collect();
    let fixed = regimes.iter().map(|regime| match knowledge {
        Knowledge::Profile => base.resolve(regime),
        Knowledge::Priors => {
            let mut constants = Constants::default();
            for p in &base.parameters {
                constants.set(&p.name, if p.prior_spread == 0.0 { p.value } else { 1.0 });
            }
            constants
        }
    });
    let fixed = fixed.collect();
    let prior = |slot: &Slot| match slot.factor {
        None => base.parameters[slot.parameter].prior.ln(),
        Some(_) => 0.0,
    };
    let prior_spread = |slot: &Slot| {
        let p = &base.parameters[slot.parameter];
        slot.factor.as_ref().map_or(p.prior_spread, |(s, _)| p.by[*s].prior_spread)
    };
    let start = |slot: &Slot| {
        let p = &base.parameters[slot.parameter];
        match &slot.factor {
            None => p.value.ln(),
            Some((s, key)) => p.by[*s].factors.get(key).map_or(0.0, |f| f.factor.max(1e-6).ln()),
        }
    };
    let mut group_size: BTreeMap<String, f64> = BTreeMap::new();
    for case in cases {
        *group_size.entry(case.group()).or_default() += 1.0;
    }
    let row_weight =
        cases.iter().map(|c| group_size[&c.group()].powf(-weights.balance / 2.0) * 1.5).collect::<Vec<_>>();
    let column = |f: &dyn Fn(&Slot) -> f64| DVector::from_iterator(slots.len(), slots.iter().map(|(s, _)| f(s)));
    let mut problem = Problem {
        base,
        cases,
        regime_of,
        slots_of,
        fixed,
        prior: column(&prior),
        prior_spread: column(&prior_spread),
        row_weight,
        robust: vec![[1.0; 3]; cases.len()],
        weights,
        theta: column(&start),
    };
    for _ in 0..ROUNDS {
        problem.reweight();
        let (solved, _) = LevenbergMarquardt::new().with_patience(8).with_ftol(1e-6).with_xtol(1e-6).minimize(problem);
        problem = solved;
    }
    let spreads = spreads(&problem);
    finish(base, &slots, &problem.theta, &spreads, (&prior_spread, knowledge))
}

/// Rows of a run are not independent: the public rows show an effective number of about a tenth.
const EFFECTIVE_ROWS: f64 = 0.1;

/// Standard deviations from the curvature at the solution, in which the data count as their effective number.
fn spreads(problem: &Problem<'_>) -> DVector<f64> {
    let n = problem.theta.len();
    let Some(jacobian) = problem.jacobian() else { return problem.prior_spread.clone() };
    let rows = jacobian.rows(0, jacobian.nrows() - n);
    let mut hessian = rows.transpose() * rows * EFFECTIVE_ROWS;
    for k in 0..n {
        hessian[(k, k)] += problem.prior_spread[k].powi(-2);
    }
    match hessian.try_inverse() {
        Some(covariance) => covariance.diagonal().map(|v| v.max(0.0).sqrt()),
        None => problem.prior_spread.clone(),
    }
}

fn finish(
    base: &Calibration,
    slots: &[(Slot, u32)],
    theta: &DVector<f64>,
    spreads: &DVector<f64>,
    (prior_spread, knowledge): (&dyn Fn(&Slot) -> f64, Knowledge),
) -> Fit {
    let mut calibration = base.clone();
    if knowledge == Knowledge::Priors {
        calibration.parameters.iter_mut().flat_map(|p| &mut p.by).for_each(|s| s.factors.clear());
    }
    let mut unknowns = Vec::new();
    for (k, (slot, points)) in slots.iter().enumerate() {
        let value = theta[k].exp();
        let p = &mut calibration.parameters[slot.parameter];
        let scope = match &slot.factor {
            None => {
                p.value = value;
                p.spread = Some(spreads[k]);
                String::new()
            }
            Some((s, key)) => {
                let factor =
                    crate::cost::calibration::Factor { factor: value, spread: Some(spreads[k]), points: *points };
                p.by[*s].factors.insert(key.clone(), factor);
                format!("{} {key}", p.by[*s].scope)
            }
        };
        unknowns.push(Fitted {
            name: p.name.clone(),
            scope,
            value,
            spread: spreads[k],
            prior_spread: prior_spread(slot),
            points: *points,
        });
    }
    Fit { calibration, unknowns }
}
