//! Configurations inside a recipe, and the recipe or configuration file that a single run names.

use super::recipe::Recipe;
use crate::catalog::Document;
use crate::inference::Config;
use crate::{Error, Result};
use serde_yaml::{Mapping, Value};

/// Where in a recipe something stands.
pub(super) struct Place<'a> {
    /// The file.
    pub origin: &'a str,
}

impl Place<'_> {
    /// `recipe.yaml: cells[2].mitigations: found. repair`.
    pub fn error(&self, path: &str, found: &str, repair: &str) -> Error {
        Error::input(format!("{}: {path}", self.origin), found, repair)
    }

    /// A map of configuration keys, without those the recipe sets itself.
    pub fn config(&self, map: &Mapping, path: &str) -> Result<Mapping> {
        if map.contains_key("steps") {
            return Err(self.error(path, "holds `steps`", "Set the recipe's or the cell's own `steps`"));
        }
        Ok(map.clone())
    }

    /// The configuration that a map spells, with its steps.
    pub fn checked(&self, mut map: Mapping, steps: usize, path: &str) -> Result<Config> {
        map.insert("steps".into(), (steps as u64).into());
        let text = serde_yaml::to_string(&map).map_err(|e| self.error(path, &e.to_string(), ""))?;
        let document = Document { origin: format!("{}: {path}", self.origin), text };
        Config::from_document(&document).map_err(|e| {
            // Lines are those of the merged map, which no file holds.
            Error { tried: document.origin.clone(), ..e }
        })
    }
}

/// `own` over `shared`: maps are joined key by key, everything else is replaced.
pub fn merged(shared: &Mapping, own: &Mapping) -> Mapping {
    let mut out = shared.clone();
    for (key, value) in own {
        let joined = match (out.get(key), value) {
            (Some(Value::Mapping(shared)), Value::Mapping(own)) => Value::Mapping(merged(shared, own)),
            _ => value.clone(),
        };
        out.insert(key.clone(), joined);
    }
    out
}

/// The configuration of a single run: of a file with the configuration's own keys, or of a recipe with one cell's worth
/// of them (its `workload_config` and `steps`).
///
/// # Errors
/// See [`Config::from_document`] and [`Recipe::from_document`].
pub fn config_of(document: &Document) -> Result<Config> {
    let is_recipe = matches!(
        serde_yaml::from_str::<Value>(&document.text),
        Ok(Value::Mapping(map)) if ["cells", "workload_config", "schema_version"].iter().any(|k| map.contains_key(*k))
    );
    if !is_recipe {
        return Config::from_document(document);
    }
    let recipe = Recipe::from_document(document)?.document;
    let place = Place { origin: &document.origin };
    place.checked(recipe.workload_config, recipe.steps, "workload_config")
}

/// A configuration as the text of a file that reads back as it.
///
/// # Errors
/// It cannot be written (a defect).
pub fn text_of(config: &Config) -> Result<String> {
    serde_yaml::to_string(config).map_err(|e| Error::input("configuration", e.to_string(), ""))
}

/// Reads a file.
///
/// # Errors
/// It cannot be read, or is not UTF-8.
pub fn open(path: &str) -> Result<Document> {
    let text = if path == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(path) };
    let text = text.map_err(|e| Error::input(path, format!("cannot be read: {e}"), "Give a YAML file"))?;
    let origin = if path == "-" { "standard input" } else { path };
    Ok(Document { origin: origin.to_string(), text })
}
