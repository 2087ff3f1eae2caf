//! What may a model look up between two rounds? Definitions of the tools, and their answers.

use super::history::History;
use super::prompt::line;
use super::reply::{self, listing};
use crate::space::{KNOBS, Space};
use serde_json::{Map, Value, json};

/// Most lines of one answer.
const LINES: usize = 20;

/// The tools, as chat completions describe them.
pub fn definitions(space: &Space) -> Value {
    let knobs: Map<String, Value> = KNOBS
        .into_iter()
        .enumerate()
        .filter(|(at, _)| space.values_of(*at).len() > 1)
        .map(|(_, knob)| (knob.to_string(), json!({})))
        .collect();
    let settings = json!({
        "type": "object",
        "properties": { "settings": { "type": "object", "properties": knobs } },
        "required": ["settings"],
    });
    let few = json!({ "type": "object", "properties": { "n": { "type": "integer", "minimum": 1, "maximum": LINES } } });
    let knob = json!({ "type": "object", "properties": { "knob": { "type": "string" } } });
    let tool = |name: &str, about: &str, parameters: &Value| json!({ "type": "function", "function": { "name": name, "description": about, "parameters": parameters } });
    json!([
        tool("evaluate", "Predict one point; knobs left out keep the values of the best point so far.", &settings),
        tool("explain", "Predict one point and say where its time and memory go.", &settings),
        tool("best", "The n best points so far.", &few),
        tool("history", "The n latest points, rejected ones included, with what to try next.", &few),
        tool("legal_values", "The values a knob may take; of every knob where none is named.", &knob),
    ])
}

/// What a call asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// Figures of a point, and with `true` where they come from.
    Point(u64, bool),
    /// A text that is known already.
    Told(String),
}

/// Understands a call.
pub fn understand(name: &str, arguments: &str, space: &Space, history: &History, base: u64) -> Asked {
    let parsed = super::lenient::find(arguments).into_iter().next().map_or(Value::Null, |found| found.value);
    let count = parsed.get("n").and_then(Value::as_u64).map_or(5, |n| n as usize).clamp(1, LINES);
    match name.trim() {
        "evaluate" | "explain" => match reply::candidate(&parsed, space, base) {
            Ok(candidate) => Asked::Point(candidate.index, name.trim() == "explain"),
            Err(error) => Asked::Told(format!("Not evaluated: {error}")),
        },
        "best" => Asked::Told(lines(history.ranked().into_iter().take(count).map(line), "No point is feasible yet.")),
        "history" => {
            Asked::Told(lines(history.entries().iter().rev().take(count).map(line), "No point was tried yet."))
        }
        "legal_values" => Asked::Told(legal_values(parsed.get("knob").and_then(Value::as_str), space)),
        other => {
            let known = "evaluate, explain, best, history, legal_values";
            Asked::Told(format!("There is no tool `{}`. Tools: {known}.", other.chars().take(60).collect::<String>()))
        }
    }
}

fn lines(lines: impl Iterator<Item = String>, none: &str) -> String {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { none.to_string() } else { lines.join("\n") }
}

fn legal_values(knob: Option<&str>, space: &Space) -> String {
    let told = |at: usize| format!("{}: {}", KNOBS[at], listing(&space.values_of(at)));
    match knob.filter(|k| !k.is_empty()) {
        None => (0..KNOBS.len()).map(told).collect::<Vec<_>>().join("\n"),
        Some(name) => match KNOBS.iter().position(|k| *k == name) {
            Some(at) => told(at),
            None => format!(
                "There is no knob `{}`. Knobs: {}.",
                name.chars().take(60).collect::<String>(),
                KNOBS.join(", ")
            ),
        },
    }
}
