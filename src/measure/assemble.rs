//! How do stamped bytes become a record? Runs beside the sending threads, never on them.

use super::chunk::{Chunk, Usage, error_text};
use super::http::{Fault, Head};
use super::prompt::Tokenizer;
use super::record::{Counts, Failure, Population, REQUEST_SCHEMA, RequestRecord, letter};
use super::sse::{Event, Splitter};

/// What was asked, as far as the record needs it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Name of the point.
    pub point: String,
    /// Position in the point.
    pub index: usize,
    /// X-Request-ID.
    pub request_id: String,
    /// Prompt tokens, o200k_base.
    pub prompt_tokens: Option<u64>,
    /// Answer tokens asked for.
    pub osl: u32,
}

/// When and how the exchange ended; nanoseconds of the run.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Intended start.
    pub scheduled_ns: u64,
    /// Start.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Opening the connection.
    pub connect_ms: Option<f64>,
    /// Tries that the endpoint turned away before the last one, and when that began.
    pub turned_away: Option<(u32, u64)>,
    /// What broke it off; none for an answer that ended by itself.
    pub fault: Option<Fault>,
    /// The run was interrupted or out of time.
    pub cancelled: bool,
}

/// Whose token counts the metrics use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CountBy {
    /// The server's usage, and the client's count where there is none.
    Server,
    /// o200k_base over the joined text.
    Client,
}

/// Collects one exchange.
#[derive(Debug, Default)]
pub struct Assembler {
    head: Option<(u64, Head)>,
    splitter: Splitter,
    body: Vec<u8>,
    bytes: u64,
    reads: usize,
    last_read_ns: u64,
    at_ns: Vec<u64>,
    kinds: String,
    tokens: Vec<Option<u64>>,
    answer: String,
    reasoning: String,
    after_think_ns: Option<u64>,
    usage: Option<Usage>,
    final_usages: usize,
    finish_reason: Option<String>,
    done: bool,
    error: Option<String>,
    malformed: Option<String>,
}

/// Bytes of a body that is no stream kept for its message.
const KEPT_BODY: usize = 64 << 10;

impl Assembler {
    /// The head of the answer.
    pub fn head(&mut self, at_ns: u64, head: Head) {
        self.head = Some((at_ns, head));
    }

    fn streams(&self) -> bool {
        self.head.as_ref().is_none_or(|(_, h)| h.status == 200 && h.content_type.contains("text/event-stream"))
    }

    /// Body bytes of one read.
    pub fn bytes(&mut self, at_ns: u64, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.reads += usize::from(at_ns != self.last_read_ns);
        self.last_read_ns = at_ns;
        if !self.streams() {
            let room = KEPT_BODY.saturating_sub(self.body.len());
            self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
            return;
        }
        let mut splitter = std::mem::take(&mut self.splitter);
        splitter.feed(at_ns, bytes, &mut |event| self.event(&event));
        self.splitter = splitter;
    }

    /// One event of the stream.
    pub fn event(&mut self, event: &Event) {
        if event.data == b"[DONE]" {
            self.done = true;
            return;
        }
        let chunk = match Chunk::parse(&event.data) {
            Ok(chunk) => chunk,
            Err(why) => {
                if event.kind.as_deref() == Some("error") {
                    self.error.get_or_insert(String::from_utf8_lossy(&event.data).into_owned());
                }
                self.malformed.get_or_insert(why);
                return;
            }
        };
        if let Some(error) = &chunk.error {
            self.error.get_or_insert(error.clone());
        }
        if let Some(kind) = chunk.kind {
            self.at_ns.push(event.at_ns);
            // Only chunks that answer count for TTFO, even when reasoning stands in the same chunk.
            self.kinds.push(if chunk.answers() && kind == super::chunk::Kind::Reasoning { 'a' } else { letter(kind) });
            self.tokens.push(chunk.usage.and_then(|u| u.completion_tokens));
            self.answer.push_str(&chunk.answer);
            self.answer.push_str(&chunk.tool);
            self.reasoning.push_str(&chunk.reasoning);
            if self.after_think_ns.is_none()
                && let Some(close) = self.answer.find("</think>")
                && !self.answer[close + 8..].trim().is_empty()
            {
                self.after_think_ns = Some(event.at_ns);
            }
        }
        if let Some(usage) = chunk.usage {
            self.usage = Some(usage);
            self.final_usages += usize::from(!chunk.has_choice);
        }
        self.finish_reason = chunk.finish_reason.or(self.finish_reason.take());
    }

