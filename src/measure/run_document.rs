//! What does a whole run say? `summary.json`: how it was asked, what was done when, and every point.

use super::summary::Point;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`super::summary::SUMMARY_SCHEMA`].
    pub schema: String,
    /// Version of this program.
    pub inferasim: String,
    /// Every point is whole.
    pub complete: bool,
    /// URL of the endpoint.
    pub url: String,
    /// Model as requested.
    pub model: String,
    /// Variable the key came from; the key is nowhere.
    pub api_key_env: Option<String>,
    /// The request body without its prompt and length.
    pub request: Value,
    /// `exact` when `min_tokens` and `ignore_eos` were sent, else `cap`.
    pub output_length: String,
    /// `synthetic` or `replay`.
    pub prompts: String,
    /// Seed of prompts, lengths and arrivals.
    pub seed: u64,
    /// The command line.
    pub command: String,
    /// Tokenizer of the client's counts.
    pub tokenizer: String,
    /// The formulas.
    pub definitions: BTreeMap<String, String>,
    /// What was done when, in seconds from the start.
    pub timeline: Vec<Step>,
    #[allow(missing_docs)]
    pub points: Vec<Point>,
}

/// A step of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Seconds from the start of the run.
    pub at_s: f64,
    /// What was done and how it ended.
    pub what: String,
}
