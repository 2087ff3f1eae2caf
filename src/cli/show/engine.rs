//! `inferasim show engine`: every figure of an engine with its origin and source, and what changed at which version.

use crate::catalog::{self, Kind};
use crate::error::exit;
use crate::report::terminal::table::{Table, WIDTH, wrap};
use crate::target::{EngineProfile, engine::SettingsDoc};
use crate::{Error, Result};
use clap::Args;
use serde_json::{Map, Value};

/// Arguments of `inferasim show engine`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A built-in engine or a YAML file
    #[arg(value_name = "NAME_OR_FILE")]
    engine: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Loads and prints the engine.
pub fn run(arguments: Arguments) -> Result<u8> {
    let profile = EngineProfile::load(&arguments.engine)?;
    let failed = |e: serde_json::Error| Error::input(&arguments.engine, format!("cannot be written as JSON: {e}"), "");
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&profile).map_err(failed)?);
        return Ok(exit::ANSWER);
    }
    let origin = catalog::open(Kind::Engine, &arguments.engine).map_or(String::new(), |d| format!(" ({})", d.origin));
    let mut lines = vec![format!("{}: {}{origin}", profile.name, profile.title)];
    if !profile.note.is_empty() {
        lines.extend(wrap(&format!("note: {}", profile.note), WIDTH));
    }
    let oldest = profile.versions.first().map_or(String::new(), |v| format!(", before {}", v.since));
    lines.push(String::new());
    lines.push(format!("Settings{oldest}; sizes in GiB"));
    lines.extend(figures(&profile.settings).map_err(failed)?);
    for version in &profile.versions {
        lines.push(String::new());
        lines.extend(wrap(&format!("From {} ({}): {}", version.since, version.released, version.change), WIDTH));
        lines.extend(figures(&version.settings).map_err(failed)?);
    }
    lines.iter().for_each(|line| println!("{}", line.trim_end()));
    Ok(exit::ANSWER)
}

/// The settings stated: value, origin and source; a value with parts takes a line of the last column for them.
fn figures(settings: &SettingsDoc) -> serde_json::Result<Vec<String>> {
    let mut table = Table::new(&[("setting", false), ("value", true), ("origin", false), ("source", false)]);
    let Value::Object(all) = serde_json::to_value(settings)? else { return Ok(Vec::new()) };
    let mut any = false;
    for (name, sourced) in all.into_iter().filter(|(_, v)| !v.is_null()) {
        let part = |key: &str| sourced.get(key).cloned().unwrap_or_default();
        let (value, origin, source) = (part("value"), spelt(&part("origin")), spelt(&part("source")));
        let (value, source) = match &value {
            Value::Object(_) | Value::Array(_) => (String::new(), format!("{}: {source}", spelt(&value))),
            plain => (spelt(plain), source),
        };
        table.row(vec![name, value, origin, source]);
        any = true;
    }
    Ok(if any { table.lines() } else { Vec::new() })
}

/// A value as a person writes it.
fn spelt(value: &Value) -> String {
    let parts = |map: &Map<String, Value>| -> Vec<String> {
        map.iter()
            .map(|(key, v)| if v.is_object() { format!("{key} ({})", spelt(v)) } else { format!("{key} {}", spelt(v)) })
            .collect()
    };
    match value {
        Value::String(text) => text.clone(),
        Value::Object(map) => parts(map).join(", "),
        Value::Array(list) => list.iter().map(spelt).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}
