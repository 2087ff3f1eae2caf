//! Requests that join and leave a running batch: prompts admitted together are prefilled as one batch, then every
//! running request decodes one token per tick, each at its own length.

use super::observe::{self, Observer};
use super::offline::append;
use crate::Result;
use crate::inference::clock::Clock;
use crate::inference::config::Config;
use crate::inference::device::Place;
use crate::inference::network::{KvCache, Network};
use crate::inference::random::{self, Stream};
use crate::inference::result::{Failure, SCHEMA, Spread, WorkloadResult};
use crate::inference::schedule::{Schedule, ticks_needed};
use burn_tensor::backend::Backend;

/// What the ticks of one run left behind.
#[derive(Debug, Clone, Default)]
pub struct Ticks {
    /// Every prefill, ms.
    pub prefill_ms: Vec<f64>,
    /// Every decode step, ms.
    pub decode_ms: Vec<f64>,
    /// Every tick, checks included, ms.
    pub tick_ms: Vec<f64>,
    /// Tokens of the decode steps.
    pub decoded: usize,
    /// From the start to each request's first token, ms, in order of admission.
    pub ttft_ms: Vec<f64>,
    /// From the start to each completed request's last token, ms.
    pub latency_ms: Vec<f64>,
    /// Completed requests with all their tokens, the prompt first.
    pub completed: Vec<(usize, Vec<i32>)>,
    /// Findings of the checks.
    pub failures: Vec<Failure>,
    /// Requests still running and still queued.
    pub left: (usize, usize),
}

/// Warm-up, then ticks until every request is served or the budget is used up.
///
/// # Errors
/// A failed kernel.
pub fn run<B: Backend>(config: &Config, network: &Network<B>, place: &Place<B>) -> Result<WorkloadResult> {
    let setup = Clock::Wall.now();
    let mut observer = Observer::new(&config.checks);
    if config.warmup_steps > 0 {
        let (requests, budget) = (config.request.batch_size, config.warmup_steps);
        ticks(config, network, place, Stream::WarmUp, (requests, budget), &mut observer)?;
    }
    let begun = Clock::Wall.now();
    let load = (config.request.batch_size, config.steps);
    let ticks = ticks(config, network, place, Stream::Prompt, load, &mut observer)?;
    let elapsed_sec = Clock::Wall.now() - begun;
    let mut failures = ticks.failures.clone();
    if ticks.left != (0, 0) {
        failures.push(incomplete(config, &ticks));
    }
    let mut metrics = super::metrics(config, place);
    metrics.prefill = Spread::of(&ticks.prefill_ms);
    metrics.prefill_latency_ms = metrics.prefill.map(|s| s.mean);
    metrics.decode = Spread::of(&ticks.decode_ms);
    metrics.decode_latency_ms = metrics.decode.map(|s| s.mean);
    metrics.decoded_tokens = ticks.decoded;
    let (prefill_ms, decode_ms) = (ticks.prefill_ms.iter().sum::<f64>(), ticks.decode_ms.iter().sum::<f64>());
    let rate = |tokens: usize, ms: f64| (ms > 0.0).then(|| 1e3 * tokens as f64 / ms);
    metrics.tokens_per_sec = if ticks.decode_ms.is_empty() {
        rate(config.request.prompt_len * ticks.ttft_ms.len(), prefill_ms)
    } else {
        rate(ticks.decoded, decode_ms)
    };
    metrics.output_tokens_per_sec = rate(ticks.decoded + ticks.ttft_ms.len(), prefill_ms + decode_ms);
    let step_times = Spread::of(&ticks.tick_ms);
    metrics.step_time_p50 = step_times.map(|s| s.p50);
    metrics.step_time_p99 = step_times.map(|s| s.p99);
    metrics.max_active_requests = Some(config.serving.continuous_batch.max_active_requests);
    metrics.requests_completed = Some(ticks.completed.len());
    metrics.ttft = Spread::of(&ticks.ttft_ms);
    metrics.request_latency = Spread::of(&ticks.latency_ms);
    metrics.logits_checksum = observer.checksum();
    Ok(WorkloadResult {
        schema: SCHEMA.into(),
        passed: failures.is_empty(),
        failure_count: failures.len(),
        first_failure_iteration: failures.iter().find_map(|f| f.step),
        failure_details: failures,
        total_iterations: ticks.tick_ms.len(),
        executed_iterations: ticks.tick_ms.len(),
        step_times_ms: ticks.tick_ms,
        elapsed_sec,
        setup_sec: begun - setup,
        main_work_started: true,
        configured_iterations: config.steps,
        metrics,
    })
}

