//! Everything a run found, in one serialisable struct: what was asked, what was searched, what came out and how far
//! the figures can be trusted. Every rendering reads this struct and computes nothing of its own.

use crate::catalog::Document;
use crate::config::Deployment;
use crate::memory::MemoryPlan;
use crate::serve::{Evaluation, ServingMetrics};
use crate::source::Origin;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Layout version of [`RunRecord`]; raised when a field changes its meaning or is removed.
pub const SCHEMA: u32 = 1;

/// Most entries of [`RunRecord::sample`] a scatter plot draws; a longer sample is thinned evenly.
pub const SAMPLE_LIMIT: usize = 3000;

/// One search, complete enough to be repeated and to be rendered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`SCHEMA`] at the time of writing.
    pub schema: u32,
    /// Version of InferaSim that wrote it.
    pub version: String,
    /// Start of the run, UTC, `2026-03-01T12:30:00Z` (see [`crate::report::time::utc_now`]).
    pub started: String,
    /// The command line, program name first, one element a word.
    pub arguments: Vec<String>,
    /// The machine.
    pub target: TargetSummary,
    /// The model and its checkpoints.
    pub model: ModelSummary,
    /// The engine.
    pub engine: EngineSummary,
    /// What was asked of every deployment; the concurrency is a knob.
    pub workload: Workload,
    /// What was maximised, under which SLOs.
    pub objective: ObjectiveSummary,
    /// Which knobs varied.
    pub space: NamedDocument,
    /// Longest context a deployment was required to admit, tokens (`--max-model-len` of the launch command).
    pub max_model_len: u32,
    /// Points enumerated, legal and feasible.
    pub counts: Counts,
    /// How the points were chosen, and why no more were.
    #[serde(default)]
    pub search: SearchSummary,
    /// What the simulation said of the first of them, where it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<super::verification::Verification>,
    /// Points that no engine accepts, by reason, most frequent first.
    pub illegal: Vec<Group>,
    /// Legal points that do not fit or break an SLO, by reason, most frequent first.
    pub rejected: Vec<Group>,
    /// The best feasible points, best first; ranks count from 1.
    pub top: Vec<Candidate>,
    /// The deployments worth measuring, best first.
    #[serde(default)]
    pub shortlist: Vec<Finalist>,
    /// The recommendation; absent where nothing is feasible.
    pub best: Option<Candidate>,
    /// Where nothing is feasible: the point that comes nearest, and what blocks it.
    pub closest: Option<Closest>,
    /// Where no point of the space runs: the one nearest to running, what blocks it and the nearest repair.
    #[serde(default)]
    pub obstacle: Option<Obstacle>,
    /// Why the recommendation won, a sentence each.
    pub why: Vec<String>,
    /// What binds the recommendation and which knob follows from it, a sentence each.
    pub binds: Vec<String>,
    /// Pareto front of tok/s/GPU against tok/s/user over the feasible points, by rising tok/s/user.
    pub front: Vec<Candidate>,
    /// Pareto front of US dollars per million tokens (low) against tok/s/user (high); empty without a price.
    pub cost_front: Vec<Candidate>,
    /// A bounded, even sample of the evaluated points for the scatter plots (at most [`SAMPLE_LIMIT`]).
    pub sample: Vec<SamplePoint>,
    /// How far each kind of figure can be trusted.
    pub calibration: Vec<CalibrationStatement>,
    /// What a reader must know beside the figures.
    pub warnings: Vec<String>,
    /// What each printed term means.
    pub definitions: Vec<Definition>,
    /// Wall time of the search, seconds.
    pub elapsed_s: f64,
    /// CPU time of the process, seconds.
    pub cpu_s: f64,
}

/// A YAML document with the name it was found under.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedDocument {
    /// Name as asked for, e.g. `moe`.
    pub name: String,
    /// A path, or `built-in spaces/moe.yaml`.
    pub origin: String,
    /// The YAML text as read.
    pub text: String,
}

impl NamedDocument {
    /// The document that `name` led to.
    pub fn new(name: impl Into<String>, document: &Document) -> Self {
        Self { name: name.into(), origin: document.origin.clone(), text: document.text.clone() }
    }
}

