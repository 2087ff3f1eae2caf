//! `inferasim compare`: prediction beside measurement, and the anchors the next search stands on.

mod print;

use super::calibrate::FEWEST_ROWS;
use crate::anchor::artifact::Artifact;
use crate::anchor::comparison::{Rules, compare};
use crate::anchor::harvest::{FinalistResult, read_results};
use crate::anchor::store::Store;
use crate::error::exit;
use crate::measure::finalist;
use crate::measure::output;
use crate::objective::{Metric, Slo};
use crate::report::RunRecord;
use crate::{Error, Result};
use clap::Args;
use print::Next;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Set measured finalists against their predictions: what moved, and is the winner the same?
///
/// Exit codes: 0 as predicted, 1 a finalist moved or is missing or the winner changed, 2 an error in input.
#[derive(Debug, Args)]
pub struct Compare {
    /// Folders of `inferasim measure --shortlist`, or folders above them
    #[arg(required = true, value_name = "DIR")]
    measured: Vec<PathBuf>,
    /// The shortlist, to name finalists without a result
    #[arg(long, value_name = "FILE")]
    shortlist: Option<PathBuf>,
    /// Figure to rank by [default: the shortlist's, else tok_s_per_gpu]
    #[arg(long, value_name = "KEY")]
    objective: Option<String>,
    /// Limits that a winner keeps [default: the shortlist's]
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    slo: Vec<String>,
    /// Relative half-width of "as predicted" [default: each entry's own, else 0.18]
    #[arg(long, value_name = "SHARE")]
    band: Option<f64>,
    /// Store that gets every whole run as an anchor
    #[arg(long, value_name = "DIR")]
    anchors: Option<PathBuf>,
    /// Also write the verdict as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Compare) -> Result<u8> {
    if let Some(band) = args.band.filter(|b| !(*b > 0.0 && *b < 10.0)) {
        return Err(Error::input(format!("--band {band}"), "not a share", "Write 0.1 for plus or minus 10 %"));
    }
    let entries = args.shortlist.as_deref().map(finalist::read).transpose()?.unwrap_or_default();
    let results: Vec<FinalistResult> = read_results(&args.measured)?.into_iter().map(|(_, result)| result).collect();
    let first = entries.first().map(|f| &f.fields).or(results.first().map(|r| &r.entry));
    let said = |key: &str| first.and_then(|f| f.get(key)).and_then(Value::as_str).unwrap_or_default();
    let objective = args.objective.clone().unwrap_or_else(|| said("objective_metric").to_string());
    let objective = if objective.is_empty() { Metric::TokSPerGpu } else { Metric::parse(&objective)? };
    let limits = if args.slo.is_empty() { first.map(stated_limits).unwrap_or_default() } else { args.slo.join(",") };
    let slos = if limits.is_empty() { vec![] } else { Slo::parse_list(&limits)? };
    let comparison = compare(&entries, &results, &Rules { objective, slos, band: args.band });
    let anchors: Vec<Artifact> = newest(&results);
    if let Some(folder) = &args.anchors {
        Store::new(folder).add(&anchors, true)?;
    }
    let next = match args.anchors.as_deref() {
        Some(folder) => {
            Next { search: Some(next_search(args.shortlist.as_deref(), folder)), calibrate: calibration(folder)? }
        }
        None => Next::default(),
    };
    if let Some(file) = &args.markdown {
        output::write_whole(file, print::markdown(&comparison, &next).as_bytes())?;
    }
    if args.json {
        println!("{}", print::json(&comparison, anchors.len(), &next)?);
    } else {
        print::text(&comparison, anchors.len(), &next);
    }
    Ok(if comparison.differs() { exit::DIFFERS } else { exit::ANSWER })
}

/// `slo_X` of an entry as `X=limit,…`.
fn stated_limits(entry: &Map<String, Value>) -> String {
    let limit = |(key, value): (&String, &Value)| Some(format!("{}={value}", key.strip_prefix("slo_")?));
    entry.iter().filter_map(limit).collect::<Vec<_>>().join(",")
}

/// One anchor a name: of two runs of one point the later counts.
fn newest(results: &[FinalistResult]) -> Vec<Artifact> {
    let mut kept: std::collections::BTreeMap<String, (f64, Artifact)> = Default::default();
    for result in results {
        let started = result.point().map_or(0.0, |p| p.started_unix_s);
        if let Some(anchor) = &result.anchor
            && kept.get(&anchor.id).is_none_or(|(before, _)| *before <= started)
        {
            kept.insert(anchor.id.clone(), (started, anchor.clone()));
        }
    }
    kept.into_values().map(|(_, anchor)| anchor).collect()
}

/// The fit of serving constants, once the store holds as many runs as it needs.
fn calibration(anchors: &Path) -> Result<Option<String>> {
    let enough = Store::new(anchors).read()?.len() >= FEWEST_ROWS;
    let shown = crate::export::shell(&anchors.display().to_string());
    Ok(enough.then(|| format!("inferasim calibrate --measured {shown} --out calibration.yaml")))
}

/// The search that wrote the shortlist, standing on the new anchors.
fn next_search(shortlist: Option<&Path>, anchors: &Path) -> String {
    let beside = shortlist.and_then(Path::parent).map(|folder| folder.join("run.json"));
    let record = beside.and_then(|p| std::fs::read(p).ok()).and_then(|t| serde_json::from_slice::<RunRecord>(&t).ok());
    let mut words = record.map_or_else(|| vec!["inferasim-tune".into(), "...".into()], |r| r.arguments);
    if let Some(at) = words.iter().position(|w| w == "--anchors") {
        words.drain(at..(at + 2).min(words.len()));
    }
    words.retain(|w| !w.starts_with("--anchors="));
    words.extend(["--anchors".into(), anchors.display().to_string()]);
    words.iter().map(|w| if w == "..." { w.clone() } else { crate::export::shell(w) }).collect::<Vec<_>>().join(" ")
}