    /// The record of the exchange. `unix_ns` is the wall clock at the run's zero.
    pub fn finish(
        mut self,
        asked: &Asked,
        ended: &Ended,
        by: CountBy,
        tokenizer: Option<&Tokenizer>,
        unix_ns: u64,
    ) -> RequestRecord {
        let mut splitter = std::mem::take(&mut self.splitter);
        splitter.finish(self.last_read_ns, &mut |event| self.event(&event));
        self.splitter = splitter;
        let (population, failure) = match self.verdict(ended) {
            None => (Population::Ok, None),
            Some((population, kind, message)) => (population, Some(Failure { kind: kind.into(), message })),
        };
        let tokens = self.counts(asked, tokenizer);
        let server = tokens.server.filter(|u| u.completion_tokens.is_some());
        let client_output =
            tokens.client_answer.map(|a| a + tokens.client_reasoning.unwrap_or(0)).filter(|_| !self.at_ns.is_empty());
        let (osl, count_source) = match server.filter(|_| by == CountBy::Server) {
            Some(usage) => (usage.completion_tokens, "server"),
            None => (client_output, "client"),
        };
        let server_prompt = tokens.server.and_then(|u| u.prompt_tokens).filter(|_| count_source == "server");
        let first = self.at_ns.first().copied();
        let ms = |ns: u64| (ns as f64 - ended.start_ns as f64) / 1e6;
        let inline = self.answer.contains("</think>") || self.answer.trim_start().starts_with("<think>");
        let mut record = RequestRecord {
            schema: REQUEST_SCHEMA.into(),
            point: asked.point.clone(),
            index: asked.index,
            request_id: asked.request_id.clone(),
            population,
            failure,
            http_status: self.head.as_ref().map(|h| h.1.status),
            retry_after_s: self.head.as_ref().and_then(|h| h.1.retry_after_s),
            scheduled_unix_ns: unix_ns + ended.scheduled_ns,
            start_unix_ns: unix_ns + ended.start_ns,
            end_unix_ns: unix_ns + ended.end_ns,
            queue_ms: (ended.start_ns as f64 - ended.scheduled_ns as f64) / 1e6,
            connect_ms: ended.connect_ms,
            turned_away: ended.turned_away.map_or(0, |(tries, _)| tries),
            turned_away_ms: ended.turned_away.map(|(_, began_ns)| ms(began_ns)),
            head_ms: self.head.as_ref().map(|h| ms(h.0)),
            ttft_ms: None,
            ttfo_ms: None,
            ttfo_after_think_ms: self.after_think_ns.map(ms),
            second_token_ms: None,
            latency_ms: None,
            latency_from_schedule_ms: None,
            decode_ms: None,
            tpot_ms: None,
            tok_s_per_user: None,
            e2e_tok_s: None,
            prefill_tok_s: None,
            isl: server_prompt.or(asked.prompt_tokens),
            osl,
            count_source: count_source.into(),
            requested_osl: asked.osl,
            tokens,
            chunks: self.at_ns.len(),
            reads: self.reads,
            chunks_in_first_read: self.at_ns.iter().filter(|t| Some(**t) == first).count(),
            chunk_ms: self.at_ns.iter().map(|t| ms(*t)).collect(),
            chunk_kinds: self.kinds,
            chunk_tokens: self.tokens.iter().copied().collect(),
            finish_reason: self.finish_reason,
            done: self.done,
            inline_think: inline,
            final_usages: self.final_usages,
            bytes: self.bytes,
        };
        record.chunk_tokens = record.chunk_tokens.filter(|t| !t.is_empty());
        record.derive(record.queue_ms);
        record
    }