/// The machine in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetSummary {
    /// The target file.
    pub document: NamedDocument,
    /// Marketing name of the GPU.
    pub gpu: String,
    /// GPUs in a node.
    pub gpus_per_node: u32,
    /// Nodes at hand.
    pub nodes: u32,
    /// Price, where one is stated.
    pub usd_per_gpu_hour: Option<f64>,
    /// The figures the answer rests on most (peaks, bandwidths, memory, price) with their sources.
    pub figures: Vec<Figure>,
}

/// One input figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What it is, e.g. `HBM bandwidth`.
    pub name: String,
    /// Its value with the unit, e.g. `8 TB/s`.
    pub value: String,
    /// How it is known.
    pub origin: Origin,
    /// Where it was read.
    pub source: String,
}

/// The model in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelSummary {
    /// Short name, as on the command line.
    pub name: String,
    /// Parameters in total.
    pub parameters: f64,
    /// Parameters a token passes through.
    pub active_parameters: f64,
    /// Published checkpoints by precision.
    pub checkpoints: Vec<CheckpointName>,
    /// Where the shapes were read: a preset's citation or the path of a `config.json`.
    pub source: String,
}

impl ModelSummary {
    /// Where the checkpoint of a precision is published; the model's own name where none is known.
    pub fn checkpoint(&self, dtype: &str) -> &str {
        self.checkpoints.iter().find(|c| c.dtype == dtype).map_or(&self.name, |c| &c.id)
    }
}

/// One checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointName {
    /// Precision as users name it.
    pub dtype: String,
    /// Where it is published, e.g. `openai/gpt-oss-120b`.
    pub id: String,
}

/// The engine in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineSummary {
    /// `vllm`, `sglang`, `trtllm` or `atom`.
    pub name: String,
    /// Version whose defaults and memory meaning were used.
    pub version: String,
    /// Path or built-in name of its profile.
    pub origin: String,
}

/// What was maximised, under which limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveSummary {
    /// The objective file.
    pub document: NamedDocument,
    /// The metric's key, e.g. `tok_s_per_gpu`.
    pub metric: String,
    /// What a reader calls it, with its unit, e.g. `tok/s/GPU`.
    pub label: String,
    /// Larger is better.
    pub maximise: bool,
    /// Limits, those of the file and those of the command line.
    pub slos: Vec<SloLimit>,
}

/// One limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SloLimit {
    /// Key on the command line, e.g. `ttft_ms`.
    pub key: String,
    /// The value that must not be crossed.
    pub limit: f64,
    /// The limit is a ceiling (a latency, a cost) rather than a floor (a throughput).
    pub at_most: bool,
}

impl fmt::Display for SloLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.key, if self.at_most { "<=" } else { ">=" }, self.limit)
    }
}

/// How the points were chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SearchSummary {
    /// Name of the backend.
    pub backend: String,
    /// Seed of its random choices; absent for a backend without any.
    pub seed: Option<u64>,
    /// Most evaluations, where they were limited.
    pub budget: Option<u64>,
    /// Legal points evaluated.
    pub evaluations: u64,
    /// `exhausted`, `budget`, `converged` or `interrupted`.
    pub stop: String,
    /// What else is to be said of the choice of points, a sentence each.
    pub notes: Vec<String>,
}

/// How many points there were; `points = legal + illegal + unseen`, `legal = feasible + rejected`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Combinations of the space.
    pub points: u64,
    /// Combinations nobody looked at: the search was selective, or ended early.
    #[serde(default)]
    pub unseen: u64,
    /// Combinations an engine accepts.
    pub legal: u64,
    /// Legal ones that fit and keep every SLO.
    pub feasible: u64,
    /// Feasible ones kept one by one, the best first: what `points.csv` can hold.
    #[serde(default)]
    pub listed: u64,
}

/// Points that share a reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The reason, e.g. `ttft_ms above its limit`.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// One of them: budget, value, overshoot and the nearest change that would help.
    pub example: String,
}

/// One deployment with everything predicted about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Place in the ranking by the objective, from 1.
    pub rank: u64,
    /// Value of the objective's metric.
    pub objective: f64,
    /// GPUs of the whole deployment.
    pub gpus: u32,
    /// The deployment.
    pub deployment: Deployment,
    /// Its figures.
    pub evaluation: Evaluation,
    /// Memory of its fullest rank.
    pub memory: MemoryPlan,
}

