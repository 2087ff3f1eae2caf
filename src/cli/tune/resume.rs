//! Keeps a search's evaluations beside its report while it runs, and takes up a run that was stopped.

use super::arguments::Arguments;
use crate::report::ReportFolder;
use crate::search::Figures;
use crate::search::journal::{Header, Journal, Recorded};
use crate::{Error, Result};
use clap::Parser;
use std::path::{Path, PathBuf};

/// Name of the journal in a run's folder.
const JOURNAL: &str = "journal.jsonl";

/// A journal to write to, and what it held already.
pub struct Kept {
    pub journal: Journal,
    pub entries: Vec<(u64, Figures)>,
}

/// A run that was stopped.
pub struct Earlier {
    run: PathBuf,
    journal: Journal,
    recorded: Recorded<Figures>,
}

impl Earlier {
    /// Reads the run that `--resume` names, if any; what is to be done is then what that run was told, but for the few
    /// flags that may change.
    ///
    /// # Errors
    /// No such run, or one that kept no journal.
    pub fn read(arguments: Arguments) -> Result<(Arguments, Option<Self>)> {
        let Some(run) = arguments.resume.clone() else { return Ok((arguments, None)) };
        let path = run.join(JOURNAL);
        let (journal, recorded) = Journal::resume::<Figures>(&path)?;
        let mut told = Arguments::try_parse_from(&recorded.header.arguments).map_err(|e| {
            let found = e.to_string().lines().next().unwrap_or_default().to_string();
            Error::input(format!("journal {}", path.display()), found, "Resume it with the version that wrote it")
        })?;
        told.budget = arguments.budget.or(told.budget);
        told.json = arguments.json;
        told.no_report = arguments.no_report;
        Ok((told, Some(Self { run, journal, recorded })))
    }

    /// The command line of the run.
    pub fn arguments(&self) -> &[String] {
        &self.recorded.header.arguments
    }

    /// Where its report belongs.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn folder(&self) -> Result<ReportFolder> {
        ReportFolder::prepare_in(&self.run)
    }

    /// What it had found.
    ///
    /// # Errors
    /// The inputs are no longer those of the run.
    pub fn kept(self, fingerprint: &str) -> Result<Kept> {
        let header = &self.recorded.header;
        if header.inputs != fingerprint {
            let found = if header.version == env!("CARGO_PKG_VERSION") {
                "the target, model, engine, calibration, space or objective has changed since".to_string()
            } else {
                format!("was written by version {}", header.version)
            };
            return Err(Error::input(
                format!("--resume {}", self.run.display()),
                found,
                "Restore them, or start the search anew",
            ));
        }
        Ok(Kept { journal: self.journal, entries: self.recorded.entries })
    }
}

/// A journal in the place of a report that is yet to be written.
///
/// # Errors
/// The place cannot be taken.
pub fn start(folder: &mut ReportFolder, fingerprint: String, arguments: &[String], started: &str) -> Result<Kept> {
    let place = folder.claim()?;
    let header = Header::new(fingerprint, arguments.to_vec(), started.to_string());
    let journal = Journal::create(&place.join(JOURNAL), &header)?;
    Ok(Kept { journal, entries: Vec::new() })
}

/// How an interrupted search goes on.
pub fn advice(place: &Path) -> String {
    let place = place.display().to_string();
    format!("The search was interrupted; continue it with inferasim-tune --resume {}", crate::export::shell(&place))
}