    fn counts(&self, asked: &Asked, tokenizer: Option<&Tokenizer>) -> Counts {
        let count = |text: &str| tokenizer.map(|t| t.count(text) as u64);
        let any = !self.at_ns.is_empty();
        let mut c = Counts {
            client_prompt: asked.prompt_tokens,
            client_answer: count(&self.answer).filter(|_| any),
            client_reasoning: count(&self.reasoning).filter(|n| *n > 0),
            server: self.usage,
            ..Counts::default()
        };
        let diff = |server: Option<u64>, client: Option<u64>| {
            let (server, client) = (server?, client.filter(|c| *c > 0)?);
            Some(100.0 * (server as f64 - client as f64) / client as f64)
        };
        let usage = self.usage.unwrap_or_default();
        c.prompt_diff_pct = diff(usage.prompt_tokens, c.client_prompt);
        c.output_diff_pct =
            diff(usage.completion_tokens, c.client_answer.map(|a| a + c.client_reasoning.unwrap_or_default()));
        c
    }

    /// None for ok. The first thing that went wrong decides.
    fn verdict(&self, ended: &Ended) -> Option<(Population, &'static str, String)> {
        use Population::{Failed, Incomplete};
        let cut = if self.at_ns.is_empty() { Failed } else { Incomplete };
        if let Some((_, head)) = &self.head {
            if head.status != 200 {
                return Some((Failed, "http_status", format!("HTTP {}: {}", head.status, self.body_message())));
            }
            if !self.streams() {
                let kind = if head.content_type.is_empty() { "no Content-Type" } else { &head.content_type };
                let message = format!("{kind} instead of text/event-stream: {}", self.body_message());
                let in_band = serde_json::from_slice::<serde_json::Value>(&self.body)
                    .is_ok_and(|v| v.get("error").is_some_and(|e| !e.is_null()));
                return Some((Failed, if in_band { "in_band_error" } else { "not_a_stream" }, message));
            }
        }
        if let Some(error) = &self.error {
            return Some((Failed, "in_band_error", error.clone()));
        }
        if let Some(why) = &self.malformed {
            return Some((Failed, "malformed_stream", why.clone()));
        }
        if self.splitter.overlong {
            return Some((Failed, "malformed_stream", "an event longer than 8 MiB".into()));
        }
        if let Some(reason @ ("abort" | "error")) = self.finish_reason.as_deref() {
            return Some((Failed, "engine_abort", format!("finish_reason {reason}")));
        }
        // After [DONE] nothing more was due: a server that then holds or drops the connection has answered.
        if !self.done {
            if ended.cancelled {
                return Some((cut, "cancelled", "cut off by the end of the run".into()));
            }
            match &ended.fault {
                Some(Fault::Connect(m)) => return Some((cut, "connect", m.clone())),
                Some(Fault::Tls(m)) => return Some((cut, "tls", m.clone())),
                Some(Fault::Broken(m)) => return Some((cut, "broken", m.clone())),
                Some(Fault::Timeout(m)) => return Some((cut, "timeout", m.clone())),
                Some(Fault::Protocol(m)) => return Some((cut, "protocol", m.clone())),
                None => {}
            }
        }
        if self.at_ns.is_empty() {
            let usage = self.usage.and_then(|u| u.completion_tokens);
            let said = usage.map_or(String::new(), |n| format!("; the server's usage says {n} tokens"));
            return Some((Failed, "no_tokens", format!("the stream held no token{said}")));
        }
        if self.splitter.cut_inside_event() || (!self.done && self.finish_reason.is_none()) {
            let inside = if self.splitter.cut_inside_event() { ", inside an event" } else { "" };
            return Some((cut, "truncated", format!("the stream ended without finish_reason or [DONE]{inside}")));
        }
        None
    }

    fn body_message(&self) -> String {
        let text = match serde_json::from_slice::<serde_json::Value>(&self.body) {
            Ok(value) => error_text(&value),
            Err(_) => String::from_utf8_lossy(&self.body).into_owned(),
        };
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.is_empty() { "no message".into() } else { line.chars().take(300).collect() }
    }
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
