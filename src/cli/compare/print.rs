//! How a comparison is shown: a table, Markdown for a CI summary, JSON.

use crate::anchor::comparison::{Comparison as Shown, Moved, Row};
use crate::objective::Metric;
use crate::report::terminal::table::Table;
use crate::{Error, Result};
use serde_json::json;

/// Figures shown beside the objective's.
const SHOWN: [Metric; 3] = [Metric::TtftMs, Metric::TpotMs, Metric::OutputTokS];

fn pair(row: &Row, metric: Metric) -> String {
    let found = row.figures.iter().find(|f| f.metric == metric);
    found.map_or("-".into(), |f| format!("{} > {}", metric.show(f.predicted), metric.show(f.measured)))
}

fn place(row: &Row) -> String {
    format!("{} > {}", row.predicted_rank, row.measured_rank.map_or("-".to_string(), |r| r.to_string()))
}

fn metrics(shown: &Shown) -> Vec<Metric> {
    let others = SHOWN.into_iter().filter(|m| *m != shown.objective);
    std::iter::once(shown.objective).chain(others).collect()
}

fn off(row: &Row, objective: Metric) -> String {
    let found = row.figures.iter().find(|f| f.metric == objective);
    found.map_or("-".into(), |f| format!("{:+.1} %", 100.0 * (f.ratio - 1.0)))
}

fn band(row: &Row, objective: Metric) -> String {
    let found = row.figures.iter().find(|f| f.metric == objective);
    found.map_or("-".into(), |f| format!("{}..{}", objective.show(f.low), objective.show(f.high)))
}

fn counts(shown: &Shown) -> String {
    let count = |moved: Moved| shown.finalists.iter().filter(|f| f.moved == moved).count();
    let all = [Moved::AsPredicted, Moved::Better, Moved::Worse, Moved::NotMeasured];
    let parts = all.into_iter().filter(|m| count(*m) > 0).map(|m| format!("{} {}", count(m), m.word()));
    parts.collect::<Vec<_>>().join(", ")
}

/// What must be known beside the figures, a line each.
fn notes(shown: &Shown) -> Vec<String> {
    let mut notes = vec![];
    for row in &shown.finalists {
        notes.extend(row.note.iter().map(|note| format!("{}: {note}", row.name)));
        notes.extend(row.breaks.iter().map(|limit| format!("{}: {limit}", row.name)));
    }
    if shown.other_loads > 0 {
        notes.push(format!("{} results at other loads count as anchors only.", shown.other_loads));
    }
    notes
}

/// What stands on the runs from now on.
#[derive(Debug, Default)]
pub struct Next {
    /// The search that wrote the shortlist, with the anchors.
    pub search: Option<String>,
    /// The fit of serving constants on the store, where it holds enough runs.
    pub calibrate: Option<String>,
}

fn recalibrated(anchors: usize, next: &Next) -> Vec<String> {
    let mut lines = match &next.search {
        Some(_) if anchors == 0 => vec!["No run can be an anchor: nothing to stand on.".into()],
        Some(command) => vec![
            format!("Recalibrated: {anchors} runs kept as anchors. The next search stands on them:"),
            format!("  {command}"),
        ],
        None => vec![format!("{anchors} runs can be anchors: add --anchors DIR to keep them for the next search.")],
    };
    if let Some(command) = &next.calibrate {
        lines.push("Serving constants fitted on them, for --calibration:".into());
        lines.push(format!("  {command}"));
    }
    lines
}

/// The table of a terminal.
pub fn text(shown: &Shown, anchors: usize, next: &Next) {
    println!("{}", shown.winner.verdict);
    println!("{} by {} (predicted > measured):", counts(shown), shown.objective.label());
    let metrics: Vec<Metric> = metrics(shown).into_iter().take(3).collect();
    let mut columns = vec![("rank", false)];
    columns.extend(metrics.iter().map(|m| (m.label(), true)));
    columns.extend([("off", true), ("band", true), ("moved", false), ("finalist", false)]);
    let mut table = Table::new(&columns);
    for row in &shown.finalists {
        let mut cells = vec![place(row)];
        cells.extend(metrics.iter().map(|m| pair(row, *m)));
        cells.extend([
            off(row, shown.objective),
            band(row, shown.objective),
            row.moved.word().into(),
            row.name.clone(),
        ]);
        table.row(cells);
    }
    table.lines().iter().for_each(|line| println!("{line}"));
    notes(shown).iter().for_each(|note| println!("{note}"));
    recalibrated(anchors, next).iter().for_each(|line| println!("{line}"));
}

/// The verdict for a CI summary or a comment.
pub fn markdown(shown: &Shown, next: &Next) -> String {
    let metrics = metrics(shown);
    let mut lines = vec![
        "## Measured finalists".to_string(),
        String::new(),
        format!("**{}** {}.", shown.winner.verdict, counts(shown)),
        String::new(),
    ];
    let heads: Vec<&str> = metrics.iter().map(|m| m.label()).collect();
    lines.push(format!("| rank | finalist | {} | off | band | moved |", heads.join(" | ")));
    lines.push(format!("|---|---|{}---|---|---|", "---|".repeat(metrics.len())));
    for row in &shown.finalists {
        let cells: Vec<String> = metrics.iter().map(|m| pair(row, *m)).collect();
        lines.push(format!(
            "| {} | {} | {} | {} | {} | {} |",
            place(row),
            row.name.replace('|', "\\|"),
            cells.join(" | "),
            off(row, shown.objective),
            band(row, shown.objective),
            row.moved.word()
        ));
    }
    lines.extend([String::new(), "Each cell: predicted > measured.".to_string()]);
    lines.extend(notes(shown).into_iter().map(|note| format!("- {note}")));
    if let Some(command) = &next.search {
        lines.extend([
            String::new(),
            "The next search stands on these runs:".to_string(),
            String::new(),
            format!("    {command}"),
        ]);
    }
    lines.join("\n").replace(" > ", " → ") + "\n"
}

/// Everything.
pub fn json(shown: &Shown, anchors: usize, next: &Next) -> Result<String> {
    let document = json!({"schema": "inferasim.compare/1", "comparison": shown, "differs": shown.differs(), "anchors": anchors, "next": next.search,
        "calibrate": next.calibrate});
    serde_json::to_string_pretty(&document).map_err(|e| Error::input("--json", e.to_string(), ""))
}
