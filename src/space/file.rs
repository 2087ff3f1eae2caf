//! A space as a file spells it, before model, machine and engine are known.

use super::drafts::DraftChoice;
use super::prefill::PrefillChoice;
use super::values::Values;
use crate::catalog::{self, Document, Kind};
use crate::model::KvFormat;
use crate::{Error, Result, yaml};
use serde::{Deserialize, Serialize};

/// Which knobs may vary over what. A knob left out keeps its default, as documented with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpaceFile {
    /// Name on the command line.
    pub name: String,
    /// One line about its purpose.
    pub about: String,
    /// The knobs.
    pub knobs: Knobs,
}

/// The knobs, outermost first: a point's number counts the last one fastest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knobs {
    /// Nodes to use; `auto` uses those of the target. Several need `replicas: fill`.
    #[serde(default = "auto")]
    pub nodes: Values<u32>,
    /// Precision of the checkpoint; `auto` takes every one the model is published in.
    #[serde(default = "auto")]
    pub weight_dtype: Values<String>,
    /// KV cache format; `auto` takes bf16.
    #[serde(default = "auto")]
    pub kv_dtype: Values<KvFormat>,
    /// Prompts prefilled `together` with decode or on a pool of their own, such as `2xtp4`; together where it is not given.
    /// The other knobs describe the decode instances then.
    #[serde(default = "together")]
    pub prefill: Values<PrefillChoice>,
    /// Tensor-parallel ranks.
    pub tp: Values<u32>,
    /// Pipeline stages; 1 where it is not given.
    #[serde(default = "one")]
    pub pp: Values<u32>,
    /// Expert-parallel groups; varies only for models with routed experts. 1 where it is not given.
    #[serde(default = "one")]
    pub ep: Values<u32>,
    /// Attention-data-parallel groups; 1 where it is not given.
    #[serde(default = "one")]
    pub attention_dp: Values<u32>,
    /// Ranks over which a sequence's KV cache is spread in decode; 1 where it is not given.
    #[serde(default = "one")]
    pub context_parallel: Values<u32>,
    /// Independent copies; `fill` takes as many as the GPUs allow.
    #[serde(default = "fill")]
    pub replicas: Values<u32>,
    /// Tokens the model's own multi-token-prediction layers draft in a step, or `none`; varies only for models that have
    /// such layers. None where it is not given.
    #[serde(default = "undrafted")]
    pub draft_tokens: Values<DraftChoice>,
    /// The engine's memory fraction; `auto` takes the engine's default.
    #[serde(default = "auto")]
    pub memory_fraction: Values<f64>,
    /// Most sequences an engine runs at once; `auto` takes the engine's default.
    #[serde(default = "auto")]
    pub max_num_seqs: Values<u32>,
    /// Token budget of one step; `auto` takes the engine's default.
    #[serde(default = "auto")]
    pub max_num_batched_tokens: Values<u32>,
    /// Requests in flight over all replicas.
    pub concurrency: Values<u32>,
}

fn auto<T>() -> Values<T> {
    Values::Word("auto".into())
}

fn together() -> Values<PrefillChoice> {
    Values::List(vec![PrefillChoice(None)])
}

fn undrafted() -> Values<DraftChoice> {
    Values::List(vec![DraftChoice(None)])
}

fn fill() -> Values<u32> {
    Values::Word("fill".into())
}

fn one() -> Values<u32> {
    Values::List(vec![1])
}

impl SpaceFile {
    /// Loads a file where `name_or_path` is one, else the built-in space of that name.
    ///
    /// # Errors
    /// Unreadable files, unknown keys and words, values out of range; each names the file and line.
    pub fn load(name_or_path: &str) -> Result<(Self, Document)> {
        let document = catalog::open(Kind::Space, name_or_path)?;
        Ok((Self::from_document(&document)?, document))
    }

    /// Parses and validates a document.
    pub fn from_document(document: &Document) -> Result<Self> {
        let file: SpaceFile = yaml::parse(document)?;
        let k = &file.knobs;
        word(document, "nodes", &k.nodes, &["auto"])?;
        word(document, "weight_dtype", &k.weight_dtype, &["auto"])?;
        word(document, "kv_dtype", &k.kv_dtype, &["auto"])?;
        word(document, "prefill", &k.prefill, &[])?;
        word(document, "tp", &k.tp, &[])?;
        word(document, "pp", &k.pp, &[])?;
        word(document, "ep", &k.ep, &[])?;
        word(document, "attention_dp", &k.attention_dp, &[])?;
        word(document, "context_parallel", &k.context_parallel, &[])?;
        word(document, "replicas", &k.replicas, &["fill"])?;
        word(document, "draft_tokens", &k.draft_tokens, &[])?;
        word(document, "memory_fraction", &k.memory_fraction, &["auto"])?;
        word(document, "max_num_seqs", &k.max_num_seqs, &["auto"])?;
        word(document, "max_num_batched_tokens", &k.max_num_batched_tokens, &["auto"])?;
        word(document, "concurrency", &k.concurrency, &[])?;
        if k.nodes.list().is_some_and(|n| n.len() > 1) && k.replicas.list().is_some() {
            return Err(Error::input(
                yaml::place(document, "knobs.nodes"),
                "several `nodes` need `replicas: fill`, or the same points would be counted once per node",
                "List the replicas with one number of nodes, or fill",
            ));
        }
        Ok(file)
    }
}

/// A knob's word must be one it understands.
fn word<T>(document: &Document, knob: &str, values: &Values<T>, known: &[&str]) -> Result<()> {
    let Values::Word(word) = values else { return Ok(()) };
    if known.contains(&word.as_str()) {
        return Ok(());
    }
    let repair = match known {
        [] => "Give a list, `{ pow2: [1, 8] }` or `{ range: [8, 64], step: 8 }`".to_string(),
        _ => format!("Give a list or `{}`", known.join("`, `")),
    };
    Err(Error::input(
        yaml::place(document, &format!("knobs.{knob}")),
        format!("`{knob}` does not know the word `{word}`"),
        repair,
    ))
}
