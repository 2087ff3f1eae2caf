//! What does a run measured at one point say about another? Decode is carried over so that a fixed cost per step stays
//! what it is; prefill by ratio.

use super::artifact::{Figures, Layout, LoadPoint};
use crate::cost::residual::{ResidualPoint, TPOT, alike};
use nalgebra::{DMatrix, DVector};
use serde::Serialize;

/// Projected figures of a point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Projected {
    /// Mean TTFT, ms.
    pub ttft_ms: f64,
    /// Median TTFT, ms.
    pub ttft_p50_ms: f64,
    /// Mean TPOT, ms.
    pub tpot_ms: f64,
    /// Output tokens per second of the deployment.
    pub output_tok_s: f64,
    /// Mean answer length, tokens.
    pub osl: f64,
    /// Least TPOT by the datasheet, ms: bytes over bandwidth or flops over peak.
    pub floor_ms: f64,
}

/// A point on the transport axes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Place {
    /// Machine.
    pub layout: Layout,
    /// Workload.
    pub load: LoadPoint,
}

impl Place {
    /// Distance on the transport axes: the sum of |ln ratio| over widths, concurrency and lengths.
    pub fn gap(&self, other: &Self) -> f64 {
        let (a, b) = (&self.layout, &other.layout);
        let (p, q) = (&self.load, &other.load);
        let axes = [
            (a.tp, b.tp),
            (a.ep, b.ep),
            (a.pp, b.pp),
            (a.attention_dp, b.attention_dp),
            (a.context_parallel, b.context_parallel),
            (a.replicas, b.replicas),
            (p.concurrency, q.concurrency),
            (p.isl, q.isl),
            (p.osl, q.osl),
        ];
        axes.into_iter().map(|(x, y)| (f64::from(x.max(1)) / f64::from(y.max(1))).ln().abs()).sum()
    }
}

/// A measured point beside its own projection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Observation {
    /// Name of the artifact.
    pub id: String,
    /// Where it lies.
    pub place: Place,
    /// What was measured; TTFT only where it may be used.
    pub measured: Figures,
    /// What is projected there.
    pub projected: Projected,
    /// Software it ran on: `current`, or `2025` before the calibration's reference date.
    pub epoch: String,
}

/// How decode is carried over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// `projected + Σ w (measured − projected at the anchor) / Σ w`: a fixed cost per step is not rescaled.
    Difference,
    /// `projected · exp(Σ w ln(measured / projected) / (Σ w + λ))`: the shrunken factor of an implementation.
    Scale,
    /// `projected · exp(Σ α k)`: the factor of an implementation as the mean of a Gaussian process over load and layout,
    /// with the spreads of the calibration's corrections (kriging). It carried best on groups that no constant has seen:
    /// what a projection misses there is mostly the maturity of all kernels, and its own fixed costs are priced before
    /// the factor (`inferasim fidelity --anchors` prints all rules).
    #[default]
    Kriging,
}

impl Rule {
    /// All rules, in the order of the tables.
    pub const ALL: [Rule; 3] = [Rule::Difference, Rule::Scale, Rule::Kriging];

    /// The word of the tables.
    pub fn word(self) -> &'static str {
        match self {
            Rule::Difference => "difference",
            Rule::Scale => "scale",
            Rule::Kriging => "kriging",
        }
    }
}

/// Shrinkage of the scale, in anchors: (scatter within a group over scatter between groups)²; 0.2 carried best on
/// groups that no constant has seen.
const SHRINKAGE: f64 = 0.2;

/// A near anchor says more than a far one: weight `1 / (1 + gap)`.
fn weight(gap: f64) -> f64 {
    1.0 / (1.0 + gap)
}

