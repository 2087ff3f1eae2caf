//! The options of a scenario, and the scenario they make.

use crate::serve::scheduler::{KvGroup, Policy, SchedulerConfig, SglangConfig, VllmRules, vllm_server_defaults};
use crate::sim::distribution::{Gaps, Lengths};
use crate::sim::load::{Arrivals, LengthSource, LoadSpec, PrefixPool, Sessions};
use crate::sim::router::RouterPolicy;
use crate::sim::scenario::{Disaggregation, EngineConfig, Outage, Scenario};
use crate::sim::trace_file::{Trace, read_lengths};
use crate::{Error, Result};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// The law of the gaps between arrivals.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ArrivalLaw {
    /// Exponential gaps.
    Poisson,
    /// Gamma gaps; see --burstiness.
    Gamma,
    /// Equal gaps.
    Constant,
    /// The same as constant.
    Deterministic,
}

/// Options of the load, the engine and the fleet.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct ScenarioArgs {
    /// Requests per second of an open loop; `inf` sends all at once
    #[arg(long, value_name = "PER_S", conflicts_with_all = ["concurrency", "trace"])]
    rate: Option<f64>,
    /// Clients of a closed loop, each sending its next request when the last is answered
    #[arg(long, value_name = "CLIENTS", conflicts_with = "trace")]
    concurrency: Option<u32>,
    /// Replay requests: Mooncake JSONL, Azure CSV, or CSV/JSONL with arrival_s, input_length, output_length
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Divide the times of a trace by this
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    trace_speed: f64,
    /// Gaps between arrivals
    #[arg(long, value_enum, default_value = "poisson")]
    arrivals: ArrivalLaw,
    /// Shape of gamma gaps: below 1 burstier than Poisson, above 1 smoother
    #[arg(long, value_name = "SHAPE", default_value_t = 1.0)]
    burstiness: f64,
    /// Think time of a closed loop's clients and between turns, mean seconds; exponential
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    think_s: f64,
    /// Requests in all [default: 1000; 10 per client in a closed loop; a whole trace]
    #[arg(long, value_name = "COUNT")]
    requests: Option<u64>,
    /// Prompt lengths: 512, uniform:LOW:HIGH, ratio:NOMINAL:RATIO, lognormal:MEAN:SIGMA, geometric:MEAN,
    /// choice:LEN=WEIGHT,...
    #[arg(long, value_name = "LENGTHS", default_value = "1024")]
    isl: String,
    /// Answer lengths, likewise
    #[arg(long, value_name = "LENGTHS", default_value = "1024")]
    osl: String,
    /// Draw lengths from the rows of a CSV with input_length and output_length (else --osl)
    #[arg(long, value_name = "FILE")]
    lengths: Option<PathBuf>,
    /// Shared prefixes in front of prompts: COUNT:TOKENS[:ZIPF_EXPONENT]
    #[arg(long, value_name = "POOL")]
    prefix_pool: Option<String>,
    /// Turns of a conversation; each prompt holds all turns before it
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    turns: u32,
    /// Same seed, same run
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Do not measure the first so many requests
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    warmup_requests: u64,
    /// Nor the last so many
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    drain_requests: u64,

    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    fleet: FleetArgs,
}

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
#[command(next_help_heading = "Engine")]
struct EngineArgs {
    /// Whose scheduler to follow; SGLang's is a best effort
    #[arg(long, value_enum, default_value = "vllm")]
    scheduler: SchedulerKind,
    /// Release of vLLM whose rules to follow
    #[arg(long, value_name = "VERSION", default_value = "0.33.0")]
    vllm_version: String,
    /// Tokens of one step (SGLang: chunked_prefill_size) [default: 8192]
    #[arg(long, value_name = "TOKENS")]
    max_num_batched_tokens: Option<u32>,
    /// Requests that run at once (SGLang: max_running_requests) [default: 1024]
    #[arg(long, value_name = "COUNT")]
    max_num_seqs: Option<u32>,
    /// Tokens of one request
    #[arg(long, value_name = "TOKENS", default_value_t = 131_072)]
    max_model_len: u32,
    /// Tokens of the KV cache
    #[arg(long, value_name = "TOKENS", default_value_t = 524_288)]
    kv_tokens: u64,
    /// Tokens of one KV block or page [default: 16; SGLang 1]
    #[arg(long, value_name = "TOKENS")]
    block_size: Option<u32>,
    /// Layer groups of the KV cache, as windows in tokens: `full,128`
    #[arg(long, value_name = "WINDOWS", default_value = "full")]
    kv_groups: String,
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
    /// Draft tokens per request and step
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    speculative_tokens: u32,
    /// The drafts come from a draft head, which needs KV slots ahead
    #[arg(long)]
    draft_head: bool,
    /// Probability that a draft token is accepted when those before it were
    #[arg(long, value_name = "P", default_value_t = 0.7)]
    draft_acceptance: f64,
    /// Take every step singly, also where runs of equal decode steps could be taken at once
    #[arg(long)]
    step_by_step: bool,
}

