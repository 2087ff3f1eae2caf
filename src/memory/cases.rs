//! How close does the memory model come to what engines logged at start-up?
//!
//! A case is one row of a collection of start-up logs. Where the row gives the memory left for the KV cache, capacity
//! is predicted from it, so a wrong activation peak does not hide a wrong cache rule; else from the full budget.

use crate::config::Deployment;
use crate::memory::MemoryModel;
use crate::model::{Architecture, Checkpoint, Formats, KvFormat, Mixer, Model, WeightFormat};
use crate::source::{Origin, Sourced};
use crate::target::{EngineProfile, EngineSettings, Gpu, GpuFamily};
use crate::units::GIB;
use serde::Serialize;

/// The columns a cases file must have.
pub const COLUMNS: [&str; 26] = [
    "case_id",
    "date",
    "engine",
    "version",
    "model",
    "weight_quant",
    "gpu",
    "gpus",
    "tp",
    "pp",
    "dp",
    "ep",
    "kv_dtype",
    "max_model_len",
    "mem_util",
    "max_num_batched_tokens",
    "max_num_seqs",
    "total_gib",
    "weights_gib",
    "kv_avail_gib",
    "blocks",
    "kv_tokens",
    "max_concurrency_x",
    "est_max_model_len",
    "score_kv",
    "score_weights",
];

/// KV tokens may differ by this share.
pub const TOKENS_BAR: f64 = 0.003;
/// Maximum concurrency may differ by this share.
pub const CONCURRENCY_BAR: f64 = 0.005;
/// Weights may differ by this share.
pub const WEIGHTS_BAR: f64 = 0.01;

/// A row: texts as written, empty cells as `None`.
#[derive(Debug, Clone, Default)]
pub struct Case {
    /// Names the row.
    pub id: String,
    /// Day of the report.
    pub date: String,
    /// Engine as written.
    pub engine: String,
    /// Engine version as written.
    pub version: Option<String>,
    /// Model as written.
    pub model: String,
    /// Quantisation as written.
    pub weight_quant: String,
    /// Card as written.
    pub gpu: String,
    /// Cards.
    pub gpus: Option<f64>,
    /// Tensor parallelism.
    pub tp: Option<f64>,
    /// Pipeline parallelism.
    pub pp: Option<f64>,
    /// Data parallelism.
    pub dp: Option<f64>,
    /// Experts are spread over all ranks.
    pub ep: bool,
    /// KV format as written.
    pub kv_dtype: String,
    /// Longest request.
    pub max_model_len: Option<f64>,
    /// Memory fraction.
    pub mem_util: Option<f64>,
    /// Token budget.
    pub max_num_batched_tokens: Option<f64>,
    /// Sequence limit.
    pub max_num_seqs: Option<f64>,
    /// Memory of the card, GiB.
    pub total_gib: Option<f64>,
    /// Logged weights per rank, GiB.
    pub weights_gib: Option<f64>,
    /// Logged memory left for the KV cache, GiB.
    pub kv_avail_gib: Option<f64>,
    /// Logged KV blocks.
    pub blocks: Option<f64>,
    /// Logged KV tokens.
    pub kv_tokens: Option<f64>,
    /// Logged maximum concurrency.
    pub max_concurrency: Option<f64>,
    /// Logged estimate of the longest request that would fit.
    pub est_max_model_len: Option<f64>,
    /// The KV figures of the row count.
    pub score_kv: bool,
    /// The weights of the row count.
    pub score_weights: bool,
}

/// A predicted figure beside the logged one.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Pair {
    /// Ours.
    pub predicted: f64,
    /// The engine's, where it was logged.
    pub logged: Option<f64>,
    /// predicted / logged − 1.
    pub error: Option<f64>,
    /// Inside the bar, or inside the rounding of the logged figures.
    pub within: Option<bool>,
}

impl Pair {
    fn new(predicted: f64, logged: Option<f64>, bar: f64, rounding: f64) -> Self {
        let logged = logged.filter(|l| *l > 0.0);
        let error = logged.map(|l| predicted / l - 1.0);
        let within = logged.map(|l| (predicted - l).abs() <= (bar * l).max(rounding));
        Self { predicted, logged, error, within }
    }
}

