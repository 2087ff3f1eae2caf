//! In which format each tensor group of a checkpoint is stored.
//!
//! Dialects read: `fp8` (DeepSeek, Qwen …), `mxfp4` (gpt-oss), `compressed-tensors` and `modelopt` with `config_groups`,
//! `hf_quant_config.json` (modelopt), `quark`, `fbgemm_fp8`, `gptq`, `awq`, `auto-round`, `bitsandbytes`. A tensor group
//! whose matrices differ gets the format that holds most of its weights, and a note says so.

use super::fields::brief;
use super::modules::{self, Group, Pattern};
use super::object;
use crate::model::{Formats, LayerGroup, WeightFormat};
use crate::{Error, Result};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

type Object = Map<String, Value>;

/// How the weights are stored.
pub(super) struct Stored {
    /// The precision as users say it.
    pub dtype: String,
    pub formats: Formats,
    pub notes: Vec<String>,
}

/// What a quantisation config says.
struct Rules {
    /// Format of matrices nothing else speaks of.
    base: WeightFormat,
    /// Formats of named matrices, by pattern; the first that fits decides.
    named: Vec<(Pattern, WeightFormat)>,
    /// Formats of exactly named matrices and trees (from `layers.` on).
    exact: BTreeMap<String, WeightFormat>,
    /// Matrices left in 16 bits.
    excluded: Vec<Pattern>,
    /// Only the experts are quantised.
    experts_only: bool,
    notes: Vec<String>,
}

/// The layers in order, and how many entries make one numbered layer of the checkpoint.
pub(super) struct Stack<'a> {
    pub hidden: u32,
    pub layers: &'a [LayerGroup],
    pub entries_per_layer: usize,
}

/// Reads whichever config is there: in `config.json` at the top or beside the decoder, or `hf_quant_config.json`.
pub(super) fn read(
    origin: &str,
    top: &Object,
    decoder: &Object,
    beside: Option<&(&str, Object)>,
    stack: &Stack,
) -> Result<Stored> {
    let keys = ["quantization_config", "compression_config"];
    for (key, value) in keys.iter().flat_map(|k| [top.get(*k), decoder.get(*k)].map(|v| (k, v))) {
        if let Some(value) = value.filter(|v| !v.is_null() && !v.is_object()) {
            return Err(Error::input(
                origin,
                format!("`{key}` is {}, not an object", brief(value)),
                "Give the object that the checkpoint was published with, or leave it out for 16-bit weights",
            ));
        }
    }
    let inside = keys.iter().find_map(|k| object(top, k).or_else(|| object(decoder, k)));
    let rules = match (inside, beside) {
        (Some(q), _) => Some(rules(origin, q, decoder)?),
        (None, Some((name, file))) => Some(rules(name, object(file, "quantization").unwrap_or(file), decoder)?),
        (None, None) => None,
    };
    let Some(rules) = rules else {
        return Ok(Stored { dtype: "bf16".into(), formats: Formats::uniform(WeightFormat::Bf16), notes: Vec::new() });
    };
    Ok(apply(rules, stack))
}

