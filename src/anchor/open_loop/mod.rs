//! How far are simulated latencies from runs of real engines under open load?
//!
//! Two kinds of file are known: runs with means and percentiles at a stated rate ([`runs`]), which are simulated with the
//! projector's step cost, tuned on the runs of other models; and single requests with the engine's own timestamps
//! ([`requests`]), where a step cost is fitted on every other request and scored on the rest.

pub mod fit;
pub mod requests;
pub mod runs;

use crate::{Error, Result};
use serde::Serialize;
use std::path::Path;

/// What a file of measurements holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    /// One row per run.
    Runs(Vec<runs::Run>),
    /// One row per request.
    Requests(Vec<requests::Setup>),
}

impl Measured {
    /// Reads a CSV file; its columns say which kind it is.
    ///
    /// # Errors
    /// Unreadable files, missing columns and fields that are no numbers, each with its line.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let mut reader = csv::Reader::from_path(path)
            .map_err(|e| Error::input(&name, format!("cannot be read: {e}"), "Give a CSV file of measurements"))?;
        let columns: Vec<String> = reader
            .headers()
            .map_err(|e| Error::input(&name, format!("no header: {e}"), ""))?
            .iter()
            .map(str::to_string)
            .collect();
        let has = |wanted: &str| columns.iter().any(|c| c == wanted);
        if has("rate_rps") {
            Ok(Self::Runs(runs::read(&name, &mut reader)?))
        } else if has("meas_ttft_ms") && has("arrival_s") {
            Ok(Self::Requests(requests::read(&name, &mut reader)?))
        } else {
            Err(Error::input(
                name,
                format!("columns {}", columns.join(", ")),
                "Runs need `rate_rps`; requests need `arrival_s` and `meas_ttft_ms`",
            ))
        }
    }
}

/// A field of a row, by the name of its column.
pub(super) struct Row<'a> {
    file: &'a str,
    line: u64,
    fields: std::collections::HashMap<String, String>,
}

impl<'a> Row<'a> {
    fn all(file: &'a str, reader: &mut csv::Reader<std::fs::File>) -> Result<Vec<Row<'a>>> {
        let mut rows = Vec::new();
        for record in reader.deserialize() {
            let fields = record.map_err(|e: csv::Error| {
                let line = e.position().map_or(0, csv::Position::line);
                Error::input(format!("{file}:{line}"), format!("not a row: {e}"), "")
            })?;
            rows.push(Row { file, line: rows.len() as u64 + 2, fields });
        }
        Ok(rows)
    }

    fn text(&self, column: &str) -> &str {
        self.fields.get(column).map_or("", |s| s.trim())
    }

    fn maybe(&self, column: &str) -> Result<Option<f64>> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(Some(value)),
            _ => Err(self.bad(column, format!("`{text}` is not a number of at least 0"))),
        }
    }

    fn number(&self, column: &str) -> Result<f64> {
        self.maybe(column)?.ok_or_else(|| self.bad(column, "empty".into()))
    }

    /// A count from 1 to what a u32 holds.
    fn count(&self, column: &str) -> Result<u32> {
        let value = self.number(column)?.round();
        if (1.0..=f64::from(u32::MAX)).contains(&value) {
            Ok(value as u32)
        } else {
            Err(self.bad(column, format!("{value} is not a count from 1")))
        }
    }

    fn bad(&self, column: &str, found: String) -> Error {
        Error::input(format!("{}:{}", self.file, self.line), format!("`{column}`: {found}"), "")
    }
}

/// A measured figure and what the simulation says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pair {
    /// Measured, ms.
    pub measured: f64,
    /// Simulated, ms.
    pub simulated: f64,
}

impl Pair {
    /// Simulated over measured, less 1, in %.
    pub fn error_pct(&self) -> f64 {
        100.0 * (self.simulated / self.measured - 1.0)
    }
}

/// Mean of |error| over pairs, in %; `None` without any.
pub fn mape(pairs: impl Iterator<Item = Pair>) -> Option<f64> {
    let errors: Vec<f64> = pairs.map(|p| p.error_pct().abs()).collect();
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}

/// All scores of the files given.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OpenLoop {
    /// Mean errors over the runs that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// Every run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<runs::ScoredRun>,
    /// Every set-up of single requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub setups: Vec<requests::ScoredSetup>,
}

/// Mean |error| over runs that were neither overloaded nor refused, %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// Runs that count.
    pub runs: usize,
    /// Mean E2E.
    pub e2e_mape: f64,
    /// Mean TPOT.
    pub tpot_mape: f64,
    /// Mean TTFT.
    pub ttft_mape: f64,
    /// 99th percentile of TTFT.
    pub ttft_p99_mape: f64,
    /// Overloaded runs.
    pub overloaded: usize,
    /// Of those, runs whose simulation is saturated.
    pub overload_seen: usize,
}

impl OpenLoop {
    /// Reads and scores files.
    ///
    /// # Errors
    /// See [`Measured::read`].
    pub fn score(files: &[std::path::PathBuf], calibration: &crate::cost::Calibration) -> Result<Self> {
        let mut all = Self::default();
        for file in files {
            match Measured::read(file)? {
                Measured::Runs(list) => all.runs.extend(runs::score(&list, calibration)),
                Measured::Requests(setups) => all.setups.extend(requests::score(&setups)),
            }
        }
        all.summary = all.summarise();
        Ok(all)
    }

    fn summarise(&self) -> Option<Summary> {
        let answered = || self.runs.iter().filter(|r| r.refused.is_none());
        let counted: Vec<&runs::ScoredRun> = answered().filter(|r| !r.overloaded).collect();
        let over = |figure: fn(&runs::ScoredRun) -> Pair| mape(counted.iter().map(|r| figure(r)));
        Some(Summary {
            runs: counted.len(),
            e2e_mape: over(|r| r.e2e)?,
            tpot_mape: over(|r| r.tpot)?,
            ttft_mape: over(|r| r.ttft)?,
            ttft_p99_mape: over(|r| r.ttft_p99)?,
            overloaded: answered().filter(|r| r.overloaded).count(),
            overload_seen: answered().filter(|r| r.overloaded && r.simulated_saturated).count(),
        })
    }
}
