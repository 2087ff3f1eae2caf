//! `inferasim-tune`: which deployment should I run? Loads, searches, reports.

pub mod anchored;
mod answer;
pub(super) mod arguments;
mod emit;
pub(super) mod inputs;
mod progress;
pub(super) mod reasons;
pub(super) mod trust;

pub use arguments::Arguments;

use crate::error::exit;
use crate::report::terminal::{self, Style};
use crate::report::{ReportFolder, folder, time};
use crate::search::Search;
use crate::{Error, Result};
use inputs::Inputs;
use progress::{Progress, cpu_seconds};
use std::time::Instant;

/// Runs the search; the exit code says whether anything is feasible.
///
/// # Errors
/// Bad input, and a report folder that cannot be written (before the search starts).
pub fn run(arguments: Arguments) -> Result<u8> {
    let started = Instant::now();
    let date = time::utc_now();
    let inputs = Inputs::load(&arguments)?;
    emit::check(&arguments)?;
    let evaluator = anchored::AnchoredProjector::new(&inputs, &arguments)?;
    let mut folder = if arguments.no_report {
        None
    } else {
        let name = folder::run_name(&date, &inputs.target.name, &inputs.model.architecture.name);
        Some(ReportFolder::prepare(&arguments.out, &name)?)
    };
    let search = Search {
        space: &inputs.space,
        legality: &inputs.legality,
        objective: &inputs.objective,
        evaluator: &evaluator,
    };
    let progress = Progress::new(inputs.space.len());
    let outcome = search.run(&|points| progress.add(points));
    progress.finish();
    let mut record = answer::record(&inputs, &search, &outcome, arguments.top, date);
    evaluator.describe(&mut record);
    record.elapsed_s = started.elapsed().as_secs_f64();
    record.cpu_s = cpu_seconds().unwrap_or(record.elapsed_s);
    if let Some(folder) = &mut folder {
        for found in &outcome.kept {
            folder.push_point(&inputs.space.deployment(found.index), &found.evaluation)?;
        }
    }
    let place = folder.map(|folder| folder.finish(&record)).transpose()?;
    let job = emit::write(&arguments, &record, place.as_deref())?;
    if arguments.json {
        let mut document = answer::json(&record, place.as_deref());
        if let Some(job) = &job {
            document["emitted"] = job.display().to_string().into();
        }
        let text = serde_json::to_string_pretty(&document)
            .map_err(|e| Error::input("--json", format!("the answer cannot be written: {e}"), ""))?;
        println!("{text}");
    } else {
        print!("{}", terminal::answer(&record, Style::of_stdout()));
        if let Some(place) = &place {
            println!("\nReport: {}", place.join("report.html").display());
        }
        if let Some(job) = &job {
            println!("CI job: {}", job.display());
        }
    }
    Ok(if record.best.is_some() { exit::ANSWER } else { exit::INFEASIBLE })
}
