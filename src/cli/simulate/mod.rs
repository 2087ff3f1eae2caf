//! `inferasim simulate`: serving on a virtual clock, request by request.

mod deployment;
mod engine;
mod output;
mod plot;
mod scenario;
mod step_cost;

use crate::error::exit;
use crate::sim::check_trace::{Comparison, TraceFile};
use crate::sim::fleet::Observer;
use crate::sim::load::Arrivals;
use crate::sim::scenario::Scenario;
use crate::sim::slo::SloSet;
use crate::sim::step_time::StepTime;
use crate::sim::{self, sweep};
use crate::{Error, Result};
use clap::Args;
use deployment::Projected;
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
    /// Plot --sweep-load or --max-rate: an .svg or .png file
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    plot: Option<PathBuf>,
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
    let (mut scenario, projected) = args.scenario.build(args.max_rate || args.sweep_load.is_some())?;
    scenario.slos = slos.per_request();
    scenario.one_by_one |= args.step_records.is_some();
    scenario.validate()?;
    let step_time = step_time(&args, &scenario, projected.as_ref())?;
    if args.max_rate || args.sweep_load.is_some() {
        let about = projected.as_ref().map_or("Given step cost".to_string(), |p| p.about.clone());
        return search(&args, &scenario, &slos, &step_time, &about);
    }
    if args.plot.is_some() {
        return Err(Error::input("--plot", "a single rate has no curve", "Add --sweep-load or --max-rate"));
    }
    simulate_one(&args, &scenario, &slos, step_time(), projected.as_ref())
}

/// Where the time of a step comes from.
fn step_time(args: &Simulate, scenario: &Scenario, projected: Option<&Projected>) -> Result<StepTimeFactory> {
    match (&args.step_cost, projected) {
        (Some(_), Some(_)) => {
            Err(Error::input("--step-cost", "the deployment has its own step cost", "Leave out one of the two"))
        }
        (Some(law), None) => step_cost::parse(law, scenario.load.seed),
        (None, Some(projected)) => {
            let clients = match scenario.load.arrivals {
                Arrivals::Closed { clients, .. } => Some(f64::from(clients) / f64::from(scenario.replicas)),
                _ => None,
            };
            let instance = projected.instance.clone();
            Ok(Box::new(move || instance.step_time(clients)))
        }
        (None, None) => {
            let repair = "Give --target and --model, or --step-cost such as constant:20 or affine:8,50,0,40";
            Err(Error::input("simulate", "no deployment and no step cost", repair))
        }
    }
}

/// Simulates one load on one step-time model and prints its report.
fn simulate_one(
    args: &Simulate,
    scenario: &Scenario,
    slos: &SloSet,
    step_time: Box<dyn StepTime>,
    projected: Option<&Projected>,
) -> Result<u8> {
    let mut records = output::Records::open(args.request_records.as_deref(), args.step_records.as_deref())?;
    let report = sim::simulate(scenario, step_time, &mut records as &mut dyn Observer)?;
    records.close()?;
    if args.json {
        output::print_json(&report, slos, projected)?;
    } else {
        if let Some(projected) = projected {
            println!("{}", projected.about);
        }
        output::print(scenario, &report, slos);
        if let Some(projected) = projected {
            output::print_comparison(&report, projected);
        }
    }
    if !report.checks.hold() {
        return Err(Error::differs("simulate", "a conservation law is broken", "Please report this with the command"));
    }
    Ok(exit::ANSWER)
}

fn search(args: &Simulate, scenario: &Scenario, slos: &SloSet, step_time: &StepTimeFactory, about: &str) -> Result<u8> {
    if let Some(file) = &args.plot {
        plot::check(file)?;
    }
    if let Some(range) = &args.sweep_load {
        let rates = sweep::parse_rates(range)?;
        let curve = sweep::sweep(scenario, &rates, &**step_time)?;
        output::print_curve(&curve, slos, args.json)?;
        if !args.max_rate {
            let knee = curve.knee.map(|at| (curve.points[at].rate, "knee".to_string()));
            plot::write(args.plot.as_deref(), about, &curve.points, slos, knee)?;
            return Ok(exit::ANSWER);
        }
    }
    let found = sweep::max_rate(scenario, slos, &**step_time)?;
    output::print_max_rate(&found, slos, args.json)?;
    let mark = found.rate.map(|rate| (rate, "highest rate that keeps every limit".to_string()));
    plot::write(args.plot.as_deref(), about, &found.tried, slos, mark)?;
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
