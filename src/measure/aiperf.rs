//! A point in the layout of AIPerf's `profile_export_aiperf.json` (schema 1.4), so that its readers take it.
//!
//! Only what was measured is there; AIPerf's names, units and definitions.

use super::record::{Population, RequestRecord};
use super::stats::Distribution;
use super::summary::Point;
use serde_json::{Map, Value, json};

/// The document. `input_config` says what was asked, `command` how.
pub fn document(point: &Point, records: &[RequestRecord], input_config: Value, command: &str, seed: u64) -> Value {
    let ok: Vec<&RequestRecord> = records.iter().filter(|r| r.population == Population::Ok).collect();
    let mut d = Map::new();
    d.insert("schema_version".into(), json!("1.4"));
    d.insert("generator".into(), json!(concat!("inferasim ", env!("CARGO_PKG_VERSION"))));
    metrics(&mut d, point, &ok);
    d.insert("input_config".into(), input_config);
    d.insert("run_info".into(), json!({"random_seed": seed, "cli_command": command}));
    d.insert("was_cancelled".into(), json!(!point.complete));
    d.insert("is_complete".into(), json!(point.complete));
    let errors: Vec<Value> = point
        .requests
        .by_failure
        .iter()
        .map(|(kind, count)| json!({"error_details": {"type": kind}, "count": count}))
        .collect();
    d.insert("error_summary".into(), json!(errors));
    d.into()
}