fn incomplete(config: &Config, ticks: &Ticks) -> Failure {
    let (requests, tokens) = (config.request.batch_size, config.request.generate_tokens);
    let needed = ticks_needed(requests, tokens, config.serving.continuous_batch.max_active_requests);
    let (running, queued) = ticks.left;
    Failure {
        step: Some(config.steps - 1),
        problems: vec!["incomplete_requests".into()],
        detail: format!(
            "{} of {requests} requests completed, {running} running, {queued} queued; {needed} steps serve them all",
            ticks.completed.len()
        ),
    }
}

/// Runs `load.0` requests for at most `load.1` ticks.
///
/// # Errors
/// A failed kernel.
pub fn ticks<B: Backend>(
    config: &Config,
    network: &Network<B>,
    place: &Place<B>,
    stream: fn(u64) -> Stream,
    load: (usize, usize),
    observer: &mut Observer<B>,
) -> Result<Ticks> {
    let request = &config.request;
    let capacity = config.serving.continuous_batch.max_active_requests;
    let mut schedule = Schedule::new(load.0, request.generate_tokens, capacity);
    let mut cache = config.serving.kv_cache.then(|| network.cache(0, 0));
    let mut sequences: Vec<Vec<i32>> = Vec::new();
    let mut out = Ticks::default();
    let begun = place.now()?;
    while !schedule.is_drained() && out.tick_ms.len() < load.1 {
        let start = place.now()?;
        let admitted = schedule.admit();
        if !admitted.is_empty() {
            let prompt =
                |r: &usize| random::tokens(config.seed, stream(*r as u64), request.prompt_len, config.model.vocab_size);
            let mut prompts: Vec<Vec<i32>> = admitted.iter().map(prompt).collect();
            let mut fresh =
                cache.is_some().then(|| network.cache(prompts.len(), request.prompt_len + request.generate_tokens));
            let ms = forward(network, place, &mut prompts, fresh.as_mut(), observer)?;
            out.prefill_ms.push(ms);
            sequences.extend(prompts);
            if let (Some(cache), Some(fresh)) = (&mut cache, fresh) {
                cache.join(fresh);
            }
            let now = 1e3 * (place.now()? - begun);
            out.ttft_ms.extend(admitted.iter().map(|_| now));
            retire(&mut schedule, &mut sequences, &mut cache, now, &mut out);
        }
        if !schedule.running().is_empty() {
            let ms = forward(network, place, &mut sequences, cache.as_mut(), observer)?;
            out.decode_ms.push(ms);
            out.decoded += sequences.len();
            schedule.decoded();
            let now = 1e3 * (place.now()? - begun);
            retire(&mut schedule, &mut sequences, &mut cache, now, &mut out);
        }
        let problems = observer.take_problems();
        if !problems.is_empty() {
            out.failures.push(Failure { step: Some(out.tick_ms.len()), problems, detail: String::new() });
        }
        out.tick_ms.push(1e3 * (place.now()? - start));
    }
    out.left = (schedule.running().len(), schedule.queued());
    Ok(out)
}

/// One forward pass over what the cache does not hold yet; appends each sequence's next token and returns the time, ms.
fn forward<B: Backend>(
    network: &Network<B>,
    place: &Place<B>,
    sequences: &mut [Vec<i32>],
    cache: Option<&mut KvCache<B>>,
    observer: &mut Observer<B>,
) -> Result<f64> {
    let held = cache.as_ref().map_or(vec![0; sequences.len()], |c| c.lengths().to_vec());
    let parts: Vec<&[i32]> = sequences.iter().zip(&held).map(|(sequence, held)| &sequence[*held..]).collect();
    let last: Vec<usize> = parts.iter().map(|part| part.len() - 1).collect();
    let tokens = observe::rows::<B>(&parts, &place.device);
    let (output, ms) = place.timed(|| network.forward(tokens, cache))?;
    observer.look(&output);
    append(sequences, observe::greedy(&output.logits, &last));
    Ok(ms)
}

/// Takes out what is complete.
fn retire<B: Backend>(
    schedule: &mut Schedule,
    sequences: &mut Vec<Vec<i32>>,
    cache: &mut Option<KvCache<B>>,
    now_ms: f64,
    out: &mut Ticks,
) {
    let requests: Vec<usize> = schedule.running().iter().map(|r| r.request).collect();
    let places = schedule.retire();
    for place in places.iter().rev() {
        out.completed.push((requests[*place], sequences.remove(*place)));
        out.latency_ms.push(now_ms);
    }
    if let Some(cache) = cache {
        cache.drop_rows(&places);
    }
}
