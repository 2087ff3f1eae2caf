//! Which cells are tried, how often, against which baseline? A recipe, strictly read.

use super::document::{Place, merged};
use super::environment::{Container, Environment, MITIGATIONS, Resolved, Variables, variables};
use crate::catalog::Document;
use crate::inference::Config;
use crate::{Result, yaml};
use serde::{Deserialize, Serialize};
use serde_yaml::Mapping;
use std::collections::{BTreeMap, BTreeSet};

/// When a cell's step time counts as different.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Confound {
    /// Mean step time over the baseline's above which a cell is tagged as slower.
    pub threshold: f64,
    /// The cell that the others are compared with.
    pub baseline_cell: Option<String>,
}

impl Default for Confound {
    fn default() -> Self {
        Self { threshold: 1.15, baseline_cell: None }
    }
}

/// A cell as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellDocument {
    /// Name, unique.
    pub name: String,
    /// Mitigations applied together.
    pub mitigations: Vec<String>,
    /// Where it runs.
    pub environment: Environment,
    /// Further variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_env: Variables,
    /// Trials; the recipe's where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<usize>,
    /// Steps; the recipe's where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// Keys that replace those of the recipe's configuration.
    #[serde(default, skip_serializing_if = "Mapping::is_empty")]
    pub workload_config: Mapping,
}

/// A recipe as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecipeDocument {
    /// 1.
    pub schema_version: u32,
    /// What it is about; names the output folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
    /// `inference`.
    pub workload: String,
    /// Trials of each cell.
    pub trials: usize,
    /// Measured steps of each trial.
    pub steps: usize,
    /// Configuration of every cell, without `steps`.
    #[serde(default)]
    pub workload_config: Mapping,
    /// Comparison with the baseline.
    #[serde(default)]
    pub confound: Confound,
    /// Mitigations of this recipe's own: name to variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mitigations: BTreeMap<String, Variables>,
    /// Environments of this recipe's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environments: BTreeMap<String, Container>,
    /// The cells.
    pub cells: Vec<CellDocument>,
}

/// A cell, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Name.
    pub name: String,
    /// Mitigations.
    pub mitigations: Vec<String>,
    /// Where it runs.
    pub environment: Resolved,
    /// Variables of mitigations, then those of the cell.
    pub variables: Variables,
    /// Trials.
    pub trials: usize,
    /// The configuration, steps included.
    pub config: Config,
}

/// A recipe, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// What it is about.
    pub ticket: Option<String>,
    /// The cells, in order.
    pub cells: Vec<Cell>,
    /// Place of the baseline among the cells.
    pub baseline: usize,
    /// Mean step time over the baseline's above which a cell is slower.
    pub threshold: f64,
    /// As written.
    pub document: RecipeDocument,
}

impl Recipe {
    /// Reads and resolves a recipe.
    ///
    /// # Errors
    /// Unknown keys with the nearest known one, names that nobody defined, mitigations that contradict each other,
    /// configurations out of range; each with its place, e.g. `recipe.yaml: cells[2].mitigations`.
    pub fn from_document(source: &Document) -> Result<Self> {
        let document: RecipeDocument = yaml::parse(source)?;
        let at = Place { origin: &source.origin };
        if document.schema_version != 1 {
            let found = format!("is {}", document.schema_version);
            return Err(at.error("schema_version", &found, "This program reads version 1"));
        }
        if document.workload != "inference" {
            return Err(at.error("workload", &format!("no workload `{}`", document.workload), "Known: inference"));
        }
        for name in document.mitigations.keys() {
            if MITIGATIONS.iter().any(|known| known.0 == name) {
                return Err(at.error("mitigations", &format!("`{name}` is built in"), "Choose another name"));
            }
        }
        if document.environments.contains_key("local") {
            return Err(at.error("environments", "`local` is built in", "Choose another name"));
        }
        let threshold = document.confound.threshold;
        if !(threshold.is_finite() && threshold > 0.0) {
            return Err(at.error("confound.threshold", &format!("is {threshold}"), "Give a ratio such as 1.15"));
        }
        let shared = at.config(&document.workload_config, "workload_config")?;
        if document.cells.is_empty() {
            return Err(at.error("cells", "is empty", "Give at least one cell"));
        }
        let mut seen = BTreeSet::new();
        let mut cells = Vec::new();
        for (index, cell) in document.cells.iter().enumerate() {
            if !seen.insert(&cell.name) {
                let place = format!("cells[{index}].name");
                return Err(at.error(&place, &format!("`{}` appears twice", cell.name), "Give each cell its own"));
            }
            cells.push(resolve(&at, &document, &shared, index, cell)?);
        }
        let baseline = baseline(&at, &document)?;
        Ok(Self { ticket: document.ticket.clone(), cells, baseline, threshold, document })
    }
}

fn resolve(
    at: &Place<'_>,
    recipe: &RecipeDocument,
    shared: &Mapping,
    index: usize,
    cell: &CellDocument,
) -> Result<Cell> {
    let place = |key: &str| format!("cells[{index}].{key}");
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let first = cell.name.chars().next();
    if !first.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') || !cell.name.chars().all(valid) {
        return Err(at.error(&place("name"), &format!("is `{}`", cell.name), "Use letters, digits, `_`, `.` and `-`"));
    }
    if cell.mitigations.is_empty() {
        return Err(at.error(&place("mitigations"), "is empty", "Name at least one; `none` changes nothing"));
    }
    let from = |key: &str| {
        let place = place(key);
        move |(found, repair): (String, String)| at.error(&place, &found, &repair)
    };
    let mut variables = variables(&cell.mitigations, &recipe.mitigations).map_err(from("mitigations"))?;
    if let Some(key) = cell.extra_env.keys().find(|key| key.is_empty() || key.contains(['=', '\0'])) {
        return Err(at.error(&place("extra_env"), &format!("`{key}` is no variable"), "Write NAME: value"));
    }
    variables.extend(cell.extra_env.clone());
    let environment = cell.environment.resolve(&recipe.environments).map_err(from("environment"))?;
    let trials = cell.trials.unwrap_or(recipe.trials);
    if !(1..=10_000).contains(&trials) {
        return Err(at.error(&place("trials"), &format!("is {trials}"), "Give 1 to 10000"));
    }
    let own = at.config(&cell.workload_config, &place("workload_config"))?;
    let steps = cell.steps.unwrap_or(recipe.steps);
    let config = at.checked(merged(shared, &own), steps, &place("workload_config"))?;
    let (name, mitigations) = (cell.name.clone(), cell.mitigations.clone());
    Ok(Cell { name, mitigations, environment, variables, trials, config })
}

/// The named cell; else the first `baseline-*`; else the first that changes nothing; else the only one.
fn baseline(at: &Place<'_>, recipe: &RecipeDocument) -> Result<usize> {
    let cells = &recipe.cells;
    if let Some(name) = &recipe.confound.baseline_cell {
        return cells.iter().position(|c| c.name == *name).ok_or_else(|| {
            let known: Vec<&str> = cells.iter().map(|c| c.name.as_str()).collect();
            at.error("confound.baseline_cell", &format!("no cell `{name}`"), &format!("Known: {}", known.join(", ")))
        });
    }
    let named = cells.iter().position(|c| c.name.starts_with("baseline-"));
    let unchanged = || cells.iter().position(|c| c.mitigations == ["none"]);
    let only = || (cells.len() == 1).then_some(0);
    named.or_else(unchanged).or_else(only).ok_or_else(|| {
        at.error("cells", "no cell is a baseline", "Name it in confound.baseline_cell, or call one baseline-…")
    })
}
