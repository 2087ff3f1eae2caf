//! Kernel tables as closed forms: what one op costs on one GPU with one engine's kernels, in µs.
//!
//! The constants were fitted on public kernel timings (`targets/kernels/op-tables.yaml` says on how many and with
//! which error on shapes held out). A combination without a table takes the nearest one, and says so.

use crate::Result;
use crate::catalog::{self, Kind};
use crate::target::GpuFamily;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

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

/// A curve of a roofline with a floor.
///
/// `t = floor_us + ramp_us · √(K/1024) + (t_mem^overlap + t_flop^overlap)^(1/overlap)`, where
/// `t_mem = bytes / (hbm_share · bandwidth)` and `t_flop = flops / (peak_share · peak)`.
/// The terms that only some families have are documented where they are used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Table key: `gpu|kernels|format`.
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
    /// Quality of the fit.
    #[serde(default)]
    pub fit: Option<Fit>,
    /// Where the timings come from, or why the figure is assumed.
    pub source: String,
}

/// All-reduce: `t = floor_us + per_rank_us · (P − 2) + 2 (P − 1)/P · bytes / (link_share · link)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveCurve {
    /// Table key: `gpu|kernels`.
    pub key: String,
    /// Fixed time between two ranks, µs.
    pub floor_us: f64,
    /// Fixed time per rank above two, µs.
    pub per_rank_us: f64,
    /// Achieved share of the one-direction link bandwidth.
    pub link_share: f64,
    /// Quality of the fit.
    #[serde(default)]
    pub fit: Option<Fit>,
    /// Where the timings come from.
    pub source: String,
}

/// Every table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpTables {
    /// Dense matrix products; key `gpu|format`.
    pub gemm: Vec<Curve>,
    /// Fused mixture of experts; key `gpu|kernels|format`.
    pub moe: Vec<Curve>,
    /// Decode attention over K and V; key `gpu|kernels|kv format`.
    pub decode_attention: Vec<Curve>,
    /// Decode attention over a latent; key `gpu|kernels|kv format`.
    pub decode_mla: Vec<Curve>,
    /// Prefill attention; key `gpu`.
    pub prefill_attention: Vec<Curve>,
    /// All-reduce; key `gpu|kernels`.
    pub all_reduce: Vec<CollectiveCurve>,
}

/// A table entry and whether it is the very one that was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a, T> {
    /// The entry.
    pub curve: &'a T,
    /// The entry belongs to this GPU, engine and format; otherwise it is a neighbour's.
    pub exact: bool,
}

impl OpTables {
    /// The embedded tables.
    ///
    /// # Errors
    /// The embedded file does not parse (a build defect).
    pub fn built_in() -> Result<&'static OpTables> {
        static TABLES: OnceLock<Result<OpTables>> = OnceLock::new();
        TABLES
            .get_or_init(|| crate::yaml::parse(&catalog::open(Kind::Kernels, "op-tables")?))
            .as_ref()
            .map_err(Clone::clone)
    }
}

/// Key of a GPU in the tables; a GPU without its own takes its family's best-measured member.
pub fn gpu_key(name: &str, family: GpuFamily) -> (&'static str, bool) {
    match (family, name) {
        (GpuFamily::Gfx942, _) => ("gfx942", true),
        (GpuFamily::Gfx950, _) => ("gfx950", true),
        (GpuFamily::Hopper, name) if name.starts_with("H100") => ("h100", true),
        (GpuFamily::Hopper, name) => ("h200", name.starts_with("H200")),
        (GpuFamily::Blackwell, name) => ("b200", name.starts_with("B200")),
    }
}

/// The first key of a preference list that has an entry; only the first counts as exact.
pub fn first<'a, T>(
    entries: &'a [T],
    key: impl Fn(&T) -> &str,
    wanted: &[String],
    exact: bool,
) -> Option<Found<'a, T>> {
    wanted.iter().enumerate().find_map(|(rank, want)| {
        entries.iter().find(|e| key(e) == want).map(|curve| Found { curve, exact: exact && rank == 0 })
    })
}
