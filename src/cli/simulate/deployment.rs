//! `--target`, `--model`, …: the deployment whose projected step cost a simulation takes.

use crate::cli::project;
use crate::serve::{Evaluation, Refusal};
use crate::sim::deployment::Instance;
use crate::sim::distribution::Lengths;
use crate::{Error, Result};
use clap::Args;

/// The deployment, as `inferasim project` names it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Deployment")]
pub struct DeploymentArgs {
    /// Machine: a built-in name or a YAML file [default: mi355x where --model is given]
    #[arg(long)]
    target: Option<String>,
    /// Model: a built-in name, a config.json, or a folder that holds one [default: the target's]
    #[arg(long)]
    model: Option<String>,
    /// Engine: a built-in name or a YAML file [default: the target's]
    #[arg(long)]
    engine: Option<String>,
    /// Engine version, e.g. 0.11.0 [default: the newest described]
    #[arg(long)]
    engine_version: Option<String>,
    /// Ranks of one pipeline stage
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    tp: u32,
    /// Expert-parallel groups inside the stage
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    ep: u32,
    /// Attention-data-parallel groups inside the stage
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    attention_dp: u32,
    /// Ranks that each hold a part of a sequence's KV cache in decode instead of a copy (vLLM)
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    context_parallel: u32,
    /// Pipeline stages
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pp: u32,
    /// Precision of the checkpoint, as the model's preset names it [default: the model's first]
    #[arg(long)]
    weight_dtype: Option<String>,
    /// KV cache format: bf16 or fp8 [default: the engine's on this GPU]
    #[arg(long)]
    kv_dtype: Option<String>,
    /// Memory fraction, by the engine's own meaning of it [default: the engine's]
    #[arg(long)]
    memory_fraction: Option<f64>,
    /// Nodes at hand [default: the target's]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    nodes: Option<u32>,
    /// Fitted constants: a built-in name or a YAML file [default: public]
    #[arg(long)]
    calibration: Option<String>,
    /// Speculative decoding with this many draft tokens a step
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=64))]
    speculation: Option<u32>,
    /// Mean tokens a step emits per sequence with speculation, 1 to K + 1 [default: the calibration's]
    #[arg(long, requires = "speculation")]
    tokens_per_step: Option<f64>,
}

/// What the deployment needs to know of the load.
pub struct LoadShape<'a> {
    /// Prompt lengths.
    pub isl: &'a Lengths,
    /// Answer lengths.
    pub osl: &'a Lengths,
    /// Clients of a closed loop over all replicas.
    pub clients: Option<u32>,
    /// Replicas.
    pub replicas: u32,
    /// Requests per client in a closed loop.
    pub waves: Option<f64>,
    /// `--max-num-batched-tokens`.
    pub max_num_batched_tokens: Option<u32>,
    /// `--max-num-seqs`.
    pub max_num_seqs: Option<u32>,
    /// `--max-model-len`.
    pub max_model_len: Option<u32>,
}

/// A deployment ready to be simulated.
pub struct Projected {
    /// One replica.
    pub instance: Instance,
    /// What the closed form says, where the load is a closed loop.
    pub closed_form: Option<Evaluation>,
    /// KV bytes of one more token.
    pub kv_bytes_per_token: f64,
    /// One line about it.
    pub about: String,
}

impl DeploymentArgs {
    /// A deployment was named.
    pub fn is_given(&self) -> bool {
        self.target.is_some() || self.model.is_some()
    }

