//! What did the model propose? From the text of a reply to checked candidates, with what is wrong said to the model.

use super::lenient;
use crate::catalog::nearest;
use crate::space::{KNOBS, NoSuch, Space};
use serde_json::{Map, Value, json};

/// Most candidates taken from one reply.
pub const MOST: usize = 16;

/// A point a model wants evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Its number in the space.
    pub index: u64,
    /// Why, in the model's words.
    pub why: String,
    /// The value of the objective's figure that the model expects.
    pub expects: Option<f64>,
}

/// A reply as it was understood.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    /// The model's reasoning over all candidates.
    pub rationale: String,
    /// Candidates that name a point of the space, in order, each once.
    pub candidates: Vec<Candidate>,
    /// What was wrong, a sentence each, to be told to the model.
    pub errors: Vec<String>,
    /// The model wants no further round.
    pub done: bool,
}

/// The schema of a reply, for servers that hold a model to one.
pub fn schema(space: &Space) -> Value {
    let mut properties = Map::new();
    for (at, knob) in KNOBS.into_iter().enumerate() {
        let values = space.values_of(at);
        if values.len() > 1 {
            let values: Vec<Value> = values.iter().map(|v| spelt(v)).collect();
            properties.insert(knob.to_string(), json!({ "enum": values }));
        }
    }
    json!({
        "type": "object",
        "properties": {
            "rationale": { "type": "string" },
            "candidates": {
                "type": "array",
                "maxItems": MOST,
                "items": {
                    "type": "object",
                    "properties": {
                        "settings": { "type": "object", "properties": properties, "additionalProperties": false },
                        "why": { "type": "string" },
                        "expects": { "type": "number" },
                    },
                    "required": ["settings", "why", "expects"],
                    "additionalProperties": false,
                },
            },
            "done": { "type": "boolean" },
        },
        "required": ["rationale", "candidates", "done"],
        "additionalProperties": false,
    })
}

/// A value as JSON spells it.
pub fn spelt(value: &str) -> Value {
    match value.parse::<f64>() {
        Ok(_) => serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_string())),
        Err(_) => Value::String(value.to_string()),
    }
}

/// Reads a reply. Knobs that a candidate leaves out keep the value of `base`.
pub fn read(text: &str, space: &Space, base: u64) -> Reply {
    let found = lenient::find(text);
    let best = found.iter().max_by_key(|f| listed(&f.value).len());
    let mut reply = Reply::default();
    let Some(best) = best else {
        reply.errors.push("The reply holds no JSON object. Answer with one JSON object as described.".to_string());
        return reply;
    };
    reply.rationale = text_at(&best.value, &["rationale", "reasoning", "thoughts"]);
    reply.done = best.value.get("done").and_then(Value::as_bool).unwrap_or(false);
    let listed = listed(&best.value);
    if listed.is_empty() && !reply.done {
        reply
            .errors
            .push("The reply lists no candidates. Give `candidates`, a list of objects with `settings`.".to_string());
    }
    if listed.len() > MOST {
        reply.errors.push(format!("{} candidates, of which the first {MOST} are taken.", listed.len()));
    }
    for (at, value) in listed.into_iter().take(MOST).enumerate() {
        match candidate(value, space, base) {
            Ok(candidate) if reply.candidates.iter().any(|c| c.index == candidate.index) => {
                reply.errors.push(format!("Candidate {} is the same as one before it.", at + 1));
            }
            Ok(candidate) => reply.candidates.push(candidate),
            Err(error) => reply.errors.push(format!("Candidate {}: {error}", at + 1)),
        }
    }
    if best.cut_off {
        reply.errors.push("The reply was cut off; what could be read of it was taken. Be brief.".to_string());
    }
    reply
}

/// The candidates of a value, whatever their list is called.
fn listed(value: &Value) -> Vec<&Value> {
    const LISTS: [&str; 6] = ["candidates", "candidate", "configs", "configurations", "proposals", "points"];
    match value {
        Value::Array(items) => items.iter().filter(|item| item.is_object()).collect(),
        Value::Object(map) => {
            if let Some(list) = LISTS.iter().find_map(|name| map.get(*name)) {
                return match list {
                    Value::Array(items) => items.iter().collect(),
                    one => vec![one],
                };
            }
            let alone = map.keys().any(|key| KNOBS.contains(&key.as_str()) || SETTINGS.contains(&key.as_str()));
            if alone { vec![value] } else { Vec::new() }
        }
        _ => Vec::new(),
    }
}

