//! How is a deployment started and measured? Launch and benchmark commands of each engine.
//!
//! Flags follow the engines' public documentation: vLLM `vllm serve` and `vllm bench serve`; SGLang server arguments
//! and `sglang.bench_serving`; TensorRT-LLM `trtllm-serve` and its `benchmark_serving`; ATOM's configuration and
//! distributed guides. What an engine cannot be asked for becomes a note rather than a wrong flag.

mod atom;
pub mod github;
mod sglang;
mod trtllm;
mod vllm;

use crate::catalog::nearest;
use crate::config::Deployment;
use crate::workload::Workload;
use crate::{Error, Result};

/// What is to be started.
#[derive(Debug, Clone, Copy)]
pub struct LaunchRequest<'a> {
    /// Engine name: one of [`ENGINES`], or a variant that names its base first (`vllm-atom`, `moreh-vllm`).
    pub engine: &'a str,
    /// The deployment.
    pub deployment: &'a Deployment,
    /// What is served: a published id or a folder.
    pub checkpoint: &'a str,
    /// Longest context admitted, tokens.
    pub max_model_len: u32,
    /// What the benchmark sends.
    pub workload: &'a Workload,
    /// GPUs in one node.
    pub gpus_per_node: u32,
}

/// Commands of one instance and of the benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Words of the command that starts one instance.
    pub command: Vec<String>,
    /// Words of the command that starts one prefill instance, where prompts have a pool of their own.
    pub prefill_command: Option<Vec<String>>,
    /// A file the command reads: name and text.
    pub options_file: Option<(String, String)>,
    /// Words of the command that measures the deployment as it was predicted.
    pub benchmark: Vec<String>,
    /// What the commands cannot say.
    pub notes: Vec<String>,
}

/// Engines with launch commands.
pub const ENGINES: [&str; 4] = ["vllm", "sglang", "trtllm", "atom"];

/// The commands for a deployment. An engine outside [`ENGINES`] is an error.
pub fn launch(request: &LaunchRequest<'_>) -> Result<Launch> {
    let mut parts = request.engine.split(['-', '_']);
    let base = parts.find(|part| ENGINES.contains(part)).unwrap_or(request.engine);
    let mut launch = match base {
        "vllm" => vllm::launch(request),
        "sglang" => sglang::launch(request),
        "trtllm" => trtllm::launch(request),
        "atom" => atom::launch(request),
        other => {
            let known = format!("Known: {}", ENGINES.join(", "));
            let repair = nearest(other, &ENGINES).map_or(known.clone(), |n| format!("Did you mean `{n}`? {known}"));
            return Err(Error::input(format!("launch command for engine `{}`", request.engine), "not known", repair));
        }
    };
    if let Some(pool) = request.deployment.prefill_deployment() {
        disaggregate(request, &pool, base, &mut launch)?;
    }
    common_notes(request, &mut launch.notes);
    Ok(launch)
}