    /// A flag that means nothing without a deployment.
    pub fn stray_flag(&self) -> Option<&'static str> {
        let given = [
            ("--engine", self.engine.is_some()),
            ("--engine-version", self.engine_version.is_some()),
            ("--tp", self.tp != 1),
            ("--ep", self.ep != 1),
            ("--attention-dp", self.attention_dp != 1),
            ("--context-parallel", self.context_parallel != 1),
            ("--pp", self.pp != 1),
            ("--weight-dtype", self.weight_dtype.is_some()),
            ("--kv-dtype", self.kv_dtype.is_some()),
            ("--memory-fraction", self.memory_fraction.is_some()),
            ("--nodes", self.nodes.is_some()),
            ("--calibration", self.calibration.is_some()),
            ("--speculation", self.speculation.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// Loads and prices it.
    ///
    /// # Errors
    /// What `inferasim project` refuses, and a deployment that does not fit (exit code 3).
    pub fn load(&self, load: &LoadShape<'_>) -> Result<Projected> {
        let mut inputs = project::inputs::Inputs::load(&self.arguments(load))?;
        if let Some(waves) = load.waves {
            inputs.projector.workload.prompts_per_client = waves.round().clamp(1.0, 1e9) as u32;
        }
        let (projector, deployment) = (&inputs.projector, &inputs.deployment);
        let longest = load.max_model_len.unwrap_or(projector.model.architecture.max_context);
        let instance = Instance::new(projector, deployment, longest).map_err(|refusal| match refusal {
            Refusal::NoModel(found) => Error::input(deployment.to_string(), found, ""),
            Refusal::DoesNotFit(plan) => {
                let found = if plan.kv_available.0 <= 0.0 {
                    format!("does not fit: {} over the budget of {}", plan.kv_available * -1.0, plan.budget)
                } else {
                    let needed = plan.kv_bytes_per_request;
                    format!("does not fit: {} of KV are left, one request needs {needed}", plan.kv_available)
                };
                let repair = "`inferasim project` with the same flags names the nearest change";
                Error::infeasible(format!("{}, {deployment}", projector.target.name), found, repair)
            }
        })?;
        let tokens = deployment.max_num_batched_tokens;
        let closed_form = load.clients.and_then(|c| instance.compiled().evaluate(c, tokens).ok());
        let kv_bytes_per_token = instance.kv_bytes_per_token(deployment);
        let about = format!(
            "{} on {}, {}, tp {}{}",
            projector.model.architecture.name,
            projector.target.name,
            projector.engine.name,
            deployment.tp,
            [("ep", deployment.ep), ("attention_dp", deployment.attention_dp), ("pp", deployment.pp)]
                .iter()
                .filter(|(_, n)| *n > 1)
                .map(|(name, n)| format!(", {name} {n}"))
                .collect::<String>()
        );
        Ok(Projected { instance, closed_form, kv_bytes_per_token, about })
    }

    fn arguments(&self, load: &LoadShape<'_>) -> project::Arguments {
        // Lengths uniform on [ratio · nominal, nominal] have a mean of (1 + ratio)/2 · nominal.
        let (osl, ratio) = load.osl.nominal();
        let isl = (2.0 * load.isl.mean() / (1.0 + ratio)).round().max(1.0) as u32;
        project::Arguments {
            target: self.target.clone().unwrap_or_else(|| "mi355x".into()),
            model: self.model.clone(),
            engine: self.engine.clone(),
            engine_version: self.engine_version.clone(),
            tp: self.tp,
            ep: self.ep,
            attention_dp: self.attention_dp,
            context_parallel: self.context_parallel,
            pp: self.pp,
            replicas: load.replicas,
            // Pools of a simulated fleet are the scenario's own.
            prefill_instances: None,
            prefill_tp: None,
            prefill_ep: None,
            prefill_attention_dp: None,
            concurrency: load.clients.unwrap_or(64 * load.replicas),
            isl: Some(isl),
            osl: Some(osl),
            range_ratio: Some(ratio),
            prefix_hit_rate: Some(0.0),
            // The host tier of a simulated fleet is the scenario's own.
            host_hit_share: None,
            expert_imbalance: None,
            weight_dtype: self.weight_dtype.clone(),
            kv_dtype: self.kv_dtype.clone(),
            max_num_batched_tokens: load.max_num_batched_tokens,
            max_num_seqs: load.max_num_seqs,
            memory_fraction: self.memory_fraction,
            nodes: self.nodes,
            calibration: self.calibration.clone().unwrap_or_else(|| "public".into()),
            anchors: Default::default(),
            speculation: self.speculation,
            tokens_per_step: self.tokens_per_step,
            slo: Vec::new(),
            explain: false,
            json: false,
        }
    }
}
