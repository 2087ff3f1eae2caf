//! Single requests with the engine's own timestamps: a step cost and a cache size fitted on every other request, scored
//! on the rest. All requests of a set-up are replayed in both; only what is compared differs.

use super::fit::{FittedStep, minimise};
use super::{Pair, Row, mape};
use crate::serve::scheduler::{SchedulerConfig, VllmRules};
use crate::sim::fleet::Observer;
use crate::sim::load::{Arrivals, LengthSource, LoadSpec};
use crate::sim::request_log::RequestRecord;
use crate::sim::scenario::{EngineConfig, Scenario};
use crate::sim::simulate;
use crate::sim::trace_file::{Trace, TraceRow};
use crate::{Error, Result};
use rayon::prelude::*;
use serde::Serialize;

/// One measured request, as the engine saw it. Times in ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// Arrival, s.
    pub arrival_s: f64,
    /// Prompt tokens.
    pub isl: u32,
    /// Answer tokens.
    pub osl: u32,
    /// Arrival to first scheduling.
    pub queue_ms: f64,
    /// Arrival to first token.
    pub ttft_ms: f64,
    /// (E2E − TTFT)/(tokens − 1).
    pub tpot_ms: f64,
    /// Arrival to last token.
    pub e2e_ms: f64,
}

/// The requests of one engine on one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// GPU, model, ranks.
    pub name: String,
    /// vLLM release.
    pub version: String,
    /// Sequence limit.
    pub max_num_seqs: u32,
    /// Token budget of a step.
    pub max_num_batched_tokens: u32,
    /// In order of arrival.
    pub requests: Vec<Request>,
}

pub(super) fn read(file: &str, reader: &mut csv::Reader<std::fs::File>) -> Result<Vec<Setup>> {
    let mut setups: Vec<Setup> = Vec::new();
    for row in Row::all(file, reader)? {
        let name = format!("{} on {}, tp {}", row.text("model"), row.text("hardware"), row.text("tp"));
        let request = Request {
            arrival_s: row.number("arrival_s")?,
            isl: row.count("isl")?,
            osl: row.count("osl")?,
            queue_ms: row.number("meas_queue_ms")?,
            ttft_ms: row.number("meas_ttft_ms")?,
            tpot_ms: row.number("meas_tpot_ms")?,
            e2e_ms: row.number("meas_e2e_ms")?,
        };
        match setups.iter_mut().find(|s| s.name == name) {
            Some(setup) => setup.requests.push(request),
            None => setups.push(Setup {
                name,
                version: row.text("vllm").to_string(),
                max_num_seqs: row.count("max_num_seqs")?,
                max_num_batched_tokens: row.count("mbt")?,
                requests: vec![request],
            }),
        }
    }
    for setup in &mut setups {
        setup.requests.sort_by(|a, b| a.arrival_s.total_cmp(&b.arrival_s));
        setup.max_num_seqs = limit_in_force(setup);
        VllmRules::of_version(&setup.version)?;
    }
    match setups.iter().find(|s| s.requests.len() < 10) {
        Some(few) => {
            Err(Error::input(file, format!("{} requests of {}", few.requests.len(), few.name), "Give at least 10"))
        }
        None => Ok(setups),
    }
}

/// The sequence limit: the recorded one, unless clearly more requests ran at once by the engine's own timestamps. Then it
/// was another, and engines are given powers of two.
fn limit_in_force(setup: &Setup) -> u32 {
    let mut events: Vec<(f64, i32)> = Vec::with_capacity(2 * setup.requests.len());
    for r in &setup.requests {
        events.push((r.arrival_s * 1e3 + r.queue_ms, 1));
        events.push((r.arrival_s * 1e3 + r.e2e_ms, -1));
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let most = events.iter().scan(0, |running, event| {
        *running += event.1;
        Some(*running)
    });
    let most = f64::from(most.max().unwrap_or(0));
    if most <= 1.1 * f64::from(setup.max_num_seqs) {
        return setup.max_num_seqs;
    }
    most.log2().round().exp2() as u32
}

/// Figures over some requests of a set-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Half {
    /// Requests.
    pub requests: usize,
    /// Mean TPOT.
    pub tpot: Pair,
    /// Mean E2E.
    pub e2e: Pair,
    /// Mean TTFT.
    pub ttft: Pair,
    /// Mean over requests of |error|, %: TPOT.
    pub tpot_mape: Option<f64>,
    /// E2E.
    pub e2e_mape: Option<f64>,
}

/// A set-up's fit and its scores.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoredSetup {
    /// GPU, model, ranks.
    pub name: String,
    /// The fitted step cost.
    pub step: FittedStep,
    /// The fitted size of the KV cache, tokens.
    pub kv_tokens: u64,
    /// The requests it was fitted on: the first, third, … by arrival.
    pub fitted: Half,
    /// The others.
    pub held_out: Half,
}

