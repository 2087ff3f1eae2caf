//! Which object of a `config.json` describes the decoder, and which family it belongs to.

use super::family::{self, Family};
use crate::{Error, Result};
use serde_json::{Map, Value};

/// Where multimodal models keep their decoder.
const INNER: &[&str] = &["text_config", "llm_config", "language_config", "thinker_config"];

/// The decoder's object with the path to it, and the family.
pub(super) struct Decoder<'a> {
    /// Path inside the file with a trailing dot; empty at the top.
    pub prefix: String,
    pub map: &'a Map<String, Value>,
    pub family: &'static Family,
    /// The architecture string as the file gives it.
    pub architecture: String,
}

/// Unwraps `text_config` and its likes, and looks the architecture up.
pub(super) fn unwrap<'a>(origin: &str, top: &'a Map<String, Value>) -> Result<Decoder<'a>> {
    let (mut map, mut prefix) = (top, String::new());
    for _ in 0..3 {
        let inner = INNER.iter().find_map(|k| Some((*k, map.get(*k)?.as_object()?)));
        let Some((key, object)) = inner else { break };
        prefix.push_str(key);
        prefix.push('.');
        map = object;
    }
    let names = names(top, map);
    let Some(first) = names.first() else {
        return Err(Error::input(
            origin,
            "neither `architectures` nor `model_type` is there",
            format!("Give the config.json of a language model. Supported: {}", family::supported()),
        ));
    };
    if let Some(head) = names.iter().find(|n| other_head(n)) {
        return Err(Error::input(
            origin,
            format!("architecture `{head}` is refused: its head scores or embeds and generates no tokens"),
            "Give the config.json of the model with a language-model head (…ForCausalLM, \
             …ForConditionalGeneration)",
        ));
    }
    let family = names.iter().find_map(|n| family::find(n)).ok_or_else(|| unknown(origin, &names))?;
    Ok(Decoder { prefix, map, family, architecture: first.clone() })
}

/// Architecture strings first, the decoder's own before the wrapper's, then model types.
///
/// A generic wrapper (LLaVA) says nothing of its decoder, so the inner names decide where both are known.
fn names(top: &Map<String, Value>, inner: &Map<String, Value>) -> Vec<String> {
    let list = |m: &Map<String, Value>| -> Vec<String> {
        let listed = m.get("architectures").and_then(Value::as_array);
        listed.into_iter().flatten().filter_map(Value::as_str).map(str::to_string).collect()
    };
    let word = |m: &Map<String, Value>| m.get("model_type").and_then(Value::as_str).map(str::to_string);
    let mut names = list(top);
    let wrapped = !std::ptr::eq(top, inner);
    if wrapped && names.iter().all(|n| generic(n)) {
        let known: Vec<_> = list(inner).into_iter().chain(word(inner)).filter(|n| family::find(n).is_some()).collect();
        names.splice(0..0, known);
    }
    names.extend(word(top));
    if wrapped {
        names.extend(list(inner));
        names.extend(word(inner));
    }
    names
}

/// An architecture string that names a task other than generating text; a `model_type` names none.
fn other_head(architecture: &str) -> bool {
    const GENERATES: &[&str] = &["CausalLM", "ConditionalGeneration"];
    match architecture.rsplit_once("For") {
        Some((stem, task)) if !stem.is_empty() && family::find(architecture).is_none() => {
            let begins = task.chars().next().is_some_and(char::is_uppercase);
            begins && !GENERATES.iter().any(|g| task.starts_with(g)) && TASKS.iter().any(|t| task.starts_with(t))
        }
        _ => false,
    }
}

/// What follows `For` in an architecture string whose model does not generate.
const TASKS: &[&str] = &[
    "SequenceClassification",
    "TokenClassification",
    "QuestionAnswering",
    "MultipleChoice",
    "MaskedLM",
    "RewardModel",
    "Reward",
    "ProcessRewardModel",
    "Embedding",
    "SequenceEmbedding",
    "ImageClassification",
    "Retrieval",
];

/// A wrapper around any decoder.
fn generic(architecture: &str) -> bool {
    ["Llava", "Mistral3", "Pixtral", "InternVL", "KimiVL", "KimiK25"].iter().any(|w| architecture.starts_with(w))
}

fn unknown(origin: &str, names: &[String]) -> Error {
    let shown = &names[0];
    match names.iter().find_map(|n| family::refusal(n)) {
        Some(why) => Error::input(origin, format!("architecture `{shown}` is refused: {why}"), ""),
        None => Error::input(
            origin,
            format!("architecture `{shown}` is not known"),
            format!("Supported: {}. A model of the same shapes can be given as a model YAML", family::supported()),
        ),
    }
}
