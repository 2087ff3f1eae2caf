//! Everything that is said about one deployment, in one serialisable struct; the terminal and `--json` render it.

use super::record::{CalibrationLevel, CalibrationStatement, Definition};
use crate::config::Deployment;
use crate::cost::calibration::Traced;
use crate::memory::MemoryPlan;
use crate::serve::{Bound, Breakdown, Explanation, ServingMetrics};
use crate::workload::Workload;
use serde::Serialize;

/// One deployment, judged. The metrics stand at the top level of the JSON document; they are absent where the
/// deployment does not fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Projection {
    /// It fits and keeps every limit.
    pub feasible: bool,
    /// Latency, throughput, cost.
    #[serde(flatten)]
    pub metrics: Option<ServingMetrics>,
    /// What limits it most.
    pub bound: Option<Bound>,
    /// Where a decode token's time goes; the parts add up to TPOT.
    pub breakdown: Option<Breakdown>,
    /// What binds it and which knob follows from it.
    pub binds: Vec<String>,
    /// The fullest rank.
    pub memory: Memory,
    /// How far the figures can be trusted.
    pub calibration: Trust,
    /// Each budget it exceeds.
    pub broken: Vec<Broken>,
    /// The limits asked for, e.g. `ttft_ms <= 500`.
    pub slo: Vec<String>,
    /// The machine, model and engine.
    pub subject: Subject,
    /// The deployment.
    pub deployment: Deployment,
    /// The load.
    pub workload: Workload,
    /// What a reader must know beside the figures.
    pub warnings: Vec<String>,
    /// What each term means.
    pub definitions: Vec<Definition>,
    /// Every line behind the figures, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<Details>,
}

/// What was projected.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Subject {
    /// Target name.
    pub target: String,
    /// GPU.
    pub gpu: String,
    /// GPUs the deployment uses.
    pub gpus: u32,
    /// Model name.
    pub model: String,
    /// The checkpoint.
    pub checkpoint: String,
    /// Engine name.
    pub engine: String,
    /// Engine version.
    pub engine_version: String,
}

/// Memory of the fullest rank, every line in bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Memory {
    /// The lines.
    #[serde(flatten)]
    pub plan: MemoryPlan,
    /// Weights, reserves and one request of the longest length fit.
    pub fits: bool,
    /// The largest line of the budget.
    pub binds: String,
}

/// The calibration behind the figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trust {
    /// Profile, e.g. `public`.
    pub profile: String,
    /// The worst of the statements.
    pub level: CalibrationLevel,
    /// One statement a kind of figure.
    pub statements: Vec<CalibrationStatement>,
}

/// A budget that is exceeded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Broken {
    /// The budget, the value and the overshoot.
    pub what: String,
    /// The line of the budget that binds.
    pub binds: String,
    /// The nearest change that helps.
    pub change: String,
}

/// A named figure with its derivation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// Its value; bytes or a count.
    pub value: f64,
    /// How it comes about.
    pub how: String,
}

/// Every line behind the figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Details {
    /// Step, prefill and assembly; absent where the deployment does not fit.
    #[serde(flatten)]
    pub arithmetic: Option<Explanation>,
    /// Lines of the memory budget, bytes.
    pub memory_lines: Vec<Figure>,
    /// What the memory holds: bytes per token, tokens, requests.
    pub capacity: Vec<Figure>,
    /// Limits on running requests of one instance, and what runs.
    pub running: Vec<Figure>,
    /// Constants of the calibration in this regime.
    pub constants: Vec<Traced>,
}