const SETTINGS: [&str; 5] = ["settings", "deployment", "config", "knobs", "parameters"];
const REMARKS: [&str; 13] = [
    "why",
    "rationale",
    "reason",
    "expects",
    "expected",
    "expectation",
    "name",
    "id",
    "rank",
    "hypothesis",
    "notes",
    "note",
    "done",
];

/// One candidate.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn candidate(value: &Value, space: &Space, base: u64) -> Result<Candidate, String> {
    let Value::Object(map) = value else {
        return Err(format!("{} is no object. Give `settings`, an object of knobs.", short(value)));
    };
    let inner = SETTINGS.iter().find_map(|name| map.get(*name));
    let settings = match inner {
        Some(Value::Object(settings)) => settings,
        Some(other) => return Err(format!("`settings` is {}, not an object of knobs.", short(other))),
        None => map,
    };
    let mut turned: Vec<(String, String)> = Vec::new();
    for (name, value) in settings {
        let name = name.trim().to_ascii_lowercase().replace('-', "_");
        if REMARKS.contains(&name.as_str()) {
            continue;
        }
        match value {
            Value::Null => {}
            Value::String(text) => turned.push((name, text.trim().to_string())),
            Value::Number(number) => turned.push((name, number.to_string())),
            other => return Err(format!("`{name}` is {}; give one value.", short(other))),
        }
    }
    let pairs: Vec<(&str, &str)> = turned.iter().map(|(knob, value)| (knob.as_str(), value.as_str())).collect();
    let index = space.turned(base, &pairs).map_err(|(at, why)| {
        let (knob, value) = pairs[at];
        match why {
            NoSuch::Knob => unknown_knob(knob),
            NoSuch::Value => unknown_value(space, knob, value),
        }
    })?;
    Ok(Candidate {
        index,
        why: text_at(value, &["why", "rationale", "reason", "hypothesis"]),
        expects: ["expects", "expected", "expectation"].iter().find_map(|key| first_number(map.get(*key)?)),
    })
}

fn unknown_knob(knob: &str) -> String {
    match nearest(knob, &KNOBS) {
        Some(near) => format!("there is no knob `{}`. Did you mean `{near}`?", clip(knob)),
        None => format!("there is no knob `{}`. Knobs: {}.", clip(knob), KNOBS.join(", ")),
    }
}

fn unknown_value(space: &Space, knob: &str, value: &str) -> String {
    let at = KNOBS.iter().position(|k| *k == knob).unwrap_or(0);
    let values = space.values_of(at);
    let value = clip(value);
    match values.as_slice() {
        [only] => format!("`{knob}` is fixed at {only} in this space, not {value}. Leave it out."),
        _ => format!("`{knob}` cannot be {value}. Use {}.", listing(&values)),
    }
}

/// The values of a knob for a reader: all of them, or the ends of a long list.
pub fn listing(values: &[String]) -> String {
    match values {
        [head @ .., last] if values.len() <= 40 && !head.is_empty() => format!("{} or {last}", head.join(", ")),
        [first, second, .., last] => format!("one of the {} values {first}, {second} … {last}", values.len()),
        _ => values.join(", "),
    }
}

fn first_number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => {
            let digits = |c: char| !(c.is_ascii_digit() || c == '.');
            text.split(digits).find_map(|part| part.parse::<f64>().ok())
        }
        Value::Object(map) => map.values().find_map(first_number),
        _ => None,
    };
    number.filter(|n| n.is_finite())
}

fn text_at(value: &Value, keys: &[&str]) -> String {
    let text = keys.iter().find_map(|key| value.get(*key)?.as_str()).unwrap_or("");
    text.chars().take(2000).collect()
}

fn short(value: &Value) -> String {
    clip(&value.to_string())
}

/// No reply makes a message longer than a line or two.
fn clip(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}