fn rules(origin: &str, q: &Object, decoder: &Object) -> Result<Rules> {
    let word = |k: &str| q.get(k).and_then(Value::as_str).unwrap_or("").to_lowercase();
    let method = word("quant_method");
    let algorithm = word("quant_algo");
    let mut rules = Rules {
        base: WeightFormat::Bf16,
        named: Vec::new(),
        exact: BTreeMap::new(),
        excluded: Vec::new(),
        experts_only: false,
        notes: Vec::new(),
    };
    for key in ["ignore", "exclude_modules", "modules_to_not_convert", "exclude", "ignored_layers"] {
        rules.exclude(q.get(key));
    }
    if let Some(layers) = object(q, "quantized_layers") {
        for (name, how) in layers {
            let algo = how.get("quant_algo").and_then(Value::as_str).unwrap_or("");
            let format = modelopt(algo).ok_or_else(|| unknown(origin, algo))?;
            rules.exact.insert(name.find("layers.").map_or(name.clone(), |at| name[at..].to_string()), format);
        }
        if method == "fp8" {
            // DeepSeek-V4 by modelopt: what was fp8 before stays so, the excluded names included.
            rules.base = fp8(origin, q)?;
            rules.excluded.clear();
        }
        return Ok(rules);
    }
    let base = match method.as_str() {
        "mxfp4" => {
            rules.experts_only = true;
            Some(WeightFormat::Mxfp4)
        }
        "fp8" | "fbgemm_fp8" => {
            if decoder.get("expert_dtype").and_then(Value::as_str) == Some("fp4") {
                rules
                    .named
                    .push((Pattern::new("*.experts.*").ok_or_else(|| unknown(origin, "fp4"))?, WeightFormat::Mxfp4));
            }
            Some(fp8(origin, q)?)
        }
        "gptq" | "awq" | "auto-round" | "auto_round" | "autoround" | "gptq_marlin" | "awq_marlin" => {
            let bits = ["bits", "w_bit"].iter().find_map(|k| q.get(*k)?.as_u64()).unwrap_or(4);
            rules.exclude(Some(&Value::from(vec!["lm_head"])));
            Some(integer(bits).ok_or_else(|| {
                Error::input(
                    origin,
                    format!("the quantisation config has `{method}` with {bits} bits, which is not known"),
                    "Known are 4 and 8 bits",
                )
            })?)
        }
        "bitsandbytes" => {
            let four = q.get("load_in_4bit").and_then(Value::as_bool).unwrap_or(false);
            integer(if four { 4 } else { 8 })
        }
        "quark" => rules.quark(origin, q)?,
        _ => {
            let groups = rules.groups(origin, q)?;
            groups.or_else(|| modelopt(&algorithm))
        }
    };
    let said = if method.is_empty() { algorithm } else { method };
    rules.base = base.ok_or_else(|| unknown(origin, &said))?;
    Ok(rules)
}

impl Rules {
    fn exclude(&mut self, list: Option<&Value>) {
        for text in list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            match Pattern::new(text) {
                Some(pattern) => self.excluded.push(pattern),
                None => self.notes.push(format!("quantisation exclusion `{text}` is not understood and was skipped")),
            }
        }
    }

    /// `config_groups`: several formats, each for its targets; `Linear` targets every matrix.
    fn groups(&mut self, origin: &str, q: &Object) -> Result<Option<WeightFormat>> {
        let packing = q.get("format").and_then(Value::as_str).unwrap_or("");
        let mut base = None;
        for group in object(q, "config_groups").into_iter().flat_map(|g| g.values()) {
            let Some(weights) = group.get("weights").and_then(Value::as_object) else { continue };
            let packing = group.get("format").and_then(Value::as_str).unwrap_or(packing);
            let format = scheme(weights, packing).ok_or_else(|| unknown(origin, "config_groups"))?;
            let targets = group.get("targets").and_then(Value::as_array);
            let targets: Vec<&str> = targets.into_iter().flatten().filter_map(Value::as_str).collect();
            if targets.is_empty() || targets.contains(&"Linear") {
                base = Some(format);
                continue;
            }
            self.named.extend(targets.iter().filter_map(|t| Some((Pattern::new(t)?, format))));
        }
        Ok(base.or((!self.named.is_empty()).then_some(WeightFormat::Bf16)))
    }

    /// AMD Quark: a global scheme, and schemes by layer pattern.
    fn quark(&mut self, origin: &str, q: &Object) -> Result<Option<WeightFormat>> {
        for (name, how) in object(q, "layer_quant_config").into_iter().flatten() {
            let format = how.as_object().and_then(quark_scheme).ok_or_else(|| unknown(origin, "quark layer config"))?;
            self.named.extend(Pattern::new(name).map(|p| (p, format)));
        }
        Ok(object(q, "global_quant_config").and_then(quark_scheme))
    }

    fn format(&self, group: Group, layer: usize, names: &[String]) -> WeightFormat {
        if self.experts_only && group != Group::Experts {
            return WeightFormat::Bf16;
        }
        let parents = |n: &'_ str| n.match_indices('.').map(|(i, _)| i).chain([n.len()]).collect::<Vec<_>>();
        let exact = |n: &String| parents(n).into_iter().find_map(|end| self.exact.get(&n[..end]));
        if let Some(format) = names.iter().find_map(exact) {
            return *format;
        }
        let any = |p: &Pattern| p.concerns(layer) && names.iter().any(|n| p.means(n));
        if self.excluded.iter().any(any) {
            return WeightFormat::Bf16;
        }
        self.named.iter().find(|(p, _)| any(p)).map_or(self.base, |(_, f)| *f)
    }
}

