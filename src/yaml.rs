//! Reads a YAML document into a struct; an error names the file, the line and the nearest known key.

use crate::catalog::{Document, nearest};
use crate::{Error, Result};
use serde::de::DeserializeOwned;

/// Parses a document. Unknown keys are errors wherever the struct denies them.
pub fn parse<T: DeserializeOwned>(document: &Document) -> Result<T> {
    serde_yaml::from_str(&document.text).map_err(|e| explain(document, &e))
}

fn explain(document: &Document, error: &serde_yaml::Error) -> Error {
    let message = error.to_string();
    let place = match error.location() {
        Some(at) => format!("{}:{}:{}", document.origin, at.line(), at.column()),
        None => document.origin.clone(),
    };
    // serde's texts end in ` at line L column C`, which `place` already says.
    let found = message.split(" at line ").next().unwrap_or(&message).to_string();
    let repair = unknown_key(&found).unwrap_or_default();
    Error::input(place, found, repair)
}

/// From serde's "unknown field `x`, expected one of `a`, `b`": the nearest of them.
fn unknown_key(message: &str) -> Option<String> {
    let (head, tail) = message.split_once(", expected")?;
    let word = head.split('`').nth(1)?;
    let known: Vec<&str> = tail.split('`').skip(1).step_by(2).collect();
    nearest(word, &known).map(|k| format!("Did you mean `{k}`?"))
}