/// Options of the fleet.
#[derive(Debug, Args)]
#[command(next_help_heading = "Fleet")]
struct FleetArgs {
    /// Engines behind the router
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    replicas: u32,
    /// round-robin, random, least-loaded, power-of-two, prefix-hash[:TOKENS], kv-overlap[:WEIGHT] or central
    #[arg(long, value_name = "POLICY", default_value = "round-robin")]
    router: String,
    /// KV tokens of a host tier behind each replica's prefix cache
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    host_kv_tokens: u64,
    /// Bandwidth of copies from the host tier, GB/s
    #[arg(long, value_name = "GB_S", default_value_t = 50.0)]
    host_link_gb_s: f64,
    /// Refuse requests when so many wait
    #[arg(long, value_name = "COUNT")]
    max_queue: Option<u32>,
    /// Let the first so many replicas compute prompts and the others decode
    #[arg(long, value_name = "COUNT")]
    prefill_replicas: Option<u32>,
    /// KV bytes of one token, to time transfers and copies
    #[arg(long, value_name = "BYTES", default_value_t = 131_072.0)]
    kv_bytes_per_token: f64,
    /// Bandwidth out of a prefill replica, GB/s
    #[arg(long, value_name = "GB_S", default_value_t = 50.0)]
    kv_link_gb_s: f64,
    /// Latency of a transfer, ms
    #[arg(long, value_name = "MS", default_value_t = 1.0)]
    kv_link_latency_ms: f64,
    /// A replica is away: REPLICA@FROM_S[-UNTIL_S]; 0 as FROM_S is a late start
    #[arg(long, value_name = "OUTAGE", num_args = 1..)]
    outage: Vec<String>,
}

impl ScenarioArgs {
    /// The scenario; a search over rates needs no rate.
    pub fn build(&self, searches_rates: bool) -> Result<Scenario> {
        let arrivals = self.arrivals(searches_rates)?;
        let requests = match (&arrivals, self.requests) {
            (Arrivals::Replay { trace, .. }, asked) => {
                let rows = trace.rows.len() as u64;
                asked.map_or(rows, |n| n.min(rows))
            }
            (_, Some(asked)) => asked,
            (Arrivals::Closed { clients, .. }, None) => 10 * u64::from(*clients),
            (Arrivals::Open { .. }, None) => 1000,
        };
        let osl = Lengths::parse("--osl", &self.osl)?;
        let lengths = match &self.lengths {
            Some(file) => LengthSource::Pairs(read_lengths(file)?, osl),
            None => LengthSource::Laws(Lengths::parse("--isl", &self.isl)?, osl),
        };
        let sessions = match self.turns {
            0 => return Err(Error::input("--turns", "0", "Give at least 1")),
            1 => None,
            turns => Some(Sessions { turns, think_s: self.think_s }),
        };
        let prefix = self.prefix_pool.as_deref().map(parse_prefix_pool).transpose()?;
        let load = LoadSpec { arrivals, lengths, requests, prefix, sessions, seed: self.seed };
        let mut scenario = Scenario::new(self.engine.config()?, load);
        scenario.draft_acceptance = within("--draft-acceptance", self.engine.draft_acceptance, 0.0, 1.0)?;
        scenario.one_by_one = self.engine.step_by_step;
        scenario.warmup_requests = self.warmup_requests;
        scenario.drain_requests = self.drain_requests;
        self.fleet.apply(&mut scenario)?;
        Ok(scenario)
    }

