//! Learns what the physics leaves over per combination, and keeps it only where leave-one-out says that it helps.

use super::case::Case;
use super::score::relative;
use crate::cost::Calibration;
use crate::cost::residual::{AXES, Gain, Manner, Node, Residual, ResidualPoint, Spreads, TPOT, TTFT, alike};
use nalgebra::{DMatrix, DVector};
use std::collections::BTreeMap;

/// Fewer runs say too little.
const LEAST_ROWS: usize = 3;
/// A correction must take this share off the leave-one-out error to be kept.
const LEAST_GAIN: f64 = 0.05;
/// Places that a combination keeps; the least redundant ones where more were measured.
const MOST_NODES: usize = 64;
/// A single row far off must not set the correction: logarithms beyond these count as these (TPOT, TTFT).
const OUTLIERS: [f64; 2] = [1.5, 0.7];

/// Corrections of every combination that gains from one. Where one is known already, its places stand beside the rows,
/// each as it is corrected there, unless a row lies at the very place; combinations without rows keep theirs.
pub fn residuals(calibration: &Calibration, rows: &[&Case], known: &[Residual]) -> Vec<Residual> {
    let mut groups: BTreeMap<String, Vec<&Case>> = BTreeMap::new();
    for &case in rows {
        groups.entry(case.regime.combination()).or_default().push(case);
    }
    let mut kept: BTreeMap<String, Residual> = known.iter().map(|r| (r.key.clone(), r.clone())).collect();
    for (key, cases) in groups {
        let known = kept.remove(&key);
        if let Some(residual) = residual(calibration, key.clone(), &cases, known.as_ref()) {
            kept.insert(key, residual);
        }
    }
    kept.into_values().collect()
}

fn residual(calibration: &Calibration, key: String, cases: &[&Case], known: Option<&Residual>) -> Option<Residual> {
    let bare = Calibration { residuals: Vec::new(), ..calibration.clone() };
    let mut runs = [Runs::default(), Runs::default()];
    for case in cases {
        let r = &case.regime;
        let manner = Manner { bits: r.bits.clone(), variant: r.variant.clone(), epoch: r.epoch.clone() };
        let [tpot, ttft, _] = relative(&case.point, &case.predict(&bare.resolve(&case.regime)));
        for ((runs, ratio), outlier) in runs.iter_mut().zip([tpot, ttft]).zip(OUTLIERS) {
            if let Some(ratio) = ratio {
                runs.add(Place::new(case.residual_point(), &manner), (-(1.0 + ratio).ln()).clamp(-outlier, outlier));
            }
        }
    }
    for node in known.iter().flat_map(|known| &known.nodes) {
        let m = &node.manner;
        let corrections = known.map(|k| k.along(&m.bits, &m.variant, &m.epoch, &node.point)).unwrap_or_default();
        let (tpot, ttft) = corrections.factors(node.point.concurrency);
        for ((runs, factor), weight) in runs.iter_mut().zip([tpot, ttft]).zip(node.weights) {
            let place = Place::new(node.point, m);
            // A figure that was not measured there says nothing.
            if weight != 0.0 && !runs.places.contains(&place) {
                runs.add(place, factor.ln());
            }
        }
    }
    let spreads = [TPOT, TTFT];
    let gains: [Option<Gain>; 2] = std::array::from_fn(|i| runs[i].gain(&spreads[i]));
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    for i in 0..2 {
        let weights = if gains[i].is_some() { runs[i].weights(&spreads[i]) } else { Vec::new() };
        for (place, weight) in weights {
            let empty = Node { point: place.point, manner: place.manner.clone(), weights: [0.0; 2] };
            nodes.entry(empty.to_string()).or_insert(empty).weights[i] = weight;
        }
    }
    let [tpot, ttft] = gains;
    (!nodes.is_empty()).then(|| Residual { key, tpot, ttft, nodes: nodes.into_values().collect() })
}

/// A measured place.
#[derive(Debug, Clone, PartialEq)]
struct Place {
    point: ResidualPoint,
    manner: Manner,
    at: [f64; AXES],
}

/// Logarithms of measured over projected of one figure, repeats of one place averaged.
#[derive(Debug, Default)]
struct Runs {
    places: Vec<Place>,
    sums: Vec<f64>,
    counts: Vec<f64>,
}

impl Place {
    fn new(point: ResidualPoint, manner: &Manner) -> Self {
        Self { at: point.place(), point, manner: manner.clone() }
    }
}

impl Runs {
    fn add(&mut self, place: Place, log: f64) {
        let i = self.places.iter().position(|p| *p == place).unwrap_or_else(|| {
            self.places.push(place);
            self.sums.push(0.0);
            self.counts.push(0.0);
            self.places.len() - 1
        });
        self.sums[i] += log;
        self.counts[i] += 1.0;
    }

    fn logs(&self) -> DVector<f64> {
        DVector::from_fn(self.places.len(), |i, _| self.sums[i] / self.counts[i])
    }

    fn covariance(&self, spreads: &Spreads) -> DMatrix<f64> {
        DMatrix::from_fn(self.places.len(), self.places.len(), |i, j| {
            let (a, b) = (&self.places[i], &self.places[j]);
            let share = a.manner.share(&b.manner.bits, &b.manner.variant, &b.manner.epoch);
            share * spreads.covariance(alike(&a.at, &b.at))
        })
    }

