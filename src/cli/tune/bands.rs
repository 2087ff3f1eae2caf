//! Between which values should a measurement lie? Bands of predicted figures, from anchors or from what was measured of
//! the same engine, GPU and model, of their neighbours, or of neither.

use super::anchored::AnchoredProjector;
use super::inputs::Inputs;
use super::trust;
use crate::anchor::confidence::Confidence;
use crate::config::Deployment;
use crate::objective::Metric;
use crate::report::record::{CalibrationLevel, FigureRange};
use crate::serve::ServingMetrics;

/// Share of measurements that a band is expected to hold.
pub const COVERAGE: f64 = 0.8;
/// Half-width of the middle 80 % of a normal distribution in standard deviations.
pub const DEVIATIONS: f64 = 1.2816;

/// Half-widths of bands in ln, for 80 % of measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Bands {
    /// TPOT.
    pub tpot: f64,
    /// TTFT.
    pub ttft: f64,
    /// Throughputs and the costs that follow from them.
    pub rate: f64,
    /// What they rest on.
    pub origin: String,
}

/// 80 % of |ln(predicted / measured)| of TPOT, TTFT and output rate on the public runs of docs/fidelity.md.
struct Spreads {
    /// Each configuration left out of the profile, the rest of its GPU, engine and model known.
    calibrated: [f64; 3],
    /// Each GPU, engine and model left out.
    neighbour: [f64; 3],
}

const PLAIN: Spreads = Spreads { calibrated: [0.07, 0.28, 0.11], neighbour: [0.19, 0.44, 0.23] };
const SPECULATIVE: Spreads = Spreads { calibrated: [0.12, 0.37, 0.12], neighbour: [0.30, 0.54, 0.28] };
const POOLED: Spreads = Spreads { calibrated: [0.22, 1.08, 0.26], neighbour: [0.41, 1.27, 0.43] };

fn spread(level: CalibrationLevel, deployment: &Deployment) -> [f64; 3] {
    let spreads = match (deployment.prefill.is_some(), deployment.speculation.is_some()) {
        (true, _) => POOLED,
        (false, true) => SPECULATIVE,
        (false, false) => PLAIN,
    };
    match level {
        CalibrationLevel::Calibrated => spreads.calibrated,
        CalibrationLevel::Neighbour => spreads.neighbour,
        // Assumed.
        CalibrationLevel::Uncalibrated => spreads.neighbour.map(|s| 2.0 * s),
    }
}

/// The bands of one deployment.
pub fn bands(inputs: &Inputs, evaluator: &AnchoredProjector<'_>, deployment: &Deployment) -> Bands {
    let (calibration, engine) = (&inputs.projector.calibration, &inputs.projector.engine.name);
    let mut statements = trust::statements(calibration, &inputs.target, engine, &inputs.model.architecture.name);
    trust::limit_to_measured_loads(&mut statements, calibration, &inputs.target, engine, deployment);
    // The first statement is about TPOT and throughput, the second about TTFT.
    let level = |at: usize| statements.get(at).map_or(CalibrationLevel::Uncalibrated, |s| s.level);
    let (decode, prefill) = (level(0), level(1));
    let mut bands = Bands {
        tpot: spread(decode, deployment)[0],
        ttft: spread(prefill, deployment)[1],
        rate: spread(decode, deployment)[2],
        origin: match decode {
            CalibrationLevel::Calibrated => "public runs of this engine, GPU and model".to_string(),
            CalibrationLevel::Neighbour => "public runs of other engines, GPUs, models or loads".to_string(),
            CalibrationLevel::Uncalibrated => "assumed: twice the error on what was never measured".to_string(),
        },
    };
    if let Some(basis) = evaluator.basis(deployment)
        && basis.decode != Confidence::OutOfRegime
    {
        bands.tpot = DEVIATIONS * basis.band;
        bands.rate = bands.tpot;
        if basis.prefill != Confidence::OutOfRegime {
            // TTFT varies three times as much as TPOT on the public runs.
            bands.ttft = bands.ttft.min(3.0 * bands.tpot);
        }
        bands.origin = format!("anchors of this regime ({})", basis.decode);
    }
    bands
}

impl Bands {
    /// The band of a figure.
    pub fn of(&self, metric: Metric, m: &ServingMetrics) -> f64 {
        match metric {
            Metric::TtftMs | Metric::TtftP50Ms => self.ttft,
            Metric::TpotMs | Metric::TokSPerUser => self.tpot,
            Metric::E2eMs if m.e2e_ms > 0.0 => {
                // The sum of two figures whose errors are taken as independent.
                let first = (m.ttft_ms / m.e2e_ms).clamp(0.0, 1.0);
                (self.ttft * first).hypot(self.tpot * (1.0 - first))
            }
            _ => self.rate,
        }
    }

    /// Every figure with the ends of its band.
    pub fn ranges(&self, m: &ServingMetrics) -> Vec<FigureRange> {
        let range = |metric: &Metric| {
            let value = metric.of(m)?;
            let factor = self.of(*metric, m).exp();
            Some(FigureRange { key: metric.key().to_string(), value, low: value / factor, high: value * factor })
        };
        Metric::ALL.iter().filter_map(range).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_spans_its_figure_by_a_factor() {
        let bands = Bands { tpot: 0.1, ttft: 0.3, rate: 0.2, origin: String::new() };
        let metrics = ServingMetrics {
            ttft_ms: 100.0,
            ttft_p50_ms: 90.0,
            tpot_ms: 10.0,
            e2e_ms: 1000.0,
            output_tok_s: 50.0,
            total_tok_s: 100.0,
            tok_s_per_gpu: 100.0,
            tok_s_per_user: 100.0,
            running: 1.0,
            usd_per_m_output: None,
            usd_per_m_total: None,
        };
        let ranges = bands.ranges(&metrics);
        assert_eq!(ranges.len(), 8, "no price, no cost");
        for range in &ranges {
            assert!((range.low * range.high - range.value * range.value).abs() < 1e-6 * range.value * range.value);
        }
        // A tenth of E2E is TTFT: √((0.3 · 0.1)² + (0.1 · 0.9)²) = 0.0949.
        assert!((bands.of(Metric::E2eMs, &metrics) - 0.0949).abs() < 1e-4);
    }
}
