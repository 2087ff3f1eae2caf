//! `--backend llm`: which model is asked, what it may cost, and what it is told of the run.

use super::Arguments;
use super::inputs::Inputs;
use super::interrupt;
use crate::planner::backend::Planner;
use crate::planner::{Briefing, Budget, Channel, Endpoint, Limits, Live, Parts, Replay, Session, Transcript};
use crate::search::{Backend, Evaluator, Search};
use crate::{Error, Result};
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Name of the transcript in a run's folder.
pub const TRANSCRIPT: &str = "planner.jsonl";

/// Flags of the planner.
#[derive(Debug, Clone, Args)]
pub struct PlannerFlags {
    /// Base of an OpenAI-compatible API, e.g. http://127.0.0.1:8000/v1
    #[arg(long, value_name = "URL")]
    pub planner_url: Option<String>,
    /// Name of the model there
    #[arg(long, value_name = "NAME")]
    pub planner_model: Option<String>,
    /// Environment variable that holds the endpoint's key; without it none is sent
    #[arg(long, value_name = "VARIABLE")]
    pub planner_key_env: Option<String>,
    /// Most requests to the model, repeated ones included [default: 30]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub planner_calls: Option<u32>,
    /// Most tokens the model may read and write [default: 300000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    pub planner_tokens: Option<u64>,
    /// Most US dollars; needs --planner-price
    #[arg(long, value_name = "USD", requires = "planner_price", value_parser = dollars)]
    pub planner_usd: Option<f64>,
    /// US dollars per million tokens read and written, e.g. 0.5,1.5
    #[arg(long, value_name = "IN,OUT", value_parser = price)]
    pub planner_price: Option<Price>,
    /// Longest wait for an answer, seconds [default: 120]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub planner_timeout: Option<u64>,
    /// Answer from the planner.jsonl of an earlier run instead of an endpoint
    #[arg(long, value_name = "FILE", conflicts_with_all = ["planner_url", "planner_key_env", "planner_timeout"])]
    pub planner_replay: Option<PathBuf>,
}

/// Refuses flags that would change nothing, and a planner without an endpoint, before the search.
pub fn check(arguments: &Arguments) -> Result<()> {
    if arguments.backend.parts().0 { arguments.planner.channel().map(|_| ()) } else { arguments.planner.unused() }
}

/// Prices per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price(f64, f64);

fn dollars(text: &str) -> std::result::Result<f64, String> {
    let value: f64 = text.trim().parse().map_err(|_| "is not a number of dollars".to_string())?;
    if (0.0..=1e6).contains(&value) { Ok(value) } else { Err("is not between 0 and 1000000 dollars".to_string()) }
}

fn price(text: &str) -> std::result::Result<Price, String> {
    let (read, written) = text.split_once(',').ok_or("give two prices, read and written, e.g. 0.5,1.5")?;
    Ok(Price(dollars(read)?, dollars(written)?))
}

impl PlannerFlags {
    /// Nothing of it is given.
    ///
    /// # Errors
    /// A flag that has no effect, by name.
    pub fn unused(&self) -> Result<()> {
        let given = [
            ("--planner-url", self.planner_url.is_some()),
            ("--planner-model", self.planner_model.is_some()),
            ("--planner-key-env", self.planner_key_env.is_some()),
            ("--planner-calls", self.planner_calls.is_some()),
            ("--planner-tokens", self.planner_tokens.is_some()),
            ("--planner-usd", self.planner_usd.is_some()),
            ("--planner-price", self.planner_price.is_some()),
            ("--planner-timeout", self.planner_timeout.is_some()),
            ("--planner-replay", self.planner_replay.is_some()),
        ];
        match given.into_iter().find(|g| g.1) {
            None => Ok(()),
            Some((flag, _)) => Err(Error::input(flag, "no planner is asked", "Add --backend llm, or llm+random")),
        }
    }

    /// The key, from its variable.
    fn key(&self) -> Result<Option<String>> {
        let Some(variable) = &self.planner_key_env else { return Ok(None) };
        let tried = || format!("--planner-key-env {variable}");
        match std::env::var(variable) {
            Ok(key) if !key.trim().is_empty() => Ok(Some(key.trim().to_string())),
            Ok(_) => Err(Error::input(tried(), "the variable is empty", "Export the key in it")),
            Err(_) => Err(Error::input(tried(), "no such variable, or no text in it", "Export the key in it")),
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            calls: self.planner_calls.unwrap_or(30),
            tokens: self.planner_tokens.unwrap_or(300_000),
            usd: self.planner_usd,
            usd_per_m: self.planner_price.map(|p| (p.0, p.1)),
        }
    }

