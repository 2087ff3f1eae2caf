//! What does a point, and the whole run, say? The schema of `summary.json`.
//!
//! System metrics: duration = last end − first start over all requests, where an ok request ends with its last content
//! chunk (AIPerf's benchmark_duration); throughputs divide the ok requests' tokens by it. Latencies are of ok requests only; `with_failures` counts the others as infinitely late.

use super::load::Load;
use super::record::{Population, RequestRecord};
use super::saturation::ClientLoad;
use super::scrape::ServerDelta;
use super::shape::Shape;
use super::stats::{Distribution, WithFailures};
use super::window::{SteadyState, steady};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Schema of `summary.json`. A point of it is what becomes a measured anchor: shape, load, metrics and `origin`.
pub const SUMMARY_SCHEMA: &str = "inferasim.measure/1";

/// The formulas, printed with the numbers because the same words differ between tools.
pub const DEFINITIONS: [(&str, &str); 11] = [
    ("ttft_ms", "first content chunk, reasoning included, - start (AIPerf time_to_first_token)"),
    ("ttft_admitted_ms", "ttft from the try that was answered; absent when no request was turned away and sent again"),
    ("ttfo_ms", "first answer or tool-call chunk - start; absent when none came (AIPerf time_to_first_output_token)"),
    ("second_token_ms", "second - first content chunk (AIPerf time_to_second_token)"),
    ("latency_ms", "last content chunk - start (AIPerf request_latency)"),
    (
        "tpot_ms",
        "(latency - ttft) / (osl - 1); osl - tokens of the first chunk with usage on every chunk (AIPerf inter_token_latency)",
    ),
    ("itl_ms", "gaps between content chunks, pooled (AIPerf inter_chunk_latency)"),
    ("tok_s_per_user", "1 / tpot, averaged over requests (AIPerf output_token_throughput_per_user)"),
    (
        "output_tok_s",
        "sum of osl of ok requests / (last content chunk - first start) (AIPerf output_token_throughput, without its start-up)",
    ),
    ("latency_from_schedule_ms", "last content chunk - intended start, free of coordinated omission"),
    ("percentiles", "linear interpolation between order statistics; std divides by n"),
];

/// Requests by how they ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// Started.
    pub sent: usize,
    /// Complete, with tokens.
    pub ok: usize,
    /// An error, or no token.
    pub failed: usize,
    /// Cut off after the first token.
    pub incomplete: usize,
    /// Planned and never started.
    pub not_sent: usize,
    /// Sent again after 429 or 503.
    #[serde(default)]
    pub sent_again: usize,
    /// Answers of 429 and 503 that were followed by another try.
    #[serde(default)]
    pub turned_away: u64,
    /// Those that are not ok, by [`super::record::Failure::kind`].
    pub by_failure: BTreeMap<String, usize>,
    /// The first failure's words.
    pub first_failure: Option<String>,
}

/// Distributions over the ok requests. Null is not observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Metrics {
    pub ttft_ms: Option<Distribution>,
    /// Null where no request was sent again.
    #[serde(default)]
    pub ttft_admitted_ms: Option<Distribution>,
    pub ttfo_ms: Option<Distribution>,
    pub second_token_ms: Option<Distribution>,
    pub tpot_ms: Option<Distribution>,
    pub itl_ms: Option<Distribution>,
    pub latency_ms: Option<Distribution>,
    pub latency_from_schedule_ms: Option<Distribution>,
    pub queue_ms: Option<Distribution>,
    pub connect_ms: Option<Distribution>,
    pub tok_s_per_user: Option<Distribution>,
    pub e2e_tok_s: Option<Distribution>,
    pub prefill_tok_s: Option<Distribution>,
    pub isl: Option<Distribution>,
    pub osl: Option<Distribution>,
}