fn metrics(d: &mut Map<String, Value>, point: &Point, ok: &[&RequestRecord]) {
    let scalar = |d: &mut Map<String, Value>, name: &str, unit: &str, v: f64| {
        // Where no request succeeded there is no rate and no total, only counts.
        let happened = !ok.is_empty() || unit == "requests" || unit == "%" || unit == "sec";
        d.insert(name.into(), json!({"unit": unit, "avg": happened.then_some(v)}));
    };
    let spread = |d: &mut Map<String, Value>, name: &str, unit: &str, v: Option<&Distribution>| {
        if let Some(v) = v {
            d.insert(name.into(), entry(unit, v));
        }
    };
    let of = |f: &dyn Fn(&RequestRecord) -> Option<f64>| Distribution::of("", ok.iter().filter_map(|r| f(r)));
    let total = |f: &dyn Fn(&RequestRecord) -> Option<f64>| ok.iter().filter_map(|r| f(r)).sum::<f64>();
    let m = &point.metrics;
    let (osl, isl) = (|r: &RequestRecord| r.osl.map(|n| n as f64), |r: &RequestRecord| r.isl.map(|n| n as f64));
    let reasoning = |r: &RequestRecord| match r.count_source.as_str() {
        "server" => r.tokens.server.and_then(|u| u.reasoning_tokens).map(|n| n as f64),
        _ => r.tokens.client_reasoning.map(|n| n as f64),
    };
    let answer = |r: &RequestRecord| osl(r).map(|n| (n - reasoning(r).unwrap_or(0.0)).max(0.0));
    let usage = |field: fn(&super::chunk::Usage) -> Option<u64>| {
        move |r: &RequestRecord| r.tokens.server.as_ref().and_then(field).map(|n| n as f64)
    };
    let mismatch = |r: &RequestRecord| {
        let asked = f64::from(r.requested_osl);
        osl(r).map(|n| 100.0 * (n - asked) / asked)
    };
    scalar(d, "request_throughput", "requests/sec", point.system.requests_s);
    spread(d, "request_latency", "ms", m.latency_ms.as_ref());
    scalar(d, "request_count", "requests", point.requests.ok as f64);
    spread(d, "time_to_first_token", "ms", m.ttft_ms.as_ref());
    spread(d, "time_to_second_token", "ms", m.second_token_ms.as_ref());
    spread(d, "time_to_first_output_token", "ms", m.ttfo_ms.as_ref());
    spread(d, "inter_token_latency", "ms", m.tpot_ms.as_ref());
    scalar(d, "output_token_throughput", "tokens/sec", point.system.output_tok_s);
    spread(d, "output_token_throughput_per_user", "tokens/sec/user", m.tok_s_per_user.as_ref());
    spread(d, "output_sequence_length", "tokens", m.osl.as_ref());
    spread(d, "input_sequence_length", "tokens", m.isl.as_ref());
    spread(d, "output_token_count", "tokens", of(&answer).as_ref());
    spread(d, "reasoning_token_count", "tokens", of(&reasoning).as_ref());
    spread(d, "inter_chunk_latency", "ms", m.itl_ms.as_ref());
    scalar(d, "total_output_tokens", "tokens", total(&answer));
    if ok.iter().any(|r| reasoning(r).is_some()) {
        scalar(d, "total_reasoning_tokens", "tokens", total(&reasoning));
    }
    scalar(d, "benchmark_duration", "sec", point.system.duration_s);
    scalar(d, "total_isl", "tokens", total(&isl));
    scalar(d, "total_osl", "tokens", total(&osl));
    spread(d, "e2e_output_token_throughput", "tokens/sec/user", m.e2e_tok_s.as_ref());
    spread(d, "prefill_throughput_per_user", "tokens/sec/user", m.prefill_tok_s.as_ref());
    spread(d, "decode_duration", "ms", of(&|r| r.decode_ms).as_ref());
    // AIPerf's runs to the end of the exchange, not to the last content chunk.
    let to_end = |r: &RequestRecord| Some(r.end_unix_ns.saturating_sub(r.scheduled_unix_ns) as f64 / 1e6);
    spread(d, "effective_latency", "ms", of(&to_end).as_ref());
    spread(d, "credit_to_start_latency", "ms", m.queue_ms.as_ref());
    spread(d, "usage_prompt_tokens", "tokens", of(&usage(|u| u.prompt_tokens)).as_ref());
    spread(d, "usage_completion_tokens", "tokens", of(&usage(|u| u.completion_tokens)).as_ref());
    spread(d, "usage_reasoning_tokens", "tokens", of(&usage(|u| u.reasoning_tokens)).as_ref());
    spread(d, "usage_prompt_tokens_diff_pct", "%", of(&|r| r.tokens.prompt_diff_pct.map(f64::abs)).as_ref());
    spread(d, "usage_completion_tokens_diff_pct", "%", of(&|r| r.tokens.output_diff_pct.map(f64::abs)).as_ref());
    spread(d, "osl_mismatch_diff_pct", "%", of(&mismatch).as_ref());
    scalar(d, "osl_mismatch_count", "requests", point.tokens.osl_mismatches as f64);
    scalar(d, "input_token_throughput", "tokens/sec", point.system.input_tok_s);
    scalar(d, "total_token_throughput", "tokens/sec", point.system.total_tok_s);
    let sent = point.requests.sent.max(1) as f64;
    scalar(d, "request_error_rate", "%", 100.0 * (sent - point.requests.ok as f64).max(0.0) / sent);
    if point.requests.ok < point.requests.sent {
        scalar(d, "error_request_count", "requests", (point.requests.sent - point.requests.ok) as f64);
    }
    scalar(d, "completed_request_count", "requests", point.requests.sent as f64);
    if let Some(goodput) = &point.goodput {
        scalar(d, "goodput", "requests/sec", goodput.requests_s);
    }
}

fn entry(unit: &str, v: &Distribution) -> Value {
    json!({
        "unit": unit, "avg": v.mean, "p1": v.p1, "p5": v.p5, "p10": v.p10, "p25": v.p25, "p50": v.p50, "p75": v.p75,
        "p90": v.p90, "p95": v.p95, "p99": v.p99, "min": v.min, "max": v.max, "std": v.std, "count": v.count,
        "sum": v.sum,
    })
}
