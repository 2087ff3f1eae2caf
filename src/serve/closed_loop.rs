//! A closed loop of C clients in closed form: what a benchmark of `waves · C` prompts reports.
//!
//! Every client sends its next prompt when its answer ends. The first wave arrives all at once; after it, prompts
//! arrive as answers end, so decode progress, not a clock, triggers prefills.

use crate::cost::{Constants, DecodeWork, PrefillTime, PrefillWork, StepTime};

/// One instance's load, in sequences and tokens.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Clients of this instance.
    pub clients: f64,
    /// Requests that run at once: clients, or what memory or the engine admits.
    pub running: f64,
    /// Mean prompt length, tokens.
    pub isl: f64,
    /// Mean answer length, tokens.
    pub osl: f64,
    /// Lengths are uniform on [ratio · nominal, nominal].
    pub range_ratio: f64,
    /// Prompts per client in the whole run.
    pub waves: f64,
    /// Tokens emitted per step and sequence (1 without speculation).
    pub tokens_per_step: f64,
    /// Draft tokens per step (0 without speculation).
    pub draft_tokens: f64,
    /// Pipeline stages.
    pub stages: f64,
}

/// Latencies and rate of one instance.
#[derive(Debug, Clone, Copy)]
pub struct ClosedLoop {
    /// Mean TTFT over the run, ms.
    pub ttft_ms: f64,
    /// Median TTFT, ms.
    pub ttft_p50_ms: f64,
    /// Mean TPOT, ms.
    pub tpot_ms: f64,
    /// Mean end-to-end latency, ms.
    pub e2e_ms: f64,
    /// Output tokens per second over the run.
    pub output_tok_s: f64,
    /// Part of TPOT that prefills of other requests take, ms.
    pub prefill_ms: f64,
    /// Share of a step's parts in TPOT: TPOT = stretch · step + prefill.
    pub stretch: f64,
    /// The decode step, ms by part.
    pub step: StepTime,
}

/// Answers that end within how many decode steps of each other: the spread of finishes relative to the answer
/// length, `2.2 · 2(1 − r)/(1 + r)`; at least 2 % of it.
const FINISH_SPREAD: f64 = 2.2;
const LEAST_SPREAD: f64 = 0.02;
/// Tokens one prefill step packs before it counts as more than one.
const PACKED_TOKENS: f64 = 8192.0;

/// Evaluates the closed loop from the work of a decode step and of one prefill.
///
/// Per-token time: `TPOT = t_d/s + (B/C)(C − 1)(interference · dt + fixed)(1 − lock/2)/O`: each of the other requests
/// prefills once during one answer. `lock` is the share of prompts that arrive in lock-step (constant lengths end
/// together). TTFT: the first wave waits for half the wave's prefills; later prompts wait for the running step and for
/// prompts that arrived with them.
pub fn closed_loop(load: &Load, decode: &DecodeWork, prefill: &PrefillWork, c: &Constants) -> ClosedLoop {
    let step = decode.time(c);
    let PrefillTime { increment, alone, fixed } = prefill.time(c);
    let draft = 1.0 + c.draft_cost * load.draft_tokens / 3.0;
    let t_step = step.total() * draft;
    let (clients, running, osl) = (load.clients, load.running, load.osl);
    let r = load.range_ratio;

    let spread = (FINISH_SPREAD * 2.0 * (1.0 - r) / (1.0 + r)).clamp(LEAST_SPREAD, 1.0) * osl / load.tokens_per_step;
    let arrivals = running * (load.isl / PACKED_TOKENS).max(1.0) / spread;
    let lock = (1.0 - 1.0 / arrivals).max(0.0);

    // Stages work on different requests at once, so a prompt occupies each of them for its share only.
    let dt = increment / load.stages;
    let others = (running / clients) * (clients - 1.0).max(0.0);
    let interference = others * (c.interference * dt + c.interference_fixed * fixed) * (1.0 - 0.5 * lock) / osl;
    let tpot = t_step / load.tokens_per_step + interference;

    let solo = alone + fixed;
    let queued = |factor: f64| dt * (factor * arrivals.min(1.0) + running / 2.0 * lock);
    let waiting_step = c.admission_steps * t_step;
    let steady = c.front_end_ms + waiting_step + solo + queued(c.queue_mean);
    let median = c.front_end_ms + waiting_step + solo + queued(c.queue_median);
    let first_wave = c.front_end_ms
        + solo
        + (running - 1.0).max(0.0) / 2.0 * c.first_wave_scale * dt
        + c.first_wave_request_ms * clients / 2.0
        + c.cold_ms;
    let held_back = (clients / running - 1.0).max(0.0) * osl * tpot;
    let ttft = (first_wave + (load.waves - 1.0) * steady) / load.waves + held_back;
    let e2e = ttft + (osl - 1.0) * tpot;
    ClosedLoop {
        ttft_ms: ttft,
        ttft_p50_ms: median + held_back,
        tpot_ms: tpot,
        e2e_ms: e2e,
        output_tok_s: c.run_share * clients * osl / e2e * 1e3,
        prefill_ms: interference,
        stretch: draft / load.tokens_per_step,
        step,
    }
}
