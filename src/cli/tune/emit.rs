//! `--emit`: the CI job that measures what the search shortlisted.

use super::Arguments;
use crate::export::github::{Job, workflow};
use crate::measure::output::write_whole;
use crate::report::RunRecord;
use crate::report::shortlist::shortlist;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// CI systems that a job can be written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum System {
    /// A GitHub Actions workflow.
    Github,
}

/// Refuses what would only fail after the search.
pub fn check(arguments: &Arguments) -> Result<()> {
    if arguments.emit.is_some() && arguments.emit_to.is_none() && arguments.no_report {
        return Err(Error::input("--emit with --no-report", "no folder for the job", "Name its file with --emit-to"));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if let Some(label) = arguments.runner.iter().find(|l| l.is_empty() || !l.chars().all(plain)) {
        return Err(Error::input(format!("--runner {label}"), "no label", "Use letters, digits, `-`, `_` and `.`"));
    }
    Ok(())
}

/// Writes the job; its place. Nothing where no job is asked for, or nothing is feasible.
///
/// # Errors
/// An engine without a launch command; a file that cannot be written.
pub fn write(arguments: &Arguments, record: &RunRecord, report: Option<&Path>) -> Result<Option<PathBuf>> {
    let Some(System::Github) = arguments.emit else { return Ok(None) };
    if record.best.is_none() {
        return Ok(None);
    }
    let Some(file) = arguments.emit_to.clone().or_else(|| report.map(|folder| folder.join("measure.yml"))) else {
        return Ok(None);
    };
    let words: Vec<String> = record.arguments.iter().map(|w| crate::export::shell(w)).collect();
    let default = ["self-hosted".to_string(), record.target.gpu.to_ascii_lowercase().replace(' ', "-")];
    let runner = if arguments.runner.is_empty() { &default[..] } else { &arguments.runner };
    let shortlist = shortlist(record);
    let text = workflow(&Job { shortlist: &shortlist, command: &words.join(" "), runner })?;
    if let Some(folder) = file.parent().filter(|f| !f.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::input(format!("--emit-to {}", file.display()), e.to_string(), "Name another file"))?;
    }
    write_whole(&file, text.as_bytes())?;
    Ok(Some(file))
}
