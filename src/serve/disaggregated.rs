//! How do separate prefill and decode pools behave? Closed form of a closed loop over both.
//!
//! Prompts are prefilled on one pool, their KV cache moves over the network, and the other pool decodes: no prefill
//! ever delays a decode step. Both pools share one rate, and a request is always somewhere: `C = λ (TTFT + E)`.

use super::closed_loop::{ClosedLoop, Load};
use super::evaluation::Bound;
use super::projector::CompiledDeployment;
use crate::cost::{Constants, PrefillTime, StepTime};
use serde::Serialize;

/// A prefill pool beside the decode pool that holds it.
#[derive(Debug, Clone)]
pub struct Pools {
    /// One prefill instance.
    pub prefill: Box<CompiledDeployment>,
    /// Prefill instances.
    pub instances: f64,
    /// Network rate one KV transfer reaches, bytes per ms.
    pub transfer_rate: f64,
    /// Bytes of one token's KV cache over all ranks of a decode instance that hold a part of it.
    pub bytes_per_token: f64,
}

/// Share of a prefill instance's time that a benchmark's traffic can use; public benchmarks of NVIDIA's planner use the
/// same figure.
const PREFILL_SHARE: f64 = 0.9;
/// Share of the network rate that a KV transfer reaches, and its fixed time, ms: assumed; no public measurement read.
pub const NETWORK_SHARE: f64 = 0.5;
const TRANSFER_FIXED_MS: f64 = 2.0;

/// The loop over both pools, per decode instance, and what is particular to it.
#[derive(Debug, Clone, Copy)]
pub struct PooledLoop {
    /// Latencies, and the rate of one decode instance.
    pub answer: ClosedLoop,
    /// Both pools.
    pub pools: PoolFigures,
    /// Wait of the first wave for half its prefills, ms.
    pub wave_ms: f64,
    /// Mean TTFT of the first wave, ms.
    pub first_wave_ms: f64,
    /// Mean TTFT after it, ms.
    pub steady_ms: f64,
    /// Wait for running decode steps, ms.
    pub admission_ms: f64,
    /// TTFT of a request that waits for nothing, ms.
    pub free_ms: f64,
}

/// Figures of the two pools.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PoolFigures {
    /// Requests in a decode instance on average.
    pub decode_batch: f64,
    /// Share of its time a prefill instance works.
    pub prefill_utilisation: f64,
    /// Prefill of one prompt on an idle instance, ms.
    pub prefill_ms: f64,
    /// One KV cache over the network, ms.
    pub transfer_ms: f64,
    /// Prompts a second that the prefill pool sustains.
    pub prefill_limit_per_s: f64,
    /// Answers a second that the decode pool sustains with its KV cache or sequence limit full.
    pub decode_limit_per_s: f64,
    /// Requests a second.
    pub rate_per_s: f64,
    /// What keeps the rate from rising with more clients; `None`: nothing.
    #[serde(skip)]
    pub bound: Option<Bound>,
}

impl Pools {
    /// Time of one prompt's KV cache over the network, ms.
    fn transfer_ms(&self, tokens: f64) -> f64 {
        TRANSFER_FIXED_MS + self.bytes_per_token * tokens / self.transfer_rate
    }

    /// One prompt on an idle prefill instance, and its least time by the datasheet, ms.
    fn prompt(&self, load: &Load, budget: u32, c: &Constants) -> (PrefillTime, f64) {
        let alone = Load { running: 1.0, draft_tokens: 0.0, stages: 1.0, ..*load };
        let work = self.prefill.work(&alone, budget).1;
        (work.time(c), work.roof)
    }

    /// Time an instance spends on one prompt when prompts queue before it, ms: a step then holds as many as its budget.
    fn busy_ms(&self, load: &Load, budget: u32, c: &Constants) -> f64 {
        let packed = (f64::from(budget) / load.isl).floor().max(1.0) * self.prefill.attention_groups();
        let time = self.prefill.packed_prefill(load.isl, packed, budget).time(c);
        (time.alone + time.fixed) / packed
    }
}

