//! The flags of `inferasim project`.

use crate::cli::anchor::flags::AnchorFlags;
use crate::cli::tune::arguments::{SloList, slo_list, token_count};
use clap::Args;

fn ranks() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=4096)
}

/// Project one deployment: latency, throughput, memory, what binds it.
///
/// Exit codes: 0 an answer, 2 an error in input or a deployment no engine starts, 3 it does not fit or breaks a limit.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Machine: a built-in name or a YAML file
    #[arg(long, default_value = "mi355x")]
    pub target: String,
    /// Model: a built-in name, a config.json, or a folder that holds one [default: the target's]
    #[arg(long)]
    pub model: Option<String>,
    /// Engine: a built-in name or a YAML file [default: the target's]
    #[arg(long)]
    pub engine: Option<String>,
    /// Engine version, e.g. 0.11.0 [default: the newest described]
    #[arg(long)]
    pub engine_version: Option<String>,
    /// Ranks of one pipeline stage
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = ranks())]
    pub tp: u32,
    /// Expert-parallel groups inside the stage
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = ranks())]
    pub ep: u32,
    /// Attention-data-parallel groups inside the stage
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = ranks())]
    pub attention_dp: u32,
    /// Decode context parallelism: ranks that each hold a part of a sequence's KV cache instead of a copy of it (vLLM)
    #[arg(long, value_name = "RANKS", default_value_t = 1, allow_negative_numbers = true, value_parser = ranks())]
    pub context_parallel: u32,
    /// Pipeline stages
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub pp: u32,
    /// Independent copies behind a router
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = ranks())]
    pub replicas: u32,
    /// Prefill on instances of their own; the layout above is then that of the decode instances
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = ranks())]
    pub prefill_instances: Option<u32>,
    /// Ranks of one prefill instance [default: those of a decode instance]
    #[arg(long, requires = "prefill_instances", allow_negative_numbers = true, value_parser = ranks())]
    pub prefill_tp: Option<u32>,
    /// Expert-parallel groups of one prefill instance
    #[arg(long, requires = "prefill_instances", allow_negative_numbers = true, value_parser = ranks())]
    pub prefill_ep: Option<u32>,
    /// Attention-data-parallel groups of one prefill instance
    #[arg(long, requires = "prefill_instances", allow_negative_numbers = true, value_parser = ranks())]
    pub prefill_attention_dp: Option<u32>,
    /// Requests in flight over all replicas
    #[arg(long, default_value_t = 64, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub concurrency: u32,
    /// Prompt length, tokens [default: the target's]
    #[arg(long, allow_negative_numbers = true, value_parser = token_count)]
    pub isl: Option<u32>,
    /// Answer length, tokens [default: the target's]
    #[arg(long, allow_negative_numbers = true, value_parser = token_count)]
    pub osl: Option<u32>,
    /// Lengths are uniform on [ratio x nominal, nominal]; 1 is constant [default: the target's]
    #[arg(long, allow_negative_numbers = true)]
    pub range_ratio: Option<f64>,
    /// Share of each prompt answered from the prefix cache [default: the target's]
    #[arg(long, allow_negative_numbers = true)]
    pub prefix_hit_rate: Option<f64>,
    /// Share of the prefix hits that are copied in from host memory [default: the target's]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub host_hit_share: Option<f64>,
    /// Routed tokens of the busiest expert-parallel group over the mean group's [default: the target's, else 1.1]
    #[arg(long, value_name = "RATIO", allow_negative_numbers = true)]
    pub expert_imbalance: Option<f64>,
    /// Precision of the checkpoint, as the model's preset names it [default: the model's first]
    #[arg(long)]
    pub weight_dtype: Option<String>,
    /// KV cache format: bf16 or fp8 [default: the engine's on this GPU]
    #[arg(long)]
    pub kv_dtype: Option<String>,
    /// Token budget of a step [default: the engine's]
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    pub max_num_batched_tokens: Option<u32>,
    /// Limit on running sequences of an engine [default: the engine's]
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub max_num_seqs: Option<u32>,
    /// Memory fraction, by the engine's own meaning of it [default: the engine's]
    #[arg(long, allow_negative_numbers = true)]
    pub memory_fraction: Option<f64>,
    /// Nodes at hand [default: the target's]
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub nodes: Option<u32>,
    /// Fitted constants: a built-in name or a YAML file
    #[arg(long, default_value = "public")]
    pub calibration: String,
    /// Measured runs to stand on
    #[command(flatten)]
    pub anchors: AnchorFlags,
    /// Speculative decoding with this many draft tokens a step
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub speculation: Option<u32>,
    /// Mean tokens a step emits per sequence with speculation, 1 to K + 1 [default: the calibration's]
    #[arg(long, requires = "speculation")]
    pub tokens_per_step: Option<f64>,
    /// Limits, e.g. ttft_ms=500 tpot_ms=20
    #[arg(long, num_args = 1.., value_name = "KEY=VALUE", value_parser = slo_list)]
    pub slo: Vec<SloList>,
    /// Print every op, term and budget line behind the figures
    #[arg(long)]
    pub explain: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}
