//! How do the deployments of a shortlist behave, one after the other? A campaign that a kill does not undo.
//!
//! Every point (one finalist at one concurrency) has its own folder; the journal says which are whole. Run again, the
//! campaign goes on with those that are not.

use super::campaign::{self, INTERRUPTED, stopped_by_user};
use super::engine::{Engine, answers, reported_version};
use super::finalist::Finalist;
use super::journal::{Journal, Step};
use super::load::Load;
use super::options::{Options, Prompts};
use super::output;
use super::prompt::Tokenizer;
use super::run_document::Summary;
use crate::{Error, Result};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Name of the journal in the campaign's folder.
pub const JOURNAL: &str = "journal.jsonl";

/// A shortlist to be measured.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// In the order of measurement.
    pub finalists: Vec<Finalist>,
    /// What every point shares; model, prompts, load, requests, seed and folder are the point's own.
    pub base: Options,
    /// Name the model is served under, where it is not the entry's checkpoint.
    pub served_model: Option<String>,
    /// Clients, one point each; none for the concurrency each entry was predicted at.
    pub concurrency: Vec<usize>,
    /// Shell command that starts an entry's engine; none where it runs already.
    pub launch: Option<String>,
    /// Path that answers 200 when the engine is ready.
    pub health: String,
    /// Longest start of an engine.
    pub start_limit: Duration,
    /// Folder of the campaign.
    pub out: PathBuf,
}

/// What became of a campaign.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Points measured in this run.
    pub measured: usize,
    /// Points that an earlier run had measured.
    pub before: usize,
    /// Points without a result, and why.
    pub failed: Vec<(String, String)>,
    /// The user stopped it.
    pub interrupted: bool,
}

/// One finalist at one concurrency, measured.
pub struct MeasuredPoint<'a> {
    /// The entry.
    pub finalist: &'a Finalist,
    /// Its folder.
    pub folder: &'a Path,
    /// What was measured; one point.
    pub summary: &'a Summary,
    /// Version the engine reports.
    pub engine_version: Option<String>,
    /// The engine was started by its launch line.
    pub launched: bool,
}

struct Point<'a> {
    finalist: &'a Finalist,
    concurrency: usize,
    /// `01-name/c64`.
    folder: String,
}

impl Campaign {
    fn points(&self) -> Vec<Point<'_>> {
        let mut points = Vec::new();
        for finalist in &self.finalists {
            let own = [finalist.concurrency];
            for &concurrency in if self.concurrency.is_empty() { &own[..] } else { &self.concurrency } {
                points.push(Point { finalist, concurrency, folder: format!("{}/c{concurrency}", finalist.folder()) });
            }
        }
        points
    }

    /// Names of all points with their number of requests.
    pub fn plan(&self) -> Vec<(String, usize)> {
        self.points().iter().map(|p| (p.folder.clone(), self.requests(p))).collect()
    }

    /// As many per client as the prediction stands for, unless the user said otherwise.
    fn requests(&self, point: &Point<'_>) -> usize {
        let f = point.finalist;
        self.base.requests.unwrap_or_else(|| (f.requests * point.concurrency).div_ceil(f.concurrency))
    }

    /// FNV-1a of everything that decides what a result means.
    fn digest(&self) -> String {
        let b = &self.base;
        let entries: Vec<_> = self.finalists.iter().map(|f| &f.fields).collect();
        let asked = json!([
            entries,
            b.endpoint.to_string(),
            b.requests,
            b.enforce_length,
            b.length_field,
            b.extra,
            self.served_model,
            self.launch
        ]);
        let hash = asked
            .to_string()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        format!("{hash:016x}")
    }

    fn options(&self, index: usize, tries: usize, point: &Point<'_>, first: bool) -> Options {
        let load = Load::Closed { concurrency: point.concurrency, ramp_s: 0.0 };
        // Neither another point nor an earlier try may have left this one's prompts in a prefix cache.
        let seed = self.base.seed.wrapping_add(((index + 1) * 1_000_003 + tries * 7_919) as u64) & ((1 << 53) - 1);
        Options {
            model: self.served_model.clone().unwrap_or_else(|| point.finalist.served_model.clone()),
            prompts: vec![Prompts::Synthetic(point.finalist.shape.clone())],
            loads: vec![load],
            requests: Some(self.requests(point)),
            burn_in: if first { self.base.burn_in.min(point.concurrency) } else { 0 },
            seed,
            out: Some(self.out.join(&point.folder)),
            ..self.base.clone()
        }
    }
}

