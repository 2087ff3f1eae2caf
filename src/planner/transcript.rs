//! What was asked and answered, one JSON object a line; and a run that answers from such a file without a network.
//!
//! Lines: `start` (model, limits), `request` (its number and body), `reply` or `fault` (the number it answers), `round`
//! (what was proposed and what came of it), `end` (why, and what was spent). No line holds a key or a header.

use super::channel::{Channel, Completion, Fault, FaultKind};
use crate::{Error, Result};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Layout version of the file.
pub const SCHEMA: u32 = 1;

/// Writes a transcript, each line at once.
#[derive(Debug)]
pub struct Transcript {
    out: Option<(PathBuf, BufWriter<File>)>,
    secret: Option<String>,
    failed: Option<String>,
}

impl Transcript {
    /// A transcript that is kept nowhere.
    pub fn none() -> Self {
        Self { out: None, secret: None, failed: None }
    }

    /// Starts a file, or goes on with that of an interrupted run. Every occurrence of `secret` is blotted out, wherever it turns up: a server may echo it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path, secret: Option<String>) -> Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(|e| {
            Error::input(
                format!("planner transcript {}", path.display()),
                e.to_string(),
                "Choose another report folder",
            )
        })?;
        Ok(Self { out: Some((path.to_path_buf(), BufWriter::new(file))), secret, failed: None })
    }

    /// Writes one line of a kind.
    pub fn write(&mut self, kind: &str, body: impl Serialize) {
        let Some((path, out)) = &mut self.out else { return };
        let mut line = json!({ "kind": kind });
        match serde_json::to_value(body) {
            Ok(Value::Object(fields)) => line.as_object_mut().into_iter().for_each(|l| l.extend(fields.clone())),
            Ok(other) => line["value"] = other,
            Err(error) => line["error"] = json!(error.to_string()),
        }
        let mut text = line.to_string();
        if let Some(secret) = self.secret.as_deref().filter(|s| !s.is_empty()) {
            // As it is, and as JSON escapes it.
            text = text.replace(secret, "[key]");
            let escaped = json!(secret).to_string();
            text = text.replace(&escaped[1..escaped.len() - 1], "[key]");
        }
        if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
            self.failed = Some(format!("planner transcript {}: {error}", path.display()));
            self.out = None;
        }
    }

    /// What kept it from being written, if anything did.
    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }
}

/// Answers from a transcript, in its order.
#[derive(Debug)]
pub struct Replay {
    origin: String,
    answers: VecDeque<(Option<Value>, std::result::Result<Completion, Fault>)>,
    asked: usize,
    apart: Option<usize>,
    model: Option<String>,
}

impl Replay {
    /// Reads a transcript; a last line torn by a crash is left out.
    ///
    /// # Errors
    /// An unreadable file, a line that is no transcript's, a file without a single answer.
    pub fn open(path: &Path) -> Result<Self> {
        let origin = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| {
            Error::input(
                format!("--planner-replay {origin}"),
                e.to_string(),
                "Give the planner.jsonl of an earlier run",
            )
        })?;
        let mut answers = VecDeque::new();
        let mut request = None;
        let mut model = None;
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let parsed: std::result::Result<Value, _> = serde_json::from_str(line);
            let parsed = match parsed {
                Ok(parsed) => parsed,
                Err(_) if at + 1 == lines.len() => break,
                Err(error) => return Err(bad(&origin, at, &error.to_string())),
            };
            let answer = |field: &str| parsed.get(field).cloned().unwrap_or(Value::Null);
            match parsed.get("kind").and_then(Value::as_str) {
                Some("start") => model = answer("model").as_str().map(str::to_string),
                Some("request") => request = Some(answer("body")),
                Some("reply") => {
                    let reply =
                        serde_json::from_value(answer("reply")).map_err(|e| bad(&origin, at, &e.to_string()))?;
                    answers.push_back((request.take(), Ok(reply)));
                }
                Some("fault") => {
                    let fault =
                        serde_json::from_value(answer("fault")).map_err(|e| bad(&origin, at, &e.to_string()))?;
                    answers.push_back((request.take(), Err(fault)));
                }
                Some(_) => {}
                None => return Err(bad(&origin, at, "no `kind`")),
            }
        }
        if answers.is_empty() {
            let repair = "Give the planner.jsonl of a run in which the model answered";
            return Err(Error::input(format!("--planner-replay {origin}"), "holds no answer", repair));
        }
        Ok(Self { origin, answers, asked: 0, apart: None, model })
    }

    /// The model that answered.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The first request that differs from the recorded one, counted from 1.
    pub fn apart(&self) -> Option<usize> {
        self.apart
    }
}

fn bad(origin: &str, at: usize, found: &str) -> Error {
    Error::input(format!("{origin}:{}", at + 1), found, "Give the planner.jsonl of an earlier run")
}

impl Channel for Replay {
    fn complete(&mut self, request: &Value) -> std::result::Result<Completion, Fault> {
        self.asked += 1;
        let Some((recorded, answer)) = self.answers.pop_front() else {
            let message = format!("{} holds no answer to request {}", self.origin, self.asked);
            return Err(Fault::lasting(FaultKind::Exhausted, message));
        };
        if self.apart.is_none() && recorded.is_some_and(|recorded| recorded != *request) {
            self.apart = Some(self.asked);
        }
        answer
    }

    fn waits(&self) -> bool {
        false
    }

    fn remark(&self) -> Option<String> {
        self.apart.map(|at| {
            format!(
                "Replayed from {}, but request {at} differs from the recorded one: another model, space or version.",
                self.origin
            )
        })
    }
}
