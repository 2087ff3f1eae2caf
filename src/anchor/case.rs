//! A measured point as the projector sees it: model, target, engine and deployment found, work computed.

use super::measured::{MeasuredPoint, ServingKind};
use super::pools::{RecordedPool, recorded};
use crate::config::{Deployment, PrefillPool, Speculation, acceptance, emitted};
use crate::cost::residual::ResidualPoint;
use crate::cost::{Calibration, Constants, DecodeWork, PrefillWork, Regime};
use crate::model::{KvFormat, Model};
use crate::serve::closed_loop::{Load, closed_loop};
use crate::serve::{CompiledDeployment, Pools, Projector, Refusal};
use crate::target::{EngineProfile, Target};
use crate::workload::Workload;
use std::collections::HashMap;

/// A row ready to be predicted under any constants.
#[derive(Debug, Clone)]
pub struct Case {
    /// The measurement.
    pub point: MeasuredPoint,
    /// Where its constants come from.
    pub regime: Regime,
    /// Model preset, for grouping.
    pub model: String,
    /// The deployment.
    pub deployment: Deployment,
    work: Work,
}

/// What a row's figures are computed from.
#[derive(Debug, Clone)]
enum Work {
    /// One pool that prefills and decodes.
    Together { load: Load, decode: Box<DecodeWork>, prefill: Box<PrefillWork> },
    /// Separate pools.
    Apart { load: Load, compiled: Box<CompiledDeployment>, pools: Box<Pools> },
}

/// Predicted figures of a row.
#[derive(Debug, Clone, Copy)]
pub struct Prediction {
    /// Mean TTFT, ms.
    pub ttft_ms: f64,
    /// Median TTFT, ms.
    pub ttft_p50_ms: f64,
    /// Mean TPOT, ms.
    pub tpot_ms: f64,
    /// Output tokens per second.
    pub output_tok_s: f64,
    /// Input and output tokens per second.
    pub total_tok_s: f64,
}

impl Case {
    /// Group of rows that share an implementation: GPU, engine, model.
    pub fn group(&self) -> String {
        format!("{} {} {}", self.regime.gpu, self.regime.engine, self.model)
    }

    /// Time of all prefills at the dense peak over the time of the measured run; `None` without a measured rate.
    pub fn prefill_share_of_peak(&self) -> Option<f64> {
        let Work::Together { load, prefill, .. } = &self.work else { return None };
        let per_request_ms = 1e3 * load.osl / self.point.output_tok_s? * f64::from(self.deployment.replicas);
        Some(prefill.roof / per_request_ms)
    }

    /// Where the row sits for a residual correction.
    pub fn residual_point(&self) -> ResidualPoint {
        let (Work::Together { load, .. } | Work::Apart { load, .. }) = &self.work;
        ResidualPoint {
            concurrency: load.clients,
            ranks: f64::from(self.deployment.tp * self.deployment.pp),
            expert_ranks: f64::from(self.deployment.ep),
            isl: self.point.isl,
            osl: self.point.osl,
        }
    }

    /// Prefill and decode run on pools of their own.
    pub fn pooled(&self) -> bool {
        matches!(self.work, Work::Apart { .. })
    }

    /// Figures with a profile: its constants and, where it has one, the correction of this combination.
    pub fn project(&self, calibration: &Calibration) -> Prediction {
        let at = self.residual_point();
        let corrections = calibration.corrections(&self.regime, &at);
        let factors = corrections.map_or((1.0, 1.0), |c| c.factors(at.concurrency));
        self.predict_corrected(&calibration.resolve(&self.regime), factors)
    }

    /// Least TPOT by the datasheet, ms.
    pub fn decode_floor_ms(&self) -> f64 {
        match &self.work {
            Work::Together { load, decode, .. } => decode.roof() / (1.0 + load.draft_tokens),
            Work::Apart { compiled, .. } => {
                compiled.decode_floor_ms(self.deployment.replicas, self.deployment.max_num_batched_tokens)
            }
        }
    }

    /// Figures under the given constants.
    pub fn predict(&self, constants: &Constants) -> Prediction {
        self.predict_corrected(constants, (1.0, 1.0))
    }

