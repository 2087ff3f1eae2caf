//! `--plot`: latency against load as a picture.

use crate::report::plots::load_curve::{LoadCurve, Panel};
use crate::report::plots::{png, svg};
use crate::sim::report::{Latency, Report};
use crate::sim::slo::SloSet;
use crate::sim::sweep::CurvePoint;
use crate::{Error, Result};
use std::path::Path;

/// Refuses a file of another kind before anything is simulated.
pub fn check(file: &Path) -> Result<()> {
    match file.extension().and_then(|e| e.to_str()) {
        Some("svg" | "png") => Ok(()),
        _ => Err(Error::input(format!("--plot {}", file.display()), "neither .svg nor .png", "Name it so")),
    }
}

/// Writes the plot where one is asked for.
pub fn write(
    file: Option<&Path>,
    about: &str,
    points: &[CurvePoint],
    slos: &SloSet,
    mark: Option<(f64, String)>,
) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    type Pick = fn(&Report) -> &Latency;
    let figures: [(&str, &str, Pick); 3] =
        [("ttft", "TTFT, ms", |r| &r.ttft_ms), ("tpot", "TPOT, ms", |r| &r.tpot_ms), ("e2e", "E2E, ms", |r| &r.e2e_ms)];
    let panel = |(name, quantity, pick): (&str, &str, Pick)| Panel {
        quantity: quantity.to_string(),
        values: points.iter().map(|p| (pick(&p.report).mean, pick(&p.report).p99)).collect(),
        limits: slos.on(name),
    };
    let chart = LoadCurve {
        title: "Latency against load".to_string(),
        subtitle: about.to_string(),
        rates: points.iter().map(|p| p.rate).collect(),
        saturated: points.iter().map(|p| p.report.saturated).collect(),
        mark,
        panels: figures.map(panel).to_vec(),
    };
    if file.extension().is_some_and(|e| e == "png") {
        return png(&chart, file);
    }
    let failed = |e: std::io::Error| {
        Error::input(file.display().to_string(), format!("cannot be written: {e}"), "Give a file in an existing folder")
    };
    std::fs::write(file, svg(&chart)?).map_err(failed)
}
