//! `inferasim memory`: what fits on a rank, and how well the memory model agrees with engines' logs.

mod cases;
mod deployment;

use crate::Result;
use clap::Args;
use std::path::PathBuf;

pub use cases::read as read_cases;

/// What fits: one deployment's memory line by line, or a file of logged start-ups scored.
#[derive(Debug, Args)]
pub struct Memory {
    /// Score a CSV of start-up logs instead of printing one deployment.
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
    #[command(flatten)]
    deployment: deployment::Arguments,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `inferasim memory`.
pub fn run(memory: Memory) -> Result<u8> {
    match &memory.cases {
        Some(file) => cases::run(file, memory.json),
        None => deployment::run(&memory.deployment, memory.json),
    }
}
