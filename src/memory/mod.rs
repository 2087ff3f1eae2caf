//! What fits: the memory of one rank, line by line, and the KV capacity that is left.
//!
//! [`MemoryModel::compile`] turns a layout into coefficients once; [`MemoryModel::plan`] evaluates them without
//! allocating.

pub mod activation;
pub mod budget;
pub mod cache;
pub mod cases;
pub mod plan;
#[cfg(test)]
mod tests;
pub mod weights;

pub use cache::BlockPool;
pub use plan::MemoryPlan;

use crate::config::Deployment;
use crate::memory::activation::Activation;
use crate::memory::cache::CacheLayout;
use crate::memory::weights::Shards;
use crate::model::{Architecture, Formats};
use crate::target::Gpu;
use crate::target::engine::{EngineSettings, FractionOf};
use crate::units::{Bytes, GIB};

/// The memory of one layout as coefficients. Copyable, free of heap types.
#[derive(Debug, Clone, Copy)]
pub struct MemoryModel {
    total: f64,
    weights: f64,
    reserve: f64,
    graphs: f64,
    graphs_in_budget: bool,
    fraction: f64,
    fraction_of: FractionOf,
    activation: Activation,
    max_num_seqs: f64,
    cache: CacheLayout,
    attention_dp: f64,
}

impl MemoryModel {
    /// Coefficients of a layout: everything but the lengths, the load and the token budget.
    pub fn compile(
        architecture: &Architecture,
        formats: &Formats,
        gpu: &Gpu,
        engine: &EngineSettings,
        deployment: &Deployment,
    ) -> Self {
        let padding = engine.mxfp4_padding.on(gpu.family);
        let shards = Shards::new(deployment, engine.family);
        Self {
            total: gpu.hbm_gib.value * GIB,
            weights: weights::weights(architecture, formats, engine, padding, deployment).0,
            reserve: budget::reserve(engine, deployment.tp * deployment.pp),
            graphs: engine.graph_gib * GIB,
            graphs_in_budget: engine.graphs_in_budget,
            fraction: deployment.memory_fraction,
            fraction_of: engine.fraction_of,
            activation: Activation::new(architecture, engine, shards),
            max_num_seqs: f64::from(deployment.max_num_seqs),
            cache: CacheLayout::new(architecture, deployment.kv_dtype, engine, deployment),
            attention_dp: f64::from(deployment.attention_dp.max(1)),
        }
    }

    /// The same layout under another limit on running sequences.
    pub fn with_max_num_seqs(mut self, max_num_seqs: u32) -> Self {
        self.max_num_seqs = f64::from(max_num_seqs);
        self
    }

    /// The same layout without captured graphs.
    pub fn without_graphs(mut self) -> Self {
        self.graphs = 0.0;
        self
    }

    /// The budget of one rank.
    ///
    /// `max_num_batched_tokens`: token budget of a step. `max_len_tokens`: longest admitted request.
    /// `mean_resident_tokens`: mean context a running request holds. `running_per_rank`: sequences that run on one
    /// attention-DP group, for engines that keep states in a pool of their own.
    pub fn plan(
        &self,
        max_num_batched_tokens: f64,
        max_len_tokens: f64,
        mean_resident_tokens: f64,
        running_per_rank: f64,
    ) -> MemoryPlan {
        let activation = self.activation.peak(max_num_batched_tokens, self.max_num_seqs);
        let state = (self.cache.separate_state_bytes * running_per_rank).max(0.0);
        let split = budget::split(
            self.fraction_of,
            self.fraction,
            self.graphs_in_budget,
            self.total,
            self.weights + self.reserve + state,
            activation,
            self.graphs,
        );
        let (kv_tokens, max_concurrency) = self.capacity(split.kv, max_len_tokens, max_num_batched_tokens);
        let blocks = (split.kv / self.cache.bytes_per_block).max(0.0);
        // A running request has left its prefill chunk behind: windows hold the window and the token at hand.
        let resident = blocks / self.cache.blocks(mean_resident_tokens, 1.0);
        MemoryPlan {
            total: Bytes(self.total),
            budget: Bytes(split.budget),
            weights: Bytes(self.weights),
            activation: Bytes(activation),
            engine_reserve: Bytes(self.reserve),
            graphs: Bytes(self.graphs),
            state: Bytes(state),
            kv_available: Bytes(split.kv),
            kv_bytes_per_token: Bytes(self.cache.marginal_bytes),
            kv_bytes_per_request: Bytes(
                self.cache.blocks(max_len_tokens, max_num_batched_tokens) * self.cache.bytes_per_block,
            ),
            kv_tokens,
            max_concurrency,
            resident_requests: if self.cache.bytes_per_block > 0.0 { resident * self.attention_dp } else { f64::MAX },
        }
    }

    /// KV tokens and requests of `max_len_tokens` in a pool of `kv_bytes`, as the engine prints them.
    pub fn capacity(&self, kv_bytes: f64, max_len_tokens: f64, max_num_batched_tokens: f64) -> (f64, f64) {
        self.cache.printed(kv_bytes, max_len_tokens, max_num_batched_tokens)
    }

    /// Longest request that a pool of `kv_bytes` holds, as the engine estimates it when it refuses a start.
    pub fn longest(&self, kv_bytes: f64, max_num_batched_tokens: f64) -> f64 {
        self.cache.longest(kv_bytes, max_num_batched_tokens)
    }

    /// A pool of `kv_bytes` as a scheduler allocates from it, all attention-DP groups together.
    pub fn block_pool(&self, kv_bytes: f64) -> BlockPool {
        self.cache.block_pool(kv_bytes * self.attention_dp)
    }

    /// Tokens in a block of the full-attention layers.
    pub fn block_tokens(&self) -> f64 {
        self.cache.block_tokens
    }

    /// Weights of the fullest rank.
    pub fn weights(&self) -> Bytes {
        Bytes(self.weights)
    }
}
