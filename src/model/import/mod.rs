//! Reads a Hugging Face `config.json` (and `hf_quant_config.json` beside it) into a [`Model`].
//!
//! One question per file: which object is the decoder (`wrapper`), what its family implies (`family`), how a layer
//! mixes tokens (`attention`, `hybrid`), what follows (`ffn`), how weights are stored (`quantisation`), how large
//! the encoder is (`vision`). Nothing here panics: every figure passes `fields`, which checks it.

mod attention;
mod family;
mod ffn;
mod fields;
mod hybrid;
mod keys;
mod modules;
mod quantisation;
mod text;
mod vision;
mod wrapper;

use super::{Architecture, Checkpoint, Ffn, LayerGroup, Mixer, Model};
use crate::{Error, Result};
use family::{Family, Kind};
use fields::Fields;
use quantisation::Stack;
use serde_json::{Map, Value};

/// Most layers a stack may have; the deepest published models have under 200.
const MOST_LAYERS: u32 = 4096;

/// Builds a model from the text of a `config.json`.
///
/// `origin` names the file in messages, `id` is how users know the model (`openai/gpt-oss-120b`), `quantisation` the text
/// of an `hf_quant_config.json` beside it with its name.
pub fn config_json(origin: &str, id: &str, config: &str, quantisation: Option<(&str, &str)>) -> Result<Model> {
    let top = text::object(origin, config)?;
    let decoder = wrapper::unwrap(origin, &top)?;
    let outer = Fields::new(origin, "", &top);
    let inner = Fields::new(origin, &decoder.prefix, decoder.map);
    let family = decoder.family;

    let hidden = inner.need(&["hidden_size"])?;
    let layers = layers(&inner, family)?;
    let mut model = Model {
        architecture: Architecture {
            name: short_name(id),
            family: decoder.architecture.clone(),
            hidden,
            vocab: vocabulary(&inner, &outer, family)?,
            tied_embeddings: tied(&inner, &outer, family)?,
            max_context: inner.need(&[
                "max_position_embeddings",
                "max_sequence_length",
                "seq_length",
                "model_max_length",
            ])?,
            layers: group(&layers),
            mtp_layers: mtp_layers(&inner, family)?,
            encoder_parameters: vision::parameters(&outer, hidden)?,
        },
        checkpoints: Vec::new(),
        published: None,
        aliases: Vec::new(),
        source: format!("{origin} (Hugging Face config.json)"),
        notes: Vec::new(),
    };
    let beside = match quantisation {
        Some((name, text)) => Some((name, text::object(name, text)?)),
        None => None,
    };
    let entries_per_layer = match family.kind {
        Kind::MambaAndAttention => 2,
        Kind::LongCat => 3,
        _ => 1,
    };
    model.check_shapes(origin)?;
    let stack = Stack { hidden, layers: &layers, entries_per_layer };
    let stored = quantisation::read(origin, &top, decoder.map, beside.as_ref(), &stack)?;
    model.notes.extend(stored.notes);
    model.checkpoints.push(Checkpoint { dtype: stored.dtype, id: id.to_string(), formats: stored.formats });
    model.notes.extend(keys::notes(&inner)?);
    Ok(model)
}

/// Every layer in order, each with a count of 1.
fn layers(f: &Fields, family: &Family) -> Result<Vec<LayerGroup>> {
    let parts = parts(f, family)?;
    Ok(parts.into_iter().map(|(mixer, ffn)| LayerGroup { count: 1, mixer, ffn }).collect())
}

/// Mixer and feed-forward part of every layer.
fn parts(f: &Fields, family: &Family) -> Result<Vec<(Mixer, Ffn)>> {
    if family.kind == Kind::Blocks {
        let blocks = hybrid::blocks(f, family)?;
        return if blocks.len() as u64 > u64::from(MOST_LAYERS) { Err(too_deep(f, blocks.len())) } else { Ok(blocks) };
    }
    let stated = f.need(&["num_hidden_layers", "num_layers", "n_layers"])?;
    if stated > MOST_LAYERS {
        return Err(too_deep(f, stated as usize));
    }
    let layers = stated as usize;
    match family.kind {
        Kind::MambaAndAttention => hybrid::falcon_h1(f, family, layers),
        Kind::LongCat => {
            let (dense, sparse) = ffn::longcat(f, family)?;
            let mixers = attention::mixers(f, family, layers)?;
            let layer = |m: Mixer| [(m.clone(), dense.clone()), (m, dense.clone()), (Mixer::None, sparse.clone())];
            Ok(mixers.into_iter().flat_map(layer).collect())
        }
        _ => {
            let mixers = attention::mixers(f, family, layers)?;
            Ok(mixers.into_iter().zip(ffn::ffns(f, family, layers)?).collect())
        }
    }
}

fn too_deep(f: &Fields, layers: usize) -> Error {
    f.bad("num_hidden_layers", &format!("is {layers}; no model has more than {MOST_LAYERS}"))
}

/// Merges equal layers, in order of first appearance.
fn group(layers: &[LayerGroup]) -> Vec<LayerGroup> {
    let mut groups: Vec<LayerGroup> = Vec::new();
    for layer in layers {
        match groups.iter_mut().find(|g| g.mixer == layer.mixer && g.ffn == layer.ffn) {
            Some(group) => group.count += 1,
            None => groups.push(layer.clone()),
        }
    }
    groups
}

/// Gemma 3 files of early date leave the vocabulary to the library's default.
fn vocabulary(inner: &Fields, outer: &Fields, family: &Family) -> Result<u32> {
    if let Some(n) = inner.above_zero(&["vocab_size"])? {
        return Ok(n);
    }
    if let Some(n) = outer.above_zero(&["vocab_size"])? {
        return Ok(n);
    }
    if family.label == "Gemma 3" { Ok(262_208) } else { inner.need(&["vocab_size"]) }
}

fn tied(inner: &Fields, outer: &Fields, family: &Family) -> Result<bool> {
    let default = outer.flag("tie_word_embeddings", family.tied)?;
    inner.flag("tie_word_embeddings", default)
}

/// MiniMax-M2 states prediction modules that its published weights do not carry.
fn mtp_layers(f: &Fields, family: &Family) -> Result<u32> {
    let stated =
        f.first(&["num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_mtp_layers"])?;
    Ok(if family.label == "MiniMax-M2" { 0 } else { stated.unwrap_or(0).min(64) })
}

/// `org/Name` without the organisation, in lower case.
fn short_name(id: &str) -> String {
    id.rsplit('/').next().unwrap_or(id).to_lowercase()
}

/// An object's value, for the two readers of quantisation.
fn object<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    map.get(key)?.as_object()
}
