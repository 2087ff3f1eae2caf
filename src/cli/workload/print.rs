//! A result as lines of text.

use crate::inference::WorkloadResult;
use crate::inference::result::Spread;
use crate::report::terminal::table::{WIDTH, wrap};

/// Latencies, throughput, checks.
pub fn result(result: &WorkloadResult) -> Vec<String> {
    let m = &result.metrics;
    let threads = m.threads.map_or(String::new(), |t| format!(", {t} threads"));
    let computed = if m.computed_in == m.dtype { String::new() } else { format!(" computed in {}", m.computed_in) };
    let mut lines = vec![
        format!(
            "{} of a {} with {:.1} M parameters in {}{computed} on {}{threads}",
            m.mode,
            m.model_kind,
            m.parameter_count as f64 / 1e6,
            m.dtype,
            m.device
        ),
        format!(
            "batch {}, prompt {} tokens, {} generated, KV cache {}; {} of {} steps, {} clock",
            m.batch_size,
            m.prompt_len,
            m.generate_tokens,
            if m.kv_cache { "on" } else { "off" },
            result.executed_iterations,
            result.configured_iterations,
            m.clock.word()
        ),
        String::new(),
        format!("{:<18} {:>10} {:>10} {:>10}", "ms", "mean", "p50", "p99"),
    ];
    let mut row = |name: &str, spread: &Option<Spread>| {
        if let Some(s) = spread {
            lines.push(format!("{name:<18} {:>10.2} {:>10.2} {:>10.2}", s.mean, s.p50, s.p99));
        }
    };
    row("prefill", &m.prefill);
    row("decode step", &m.decode);
    row("time to first", &m.ttft);
    row("request", &m.request_latency);
    row("step with checks", &Spread::of(&result.step_times_ms));
    lines.push(String::new());
    if let Some(rate) = m.tokens_per_sec {
        let of = if m.decode.is_some() { "decoded tokens per second of decode" } else { "prompt tokens per second" };
        lines.push(format!("{rate:.1} {of}"));
    }
    if let Some(rate) = m.output_tokens_per_sec {
        lines.push(format!("{rate:.1} generated tokens per second of prefill and decode"));
    }
    if let (Some(done), Some(most)) = (m.requests_completed, m.max_active_requests) {
        lines.push(format!("{done} of {} requests completed, at most {most} at once", m.batch_size));
    }
    if let Some(checksum) = m.logits_checksum {
        lines.push(format!("checksum of the last logits {checksum}"));
    }
    if result.passed {
        lines.push("checks passed".into());
    }
    for failure in &result.failure_details {
        let step = failure.step.map_or(String::new(), |s| format!("step {s}: "));
        let detail = if failure.detail.is_empty() { String::new() } else { format!(" ({})", failure.detail) };
        lines.extend(wrap(&format!("FAILED {step}{}{detail}", failure.problems.join(", ")), WIDTH));
    }
    lines
}
