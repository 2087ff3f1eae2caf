//! From a deployment to its serving figures: compiled once per layout, evaluated at many concurrencies.

use super::closed_loop::{ClosedLoop, Load, closed_loop};
use super::disaggregated::{NETWORK_SHARE, PoolFigures, PooledLoop, Pools, pooled_loop};
use super::evaluation::{Bound, Breakdown, Evaluation, Refusal};
use super::metrics::ServingMetrics;
use crate::config::Deployment;
use crate::cost::residual::{Corrections, ResidualPoint};
use crate::cost::{Calibration, Constants, DecodeWork, OpTables, PrefillWork, Regime, Silicon, StepCost, lower};
use crate::memory::{MemoryModel, MemoryPlan};
use crate::model::{Architecture, Checkpoint, Ffn, Formats, Mixer, Model};
use crate::target::{EngineFamily, EngineProfile, EngineSettings, Target};
use crate::workload::Workload;
use crate::{Error, Result};
use std::borrow::Cow;

/// Bytes per ms that a GPU takes from host memory: 50 GB/s of the 64 of sixteen PCIe 5 lanes; assumed.
const HOST_LINK: f64 = 50e6;

/// Everything that stays the same over a space.
#[derive(Debug, Clone)]
pub struct Projector {
    /// The model.
    pub model: Model,
    /// The machine.
    pub target: Target,
    /// The engine.
    pub engine: EngineProfile,
    /// The engine's settings at the chosen version.
    pub settings: EngineSettings,
    /// The engine version asked for, if any.
    pub engine_version: Option<String>,
    /// Serving constants.
    pub calibration: Calibration,
    /// The load.
    pub workload: Workload,
    /// `current`, or an older epoch of the profile.
    pub epoch: String,
    tables: Cow<'static, OpTables>,
}

impl Projector {
    /// Gathers the parts.
    ///
    /// # Errors
    /// An engine version the profile does not know, a serving constant of the target that does not exist.
    pub fn new(
        model: &Model,
        target: &Target,
        engine: &EngineProfile,
        engine_version: Option<&str>,
        calibration: &Calibration,
        workload: &Workload,
    ) -> Result<Self> {
        Ok(Self {
            model: model.clone(),
            target: target.clone(),
            settings: engine.settings(engine_version),
            engine: engine.clone(),
            engine_version: engine_version.map(str::to_string),
            calibration: calibration.measured_on(target)?,
            workload: workload.clone(),
            epoch: "current".into(),
            tables: OpTables::with(target.kernels.as_ref())?,
        })
    }

    /// The regime a checkpoint runs in here.
    pub fn regime(&self, deployment: &Deployment, checkpoint: &Checkpoint) -> Regime {
        self.regime_of(Some(&checkpoint.formats), variant(deployment))
    }

    fn regime_of(&self, formats: Option<&Formats>, variant: &str) -> Regime {
        let gpu = &self.target.gpu;
        Regime {
            gpu: self.target.name.to_uppercase(),
            family: gpu.family.to_string(),
            engine: self.engine.name.clone(),
            attention: attention_kind(&self.model.architecture).into(),
            bits: formats.map_or("16", |formats| weight_bits(&self.model.architecture, formats)).into(),
            epoch: self.epoch.clone(),
            model: self.model.architecture.name.clone(),
            variant: variant.into(),
        }
    }

    /// Mean tokens a step emits with three drafts, by the calibration, of the model's first checkpoint.
    pub fn accepted_tokens(&self) -> f64 {
        let formats = self.model.checkpoints.first().map(|c| &c.formats);
        self.calibration.resolve(&self.regime_of(formats, "speculative")).accepted_tokens
    }

    /// The checkpoint of a deployment.
    ///
    /// # Errors
    /// The model has no checkpoint of that precision; the message lists those it has.
    pub fn checkpoint(&self, deployment: &Deployment) -> Result<&Checkpoint> {
        self.model.checkpoint(&deployment.weight_dtype).ok_or_else(|| {
            let known: Vec<&str> = self.model.checkpoints.iter().map(|c| c.dtype.as_str()).collect();
            Error::input(
                format!("model {}", self.model.architecture.name),
                format!("no checkpoint in {}", deployment.weight_dtype),
                format!("Known: {}", known.join(", ")),
            )
        })
    }