/// What a row comes to.
#[derive(Debug, Clone, Serialize)]
pub struct Scored {
    /// Names the row.
    pub case_id: String,
    /// Model as written.
    pub model: String,
    /// Preset the model was taken for.
    pub preset: Option<String>,
    /// Why nothing could be predicted.
    pub reason: Option<String>,
    /// What was assumed for cells the row leaves empty.
    pub assumed: Vec<String>,
    /// Weights per rank, GiB.
    pub weights_gib: Option<Pair>,
    /// KV tokens (for a refused start, the longest request that would have fitted).
    pub kv_tokens: Option<Pair>,
    /// Requests of the longest length.
    pub max_concurrency: Option<Pair>,
    /// `logged` where the KV cache's memory was taken from the row, `budget` where it was predicted.
    pub kv_from: Option<&'static str>,
    /// The KV figures count.
    pub score_kv: bool,
    /// The weights count.
    pub score_weights: bool,
}

/// Predicts one row.
pub fn score(case: &Case) -> Scored {
    let mut out = Scored {
        case_id: case.id.clone(),
        model: case.model.clone(),
        preset: None,
        reason: None,
        assumed: Vec::new(),
        weights_gib: None,
        kv_tokens: None,
        max_concurrency: None,
        kv_from: None,
        score_kv: case.score_kv,
        score_weights: case.score_weights,
    };
    if let Err(reason) = predict(case, &mut out) {
        out.reason = Some(reason);
    }
    out
}

fn predict(case: &Case, out: &mut Scored) -> Result<(), String> {
    if case.model.trim().is_empty() {
        return Err("the row names no model".into());
    }
    let profile = EngineProfile::load(&case.engine).map_err(|_| format!("engine `{}` is not known", case.engine))?;
    let engine = match &case.version {
        Some(version) => profile.settings(Some(version)),
        None if case.date.is_empty() => profile.settings(None),
        None => profile.settings_on(&case.date),
    };
    let model = find_model(&case.model)?;
    out.preset = Some(model.architecture.name.clone());
    let (formats, chosen) = formats(&model, case);
    out.assumed.extend(chosen);
    let gpu = card(case, out);
    let deployment = deployment(case, &gpu, &engine, &model.architecture, out)?;
    let compiled = MemoryModel::compile(&model.architecture, &formats, &gpu, &engine, &deployment);
    let weights = compiled.weights().as_gib();
    out.weights_gib = Some(Pair::new(weights, case.weights_gib, WEIGHTS_BAR, 0.005));
    let longest = case.max_model_len.unwrap_or(f64::from(model.architecture.max_context));
    let batch = f64::from(deployment.max_num_batched_tokens);
    // A start refused with all stages' KV against the smallest stage is judged the same way.
    let refused = case.est_max_model_len.is_some();
    let kv_model = if refused && deployment.pp > 1 && engine.pipeline_need_over_all_layers {
        let whole = Deployment { pp: 1, ..deployment.clone() };
        MemoryModel::compile(&model.architecture, &formats, &gpu, &engine, &whole)
    } else {
        compiled
    };
    let budget = compiled.plan(batch, longest, longest, f64::from(deployment.max_num_seqs)).kv_available.0;
    let (kv, from) = match case.kv_avail_gib {
        Some(gib) => (gib * GIB, "logged"),
        None => (budget, "budget"),
    };
    out.kv_from = Some(from);
    let (mut tokens, concurrency) = kv_model.capacity(kv, longest, batch);
    let logged = case.kv_tokens.or(case.blocks.map(|b| b * kv_model.block_tokens()));
    if logged.is_none() && refused {
        tokens = kv_model.longest(kv, batch);
    }
    let logged = logged.or(case.est_max_model_len);
    // Half a unit of the second decimal of the logged GiB, and a block that it may round away.
    let slack = if from == "logged" { 0.005 * GIB / kv.abs().max(1.0) } else { 0.0 };
    let rounding = logged.unwrap_or(0.0) * slack + kv_model.block_tokens();
    out.kv_tokens = Some(Pair::new(tokens, logged, TOKENS_BAR, rounding));
    let rounding = 0.005 + case.max_concurrency.unwrap_or(0.0) * slack;
    out.max_concurrency = Some(Pair::new(concurrency, case.max_concurrency, CONCURRENCY_BAR, rounding));
    Ok(())
}

