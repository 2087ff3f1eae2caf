//! What must a reader of a point know before believing it?

use super::point::PointPlan;
use super::record::{Population, RequestRecord};
use super::summary::Point;

/// Name parts of model families that reason before they answer (by their model cards).
const REASONING_MODELS: [&str; 18] = [
    "deepseek-r1",
    "deepseek-v3.1",
    "qwq",
    "qwen3",
    "gpt-oss",
    "kimi-k2-thinking",
    "kimi-k2.5",
    "kimi-k2.6",
    "glm-4.5",
    "glm-4.6",
    "glm-4.7",
    "glm-5",
    "minimax-m1",
    "minimax-m2",
    "magistral",
    "thinking",
    "reasoning",
    "nemotron",
];

/// How the warning of a buffered stream begins.
pub const BUFFERED: &str = "whole answers arrive at once";
/// No engine decodes a stream faster, ms a token; what does was held back on its way.
const LEAST_TPOT_MS: f64 = 0.2;

/// True when the model's name is one of a family known to reason.
pub fn known_to_reason(model: &str) -> bool {
    let name = model.to_ascii_lowercase().replace(['_', ' '], "-");
    REASONING_MODELS.iter().any(|part| name.contains(part)) && !name.contains("instruct")
}

/// Everything about the run that a point's warnings depend on.
pub struct Context<'a> {
    /// Name of the model.
    pub model: &'a str,
    /// The user's word on whether it reasons; none to go by the name.
    pub reasons: Option<bool>,
    /// Prompts are fresh, so a prefix cache should find nothing.
    pub fresh_prompts: bool,
    /// `min_tokens` and `ignore_eos` were sent.
    pub length_enforced: bool,
}

/// The warnings of a point.
pub fn of(point: &Point, plan: &PointPlan, records: &[RequestRecord], context: &Context) -> Vec<String> {
    let mut w = vec![];
    let requests = &point.requests;
    if requests.ok < requests.sent {
        let first = requests.first_failure.as_deref().unwrap_or("no message");
        w.push(format!(
            "{} of {} requests failed and {} were cut off; they are in no latency. First: {first}",
            requests.failed, requests.sent, requests.incomplete
        ));
    }
    if !point.complete {
        w.push(format!("the point was stopped early; {} planned requests were never sent", requests.not_sent));
    }
    turned_away(point, &mut w);
    client(point, plan, &mut w);
    lengths(point, context, &mut w);
    server(point, context, &mut w);
    reasoning(point, context, &mut w);
    let ok: Vec<&RequestRecord> = records.iter().filter(|r| r.population == Population::Ok && r.chunks >= 8).collect();
    let burst = |r: &&&RequestRecord| {
        r.chunks_in_first_read * 10 >= r.chunks * 9 || r.tpot_ms.is_some_and(|tpot| tpot < LEAST_TPOT_MS)
    };
    if !ok.is_empty() && ok.iter().filter(burst).count() * 2 > ok.len() {
        w.push(format!(
            "{BUFFERED}: something between server and client buffers the stream, so TTFT is the whole latency and TPOT is \
             meaningless"
        ));
    }
    w
}

fn turned_away(point: &Point, w: &mut Vec<String>) {
    let (r, m) = (&point.requests, &point.metrics);
    if r.sent_again == 0 {
        return;
    }
    let means = m.ttft_ms.as_ref().zip(m.ttft_admitted_ms.as_ref());
    let wait = means.map_or(String::new(), |(all, admitted)| {
        format!("; TTFT and latency count the wait, {:.1} ms a request on average", all.mean - admitted.mean)
    });
    w.push(format!(
        "{} of {} requests were turned away with 429 or 503 and sent again, {} times in all{wait}",
        r.sent_again, r.sent, r.turned_away
    ));
}

