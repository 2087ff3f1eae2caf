//! `inferasim-tune`: which deployment should I run? Loads, searches, reports.

pub mod anchored;
mod answer;
pub(super) mod arguments;
mod bands;
mod emit;
mod finalists;
pub(super) mod inputs;
mod interrupt;
mod planning;
mod progress;
pub(super) mod reasons;
mod resume;
mod searching;
pub(super) mod trust;
mod verify;

pub use arguments::Arguments;

use crate::error::exit;
use crate::report::terminal::{self, Style};
use crate::report::{ReportFolder, folder, time};
use crate::search::Search;
use crate::{Error, Result};
use inputs::Inputs;
use progress::cpu_seconds;
use resume::Earlier;
use std::time::Instant;

/// Seed of the clustering and of the ranking played through for the shortlist.
const SEED: u64 = 1;

/// Runs the search; the exit code says whether anything is feasible.
///
/// # Errors
/// Bad input, and a report folder that cannot be written (before the search starts).
pub fn run(arguments: Arguments) -> Result<u8> {
    let started = Instant::now();
    let date = time::utc_now();
    let (arguments, earlier) = Earlier::read(arguments)?;
    let inputs = Inputs::load(&arguments)?;
    emit::check(&arguments)?;
    planning::check(&arguments)?;
    let evaluator = anchored::AnchoredProjector::new(&inputs, &arguments)?;
    let mut folder = match &earlier {
        _ if arguments.no_report => None,
        Some(earlier) => Some(earlier.folder()?),
        None => {
            let name = folder::run_name(&date, &inputs.target.name, &inputs.model.architecture.name);
            Some(ReportFolder::prepare(&arguments.out, &name)?)
        }
    };
    // The program by name: where it lies on this machine is nobody's business.
    let words = || std::iter::once("inferasim-tune".to_string()).chain(std::env::args().skip(1)).collect();
    let words: Vec<String> = earlier.as_ref().map_or_else(words, |e| e.arguments().to_vec());
    let fingerprint = inputs.fingerprint(&evaluator);
    let kept = match (earlier, &mut folder) {
        (Some(earlier), _) => Some(earlier.kept(&fingerprint)?),
        (None, Some(folder)) if !searching::looks_at_all(&inputs.space, &arguments) => {
            Some(resume::start(folder, fingerprint, &words, &date)?)
        }
        _ => None,
    };
    let search = Search {
        space: &inputs.space,
        legality: &inputs.legality,
        objective: &inputs.objective,
        evaluator: &evaluator,
    };
    let place = folder.as_ref().and_then(ReportFolder::claimed);
    let (mut outcome, how) = searching::search(&search, &inputs, &arguments, kept, place)?;
    let verifies = arguments.verify.is_some() || !inputs.percentiles.is_empty();
    let verification = verifies.then(|| verify::verify(&inputs, &mut outcome, &arguments)).transpose()?;
    let mut record = answer::record(&inputs, &search, &outcome, how, arguments.top, (date, words));
    record.verification = verification;
    evaluator.describe(&mut record);
    if let Some(run) = folder.as_ref().and_then(ReportFolder::claimed).filter(|_| record.search.stop == "interrupted") {
        record.warnings.push(resume::advice(run));
    }
    record.shortlist = finalists::finalists(&inputs, &evaluator, &outcome, arguments.shortlist as usize, SEED);
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
