//! How do TPOT and TTFT follow from the step and the prefill? The terms of the closed form, each with its arithmetic.

use super::step::short;
use crate::cost::Constants;
use crate::serve::closed_loop::{Load, Terms};
use crate::serve::disaggregated::PooledLoop;
use serde::Serialize;

/// One summand, ms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Term {
    /// What is waited for.
    pub name: String,
    /// Its time, ms.
    pub ms: f64,
    /// How it is computed, with the numbers put in.
    pub how: String,
}

fn term(name: &str, ms: f64, how: String) -> Term {
    Term { name: name.to_string(), ms, how }
}

/// TPOT and TTFT as sums.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Assembly {
    /// Clients of one instance.
    pub clients: f64,
    /// Requests of one instance that run at once.
    pub running: f64,
    /// Prompts per client in the run.
    pub waves: f64,
    /// Share of prompts that arrive in lock-step with others.
    pub lock: f64,
    /// Summands of TPOT.
    pub tpot: Vec<Term>,
    /// Mean TPOT, ms.
    pub tpot_ms: f64,
    /// Summands of the first wave's mean TTFT.
    pub first_wave: Vec<Term>,
    /// Mean TTFT of the first wave, ms.
    pub first_wave_ms: f64,
    /// Summands of the mean TTFT after it.
    pub steady: Vec<Term>,
    /// Mean TTFT after the first wave, ms.
    pub steady_ms: f64,
    /// Wait of requests that capacity holds back, ms.
    pub held_back_ms: f64,
    /// Factor on the waves' mean that measured runs of this combination leave over.
    pub ttft_correction: f64,
    /// Mean TTFT: `(first wave + (waves − 1) · steady) / waves · correction + held back`, ms.
    pub ttft_ms: f64,
}

impl Assembly {
    /// Spells the closed form out.
    pub(super) fn of(load: &Load, t: &Terms, c: &Constants) -> Self {
        let step = t.step_ms / load.tokens_per_step;
        let step_how = if load.draft_tokens > 0.0 {
            format!(
                "{:.4} ms x {:.4} for {} drafts / {:.4} tokens a step",
                t.step.total(),
                t.draft_stretch,
                short(load.draft_tokens),
                load.tokens_per_step
            )
        } else {
            "one decode step".to_string()
        };
        let lost = format!(
            "{} others x ({:.4} x {:.4} added + {:.4} x {:.4} fixed) x (1 - {:.4}/2) / {} tokens",
            short(t.others),
            c.interference,
            t.added_ms,
            c.interference_fixed,
            t.prefill.fixed,
            t.lock,
            short(load.osl)
        );
        let front = || term("front end", c.front_end_ms, "front_end_ms".to_string());
        let own = || {
            let how = format!("{:.4} alone + {:.4} fixed", t.prefill.alone, t.prefill.fixed);
            term("own prefill", t.solo_ms, how)
        };
        Self {
            clients: load.clients,
            running: load.running,
            waves: load.waves,
            lock: t.lock,
            tpot: vec![
                term("step", step, step_how),
                term("prefill interference", t.interference_ms, lost),
                term(
                    "measured runs leave over",
                    t.tpot_ms - step - t.interference_ms,
                    format!("x {:.4} on the two above", t.tpot_correction),
                ),
            ],
            tpot_ms: t.tpot_ms,
            first_wave: vec![
                front(),
                own(),
                term(
                    "prefills of half the wave",
                    t.wave_prefills_ms,
                    format!("({} - 1)/2 x {:.4} x {:.4} added", short(load.running), c.first_wave_scale, t.added_ms),
                ),
                term(
                    "front end of half the wave",
                    t.wave_front_end_ms,
                    format!("{}/2 x {:.4}", short(load.clients), c.first_wave_request_ms),
                ),
                term("start-up", c.cold_ms, "cold_ms".to_string()),
            ],
            first_wave_ms: t.first_wave_ms,
            steady: vec![
                front(),
                term(
                    "wait for running steps",
                    t.admission_ms,
                    format!("{:.4} steps x {:.4}", c.admission_steps, t.step_ms),
                ),
                own(),
                term(
                    "prompts that arrive together",
                    t.queued_ms,
                    format!(
                        "{:.4} added x ({:.4} x {:.4} + {}/2 x {:.4})",
                        t.added_ms,
                        c.queue_mean,
                        t.arrivals.min(1.0),
                        short(load.running),
                        t.lock
                    ),
                ),
            ],
            steady_ms: t.steady_ms,
            held_back_ms: t.held_back_ms,
            ttft_correction: t.ttft_correction,
            ttft_ms: t.ttft_ms,
        }
    }

    /// The same for separate pools: nothing disturbs a decode step, and a prompt waits where its pool is full.
    pub(super) fn of_pools(load: &Load, l: &PooledLoop, c: &Constants, ttft_correction: f64) -> Self {
        let p = &l.pools;
        let way = || {
            vec![
                term("front end", c.front_end_ms, "front_end_ms".to_string()),
                term("own prefill", p.prefill_ms, "on an idle prefill instance".to_string()),
                term("KV transfer", p.transfer_ms, "the cache over the network".to_string()),
                term("wait for running steps", l.admission_ms, format!("{:.4} decode steps", c.admission_steps)),
            ]
        };
        let (mut first_wave, mut steady) = (way(), way());
        let how = format!("half the clients before {:.4} prompts/s", p.prefill_limit_per_s);
        first_wave.push(term("prefills of half the wave", l.first_wave_ms - l.free_ms, how));
        let how = format!("what Little's law leaves at {:.4} requests/s", p.rate_per_s);
        steady.push(term("wait before a full pool", l.steady_ms - l.free_ms, how));
        let step = l.answer.step.total() * l.answer.stretch;
        Self {
            clients: load.clients,
            running: p.decode_batch,
            waves: load.waves,
            lock: 0.0,
            tpot: vec![term("step", step, format!("{:.4} ms x {:.4}", l.answer.step.total(), l.answer.stretch))],
            tpot_ms: l.answer.tpot_ms,
            first_wave,
            first_wave_ms: l.first_wave_ms,
            steady,
            steady_ms: l.steady_ms,
            held_back_ms: 0.0,
            ttft_correction,
            ttft_ms: l.answer.ttft_ms,
        }
    }
}