    /// Prices a layout. The deployment must be legal; its concurrency and token budget are ignored.
    ///
    /// # Errors
    /// No checkpoint of that precision.
    pub fn compile(&self, deployment: &Deployment) -> std::result::Result<CompiledDeployment, Refusal> {
        let checkpoint = self.checkpoint(deployment).map_err(|e| Refusal::NoModel(e.to_string()))?;
        if deployment.context_parallel > 1 && self.settings.family != EngineFamily::Vllm {
            return Err(Refusal::NoModel("decode context parallelism is known of vLLM only".into()));
        }
        let regime = self.regime(deployment, checkpoint);
        let constants = self.calibration.resolve(&regime);
        let at = ResidualPoint {
            concurrency: 1.0,
            ranks: f64::from(deployment.tp * deployment.pp),
            expert_ranks: f64::from(deployment.ep),
            isl: f64::from(self.workload.isl),
            osl: f64::from(self.workload.osl),
        };
        let corrections = self.calibration.corrections(&regime, &at);
        let architecture = &self.model.architecture;
        let (target, family, imbalance) = (&self.target, self.settings.family, self.workload.expert_imbalance);
        let ops = lower(architecture, &checkpoint.formats, target, family, &self.tables, deployment, imbalance);
        let silicon = Silicon::of(&self.target.gpu);
        let step = StepCost::new(ops, constants, &silicon, deployment.pp);
        let memory =
            MemoryModel::compile(architecture, &checkpoint.formats, &self.target.gpu, &self.settings, deployment);
        let price = self.target.price.as_ref().map(|p| p.usd_per_gpu_hour.value);
        let pools = deployment.prefill_deployment().map(|prefill| self.pools(deployment, &prefill)).transpose()?;
        Ok(CompiledDeployment {
            step,
            memory,
            price,
            corrections,
            pools,
            workload: self.workload.clone(),
            deployment: deployment.clone(),
        })
    }

    /// The prefill side of a deployment, and the network between both.
    fn pools(&self, deployment: &Deployment, prefill: &Deployment) -> std::result::Result<Pools, Refusal> {
        let compiled = self.compile(prefill)?;
        // Every rank of the narrower side sends or receives its part of the cache at once.
        let (from, to) = (f64::from(prefill.attention_tp()), f64::from(deployment.attention_tp() * deployment.pp));
        let rate = self.target.node.scaleout_gb_s.value * 1e6 * NETWORK_SHARE * from.min(to);
        let budget = f64::from(prefill.max_num_batched_tokens);
        let per_rank = compiled.memory.plan(budget, 1.0, 1.0, 1.0).kv_bytes_per_token.0;
        Ok(Pools {
            instances: f64::from(prefill.replicas),
            transfer_rate: rate,
            bytes_per_token: per_rank * from,
            prefill: Box::new(compiled),
        })
    }

    /// One deployment at its own concurrency and token budget.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn evaluate(&self, deployment: &Deployment) -> std::result::Result<Evaluation, Refusal> {
        self.compile(deployment)?.evaluate(deployment.concurrency, deployment.max_num_batched_tokens)
    }
}

/// How a deployment differs from plain serving, as residual keys name it.
fn variant(deployment: &Deployment) -> &'static str {
    if deployment.prefill.is_some() {
        return match (deployment.speculation.is_some(), deployment.attention_dp > 1) {
            (false, false) => "disaggregated",
            (true, false) => "disaggregated+speculative",
            (false, true) => "disaggregated+attention-dp",
            (true, true) => "disaggregated+speculative+attention-dp",
        };
    }
    match (deployment.speculation.is_some(), deployment.attention_dp > 1) {
        (false, false) => "plain",
        (true, false) => "speculative",
        (false, true) => "attention-dp",
        (true, true) => "speculative+attention-dp",
    }
}