/// Solves the loop. `load` is that of one of `y` decode instances: its clients, and how many at most may run there.
///
/// With x prefill instances that spend `dt` on a prompt of a full step and decode batch B: `λ = min(C/(T₀ + E(B)), 0.9 x/dt, y B_max/E)`,
/// `B = λ E(B)/y`, `E(B) = (O − 1) TPOT(B)`. TTFT is what Little's law leaves, `C/λ − E`, and at least `T₀`, the way of
/// a request that waits for nothing; the first wave waits for half its prompts.
#[allow(clippy::too_many_arguments)]
pub fn pooled_loop(
    decode: &CompiledDeployment,
    pools: &Pools,
    load: &Load,
    y: f64,
    budget: u32,
    c: &Constants,
    corrections: (f64, f64),
) -> PooledLoop {
    let clients = load.clients * y;
    let queries = 1.0 + load.draft_tokens;
    let draft = 1.0 + c.draft_cost * load.draft_tokens / 3.0;
    let step = |batch: f64| -> StepTime {
        let sequences = (batch / load.stages).max(1.0);
        decode.step.decode_work(sequences, load.isl + load.osl / 2.0, queries).time(c)
    };
    let (prompt, roof) = pools.prompt(load, budget, c);
    let dt = pools.busy_ms(load, budget, c);
    let transfer_ms = pools.transfer_ms(load.isl);
    let answer = (load.osl - 1.0).max(0.0);
    // Of a decode step's length, ms.
    let tpot = |step: f64| corrections.0 * step * draft / load.tokens_per_step;
    let alone =
        |step: f64| c.front_end_ms + prompt.alone + prompt.fixed + transfer_ms + c.admission_steps * step * draft;
    let prefill_rate = PREFILL_SHARE * pools.instances / dt;
    let rate = |step: f64| (clients / (alone(step) + answer * tpot(step))).min(prefill_rate);
    let too_few = |batch: f64| {
        let step = step(batch).total();
        rate(step) * answer * tpot(step) / y > batch
    };
    // B ↦ λ(B) E(B)/y − B falls from above 0 to below it between nothing and every client in the decode pool.
    let (mut low, mut high) = (0.0, load.clients.min(load.running));
    if !too_few(high) {
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if too_few(middle) { low = middle } else { high = middle }
        }
    }
    let batch = high;
    let step = step(batch);
    let (tpot_ms, free) = (tpot(step.total()), alone(step.total()));
    let e = answer * tpot_ms;
    let full = if e > 0.0 { y * load.running / e } else { f64::INFINITY };
    let wanted = clients / (free + e);
    let lambda = wanted.min(prefill_rate).min(full);
    let bound = match () {
        () if lambda >= wanted => None,
        () if prefill_rate <= full => Some(Bound::PrefillPool),
        () => Some(Bound::KvCapacity),
    };
    let steady = (clients / lambda - e).max(free);
    let wave = (clients / pools.instances - 1.0).max(0.0) / 2.0 * c.first_wave_scale * dt;
    let first = free + wave + c.first_wave_request_ms * clients / 2.0 + c.cold_ms;
    let first = first.max(steady);
    let mean = (first + (load.waves - 1.0) * steady) / load.waves;
    let floor = roof.min(free);
    let ttft_ms = (mean * corrections.1).max(floor);
    let e2e_ms = ttft_ms + e;
    PooledLoop {
        answer: ClosedLoop {
            ttft_ms,
            ttft_p50_ms: (steady * corrections.1).max(floor),
            tpot_ms,
            e2e_ms,
            output_tok_s: c.run_share * load.clients * load.osl / e2e_ms * 1e3,
            prefill_ms: 0.0,
            stretch: corrections.0 * draft / load.tokens_per_step,
            step,
        },
        pools: PoolFigures {
            decode_batch: batch,
            prefill_utilisation: lambda * dt / pools.instances,
            prefill_ms: prompt.alone + prompt.fixed,
            transfer_ms,
            prefill_limit_per_s: 1e3 * prefill_rate,
            decode_limit_per_s: 1e3 * full,
            rate_per_s: 1e3 * lambda,
            bound,
        },
        wave_ms: wave,
        first_wave_ms: first,
        steady_ms: steady,
        admission_ms: c.admission_steps * step.total() * draft,
        free_ms: free,
    }
}
