//! Architecture of a model: layers, experts, number formats, parameter counts, and the import of a `config.json`.

pub mod architecture;
pub mod import;
mod load;
pub mod parameters;
pub mod quant;

use serde::{Deserialize, Serialize};

pub use architecture::{
    Architecture, Ffn, Gqa, Indexer, LayerGroup, LinearAttention, Mamba2, Mixer, Mla, Moe, OutLora,
};
pub use parameters::Parameters;
pub use quant::{Checkpoint, Formats, KvFormat, WeightFormat};

/// A model a user can name: its architecture, its published checkpoints and where the figures come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Shapes.
    pub architecture: Architecture,
    /// Published checkpoints, the preferred one first.
    pub checkpoints: Vec<Checkpoint>,
    /// Published figures to check against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
    /// Other names users know it by (`openai/gpt-oss-120b`, `deepseek-r1-0528` …), in lower case.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Where the shapes were read, with date.
    pub source: String,
    /// What a user should know about the import: keys that were not understood, approximations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What the model card states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Total parameters in billions, multi-token-prediction layers apart.
    pub parameters_b: f64,
    /// Parameters a token passes through, in billions (no input embedding, with the LM head).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_parameters_b: Option<f64>,
    /// The statement's place.
    pub source: String,
}

impl Model {
    /// The checkpoint of a precision.
    pub fn checkpoint(&self, dtype: &str) -> Option<&Checkpoint> {
        self.checkpoints.iter().find(|c| c.dtype == dtype)
    }
}