/// Attention kind as calibration scopes name it.
pub fn attention_kind(architecture: &Architecture) -> &'static str {
    let any = |test: fn(&Mixer) -> bool| architecture.layers.iter().any(|g| test(&g.mixer));
    if any(|m| matches!(m, Mixer::Linear(_) | Mixer::Mamba2(_))) {
        "linear"
    } else if any(|m| matches!(m, Mixer::Mla(_))) {
        "mla"
    } else if any(|m| matches!(m, Mixer::Gqa(a) if a.window.is_some())) {
        "window"
    } else {
        "gqa"
    }
}

/// Width of the weights that dominate traffic: routed experts where there are any, else dense MLPs.
pub fn weight_bits(architecture: &Architecture, formats: &Formats) -> &'static str {
    let moe = architecture.layers.iter().any(|g| matches!(g.ffn, Ffn::Moe(_)));
    match if moe { formats.experts.bytes() } else { formats.dense.bytes() } {
        b if b < 0.75 => "4",
        b if b < 1.5 => "8",
        _ => "16",
    }
}

/// A layout priced on a target.
#[derive(Debug, Clone)]
pub struct CompiledDeployment {
    /// Step cost.
    pub step: StepCost,
    /// Memory of the fullest rank.
    pub memory: MemoryModel,
    /// US dollars per GPU and hour.
    pub price: Option<f64>,
    /// What measured runs of this combination leave over.
    pub corrections: Option<Corrections>,
    /// The prefill pool, where prompts have one of their own.
    pub pools: Option<Pools>,
    workload: Workload,
    deployment: Deployment,
}

/// Load of one instance and what limited it.
#[derive(Debug, Clone, Copy)]
pub struct InstanceLoad {
    /// Numbers for the closed form.
    pub load: Load,
    /// Fewer requests run than were asked for, and why.
    pub capped: Option<Bound>,
}

impl CompiledDeployment {
    /// The memory plan at a concurrency and token budget.
    ///
    /// Only requests that run hold a recurrent state. Where their states and their KV together exceed the pool,
    /// `n = resident(n)` requests of a group run; the KV that states leave, and so `resident`, is linear in n.
    pub fn plan(&self, concurrency: u32, max_num_batched_tokens: u32) -> MemoryPlan {
        let w = &self.workload;
        let groups = f64::from(self.deployment.attention_dp);
        let per_group = f64::from(concurrency) / f64::from(self.deployment.replicas) / groups;
        let wanted = per_group.min(f64::from(self.deployment.max_num_seqs)).max(1.0);
        let plan_of = |running: f64| {
            self.memory.plan(
                f64::from(max_num_batched_tokens),
                f64::from(w.isl) + f64::from(w.osl),
                w.mean_isl() + w.mean_osl() / 2.0,
                running,
            )
        };
        let plan = plan_of(wanted);
        if plan.state.0 <= 0.0 || plan.resident_requests >= wanted * groups {
            return plan;
        }
        let (none, one) = (plan_of(0.0).resident_requests / groups, plan_of(1.0).resident_requests / groups);
        plan_of((none / (1.0 + none - one)).clamp(1.0, wanted))
    }

    /// Requests per instance and how many of them run.
    pub fn load(&self, concurrency: u32, plan: &MemoryPlan) -> InstanceLoad {
        let d = &self.deployment;
        let w = &self.workload;
        let clients = (f64::from(concurrency) / f64::from(d.replicas)).max(1.0);
        let sequence_limit = f64::from(d.max_num_seqs) * f64::from(d.attention_dp);
        let memory_limit = plan.resident_requests.max(1.0);
        let running = clients.min(sequence_limit).min(memory_limit);
        let capped = match () {
            () if running >= clients => None,
            () if memory_limit < sequence_limit => Some(Bound::KvCapacity),
            () => Some(Bound::SequenceLimit),
        };
        let (draft_tokens, tokens_per_step) = match &d.speculation {
            Some(s) => (f64::from(s.draft_tokens), s.tokens_per_step),
            None => (0.0, 1.0),
        };
        let load = Load {
            clients,
            running,
            isl: w.mean_isl(),
            osl: w.mean_osl(),
            range_ratio: w.range_ratio,
            waves: f64::from(w.prompts_per_client),
            tokens_per_step,
            draft_tokens,
            stages: f64::from(d.pp),
        };
        InstanceLoad { load, capped }
    }