/// Covariance of what a projection leaves over at two places.
fn covariance(a: &Place, b: &Place) -> f64 {
    let point = |p: &Place| {
        let per_instance = |count: u32| f64::from(count) / f64::from(p.layout.replicas.max(1));
        ResidualPoint {
            concurrency: per_instance(p.load.concurrency),
            ranks: f64::from(p.layout.tp * p.layout.pp),
            expert_ranks: f64::from(p.layout.ep),
            isl: f64::from(p.load.isl),
            osl: f64::from(p.load.osl),
        }
    };
    let apart = (a.layout.attention_dp > 1) != (b.layout.attention_dp > 1);
    let share = if apart { (-1f64).exp() } else { 1.0 };
    share * TPOT.covariance(alike(&point(a).place(), &point(b).place()))
}

/// Anchors of a regime, ready to be carried to any place.
#[derive(Debug, Clone)]
pub struct Carrier {
    rule: Rule,
    anchors: Vec<Observation>,
    /// α of each anchor times what its software says of the target's; empty unless kriged.
    alpha: Vec<f64>,
}

impl Carrier {
    /// Solves what does not depend on the place; the target runs software of `epoch`.
    pub fn new(rule: Rule, anchors: Vec<Observation>, epoch: &str) -> Self {
        let alpha = if rule == Rule::Kriging { alpha(&anchors, epoch) } else { Vec::new() };
        Self { rule, anchors, alpha }
    }

    /// No anchor at all.
    pub fn is_empty(&self) -> bool {
        self.anchors.is_empty()
    }

    /// TPOT at `place`, ms, never below the datasheet's floor.
    pub fn decode(&self, place: &Place, projected: &Projected) -> f64 {
        let (mut weights, mut differences, mut logs, mut kriged) = (0.0, 0.0, 0.0, 0.0);
        for (i, anchor) in self.anchors.iter().enumerate() {
            let Some(measured) = anchor.measured.tpot_ms else { continue };
            let w = weight(anchor.place.gap(place));
            weights += w;
            differences += w * (measured - anchor.projected.tpot_ms);
            logs += w * (measured / anchor.projected.tpot_ms).ln();
            if let Some(alpha) = self.alpha.get(i) {
                kriged += alpha * covariance(&anchor.place, place);
            }
        }
        if weights == 0.0 {
            return projected.tpot_ms;
        }
        let floor = projected.floor_ms.max(LEAST_SHARE * projected.tpot_ms);
        let carried = match self.rule {
            Rule::Difference => projected.tpot_ms + differences / weights,
            Rule::Scale => projected.tpot_ms * (logs / (weights + SHRINKAGE)).exp(),
            Rule::Kriging => projected.tpot_ms * kriged.exp(),
        };
        carried.max(floor)
    }

    /// Figures at `place` with the anchors applied. At an anchor's own point every figure it measured is returned as
    /// measured; what it did not measure follows from `E2E = TTFT + (tokens − 1) · TPOT` and Little's law.
    pub fn transport(&self, place: &Place, projected: &Projected) -> Projected {
        let own = self.anchors.iter().find(|a| a.place == *place).map(|a| a.measured).unwrap_or_default();
        let (mean, median) = prefill_ratio(&self.anchors, place);
        let tpot = own.tpot_ms.unwrap_or_else(|| self.decode(place, projected));
        let ttft = own.ttft_ms.unwrap_or(projected.ttft_ms * mean.or(median).unwrap_or(1.0));
        let ttft_p50 = own.ttft_p50_ms.unwrap_or(projected.ttft_p50_ms * median.or(mean).unwrap_or(1.0));
        let latency = |ttft: f64, tpot: f64| ttft + (projected.osl - 1.0).max(0.0) * tpot;
        let stretch = latency(projected.ttft_ms, projected.tpot_ms) / latency(ttft, tpot);
        Projected {
            ttft_ms: ttft,
            ttft_p50_ms: ttft_p50,
            tpot_ms: tpot,
            output_tok_s: own.output_tok_s.unwrap_or(projected.output_tok_s * stretch),
            ..*projected
        }
    }
}

/// What software of one epoch says of another's.
fn same_software(a: &str, b: &str) -> f64 {
    if a == b { 1.0 } else { (-1f64).exp() }
}

