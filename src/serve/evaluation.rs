//! The answer for one deployment under one load.

use super::ServingMetrics;
use crate::memory::MemoryPlan;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What limits a deployment most; the knob to turn follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Reading weights from HBM.
    WeightReads,
    /// Reading the KV cache from HBM.
    KvReads,
    /// Matrix units in the decode step.
    Compute,
    /// All-reduce and all-to-all.
    Collectives,
    /// Fixed cost of kernels.
    KernelFloors,
    /// The engine's own work per step.
    Host,
    /// Prefill work interleaved with decode.
    Prefill,
    /// The prefill pool works all the time; requests queue before it.
    PrefillPool,
    /// KV memory: fewer requests run than were asked for.
    KvCapacity,
    /// The engine's sequence limit: fewer requests run than were asked for.
    SequenceLimit,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bound::WeightReads => "weight reads",
            Bound::KvReads => "KV reads",
            Bound::Compute => "compute",
            Bound::Collectives => "collectives",
            Bound::KernelFloors => "kernel floors",
            Bound::Host => "host overhead",
            Bound::Prefill => "prefill interference",
            Bound::PrefillPool => "prefill pool",
            Bound::KvCapacity => "KV capacity",
            Bound::SequenceLimit => "sequence limit",
        })
    }
}

/// Where the mean time of one decode token goes, ms; the parts add up to TPOT.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Breakdown {
    /// Attention and dense projections, LM head.
    pub gemm_ms: f64,
    /// Routed experts.
    pub moe_ms: f64,
    /// Attention over the context.
    pub attention_ms: f64,
    /// All-reduce, all-to-all, pipeline hand-over.
    pub collectives_ms: f64,
    /// Small kernels: norms, rotary, activation, sampling.
    pub small_kernels_ms: f64,
    /// The engine's own work.
    pub host_ms: f64,
    /// Time decode steps lose to prefill chunks of other requests.
    pub prefill_ms: f64,
}

impl Breakdown {
    /// Parts with their labels, in plotting order.
    pub fn parts(&self) -> [(&'static str, f64); 7] {
        [
            ("GEMM", self.gemm_ms),
            ("experts", self.moe_ms),
            ("attention", self.attention_ms),
            ("collectives", self.collectives_ms),
            ("small kernels", self.small_kernels_ms),
            ("host", self.host_ms),
            ("prefill interference", self.prefill_ms),
        ]
    }
}

/// The figures of one deployment at one concurrency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Latency, throughput, cost.
    pub metrics: ServingMetrics,
    /// What limits it most.
    pub bound: Bound,
    /// Where a decode token's time goes.
    pub breakdown: Breakdown,
}

impl Evaluation {
    /// Share of TPOT spent in what binds it, above 0; `None` where what binds is no part of a step.
    pub fn bound_share(&self) -> Option<f64> {
        let b = &self.breakdown;
        let part = match self.bound {
            Bound::WeightReads | Bound::Compute => b.gemm_ms + b.moe_ms,
            Bound::KvReads => b.attention_ms,
            Bound::Collectives => b.collectives_ms,
            Bound::KernelFloors => b.small_kernels_ms,
            Bound::Host => b.host_ms,
            Bound::Prefill => b.prefill_ms,
            Bound::PrefillPool | Bound::KvCapacity | Bound::SequenceLimit => return None,
        };
        Some(part / self.metrics.tpot_ms).filter(|share| *share > 0.0)
    }
}

/// Why a deployment cannot run at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// Weights and reserves leave no room for one request of the workload's longest length.
    DoesNotFit(Box<MemoryPlan>),
    /// The cost model has no figures for this combination, by name.
    NoModel(String),
}
