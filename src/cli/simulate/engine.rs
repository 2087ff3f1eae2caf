//! The options of each engine: what they change of a plain engine, or of a projected deployment's.

use super::scenario::within;
use crate::serve::scheduler::{KvGroup, Policy, SchedulerConfig, SglangConfig, VllmRules, vllm_server_defaults};
use crate::sim::scenario::EngineConfig;
use crate::{Error, Result};
use clap::{Args, ValueEnum};

/// Whose scheduler.
#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub enum SchedulerKind {
    /// vLLM V1, and engines that schedule like it (ATOM).
    Vllm,
    /// SGLang.
    Sglang,
}

/// Options of each engine, under the engine's own names.
#[derive(Debug, Args)]
#[command(next_help_heading = "Scheduler")]
pub struct EngineArgs {
    /// Whose scheduler to follow; SGLang's is a best effort [default: vllm, or what --engine says]
    #[arg(long, value_enum)]
    scheduler: Option<SchedulerKind>,
    /// Release of vLLM whose rules to follow [default: 0.33.0, or what --engine-version says]
    #[arg(long, value_name = "VERSION")]
    vllm_version: Option<String>,
    /// Tokens of one step (SGLang: chunked_prefill_size) [default: the engine's; 8192]
    #[arg(long, value_name = "TOKENS")]
    pub max_num_batched_tokens: Option<u32>,
    /// Requests that run at once (SGLang: max_running_requests) [default: the engine's; 1024]
    #[arg(long, value_name = "COUNT")]
    pub max_num_seqs: Option<u32>,
    /// Tokens of one request [default: the model's; 131072]
    #[arg(long, value_name = "TOKENS")]
    pub max_model_len: Option<u32>,
    /// Tokens of the KV cache [default: by the memory plan; 524288]
    #[arg(long, value_name = "TOKENS")]
    kv_tokens: Option<u64>,
    /// Tokens of one KV block or page [default: the engine's; 16, SGLang 1]
    #[arg(long, value_name = "TOKENS")]
    block_size: Option<u32>,
    /// Layer groups of the KV cache, as windows in tokens, such as full,128 [default: the model's; full]
    #[arg(long, value_name = "WINDOWS")]
    kv_groups: Option<String>,
    /// Do not share KV blocks of equal prefixes
    #[arg(long)]
    no_prefix_caching: bool,
    /// Do not split prompts over steps
    #[arg(long)]
    no_chunked_prefill: bool,
    /// Most prefill tokens of one request in one step; 0 for no limit
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    long_prefill_token_threshold: u32,
    /// Admit a request when its first chunk fits, not only when all its tokens do
    #[arg(long)]
    no_reserve_full_prompt: bool,
    /// Share of the KV blocks that admissions leave free
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    watermark: f64,
    /// Schedule a step before the tokens of the last are known
    #[arg(long)]
    async_scheduling: bool,
    /// Draft tokens per request and step (of a deployment: --speculation)
    #[arg(long, value_name = "COUNT")]
    speculative_tokens: Option<u32>,
    /// The drafts come from a draft head, which needs KV slots ahead
    #[arg(long)]
    draft_head: bool,
    /// Probability that a draft token is accepted when those before it were [default: 0.7]
    #[arg(long, value_name = "P")]
    draft_acceptance: Option<f64>,
    /// Take every step singly, also where runs of equal decode steps could be taken at once
    #[arg(long)]
    pub step_by_step: bool,
}

/// An engine to simulate, and how often its drafts are accepted.
pub struct Engine {
    /// Its scheduler.
    pub config: EngineConfig,
    /// Probability that a draft is accepted when those before it were.
    pub draft_acceptance: f64,
}

impl EngineArgs {
    /// A plain engine with the flags applied.
    pub fn plain(&self) -> Result<Engine> {
        let config = match self.scheduler.unwrap_or(SchedulerKind::Vllm) {
            SchedulerKind::Sglang => EngineConfig::Sglang(SglangConfig::default()),
            SchedulerKind::Vllm => {
                let (max_num_batched_tokens, max_num_seqs) = vllm_server_defaults(80.0, false);
                let rules = VllmRules::of_version(self.vllm_version.as_deref().unwrap_or("0.33.0"))?;
                let speculative_tokens = self.speculative_tokens.unwrap_or(0).min(64);
                let base = SchedulerConfig { max_num_batched_tokens, max_num_seqs, rules, ..Default::default() };
                EngineConfig::Vllm(SchedulerConfig { speculative_tokens, ..base })
            }
        };
        let draft_acceptance = within("--draft-acceptance", self.draft_acceptance.unwrap_or(0.7), 0.0, 1.0)?;
        Ok(Engine { config: self.applied(config, self.draft_head)?, draft_acceptance })
    }