    /// Work of a decode step and of one prefill at a load.
    pub fn work(&self, load: &Load, max_num_batched_tokens: u32) -> (DecodeWork, PrefillWork) {
        // Pipeline stages hold a share of the running sequences each.
        let sequences = (load.running / load.stages).max(1.0);
        let queries = 1.0 + load.draft_tokens;
        let decode = self.step.decode_work(sequences, load.isl + load.osl / 2.0, queries);
        let hit = self.workload.prefix_hit_rate;
        let budget = f64::from(max_num_batched_tokens) * f64::from(self.deployment.attention_dp);
        let (new, prefix) = (load.isl * (1.0 - hit), load.isl * hit);
        let mut prefill = self.step.prefill_work(new, prefix, &decode, sequences * queries, budget);
        if self.workload.host_hit_share > 0.0 {
            let per_token = self.memory.plan(budget, 1.0, 1.0, 1.0).kv_bytes_per_token.0;
            prefill.copied_ms = prefix * self.workload.host_hit_share * per_token / HOST_LINK;
        }
        (decode, prefill)
    }

    /// Attention-data-parallel groups of an instance.
    pub fn attention_groups(&self) -> f64 {
        f64::from(self.deployment.attention_dp)
    }

    /// Work of a step that prefills `prompts` prompts of `isl` tokens and nothing else.
    pub fn packed_prefill(&self, isl: f64, prompts: f64, max_num_batched_tokens: u32) -> PrefillWork {
        let (hit, groups) = (self.workload.prefix_hit_rate, self.attention_groups());
        let budget = f64::from(max_num_batched_tokens) * groups;
        self.step.packed_prefill_work(prompts, isl * (1.0 - hit), isl * hit, groups, budget)
    }

    /// Factors on TPOT and TTFT that measured runs of this combination leave over; 1 where there are none.
    pub fn corrections(&self, load: &Load) -> (f64, f64) {
        self.corrections.as_ref().map_or((1.0, 1.0), |c| c.factors(load.clients))
    }

    /// Least TPOT by the datasheet at a load, ms: a step's bytes over bandwidth or flops over peak, every draft accepted.
    pub fn decode_floor_ms(&self, concurrency: u32, max_num_batched_tokens: u32) -> f64 {
        let load = self.load(concurrency, &self.plan(concurrency, max_num_batched_tokens)).load;
        self.work(&load, max_num_batched_tokens).0.roof() / (1.0 + load.draft_tokens)
    }

    /// Serving figures at a concurrency and token budget.
    ///
    /// # Errors
    /// The weights and one request of the longest length do not fit.
    pub fn evaluate(&self, concurrency: u32, max_num_batched_tokens: u32) -> std::result::Result<Evaluation, Refusal> {
        let plan = self.plan(concurrency, max_num_batched_tokens);
        if !plan.fits() {
            return Err(Refusal::DoesNotFit(Box::new(plan)));
        }
        let InstanceLoad { load, capped } = self.load(concurrency, &plan);
        if let Some(pools) = &self.pools {
            let other = pools.prefill.plan(1, max_num_batched_tokens);
            if !other.fits() {
                return Err(Refusal::DoesNotFit(Box::new(other)));
            }
            return Ok(self.evaluate_pools(pools, &load, capped, max_num_batched_tokens));
        }
        let (decode, prefill) = self.work(&load, max_num_batched_tokens);
        let answer = closed_loop(&load, &decode, &prefill, &self.step.constants, self.corrections(&load));
        Ok(Evaluation {
            metrics: self.metrics(&load, &answer),
            bound: capped.unwrap_or_else(|| binding(&answer, &decode, &self.step)),
            breakdown: breakdown(&answer),
        })
    }

    /// The loop over both pools at a load; `None` where one pool does both.
    pub fn pooled(&self, concurrency: u32, max_num_batched_tokens: u32) -> Option<PooledLoop> {
        let pools = self.pools.as_ref()?;
        let load = self.load(concurrency, &self.plan(concurrency, max_num_batched_tokens)).load;
        Some(self.pooled_loop(pools, &load, max_num_batched_tokens, &self.step.constants, self.corrections(&load)))
    }