    /// What a correction gains with each place predicted from the others; `None` where that is too little.
    fn gain(&self, spreads: &Spreads) -> Option<Gain> {
        if self.places.len() < LEAST_ROWS {
            return None;
        }
        let logs = self.logs();
        let mut matrix = self.covariance(spreads);
        for i in 0..logs.len() {
            matrix[(i, i)] += spreads.noise * spreads.noise;
        }
        // Leaving one out needs no further solution: what is left over is α_i / (K⁻¹)_ii (Rasmussen and Williams 5.12).
        let inverse = matrix.cholesky()?.inverse();
        let alpha = &inverse * &logs;
        let error = |log: f64| (log.exp() - 1.0).abs();
        let before: f64 = logs.iter().map(|log| error(-log)).sum();
        let after: f64 = (0..logs.len()).map(|i| error(-alpha[i] / inverse[(i, i)])).sum();
        let pct = |sum: f64| (1e3 * sum / logs.len() as f64).round() / 10.0;
        let points = self.counts.iter().sum::<f64>() as u32;
        (after <= (1.0 - LEAST_GAIN) * before).then(|| Gain { before_pct: pct(before), after_pct: pct(after), points })
    }

    /// Weights of the kept places: the posterior mean over their span (deterministic training conditional, Seeger 2003).
    fn weights(&self, spreads: &Spreads) -> Vec<(&Place, f64)> {
        let covariance = self.covariance(spreads);
        let kept = least_redundant(&covariance, MOST_NODES);
        let cross = covariance.select_rows(&kept);
        let own = cross.select_columns(&kept);
        let precision = spreads.noise.powi(-2);
        let jitter = DMatrix::identity(kept.len(), kept.len()) * 1e-9;
        let normal = own + jitter + &cross * cross.transpose() * precision;
        let right = &cross * self.logs() * precision;
        let Some(solved) = normal.cholesky().map(|c| c.solve(&right)) else { return Vec::new() };
        kept.iter().zip(solved.iter()).map(|(&i, &weight)| (&self.places[i], rounded(weight))).collect()
    }
}

/// Indices of at most `most` places, each the one the earlier ones say least about (pivoted Cholesky decomposition).
fn least_redundant(covariance: &DMatrix<f64>, most: usize) -> Vec<usize> {
    let n = covariance.nrows();
    if n <= most {
        return (0..n).collect();
    }
    let mut left: Vec<f64> = covariance.diagonal().iter().copied().collect();
    let mut factor = DMatrix::<f64>::zeros(n, most);
    let mut kept = Vec::with_capacity(most);
    for k in 0..most {
        let Some(pivot) = (0..n).filter(|i| !kept.contains(i)).max_by(|a, b| left[*a].total_cmp(&left[*b])) else {
            break;
        };
        let root = left[pivot].max(1e-12).sqrt();
        for i in 0..n {
            let known: f64 = (0..k).map(|c| factor[(i, c)] * factor[(pivot, c)]).sum();
            factor[(i, k)] = (covariance[(i, pivot)] - known) / root;
            left[i] -= factor[(i, k)] * factor[(i, k)];
        }
        kept.push(pivot);
    }
    kept
}

/// Five significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(logs: &[f64]) -> Runs {
        let places = (0..logs.len()).map(|i| {
            let point = ResidualPoint {
                concurrency: f64::from(1u32 << i),
                ranks: 8.0,
                expert_ranks: 1.0,
                isl: 1024.0,
                osl: 1024.0,
            };
            let manner = Manner { bits: "8".into(), variant: "plain".into(), epoch: "current".into() };
            Place { at: point.place(), point, manner }
        });
        Runs { places: places.collect(), sums: logs.to_vec(), counts: vec![1.0; logs.len()] }
    }

    #[test]
    fn an_offset_is_found_and_noise_is_not() {
        let found = runs(&[0.2; 8]).gain(&TPOT).unwrap();
        assert!(found.before_pct > 17.0 && found.after_pct < 2.0, "{found:?}");
        let noise: Vec<f64> = (0..8).map(|i| if i % 2 == 0 { 0.05 } else { -0.05 }).collect();
        assert_eq!(runs(&noise).gain(&TPOT), None);
        assert_eq!(runs(&[0.2, 0.2]).gain(&TPOT), None);
    }

    #[test]
    fn leaving_one_out_in_closed_form_is_leaving_one_out() {
        let logs = [0.3, 0.2, 0.25, 0.1];
        let all = runs(&logs);
        let closed = all.gain(&TPOT).unwrap().after_pct;
        let mut sum = 0.0;
        for (i, log) in logs.iter().enumerate() {
            let mut others = runs(&logs);
            others.places.remove(i);
            others.sums.remove(i);
            others.counts.remove(i);
            let at = &all.places[i];
            let predicted: f64 =
                others.weights(&TPOT).iter().map(|(p, w)| w * TPOT.covariance(alike(&p.at, &at.at))).sum();
            sum += ((predicted - log).exp() - 1.0).abs();
        }
        assert!((closed - 100.0 * sum / 4.0).abs() < 0.1, "{closed} against {}", 25.0 * sum);
    }

    #[test]
    fn redundant_places_go_first() {
        // Two places that coincide but for a hair and one far away: of two kept, one is the far one.
        let covariance = DMatrix::from_row_slice(3, 3, &[1.0, 0.999, 0.1, 0.999, 1.0, 0.1, 0.1, 0.1, 1.0]);
        let kept = least_redundant(&covariance, 2);
        assert!(kept.contains(&2) && kept.len() == 2, "{kept:?}");
    }
}
