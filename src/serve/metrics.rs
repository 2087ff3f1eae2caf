//! What a closed-loop benchmark of `prompts_per_client · concurrency` prompts would report.

use serde::{Deserialize, Serialize};

/// Means over all requests of the run, the first wave included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ServingMetrics {
    /// Mean time to first token, ms.
    pub ttft_ms: f64,
    /// Median time to first token, ms.
    pub ttft_p50_ms: f64,
    /// Mean time per output token after the first, (E2E − TTFT)/(tokens − 1), ms.
    pub tpot_ms: f64,
    /// Mean end-to-end latency, ms.
    pub e2e_ms: f64,
    /// Output tokens per second of the whole deployment over the whole run.
    pub output_tok_s: f64,
    /// Input and output tokens per second of the whole deployment.
    pub total_tok_s: f64,
    /// `total_tok_s` over all GPUs.
    pub tok_s_per_gpu: f64,
    /// 1000 / TPOT: output tokens per second one user sees.
    pub tok_s_per_user: f64,
    /// Requests that actually run at once over all replicas, after the KV and sequence limits.
    pub running: f64,
    /// US dollars per million output tokens, where the target states a price.
    pub usd_per_m_output: Option<f64>,
    /// US dollars per million tokens, input and output.
    pub usd_per_m_total: Option<f64>,
}