/// Totals over the point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// Last end − first start.
    pub duration_s: f64,
    /// Ok requests per second.
    pub requests_s: f64,
    /// Generated tokens per second.
    pub output_tok_s: f64,
    /// Prompt tokens per second.
    pub input_tok_s: f64,
    /// Both.
    pub total_tok_s: f64,
    /// Mean requests in flight, over all requests.
    pub concurrency: f64,
    /// Little's law: requests per second × mean time in the system, ok requests only.
    pub littles_law_concurrency: f64,
}

/// Token counts of client and server side by side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenCheck {
    /// Whose counts the metrics use, by number of requests.
    pub count_source: BTreeMap<String, usize>,
    /// Mean of 100 · (server − client) / client, prompts. A chat template makes it positive.
    pub prompt_diff_pct: Option<f64>,
    /// The same for everything generated. The client counts in o200k_base.
    pub output_diff_pct: Option<f64>,
    /// Ok requests whose answer length is not the one asked for.
    pub osl_mismatches: usize,
    /// Tokens per content chunk.
    pub tokens_per_chunk: Option<f64>,
    /// Ok requests with more than one final usage.
    pub duplicate_usage: usize,
}

/// Reasoning, as far as it can be told from outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// `separate` (own fields), `inline` (tags in the answer: no parser is configured) or `none`.
    pub parser: String,
    /// Requests with an answer / requests with any token.
    pub ttfo_coverage: Option<f64>,
    /// Reasoning tokens, the client's count.
    pub client_tokens: Option<Distribution>,
    /// Reasoning tokens, as the server states them.
    pub server_tokens: Option<Distribution>,
    /// First answer after an inline `</think>`.
    pub ttfo_after_think_ms: Option<Distribution>,
}

/// Requests that met every SLO.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    /// The limits, in the metric's unit.
    pub slo: BTreeMap<String, f64>,
    /// Requests that met them all.
    pub requests: usize,
    /// Per second.
    pub requests_s: f64,
    /// Among all requests that were sent.
    pub share: f64,
}

/// Percentiles in which a request without success is infinitely late.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct AdjustedForFailures {
    pub ttft_ms: WithFailures,
    pub latency_ms: WithFailures,
}

/// One load level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// `aa-1k-c4`; also the name of its folder.
    pub name: String,
    /// What was asked.
    pub shape: Shape,
    /// How.
    pub load: Load,
    /// Always `measured`.
    pub origin: crate::source::Origin,
    /// Start of the point, seconds of the Unix epoch.
    pub started_unix_s: f64,
    /// Everything planned was sent and ended by itself.
    pub complete: bool,
    #[allow(missing_docs)]
    pub requests: Requests,
    #[allow(missing_docs)]
    pub metrics: Metrics,
    #[allow(missing_docs)]
    pub system: System,
    /// The steady window; null with the reason beside it.
    pub steady: Option<SteadyState>,
    /// Why there is no steady window.
    pub steady_missing: Option<String>,
    /// Null without a failure.
    pub with_failures: Option<AdjustedForFailures>,
    /// Null without an SLO.
    pub goodput: Option<Goodput>,
    #[allow(missing_docs)]
    pub tokens: TokenCheck,
    #[allow(missing_docs)]
    pub reasoning: Reasoning,
    /// The server's own counters; null where there is no `/metrics`.
    pub server: Option<ServerDelta>,
    /// The client's own state.
    pub client: ClientLoad,
    /// What a reader must know.
    pub warnings: Vec<String>,
}

/// SLO names that goodput understands, with the metric of a record.
pub const SLO_NAMES: [&str; 5] = ["ttft_ms", "ttfo_ms", "tpot_ms", "latency_ms", "latency_from_schedule_ms"];

fn slo_value(record: &RequestRecord, name: &str) -> Option<f64> {
    match name {
        "ttft_ms" => record.ttft_ms,
        "ttfo_ms" => record.ttfo_ms,
        "tpot_ms" => record.tpot_ms,
        "latency_ms" => record.latency_ms,
        "latency_from_schedule_ms" => record.latency_from_schedule_ms,
        _ => None,
    }
}

