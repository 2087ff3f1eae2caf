//! How near to the silicon's roof did a measured sweep come? FLOP/s and bytes/s that the measured rates imply.
//!
//! Work is counted, time is measured. FLOP of a token: 2 · active parameters (no input embedding, with the LM head,
//! attention over the context left out). Bytes of a decode step: those of the step's ops, weights of the experts touched
//! and KV read, as the projector lowers them. A decode step takes TPOT · tokens per step, so prefill that ran between
//! counts against it: the shares are what a user got, a lower bound of what the kernels reach. Prefill is placed where
//! TTFT holds no queue (one request an instance), else where prompts outweigh answers sixteen times.

use super::harvest::FinalistResult;
use crate::config::{Deployment, Speculation};
use crate::cost::Calibration;
use crate::model::Model;
use crate::serve::Projector;
use crate::serve::explain::Part;
use crate::serve::projector::weight_bits;
use crate::target::{EngineProfile, Target};
use crate::workload::Workload;
use serde::Serialize;
use serde_json::Value;

/// A run with answers this many times shorter than prompts measures prefill.
const PREFILL_HEAVY: f64 = 16.0;
/// Share of the bandwidth that counts as near the roof.
pub const NEAR: f64 = 0.75;

/// Prefill of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prefill {
    /// Per GPU.
    pub tflops: f64,
    /// FLOP per byte of weights read.
    pub intensity: f64,
}

/// One measured point on the roofline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Placed {
    /// The finalist.
    pub name: String,
    /// Sharding, `TP4`, `TP8 EP8`.
    pub sharding: String,
    /// GPUs of the deployment.
    pub gpus: u32,
    /// Clients.
    pub concurrency: u32,
    /// Output tokens per second and GPU.
    pub tok_s_per_gpu: f64,
    /// Per GPU, of decoded tokens.
    pub decode_tflops: f64,
    /// FLOP per byte of a decode step.
    pub decode_intensity: f64,
    /// Bytes a GPU moved for decode steps, TB/s.
    pub hbm_tb_s: f64,
    /// The same as a share of the datasheet's bandwidth.
    pub hbm_share: f64,
    /// Where the run measured one.
    pub prefill: Option<Prefill>,
}

/// The page's content.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Roofline {
    /// Marketing name of the GPU.
    pub gpu: String,
    /// Dense peak of the products' format, TFLOP/s.
    pub peak_tflops: f64,
    /// Bandwidth, TB/s.
    pub hbm_tb_s: f64,
    /// FLOP per byte where both roofs meet.
    pub ridge: f64,
    /// By sharding, then concurrency.
    pub points: Vec<Placed>,
    /// Which concurrency, how near, which sharding: a sentence each.
    pub answers: Vec<String>,
    /// Runs that are not placed, and why.
    pub left_out: Vec<String>,
}

/// Places the results of a sweep on a target's roofline.
pub fn roofline(results: &[FinalistResult], target: &Target) -> Roofline {
    let (mut points, mut left_out, mut peak) = (Vec::new(), Vec::new(), target.gpu.bf16_tflops.value);
    for result in results {
        match place(result, target) {
            Ok((placed, tflops)) => {
                points.push(placed);
                peak = tflops;
            }
            Err(why) => {
                let name = result.entry.get("name").and_then(Value::as_str).unwrap_or("a result");
                left_out.push(format!("{name}: {why}"));
            }
        }
    }
    points.sort_by(|a: &Placed, b| a.sharding.cmp(&b.sharding).then(a.concurrency.cmp(&b.concurrency)));
    let hbm_tb_s = target.gpu.hbm_tb_s.value;
    let answers = answers(&points);
    Roofline {
        gpu: target.gpu.name.clone(),
        peak_tflops: peak,
        hbm_tb_s,
        ridge: peak / hbm_tb_s,
        points,
        answers,
        left_out,
    }
}

