//! One fixed batch after the other: prefill, then one decode step per further token.

use super::observe::{self, Observer};
use crate::Result;
use crate::inference::clock::Clock;
use crate::inference::config::Config;
use crate::inference::device::Place;
use crate::inference::network::Network;
use crate::inference::random::{self, Stream};
use crate::inference::result::{Failure, SCHEMA, Spread, WorkloadResult};
use burn_tensor::backend::Backend;

/// Times of one batch, ms, and what it generated.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The prefill.
    pub prefill_ms: f64,
    /// Every decode step.
    pub decode_ms: Vec<f64>,
    /// Tokens of each row, the prompt first.
    pub sequences: Vec<Vec<i32>>,
}

/// Warm-up, then the measured batches.
///
/// # Errors
/// A failed kernel.
pub fn run<B: Backend>(config: &Config, network: &Network<B>, place: &Place<B>) -> Result<WorkloadResult> {
    let setup = Clock::Wall.now();
    let mut observer = Observer::new(&config.checks);
    for step in 0..config.warmup_steps {
        batch(config, network, place, Stream::WarmUp(step as u64), &mut observer)?;
    }
    observer.take_problems();
    let begun = Clock::Wall.now();
    let (mut prefills, mut decodes, mut steps, mut failures) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for step in 0..config.steps {
        let start = place.now()?;
        let times = batch(config, network, place, Stream::Prompt(step as u64), &mut observer)?;
        steps.push(1e3 * (place.now()? - start));
        prefills.push(times.prefill_ms);
        decodes.extend(times.decode_ms);
        let problems = observer.take_problems();
        if !problems.is_empty() {
            failures.push(Failure { step: Some(step), problems, detail: String::new() });
        }
    }
    let elapsed_sec = Clock::Wall.now() - begun;
    let mut metrics = super::metrics(config, place);
    let rows = config.request.batch_size;
    metrics.prefill = Spread::of(&prefills);
    metrics.prefill_latency_ms = metrics.prefill.map(|s| s.mean);
    metrics.decode = Spread::of(&decodes);
    metrics.decode_latency_ms = metrics.decode.map(|s| s.mean);
    metrics.decoded_tokens = rows * decodes.len();
    let rate = |tokens: usize, ms: f64| (ms > 0.0).then(|| 1e3 * tokens as f64 / ms);
    let (prefill_ms, decode_ms) = (prefills.iter().sum::<f64>(), decodes.iter().sum::<f64>());
    metrics.tokens_per_sec = if decodes.is_empty() {
        rate(rows * config.request.prompt_len * prefills.len(), prefill_ms)
    } else {
        rate(metrics.decoded_tokens, decode_ms)
    };
    if config.model.kind.generates() && config.request.generate_tokens > 0 {
        metrics.output_tokens_per_sec = rate(metrics.decoded_tokens + rows * prefills.len(), prefill_ms + decode_ms);
    }
    let step_times = Spread::of(&steps);
    metrics.step_time_p50 = step_times.map(|s| s.p50);
    metrics.step_time_p99 = step_times.map(|s| s.p99);
    metrics.logits_checksum = observer.checksum();
    Ok(WorkloadResult {
        schema: SCHEMA.into(),
        passed: failures.is_empty(),
        failure_count: failures.len(),
        first_failure_iteration: failures.first().and_then(|f| f.step),
        failure_details: failures,
        total_iterations: steps.len(),
        executed_iterations: steps.len(),
        step_times_ms: steps,
        elapsed_sec,
        setup_sec: begun - setup,
        main_work_started: true,
        configured_iterations: config.steps,
        metrics,
    })
}

/// One batch of prompts from a random stream.
///
/// # Errors
/// A failed kernel.
pub fn batch<B: Backend>(
    config: &Config,
    network: &Network<B>,
    place: &Place<B>,
    prompts: Stream,
    observer: &mut Observer<B>,
) -> Result<Batch> {
    let request = &config.request;
    let (rows, length) = (request.batch_size, request.prompt_len);
    let generates = config.model.kind.generates();
    let cached = generates && config.serving.kv_cache;
    let values = random::tokens(config.seed, prompts, rows * length, config.model.vocab_size);
    let mut sequences: Vec<Vec<i32>> = values.chunks(length).map(<[i32]>::to_vec).collect();
    let mut cache = cached.then(|| network.cache(rows, length + request.generate_tokens));
    let input = |sequences: &[Vec<i32>], from: usize| {
        let parts: Vec<&[i32]> = sequences.iter().map(|s| &s[from..]).collect();
        observe::rows::<B>(&parts, &place.device)
    };
    let tokens = input(&sequences, 0);
    let (output, prefill_ms) = place.timed(|| network.forward(tokens, cache.as_mut()))?;
    observer.look(&output);
    let mut batch = Batch { prefill_ms, ..Batch::default() };
    if generates && request.generate_tokens > 0 {
        append(&mut sequences, observe::greedy(&output.logits, &vec![length - 1; rows]));
        for _ in 1..request.generate_tokens {
            let end = sequences[0].len();
            let tokens = input(&sequences, if cached { end - 1 } else { 0 });
            let (output, decode_ms) = place.timed(|| network.forward(tokens, cache.as_mut()))?;
            observer.look(&output);
            append(&mut sequences, observe::greedy(&output.logits, &vec![end - 1; rows]));
            batch.decode_ms.push(decode_ms);
        }
    }
    batch.sequences = sequences;
    Ok(batch)
}

/// Adds a token to each sequence.
pub fn append(sequences: &mut [Vec<i32>], tokens: Vec<i32>) {
    sequences.iter_mut().zip(tokens).for_each(|(sequence, token)| sequence.push(token));
}
