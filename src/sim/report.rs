//! What a run shows: rates, latencies, what the engines did, and whether the laws held.

use super::fleet::Fleet;
use super::histogram::{DurationHistogram, percentile};
use super::load::Arrivals;
use super::request_log::{Refusals, RequestRecord};
use super::scenario::{Scenario, Slos};
use super::timeline::Bin;
use serde::Serialize;

/// A latency over the measured requests, ms. Percentiles interpolate between ranks; ITL's are within 0.1 %.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Latency {
    /// From samples in seconds; NaN ones are left out.
    fn of(samples: impl Iterator<Item = f64>) -> Self {
        let mut ms: Vec<f64> = samples.filter(|s| s.is_finite()).map(|s| s * 1e3).collect();
        ms.sort_unstable_by(f64::total_cmp);
        let mean = if ms.is_empty() { 0.0 } else { ms.iter().sum::<f64>() / ms.len() as f64 };
        Self { mean, p50: percentile(&ms, 50.0), p90: percentile(&ms, 90.0), p99: percentile(&ms, 99.0) }
    }

    fn of_histogram(gaps: &DurationHistogram) -> Self {
        let p = |p| gaps.percentile_s(p) * 1e3;
        Self { mean: gaps.mean_s() * 1e3, p50: p(50.0), p90: p(90.0), p99: p(99.0) }
    }
}

/// Requests that keep every limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Goodput {
    /// The limits.
    pub slos: Slos,
    /// Share of the measured requests.
    pub share: f64,
    /// Per second.
    pub requests_s: f64,
}

/// What one engine did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EngineReport {
    /// Its number.
    pub replica: u32,
    /// Share of the run's time spent in steps.
    pub utilisation: f64,
    /// Steps.
    pub steps: u64,
    /// Share of the steps that carried prefill.
    pub prefill_step_share: f64,
    /// Sequences per step, time average while busy.
    pub mean_sequences: f64,
    /// Most sequences in one step.
    pub most_sequences: u32,
    /// Tokens of prefill and recomputation.
    pub prefill_tokens: u64,
    /// Tokens of decodes.
    pub decode_tokens: u64,
    /// Share of prompt tokens found in the prefix cache: hits / (hits + prefill).
    pub prefix_hit_rate: f64,
    /// Share of the KV blocks in use, time average over the run.
    pub kv_occupancy: f64,
    /// Highest share in use.
    pub kv_peak: f64,
    /// Cached blocks reused for other content.
    pub evictions: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Requests finished here.
    pub finished: u64,
}

/// Laws every run must obey.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Checks {
    /// Requests in the system, time average; and arrival rate times mean time in the system.
    pub little: (f64, f64),
    /// They are equal, to the picosecond.
    pub little_holds: bool,
    /// Tokens scheduled, found and loaded; and tokens that last, were lost, rejected or discarded.
    pub tokens: (u64, u64),
    /// They are equal.
    pub tokens_balance: bool,
    /// Every engine's blocks are all free or referenced, and none was left behind.
    pub blocks_balance: bool,
}

impl Checks {
    /// All hold.
    pub fn hold(&self) -> bool {
        self.little_holds && self.tokens_balance && self.blocks_balance
    }
}

/// The report of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Requests sent.
    pub sent: u64,
    /// Requests answered.
    pub finished: u64,
    /// Requests measured: answered, and neither warm-up nor drain.
    pub measured: u64,
    /// Requests without an answer, by reason.
    pub refused: Refusals,
    /// Requests begun anew after a failure.
    pub restarts: u64,
    /// First arrival to last answer, s.
    pub duration_s: f64,
    /// Requests per second that arrived, over the time of arrivals; `None` for a closed loop.
    pub offered_rate: Option<f64>,
    /// Requests answered per second, over the duration of the measured requests.
    pub achieved_rate: f64,
    /// Answer tokens per second, same duration.
    pub output_tok_s: f64,
    /// Prompt and answer tokens per second, same duration.
    pub total_tok_s: f64,
    /// Mean over replicas of the share of time spent in steps.
    pub utilisation: f64,
    /// The queue grew as long as requests came.
    pub saturated: bool,
    /// The run was stopped at its limit of steps.
    pub limit_reached: bool,
    /// Arrival to first scheduling.
    pub queue_ms: Latency,
    /// Arrival to first token.
    pub ttft_ms: Latency,
    /// First scheduling to first token.
    pub ttft_from_admission_ms: Latency,
    /// Time per output token after the first, per request.
    pub tpot_ms: Latency,
    /// Gaps between tokens, all requests of the run.
    pub itl_ms: Latency,
    /// Arrival to last token.
    pub e2e_ms: Latency,
    /// Where limits were given.
    pub goodput: Option<Goodput>,
    /// Requests in the system, time average.
    pub mean_present: f64,
    /// Share of requests that waited before they were scheduled.
    pub waited_share: f64,
    /// Per engine.
    pub engines: Vec<EngineReport>,
    /// Laws.
    pub checks: Checks,
    /// Width of a bin of `timeline`, s.
    pub bin_s: f64,
    /// The run over time.
    pub timeline: Vec<Bin>,
}

