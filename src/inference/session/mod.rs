//! The measured loops: warm-up first, then timed steps with their checks.

pub mod continuous;
pub mod observe;
pub mod offline;
#[cfg(test)]
mod tests;

use super::config::{Config, Mode};
use super::device::{Place, Task};
use super::network::Network;
use super::probe::Kernels;
use super::random::Stream;
use super::result::{Metrics, WorkloadResult};
use super::samples::Samples;
use crate::Result;
use burn_tensor::backend::Backend;
use observe::Observer;

/// One run of the workload.
#[derive(Debug, Clone)]
pub struct Session {
    /// What to run.
    pub config: Config,
}

impl Task for Session {
    type Output = WorkloadResult;

    fn run<B: Backend>(self, place: &Place<B>) -> Result<WorkloadResult> {
        let network = Network::new(&self.config, place.held(self.config.dtype), &place.device);
        run(&self.config, &network, place)
    }
}

/// Several shapes of one model, one batch of each per round, so that a busy machine slows all of them alike.
pub struct Rounds<F> {
    /// Configurations that differ in their request alone.
    pub configs: Vec<Config>,
    /// Measured rounds, after one that warms up.
    pub rounds: usize,
    /// Time the device's kernels too, in turn with the batches.
    pub probes: bool,
    /// Hears of each round that ends.
    pub said: F,
}

/// What rounds measured.
#[derive(Debug)]
pub struct Measured {
    /// Latencies of each configuration.
    pub times: Vec<Times>,
    /// Timings of kernels between the rounds, where they were asked for.
    pub samples: Option<Samples>,
}

/// Latencies of one shape, ms.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times {
    /// Prefills.
    pub prefill_ms: Vec<f64>,
    /// Decode steps.
    pub decode_ms: Vec<f64>,
}

impl<F: Fn(usize) + Send> Task for Rounds<F> {
    type Output = Measured;

    fn run<B: Backend>(self, place: &Place<B>) -> Result<Measured> {
        let mut times = vec![Times::default(); self.configs.len()];
        let Some(first) = self.configs.first() else { return Ok(Measured { times, samples: None }) };
        let network = Network::new(first, place.held(first.dtype), &place.device);
        let mut kernels = self.probes.then(|| Kernels::new(place, first.dtype));
        for round in 0..=self.rounds {
            if let Some(kernels) = &mut kernels {
                kernels.round(place, round > 0)?;
            }
            for (config, times) in self.configs.iter().zip(&mut times) {
                let mut observer = Observer::new(&config.checks);
                let batch = offline::batch(config, &network, place, Stream::Prompt(round as u64), &mut observer)?;
                if round > 0 {
                    times.prefill_ms.push(batch.prefill_ms);
                    times.decode_ms.extend(batch.decode_ms);
                }
            }
            if round > 0 {
                (self.said)(round);
            }
        }
        let samples = kernels.map(|kernels| kernels.samples(place)).transpose()?;
        Ok(Measured { times, samples })
    }
}

/// Runs a built model.
///
/// # Errors
/// A failed kernel.
pub fn run<B: Backend>(config: &Config, network: &Network<B>, place: &Place<B>) -> Result<WorkloadResult> {
    match config.mode {
        Mode::OfflineBatch => offline::run(config, network, place),
        Mode::ContinuousBatch => continuous::run(config, network, place),
    }
}

/// The figures that do not depend on the loop; latencies are empty.
fn metrics<B: Backend>(config: &Config, place: &Place<B>) -> Metrics {
    Metrics {
        mode: config.mode.word().into(),
        device: place.name.clone(),
        threads: place.threads,
        clock: place.clock,
        dtype: config.dtype.word().into(),
        computed_in: place.held(config.dtype).word().into(),
        model_kind: config.model.kind.word().into(),
        parameter_count: config.model.parameter_count(),
        batch_size: config.request.batch_size,
        prompt_len: config.request.prompt_len,
        generate_tokens: config.request.generate_tokens,
        kv_cache: config.serving.kv_cache,
        prefill_latency_ms: None,
        prefill: None,
        decode_latency_ms: None,
        decode: None,
        tokens_per_sec: None,
        output_tokens_per_sec: None,
        decoded_tokens: 0,
        step_time_p50: None,
        step_time_p99: None,
        max_active_requests: None,
        requests_completed: None,
        ttft: None,
        request_latency: None,
        logits_checksum: None,
    }
}
