//! Measured serving points: one row of a CSV file, as published benchmark collections lay them out.

use crate::{Error, Result};
use std::collections::HashMap;
use std::path::Path;

/// One measured point. Lengths are nominal; times in ms; an absent figure was not reported.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MeasuredPoint {
    /// Identifier of the row.
    pub id: String,
    /// Line in the file, 1 for the header.
    pub line: u64,
    /// GPU name.
    pub hardware: String,
    /// GPUs of the whole deployment.
    pub gpus: f64,
    /// Model name.
    pub model: String,
    /// Engine name.
    pub engine: String,
    /// Engine version or image.
    pub engine_version: String,
    /// Weight precision.
    pub precision: String,
    /// KV cache precision, empty where not recorded.
    pub kv_dtype: String,
    /// Date, YYYY-MM-DD, empty where not recorded.
    pub date: String,
    /// Tensor-parallel width.
    pub tp: Option<u32>,
    /// Expert-parallel groups.
    pub ep: Option<u32>,
    /// Attention runs data-parallel over the width.
    pub dp_attention: bool,
    /// Disaggregated layout, as recorded.
    pub disagg: String,
    /// Speculative method, empty or `none` without.
    pub speculation: String,
    /// Prompt length, nominal.
    pub isl: f64,
    /// Answer length, nominal.
    pub osl: f64,
    /// Lengths are uniform on [ratio · nominal, nominal].
    pub range_ratio: f64,
    /// Requests in flight.
    pub concurrency: u32,
    /// Mean TTFT.
    pub ttft_ms: Option<f64>,
    /// Median TTFT.
    pub ttft_p50_ms: Option<f64>,
    /// Mean TPOT, or the median where only that was recorded.
    pub tpot_ms: Option<f64>,
    /// Mean over median TPOT, where both were recorded.
    pub tpot_mean_over_median: Option<f64>,
    /// Output tokens per second.
    pub output_tok_s: Option<f64>,
    /// Input and output tokens per second.
    pub total_tok_s: Option<f64>,
    /// Input and output tokens per second and GPU.
    pub tok_s_per_gpu: Option<f64>,
    /// Runs of this configuration with their lowest and highest tokens per second and GPU, where several were made.
    pub repeats: Option<Repeats>,
}

/// Repeated runs of one configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repeats {
    /// Runs.
    pub runs: u32,
    /// Lowest tokens per second and GPU.
    pub low: f64,
    /// Highest.
    pub high: f64,
}

/// Which of the three ways of serving a row measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServingKind {
    /// One pool, no speculation.
    Aggregated,
    /// One pool, speculative decoding.
    Speculative,
    /// Prefill and decode in separate pools.
    Disaggregated,
}

impl ServingKind {
    /// The short word of the tables.
    pub fn word(self) -> &'static str {
        match self {
            ServingKind::Aggregated => "agg",
            ServingKind::Speculative => "spec",
            ServingKind::Disaggregated => "disagg",
        }
    }
}

impl MeasuredPoint {
    /// How the row was served.
    pub fn kind(&self) -> ServingKind {
        if !self.disagg.is_empty() {
            ServingKind::Disaggregated
        } else if !matches!(self.speculation.as_str(), "" | "none") {
            ServingKind::Speculative
        } else {
            ServingKind::Aggregated
        }
    }

    /// Mean output rate per GPU of everything, input and output.
    pub fn per_gpu(&self) -> Option<f64> {
        self.tok_s_per_gpu.or_else(|| Some(self.total_tok_s? / self.gpus))
    }
}

/// Columns a file must have.
const REQUIRED: [&str; 9] = ["id", "hardware", "num_gpus", "model", "engine", "precision", "isl", "osl", "concurrency"];

/// Length spread of a source that did not record one: the InferenceX client uses 0.8; the sources that say otherwise
/// are named by the prefix of their row ids.
fn default_ratio(id: &str) -> f64 {
    match id.split('-').next() {
        Some("ir" | "mo" | "inf") => 1.0,
        _ => 0.8,
    }
}

