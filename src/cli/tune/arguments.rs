//! The flags of `inferasim-tune`.

use super::planning::PlannerFlags;
use crate::cli::anchor::flags::AnchorFlags;
use crate::objective::Slo;
use crate::search::shard::Part;
use crate::sim::slo::SloSet;
use clap::{Parser, ValueEnum};
use std::path::PathBuf;

/// Search a space of deployments without a GPU and recommend one.
///
/// `inferasim-tune merge --help` joins the parts of a search, `inferasim-tune dispatch --help` spreads them over a cluster.
///
/// Exit codes: 0 an answer, 2 an error in input or environment, 3 nothing feasible.
#[derive(Debug, Parser)]
#[command(name = "inferasim-tune", version)]
pub struct Arguments {
    /// Machine: a built-in name (`inferasim list targets`) or a YAML file
    #[arg(long, required_unless_present = "resume")]
    pub target: Option<String>,
    /// Model: a built-in name, a config.json, or a folder that holds one [default: the target's]
    #[arg(long)]
    pub model: Option<String>,
    /// Prompt length, tokens [default: the target's]
    #[arg(long, allow_negative_numbers = true, value_parser = token_count)]
    pub isl: Option<u32>,
    /// Answer length, tokens [default: the target's]
    #[arg(long, allow_negative_numbers = true, value_parser = token_count)]
    pub osl: Option<u32>,
    /// Lengths are uniform on [ratio x nominal, nominal]; 1 is constant [default: the target's]
    #[arg(long, allow_negative_numbers = true)]
    pub range_ratio: Option<f64>,
    /// Share of each prompt answered from the prefix cache [default: the target's]
    #[arg(long, allow_negative_numbers = true)]
    pub prefix_hit_rate: Option<f64>,
    /// Share of the prefix hits that are copied in from host memory [default: the target's]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub host_hit_share: Option<f64>,
    /// Routed tokens of the busiest expert-parallel group over the mean group's [default: the target's, else 1.1]
    #[arg(long, value_name = "RATIO", allow_negative_numbers = true)]
    pub expert_imbalance: Option<f64>,
    /// Requests in flight, one or several separated by commas [default: the space's]
    #[arg(long, value_delimiter = ',')]
    pub concurrency: Vec<u32>,
    /// Engine: a built-in name (`inferasim list engines`) or a YAML file [default: the target's]
    #[arg(long)]
    pub engine: Option<String>,
    /// Engine version, e.g. 0.11.0 [default: the newest described]
    #[arg(long)]
    pub engine_version: Option<String>,
    /// Space: a built-in name (`inferasim list spaces`) or a YAML file [default: the target's]
    #[arg(long)]
    pub space: Option<String>,
    /// Objective: a built-in name (`inferasim list objectives`) or a YAML file [default: the target's]
    #[arg(long)]
    pub objective: Option<String>,
    /// Limits, e.g. ttft_ms=500 tpot_ms=20, or simulated ttft_p99_ms=800 (p50, p90, p99 of ttft, tpot, itl, e2e); each replaces the objective's own
    #[arg(long, num_args = 1.., value_name = "KEY=VALUE", value_parser = slo_list)]
    pub slo: Vec<SloList>,
    /// Check the best points, best first, until one keeps every limit; limits on percentiles imply it
    #[arg(long, value_enum)]
    pub verify: Option<Verifier>,
    /// Most points simulated
    #[arg(long, value_name = "N", default_value_t = 200, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub verify_budget: u32,
    /// Who chooses the points
    #[arg(long, value_enum, default_value_t = BackendName::Exhaustive)]
    pub backend: BackendName,
    /// Most evaluations [default: all points for exhaustive, 300 for ego, else 1000]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub budget: Option<u64>,
    /// Seed of the backend's random choices; equal seeds give equal answers
    #[arg(long, value_name = "S", default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// Look at part I of N of the space (0 to N-1) and write it to a file in --out, for `inferasim-tune merge`
    #[arg(long, value_name = "I/N", value_parser = part, conflicts_with = "budget")]
    pub shard: Option<Part>,
    /// Continue the interrupted run of this report folder: its own flags count, but for --budget, --json and --no-report
    #[arg(long, value_name = "RUN", conflicts_with_all = [
        "target", "model", "isl", "osl", "range_ratio", "prefix_hit_rate",
        "host_hit_share", "expert_imbalance", "concurrency", "engine", "engine_version",
        "space", "objective", "slo", "verify", "backend", "seed", "calibration", "anchors", "nodes", "gpus", "top", "shortlist", "out",
        "shard", "sensitivity",
        "planner_url", "planner_model", "planner_key_env", "planner_calls", "planner_tokens", "planner_usd", "planner_price",
        "planner_timeout", "planner_replay",
    ])]
    pub resume: Option<PathBuf>,
    /// The model behind --backend llm
    #[command(flatten)]
    pub planner: PlannerFlags,
    /// Fitted constants: a built-in name or a YAML file
    #[arg(long, default_value = "public")]
    pub calibration: String,
    /// Measured runs to stand on
    #[command(flatten)]
    pub anchors: AnchorFlags,
    /// Nodes at hand [default: the target's]
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub nodes: Option<u32>,
    /// GPUs at hand, for less than whole nodes [default: all of the nodes]
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with = "nodes")]
    pub gpus: Option<u32>,
    /// Deployments in shortlist.json: those whose measurement teaches most
    #[arg(long, value_name = "N", default_value_t = 8, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub shortlist: u32,
    /// Layouts in the ranking, each at its best load
    #[arg(long, default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub top: u32,
    /// Also write the CI job that measures the shortlist and compares [in the report's folder, measure.yml]
    #[arg(long, value_enum, value_name = "SYSTEM")]
    pub emit: Option<super::emit::System>,
    /// File of that job
    #[arg(long, value_name = "FILE", requires = "emit")]
    pub emit_to: Option<PathBuf>,
    /// Labels of the runner that has the GPUs [default: self-hosted and the target's name]
    #[arg(long, value_name = "LABEL", value_delimiter = ',', requires = "emit")]
    pub runner: Vec<String>,
    /// Say what one step of each knob and other assumptions (bandwidth, prefix hits, price, accepted drafts) would change
    #[arg(long)]
    pub sensitivity: bool,
    /// Folder for reports
    #[arg(long, default_value = "reports")]
    pub out: PathBuf,
    /// Write no report
    #[arg(long)]
    pub no_report: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Who chooses the points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BackendName {
    /// Every point
    Exhaustive,
    /// Every point where that takes seconds, else ego or, with a large budget, anneal
    Auto,
    /// An even, random choice (Sobol): the yardstick
    Random,
    /// Simulated annealing, eight chains
    Anneal,
    /// Particle swarm
    Swarm,
    /// Gaussian processes, for evaluations that are dear
    Ego,
    /// NSGA-II, for the front
    Evolve,
    /// A language model, see --planner-url
    Llm,
    /// A language model and random in turns
    #[value(name = "llm+random")]
    LlmRandom,
    /// A language model and anneal in turns
    #[value(name = "llm+anneal")]
    LlmAnneal,
    /// A language model and swarm in turns
    #[value(name = "llm+swarm")]
    LlmSwarm,
    /// A language model and ego in turns
    #[value(name = "llm+ego")]
    LlmEgo,
    /// A language model and evolve in turns
    #[value(name = "llm+evolve")]
    LlmEvolve,
}