impl Report {
    /// Draws up the report of a finished run.
    pub(super) fn of(scenario: &Scenario, fleet: &Fleet<'_>) -> Self {
        let log = &fleet.log;
        let samples = &log.samples;
        let duration_s = log.end.seconds();
        let latency = |f: fn(&RequestRecord) -> f64| Latency::of(samples.iter().map(f));
        let first = samples.iter().map(|s| s.arrival_s).fold(f64::INFINITY, f64::min);
        let last = samples.iter().map(|s| s.arrival_s + s.e2e_s).fold(0.0, f64::max);
        let span = if samples.is_empty() { 0.0 } else { last - first };
        let per_second = |amount: f64| if span > 0.0 { amount / span } else { 0.0 };
        let outputs: u64 = samples.iter().map(|s| u64::from(s.output_len)).sum();
        let prompts: u64 = samples.iter().map(|s| u64::from(s.prompt_len)).sum();
        let arriving = log.last_arrival.seconds();
        let open = !matches!(scenario.load.arrivals, Arrivals::Closed { .. });
        let good = samples.iter().filter(|s| s.keeps(&scenario.slos)).count() as f64;
        let goodput = scenario.slos.any().then(|| Goodput {
            slos: scenario.slos,
            share: good / samples.len().max(1) as f64,
            requests_s: per_second(good),
        });
        let engines: Vec<EngineReport> = (0..fleet.replicas.len()).map(|r| engine(fleet, r, duration_s)).collect();
        let checks = checks(fleet);
        let (bin_s, timeline) = log.timeline.bins();
        let waited = samples.iter().filter(|s| s.queue_s > 0.0).count();
        Self {
            sent: log.sent,
            finished: log.finished,
            measured: samples.len() as u64,
            refused: log.refusals,
            restarts: log.restarts,
            duration_s,
            offered_rate: (open && arriving > 0.0).then(|| log.sent as f64 / arriving),
            achieved_rate: per_second(samples.len() as f64),
            output_tok_s: per_second(outputs as f64),
            total_tok_s: per_second((outputs + prompts) as f64),
            utilisation: engines.iter().map(|e| e.utilisation).sum::<f64>() / engines.len().max(1) as f64,
            saturated: open && is_saturated(fleet),
            limit_reached: fleet.limit_reached,
            queue_ms: latency(|s| s.queue_s),
            ttft_ms: latency(|s| s.ttft_s),
            ttft_from_admission_ms: latency(|s| s.ttft_from_admission_s),
            tpot_ms: latency(|s| s.tpot_s),
            itl_ms: Latency::of_histogram(&log.gaps),
            e2e_ms: latency(|s| s.e2e_s),
            goodput,
            mean_present: checks.little.0,
            waited_share: waited as f64 / samples.len().max(1) as f64,
            engines,
            checks,
            bin_s,
            timeline,
        }
    }
}

/// The queue kept growing while requests came: fewer were answered than arrived, and the wait of the last quarter
/// of requests is well above that of the second and no longer small against the service itself.
fn is_saturated(fleet: &Fleet<'_>) -> bool {
    let log = &fleet.log;
    if fleet.limit_reached {
        return true;
    }
    let behind = log.finished_at_last_arrival as f64 <= 0.98 * (log.sent - log.refusals.total()) as f64;
    let mut by_arrival: Vec<&RequestRecord> = log.samples.iter().collect();
    by_arrival.sort_by_key(|s| s.number);
    let quarter = by_arrival.len() / 4;
    if !behind || quarter < 5 {
        return false;
    }
    let mean = |part: &[&RequestRecord], f: fn(&RequestRecord) -> f64| {
        part.iter().map(|s| f(s)).sum::<f64>() / part.len().max(1) as f64
    };
    let second = mean(&by_arrival[quarter..2 * quarter], |s| s.queue_s);
    let last = mean(&by_arrival[3 * quarter..], |s| s.queue_s);
    let service = mean(&by_arrival, |s| s.e2e_s - s.queue_s);
    last > 1.5 * second && last > 0.1 * service
}

fn engine(fleet: &Fleet<'_>, replica: usize, duration_s: f64) -> EngineReport {
    let engine = &fleet.replicas[replica];
    let sums = &engine.sums;
    let busy = sums.busy.seconds();
    let usable = f64::from(engine.scheduler.load().usable_blocks.max(1));
    let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
    EngineReport {
        replica: replica as u32,
        utilisation: ratio(busy, duration_s),
        steps: sums.steps,
        prefill_step_share: ratio(sums.prefill_steps as f64, sums.steps as f64),
        mean_sequences: ratio(sums.sequence_seconds, busy),
        most_sequences: sums.most_sequences,
        prefill_tokens: sums.prefill_tokens,
        decode_tokens: sums.decode_tokens,
        prefix_hit_rate: ratio(sums.hit_tokens as f64, (sums.hit_tokens + sums.prefill_tokens) as f64),
        kv_occupancy: ratio(sums.block_seconds, duration_s * usable),
        kv_peak: f64::from(sums.most_blocks) / usable,
        evictions: engine.scheduler.evictions(),
        preemptions: sums.preemptions,
        finished: sums.finished,
    }
}

fn checks(fleet: &Fleet<'_>) -> Checks {
    let (present, sojourn, little_holds) = fleet.log.little();
    let mut taken = 0;
    let mut spent = fleet.log.lasting_tokens;
    let wastes = fleet.replicas.iter().map(|r| r.scheduler.waste()).chain([fleet.lost]);
    for waste in wastes {
        spent += waste.preempted + waste.rejected + waste.discarded + waste.aborted;
    }
    for replica in &fleet.replicas {
        let sums = &replica.sums;
        taken += sums.prefill_tokens + sums.decode_tokens + sums.hit_tokens + sums.loaded_tokens;
    }
    let whole = !fleet.limit_reached && fleet.log.refusals.unserved == 0;
    Checks {
        little: (present, sojourn),
        little_holds,
        tokens: (taken, spent),
        tokens_balance: taken == spent || !whole,
        blocks_balance: !whole || fleet.replicas.iter().all(|r| r.scheduler.blocks_balance()),
    }
}
