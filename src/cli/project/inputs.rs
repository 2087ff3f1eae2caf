//! One deployment, loaded and checked.

use super::Arguments;
use crate::anchor::set::AnchorSet;
use crate::cli::tune::inputs::check;

use crate::config::{Deployment, Legality, PrefillPool, Speculation};
use crate::cost::Calibration;
use crate::model::{KvFormat, Model};
use crate::objective::{Metric, Objective};
use crate::serve::{Evaluation, Projector, Refusal};
use crate::target::{EngineProfile, Target};
use crate::workload::Workload;
use crate::{Error, Result};

/// What was asked for.
pub struct Inputs {
    pub projector: Projector,
    pub legality: Legality,
    pub deployment: Deployment,
    /// Holds the limits; its figure to rank by is not used.
    pub objective: Objective,
    /// Tokens per step come from the calibration, not from the user.
    pub assumed_acceptance: bool,
    /// Measured runs the figures stand on.
    pub anchors: Option<AnchorSet>,
}

impl Inputs {
    /// Loads what the flags name; what they leave open comes from the target and the engine.
    pub fn load(arguments: &Arguments) -> Result<Self> {
        let mut target = Target::load(&arguments.target)?;
        if let Some(nodes) = arguments.nodes {
            target.node.nodes = nodes;
        }
        let defaults = target.defaults.clone();
        let model = Model::load(arguments.model.as_deref().unwrap_or(&defaults.model))?;
        let engine = EngineProfile::load(arguments.engine.as_deref().unwrap_or(&defaults.engine))?;
        let version = arguments.engine_version.as_deref();
        engine.check_version(version)?;
        let calibration = Calibration::load(&arguments.calibration)?;
        let default = &defaults.workload;
        let workload = Workload {
            isl: arguments.isl.unwrap_or(default.isl),
            osl: arguments.osl.unwrap_or(default.osl),
            range_ratio: arguments.range_ratio.unwrap_or(default.range_ratio),
            prefix_hit_rate: arguments.prefix_hit_rate.unwrap_or(default.prefix_hit_rate),
            host_hit_share: arguments.host_hit_share.unwrap_or(default.host_hit_share),
            expert_imbalance: arguments.expert_imbalance.unwrap_or(default.expert_imbalance),
            prompts_per_client: default.prompts_per_client,
        };
        check(&workload, &model)?;
        let mut objective =
            Objective { name: "--slo".to_string(), about: String::new(), metric: Metric::TokSPerGpu, slos: Vec::new() };
        if let Some(simulated) = arguments.slo.iter().flat_map(|list| &list.1).next() {
            let repair = "Use `inferasim simulate`, or `inferasim-tune` for a search";
            return Err(Error::input(format!("--slo {simulated}"), "only a simulation knows it", repair));
        }
        let limits = arguments.slo.iter().flat_map(|list| list.0.clone()).collect();
        objective.take_flags(limits, &target.name, target.price.is_some())?;
        if target.price.is_none() {
            objective.require_price(&target.name)?;
        }
        let projector = Projector::new(&model, &target, &engine, version, &calibration, &workload)?;
        let mut deployment = deployment(arguments, &projector)?;
        let legality = Legality::new(&model, &target);
        legality.require(&deployment, target.gpus())?;
        let checkpoint = projector.checkpoint(&deployment)?;
        let mut assumed_acceptance = false;
        let regime = projector.regime(&deployment, checkpoint);
        if let Some(speculation) = &mut deployment.speculation
            && arguments.tokens_per_step.is_none()
        {
            let constants = projector.calibration.resolve(&regime);
            *speculation = Speculation::of(speculation.draft_tokens, constants.accepted_tokens);
            assumed_acceptance = true;
        }
        let anchors = arguments.anchors.load(&projector)?;
        Ok(Self { projector, legality, deployment, objective, assumed_acceptance, anchors })
    }

    /// Figures of a deployment, anchors applied.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn evaluate(&self, deployment: &Deployment) -> std::result::Result<Evaluation, Refusal> {
        let compiled = self.projector.compile(deployment)?;
        let (concurrency, tokens) = (deployment.concurrency, deployment.max_num_batched_tokens);
        let evaluation = compiled.evaluate(concurrency, tokens)?;
        Ok(match &self.anchors {
            Some(set) => set.apply(&set.choose(deployment), &compiled, concurrency, tokens, &evaluation),
            None => evaluation,
        })
    }

    /// GPUs at hand.
    pub fn gpus(&self) -> u32 {
        self.projector.target.gpus()
    }
}

fn deployment(arguments: &Arguments, projector: &Projector) -> Result<Deployment> {
    let mut deployment = base(arguments, projector)?;
    deployment.speculation = arguments.speculation.map(|draft_tokens| Speculation {
        draft_tokens,
        // Replaced by the calibration's figure once the deployment is known to be legal.
        tokens_per_step: arguments.tokens_per_step.unwrap_or(1.0),
    });
    Ok(deployment)
}

fn base(arguments: &Arguments, projector: &Projector) -> Result<Deployment> {
    let (gpu, settings) = (&projector.target.gpu, &projector.settings);
    let kv_dtype = match arguments.kv_dtype.as_deref() {
        None => settings.default_kv_dtype(gpu.family),
        Some("bf16") => KvFormat::Bf16,
        Some("fp8") => KvFormat::Fp8,
        Some(other) => return Err(Error::input(format!("--kv-dtype {other}"), "not a KV format", "Use bf16 or fp8")),
    };
    let weight_dtype = match (&arguments.weight_dtype, projector.model.checkpoints.first()) {
        (Some(dtype), _) => dtype.clone(),
        (None, Some(checkpoint)) => checkpoint.dtype.clone(),
        (None, None) => {
            let name = &projector.model.architecture.name;
            return Err(Error::input(format!("model {name}"), "no checkpoint", "Name one in its preset"));
        }
    };
    Ok(Deployment {
        tp: arguments.tp,
        ep: arguments.ep,
        attention_dp: arguments.attention_dp,
        context_parallel: arguments.context_parallel,
        pp: arguments.pp,
        replicas: arguments.replicas,
        concurrency: arguments.concurrency,
        weight_dtype,
        kv_dtype,
        max_num_batched_tokens: arguments
            .max_num_batched_tokens
            .unwrap_or_else(|| settings.max_num_batched_tokens(gpu)),
        max_num_seqs: arguments.max_num_seqs.unwrap_or_else(|| settings.max_num_seqs(gpu)),
        memory_fraction: arguments.memory_fraction.unwrap_or(settings.memory_fraction),
        speculation: None,
        prefill: arguments.prefill_instances.map(|instances| PrefillPool {
            instances,
            tp: arguments.prefill_tp.unwrap_or(arguments.tp),
            ep: arguments.prefill_ep.unwrap_or(1),
            attention_dp: arguments.prefill_attention_dp.unwrap_or(1),
        }),
    })
}
