//! What is known of one request? The line of `requests.jsonl`, and the formula of every metric.
//!
//! Start: the request is taken up by a client, before any connection is opened. A *content chunk* holds tokens (see
//! [`super::chunk`]). Names in parentheses are AIPerf's.
//!
//! | field | formula |
//! |---|---|
//! | `ttft_ms` | first content chunk of any kind − start (time_to_first_token) |
//! | `ttfo_ms` | first content chunk with an answer or a tool call − start (time_to_first_output_token) |
//! | `second_token_ms` | second − first content chunk (time_to_second_token) |
//! | `ttft_admitted_ms` | TTFT − `turned_away_ms`: the same from the try that was answered; of a request sent once it is TTFT |
//! | `latency_ms` | last content chunk − start (request_latency) |
//! | `decode_ms` | latency − TTFT (decode_duration) |
//! | `tpot_ms` | (latency − TTFT) / (OSL − first), OSL ≥ 2 (inter_token_latency) |
//! | `chunk_gaps_ms` | gaps between neighbouring content chunks (inter_chunk_latency), pooled as `itl` |
//! | `tok_s_per_user` | 1 / TPOT (output_token_throughput_per_user) |
//! | `e2e_tok_s` | OSL / latency (e2e_output_token_throughput) |
//! | `prefill_tok_s` | ISL / TTFT (prefill_throughput_per_user) |
//! | `latency_from_schedule_ms` | last content chunk − intended start (AIPerf's effective_latency runs to the end of the exchange) |
//!
//! `first` is 1, or with usage on every chunk the tokens of the first content chunk.

use super::chunk::{Kind, Usage};
use serde::{Deserialize, Serialize};

/// Schema of a line of `requests.jsonl`.
pub const REQUEST_SCHEMA: &str = "inferasim.measure.request/1";

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Population {
    /// Tokens arrived and the stream said that it was complete.
    Ok,
    /// An error, or no token.
    Failed,
    /// Tokens arrived, then the stream was cut: reset, timed out, cancelled.
    Incomplete,
}

/// Why a request is not ok.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// `connect`, `tls`, `broken`, `timeout`, `protocol`, `http_status`, `not_a_stream`, `in_band_error`,
    /// `malformed_stream`, `no_tokens`, `truncated`, `engine_abort` or `cancelled`.
    pub kind: String,
    /// The server's or the system's words.
    pub message: String,
}

/// Token counts of both sides. Null is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Prompt, o200k_base, without the chat template.
    pub client_prompt: Option<u64>,
    /// Answer and tool calls, o200k_base over the joined text.
    pub client_answer: Option<u64>,
    /// Reasoning, o200k_base over the joined text.
    pub client_reasoning: Option<u64>,
    /// The server's usage.
    pub server: Option<Usage>,
    /// 100 · (server − client) / client, prompt.
    pub prompt_diff_pct: Option<f64>,
    /// 100 · (server − client) / client, everything generated.
    pub output_diff_pct: Option<f64>,
}