/// The preset a free text means: the whole text, then with trailing remarks cut off word by word.
fn find_model(text: &str) -> Result<Model, String> {
    let whole = text.trim();
    let cut = whole.split(['(', '+']).next().unwrap_or(whole).trim();
    let words: Vec<&str> = cut.split_whitespace().collect();
    let shorter = (1..=words.len()).rev().map(|n| words[..n].join(" "));
    for name in std::iter::once(whole.to_string()).chain(shorter) {
        if let Some(preset) = Model::preset_name(&name) {
            return Model::load(preset).map_err(|e| e.to_string());
        }
    }
    Err(format!("no preset has the shapes of `{text}`"))
}

/// Tensor formats the row means, and what was assumed.
fn formats(model: &Model, case: &Case) -> (Formats, Option<String>) {
    let text = format!("{} {}", case.weight_quant, case.model).to_lowercase();
    let named = |c: &&Checkpoint| {
        let mut words = c.dtype.split('-');
        words.all(|w| text.contains(w))
    };
    // A variant (`nvfp4-unsloth`) is more telling than the bare format.
    if let Some(checkpoint) = model.checkpoints.iter().filter(named).max_by_key(|c| c.dtype.len()) {
        return (checkpoint.formats.clone(), None);
    }
    let asked = [
        ("nvfp4", WeightFormat::Nvfp4),
        ("mxfp4", WeightFormat::Mxfp4),
        ("fp8", WeightFormat::Fp8),
        ("int8", WeightFormat::Int8),
        ("8-bit", WeightFormat::Int8),
        ("w8a8", WeightFormat::Int8),
        ("int4", WeightFormat::Int4),
        ("awq", WeightFormat::Int4),
        ("gptq", WeightFormat::Int4),
        ("w4a16", WeightFormat::Int4),
        ("4bit", WeightFormat::Int4),
        ("bf16", WeightFormat::Bf16),
        ("fp16", WeightFormat::Bf16),
    ];
    if let Some((word, format)) = asked.iter().find(|(word, _)| text.contains(word)) {
        let same = model.checkpoints.iter().find(|c| c.dtype == format.to_string());
        return match same {
            Some(checkpoint) => (checkpoint.formats.clone(), None),
            None => (
                Formats::uniform(*format),
                Some(format!("every matrix in {word}: the preset lists no such checkpoint")),
            ),
        };
    }
    let plain = model.checkpoint("bf16").or(model.checkpoints.first());
    match plain {
        Some(checkpoint) => (checkpoint.formats.clone(), Some(format!("weights as {}", checkpoint.dtype))),
        None => (Formats::uniform(WeightFormat::Bf16), Some("weights as bf16".into())),
    }
}

/// Cards by a part of their name: memory a process sees in GiB, kernels.
const CARDS: [(&str, f64, GpuFamily); 20] = [
    ("h200", 139.8, GpuFamily::Hopper),
    ("h20", 95.1, GpuFamily::Hopper),
    ("h100", 79.1, GpuFamily::Hopper),
    ("h800", 79.1, GpuFamily::Hopper),
    ("gb200", 184.0, GpuFamily::Blackwell),
    ("b200", 178.4, GpuFamily::Blackwell),
    ("gb300", 277.0, GpuFamily::Blackwell),
    ("b300", 268.0, GpuFamily::Blackwell),
    ("a100", 79.1, GpuFamily::Hopper),
    ("l40s", 44.4, GpuFamily::Hopper),
    ("l20", 44.5, GpuFamily::Hopper),
    ("3090", 23.6, GpuFamily::Hopper),
    ("4090", 23.5, GpuFamily::Hopper),
    ("5090", 31.4, GpuFamily::Hopper),
    ("6000", 95.0, GpuFamily::Hopper),
    ("gb10", 121.7, GpuFamily::Hopper),
    ("mi30", 191.5, GpuFamily::Gfx942),
    ("mi325", 255.7, GpuFamily::Gfx942),
    ("mi350", 287.6, GpuFamily::Gfx950),
    ("mi355", 287.6, GpuFamily::Gfx950),
];

