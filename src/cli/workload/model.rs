//! `inferasim workload model`: the workload's decoder as a model preset.

use crate::error::exit;
use crate::inference::{Config, preset, triage::document};
use crate::{Error, Result};
use clap::Args;

/// Print the decoder of a configuration as a model that `inferasim project --model` reads
#[derive(Debug, Args)]
pub struct Arguments {
    /// Configuration or triage recipe, YAML [default: a small decoder]
    #[arg(long, value_name = "FILE")]
    recipe: Option<String>,
}

/// Prints it.
pub fn run(arguments: &Arguments) -> Result<u8> {
    let config = match &arguments.recipe {
        Some(path) => document::config_of(&document::open(path)?)?,
        None => Config::default(),
    };
    print!("{}", text(&config)?);
    Ok(exit::ANSWER)
}

/// The preset as YAML.
pub fn text(config: &Config) -> Result<String> {
    let model = preset::model_of(config)?;
    serde_yaml::to_string(&model).map_err(|e| Error::input("model", format!("cannot be written: {e}"), ""))
}