    fn predict_corrected(&self, constants: &Constants, corrections: (f64, f64)) -> Prediction {
        let per_step = |load: &Load| match load.draft_tokens {
            d if d > 0.0 => emitted(acceptance(3, constants.accepted_tokens), d as u32),
            _ => load.tokens_per_step,
        };
        let (load, answer) = match &self.work {
            Work::Together { load, decode, prefill } => {
                let load = Load { tokens_per_step: per_step(load), ..*load };
                (load, closed_loop(&load, decode, prefill, constants, corrections))
            }
            Work::Apart { load, compiled, pools } => {
                let load = Load { tokens_per_step: per_step(load), ..*load };
                let budget = self.deployment.max_num_batched_tokens;
                (load, compiled.pooled_loop(pools, &load, budget, constants, corrections).answer)
            }
        };
        let output_tok_s = answer.output_tok_s * f64::from(self.deployment.replicas);
        Prediction {
            ttft_ms: answer.ttft_ms,
            ttft_p50_ms: answer.ttft_p50_ms,
            tpot_ms: answer.tpot_ms,
            output_tok_s,
            total_tok_s: output_tok_s * (load.isl + load.osl) / load.osl,
        }
    }
}

/// Loads models, targets and engines once.
#[derive(Debug, Default)]
pub struct CaseBuilder {
    models: HashMap<String, Result<Model, String>>,
    targets: HashMap<String, Result<Target, String>>,
    engines: HashMap<String, Result<EngineProfile, String>>,
}

/// Why a row cannot be predicted, in a few words.
pub type Reason = String;

impl CaseBuilder {
    /// Finds everything a row names and computes its work.
    ///
    /// # Errors
    /// The named reason.
    pub fn build(&mut self, point: &MeasuredPoint, calibration: &Calibration) -> Result<Case, Reason> {
        let target = cached(&mut self.targets, &point.hardware.to_lowercase(), Target::load)?;
        let engine = cached(&mut self.engines, &point.engine, EngineProfile::load)?;
        let model = cached(&mut self.models, &point.model, Model::load)?;
        let mut workload = Workload::constant(point.isl.round() as u32, point.osl.round() as u32);
        workload.range_ratio = point.range_ratio;
        let mut projector =
            Projector::new(&model, &target, &engine, None, calibration, &workload).map_err(|e| e.to_string())?;
        if !point.date.is_empty() && point.date.as_str() < calibration.reference_date.as_str() {
            projector.epoch = "2025".into();
        }
        let deployment = match point.kind() {
            ServingKind::Disaggregated => pooled(point, &projector)?,
            _ => deployment(point, &projector)?,
        };
        let checkpoint = projector.checkpoint(&deployment).map_err(|e| e.to_string())?;
        let regime = projector.regime(&deployment, checkpoint);
        let compiled = projector.compile(&deployment).map_err(refusal)?;
        let plan = compiled.plan(deployment.concurrency, deployment.max_num_batched_tokens);
        if plan.kv_available.0 <= 0.0 {
            return Err(format!("does not fit: weights {} of {}", plan.weights, plan.total));
        }
        let load = compiled.load(deployment.concurrency, &plan).load;
        let work = match compiled.pools.clone() {
            Some(pools) => Work::Apart { load, pools: Box::new(pools), compiled: Box::new(compiled) },
            None => {
                let (decode, prefill) = compiled.work(&load, deployment.max_num_batched_tokens);
                Work::Together { load, decode: Box::new(decode), prefill: Box::new(prefill) }
            }
        };
        Ok(Case { point: point.clone(), regime, model: model.architecture.name.clone(), deployment, work })
    }
}

/// A row of disaggregated serving: the decode pool with its prefill pool.
fn pooled(point: &MeasuredPoint, projector: &Projector) -> Result<Deployment, Reason> {
    let (prefill, decode) = recorded(point)?;
    let one = MeasuredPoint {
        gpus: f64::from(decode.width),
        tp: Some(decode.width),
        ep: Some(decode.ep),
        dp_attention: decode.dp_attention,
        ..point.clone()
    };
    let groups = |pool: &RecordedPool| if pool.dp_attention { pool.width } else { 1 };
    Ok(Deployment {
        replicas: decode.instances,
        attention_dp: groups(&decode),
        prefill: Some(PrefillPool {
            instances: prefill.instances,
            tp: prefill.width,
            ep: prefill.ep,
            attention_dp: groups(&prefill),
        }),
        ..deployment(&one, projector)?
    })
}

