//! What shapes the scheduler of a vLLM V1 engine: limits, policy, cache layout and the rules of a release.
//!
//! Facts: vLLM 0.33.0 and 0.32.0, class `Scheduler` with `KVCacheManager`; both were driven step by step without a
//! model to learn where they differ.

use crate::{Error, Result};

/// Who is served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Order of arrival; a preempted request goes back to the head of the queue.
    Fcfs,
    /// Lowest priority value first, then earliest arrival.
    Priority,
}

/// One KV cache group: layers that share a block table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvGroup {
    /// Tokens a layer looks back, its own included; `None` for full attention.
    pub window: Option<u32>,
}

/// Behaviour that changed between releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VllmRules {
    /// Under the priority policy, a request that preempts itself ends the pass over the running requests.
    pub self_preemption_stops: bool,
    /// Blocks filled by accepted drafts are hashed when the step returns, not when the next one is scheduled.
    pub hash_verified_at_once: bool,
    /// `prefill_schedule_interval` works without data parallelism.
    pub prefill_interval: bool,
    /// A draft head's block hashes cover one more token; older releases give up the last block of a hit instead.
    pub hash_lookahead: bool,
}

impl VllmRules {
    /// The rules of a release, `major.minor[.patch]`.
    pub fn of_version(version: &str) -> Result<Self> {
        let mut parts = version.trim_start_matches('v').split('.');
        let mut number = || parts.next().and_then(|p| p.parse::<u32>().ok());
        let (Some(major), Some(minor)) = (number(), number()) else {
            return Err(Error::input(format!("vLLM version `{version}`"), "not a version", "Write it as 0.33.0"));
        };
        let new = (major, minor) >= (0, 33);
        Ok(Self { self_preemption_stops: !new, hash_verified_at_once: new, prefill_interval: new, hash_lookahead: new })
    }
}

impl Default for VllmRules {
    /// The latest release studied, 0.33.
    fn default() -> Self {
        Self { self_preemption_stops: false, hash_verified_at_once: true, prefill_interval: true, hash_lookahead: true }
    }
}

/// Everything the scheduler decides by.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulerConfig {
    /// Tokens one step may process.
    pub max_num_batched_tokens: u32,
    /// Requests that may run at once.
    pub max_num_seqs: u32,
    /// A lower cap on running requests, where set.
    pub max_num_active_seqs: Option<u32>,
    /// Prompt and answer of one request together, tokens.
    pub max_model_len: u32,
    /// Tokens in one KV block.
    pub block_size: u32,
    /// KV blocks, the reserved block 0 included: one block fewer can be used.
    pub num_blocks: u32,
    /// Blocks with the same content and the same prefix are shared.
    pub enable_prefix_caching: bool,
    /// A prompt may be spread over several steps.
    pub enable_chunked_prefill: bool,
    /// Most prefill tokens of one request in one step; 0 for no limit.
    pub long_prefill_token_threshold: u32,
    /// The threshold is at least an equal share of the budget.
    pub long_prefill_token_threshold_adaptive: bool,
    /// Who is served first.
    pub policy: Policy,
    /// A request is admitted only when blocks for all its present tokens are free, not just for the first chunk.
    pub reserve_full_prompt: bool,
    /// Blocks that an admission must leave free while others run.
    pub watermark_blocks: u32,
    /// Steps from one prefill to the next while decodes run; 1 for no restraint.
    pub prefill_schedule_interval: u32,
    /// The next step is scheduled before the tokens of the last one are known.
    pub async_scheduling: bool,
    /// Draft tokens proposed per request and step.
    pub speculative_tokens: u32,
    /// KV slots kept beyond the scheduled tokens (for a draft head).
    pub lookahead_tokens: u32,
    /// Tokens past a block's end that its hash covers.
    pub hash_lookahead_tokens: u32,
    /// The last block of a prefix hit is computed again.
    pub drop_last_hit_block: bool,
    /// Tokens that may be in flight at once: the budget times the steps in flight.
    pub max_in_flight_tokens: u32,
    /// KV blocks of a host tier behind the device's prefix cache; 0 for none.
    pub host_blocks: u32,
    /// Layer groups, each with its own block table, over one pool.
    pub groups: Vec<KvGroup>,
    /// What the release does differently.
    pub rules: VllmRules,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            max_num_batched_tokens: 8192,
            max_num_seqs: 1024,
            max_num_active_seqs: None,
            max_model_len: 131_072,
            block_size: 16,
            num_blocks: 32_769,
            enable_prefix_caching: true,
            enable_chunked_prefill: true,
            long_prefill_token_threshold: 0,
            long_prefill_token_threshold_adaptive: false,
            policy: Policy::Fcfs,
            reserve_full_prompt: true,
            watermark_blocks: 0,
            prefill_schedule_interval: 1,
            async_scheduling: false,
            speculative_tokens: 0,
            lookahead_tokens: 0,
            hash_lookahead_tokens: 0,
            drop_last_hit_block: false,
            max_in_flight_tokens: 8192,
            host_blocks: 0,
            groups: vec![KvGroup { window: None }],
            rules: VllmRules::default(),
        }
    }
}

