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
///
/// `corrections` multiply TPOT and TTFT by what measured runs of the very combination leave over; (1, 1) without.
pub fn closed_loop(
    load: &Load,
    decode: &DecodeWork,
    prefill: &PrefillWork,
    c: &Constants,
    corrections: (f64, f64),
) -> ClosedLoop {
    let t = terms(load, decode, prefill, c, corrections);
    // A mean answer below one token (osl 1 at a ratio below 1) ends with its first token.
    let e2e = t.ttft_ms + (load.osl - 1.0).max(0.0) * t.tpot_ms;
    ClosedLoop {
        ttft_ms: t.ttft_ms,
        ttft_p50_ms: (t.median_ms * corrections.1).max(t.ttft_floor_ms) + t.held_back_ms,
        tpot_ms: t.tpot_ms,
        e2e_ms: e2e,
        output_tok_s: c.run_share * load.clients * load.osl / e2e * 1e3,
        prefill_ms: t.tpot_correction * t.interference_ms,
        stretch: t.tpot_correction * t.draft_stretch / load.tokens_per_step,
        step: t.step,
    }
}

/// Every term the figures are assembled from.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The decode step, ms by part, before drafting.
    pub step: StepTime,
    /// One prefill, ms.
    pub prefill: PrefillTime,
    /// What drafting stretches a step by.
    pub draft_stretch: f64,
    /// A step with its drafting, ms.
    pub step_ms: f64,
    /// Work one prompt adds to a stage, ms.
    pub added_ms: f64,
    /// Prompts that arrive within the spread of finishes.
    pub arrivals: f64,
    /// Share of prompts that arrive in lock-step.
    pub lock: f64,
    /// Requests whose prefill falls into one answer.
    pub others: f64,
    /// TPOT part that other prefills take, ms.
    pub interference_ms: f64,
    /// Factor on TPOT that measured runs of this combination leave over.
    pub tpot_correction: f64,
    /// Mean TPOT, ms.
    pub tpot_ms: f64,
    /// Prefill of the prompt itself, ms.
    pub solo_ms: f64,
    /// Wait for the running step, ms.
    pub admission_ms: f64,
    /// Wait for prompts that arrived together: mean, ms.
    pub queued_ms: f64,
    /// Mean TTFT after the first wave, ms.
    pub steady_ms: f64,
    /// Median TTFT after the first wave, ms.
    pub median_ms: f64,
    /// Wait for half the first wave's prefills, ms.
    pub wave_prefills_ms: f64,
    /// Front-end work of half the first wave, ms.
    pub wave_front_end_ms: f64,
    /// Mean TTFT of the first wave, ms.
    pub first_wave_ms: f64,
    /// Wait of requests that capacity holds back, ms.
    pub held_back_ms: f64,
    /// Factor on TTFT that measured runs of this combination leave over.
    pub ttft_correction: f64,
    /// No TTFT can be shorter, ms.
    pub ttft_floor_ms: f64,
    /// Mean TTFT, ms.
    pub ttft_ms: f64,
}

/// Prompts that arrive within the spread of finishes, and the share of prompts that arrive in lock-step: only where
/// lengths hardly vary, for finishes that spread over the answer find the engine between prompts (the square fits public
/// runs at 256 and more clients best).
pub fn arrivals(load: &Load) -> (f64, f64) {
    let r = load.range_ratio;
    let spread = (FINISH_SPREAD * 2.0 * (1.0 - r) / (1.0 + r)).clamp(LEAST_SPREAD, 1.0);
    let arrivals = load.running * (load.isl / PACKED_TOKENS).max(1.0) / (spread * load.osl / load.tokens_per_step);
    (arrivals, (1.0 - 1.0 / arrivals).max(0.0) * (1.0 - spread).powi(2))
}

/// The terms behind [`closed_loop`].
pub fn terms(load: &Load, decode: &DecodeWork, prefill: &PrefillWork, c: &Constants, corrections: (f64, f64)) -> Terms {
    let step = decode.time(c);
    let prompt = prefill.time(c);
    let PrefillTime { increment, alone, fixed } = prompt;
    let draft = 1.0 + c.draft_cost * load.draft_tokens / 3.0;
    let t_step = step.total() * draft;
    let (clients, running, osl) = (load.clients, load.running, load.osl);
    let (arrivals, lock) = arrivals(load);

    // Stages work on different requests at once, so a prompt occupies each of them for its share only.
    let dt = increment / load.stages;
    let others = (running / clients) * (clients - 1.0).max(0.0);
    let interference = others * (c.interference * dt + c.interference_fixed * fixed) * (1.0 - 0.5 * lock) / osl;
    let corrected = corrections.0.max(decode.roof() / step.total());
    let tpot = corrected * (t_step / load.tokens_per_step + interference);

    let solo = alone + fixed;
    let queued = |factor: f64| dt * (factor * arrivals.min(1.0) + running / 2.0 * lock);
    let waiting_step = c.admission_steps * t_step;
    let steady = c.front_end_ms + waiting_step + solo + queued(c.queue_mean);
    let median = c.front_end_ms + waiting_step + solo + queued(c.queue_median);
    let wave_prefills = (running - 1.0).max(0.0) / 2.0 * c.first_wave_scale * dt;
    let wave_front_end = c.first_wave_request_ms * clients / 2.0;
    let first_wave = c.front_end_ms + solo + wave_prefills + wave_front_end + c.cold_ms;
    let held_back = (clients / running - 1.0).max(0.0) * osl * tpot;
    let floor = prefill.roof.min(solo);
    let warm = ((first_wave + (load.waves - 1.0) * steady) / load.waves * corrections.1).max(floor);
    let ttft = warm + held_back;
    Terms {
        step,
        prefill: prompt,
        draft_stretch: draft,
        step_ms: t_step,
        added_ms: dt,
        arrivals,
        lock,
        others,
        interference_ms: interference,
        tpot_correction: corrected,
        tpot_ms: tpot,
        solo_ms: solo,
        admission_ms: waiting_step,
        queued_ms: queued(c.queue_mean),
        steady_ms: steady,
        median_ms: median,
        wave_prefills_ms: wave_prefills,
        wave_front_end_ms: wave_front_end,
        first_wave_ms: first_wave,
        held_back_ms: held_back,
        ttft_correction: corrections.1,
        ttft_floor_ms: floor,
        ttft_ms: ttft,
    }
}