fn refusal(refusal: Refusal) -> Reason {
    match refusal {
        Refusal::DoesNotFit(plan) => format!("does not fit: weights {} of {}", plan.weights, plan.total),
        Refusal::NoModel(why) => why,
    }
}

fn cached<T: Clone>(
    store: &mut HashMap<String, Result<T, String>>,
    name: &str,
    load: impl Fn(&str) -> crate::Result<T>,
) -> Result<T, Reason> {
    store.entry(name.to_string()).or_insert_with(|| load(name).map_err(|e| e.to_string())).clone()
}

/// Published precision names to the checkpoint's own: four bits are MXFP4 on AMD and NVFP4 on NVIDIA where the model has
/// both.
fn weight_dtype(point: &MeasuredPoint, projector: &Projector) -> Result<String, Reason> {
    let model = &projector.model;
    let amd = projector.target.gpu.family.is_amd();
    let wanted: &[&str] = match point.precision.as_str() {
        p if p.starts_with("fp4") || p == "mxfp4" || p == "nvfp4" => {
            if amd {
                &["mxfp4", "nvfp4", "int4"]
            } else {
                &["nvfp4", "mxfp4", "int4"]
            }
        }
        "fp8" | "mxfp8" => &["fp8", "mxfp8"],
        "int4" => &["int4", "mxfp4"],
        "bf16" | "fp16" => &["bf16"],
        "int8" => &["int8", "fp8"],
        "" => &["mxfp4", "fp8", "bf16"],
        // A name of the checkpoint's own.
        other => &[other],
    };
    // A checkpoint that exists in one precision is that one, whatever label the row carries (gpt-oss is always MXFP4).
    let found = wanted.iter().find(|d| model.checkpoint(d).is_some()).map(ToString::to_string);
    found
        .or_else(|| (model.checkpoints.len() == 1).then(|| model.checkpoints[0].dtype.clone()))
        .ok_or_else(|| format!("no {} checkpoint of {}", point.precision, model.architecture.name))
}

fn deployment(point: &MeasuredPoint, projector: &Projector) -> Result<Deployment, Reason> {
    let settings = &projector.settings;
    let gpus = point.gpus as u32;
    // A width of one on several GPUs is attention-DP over all of them.
    let (tp, whole_dp) = match point.tp {
        Some(1) if gpus > 1 => (gpus, true),
        Some(tp) => (tp, false),
        None => (gpus, false),
    };
    let kv_dtype = match point.kv_dtype.as_str() {
        "" => settings.default_kv_dtype(projector.target.gpu.family),
        k if k.starts_with("fp8") => KvFormat::Fp8,
        _ => KvFormat::Bf16,
    };
    let gpu = &projector.target.gpu;
    let drafts = draft_tokens(&point.speculation);
    Ok(Deployment {
        tp,
        ep: point.ep.unwrap_or(1).min(tp),
        attention_dp: if point.dp_attention || whole_dp { tp } else { 1 },
        context_parallel: 1,
        pp: 1,
        replicas: (gpus / tp).max(1),
        concurrency: point.concurrency,
        weight_dtype: weight_dtype(point, projector)?,
        kv_dtype,
        max_num_batched_tokens: settings.max_num_batched_tokens(gpu),
        max_num_seqs: sequence_limit(settings.max_num_seqs(gpu), point.concurrency),
        memory_fraction: settings.memory_fraction,
        speculation: (drafts > 0).then_some(Speculation { draft_tokens: drafts, tokens_per_step: 1.0 }),
        prefill: None,
    })
}

/// The sequence limit of a run with so many clients: whoever loads an engine beyond its default raises it, up to the 4,096
/// requests that SGLang clamps its own to.
pub(super) fn sequence_limit(default: u32, clients: u32) -> u32 {
    default.max(clients.min(4096))
}

/// Draft tokens of a speculation label: a trailing number where there is one (`MTP3`), else three.
fn draft_tokens(label: &str) -> u32 {
    match label {
        "" | "none" => 0,
        l => l.chars().rev().find_map(|c| c.to_digit(10)).filter(|d| (1..=8).contains(d)).unwrap_or(3),
    }
}