/// One request, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// [`REQUEST_SCHEMA`].
    pub schema: String,
    /// Name of the point, `aa-1k-c4`.
    pub point: String,
    /// Position in the point.
    pub index: usize,
    /// The X-Request-ID that was sent; vLLM repeats it in its log.
    pub request_id: String,
    /// How it ended.
    pub population: Population,
    /// Why it is not ok.
    pub failure: Option<Failure>,
    /// HTTP status, where a head arrived.
    pub http_status: Option<u16>,
    /// Retry-After of the answer in seconds.
    pub retry_after_s: Option<f64>,
    /// Intended start, nanoseconds of the Unix epoch.
    pub scheduled_unix_ns: u64,
    /// Start, nanoseconds of the Unix epoch (one wall-clock reading per run plus monotonic time).
    pub start_unix_ns: u64,
    /// End of the exchange, nanoseconds of the Unix epoch.
    pub end_unix_ns: u64,
    /// Start − intended start.
    pub queue_ms: f64,
    /// Opening the connection; null when a kept-alive one was reused.
    pub connect_ms: Option<f64>,
    /// Tries that 429 or 503 turned away before the one that this record tells of.
    #[serde(default)]
    pub turned_away: u32,
    /// Start to the try that this record tells of; null when that was the first.
    #[serde(default)]
    pub turned_away_ms: Option<f64>,
    /// Start to the response head.
    pub head_ms: Option<f64>,
    #[allow(missing_docs)]
    pub ttft_ms: Option<f64>,
    #[allow(missing_docs)]
    pub ttfo_ms: Option<f64>,
    /// First answer after an inline `</think>` − start; null without inline reasoning.
    pub ttfo_after_think_ms: Option<f64>,
    #[allow(missing_docs)]
    pub second_token_ms: Option<f64>,
    #[allow(missing_docs)]
    pub latency_ms: Option<f64>,
    #[allow(missing_docs)]
    pub latency_from_schedule_ms: Option<f64>,
    #[allow(missing_docs)]
    pub decode_ms: Option<f64>,
    #[allow(missing_docs)]
    pub tpot_ms: Option<f64>,
    #[allow(missing_docs)]
    pub tok_s_per_user: Option<f64>,
    #[allow(missing_docs)]
    pub e2e_tok_s: Option<f64>,
    #[allow(missing_docs)]
    pub prefill_tok_s: Option<f64>,
    /// Prompt tokens that the metrics use.
    pub isl: Option<u64>,
    /// Generated tokens that the metrics use, reasoning included.
    pub osl: Option<u64>,
    /// `server` or `client`: whose count `isl` and `osl` are.
    pub count_source: String,
    /// Answer tokens asked for.
    pub requested_osl: u32,
    /// Both sides' counts.
    pub tokens: Counts,
    /// Content chunks.
    pub chunks: usize,
    /// Socket reads that brought body bytes.
    pub reads: usize,
    /// Content chunks that share a read with the first one.
    pub chunks_in_first_read: usize,
    /// Milliseconds from start to each content chunk.
    pub chunk_ms: Vec<f64>,
    /// The kind of each content chunk: `r`, `a` or `t`.
    pub chunk_kinds: String,
    /// Tokens generated by the time of each content chunk, where usage came with every one.
    pub chunk_tokens: Option<Vec<u64>>,
    /// What the stream said of its end.
    pub finish_reason: Option<String>,
    /// `[DONE]` arrived.
    pub done: bool,
    /// `<think>` or `</think>` stood in the answer's text.
    pub inline_think: bool,
    /// Usage objects that stood apart from any choice; more than one is a duplicate.
    pub final_usages: usize,
    /// Body bytes.
    pub bytes: u64,
}

impl RequestRecord {
    /// TTFT from the try that was answered, in ms: the engine's own, without the wait for it to let the request in.
    pub fn ttft_admitted_ms(&self) -> Option<f64> {
        self.ttft_ms.map(|ttft| ttft - self.turned_away_ms.unwrap_or(0.0))
    }

    /// Gaps between neighbouring content chunks, in ms.
    pub fn chunk_gaps_ms(&self) -> impl Iterator<Item = f64> + '_ {
        self.chunk_ms.windows(2).map(|w| w[1] - w[0])
    }

    /// Fills every derived metric from `chunk_ms`, `isl` and `osl`; see the table above.
    pub fn derive(&mut self, start_after_schedule_ms: f64) {
        let Some((&first, &last)) = self.chunk_ms.first().zip(self.chunk_ms.last()) else { return };
        let answer = self.chunk_kinds.bytes().position(|k| k != b'r');
        self.ttft_ms = Some(first);
        self.ttfo_ms = answer.map(|i| self.chunk_ms[i]);
        self.second_token_ms = self.chunk_ms.get(1).map(|second| second - first);
        self.latency_ms = Some(last);
        self.latency_from_schedule_ms = Some(last + start_after_schedule_ms);
        self.decode_ms = Some(last - first);
        let in_first = self.chunk_tokens.as_ref().and_then(|t| t.first().copied()).unwrap_or(1).max(1);
        let divisor = self.osl.filter(|osl| *osl >= 2).map(|osl| osl.saturating_sub(in_first)).filter(|d| *d > 0);
        // Tokens that all arrive at once were not seen being decoded.
        self.tpot_ms = divisor.map(|d| (last - first) / d as f64).filter(|t| *t > 0.0);
        self.tok_s_per_user = self.tpot_ms.map(|t| 1e3 / t);
        self.e2e_tok_s = self.osl.filter(|_| last > 0.0).map(|osl| osl as f64 / last * 1e3);
        self.prefill_tok_s = self.isl.filter(|_| first > 0.0).map(|isl| isl as f64 / first * 1e3);
    }
}

/// The letter of a kind in `chunk_kinds`.
pub fn letter(kind: Kind) -> char {
    match kind {
        Kind::Reasoning => 'r',
        Kind::Answer => 'a',
        Kind::Tool => 't',
    }
}
