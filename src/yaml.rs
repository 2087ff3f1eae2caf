//! Reads a YAML document into a struct; an error names the file, the line and the nearest known key.

use crate::catalog::{Document, nearest};
use crate::{Error, Result};
use serde::de::DeserializeOwned;

/// Parses a document. Unknown keys are errors wherever the struct denies them.
pub fn parse<T: DeserializeOwned>(document: &Document) -> Result<T> {
    if document.text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Err(Error::input(&document.origin, "is empty", "Write at least its required keys"));
    }
    serde_yaml::from_str(&document.text).map_err(|e| explain(document, &e))
}

/// Checks a number of a document against the range that makes sense for it.
///
/// `key` is the dotted path, `meaning` says the unit. NaN and infinities lie outside every range.
pub fn in_range(document: &Document, key: &str, value: f64, range: (f64, f64), meaning: &str) -> Result<()> {
    let (low, high) = range;
    if value >= low && value <= high {
        return Ok(());
    }
    Err(Error::input(
        place(document, key),
        format!("`{key}` is {}", number(value)),
        format!("Give {meaning} between {} and {}", number(low), number(high)),
    ))
}

/// `file:line` of a dotted key, or the file alone where the key is not on a line of its own.
pub fn place(document: &Document, key: &str) -> String {
    let mut lines = document.text.lines().enumerate();
    let mut found = None;
    for segment in key.split('.') {
        let hit = lines.find(|(_, line)| {
            let line = line.trim_start().trim_start_matches("- ");
            line.strip_prefix(segment).is_some_and(|rest| rest.trim_start().starts_with(':'))
        });
        match hit {
            Some((at, _)) => found = Some(at + 1),
            None => break,
        }
    }
    match found {
        Some(line) => format!("{}:{line}", document.origin),
        None => document.origin.clone(),
    }
}

/// A number as a person writes it: no digits after the point where there are none, powers for the absurd.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && size.is_finite() && !(1e-4..1e12).contains(&size) {
        format!("{value:e}")
    } else {
        format!("{value}")
    }
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
    let (_, head) = head.rsplit_once("unknown ")?;
    let word = head.split('`').nth(1)?;
    let known: Vec<&str> = tail.split('`').skip(1).step_by(2).collect();
    nearest(word, &known).map(|k| format!("Did you mean `{k}`?"))
}