    fn arrivals(&self, searches_rates: bool) -> Result<Arrivals> {
        let gaps = match self.arrivals {
            ArrivalLaw::Poisson => Gaps::Exponential,
            ArrivalLaw::Gamma => Gaps::Gamma(within("--burstiness", self.burstiness, 1e-3, 1e6)?),
            ArrivalLaw::Constant | ArrivalLaw::Deterministic => Gaps::Constant,
        };
        if self.burstiness != 1.0 && !matches!(self.arrivals, ArrivalLaw::Gamma) {
            return Err(Error::input("--burstiness", "the arrivals are not gamma", "Add --arrivals gamma"));
        }
        let think_s = within("--think-s", self.think_s, 0.0, 1e6)?;
        match (&self.trace, self.concurrency, self.rate) {
            (Some(file), _, _) => {
                let speed = within("--trace-speed", self.trace_speed, 1e-6, 1e6)?;
                Ok(Arrivals::Replay { trace: Trace::read(file)?, speed })
            }
            (None, Some(clients), _) => {
                if !(1..=1_000_000).contains(&clients) {
                    return Err(Error::input("--concurrency", clients.to_string(), "Give 1 to 1000000"));
                }
                Ok(Arrivals::Closed { clients, think_s, think: Gaps::Exponential })
            }
            (None, None, Some(rate)) if rate == f64::INFINITY => Ok(Arrivals::Open { rate, gaps }),
            (None, None, Some(rate)) => Ok(Arrivals::Open { rate: within("--rate", rate, 1e-6, 1e9)?, gaps }),
            (None, None, None) if searches_rates => Ok(Arrivals::Open { rate: 1.0, gaps }),
            (None, None, None) => Err(Error::input("simulate", "no load", "Give --rate, --concurrency or --trace")),
        }
    }
}

impl EngineArgs {
    fn config(&self) -> Result<EngineConfig> {
        match self.scheduler {
            SchedulerKind::Vllm => Ok(EngineConfig::Vllm(self.vllm()?)),
            SchedulerKind::Sglang => Ok(EngineConfig::Sglang(self.sglang()?)),
        }
    }

    fn sglang(&self) -> Result<SglangConfig> {
        let vllm_only = [
            ("--kv-groups", self.kv_groups != "full"),
            ("--no-chunked-prefill", self.no_chunked_prefill),
            ("--long-prefill-token-threshold", self.long_prefill_token_threshold > 0),
            ("--no-reserve-full-prompt", self.no_reserve_full_prompt),
            ("--watermark", self.watermark > 0.0),
            ("--async-scheduling", self.async_scheduling),
            ("--speculative-tokens", self.speculative_tokens > 0),
            ("--draft-head", self.draft_head),
        ];
        if let Some((flag, _)) = vllm_only.into_iter().find(|(_, given)| *given) {
            return Err(Error::input(flag, "not an option of the SGLang scheduler", "Leave it out"));
        }
        let known = SglangConfig::default();
        Ok(SglangConfig {
            chunked_prefill_size: self.max_num_batched_tokens.unwrap_or(known.chunked_prefill_size),
            max_running_requests: self.max_num_seqs.unwrap_or(known.max_running_requests),
            context_length: self.max_model_len,
            max_total_tokens: self.kv_tokens,
            page_size: self.block_size.unwrap_or(known.page_size),
            radix_cache: !self.no_prefix_caching,
            ..known
        })
    }

    fn vllm(&self) -> Result<SchedulerConfig> {
        let (budget, sequences) = vllm_server_defaults(80.0, false);
        let block_size = self.block_size.unwrap_or(16);
        let max_num_batched_tokens = self.max_num_batched_tokens.unwrap_or(budget);
        if block_size == 0 {
            return Err(Error::input("--block-size", "0", "Give at least 1"));
        }
        let blocks = self.kv_tokens / u64::from(block_size);
        if !(1..1 << 28).contains(&blocks) {
            let found = format!("{} tokens make {blocks} blocks", self.kv_tokens);
            return Err(Error::input("--kv-tokens", found, "Give 1 to 268435455 blocks"));
        }
        let mut groups = Vec::new();
        for word in self.kv_groups.split(',') {
            let window = match word {
                "full" => None,
                word => match word.parse::<u32>() {
                    Ok(window) if window > 0 => Some(window),
                    _ => return Err(Error::input(format!("--kv-groups {word}"), "not a window", "Write full,128")),
                },
            };
            groups.push(KvGroup { window });
        }
        let watermark = within("--watermark", self.watermark, 0.0, 1.0)?;
        let config = SchedulerConfig {
            max_num_batched_tokens,
            max_num_seqs: self.max_num_seqs.unwrap_or(sequences),
            max_model_len: self.max_model_len,
            block_size,
            num_blocks: blocks as u32 + 1,
            enable_prefix_caching: !self.no_prefix_caching,
            enable_chunked_prefill: !self.no_chunked_prefill,
            long_prefill_token_threshold: self.long_prefill_token_threshold,
            policy: Policy::Fcfs,
            reserve_full_prompt: !self.no_reserve_full_prompt,
            watermark_blocks: (watermark * (blocks + 1) as f64) as u32,
            async_scheduling: self.async_scheduling,
            speculative_tokens: self.speculative_tokens.min(64),
            groups,
            rules: VllmRules::of_version(&self.vllm_version)?,
            ..SchedulerConfig::default()
        };
        Ok(config.resolve(self.draft_head))
    }
}