/// Tokens of a KV block.
const BLOCK: u32 = 16;
/// Cache sizes tried, in % over the most tokens that seem to have been held at once: fewer where requests were preempted
/// meanwhile, and many more for a cache that never fills.
fn sizes() -> impl Iterator<Item = i32> {
    [-50, -45, -40, -35, -30, -25, -20, -16].into_iter().chain(-12..=16).chain([25, 50, 100, 300])
}

/// First guesses of a prompt token's cost, as shares of the measured TPOT: fits from several starts differ where a run
/// was near the edge of its queue.
const PROMPT_TOKEN_SHARES: [f64; 3] = [1.0 / 500.0, 1.0 / 2000.0, 1.0 / 8000.0];

/// Fits and scores every set-up.
pub fn score(setups: &[Setup]) -> Vec<ScoredSetup> {
    setups.par_iter().map(scored).collect()
}

fn scored(setup: &Setup) -> ScoredSetup {
    let peak = peak_tokens(setup);
    let fits: Vec<(f64, FittedStep, u32)> =
        PROMPT_TOKEN_SHARES.par_iter().map(|share| fitted(setup, peak, *share)).collect();
    let first = fits[0];
    let (_, step, blocks) = fits.into_iter().fold(first, |best, fit| if fit.0 < best.0 { fit } else { best });
    let replayed = replay(setup, step, blocks);
    ScoredSetup {
        name: setup.name.clone(),
        step,
        kv_tokens: u64::from(blocks - 1) * u64::from(BLOCK),
        fitted: half(setup, &replayed, 0),
        held_out: half(setup, &replayed, 1),
    }
}

/// Step cost and cache size from one start, with their misfit.
fn fitted(setup: &Setup, peak: f64, prompt_token_share: f64) -> (f64, FittedStep, u32) {
    let mut blocks = blocks_of(setup, peak * 1.02);
    let mut logs = first_guess(setup, prompt_token_share);
    for evaluations in [300, 300] {
        logs = minimise(&|at: &[f64]| misfit(setup, FittedStep::of_logs(at), blocks), &logs, 0.4, evaluations);
        let step = FittedStep::of_logs(&logs);
        let tried: Vec<u32> = sizes().map(|i| blocks_of(setup, peak * (1.0 + 0.01 * f64::from(i)))).collect();
        let costs: Vec<(f64, u32)> = tried.par_iter().map(|size| (misfit(setup, step, *size), *size)).collect();
        let now = (misfit(setup, step, blocks), blocks);
        blocks = costs.into_iter().fold(now, |best, c| if c.0 < best.0 { c } else { best }).1;
    }
    logs = minimise(&|at: &[f64]| misfit(setup, FittedStep::of_logs(at), blocks), &logs, 0.1, 300);
    let step = FittedStep::of_logs(&logs);
    (misfit(setup, step, blocks), step, blocks)
}

fn blocks_of(setup: &Setup, tokens: f64) -> u32 {
    let longest = setup.requests.iter().map(|r| r.isl + r.osl).max().unwrap_or(1);
    (tokens / f64::from(BLOCK)).max(f64::from(longest.div_ceil(BLOCK) + 1)) as u32 + 1
}

/// Most tokens held at once, by the measured times: requests between admission and end, answers growing evenly.
fn peak_tokens(setup: &Setup) -> f64 {
    let ends = setup.requests.iter().map(|r| r.arrival_s * 1e3 + r.e2e_ms);
    ends.map(|at| {
        let held = setup.requests.iter().filter_map(|r| {
            let start = r.arrival_s * 1e3 + r.queue_ms;
            let first = r.arrival_s * 1e3 + r.ttft_ms;
            let end = r.arrival_s * 1e3 + r.e2e_ms;
            let done = ((at - first) / (end - first).max(1e-9)).clamp(0.0, 1.0);
            (start <= at && at < end + 1e-6).then(|| f64::from(r.isl) + done * f64::from(r.osl))
        });
        held.sum::<f64>()
    })
    .fold(0.0, f64::max)
}

/// A decode step half of which is fixed, and prompts at a share of the TPOT per token.
fn first_guess(setup: &Setup, prompt_token_share: f64) -> Vec<f64> {
    let n = setup.requests.len() as f64;
    let mean = |f: fn(&Request) -> f64| setup.requests.iter().map(f).sum::<f64>() / n;
    let tpot = mean(|r| r.tpot_ms) / 1e3;
    let length = mean(|r| f64::from(r.isl) + f64::from(r.osl) / 2.0);
    let running = f64::from(setup.max_num_seqs).min(peak_tokens(setup) / length).max(1.0);
    let prompt_token = tpot * prompt_token_share;
    let terms = [
        0.5 * tpot,
        0.2 * tpot / running,
        0.2 * tpot / (running * length),
        0.05 * tpot,
        prompt_token,
        prompt_token / 4e4,
    ];
    terms.iter().map(|t| t.ln()).collect()
}