    /// Model, channel and key.
    fn channel(&self) -> Result<(String, Box<dyn Channel>, Option<String>)> {
        if let Some(file) = &self.planner_replay {
            let replay = Replay::open(file)?;
            let model = self.planner_model.clone().or_else(|| replay.model().map(str::to_string));
            return Ok((model.unwrap_or_else(|| "replayed".to_string()), Box::new(replay), None));
        }
        let missing = |flag: &str| {
            Error::input(
                "--backend llm",
                format!("{flag} is missing"),
                "Name the endpoint and its model, or --planner-replay FILE",
            )
        };
        let url = self.planner_url.clone().ok_or_else(|| missing("--planner-url"))?;
        let model = self.planner_model.clone().ok_or_else(|| missing("--planner-model"))?;
        let key = self.key()?;
        let timeout = Duration::from_secs(self.planner_timeout.unwrap_or(120));
        let endpoint = Endpoint { url, key: key.clone(), timeout };
        let live = Live::new(&endpoint, Box::new(|| interrupt::flag().load(Ordering::Relaxed)))?;
        Ok((model, Box::new(live), key))
    }
}

/// A model that leads the search. `folder` is where its transcript is kept, `mixed` names the pair where it takes turns
/// with `other`.
///
/// # Errors
/// An endpoint, a key or a transcript that cannot be used.
pub fn planner<'a, E: Evaluator>(
    search: &'a Search<'a, E>,
    inputs: &Inputs,
    (flags, seed): (&PlannerFlags, u64),
    folder: Option<&Path>,
    other: Box<dyn Backend + 'a>,
    mixed: Option<&'static str>,
) -> Result<Box<dyn Backend + 'a>> {
    let (model, channel, key) = flags.channel()?;
    let transcript = match folder {
        Some(folder) => Transcript::create(&folder.join(TRANSCRIPT), key)?,
        None => Transcript::none(),
    };
    let parts = Parts {
        model,
        seed,
        briefing: briefing(inputs),
        channel,
        transcript,
        budget: Budget::new(flags.limits()),
        interrupted: Box::new(|| interrupt::flag().load(Ordering::Relaxed)),
    };
    let session = Session::new(search, parts);
    Ok(Box::new(match mixed {
        Some(name) => Planner::mixed(session, other, name),
        None => Planner::alone(session, other),
    }))
}

/// What the run is about, from its inputs.
fn briefing(inputs: &Inputs) -> Briefing {
    let (architecture, gpu, node) = (&inputs.model.architecture, &inputs.target.gpu, &inputs.target.node);
    let parameters = architecture.parameters();
    let billions = |count: u64| format!("{:.1} billion", count as f64 / 1e9);
    let kind = if architecture.is_moe() { "mixture of experts" } else { "dense" };
    let price =
        inputs.target.price.as_ref().map_or(String::new(), |p| format!(", ${} per GPU hour", p.usd_per_gpu_hour.value));
    let w = &inputs.workload;
    Briefing {
        model: format!(
            "{}, {kind}, {} attention, {} parameters, {} active per token; checkpoints {}",
            architecture.name,
            crate::serve::projector::attention_kind(architecture),
            billions(parameters.total()),
            billions(parameters.active()),
            inputs.model.checkpoints.iter().map(|c| c.dtype.as_str()).collect::<Vec<_>>().join(", "),
        ),
        node: format!(
            "{} GPUs {} in nodes of {}, each {} GiB at {} TB/s, {} TFLOP/s bf16, {} TFLOP/s fp8; {} GB/s between GPUs of \
             a node, {} GB/s between nodes, per direction{price}",
            inputs.space.most_gpus(),
            gpu.name,
            node.gpus,
            gpu.hbm_gib.value,
            gpu.hbm_tb_s.value,
            gpu.bf16_tflops.value,
            gpu.fp8_tflops.value,
            node.scaleup_gb_s.value,
            node.scaleout_gb_s.value,
        ),
        engine: format!(
            "{} {}",
            inputs.projector.engine.name,
            inputs.projector.engine_version.as_deref().unwrap_or("(newest described)")
        ),
        workload: format!(
            "prompts of {} and answers of {} tokens, uniform from {} of that; {:.0} % of each prompt answered from the prefix \
             cache; a closed loop of `concurrency` clients",
            w.isl,
            w.osl,
            w.range_ratio,
            100.0 * w.prefix_hit_rate
        ),
    }
}