impl SchedulerConfig {
    /// Steps that may be in flight at once.
    pub fn steps_in_flight(&self) -> u32 {
        if self.async_scheduling { 2 } else { 1 }
    }

    /// Sets what follows from the other options: tokens in flight, and the slots and hashes of a draft head.
    pub fn resolve(mut self, draft_head: bool) -> Self {
        self.max_in_flight_tokens = self.max_num_batched_tokens.saturating_mul(self.steps_in_flight());
        self.lookahead_tokens = if draft_head { self.speculative_tokens } else { 0 };
        let hashes_ahead = draft_head && self.enable_prefix_caching && self.rules.hash_lookahead;
        self.hash_lookahead_tokens = u32::from(hashes_ahead);
        self.drop_last_hit_block = draft_head && !hashes_ahead;
        self
    }

    /// Refuses what no engine starts with.
    pub fn validate(&self) -> Result<()> {
        let positive = [
            ("max_num_batched_tokens", self.max_num_batched_tokens),
            ("max_num_seqs", self.max_num_seqs),
            ("max_model_len", self.max_model_len),
            ("block_size", self.block_size),
            ("prefill_schedule_interval", self.prefill_schedule_interval),
        ];
        for (name, value) in positive {
            if value == 0 {
                return Err(Error::input(name, "is 0", "It must be at least 1"));
            }
        }
        if self.num_blocks < 2 {
            return Err(Error::input("KV blocks", format!("{}", self.num_blocks), "One is reserved; give at least 2"));
        }
        if self.groups.is_empty() || self.groups.iter().any(|g| g.window == Some(0)) {
            return Err(Error::input(
                "KV groups",
                "empty, or with a window of 0 tokens",
                "Give a window of at least 1",
            ));
        }
        let plain = self.groups.iter().all(|g| g.window.is_none()) && self.enable_prefix_caching;
        if self.host_blocks > 0 && !plain {
            let found = "with windowed groups or without prefix caching";
            return Err(Error::input("a host tier", found, "Leave the host tier out"));
        }
        Ok(())
    }
}

/// Token budget and sequence limit that vLLM's server takes when none is given.
///
/// By GPU memory: 160 GiB and more 16384 tokens, 70 GiB and more (A100 excepted) 8192, else 2048; 1024 sequences
/// where the budget is above 2048, else 256.
pub fn vllm_server_defaults(gpu_memory_gib: f64, is_a100: bool) -> (u32, u32) {
    if gpu_memory_gib >= 160.0 {
        (16_384, 1024)
    } else if gpu_memory_gib >= 70.0 && !is_a100 {
        (8192, 1024)
    } else {
        (2048, 256)
    }
}
