//! What a run reports: one schema for both modes. Times in milliseconds unless a name says otherwise.

use super::clock::Clock;
use serde::{Deserialize, Serialize};

/// Version of the document [`WorkloadResult`] serialises to.
pub const SCHEMA: &str = "inferasim.workload_result/1";

/// Something a step did wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Measured step, from 0; null where no step is to blame.
    pub step: Option<usize>,
    /// `nan_logits`, `inf_logits`, `non_finite_output`, `incomplete_requests`, `checksum_differs`.
    pub problems: Vec<String>,
    /// Figures that explain it; empty where the names say it all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// Mean and percentiles of one latency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile, linear between ranks.
    pub p99: f64,
}

impl Spread {
    /// Of measured values; `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let percentile = |p| super::latency::percentile(values, p);
        Some(Self { mean: super::latency::mean(values)?, p50: percentile(50.0)?, p99: percentile(99.0)? })
    }
}

/// Figures of a run. A latency that did not happen is null, never 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// `offline_batch` or `continuous_batch`.
    pub mode: String,
    /// Device it really ran on, e.g. `cpu`, `cuda:0`.
    pub device: String,
    /// Threads of the CPU; null on a GPU.
    pub threads: Option<usize>,
    /// Clock of the times.
    pub clock: Clock,
    /// Number format the weights are rounded to.
    pub dtype: String,
    /// Number format in which the device holds weights, activations and cache and computes.
    pub computed_in: String,
    /// Topology.
    pub model_kind: String,
    /// Parameters of the model.
    pub parameter_count: usize,
    /// Sequences of a batch, or requests of the run.
    pub batch_size: usize,
    /// Prompt length, tokens.
    pub prompt_len: usize,
    /// Tokens per request.
    pub generate_tokens: usize,
    /// Keys and values were cached.
    pub kv_cache: bool,
    /// Mean time of one prefill (forward and device wait); null where there was none.
    pub prefill_latency_ms: Option<f64>,
    /// The same with percentiles.
    pub prefill: Option<Spread>,
    /// Mean time of one decode step over the batch; null where there was none.
    pub decode_latency_ms: Option<f64>,
    /// The same with percentiles.
    pub decode: Option<Spread>,
    /// Decoded tokens per second of decode time; prompt tokens per second of prefill time where nothing was decoded.
    pub tokens_per_sec: Option<f64>,
    /// Generated tokens, the prefills' included, per second of prefill and decode time; null where none was generated.
    pub output_tokens_per_sec: Option<f64>,
    /// Tokens decoded in the measured steps, the prefills' apart.
    pub decoded_tokens: usize,
    /// Median time of a whole step, checks included.
    pub step_time_p50: Option<f64>,
    /// 99th percentile of it.
    pub step_time_p99: Option<f64>,
    /// Requests that run at once (continuous mode).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_active_requests: Option<usize>,
    /// Requests that got all their tokens (continuous mode).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_completed: Option<usize>,
    /// From the start of the run to a request's first token, queueing included (continuous mode).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft: Option<Spread>,
    /// From the start of the run to a request's last token (continuous mode).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_latency: Option<Spread>,
    /// Checksum of the last logits' bit patterns; absent where the check is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logits_checksum: Option<i64>,
}

/// The outcome of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadResult {
    /// [`SCHEMA`].
    pub schema: String,
    /// No check failed.
    pub passed: bool,
    /// Failed steps.
    pub failure_count: usize,
    /// First failed step; null where none failed or no step is to blame.
    pub first_failure_iteration: Option<usize>,
    /// One record per failed step.
    pub failure_details: Vec<Failure>,
    /// Measured steps that ran.
    pub total_iterations: usize,
    /// Time of each, checks included.
    pub step_times_ms: Vec<f64>,
    /// Wall time of the measured steps, seconds.
    pub elapsed_sec: f64,
    /// Wall time of building the model and warming up, seconds.
    pub setup_sec: f64,
    /// The measured steps were reached.
    pub main_work_started: bool,
    /// Measured steps that ran.
    pub executed_iterations: usize,
    /// Measured steps asked for.
    pub configured_iterations: usize,
    /// Figures.
    pub metrics: Metrics,
}

impl WorkloadResult {
    /// Fails a run whose checksum is not the one expected.
    pub fn expect_checksum(&mut self, expected: i64) {
        let found = self.metrics.logits_checksum;
        if found == Some(expected) {
            return;
        }
        let detail = match found {
            Some(found) => format!("expected {expected}, found {found}"),
            None => format!("expected {expected}; checks.compare_logits_checksum is off"),
        };
        self.failure_details.push(Failure { step: None, problems: vec!["checksum_differs".into()], detail });
        self.failure_count += 1;
        self.passed = false;
    }
}
