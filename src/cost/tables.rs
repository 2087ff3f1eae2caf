//! Kernel tables as closed forms: what one op costs on one GPU with one engine's kernels, in µs.
//!
//! The constants were fitted on public kernel timings (`targets/kernels/op-tables.yaml` says on how many and with
//! which error on shapes held out). A combination without a table takes the nearest one, and says so.

use crate::Result;
use crate::catalog::{self, Kind};
pub use crate::target::{Curve, Fit};
use crate::target::{GpuFamily, Kernels};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::OnceLock;

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

    /// The embedded tables, and in front of them what a target measured on its own device.
    ///
    /// # Errors
    /// See [`OpTables::built_in`].
    pub fn with(own: Option<&Kernels>) -> Result<Cow<'static, OpTables>> {
        let built_in = Self::built_in()?;
        let Some(own) = own else { return Ok(Cow::Borrowed(built_in)) };
        let mut tables = built_in.clone();
        let keyed = |curve: &Curve, key: String| Curve { key, ..curve.clone() };
        let format = own.format;
        tables.gemm.insert(0, keyed(&own.gemm, format!("{LOCAL}|{format}")));
        if let Some(moe) = &own.moe {
            tables.moe.insert(0, keyed(moe, format!("{LOCAL}|{WORKLOAD}|{format}")));
        }
        tables.decode_attention.insert(0, keyed(&own.decode_attention, format!("{LOCAL}|{WORKLOAD}|{format}")));
        tables.prefill_attention.insert(0, keyed(&own.prefill_attention, LOCAL.into()));
        Ok(Cow::Owned(tables))
    }
}

/// Key of a device whose target carries its own timings.
pub const LOCAL: &str = "local";
/// Kernel name of those timings.
pub const WORKLOAD: &str = "workload";

/// Key of a GPU in the tables; a GPU without its own takes its family's best-measured member.
pub fn gpu_key(name: &str, family: GpuFamily) -> (&'static str, bool) {
    match (family, name) {
        (GpuFamily::Gfx942, _) => ("gfx942", true),
        (GpuFamily::Gfx950, _) => ("gfx950", true),
        (GpuFamily::Hopper, name) if name.starts_with("H100") => ("h100", true),
        (GpuFamily::Hopper, name) => ("h200", name.starts_with("H200")),
        (GpuFamily::Blackwell, name) => ("b200", name.starts_with("B200")),
        (GpuFamily::Local, _) => (LOCAL, true),
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
