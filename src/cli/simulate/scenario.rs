//! The options of a scenario, and the scenario they make.

use super::deployment::{DeploymentArgs, LoadShape, Projected};
use super::engine::EngineArgs;
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
    #[arg(long, value_name = "PER_S", allow_negative_numbers = true, conflicts_with_all = ["concurrency", "trace"])]
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
    /// Serve by priority, lower first, with these shares of the requests: VALUE[=SHARE],...; vLLM's policy `priority`
    #[arg(long, value_name = "CLASSES", allow_hyphen_values = true)]
    priority: Option<String>,
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
    #[command(flatten)]
    pub deployment: DeploymentArgs,
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
    /// KV bytes of one token, to time transfers and copies [default: the model's; 131072]
    #[arg(long, value_name = "BYTES")]
    kv_bytes_per_token: Option<f64>,
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

/// KV bytes of one token of an 8-billion-parameter model with grouped-query attention in 16 bits: 32 layers, 8 heads
/// of 128 values, keys and values.
const PLAIN_KV_BYTES: f64 = 131_072.0;

impl ScenarioArgs {
    /// The scenario, and the deployment whose steps it takes where one is named; a search over rates needs no rate.
    pub fn build(&self, searches_rates: bool) -> Result<(Scenario, Option<Projected>)> {
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
        let isl = Lengths::parse("--isl", &self.isl)?;
        let projected = self.projected(&isl, &osl, &arrivals, requests)?;
        let lengths = match &self.lengths {
            Some(file) => LengthSource::Pairs(read_lengths(file)?, osl),
            None => LengthSource::Laws(isl, osl),
        };
        let sessions = match self.turns {
            0 => return Err(Error::input("--turns", "0", "Give at least 1")),
            1 => None,
            turns => Some(Sessions { turns, think_s: self.think_s }),
        };
        let prefix = self.prefix_pool.as_deref().map(parse_prefix_pool).transpose()?;
        let priorities = self.priority.as_deref().map_or(Ok(Vec::new()), parse_priorities)?;
        let load = LoadSpec { arrivals, lengths, requests, prefix, sessions, priorities, seed: self.seed };
        let engine = match &projected {
            Some(p) => self.engine.of_deployment(p.instance.engine.clone(), p.instance.draft_acceptance)?,
            None => self.engine.plain()?,
        };
        let mut scenario = Scenario::new(engine.config, load);
        if self.priority.is_some() {
            scenario.engine.serve_by_priority()?;
        }
        scenario.draft_acceptance = engine.draft_acceptance;
        scenario.one_by_one = self.engine.step_by_step;
        scenario.warmup_requests = self.warmup_requests;
        scenario.drain_requests = self.drain_requests;
        let kv_bytes = projected.as_ref().map_or(PLAIN_KV_BYTES, |p| p.kv_bytes_per_token);
        self.fleet.apply(&mut scenario, kv_bytes)?;
        Ok((scenario, projected))
    }

    fn projected(&self, isl: &Lengths, osl: &Lengths, arrivals: &Arrivals, requests: u64) -> Result<Option<Projected>> {
        if !self.deployment.is_given() {
            return match self.deployment.stray_flag() {
                Some(flag) => Err(Error::input(flag, "no deployment is named", "Add --target and --model")),
                None => Ok(None),
            };
        }
        let clients = match arrivals {
            Arrivals::Closed { clients, .. } => Some(*clients),
            _ => None,
        };
        let shape = LoadShape {
            isl,
            osl,
            clients,
            replicas: self.fleet.replicas,
            waves: clients.map(|c| requests as f64 / f64::from(c)),
            max_num_batched_tokens: self.engine.max_num_batched_tokens,
            max_num_seqs: self.engine.max_num_seqs,
            max_model_len: self.engine.max_model_len,
        };
        self.deployment.load(&shape).map(Some)
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

impl FleetArgs {
    fn apply_host_tier(&self, scenario: &mut Scenario, kv_bytes: f64) -> Result<()> {
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
        scenario.host_seconds_per_token =
            kv_bytes / (within("--host-link-gb-s", self.host_link_gb_s, 1e-6, 1e6)? * 1e9);
        Ok(())
    }

    fn apply(&self, scenario: &mut Scenario, known_kv_bytes: f64) -> Result<()> {
        let kv_bytes = within("--kv-bytes-per-token", self.kv_bytes_per_token.unwrap_or(known_kv_bytes), 0.0, 1e9)?;
        scenario.replicas = self.replicas;
        scenario.router = RouterPolicy::parse(&self.router)?;
        scenario.queue_limit = self.max_queue;
        self.apply_host_tier(scenario, kv_bytes)?;
        if let Some(prefill_replicas) = self.prefill_replicas {
            scenario.disaggregation = Some(Disaggregation {
                prefill_replicas,
                kv_bytes_per_token: kv_bytes,
                link_bytes_per_s: within("--kv-link-gb-s", self.kv_link_gb_s, 1e-6, 1e6)? * 1e9,
                latency_s: within("--kv-link-latency-ms", self.kv_link_latency_ms, 0.0, 1e6)? / 1e3,
            });
        }
        scenario.outages = self.outage.iter().map(|text| parse_outage(text)).collect::<Result<_>>()?;
        Ok(())
    }
}

pub fn within(flag: &str, value: f64, low: f64, high: f64) -> Result<f64> {
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

fn parse_priorities(text: &str) -> Result<Vec<(i64, f64)>> {
    let bad = || Error::input(format!("--priority {text}"), "not priorities", "Write VALUE=SHARE,..., such as 0=1,5=3");
    let mut classes = Vec::new();
    for pair in text.split(',') {
        let (value, share) = pair.split_once('=').unwrap_or((pair, "1"));
        let share = share.parse::<f64>().ok().filter(|s| (0.0..=1e9).contains(s)).ok_or_else(bad)?;
        classes.push((value.parse::<i64>().map_err(|_| bad())?, share));
    }
    let total: f64 = classes.iter().map(|c| c.1).sum();
    if total <= 0.0 {
        return Err(bad());
    }
    let mut sum = 0.0;
    for class in &mut classes {
        sum += class.1 / total;
        class.1 = sum;
    }
    Ok(classes)
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
