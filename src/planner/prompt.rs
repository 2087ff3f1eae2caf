//! What is a model told? The task and the space once, then in every round what was tried, what came of it and why.

use super::history::{Entry, History};
use super::reply::{self, MOST, listing};
use super::tools;
use crate::objective::Objective;
use crate::space::{KNOBS, Space};
use serde_json::{Value, json};

/// What a run is about, in words of the caller; no figure of it is computed here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Briefing {
    /// The model: attention, layers, experts, parameters.
    pub model: String,
    /// The machine: GPUs, memory, bandwidths.
    pub node: String,
    /// The engine and its version.
    pub engine: String,
    /// The load: lengths, prefix hits.
    pub workload: String,
}

/// How a request is put.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Manner {
    /// Lines of history.
    pub lines: usize,
    /// Sampling temperature.
    pub temperature: f64,
    /// Seed of the sampling.
    pub seed: u64,
    /// Most tokens of an answer.
    pub most_written: u64,
}

/// Knobs in a sentence each, in the order of [`KNOBS`].
const MEANINGS: [&str; KNOBS.len()] = [
    "GPUs of the whole deployment",
    "precision of the checkpoint; narrower weights are read faster and leave room for KV",
    "format of the KV cache; fp8 holds twice the tokens and halves the reads of attention",
    "prompts prefilled together with decode, or on instances of their own (instances x ranks)",
    "tensor-parallel ranks of one instance; more shorten a step and cost collectives",
    "pipeline stages of one instance",
    "expert-parallel groups inside tp (it divides tp); for models with experts",
    "attention-data-parallel groups inside tp (it divides tp); each holds its own KV",
    "ranks that each hold a part of a sequence's KV instead of a copy; holds more tokens, costs an exchange per layer",
    "independent instances behind a router",
    "tokens drafted in a step by the model's own layers, or none; drafts pay while a step is bound by weight reads",
    "share of GPU memory the engine takes",
    "most sequences an engine runs at once",
    "token budget of one engine step; more speeds prefill, less keeps decode steady",
    "requests in flight over all instances; more raise throughput and latency",
];

/// The task, the space and the form of an answer.
pub fn system(briefing: &Briefing, space: &Space, objective: &Objective) -> String {
    let mut text = format!(
        "You tune an LLM serving deployment. A projector predicts every deployment you propose; nothing runs on a GPU. \
         Goal: {}. {}: {}.\n\nModel: {}\nMachine: {}\nEngine: {}\nLoad: {}\n\nKnobs of the space and their legal values:\n",
        objective.sentence(),
        objective.metric,
        objective.metric.meaning(),
        briefing.model,
        briefing.node,
        briefing.engine,
        briefing.workload,
    );
    let mut fixed = Vec::new();
    for (at, knob) in KNOBS.into_iter().enumerate() {
        let values = space.values_of(at);
        match values.as_slice() {
            [only] => fixed.push(format!("{knob} {only}")),
            _ => text.push_str(&format!("- {knob}: {} ({})\n", listing(&values), MEANINGS[at])),
        }
    }
    text.push_str(&format!("Fixed: {}.\n\n", fixed.join(", ")));
    text.push_str(&format!(
        "Answer with one JSON object and nothing else:\n\
         {{\"rationale\": \"one or two sentences\", \"candidates\": [{{\"settings\": {{{}}}, \"why\": \"a few words\", \
         \"expects\": NUMBER}}], \"done\": false}}\n\
         `settings` names the knobs that differ from the best point so far; the others keep its values. `expects` is the \
         {} you expect. At most {MOST} candidates, none tried before. Set `done` to true when nothing is left to try.\n\
         Results say which limit is broken and by how much, what binds, and often which setting to try: follow them.",
        example(space),
        objective.metric,
    ));
    text
}

/// Two settings of the space, as JSON.
fn example(space: &Space) -> String {
    let mut settings = Vec::new();
    for (at, knob) in KNOBS.into_iter().enumerate().rev() {
        let values = space.values_of(at);
        if values.len() > 1 && settings.len() < 2 {
            settings.push(format!("\"{knob}\": {}", reply::spelt(&values[values.len() / 2])));
        }
    }
    settings.join(", ")
}

/// What was tried and what came of it.
pub fn round(history: &History, errors: &[String], number: usize, lines: usize) -> String {
    let mut text = format!("Round {number}. {} points tried.\n", history.entries().len());
    match history.best() {
        Some(best) => text.push_str(&format!("Best so far: {}\n", line(best))),
        None => text.push_str("No point keeps every limit so far.\n"),
    }
    let latest: Vec<&Entry> = history.entries().iter().rev().take(lines).collect();
    if !latest.is_empty() {
        text.push_str("\nLatest results:\n");
        for entry in latest.into_iter().rev() {
            text.push_str(&format!("- {}\n", line(entry)));
        }
    }
    let good: Vec<&Entry> = history.ranked().into_iter().take(lines / 2).skip(1).collect();
    if !good.is_empty() {
        text.push_str("\nNext best:\n");
        for entry in good {
            text.push_str(&format!("- {}\n", entry.settings));
        }
    }
    if !errors.is_empty() {
        text.push_str("\nWrong with your last answer:\n");
        errors.iter().take(8).for_each(|error| text.push_str(&format!("- {error}\n")));
    }
    text.push_str("\nGive the next candidates.");
    text
}

/// One point in a line: settings, what was expected, what came.
pub fn line(entry: &Entry) -> String {
    let expected = match entry.expects {
        Some(value) => format!(" (expected {value})"),
        None => String::new(),
    };
    format!("{}{expected}: {}", entry.settings, entry.text)
}

/// The body of a chat-completions request.
pub fn request(model: &str, messages: &[Value], space: &Space, manner: Manner) -> Value {
    json!({
        "model": model,
        "messages": messages,
        "temperature": manner.temperature,
        "seed": manner.seed,
        "max_tokens": manner.most_written,
        "stream": true,
        "stream_options": { "include_usage": true },
        "tools": tools::definitions(space),
        "response_format": { "type": "json_schema", "json_schema": { "name": "plan", "schema": reply::schema(space) } },
    })
}