impl BackendName {
    /// Whether a language model takes part; the backend beside it, or in its place; and the pair's name.
    pub fn parts(self) -> (bool, BackendName, Option<&'static str>) {
        match self {
            // What takes over where the model is given up.
            BackendName::Llm => (true, BackendName::Ego, None),
            BackendName::LlmRandom => (true, BackendName::Random, Some("llm+random")),
            BackendName::LlmAnneal => (true, BackendName::Anneal, Some("llm+anneal")),
            BackendName::LlmSwarm => (true, BackendName::Swarm, Some("llm+swarm")),
            BackendName::LlmEgo => (true, BackendName::Ego, Some("llm+ego")),
            BackendName::LlmEvolve => (true, BackendName::Evolve, Some("llm+evolve")),
            alone => (false, alone, None),
        }
    }
}

/// `0/4`: the first of four parts.
fn part(text: &str) -> Result<Part, String> {
    let parsed = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match parsed {
        Some((index, of)) if index < of && of <= 100_000 => Ok(Part { index, of }),
        _ => Err("give I/N with I from 0 to N-1 and N up to 100000, e.g. 0/4".to_string()),
    }
}

/// How recommended points are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Verifier {
    /// Request by request, on the projector's step cost
    Simulate,
}

/// The limits of one word on the command line: those of the closed form, and those only a simulation can check.
#[derive(Debug, Clone)]
pub struct SloList(pub Vec<Slo>, pub Vec<String>);

pub fn slo_list(text: &str) -> Result<SloList, crate::Error> {
    let (simulated, plain): (Vec<&str>, Vec<&str>) = text.split(',').partition(|one| SloSet::needs_simulation(one));
    let simulated: Vec<String> = simulated.iter().map(|one| one.trim().to_string()).collect();
    SloSet::parse(&simulated)?;
    let plain = if plain.is_empty() { Vec::new() } else { Slo::parse_list(&plain.join(","))? };
    Ok(SloList(plain, simulated))
}

/// A number of tokens; a negative one is told what is allowed.
pub fn token_count(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(n) if n < 0 => Err("is below 0; give 1 token or more".to_string()),
        _ => text.parse().map_err(|_| "is not a whole number of tokens".to_string()),
    }
}
