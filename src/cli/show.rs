//! `inferasim show`: prints what is known about one thing, with its sources.

mod model;

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
}

/// Runs `inferasim show`.
pub fn run(show: Show) -> Result<u8> {
    match show.what {
        What::Model(arguments) => model::run(arguments),
    }
}