    /// The same at given constants.
    pub fn pooled_loop(
        &self,
        pools: &Pools,
        load: &Load,
        max_num_batched_tokens: u32,
        constants: &Constants,
        corrections: (f64, f64),
    ) -> PooledLoop {
        let instances = f64::from(self.deployment.replicas);
        pooled_loop(self, pools, load, instances, max_num_batched_tokens, constants, corrections)
    }

    fn evaluate_pools(&self, pools: &Pools, load: &Load, capped: Option<Bound>, tokens: u32) -> Evaluation {
        let PooledLoop { answer, pools: PoolFigures { decode_batch, bound, .. }, .. } =
            self.pooled_loop(pools, load, tokens, &self.step.constants, self.corrections(load));
        let running = Load { running: decode_batch, ..*load };
        let decode = self.work(&running, tokens).0;
        // A full decode pool is full for the reason a single pool would be.
        let bound = bound.map(|b| if b == Bound::KvCapacity { capped.unwrap_or(b) } else { b });
        Evaluation {
            // Where no pool is full every client is being served, in one pool or the other.
            metrics: self.metrics(if bound.is_some() { &running } else { load }, &answer),
            bound: bound.unwrap_or_else(|| binding(&answer, &decode, &self.step)),
            breakdown: breakdown(&answer),
        }
    }

    fn metrics(&self, load: &Load, answer: &ClosedLoop) -> ServingMetrics {
        let d = &self.deployment;
        let replicas = f64::from(d.replicas);
        let gpus = f64::from(d.gpus());
        let output = answer.output_tok_s * replicas;
        let total = output * (load.isl + load.osl) / load.osl;
        let cost = |rate: f64| self.price.map(|usd| usd * gpus / 3600.0 / rate * 1e6);
        ServingMetrics {
            ttft_ms: answer.ttft_ms,
            ttft_p50_ms: answer.ttft_p50_ms,
            tpot_ms: answer.tpot_ms,
            e2e_ms: answer.e2e_ms,
            output_tok_s: output,
            total_tok_s: total,
            tok_s_per_gpu: total / gpus,
            tok_s_per_user: 1e3 / answer.tpot_ms,
            running: load.running * replicas,
            usd_per_m_output: cost(output),
            usd_per_m_total: cost(total),
        }
    }
}

fn breakdown(a: &ClosedLoop) -> Breakdown {
    Breakdown {
        gemm_ms: a.step.gemm * a.stretch,
        moe_ms: a.step.moe * a.stretch,
        attention_ms: a.step.attention * a.stretch,
        collectives_ms: a.step.collectives * a.stretch,
        small_kernels_ms: a.step.small * a.stretch,
        host_ms: a.step.host * a.stretch,
        prefill_ms: a.prefill_ms,
    }
}

/// The largest share of TPOT, with floors taken out of the ops they belong to.
fn binding(a: &ClosedLoop, work: &DecodeWork, step: &StepCost) -> Bound {
    let c = &step.constants;
    let k = c.release_scale * c.step_scale * a.stretch / 1e3;
    let variable = |op: &crate::cost::OpTime, scale: f64| k * scale * op.variable;
    let products = variable(&work.gemm, c.gemm_scale) + variable(&work.moe, c.moe_scale);
    let memory = work.gemm.memory_roof + work.moe.memory_roof;
    let compute = work.gemm.compute_roof + work.moe.compute_roof;
    let shares = [
        (if memory >= compute { Bound::WeightReads } else { Bound::Compute }, products),
        (Bound::KvReads, k * work.attention_variable(c)),
        (Bound::Collectives, a.step.collectives * a.stretch),
        (Bound::KernelFloors, k * c.floor_scale * work.floors() + a.step.small * a.stretch),
        (Bound::Host, a.step.host * a.stretch),
        (Bound::Prefill, a.prefill_ms),
    ];
    shares.into_iter().max_by(|x, y| x.1.total_cmp(&y.1)).map_or(Bound::Host, |s| s.0)
}