fn client(point: &Point, plan: &PointPlan, w: &mut Vec<String>) {
    let client = &point.client;
    if client.saturated {
        let late = client.wake_late_ms.as_ref().map_or(0.0, |d| d.p99);
        w.push(format!(
            "the client was saturated ({:.1} of {} cores busy, woken {late:.1} ms late at p99): latencies include it",
            client.cores_busy, client.cores
        ));
    }
    if client.clock_step_ms.abs() > 50.0 {
        w.push(format!(
            "the wall clock moved by {:.0} ms during the point; durations are monotonic and hold, Unix times do not",
            client.clock_step_ms
        ));
    }
    if plan.schedule_ns.is_some() && client.max_in_flight >= plan.max_in_flight {
        w.push(format!(
            "the open loop reached {} requests in flight and queued in the client; read latency_from_schedule_ms",
            client.max_in_flight
        ));
    }
    if let (Some(offered), Some(steady)) = (point.load.concurrency(), &point.steady)
        && steady.concurrency < 0.9 * offered as f64
    {
        w.push(format!("{:.1} requests in flight on average, where {offered} were offered", steady.concurrency));
    }
}

fn lengths(point: &Point, context: &Context, w: &mut Vec<String>) {
    let tokens = &point.tokens;
    if !context.length_enforced {
        w.push("the endpoint was not told a least answer length: the asked-for length is a cap".into());
    }
    if tokens.osl_mismatches > 0 {
        w.push(format!(
            "{} of {} answers are not as long as asked for; throughput at another length is another workload",
            tokens.osl_mismatches, point.requests.ok
        ));
    }
    if tokens.count_source.contains_key("client") {
        w.push("no usage from the server: lengths and TPOT rest on o200k_base counts of the text".into());
    }
    if tokens.duplicate_usage > 0 {
        w.push(format!("{} streams held more than one final usage; the last one counts", tokens.duplicate_usage));
    }
    if let Some(per_chunk) = tokens.tokens_per_chunk.filter(|t| *t > 1.25) {
        w.push(format!("{per_chunk:.2} tokens per chunk: itl is the gap between chunks, tpot that between tokens"));
    }
}

fn server(point: &Point, context: &Context, w: &mut Vec<String>) {
    let Some(server) = &point.server else { return };
    if server.counters_reset {
        w.push("a counter of /metrics fell during the point: the server restarted; no difference is given".into());
    }
    if let Some(rate) = server.prefix_cache_hit_rate.filter(|r| *r >= 0.01 && context.fresh_prompts) {
        w.push(format!("the prefix cache answered {:.1} % of the prompts although each is fresh", rate * 100.0));
    }
    if let Some(n) = server.preemptions.filter(|n| *n > 0.0) {
        w.push(format!("{n} preemptions: the KV cache was too small for this load"));
    }
}

fn reasoning(point: &Point, context: &Context, w: &mut Vec<String>) {
    let reasoning = &point.reasoning;
    let reasons = context.reasons.unwrap_or_else(|| known_to_reason(context.model));
    let (ttft, ttfo) = (point.metrics.ttft_ms.as_ref(), point.metrics.ttfo_ms.as_ref());
    if reasoning.parser == "inline" {
        w.push(
            "the answer holds <think> tags: no reasoning parser is configured, so TTFO is that of the reasoning; \
            ttfo_after_think_ms is the answer's"
                .into(),
        );
    } else if reasons && reasoning.parser == "none" && ttfo.is_some() && ttft.map(|d| d.sum) == ttfo.map(|d| d.sum) {
        w.push("TTFO equals TTFT on a model known to reason: its reasoning parser is probably not configured".into());
    }
    if reasoning.ttfo_coverage.is_some_and(|c| c < 1.0) {
        w.push(format!(
            "only {:.0} % of the requests reached an answer; TTFO speaks of those alone",
            reasoning.ttfo_coverage.unwrap_or(0.0) * 100.0
        ));
    }
    if reasoning.client_tokens.is_some() && reasoning.server_tokens.as_ref().is_some_and(|d| d.max == 0.0) {
        w.push("the server counts no reasoning token although reasoning text arrived".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_that_reason_are_known_by_name() {
        for model in ["deepseek-ai/DeepSeek-R1", "openai/gpt-oss-120b", "moonshotai/Kimi-K2.6", "Qwen/Qwen3-32B"] {
            assert!(known_to_reason(model), "{model}");
        }
        for model in ["meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen3-235B-A22B-Instruct-2507"] {
            assert!(!known_to_reason(model), "{model}");
        }
    }
}