/// Adds the prefill side: the same command for the pool's layout, both sides told their role.
fn disaggregate(request: &LaunchRequest<'_>, pool: &Deployment, base: &str, launch: &mut Launch) -> Result<()> {
    let role = |mode: &str| -> Option<[String; 2]> {
        match base {
            "vllm" => {
                Some(["--kv-transfer-config".into(), r#"{"kv_connector":"NixlConnector","kv_role":"kv_both"}"#.into()])
            }
            "sglang" => Some(["--disaggregation-mode".into(), mode.into()]),
            _ => None,
        }
    };
    let mut prefill = self::launch(&LaunchRequest { deployment: pool, ..*request })?.command;
    match (role("prefill"), role("decode")) {
        (Some(first), Some(second)) => {
            prefill.extend(first);
            launch.command.extend(second);
        }
        _ => launch.notes.push("Tell both sides their role as the engine's disaggregation guide says.".to_string()),
    }
    let shell = join(&prefill);
    launch.prefill_command = Some(prefill);
    launch.notes.push(format!(
        "{} prefill instances start with `{shell}`; a router that sends prompts to them first, and then to a \
         decode instance, must listen on the benchmark's port.",
        pool.replicas
    ));
    Ok(())
}

impl Launch {
    /// The start command as one shell line.
    pub fn shell(&self) -> String {
        let command = join(&self.command);
        match &self.options_file {
            None => command,
            Some((name, text)) => {
                let lines: Vec<String> = text.lines().map(shell).collect();
                format!("printf '%s\\n' {} > {} && {command}", lines.join(" "), shell(name))
            }
        }
    }

    /// The benchmark command as one shell line.
    pub fn benchmark_shell(&self) -> String {
        join(&self.benchmark)
    }
}

fn join(words: &[String]) -> String {
    words.iter().map(|w| shell(w)).collect::<Vec<_>>().join(" ")
}

fn common_notes(request: &LaunchRequest<'_>, notes: &mut Vec<String>) {
    let d = request.deployment;
    if d.replicas > 1 {
        notes.push(format!(
            "The command starts one of {} equal instances; put a router on the benchmark's port in front of them.",
            d.replicas
        ));
    }
    let ranks = d.tp * d.pp;
    if request.gpus_per_node > 0 && ranks > request.gpus_per_node {
        let nodes = ranks.div_ceil(request.gpus_per_node);
        notes.push(format!("One instance spans {nodes} nodes: add the engine's own multi-node options."));
    }
    if request.workload.prefix_hit_rate > 0.0 && d.replicas > 1 {
        notes.push("The prefix hit rate holds only if the router keeps equal prefixes on one instance.".to_string());
    }
}

/// One word of a POSIX shell command line, quoted where it must be.
pub fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Builds a command word by word.
struct Words(Vec<String>);

impl Words {
    fn new(words: &[&str]) -> Self {
        Self(words.iter().map(ToString::to_string).collect())
    }

    fn word(&mut self, word: &str) -> &mut Self {
        self.0.push(word.to_string());
        self
    }

    fn option(&mut self, flag: &str, value: impl ToString) -> &mut Self {
        self.0.push(flag.to_string());
        self.0.push(value.to_string());
        self
    }

    fn option_if(&mut self, given: bool, flag: &str, value: impl ToString) -> &mut Self {
        if given { self.option(flag, value) } else { self }
    }

    fn word_if(&mut self, given: bool, flag: &str) -> &mut Self {
        if given { self.word(flag) } else { self }
    }
}

/// How a client reads its range ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RangeRatio {
    /// Lengths from `ratio · nominal` to `nominal` (SGLang's and ATOM's clients; the workload's own meaning).
    FromRatio,
    /// Lengths from `(1 − r) · mean` to `(1 + r) · mean` (vLLM's and TensorRT-LLM's clients).
    AroundMean,
}

/// The options that every client of this family shares: closed loop, all prompts at once, exact lengths.
fn random_load(words: &mut Words, request: &LaunchRequest<'_>, meaning: RangeRatio) {
    let (w, d) = (request.workload, request.deployment);
    let (isl, osl, ratio) = match meaning {
        RangeRatio::FromRatio => (f64::from(w.isl), f64::from(w.osl), w.range_ratio),
        RangeRatio::AroundMean => {
            (w.mean_isl().round(), w.mean_osl().round(), (1.0 - w.range_ratio) / (1.0 + w.range_ratio))
        }
    };
    let ratio = format!("{ratio:.4}");
    let ratio = ratio.trim_end_matches('0').trim_end_matches('.');
    words
        .option("--dataset-name", "random")
        .option("--random-input-len", isl)
        .option("--random-output-len", osl)
        .option("--random-range-ratio", ratio)
        .option("--num-prompts", u64::from(w.prompts_per_client) * u64::from(d.concurrency))
        .option("--max-concurrency", d.concurrency)
        .option("--request-rate", "inf");
}

fn prefix_note(request: &LaunchRequest<'_>, client: &str) -> Option<String> {
    let rate = request.workload.prefix_hit_rate;
    (rate > 0.0).then(|| {
        format!(
            "{client} sends prompts without a shared prefix; the predicted figures assume {:.0} % hits.",
            100.0 * rate
        )
    })
}

#[cfg(test)]
mod tests;
