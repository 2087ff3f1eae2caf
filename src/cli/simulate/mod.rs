//! `inferasim simulate`: serving on a virtual clock, request by request.

mod output;
mod scenario;
mod step_cost;

use crate::error::exit;
use crate::sim::check_trace::{Comparison, TraceFile};
use crate::sim::fleet::Observer;
use crate::sim::scenario::Scenario;
use crate::sim::slo::SloSet;
use crate::sim::step_time::StepTime;
use crate::sim::{self, sweep};
use crate::{Error, Result};
use clap::Args;
use std::path::PathBuf;

/// Simulate a deployment under load, request by request.
#[derive(Debug, Args)]
pub struct Simulate {
    #[command(flatten)]
    scenario: scenario::ScenarioArgs,

    /// How long a step takes: constant:MS, exponential:MS, or
    /// affine:BASE_MS,DECODE_US,CONTEXT_NS,PREFILL_US (per step, decoded token, context token, prefill token)
    #[arg(long, value_name = "LAW", help_heading = "Step cost")]
    step_cost: Option<String>,

    /// Limits such as ttft_p99_ms=800 tpot_ms=50: NAME[_p50|_p90|_p99]_ms with ttft, tpot, itl, e2e or queue
    #[arg(long, value_name = "NAME=MS", num_args = 1.., help_heading = "Report")]
    slo: Vec<String>,
    /// Simulate several rates: FROM:TO:POINTS; shows where the knee lies
    #[arg(long, value_name = "FROM:TO:POINTS", help_heading = "Report")]
    sweep_load: Option<String>,
    /// Find the highest rate that keeps every --slo
    #[arg(long, help_heading = "Report")]
    max_rate: bool,
    /// Write every request as CSV, or as JSONL where the name ends in .jsonl
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    request_records: Option<PathBuf>,
    /// Write every step likewise (takes each step singly)
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    step_records: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long, help_heading = "Report")]
    json: bool,

    /// Replay recorded scheduler traces and compare every step
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = "Check")]
    check_trace: Vec<PathBuf>,
}

/// Makes the step-time model of a run; each simulated point gets a fresh one.
pub type StepTimeFactory = Box<dyn Fn() -> Box<dyn StepTime> + Sync>;

/// Runs the command.
pub fn run(args: Simulate) -> Result<u8> {
    if !args.check_trace.is_empty() {
        return check_traces(&args.check_trace);
    }
    let slos = SloSet::parse(&args.slo)?;
    let mut scenario = args.scenario.build(args.max_rate || args.sweep_load.is_some())?;
    scenario.slos = slos.per_request();
    scenario.one_by_one |= args.step_records.is_some();
    scenario.validate()?;
    let step_time = step_time(&args, &scenario)?;
    if args.max_rate || args.sweep_load.is_some() {
        return search(&args, &scenario, &slos, &step_time);
    }
    simulate_one(&args, &scenario, &slos, step_time())
}

/// Where the time of a step comes from.
fn step_time(args: &Simulate, scenario: &Scenario) -> Result<StepTimeFactory> {
    match &args.step_cost {
        Some(law) => step_cost::parse(law, scenario.load.seed),
        None => Err(Error::input("simulate", "no step cost", "Give --step-cost constant:20 or affine:8,50,0,40")),
    }
}

/// Simulates one load on one step-time model and prints its report.
fn simulate_one(args: &Simulate, scenario: &Scenario, slos: &SloSet, step_time: Box<dyn StepTime>) -> Result<u8> {
    let mut records = output::Records::open(args.request_records.as_deref(), args.step_records.as_deref())?;
    let report = sim::simulate(scenario, step_time, &mut records as &mut dyn Observer)?;
    records.close()?;
    if args.json {
        output::print_json(&report, slos)?;
    } else {
        output::print(scenario, &report, slos);
    }
    if !report.checks.hold() {
        return Err(Error::differs("simulate", "a conservation law is broken", "Please report this with the command"));
    }
    Ok(exit::ANSWER)
}

fn search(args: &Simulate, scenario: &Scenario, slos: &SloSet, step_time: &StepTimeFactory) -> Result<u8> {
    if let Some(range) = &args.sweep_load {
        let rates = sweep::parse_rates(range)?;
        let curve = sweep::sweep(scenario, &rates, &**step_time)?;
        output::print_curve(&curve, slos, args.json)?;
        if !args.max_rate {
            return Ok(exit::ANSWER);
        }
    }
    let found = sweep::max_rate(scenario, slos, &**step_time)?;
    output::print_max_rate(&found, slos, args.json)?;
    Ok(if found.rate.is_some() { exit::ANSWER } else { exit::INFEASIBLE })
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