/// `(K + σ²)⁻¹ ln(measured / projected)`, each times what the anchor's software says of the target's; 0 without TPOT.
fn alpha(anchors: &[Observation], epoch: &str) -> Vec<f64> {
    let log = |a: &Observation| a.measured.tpot_ms.map(|m| (m / a.projected.tpot_ms).ln());
    let known: Vec<(usize, f64)> = anchors.iter().enumerate().filter_map(|(i, a)| Some((i, log(a)?))).collect();
    let matrix = DMatrix::from_fn(known.len(), known.len(), |i, j| {
        let noise = if i == j { TPOT.noise * TPOT.noise } else { 0.0 };
        let (a, b) = (&anchors[known[i].0], &anchors[known[j].0]);
        same_software(&a.epoch, &b.epoch) * covariance(&a.place, &b.place) + noise
    });
    let logs = DVector::from_iterator(known.len(), known.iter().map(|(_, log)| *log));
    let mut out = vec![0.0; anchors.len()];
    if let Some(solved) = matrix.cholesky().map(|c| c.solve(&logs)) {
        known.iter().zip(solved.iter()).for_each(|((i, _), alpha)| {
            out[*i] = alpha * same_software(&anchors[*i].epoch, epoch);
        });
    }
    out
}

/// A difference measured on a slow point must not eat a fast one: no anchor lowers a projection below this share.
const LEAST_SHARE: f64 = 0.3;

