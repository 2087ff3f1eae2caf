//! The memory budget of the fullest rank.

use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Every line of the budget of one rank, in bytes, and what follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryPlan {
    /// Memory of the GPU.
    pub total: Bytes,
    /// What the engine may use, by its own meaning of the memory fraction.
    pub budget: Bytes,
    /// Weights, the engine's padding included.
    pub weights: Bytes,
    /// Peak activation of a full step.
    pub activation: Bytes,
    /// Communication buffers, the runtime, workspaces.
    pub engine_reserve: Bytes,
    /// Captured graphs.
    pub graphs: Bytes,
    /// Fixed state of the running sequences (linear attention, Mamba) where the engine keeps it in a pool of its own;
    /// zero where states are blocks of the KV pool (vLLM), which `kv_bytes_per_request` then includes.
    pub state: Bytes,
    /// Left for the KV cache; negative where the rest does not fit.
    pub kv_available: Bytes,
    /// Marginal KV bytes of one more token of context on this rank (window layers saturated: full layers only).
    pub kv_bytes_per_token: Bytes,
    /// KV bytes one request of the longest admitted length holds on this rank.
    pub kv_bytes_per_request: Bytes,
    /// KV capacity in tokens as the engine prints it (per attention-DP group).
    pub kv_tokens: f64,
    /// Requests of the longest admitted length that fit at once, as the engine prints it (per attention-DP group).
    pub max_concurrency: f64,
    /// Requests of the workload's mean resident length (prompt and half the answer) that fit at once, per instance.
    pub resident_requests: f64,
}

impl MemoryPlan {
    /// The weights, reserves and at least one request fit.
    pub fn fits(&self) -> bool {
        self.kv_available.0 > 0.0 && self.max_concurrency >= 1.0
    }
}