/// Everything that the records of one point say by themselves.
pub fn summarise(
    name: &str,
    shape: &Shape,
    load: &Load,
    records: &[RequestRecord],
    not_sent: usize,
    slo: &BTreeMap<String, f64>,
    client: ClientLoad,
) -> Point {
    let ok: Vec<&RequestRecord> = records.iter().filter(|r| r.population == Population::Ok).collect();
    let requests = count(records, not_sent);
    let system = system(records, &ok);
    let window = steady(records, load);
    let failures = requests.sent - requests.ok;
    let goodput = (!slo.is_empty()).then(|| {
        let met = |r: &&&RequestRecord| slo.iter().all(|(name, limit)| slo_value(r, name).is_some_and(|v| v <= *limit));
        let good = ok.iter().filter(met).count();
        Goodput {
            slo: slo.clone(),
            requests: good,
            requests_s: rate(good as f64, system.duration_s),
            share: good as f64 / requests.sent.max(1) as f64,
        }
    });
    Point {
        name: name.into(),
        shape: shape.clone(),
        load: load.clone(),
        origin: crate::source::Origin::Measured,
        started_unix_s: records.iter().map(|r| r.start_unix_ns).min().unwrap_or(0) as f64 / 1e9,
        complete: not_sent == 0 && requests.by_failure.get("cancelled").is_none_or(|n| *n == 0),
        metrics: metrics(&ok),
        steady_missing: window.as_ref().err().cloned(),
        steady: window.ok(),
        with_failures: (failures > 0).then(|| AdjustedForFailures {
            ttft_ms: WithFailures::of(ok.iter().filter_map(|r| r.ttft_ms), failures),
            latency_ms: WithFailures::of(ok.iter().filter_map(|r| r.latency_ms), failures),
        }),
        goodput,
        tokens: tokens(&ok),
        reasoning: reasoning(&ok),
        server: None,
        requests,
        system,
        client,
        warnings: vec![],
    }
}

fn count(records: &[RequestRecord], not_sent: usize) -> Requests {
    let of = |p| records.iter().filter(|r| r.population == p).count();
    let mut by_failure = BTreeMap::new();
    for failure in records.iter().filter_map(|r| r.failure.as_ref()) {
        *by_failure.entry(failure.kind.clone()).or_default() += 1;
    }
    Requests {
        sent: records.len(),
        ok: of(Population::Ok),
        failed: of(Population::Failed),
        incomplete: of(Population::Incomplete),
        not_sent,
        sent_again: records.iter().filter(|r| r.turned_away > 0).count(),
        turned_away: records.iter().map(|r| u64::from(r.turned_away)).sum(),
        by_failure,
        first_failure: records.iter().find_map(|r| r.failure.as_ref()).map(|f| f.message.clone()),
    }
}

/// Distributions over ok requests.
pub fn metrics(ok: &[&RequestRecord]) -> Metrics {
    let of = |unit: &str, f: fn(&RequestRecord) -> Option<f64>| Distribution::of(unit, ok.iter().filter_map(|r| f(r)));
    Metrics {
        ttft_ms: of("ms", |r| r.ttft_ms),
        ttft_admitted_ms: of("ms", RequestRecord::ttft_admitted_ms).filter(|_| ok.iter().any(|r| r.turned_away > 0)),
        ttfo_ms: of("ms", |r| r.ttfo_ms),
        second_token_ms: of("ms", |r| r.second_token_ms),
        tpot_ms: of("ms", |r| r.tpot_ms),
        itl_ms: Distribution::of("ms", ok.iter().flat_map(|r| r.chunk_gaps_ms())),
        latency_ms: of("ms", |r| r.latency_ms),
        latency_from_schedule_ms: of("ms", |r| r.latency_from_schedule_ms),
        queue_ms: of("ms", |r| Some(r.queue_ms)),
        connect_ms: of("ms", |r| r.connect_ms),
        tok_s_per_user: of("tokens/s", |r| r.tok_s_per_user),
        e2e_tok_s: of("tokens/s", |r| r.e2e_tok_s),
        prefill_tok_s: of("tokens/s", |r| r.prefill_tok_s),
        isl: of("tokens", |r| r.isl.map(|n| n as f64)),
        osl: of("tokens", |r| r.osl.map(|n| n as f64)),
    }
}