/// Reads a file of measured points.
///
/// # Errors
/// An unreadable file, a missing column, a row without a usable number where one is needed; each names the line.
pub fn read(path: &Path) -> Result<Vec<MeasuredPoint>> {
    let shown = path.display().to_string();
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_path(path)
        .map_err(|e| Error::input(&shown, format!("cannot be read: {e}"), ""))?;
    let headers = reader
        .headers()
        .map_err(|e| Error::input(&shown, format!("is not a CSV file: {e}"), "Give a UTF-8 CSV file with a header"))?
        .clone();
    let columns: HashMap<&str, usize> = headers.iter().enumerate().map(|(i, h)| (h.trim(), i)).collect();
    let missing: Vec<&str> = REQUIRED.iter().copied().filter(|c| !columns.contains_key(c)).collect();
    if !missing.is_empty() {
        return Err(Error::input(
            format!("{shown}:1"),
            format!("the header lacks {}", missing.join(", ")),
            format!("A measured file has at least the columns {}", REQUIRED.join(", ")),
        ));
    }
    let mut points = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| Error::input(&shown, format!("{e}"), "Check the row's quotes and encoding"))?;
        points.push(row(&shown, &columns, &record)?);
    }
    if points.is_empty() {
        return Err(Error::input(&shown, "holds no rows", "Give at least one measured point"));
    }
    Ok(points)
}

fn row(shown: &str, columns: &HashMap<&str, usize>, record: &csv::StringRecord) -> Result<MeasuredPoint> {
    let line = record.position().map_or(0, csv::Position::line);
    let text = |name: &str| columns.get(name).and_then(|&i| record.get(i)).unwrap_or("").trim();
    let number = |name: &str| -> Result<Option<f64>> {
        let cell = text(name);
        if cell.is_empty() {
            return Ok(None);
        }
        match cell.parse::<f64>() {
            Ok(v) if v.is_finite() && v >= 0.0 => Ok(Some(v)),
            _ => Err(Error::input(
                format!("{shown}:{line}"),
                format!("column `{name}` holds `{cell}`"),
                "Give a number of at least 0, or leave the cell empty",
            )),
        }
    };
    let needed = |name: &str| -> Result<f64> {
        number(name)?.filter(|v| *v > 0.0).ok_or_else(|| {
            Error::input(format!("{shown}:{line}"), format!("column `{name}` is empty or 0"), "Every row needs it")
        })
    };
    let whole = |name: &str| -> Result<Option<u32>> { Ok(number(name)?.filter(|v| *v >= 1.0).map(|v| v as u32)) };
    let id = text("id").to_string();
    let ratio = number("random_range_ratio")?.filter(|r| *r > 0.0 && *r <= 1.0).unwrap_or_else(|| default_ratio(&id));
    Ok(MeasuredPoint {
        line,
        hardware: text("hardware").into(),
        gpus: needed("num_gpus")?,
        model: text("model").into(),
        engine: text("engine").into(),
        engine_version: text("engine_version").into(),
        precision: text("precision").to_lowercase(),
        kv_dtype: text("kv_dtype").to_lowercase(),
        date: text("date").into(),
        tp: whole("tp")?,
        ep: whole("ep")?,
        dp_attention: text("dp_attention").eq_ignore_ascii_case("true"),
        disagg: text("disagg").into(),
        speculation: text("spec_decode").into(),
        isl: needed("isl")?,
        osl: needed("osl")?,
        range_ratio: ratio,
        concurrency: needed("concurrency")? as u32,
        ttft_ms: number("ttft_mean_ms")?,
        ttft_p50_ms: number("ttft_median_ms")?,
        tpot_ms: number("tpot_mean_ms")?.or(number("tpot_median_ms")?).filter(|v| *v > 0.0),
        tpot_mean_over_median: match (number("tpot_mean_ms")?, number("tpot_median_ms")?) {
            (Some(mean), Some(median)) if mean > 0.0 && median > 0.0 => Some(mean / median),
            _ => None,
        },
        output_tok_s: number("output_tok_s")?,
        total_tok_s: number("total_tok_s")?,
        tok_s_per_gpu: number("tput_per_gpu")?,
        repeats: match (whole("n_rows")?, number("tput_min")?, number("tput_max")?) {
            (Some(runs), Some(low), Some(high)) if runs > 1 && low > 0.0 && high >= low => {
                Some(Repeats { runs, low, high })
            }
            _ => None,
        },
        id,
    })
}