/// Votes by weight, matrix by matrix.
fn apply(rules: Rules, stack: &Stack) -> Stored {
    let mut votes: BTreeMap<(u8, WeightFormat), u64> = BTreeMap::new();
    let mut notes = rules.notes.clone();
    for (i, layer) in stack.layers.iter().enumerate() {
        let number = i / stack.entries_per_layer.max(1);
        for module in modules::of_layer(stack.hidden, layer) {
            let short = module.names.iter().map(|n| format!("layers.{number}.{n}"));
            let names: Vec<String> = short.flat_map(|n| [format!("model.{n}"), n]).collect();
            let format = rules.format(module.group, number, &names);
            let vote = votes.entry((module.group as u8, format)).or_default();
            *vote = vote.saturating_add(module.weights);
        }
    }
    let mut winner = |group: Group, label: &str| {
        let of: Vec<_> = votes.iter().filter(|((g, _), _)| *g == group as u8).collect();
        let (format, most) = of.iter().max_by_key(|(_, n)| **n).map(|((_, f), n)| (*f, **n))?;
        let all = of.iter().fold(0u64, |a, (_, n)| a.saturating_add(**n));
        if most < all / 10 * 9 {
            notes.push(format!(
                "{label} matrices are stored in several formats; {format} holds most and stands for all"
            ));
        }
        Some(format)
    };
    let attention = winner(Group::Attention, "attention");
    let dense = winner(Group::Dense, "dense");
    let experts = winner(Group::Experts, "expert");
    let shared = winner(Group::Shared, "shared-expert");
    let top = |names: [&str; 2]| match rules.exact.get(names[0]) {
        Some(format) => *format,
        None => WeightFormat::Bf16,
    };
    let bulk = experts.or(dense).or(attention).unwrap_or(rules.base);
    let formats = Formats {
        attention: attention.unwrap_or(bulk),
        linear_input: None,
        dense: dense.unwrap_or(bulk),
        experts: experts.unwrap_or(bulk),
        shared: shared.or(experts).unwrap_or(bulk),
        embedding: WeightFormat::Bf16,
        lm_head: top(["lm_head", "head"]),
    };
    Stored { dtype: word(bulk).to_string(), formats, notes }
}

/// One scale a tensor or channel, or one a block where `weight_block_size` gives its two sides.
fn fp8(origin: &str, q: &Object) -> Result<WeightFormat> {
    let Some(block) = q.get("weight_block_size").filter(|v| !v.is_null()) else { return Ok(WeightFormat::Fp8) };
    let sides = block.as_array().map(Vec::as_slice);
    match sides {
        Some([rows, columns]) if [rows, columns].iter().all(|n| n.as_u64().is_some_and(|n| n > 0)) => {
            Ok(WeightFormat::Fp8Block)
        }
        _ => Err(Error::input(
            origin,
            format!("`weight_block_size` is {}, not two whole numbers above 0", brief(block)),
            "Write it as [128, 128]",
        )),
    }
}

fn integer(bits: u64) -> Option<WeightFormat> {
    match bits {
        4 => Some(WeightFormat::Int4),
        8 => Some(WeightFormat::Int8),
        _ => None,
    }
}