    /// The engine of a projected deployment with the flags applied.
    pub fn of_deployment(&self, config: EngineConfig, draft_acceptance: f64) -> Result<Engine> {
        let fixed = [
            ("--scheduler", self.scheduler.is_some(), "--engine"),
            ("--vllm-version", self.vllm_version.is_some(), "--engine-version"),
            ("--speculative-tokens", self.speculative_tokens.is_some(), "--speculation"),
            ("--draft-head", self.draft_head, "--speculation"),
            ("--draft-acceptance", self.draft_acceptance.is_some(), "--tokens-per-step"),
        ];
        if let Some((flag, _, instead)) = fixed.into_iter().find(|(_, given, _)| *given) {
            return Err(Error::input(flag, "the deployment decides it", format!("Use {instead}")));
        }
        let drafts = matches!(&config, EngineConfig::Vllm(c) if c.speculative_tokens > 0);
        Ok(Engine { config: self.applied(config, drafts)?, draft_acceptance })
    }

    fn applied(&self, config: EngineConfig, draft_head: bool) -> Result<EngineConfig> {
        match config {
            EngineConfig::Vllm(config) => Ok(EngineConfig::Vllm(self.vllm(config)?.resolve(draft_head))),
            EngineConfig::Sglang(config) => Ok(EngineConfig::Sglang(self.sglang(config)?)),
        }
    }

    fn sglang(&self, known: SglangConfig) -> Result<SglangConfig> {
        let vllm_only = [
            ("--kv-groups", self.kv_groups.is_some()),
            ("--no-chunked-prefill", self.no_chunked_prefill),
            ("--long-prefill-token-threshold", self.long_prefill_token_threshold > 0),
            ("--no-reserve-full-prompt", self.no_reserve_full_prompt),
            ("--watermark", self.watermark > 0.0),
            ("--async-scheduling", self.async_scheduling),
            ("--speculative-tokens", self.speculative_tokens.is_some()),
            ("--draft-head", self.draft_head),
        ];
        if let Some((flag, _)) = vllm_only.into_iter().find(|(_, given)| *given) {
            return Err(Error::input(flag, "not an option of the SGLang scheduler", "Leave it out"));
        }
        Ok(SglangConfig {
            chunked_prefill_size: self.max_num_batched_tokens.unwrap_or(known.chunked_prefill_size),
            max_running_requests: self.max_num_seqs.unwrap_or(known.max_running_requests),
            context_length: self.max_model_len.unwrap_or(known.context_length),
            max_total_tokens: self.kv_tokens.unwrap_or(known.max_total_tokens),
            page_size: self.block_size.unwrap_or(known.page_size),
            radix_cache: !self.no_prefix_caching,
            ..known
        })
    }

    fn vllm(&self, known: SchedulerConfig) -> Result<SchedulerConfig> {
        let block_size = self.block_size.unwrap_or(known.block_size);
        if block_size == 0 {
            return Err(Error::input("--block-size", "0", "Give at least 1"));
        }
        let plan = u64::from(known.num_blocks - 1) * u64::from(known.block_size);
        let tokens = self.kv_tokens.unwrap_or(plan);
        let blocks = tokens / u64::from(block_size);
        if !(1..1 << 28).contains(&blocks) {
            let found = format!("{tokens} tokens make {blocks} blocks");
            return Err(Error::input("--kv-tokens", found, "Give 1 to 268435455 blocks"));
        }
        let groups = self.kv_groups.as_deref().map(kv_groups).transpose()?;
        let watermark = within("--watermark", self.watermark, 0.0, 1.0)?;
        Ok(SchedulerConfig {
            max_num_batched_tokens: self.max_num_batched_tokens.unwrap_or(known.max_num_batched_tokens),
            max_num_seqs: self.max_num_seqs.unwrap_or(known.max_num_seqs),
            max_model_len: self.max_model_len.unwrap_or(known.max_model_len),
            block_size,
            num_blocks: blocks as u32 + 1,
            enable_prefix_caching: !self.no_prefix_caching,
            enable_chunked_prefill: !self.no_chunked_prefill,
            long_prefill_token_threshold: self.long_prefill_token_threshold,
            policy: Policy::Fcfs,
            reserve_full_prompt: !self.no_reserve_full_prompt,
            watermark_blocks: (watermark * (blocks + 1) as f64) as u32,
            async_scheduling: self.async_scheduling,
            groups: groups.unwrap_or(known.groups),
            ..known
        })
    }
}

fn kv_groups(text: &str) -> Result<Vec<KvGroup>> {
    text.split(',')
        .map(|word| match (word, word.parse::<u32>()) {
            ("full", _) => Ok(KvGroup { window: None }),
            (_, Ok(window)) if window > 0 => Ok(KvGroup { window: Some(window) }),
            _ => Err(Error::input(format!("--kv-groups {word}"), "not a window", "Write full,128")),
        })
        .collect()
}
