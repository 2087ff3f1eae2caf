//! The report as one self-contained HTML page: inline style and plots, no script, no request to anywhere.

mod answer;
mod evidence;
mod finalists;
mod tables;

use super::plots::{Chart, breakdown, fronts, svg};
use super::record::{CalibrationLevel, RunRecord};
use super::text::html as esc;
use crate::Result;

/// Style sheet of every page.
pub const STYLE: &str = include_str!("style.css");

/// What the page says about files beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beside {
    /// Rows of `points.csv`.
    pub points_written: u64,
    /// Feasible points it leaves out.
    pub points_left_out: u64,
}

/// The page.
pub fn page(record: &RunRecord, beside: Beside) -> Result<String> {
    let level = record.calibration_level();
    let sections = [
        answer::hero(record),
        answer::reasons(record),
        answer::calibration(record),
        answer::warnings(record),
        plots(record)?,
        evidence::top(record),
        finalists::finalists(record),
        evidence::memory(record),
        evidence::search(record, beside),
        evidence::inputs(record),
        evidence::definitions(record),
        evidence::reproduce(record),
    ];
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\n<style>\n{STYLE}</style></head>\n\
         <body><main>\n<header><h1>{title}</h1><p class=\"muted\">{intro} {badge}</p></header>\n{body}\
         <p class=\"muted small\">InferaSim {version}, {started}. Every figure is a prediction unless it says \
         measured.</p>\n</main></body></html>\n",
        title = esc(&format!("Which deployment? {}", record.title())),
        intro = esc(&intro(record)),
        badge = badge(level, &format!("calibration: {level}")),
        body = sections.concat(),
        version = esc(&record.version),
        started = esc(&record.started),
    ))
}

fn intro(record: &RunRecord) -> String {
    let w = &record.workload;
    let slos: Vec<String> = record.objective.slos.iter().map(ToString::to_string).collect();
    let limits = if slos.is_empty() { "no SLO".to_string() } else { slos.join(", ") };
    let aim = if record.objective.maximise { "Most" } else { "Least" };
    let hits = if w.prefix_hit_rate > 0.0 {
        format!(", {:.0} % prefix hits", 100.0 * w.prefix_hit_rate)
    } else {
        String::new()
    };
    format!("{aim} {} for {} input and {} output tokens{hits}, under {limits}.", record.objective.label, w.isl, w.osl)
}

fn plots(record: &RunRecord) -> Result<String> {
    let pareto = inline(&fronts::pareto(record), "Pareto front of throughput per GPU against speed per user")?;
    let mut body = format!(
        "<section><h2>Throughput against speed</h2>{pareto}<details><summary>Every point of the front</summary>{}\
         </details></section>\n",
        tables::candidates(&record.front, record)
    );
    if let Some(chart) = fronts::cost(record) {
        body.push_str(&format!(
            "<section><h2>Cost against speed</h2>{}</section>\n",
            inline(&chart, "Pareto front of cost against speed per user")?
        ));
    }
    let chart = breakdown::breakdown(record);
    if !chart.bars.is_empty() {
        let plot = inline(&chart, "Time of one output token by part")?;
        body.push_str(&format!("<section><h2>Where the time goes</h2>{plot}</section>\n"));
    }
    Ok(body)
}

/// An SVG inside the page: its own namespace is implied, its colours follow the page.
fn inline(chart: &dyn Chart, label: &str) -> Result<String> {
    let text = svg(chart)?;
    let start = text.find("<svg").unwrap_or(0);
    let bare = text[start..].replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
    let named = bare.replacen("<svg", &format!("<svg role=\"img\" aria-label=\"{}\"", esc(label)), 1);
    Ok(format!("<div class=\"plot\">{named}</div>"))
}

fn badge(level: CalibrationLevel, text: &str) -> String {
    let class = match level {
        CalibrationLevel::Calibrated => "calibrated",
        CalibrationLevel::Neighbour => "neighbour",
        CalibrationLevel::Uncalibrated => "uncalibrated",
    };
    format!("<span class=\"badge {class}\">{}</span>", esc(text))
}