/// Ratio of measured to projected TTFT, and of the medians, over the anchors that may be used; `None` without any.
fn prefill_ratio(anchors: &[Observation], place: &Place) -> (Option<f64>, Option<f64>) {
    let mean = |of: fn(&Observation) -> Option<f64>| {
        let (mut weights, mut logs) = (0.0, 0.0);
        for anchor in anchors {
            if let Some(ratio) = of(anchor).filter(|r| r.is_finite() && *r > 0.0) {
                let w = weight(anchor.place.gap(place));
                weights += w;
                logs += w * ratio.ln();
            }
        }
        (weights > 0.0).then(|| (logs / weights).exp())
    };
    (
        mean(|a| Some(a.measured.ttft_ms? / a.projected.ttft_ms)),
        mean(|a| Some(a.measured.ttft_p50_ms? / a.projected.ttft_p50_ms)),
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn place(tp: u32, concurrency: u32) -> Place {
        Place {
            layout: Layout { tp, ep: 1, pp: 1, attention_dp: 1, context_parallel: 1, replicas: 1 },
            load: LoadPoint { concurrency, isl: 1024, osl: 101, range_ratio: 1.0 },
        }
    }

    pub fn projected(tpot_ms: f64) -> Projected {
        // One request at a time: E2E = 100 + 100 · TPOT, output = 101 tokens / E2E.
        let output_tok_s = 101.0 / (100.0 + 100.0 * tpot_ms) * 1e3;
        Projected { ttft_ms: 100.0, ttft_p50_ms: 80.0, tpot_ms, output_tok_s, osl: 101.0, floor_ms: 1.0 }
    }

    pub fn observation(at: Place, tpot: f64, measured: f64) -> Observation {
        let figures = Figures { tpot_ms: Some(measured), ..Figures::default() };
        Observation {
            id: "a".into(),
            place: at,
            measured: figures,
            projected: projected(tpot),
            epoch: "current".into(),
        }
    }

    #[test]
    fn an_anchor_returns_its_own_measurement() {
        let at = place(2, 64);
        let mut own = observation(at, 10.0, 12.5);
        own.measured =
            Figures { ttft_ms: Some(55.0), ttft_p50_ms: Some(44.0), tpot_ms: Some(12.5), output_tok_s: Some(777.0) };
        let other = observation(place(4, 64), 6.0, 3.0);
        for rule in Rule::ALL {
            let out = Carrier::new(rule, vec![other.clone(), own.clone()], "current").transport(&at, &projected(10.0));
            assert_eq!((out.tpot_ms, out.ttft_ms, out.ttft_p50_ms, out.output_tok_s), (12.5, 55.0, 44.0, 777.0));
        }
    }

    #[test]
    fn a_fixed_cost_per_step_stays_what_it_is() {
        // The machine pays 2 ms a step that the projection does not know; the rest of it is right.
        let anchor = observation(place(1, 64), 20.0, 22.0);
        let carried =
            |rule| Carrier::new(rule, vec![anchor.clone()], "current").transport(&place(8, 64), &projected(4.0));
        let near = carried(Rule::Difference);
        assert!((near.tpot_ms - 6.0).abs() < 1e-12);
        // A factor would have made 4.4 of it.
        let scaled = carried(Rule::Scale);
        assert!(scaled.tpot_ms > 4.2 && scaled.tpot_ms < 4.4, "{}", scaled.tpot_ms);
    }

    #[test]
    fn several_anchors_scale_by_the_shrunken_mean_of_logs() {
        // Two anchors at the same distance, factors 1.2 and 1.5, λ = 0.2, weight 1/(1 + ln 2) each.
        let (a, b) = (observation(place(4, 32), 10.0, 12.0), observation(place(4, 128), 10.0, 15.0));
        let out = Carrier::new(Rule::Scale, vec![a, b], "current").transport(&place(4, 64), &projected(8.0));
        let w = 1.0 / (1.0 + 2f64.ln());
        let expected = 8.0 * (w * (1.2f64.ln() + 1.5f64.ln()) / (2.0 * w + 0.2)).exp();
        assert!((out.tpot_ms - expected).abs() < 1e-12);
    }

    #[test]
    fn kriging_is_the_posterior_mean_of_two_anchors() {
        // Factors 1.2 and 1.5 at 32 and 128 clients; at 64 clients both are ln 2 away on an axis of length 4. By
        // symmetry α is the same for the sum: k(64)·(ln 1.2 + ln 1.5)/(k₁₁ + k₁₂ + σ²).
        let (a, b) = (observation(place(4, 32), 10.0, 12.0), observation(place(4, 128), 10.0, 15.0));
        let out = Carrier::new(Rule::Kriging, vec![a, b], "current").transport(&place(4, 64), &projected(8.0));
        let k = |gap: f64| 0.04 + 0.09 * (-gap / 4.0).exp();
        let sum = 1.2f64.ln() + 1.5f64.ln();
        let expected = 8.0 * (k(2f64.ln()) * sum / (k(0.0) + k(4f64.ln()) + 0.0025)).exp();
        assert!((out.tpot_ms - expected).abs() < 1e-9, "{} against {expected}", out.tpot_ms);
    }

    #[test]
    fn nothing_falls_below_the_roofline() {
        let anchor = observation(place(1, 64), 20.0, 8.0);
        let mut target = projected(6.0);
        target.floor_ms = 5.0;
        let out = Carrier::new(Rule::Difference, vec![anchor], "current").transport(&place(8, 64), &target);
        assert_eq!(out.tpot_ms, 5.0);
    }

    #[test]
    fn prefill_goes_by_ratio_and_the_rate_follows() {
        let mut anchor = observation(place(1, 64), 10.0, 10.0);
        anchor.measured.ttft_ms = Some(300.0);
        let out = Carrier::new(Rule::Difference, vec![anchor], "current").transport(&place(2, 64), &projected(9.0));
        assert!((out.ttft_ms - 300.0).abs() < 1e-9, "three times the projected 100 ms");
        assert!((out.ttft_p50_ms - 240.0).abs() < 1e-9);
        assert!((out.output_tok_s - 101.0 / (300.0 + 100.0 * 9.0) * 1e3).abs() < 1e-9);
    }

    #[test]
    fn no_anchor_changes_nothing() {
        for rule in Rule::ALL {
            assert_eq!(
                Carrier::new(rule, Vec::new(), "current").transport(&place(1, 1), &projected(7.0)),
                projected(7.0)
            );
        }
    }
}
