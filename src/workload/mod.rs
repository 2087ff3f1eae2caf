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
    /// Prompts of the run per client: a run sends this many times the concurrency, all clients at once.
    #[serde(default = "ten")]
    pub prompts_per_client: u32,
}

fn one() -> f64 {
    1.0
}

fn ten() -> u32 {
    10
}

impl Workload {
    /// Constant lengths.
    pub fn constant(isl: u32, osl: u32) -> Self {
        Self { isl, osl, range_ratio: 1.0, prefix_hit_rate: 0.0, prompts_per_client: 10 }
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
