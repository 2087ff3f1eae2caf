//! What is asked of a deployment: prompt and answer lengths, prefix sharing, how the benchmark is run.

use serde::{Deserialize, Serialize};

/// A closed-loop workload with `concurrency` clients (the concurrency itself is a knob of the deployment).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Nominal prompt length in tokens.
    pub isl: u32,
    /// Nominal answer length in tokens.
    pub osl: u32,
    /// Lengths are uniform on [ratio · nominal, nominal]; 1 is constant. The InferenceX client uses 0.8.
    #[serde(default = "one")]
    pub range_ratio: f64,
    /// Share of each prompt answered from the prefix cache, in [0, 1).
    #[serde(default)]
    pub prefix_hit_rate: f64,
    /// Share of those hits whose KV cache waits in host memory and is copied in first, in [0, 1].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub host_hit_share: f64,
    /// Routed tokens of the busiest expert-parallel group over the mean group's, at least 1.
    #[serde(default = "usual_imbalance", skip_serializing_if = "is_usual")]
    pub expert_imbalance: f64,
    /// Prompts of the run per client: a run sends this many times the concurrency, all clients at once.
    #[serde(default = "ten")]
    pub prompts_per_client: u32,
}

fn one() -> f64 {
    1.0
}

/// What the busiest expert-parallel group gets above the mean. Assumed; public serving data does not determine it (dropping
/// it changes held-out errors by 0.3 points at most).
pub const USUAL_IMBALANCE: f64 = 1.1;

fn usual_imbalance() -> f64 {
    USUAL_IMBALANCE
}

fn is_usual(imbalance: &f64) -> bool {
    *imbalance == USUAL_IMBALANCE
}

fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

fn ten() -> u32 {
    10
}

impl Workload {
    /// Constant lengths.
    pub fn constant(isl: u32, osl: u32) -> Self {
        Self {
            isl,
            osl,
            range_ratio: 1.0,
            prefix_hit_rate: 0.0,
            host_hit_share: 0.0,
            expert_imbalance: USUAL_IMBALANCE,
            prompts_per_client: 10,
        }
    }

    /// Mean prompt length in tokens.
    pub fn mean_isl(&self) -> f64 {
        f64::from(self.isl) * (1.0 + self.range_ratio) / 2.0
    }

    /// Mean answer length in tokens.
    pub fn mean_osl(&self) -> f64 {
        f64::from(self.osl) * (1.0 + self.range_ratio) / 2.0
    }
}