fn card(case: &Case, out: &mut Scored) -> Gpu {
    let text = case.gpu.to_lowercase();
    let known = CARDS.iter().find(|(name, ..)| text.contains(name));
    let total = case.total_gib.or_else(|| gib_in(&text)).or(known.map(|k| k.1)).unwrap_or_else(|| {
        out.assumed.push("a card of 80 GiB".into());
        79.1
    });
    let figure = |value: f64| Sourced { value, origin: Origin::Assumed, source: "the row's card".into() };
    Gpu {
        name: case.gpu.clone(),
        family: known.map_or(GpuFamily::Hopper, |k| k.2),
        bf16_tflops: figure(1.0),
        fp8_tflops: figure(1.0),
        fp4_tflops: None,
        hbm_gib: figure(total),
        hbm_tb_s: figure(1.0),
        compute_units: Sourced { value: 1, origin: Origin::Assumed, source: "the row's card".into() },
    }
}

/// `(23.58 GiB card)` is 23.58.
fn gib_in(text: &str) -> Option<f64> {
    let before = text.split("gib").next().filter(|b| b.len() < text.len())?;
    let number = before.trim_end().rsplit(|c: char| !(c.is_ascii_digit() || c == '.')).next()?;
    number.parse().ok().filter(|g| *g > 0.0)
}

fn deployment(
    case: &Case,
    gpu: &Gpu,
    engine: &EngineSettings,
    arch: &Architecture,
    out: &mut Scored,
) -> Result<Deployment, String> {
    let whole = |cell: Option<f64>, what: &str| match cell {
        None => Ok(None),
        Some(n) if n >= 1.0 && n.fract() == 0.0 && n <= 4096.0 => Ok(Some(n as u32)),
        Some(n) => Err(format!("{what} is {n}, not a count of ranks")),
    };
    let dp = whole(case.dp, "dp")?.unwrap_or(1);
    let pp = whole(case.pp, "pp")?.unwrap_or(1);
    let gpus = whole(case.gpus, "gpus")?;
    let tp = match whole(case.tp, "tp")? {
        Some(tp) => tp,
        None => {
            let tp = (gpus.unwrap_or(1) / (dp * pp)).max(1);
            if gpus.is_none() || tp > 1 {
                out.assumed.push(format!("tp {tp}"));
            }
            tp
        }
    };
    let width = tp * dp;
    let limits = engine.step_limits(gpu.hbm_gib.value);
    let batch = case.max_num_batched_tokens.map(|b| b as u32).unwrap_or_else(|| {
        let batch = limits.max_num_batched_tokens.max(smallest_step(arch));
        if arch.layers.iter().any(|g| matches!(&g.mixer, Mixer::Gqa(a) if a.window.is_some())) {
            out.assumed.push(format!("max_num_batched_tokens {batch}"));
        }
        batch
    });
    let text = case.kv_dtype.to_lowercase();
    let kv_dtype = if text.contains("fp8") || text.contains("int8") {
        KvFormat::Fp8
    } else if text.is_empty() || text == "auto" {
        engine.default_kv_dtype(gpu.family)
    } else {
        KvFormat::Bf16
    };
    Ok(Deployment {
        tp: width,
        ep: if case.ep { width } else { 1 },
        attention_dp: dp,
        context_parallel: 1,
        pp,
        replicas: 1,
        concurrency: 1,
        weight_dtype: String::new(),
        kv_dtype,
        max_num_batched_tokens: batch,
        max_num_seqs: case.max_num_seqs.map_or(limits.max_num_seqs, |s| s as u32),
        memory_fraction: case.mem_util.unwrap_or(engine.memory_fraction),
        speculation: None,
        prefill: None,
    })
}

/// Smallest token budget vLLM starts with where a picture must fit in one step.
///
/// Gemma 4 attends both ways inside a video of 2496 tokens, and vLLM refuses a smaller budget than that; public
/// deployments take the next power of two (noonghunna/club-3090, models/gemma-4-12b: 4096).
fn smallest_step(arch: &Architecture) -> u32 {
    if arch.family.starts_with("Gemma4") { 2496_u32.next_power_of_two() } else { 0 }
}