struct Keep(Vec<Option<RequestRecord>>);

impl Observer for Keep {
    fn request(&mut self, record: &RequestRecord) {
        self.0[record.number as usize] = Some(*record);
    }
}

fn replay(setup: &Setup, step: FittedStep, blocks: u32) -> Vec<Option<RequestRecord>> {
    let row = |r: &Request| TraceRow { at_s: r.arrival_s, prompt_len: r.isl, output_len: r.osl, ids: (0, 0) };
    let trace = Trace { rows: setup.requests.iter().map(row).collect(), prefix_ids: Vec::new(), tokens_per_id: BLOCK };
    let engine = SchedulerConfig {
        max_num_batched_tokens: setup.max_num_batched_tokens,
        max_num_seqs: setup.max_num_seqs,
        block_size: BLOCK,
        num_blocks: blocks,
        enable_prefix_caching: false,
        rules: VllmRules::of_version(&setup.version).unwrap_or_default(),
        ..SchedulerConfig::default()
    };
    let load = LoadSpec {
        arrivals: Arrivals::Replay { trace, speed: 1.0 },
        lengths: LengthSource::Pairs(Vec::new(), crate::sim::distribution::Lengths::Fixed(1)),
        requests: setup.requests.len() as u64,
        prefix: None,
        sessions: None,
        priorities: Vec::new(),
        seed: 0,
    };
    let mut keep = Keep(vec![None; setup.requests.len()]);
    let scenario = Scenario { max_steps: 2_000_000, ..Scenario::new(EngineConfig::Vllm(engine.resolve(false)), load) };
    // What cannot be simulated leaves every request unanswered, the worst misfit.
    let _ = simulate(&scenario, Box::new(step), &mut keep);
    keep.0
}

/// Mean squared logarithm of the ratios over the fitted requests: TPOT and E2E, and TTFT at a tenth.
fn misfit(setup: &Setup, step: FittedStep, blocks: u32) -> f64 {
    let replayed = replay(setup, step, blocks);
    let mut sum = 0.0;
    for (request, record) in setup.requests.iter().zip(&replayed).step_by(2) {
        let Some(record) = record else {
            sum += 100.0;
            continue;
        };
        let squared = |simulated_s: f64, measured_ms: f64| (simulated_s * 1e3 / measured_ms).ln().powi(2);
        sum += squared(record.tpot_s, request.tpot_ms)
            + squared(record.e2e_s, request.e2e_ms)
            + 0.1 * squared(record.ttft_s, request.ttft_ms);
    }
    sum / (setup.requests.len() as f64 / 2.0)
}

/// Every other request, from the `first`.
fn half(setup: &Setup, replayed: &[Option<RequestRecord>], first: usize) -> Half {
    let both: Vec<(&Request, &RequestRecord)> = setup
        .requests
        .iter()
        .zip(replayed)
        .skip(first)
        .step_by(2)
        .filter_map(|(request, record)| Some((request, record.as_ref()?)))
        .collect();
    type Figure = fn(&(&Request, &RequestRecord)) -> Pair;
    let pairs: [Figure; 3] = [
        |(q, r)| Pair { measured: q.tpot_ms, simulated: r.tpot_s * 1e3 },
        |(q, r)| Pair { measured: q.e2e_ms, simulated: r.e2e_s * 1e3 },
        |(q, r)| Pair { measured: q.ttft_ms, simulated: r.ttft_s * 1e3 },
    ];
    let mean = |figure: Figure| {
        let n = both.len().max(1) as f64;
        let sum = both.iter().map(figure).fold((0.0, 0.0), |s, p| (s.0 + p.measured, s.1 + p.simulated));
        Pair { measured: sum.0 / n, simulated: sum.1 / n }
    };
    Half {
        requests: both.len(),
        tpot: mean(pairs[0]),
        e2e: mean(pairs[1]),
        ttft: mean(pairs[2]),
        tpot_mape: mape(both.iter().map(pairs[0])),
        e2e_mape: mape(both.iter().map(pairs[1])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_limit_that_the_run_exceeded_is_not_believed() {
        let at = |i: u32| Request {
            arrival_s: 0.1 * f64::from(i),
            isl: 100,
            osl: 100,
            queue_ms: 0.0,
            ttft_ms: 50.0,
            tpot_ms: 10.0,
            e2e_ms: 60_000.0,
        };
        let mut setup = Setup {
            name: "s".into(),
            version: "0.19.0".into(),
            max_num_seqs: 128,
            max_num_batched_tokens: 2048,
            requests: (0..130).map(at).collect(),
        };
        // A request that ends as the next is admitted overlaps by the clock's error only.
        assert_eq!(limit_in_force(&setup), 128);
        setup.requests = (0..258).map(at).collect();
        assert_eq!(limit_in_force(&setup), 256);
    }
}
