//! Discrete-event simulation of serving: the engine's own scheduler on a virtual clock.

pub mod check_trace;
pub mod clock;
pub mod closed_run;
pub mod deployment;
pub mod distribution;
pub mod fleet;
mod fleet_changes;
pub mod histogram;
pub mod load;
pub mod projected;
pub mod replica;
pub mod report;
pub mod request_log;
pub mod router;
pub mod scenario;
pub mod slo;
pub mod step_time;
pub mod sweep;
pub mod timeline;
pub mod trace_file;

use crate::Result;
use fleet::{Fleet, Observer};
use report::Report;
use scenario::Scenario;
use step_time::StepTime;

/// Runs one scenario. All replicas take their step times from the one model.
pub fn simulate(scenario: &Scenario, step_time: Box<dyn StepTime>, observer: &mut dyn Observer) -> Result<Report> {
    scenario.validate()?;
    let mut fleet = Fleet::new(scenario, step_time);
    fleet.run(observer);
    Ok(Report::of(scenario, &fleet))
}
