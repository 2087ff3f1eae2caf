//! Kernel timings as closed forms, and those that a target measured on its own device.

use crate::catalog::Document;
use crate::model::WeightFormat;
use crate::source::Sourced;
use crate::{Result, yaml};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Held-out error of a fit, percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Timings behind the fit.
    pub points: u32,
    /// Median absolute error on shapes held out, %.
    pub median_pct: f64,
    /// Mean absolute error on shapes held out, %.
    pub mean_pct: f64,
}

/// Products of so many rows on a probed device: `t = floor_us + per_mweight_us · N·K/10⁶ + per_kcolumn_us · N/10³`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowsTiming {
    /// Rows of the activations.
    pub rows: f64,
    /// Fixed time, µs.
    pub floor_us: f64,
    /// µs per million weights.
    pub per_mweight_us: f64,
    /// µs per thousand output columns.
    pub per_kcolumn_us: f64,
}

impl RowsTiming {
    /// Time of a product with a matrix of `n` columns and reduction length `k`, µs.
    pub fn time(&self, n: f64, k: f64) -> f64 {
        self.floor_us + self.per_mweight_us * n * k / 1e6 + self.per_kcolumn_us * n / 1e3
    }
}

/// A curve of a roofline with a floor.
///
/// `t = floor_us + ramp_us · √(K/1024) + (t_mem^overlap + t_flop^overlap)^(1/overlap)`, where
/// `t_mem = bytes / (hbm_share · bandwidth)` and `t_flop = flops / (peak_share · peak)`.
/// The terms that only some families have are documented where they are used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Table key: `gpu|kernels|format`; empty in a target, where the place says it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// Fixed time of the op, µs.
    pub floor_us: f64,
    /// Fixed time that grows with √(K/1024) (GEMM), µs.
    #[serde(default)]
    pub ramp_us: f64,
    /// Achieved share of HBM bandwidth.
    pub hbm_share: f64,
    /// Achieved share of the dense peak.
    pub peak_share: f64,
    /// Exponent that joins the two arms: 1 adds them, ∞ takes the larger.
    pub overlap: f64,
    /// GEMM: weight of one partial wave of tiles.
    #[serde(default)]
    pub wave: f64,
    /// MoE: rows per expert below which the matrix units stay busy as with this many.
    #[serde(default)]
    pub min_rows: f64,
    /// MoE: ns per active expert.
    #[serde(default)]
    pub per_expert_ns: f64,
    /// MoE: µs per thousand tokens.
    #[serde(default)]
    pub per_ktoken_us: f64,
    /// MoE: intermediate size that is paid on top of the rank's own.
    #[serde(default)]
    pub extra_inter: f64,
    /// Attention: overhead of splitting the context over the compute units.
    #[serde(default)]
    pub split: f64,
    /// Prefill attention: prompt length at which half the peak share is reached.
    #[serde(default)]
    pub half_length: f64,
    /// GEMM: the law at each number of rows, ascending, straight between them. Where stated it decides alone: a processor
    /// takes other paths for one row, few rows and many, which no single line follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_rows: Vec<RowsTiming>,
    /// Not timed on this GPU: taken over from another, so that what it prices counts as a neighbour's figure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub borrowed: bool,
    /// Quality of the fit.
    #[serde(default)]
    pub fit: Option<Fit>,
    /// Where the timings come from, or why the figure is assumed.
    pub source: String,
}

/// What a probe measured on a target's own device, in place of the embedded tables and of a calibration profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernels {
    /// Device, threads, clock, number format and date of the probe, in words.
    pub probed: String,
    /// Device: `cpu`, `cuda:0` …
    pub device: String,
    /// Threads of a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Clock of the timings: `wall` or `cpu`.
    pub clock: String,
    /// Number format that was asked for.
    pub dtype: String,
    /// Format in which the device held and computed the operands; the projector prices weights and caches in it.
    pub format: WeightFormat,
    /// Products.
    pub gemm: Curve,
    /// Mixture of experts; a target without prices it by its nearest neighbour in the embedded tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moe: Option<Curve>,
    /// Decode attention.
    pub decode_attention: Curve,
    /// Prefill attention.
    pub prefill_attention: Curve,
    /// Serving constants by name; each replaces the profile's.
    pub constants: BTreeMap<String, Sourced<f64>>,
}

impl Kernels {
    /// Refuses figures that no device has; `document` is the target's file.
    ///
    /// # Errors
    /// A share or an exponent out of range, a negative time.
    pub fn check(&self, document: &Document) -> Result<()> {
        let curves = [
            ("gemm", Some(&self.gemm)),
            ("moe", self.moe.as_ref()),
            ("decode_attention", Some(&self.decode_attention)),
            ("prefill_attention", Some(&self.prefill_attention)),
        ];
        for (name, curve) in curves {
            let Some(c) = curve else { continue };
            let range = |key: &str, value, range, meaning| {
                yaml::in_range(document, &format!("kernels.{name}.{key}"), value, range, meaning)
            };
            range("floor_us", c.floor_us, (0.0, 1e9), "a time in µs")?;
            range("ramp_us", c.ramp_us, (0.0, 1e9), "a time in µs")?;
            range("hbm_share", c.hbm_share, (1e-6, 1e6), "a share of the bandwidth")?;
            range("peak_share", c.peak_share, (1e-6, 1e6), "a share of the peak")?;
            range("overlap", c.overlap, (1.0, 1e3), "an exponent")?;
            let mut before = 0.0;
            for (at, timing) in c.by_rows.iter().enumerate() {
                range(
                    &format!("by_rows.{at}.rows"),
                    timing.rows,
                    (f64::next_up(before), 1e9),
                    "ascending numbers of rows",
                )?;
                range(&format!("by_rows.{at}.floor_us"), timing.floor_us, (0.0, 1e9), "a time in µs")?;
                range(&format!("by_rows.{at}.per_mweight_us"), timing.per_mweight_us, (0.0, 1e9), "a time in µs")?;
                range(&format!("by_rows.{at}.per_kcolumn_us"), timing.per_kcolumn_us, (0.0, 1e9), "a time in µs")?;
                before = timing.rows;
            }
        }
        for (name, constant) in &self.constants {
            let key = format!("kernels.constants.{name}");
            yaml::in_range(document, &key, constant.value, (0.0, 1e12), "a serving constant")?;
        }
        Ok(())
    }
}