impl Candidate {
    /// Latency, throughput and cost.
    pub fn metrics(&self) -> &ServingMetrics {
        &self.evaluation.metrics
    }
}

/// A deployment worth measuring, and what a measurement is to be held against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finalist {
    /// The deployment; its rank counts among the finalists.
    pub candidate: Candidate,
    /// `best`, `diverse`, `informative` or `next`.
    pub role: String,
    /// The same in a sentence.
    pub reason: String,
    /// No other point beats it in throughput per GPU and speed per user at once.
    pub on_front: bool,
    /// Probability that it is the best of the list.
    pub win_probability: f64,
    /// What measuring it is expected to say about which is best, bits.
    pub information_bits: f64,
    /// Its figures with their bands.
    pub ranges: Vec<FigureRange>,
    /// Share of measurements that a band is expected to hold.
    pub band_coverage: f64,
    /// What the bands rest on.
    pub band_origin: String,
}

/// A predicted figure and the ends of its band.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureRange {
    /// The figure's name, e.g. `tpot_ms`.
    pub key: String,
    /// The prediction.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The point nearest to running in a space where none does; it has no figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Obstacle {
    /// The point.
    pub deployment: Deployment,
    /// What blocks it and the nearest repair.
    pub blocked_by: String,
}

/// The nearest miss of a search without a feasible point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Closest {
    /// The point.
    pub candidate: Candidate,
    /// What blocks it: budget, value, overshoot and the nearest change that would help.
    pub blocked_by: String,
}

/// One evaluated point of the scatter plots.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SamplePoint {
    /// Output tokens per second one user sees.
    pub tok_s_per_user: f64,
    /// Input and output tokens per second over all GPUs.
    pub tok_s_per_gpu: f64,
    /// US dollars per million tokens, input and output.
    pub usd_per_m_total: Option<f64>,
    /// Keeps every SLO.
    pub feasible: bool,
}

impl SamplePoint {
    /// What the scatter plots need of an evaluated point.
    pub fn new(metrics: &ServingMetrics, feasible: bool) -> Self {
        Self {
            tok_s_per_user: metrics.tok_s_per_user,
            tok_s_per_gpu: metrics.tok_s_per_gpu,
            usd_per_m_total: metrics.usd_per_m_total,
            feasible,
        }
    }
}

/// How far figures can be trusted, worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CalibrationLevel {
    /// Fitted on measurements of this engine on this GPU family.
    Calibrated,
    /// Rests on another engine's or another GPU's measurements.
    Neighbour,
    /// Rests on data-sheet figures and assumptions alone.
    Uncalibrated,
}

impl fmt::Display for CalibrationLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CalibrationLevel::Calibrated => "calibrated",
            CalibrationLevel::Neighbour => "neighbouring data",
            CalibrationLevel::Uncalibrated => "uncalibrated",
        })
    }
}

/// One statement about the trust in a kind of figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalibrationStatement {
    /// How far.
    pub level: CalibrationLevel,
    /// Which figures, on what data, with what error where it is known.
    pub text: String,
}

/// One term of the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// As printed, e.g. `ttft_ms`.
    pub term: String,
    /// What it means, with its unit.
    pub text: String,
}

impl RunRecord {
    /// The worst level among the calibration statements; uncalibrated where there are none.
    pub fn calibration_level(&self) -> CalibrationLevel {
        self.calibration.iter().map(|s| s.level).max().unwrap_or(CalibrationLevel::Uncalibrated)
    }

    /// What a launch command of a candidate serves.
    pub fn checkpoint_of(&self, candidate: &Candidate) -> &str {
        self.model.checkpoint(&candidate.deployment.weight_dtype)
    }

    /// The search's options that are numbers or names only, for headings: `gpt-oss-120b on 8 × MI355X, vllm 0.11`.
    pub fn title(&self) -> String {
        format!("{} on {}, {} {}", self.model.name, self.target.describe_gpus(), self.engine.name, self.engine.version)
    }
}

impl TargetSummary {
    /// `8 × MI355X` or `4 nodes of 8 × MI355X`.
    pub fn describe_gpus(&self) -> String {
        if self.nodes == 1 {
            format!("{} × {}", self.gpus_per_node, self.gpu)
        } else {
            format!("{} nodes of {} × {}", self.nodes, self.gpus_per_node, self.gpu)
        }
    }
}