fn place(result: &FinalistResult, target: &Target) -> Result<(Placed, f64), String> {
    if let Some(why) = &result.no_anchor {
        return Err(why.clone());
    }
    let point = result.point().ok_or("no point")?;
    let text = |key: &str| result.entry.get(key).and_then(Value::as_str).ok_or(format!("the entry has no `{key}`"));
    let model = Model::load(text("model")?).map_err(|e| e.to_string())?;
    let engine = EngineProfile::load(text("engine")?).map_err(|e| e.to_string())?;
    let calibration = Calibration::load("public").map_err(|e| e.to_string())?;
    let mean = |d: &Option<crate::measure::stats::Distribution>| d.as_ref().map(|d| d.mean);
    let (isl, osl) = mean(&point.metrics.isl).zip(mean(&point.metrics.osl)).ok_or("no lengths")?;
    let tpot_ms = mean(&point.metrics.tpot_ms).ok_or("no TPOT")?;
    let workload = Workload::constant(isl.round().max(1.0) as u32, osl.round().max(1.0) as u32);
    let accepted = point.server.as_ref().and_then(|s| s.speculation.as_ref()).map(|s| s.acceptance_length);
    let deployment = deployment(result, point.load.concurrency().unwrap_or(1), accepted)?;
    if deployment.pp > 1 {
        return Err("pipeline stages are not placed: a GPU works for several steps at once".into());
    }
    let projector =
        Projector::new(&model, target, &engine, None, &calibration, &workload).map_err(|e| e.to_string())?;
    let checkpoint = projector.checkpoint(&deployment).map_err(|e| e.to_string())?;
    let gpu = &target.gpu;
    let peak = match weight_bits(&model.architecture, &checkpoint.formats) {
        "4" => gpu.fp4_tflops.as_ref().unwrap_or(&gpu.bf16_tflops).value,
        "8" => gpu.fp8_tflops.value,
        _ => gpu.bf16_tflops.value,
    };
    let refused = |_| "does not fit this target by our account".to_string();
    let compiled = projector.compile(&deployment).map_err(refused)?;
    let tokens = deployment.max_num_batched_tokens;
    let explained = compiled.explain(deployment.concurrency, tokens).map_err(refused)?;
    let local = explained.step.ops.iter().filter(|op| op.part != Part::Collectives);
    let bytes = local.map(|op| op.memory_roof_us).sum::<f64>() * 1e-6 * gpu.hbm_tb_s.value * 1e12;
    let step_s = tpot_ms / 1e3 * deployment.speculation.as_ref().map_or(1.0, |s| s.tokens_per_step);
    let flop = 2.0 * model.architecture.parameters().active() as f64;
    let gpus = deployment.gpus();
    let output = point.steady.as_ref().map_or(point.system.output_tok_s, |s| s.output_tok_s);
    let tok_s_per_gpu = output / f64::from(gpus);
    let (decode_tflops, hbm_tb_s) = (flop * tok_s_per_gpu / 1e12, bytes / step_s / 1e12);
    let alone = deployment.concurrency <= deployment.replicas;
    let instance = f64::from(deployment.tp);
    let rate = match mean(&point.metrics.ttft_ms) {
        Some(ttft_ms) if alone => Some(isl / (ttft_ms / 1e3) / instance),
        _ if isl >= PREFILL_HEAVY * osl => Some(point.system.input_tok_s / f64::from(gpus)),
        _ => None,
    };
    let weights = compiled.plan(deployment.concurrency, tokens).weights.0 * explained.prefill.chunks.max(1.0);
    let prefill = rate.map(|rate| Prefill { tflops: flop * rate / 1e12, intensity: flop * isl / instance / weights });
    let sharding = [("EP", deployment.ep), ("DPA", deployment.attention_dp)];
    let sharding = sharding
        .iter()
        .filter(|s| s.1 > 1)
        .fold(format!("TP{}", deployment.tp), |all, (name, n)| format!("{all} {name}{n}"));
    let placed = Placed {
        name: text("name")?.to_string(),
        sharding,
        gpus,
        concurrency: deployment.concurrency,
        tok_s_per_gpu,
        decode_tflops,
        decode_intensity: decode_tflops / hbm_tb_s,
        hbm_tb_s,
        hbm_share: hbm_tb_s / gpu.hbm_tb_s.value,
        prefill,
    };
    Ok((placed, peak))
}

fn deployment(result: &FinalistResult, concurrency: usize, accepted: Option<f64>) -> Result<Deployment, String> {
    const KEYS: [&str; 10] = [
        "tp",
        "ep",
        "attention_dp",
        "pp",
        "replicas",
        "weight_dtype",
        "kv_dtype",
        "max_num_batched_tokens",
        "max_num_seqs",
        "memory_fraction",
    ];
    let mut fields: serde_json::Map<String, Value> =
        KEYS.iter().filter_map(|k| Some((k.to_string(), result.entry.get(*k)?.clone()))).collect();
    fields.insert("concurrency".into(), concurrency.into());
    let mut deployment: Deployment =
        serde_json::from_value(fields.into()).map_err(|e| format!("the entry is no whole deployment: {e}"))?;
    if let Some(drafts) = result.entry.get("draft_tokens").and_then(Value::as_u64).filter(|d| *d > 0) {
        let tokens_per_step = accepted.ok_or("the engine's counters do not say how many drafts were accepted")?;
        deployment.speculation = Some(Speculation { draft_tokens: drafts as u32, tokens_per_step });
    }
    Ok(deployment)
}

fn answers(points: &[Placed]) -> Vec<String> {
    let best = |of: fn(&Placed) -> f64| points.iter().max_by(|a, b| of(a).total_cmp(&of(b)));
    let Some(((most, near), fast)) =
        best(|p| p.decode_tflops).zip(best(|p| p.hbm_share)).zip(best(|p| p.tok_s_per_gpu))
    else {
        return vec![];
    };
    let mut answers = vec![format!(
        "Decode does most FLOP/s at {} clients: {:.2} TFLOP/s per GPU ({}).",
        most.concurrency, most.decode_tflops, most.sharding
    )];
    let verdict = if near.hbm_share >= NEAR { "at the memory roof" } else { "below the memory roof" };
    answers.push(format!(
        "Decode moves at most {:.0} % of the HBM bandwidth, at {} clients ({}): {verdict} ({:.0} %).",
        100.0 * near.hbm_share,
        near.concurrency,
        near.sharding,
        100.0 * NEAR
    ));
    let mut shardings: Vec<&str> = points.iter().map(|p| p.sharding.as_str()).collect();
    shardings.dedup();
    answers.push(match shardings.len() {
        1 => format!("One sharding was measured ({}); a comparison needs two.", fast.sharding),
        n => format!(
            "Of {n} shardings {} gives most output per GPU: {:.1} tok/s at {} clients.",
            fast.sharding, fast.tok_s_per_gpu, fast.concurrency
        ),
    });
    answers
}
