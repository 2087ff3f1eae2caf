//! What a run observes: every request's times, laws that must hold, and who is present.

use super::clock::Time;
use super::histogram::DurationHistogram;
use super::scenario::Slos;
use super::timeline::Timeline;
use crate::serve::scheduler::{Content, Slot};

/// A request in the system.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// Its number in the load.
    pub number: u64,
    /// Client or session.
    pub client: u64,
    /// Prompt tokens.
    pub prompt_len: u32,
    /// Answer tokens.
    pub output_len: u32,
    /// Lower is served first, under the priority policy.
    pub priority: i64,
    /// Answer tokens so far.
    pub outputs: u32,
    /// Arrival at the router.
    pub arrival: Time,
    /// First scheduled.
    pub admitted: Option<Time>,
    /// First token.
    pub first_token: Time,
    /// Latest token.
    pub last_token: Time,
    /// Time spent outside the engine: tokens reach the client this much later than the engine gives them.
    pub outside: Time,
    /// The engine is done with it; its last token is on the way to the client.
    pub leaving: bool,
    /// Prompt tokens found in the prefix cache at first admission.
    pub hit_tokens: u32,
    /// Times it was preempted.
    pub preemptions: u32,
    /// Times it began anew because its replica failed.
    pub restarts: u32,
    /// The engine that has it.
    pub replica: usize,
    /// Its slot there.
    pub slot: Slot,
    /// Its first token comes from a prefill engine that has it now.
    pub in_prefill: bool,
    /// Kept where it may have to be sent elsewhere.
    pub content: Option<Content>,
}

/// A finished request, as a record file shows it. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestRecord {
    /// Its number in the load.
    pub number: u64,
    /// Arrival.
    pub arrival_s: f64,
    /// Arrival to first scheduling.
    pub queue_s: f64,
    /// Arrival to first token.
    pub ttft_s: f64,
    /// First scheduling to first token, in the engine.
    pub ttft_from_admission_s: f64,
    /// (E2E − TTFT)/(tokens − 1); NaN with one token.
    pub tpot_s: f64,
    /// Arrival to last token.
    pub e2e_s: f64,
    /// Prompt tokens.
    pub prompt_len: u32,
    /// Answer tokens.
    pub output_len: u32,
    /// Prompt tokens found in the prefix cache.
    pub hit_tokens: u32,
    /// Times preempted.
    pub preemptions: u32,
    /// Its priority.
    pub priority: i64,
    /// The engine that finished it.
    pub replica: u32,
}

impl RequestRecord {
    fn of(live: &Live) -> Self {
        let admitted = live.admitted.unwrap_or(live.arrival);
        let (arrival, first, last) = (live.arrival, live.first_token, live.last_token);
        Self {
            number: live.number,
            arrival_s: arrival.seconds(),
            queue_s: admitted.since(arrival).seconds(),
            ttft_s: first.after(live.outside).since(arrival).seconds(),
            ttft_from_admission_s: first.since(admitted).seconds(),
            tpot_s: last.since(first).seconds() / (f64::from(live.outputs) - 1.0),
            e2e_s: last.after(live.outside).since(arrival).seconds(),
            prompt_len: live.prompt_len,
            output_len: live.outputs,
            hit_tokens: live.hit_tokens,
            preemptions: live.preemptions,
            priority: live.priority,
            replica: live.replica as u32,
        }
    }

    /// It keeps every limit.
    pub fn keeps(&self, slos: &Slos) -> bool {
        let within = |value: f64, limit: Option<f64>| limit.is_none_or(|limit| value.is_nan() || value <= limit);
        within(self.ttft_s, slos.ttft_s) && within(self.tpot_s, slos.tpot_s) && within(self.e2e_s, slos.e2e_s)
    }
}

/// Why requests got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Refusals {
    /// Prompt and answer exceed the model's length.
    pub too_long: u64,
    /// Their KV exceeds the cache.
    pub too_big_for_cache: u64,
    /// The prompt exceeds a step and may not be split.
    pub too_big_for_step: u64,
    /// The queue was full.
    pub queue_full: u64,
    /// Given up: the engine could never go on with them.
    pub dropped: u64,
    /// Still there when the run ended: no replica was left, or the run's limit was reached.
    pub unserved: u64,
}

impl Refusals {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.too_long + self.too_big_for_cache + self.too_big_for_step + self.queue_full + self.dropped + self.unserved
    }
}

/// Samples and sums over a run.
#[derive(Debug, Default)]
pub struct RequestLog {
    /// Numbers measured: from … to, exclusive.
    pub measured: (u64, u64),
    /// Requests sent.
    pub sent: u64,
    /// Requests answered.
    pub finished: u64,
    /// Requests without an answer.
    pub refusals: Refusals,
    /// Restarts after failures.
    pub restarts: u64,
    /// Measured, finished requests.
    pub samples: Vec<RequestRecord>,
    /// Gaps between tokens of one request, all requests.
    pub gaps: DurationHistogram,
    /// Arrival of the last request.
    pub last_arrival: Time,
    /// Requests finished until then.
    pub finished_at_last_arrival: u64,
    /// Last event that changed a request.
    pub end: Time,
    /// Σ (prompt + answer − 1) over finished requests, counted per engine they used.
    pub lasting_tokens: u64,
    /// The run in a few hundred bins.
    pub timeline: Timeline,
    present: u64,
    changed: Time,
    presence: u128,
    sojourn: u128,
}

impl RequestLog {
    /// Measures the requests numbered `from` to `to`, exclusive.
    pub fn measuring(from: u64, to: u64) -> Self {
        Self { measured: (from, to), ..Self::default() }
    }

    /// A request enters the system.
    pub fn enter(&mut self, now: Time) {
        self.tick(now);
        self.present += 1;
        self.timeline.arrived(now);
    }

    fn tick(&mut self, now: Time) {
        self.presence += u128::from(self.present) * u128::from(now.since(self.changed).0);
        self.timeline.present(self.changed, now, self.present);
        self.changed = now;
        self.end = now;
    }

    /// A request leaves: answered, or not.
    pub fn leave(&mut self, live: &Live, now: Time, answered: bool) -> Option<RequestRecord> {
        self.tick(now);
        self.present -= 1;
        self.sojourn += u128::from(now.since(live.arrival).0);
        if !answered {
            return None;
        }
        self.finished += 1;
        self.timeline.finished(now, live.outputs);
        let record = RequestRecord::of(live);
        if (self.measured.0..self.measured.1).contains(&live.number) {
            self.samples.push(record);
        }
        Some(record)
    }

    /// Requests present now.
    pub fn present(&self) -> u64 {
        self.present
    }

    /// Time-average of the requests present, and Σ sojourn over the same time: Little's law says they are equal.
    pub fn little(&self) -> (f64, f64, bool) {
        let span = self.end.0.max(1) as f64;
        (self.presence as f64 / span, self.sojourn as f64 / span, self.presence == self.sojourn)
    }
}
