//! `inferasim show`: prints what is known about one thing, with its sources.

mod engine;
mod model;
mod search;
mod target;

use crate::Result;
use clap::{Args, Subcommand};

/// Print what is known about one thing, with its sources.
#[derive(Debug, Args)]
pub struct Show {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A model: layers, parameters, checkpoints and their formats.
    Model(model::Arguments),
    /// A machine: every figure with its origin and source.
    Target(target::Arguments),
    /// An engine: every setting with its origin and source, and what changed at which version.
    Engine(engine::Arguments),
    /// A search space: every knob with its values.
    Space(search::SpaceArguments),
    /// An objective: what is ranked by and which limits must be kept.
    Objective(search::ObjectiveArguments),
}

/// Runs `inferasim show`.
pub fn run(show: Show) -> Result<u8> {
    match show.what {
        What::Model(arguments) => model::run(arguments),
        What::Target(arguments) => target::run(arguments),
        What::Engine(arguments) => engine::run(arguments),
        What::Space(arguments) => search::space(arguments),
        What::Objective(arguments) => search::objective(arguments),
    }
}