/// Measures what is missing; `keep` gets each whole point before the journal calls it measured.
///
/// # Errors
/// A folder of another campaign, one that cannot be written; an engine of another run still up.
pub fn run(
    campaign: &Campaign,
    tokenizer: &Arc<Tokenizer>,
    progress: &dyn Fn(&str),
    mut keep: impl FnMut(&MeasuredPoint<'_>) -> Result<()>,
) -> Result<Outcome> {
    let points = campaign.points();
    let names: Vec<String> = points.iter().map(|p| p.folder.clone()).collect();
    std::fs::create_dir_all(&campaign.out)
        .map_err(|e| Error::input(format!("--out {}", campaign.out.display()), e.to_string(), "Name another folder"))?;
    let mut journal = Journal::open(&campaign.out.join(JOURNAL), &names, &campaign.digest())?;
    let done = journal.measured();
    let mut outcome = Outcome { before: done.len(), ..Outcome::default() };
    if !done.is_empty() {
        progress(&format!("{} of {} points were measured before", done.len(), points.len()));
    }
    let waiting = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::input("starting the client", e.to_string(), ""))?;
    let missing = |f: &Finalist| -> Vec<(usize, &Point<'_>)> {
        let of = |(_, p): &(usize, &Point<'_>)| p.finalist == f && !done.contains(&p.folder);
        points.iter().enumerate().filter(of).collect()
    };
    for finalist in &campaign.finalists {
        let missing = missing(finalist);
        if missing.is_empty() {
            continue;
        }
        let engine = match start(campaign, finalist, &mut journal, &waiting, progress) {
            Ok(Started::Ready(engine)) => engine,
            Ok(Started::Interrupted) => {
                outcome.interrupted = true;
                break;
            }
            Err(e) if campaign.launch.is_some() && e.tried != BUSY => {
                progress(&format!("{}: {e}", finalist.name));
                journal.add(Step::Failed { point: finalist.folder(), why: e.to_string() })?;
                outcome.failed.extend(missing.iter().map(|(_, p)| (p.folder.clone(), e.to_string())));
                continue;
            }
            Err(e) => return Err(e),
        };
        let launched = engine.is_some();
        let engine_version = waiting.block_on(reported_version(&campaign.base.endpoint));
        for (i, (index, point)) in missing.into_iter().enumerate() {
            let folder = campaign.out.join(&point.folder);
            clear(&folder)?;
            let tries = journal.tries(&point.folder);
            journal.add(Step::Started { point: point.folder.clone() })?;
            let options = campaign.options(index, tries, point, i == 0);
            let result =
                campaign::run(options, tokenizer.clone(), |step| progress(&format!("{}: {step}", point.folder)));
            let summary = match result {
                Ok(summary) => summary,
                Err(e) => {
                    progress(&format!("{}: {e}", point.folder));
                    journal.add(Step::Failed { point: point.folder.clone(), why: e.to_string() })?;
                    outcome.failed.push((point.folder.clone(), e.to_string()));
                    continue;
                }
            };
            if summary.timeline.iter().any(|s| s.what == INTERRUPTED) {
                outcome.interrupted = true;
                break;
            }
            let engine_version = engine_version.clone();
            keep(&MeasuredPoint { finalist, folder: &folder, summary: &summary, engine_version, launched })?;
            journal.add(Step::Measured { point: point.folder.clone() })?;
            outcome.measured += 1;
        }
        if let Some(engine) = engine {
            engine.stop();
            journal.add(Step::Stopped { finalist: finalist.folder() })?;
        }
        if outcome.interrupted {
            break;
        }
    }
    if outcome.interrupted {
        journal.add(Step::Interrupted)?;
    }
    Ok(outcome)
}

/// A torn try leaves nothing that could be taken for a result.
fn clear(folder: &Path) -> Result<()> {
    match std::fs::remove_file(folder.join(output::SUMMARY)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::input(folder.display().to_string(), e.to_string(), "Check the folder's permissions"))
        }
        _ => Ok(()),
    }
}

enum Started {
    Ready(Option<Engine>),
    Interrupted,
}

const BUSY: &str = "--launch";

fn start(
    campaign: &Campaign,
    finalist: &Finalist,
    journal: &mut Journal,
    waiting: &tokio::runtime::Runtime,
    progress: &dyn Fn(&str),
) -> Result<Started> {
    let Some(command) = &campaign.launch else { return Ok(Started::Ready(None)) };
    let health = campaign.base.endpoint.sibling(&campaign.health);
    if waiting.block_on(answers(&health)) {
        let left = journal.engine_left().map(|g| format!(" (process group {g} was left by a run that was killed)"));
        let found = format!("something answers at {health} already{}", left.unwrap_or_default());
        return Err(Error::input(BUSY, found, "Stop it first, or leave --launch out to measure it"));
    }
    let folder = campaign.out.join(finalist.folder());
    std::fs::create_dir_all(&folder)
        .map_err(|e| Error::input(folder.display().to_string(), e.to_string(), "Check the folder's permissions"))?;
    progress(&format!("{}: starting the engine", finalist.name));
    let mut engine = Engine::start(command, finalist, &folder.join("engine.log"))?;
    let process_group = engine.process_group();
    journal.add(Step::Engine { finalist: finalist.folder(), process_group })?;
    let ready = waiting.block_on(async {
        tokio::select! {
            ready = engine.ready(&health, campaign.start_limit) => Some(ready),
            () = stopped_by_user() => None,
        }
    });
    let outcome = match ready {
        Some(Ok(())) => return Ok(Started::Ready(Some(engine))),
        Some(Err(e)) => Err(e),
        None => Ok(Started::Interrupted),
    };
    engine.stop();
    journal.add(Step::Stopped { finalist: finalist.folder() })?;
    outcome
}