impl FleetArgs {
    fn apply_host_tier(&self, scenario: &mut Scenario) -> Result<()> {
        if self.host_kv_tokens == 0 {
            return Ok(());
        }
        let EngineConfig::Vllm(config) = &mut scenario.engine else {
            return Err(Error::input("--host-kv-tokens", "not modelled for SGLang", "Leave it out"));
        };
        let blocks = self.host_kv_tokens / u64::from(config.block_size);
        if !(1..1 << 28).contains(&blocks) {
            return Err(Error::input("--host-kv-tokens", format!("{blocks} blocks"), "Give 1 to 268435455 blocks"));
        }
        config.host_blocks = blocks as u32;
        let bytes = within("--kv-bytes-per-token", self.kv_bytes_per_token, 0.0, 1e9)?;
        scenario.host_seconds_per_token = bytes / (within("--host-link-gb-s", self.host_link_gb_s, 1e-6, 1e6)? * 1e9);
        Ok(())
    }

    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        scenario.replicas = self.replicas;
        scenario.router = RouterPolicy::parse(&self.router)?;
        scenario.queue_limit = self.max_queue;
        self.apply_host_tier(scenario)?;
        if let Some(prefill_replicas) = self.prefill_replicas {
            scenario.disaggregation = Some(Disaggregation {
                prefill_replicas,
                kv_bytes_per_token: within("--kv-bytes-per-token", self.kv_bytes_per_token, 0.0, 1e9)?,
                link_bytes_per_s: within("--kv-link-gb-s", self.kv_link_gb_s, 1e-6, 1e6)? * 1e9,
                latency_s: within("--kv-link-latency-ms", self.kv_link_latency_ms, 0.0, 1e6)? / 1e3,
            });
        }
        scenario.outages = self.outage.iter().map(|text| parse_outage(text)).collect::<Result<_>>()?;
        Ok(())
    }
}

fn within(flag: &str, value: f64, low: f64, high: f64) -> Result<f64> {
    if value >= low && value <= high {
        return Ok(value);
    }
    Err(Error::input(flag, value.to_string(), format!("Give {low} to {high}")))
}

fn parse_prefix_pool(text: &str) -> Result<PrefixPool> {
    let bad = || Error::input(format!("--prefix-pool {text}"), "not a pool", "Write COUNT:TOKENS[:ZIPF_EXPONENT]");
    let parts: Vec<&str> = text.split(':').collect();
    let (count, tokens, exponent) = match parts[..] {
        [count, tokens] => (count, tokens, "1"),
        [count, tokens, exponent] => (count, tokens, exponent),
        _ => return Err(bad()),
    };
    let count = count.parse::<u32>().ok().filter(|n| (1..=10_000_000).contains(n)).ok_or_else(bad)?;
    let tokens = tokens.parse::<u32>().ok().filter(|n| (1..=1 << 24).contains(n)).ok_or_else(bad)?;
    let exponent = exponent.parse::<f64>().ok().filter(|s| (0.0..=10.0).contains(s)).ok_or_else(bad)?;
    Ok(PrefixPool { prefixes: count, tokens, exponent })
}

fn parse_outage(text: &str) -> Result<Outage> {
    let bad =
        || Error::input(format!("--outage {text}"), "not an outage", "Write REPLICA@FROM_S or REPLICA@FROM_S-UNTIL_S");
    let seconds = |word: &str| word.parse::<f64>().ok().filter(|s| (0.0..=1e9).contains(s)).ok_or_else(bad);
    let (replica, span) = text.split_once('@').ok_or_else(bad)?;
    let (from, until) = span.split_once('-').map_or((span, None), |(f, u)| (f, Some(u)));
    Ok(Outage {
        replica: replica.parse().map_err(|_| bad())?,
        from_s: seconds(from)?,
        until_s: until.map(seconds).transpose()?,
    })
}
