//! `inferasim workload run`: one run, its latencies and checks.

use super::{Timing, print, print_json};
use crate::error::exit;
use crate::inference::triage::document;
use crate::inference::{Config, WorkloadResult};
use crate::{Error, Result};
use clap::Args;

/// Run the workload once: latencies, throughput, numeric checks, a checksum
///
/// Exit codes: 0 every check passed, 1 a check failed, 2 an error in input or device.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Configuration or triage recipe, YAML; - reads standard input [default: a small decoder]
    #[arg(long, value_name = "FILE")]
    recipe: Option<String>,
    /// Measured batches, or most ticks of a continuous batch [default: the recipe's]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    steps: Option<u32>,
    /// Fail unless the checksum of the last logits is this
    #[arg(long, value_name = "CHECKSUM", allow_negative_numbers = true)]
    expect_checksum: Option<i64>,
    #[command(flatten)]
    timing: Timing,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs and prints.
pub fn run(arguments: &Arguments) -> Result<u8> {
    let mut config = match &arguments.recipe {
        Some(path) => document::config_of(&document::open(path)?)?,
        None => Config::default(),
    };
    if let Some(steps) = arguments.steps {
        config.steps = steps as usize;
    }
    if arguments.expect_checksum.is_some() && !config.checks.compare_logits_checksum {
        return Err(Error::input(
            "--expect-checksum",
            "checks.compare_logits_checksum is off",
            "Switch it on in the recipe",
        ));
    }
    let mut result = session(config, &arguments.timing)?;
    if let Some(expected) = arguments.expect_checksum {
        result.expect_checksum(expected);
    }
    if arguments.json {
        print_json(&result)?;
    } else {
        print::result(&result).iter().for_each(|line| println!("{line}"));
    }
    Ok(if result.passed { exit::ANSWER } else { exit::DIFFERS })
}

#[cfg(feature = "workload")]
fn session(config: Config, timing: &Timing) -> Result<WorkloadResult> {
    use crate::inference::device::{self, Use};
    let usage = Use { threads: timing.threads.map(usize::from), clock: timing.clock };
    device::run(config.device, usage, crate::inference::session::Session { config })
}

#[cfg(not(feature = "workload"))]
fn session(_: Config, _: &Timing) -> Result<WorkloadResult> {
    Err(super::not_built("run"))
}