fn rate(amount: f64, seconds: f64) -> f64 {
    // A sum of nothing is -0.
    if seconds > 0.0 { amount / seconds + 0.0 } else { 0.0 }
}

fn system(records: &[RequestRecord], ok: &[&RequestRecord]) -> System {
    let first = records.iter().map(|r| r.start_unix_ns).min().unwrap_or(0);
    // An ok request ends with its last content chunk, any other with its exchange.
    let end = |r: &RequestRecord| match r.latency_ms.filter(|_| r.population == Population::Ok) {
        Some(latency) => r.start_unix_ns + (latency * 1e6).round() as u64,
        None => r.end_unix_ns,
    };
    let last = records.iter().map(end).max().unwrap_or(0);
    let duration_s = last.saturating_sub(first) as f64 / 1e9;
    let output: f64 = ok.iter().filter_map(|r| r.osl).map(|n| n as f64).sum();
    let input: f64 = ok.iter().filter_map(|r| r.isl).map(|n| n as f64).sum();
    let busy = |r: &RequestRecord| (r.end_unix_ns.saturating_sub(r.start_unix_ns)) as f64 / 1e9;
    let in_system: f64 = ok.iter().map(|r| busy(r)).sum();
    System {
        duration_s,
        requests_s: rate(ok.len() as f64, duration_s),
        output_tok_s: rate(output, duration_s),
        input_tok_s: rate(input, duration_s),
        total_tok_s: rate(output + input, duration_s),
        concurrency: rate(records.iter().map(busy).sum(), duration_s),
        littles_law_concurrency: rate(in_system, duration_s),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    Distribution::of("", values).map(|d| d.mean)
}

fn tokens(ok: &[&RequestRecord]) -> TokenCheck {
    let mut count_source = BTreeMap::new();
    for r in ok {
        *count_source.entry(r.count_source.clone()).or_default() += 1;
    }
    let chunks: usize = ok.iter().map(|r| r.chunks).sum();
    let output: u64 = ok.iter().filter_map(|r| r.osl).sum();
    TokenCheck {
        count_source,
        prompt_diff_pct: mean(ok.iter().filter_map(|r| r.tokens.prompt_diff_pct)),
        output_diff_pct: mean(ok.iter().filter_map(|r| r.tokens.output_diff_pct)),
        osl_mismatches: ok.iter().filter(|r| r.osl.is_some_and(|n| n != u64::from(r.requested_osl))).count(),
        tokens_per_chunk: (chunks > 0).then(|| output as f64 / chunks as f64),
        duplicate_usage: ok.iter().filter(|r| r.final_usages > 1).count(),
    }
}

fn reasoning(ok: &[&RequestRecord]) -> Reasoning {
    let any = ok.iter().filter(|r| r.ttft_ms.is_some()).count();
    let answered = ok.iter().filter(|r| r.ttfo_ms.is_some()).count();
    let separate = ok.iter().any(|r| r.chunk_kinds.contains('r') || r.tokens.client_reasoning.is_some());
    let inline = ok.iter().any(|r| r.inline_think);
    Reasoning {
        parser: if inline {
            "inline"
        } else if separate {
            "separate"
        } else {
            "none"
        }
        .into(),
        ttfo_coverage: (any > 0).then(|| answered as f64 / any as f64),
        client_tokens: Distribution::of(
            "tokens",
            ok.iter().filter_map(|r| r.tokens.client_reasoning).map(|n| n as f64),
        ),
        server_tokens: Distribution::of(
            "tokens",
            ok.iter().filter_map(|r| r.tokens.server.and_then(|u| u.reasoning_tokens)).map(|n| n as f64),
        ),
        ttfo_after_think_ms: Distribution::of("ms", ok.iter().filter_map(|r| r.ttfo_after_think_ms)),
    }
}