fn modelopt(algorithm: &str) -> Option<WeightFormat> {
    match algorithm.to_lowercase().as_str() {
        "fp8" | "fp8_per_channel_per_token" | "fp8_pc_pt" => Some(WeightFormat::Fp8),
        "fp8_pb_wo" | "fp8_pb_real" => Some(WeightFormat::Fp8Block),
        "nvfp4" | "w4a16_nvfp4" | "nvfp4_awq" | "w4a8_nvfp4_fp8" => Some(WeightFormat::Nvfp4),
        "mxfp4" | "w4a8_mxfp4_fp8" | "w4a16_mxfp4" => Some(WeightFormat::Mxfp4),
        "mxfp8" => Some(WeightFormat::Mxfp8),
        "w4a16_awq" | "w4a8_awq" | "int4_awq" => Some(WeightFormat::Int4),
        "w8a8_sq_per_channel" | "w8a16" | "int8_sq" => Some(WeightFormat::Int8),
        _ => None,
    }
}

/// compressed-tensors and modelopt: bits, number kind and the size of a scale's group.
fn scheme(weights: &Object, packing: &str) -> Option<WeightFormat> {
    let number = |k: &str| weights.get(k).and_then(Value::as_u64);
    let kind = weights.get("type").and_then(Value::as_str).unwrap_or("float");
    let blocked = weights.get("strategy").and_then(Value::as_str) == Some("block")
        || weights.get("block_structure").is_some_and(|v| !v.is_null());
    match (number("num_bits")?, kind, number("group_size")) {
        (4, "float", Some(32)) => Some(WeightFormat::Mxfp4),
        (4, "float", _) if packing.contains("mxfp4") => Some(WeightFormat::Mxfp4),
        (4, "float", _) => Some(WeightFormat::Nvfp4),
        (8, "float", Some(32)) => Some(WeightFormat::Mxfp8),
        (8, "float", _) => Some(if blocked { WeightFormat::Fp8Block } else { WeightFormat::Fp8 }),
        (bits, "int", _) => integer(bits),
        _ => None,
    }
}

/// Quark's `weight`, one scheme or a list of two levels of which the last stores the values.
fn quark_scheme(config: &Object) -> Option<WeightFormat> {
    let weight = match config.get("weight") {
        None | Some(Value::Null) => return Some(WeightFormat::Bf16),
        Some(Value::Array(levels)) => levels.first()?.as_object()?,
        Some(w) => w.as_object()?,
    };
    let scale = weight.get("group_size").and_then(Value::as_u64);
    match weight.get("dtype")?.as_str()?.to_lowercase().as_str() {
        "fp4" | "mxfp4" => Some(WeightFormat::Mxfp4),
        "fp8_e4m3" | "fp8" | "fp8_e5m2" => Some(match (weight.get("qscheme").and_then(Value::as_str), scale) {
            (Some("per_group"), Some(32)) => WeightFormat::Mxfp8,
            (Some("per_group" | "per_block"), _) => WeightFormat::Fp8Block,
            _ => WeightFormat::Fp8,
        }),
        "int4" | "uint4" => Some(WeightFormat::Int4),
        "int8" | "uint8" => Some(WeightFormat::Int8),
        _ => None,
    }
}

/// What a user calls a checkpoint whose bulk is in this format.
fn word(format: WeightFormat) -> &'static str {
    match format {
        WeightFormat::F32 => "f32",
        WeightFormat::Bf16 => "bf16",
        WeightFormat::Fp8 | WeightFormat::Fp8Block => "fp8",
        WeightFormat::Mxfp4 => "mxfp4",
        WeightFormat::Mxfp8 => "mxfp8",
        WeightFormat::Nvfp4 => "nvfp4",
        WeightFormat::Int8 => "int8",
        WeightFormat::Int4 => "int4",
    }
}

fn unknown(origin: &str, what: &str) -> Error {
    let found =
        if what.is_empty() { "names no method".to_string() } else { format!("has `{what}`, which is not known") };
    Error::input(
        origin,
        format!("the quantisation config {found}"),
        "Supported: fp8, mxfp4, compressed-tensors, modelopt (FP8, NVFP4, MXFP4, MXFP8, AWQ), quark, gptq, awq, \
         auto-round, bitsandbytes, fbgemm_fp8; 4 or 8 bits",
    )
}
