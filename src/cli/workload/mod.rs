//! `inferasim workload`: what this machine's own device does.

mod compare;
mod model;
mod print;
mod probe;
mod run;
mod triage;

use crate::inference::Clock;
use crate::{Error, Result};
use clap::{Args, Subcommand};

/// Run a small eval-only model on this machine's own device
///
/// Running needs a build with `--features workload` (the CPU; `--features cuda` or `rocm` add a GPU).
#[derive(Debug, Args)]
pub struct Workload {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Arguments),
    Triage(triage::Arguments),
    Probe(probe::Arguments),
    Compare(compare::Arguments),
    Model(model::Arguments),
}

/// Threads and clock.
#[derive(Debug, Clone, Args)]
struct Timing {
    /// Threads of the CPU [default: RAYON_NUM_THREADS, else all cores; one for the cpu clock]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Clock of latencies: wall, or cpu (processor time of one thread, for a busy machine)
    #[arg(long, default_value = "wall", value_parser = clock)]
    clock: Clock,
}

fn clock(text: &str) -> std::result::Result<Clock, String> {
    [Clock::Wall, Clock::Cpu].into_iter().find(|c| c.word() == text).ok_or_else(|| "use wall or cpu".to_string())
}

/// Runs the subcommand.
///
/// # Errors
/// Bad input, and a build without the feature where a device is needed.
pub fn run(workload: &Workload) -> Result<u8> {
    match &workload.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Triage(arguments) => triage::run(arguments),
        Command::Probe(arguments) => probe::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Model(arguments) => model::run(arguments),
    }
}

/// Says how to get what this build lacks.
#[cfg(not(feature = "workload"))]
fn not_built(what: &str) -> Error {
    Error::input(
        format!("inferasim workload {what}"),
        "this binary was built without the workload",
        "Build it with `cargo install --path . --features workload` (add cuda or rocm for a GPU)",
    )
}

/// Prints a document as JSON.
fn print_json(document: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(document)
        .map_err(|e| Error::input("--json", format!("the answer cannot be written: {e}"), ""))?;
    println!("{text}");
    Ok(())
}
