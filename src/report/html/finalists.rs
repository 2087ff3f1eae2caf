//! The deployments worth measuring: why each is listed and between which values a measurement should lie.

use super::tables::table;
use crate::report::record::{Finalist, RunRecord};
use crate::report::text::{self, count, html as esc, number, percent};

/// The finalists; nothing where nothing is feasible.
pub fn finalists(record: &RunRecord) -> String {
    let Some(first) = record.shortlist.first() else { return String::new() };
    let metric = &record.objective.metric;
    let head = [
        ("#", true),
        ("layout", false),
        ("concurrency", true),
        (record.objective.label.as_str(), true),
        ("low", true),
        ("high", true),
        ("best of the list", true),
        ("tells, bits", true),
        ("why", false),
    ];
    let row = |f: &Finalist| {
        let range = f.ranges.iter().find(|r| r.key == *metric);
        let end = |value: Option<f64>| value.map_or_else(|| "?".to_string(), number);
        let cells = vec![
            count(f.candidate.rank),
            text::layout(&f.candidate.deployment),
            count(u64::from(f.candidate.deployment.concurrency)),
            number(f.candidate.objective),
            end(range.map(|r| r.low)),
            end(range.map(|r| r.high)),
            percent(f.win_probability, 1.0),
            format!("{:.2}", f.information_bits),
            f.reason.clone(),
        ];
        (cells, if f.role == "best" { "best" } else { "" })
    };
    format!(
        "<section class=\"long\"><h2>Worth measuring</h2><p class=\"muted small\">{} of 100 measurements are expected \
         between low and high; the bands of the first rest on {}. shortlist.json holds these as a CI \
         matrix.</p>{}</section>\n",
        (first.band_coverage * 100.0).round(),
        esc(&first.band_origin),
        table(&head, record.shortlist.iter().map(row))
    )
}
