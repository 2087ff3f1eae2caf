//! Text of a JSON file to an object; Python's `Infinity` and `NaN`, which some published files hold, count as absent.

use crate::{Error, Result};
use serde_json::{Map, Value};

/// Largest file read: published files are under 2 MB.
pub(super) const LARGEST_FILE: usize = 64 << 20;

pub(super) fn object(origin: &str, text: &str) -> Result<Map<String, Value>> {
    if text.len() > LARGEST_FILE {
        return Err(Error::input(origin, format!("is {} MB, no config.json", text.len() >> 20), ""));
    }
    let text = text.trim_start_matches('\u{feff}');
    let parsed = serde_json::from_str(text).or_else(|e| serde_json::from_str(&without_infinities(text)).map_err(|_| e));
    match parsed {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(Error::input(origin, "is JSON but not an object", "Give a config.json")),
        Err(e) => {
            let place = format!("{origin}:{}:{}", e.line(), e.column());
            let message = e.to_string();
            let found = message.split(" at line ").next().unwrap_or(&message);
            let repair = if e.is_eof() { "The file is cut off" } else { "" };
            Err(Error::input(place, format!("is not valid JSON: {found}"), repair))
        }
    }
}

/// Replaces bare `Infinity`, `-Infinity` and `NaN` by `null`.
fn without_infinities(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if !quoted && let Some(word) = ["-Infinity", "Infinity", "NaN"].iter().find(|w| rest.starts_with(**w)) {
            out.push_str("null");
            rest = &rest[word.len()..];
            continue;
        }
        if quoted && !escaped && c == '\\' {
            escaped = true;
        } else {
            quoted ^= c == '"' && !escaped;
            escaped = false;
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}
