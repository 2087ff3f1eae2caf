//! `inferasim simulate`: serving on a virtual clock.

use crate::error::exit;
use crate::sim::check_trace::{Comparison, TraceFile};
use crate::{Error, Result};
use clap::Args;
use std::path::PathBuf;

/// Simulate a deployment under load, request by request.
#[derive(Debug, Args)]
pub struct Simulate {
    /// Replay recorded scheduler traces and compare every step.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    check_trace: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(args: Simulate) -> Result<u8> {
    if !args.check_trace.is_empty() {
        return check_traces(&args.check_trace);
    }
    Err(Error::input("simulate", "nothing to do", "Give --check-trace FILE"))
}

fn check_traces(files: &[PathBuf]) -> Result<u8> {
    let mut different = 0;
    for file in files {
        match TraceFile::read(file)?.check()? {
            Comparison::Equal { steps } => println!("equal {} ({steps} steps)", file.display()),
            Comparison::Differs { step, recorded, simulated } => {
                different += 1;
                let show = |v: Option<serde_json::Value>| v.map_or("nothing".to_string(), |v| v.to_string());
                println!("differs {} at step {step}", file.display());
                println!("  recorded  {}", show(recorded));
                println!("  simulated {}", show(simulated));
            }
        }
    }
    if different > 0 {
        println!("{different} of {} traces differ", files.len());
    }
    Ok(if different == 0 { exit::ANSWER } else { exit::DIFFERS })
}
