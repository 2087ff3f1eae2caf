//! The answer as a terminal shows it: at most 100 columns, plain when piped, coloured only where it helps.

mod explain;
mod project;
pub mod table;

pub use project::projection;

use super::record::{CalibrationLevel, CalibrationStatement, Candidate, Group, RunRecord};
use super::shortlist::launch_of;
use super::text::{self, count, dollars, number};
use std::io::IsTerminal;
use table::{Table, WIDTH, wrap, wrap_shell};

/// Whether escapes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Bold and coloured text.
    pub color: bool,
}

impl Style {
    /// No escapes.
    pub const PLAIN: Style = Style { color: false };

    /// Colour on a terminal only, and not where `NO_COLOR` is set (no-color.org) or the terminal is dumb.
    pub fn of_stdout() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        Self { color: std::io::stdout().is_terminal() && !set("NO_COLOR") && !dumb }
    }

    fn paint(self, text: &str, code: &str) -> String {
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_string() }
    }

    fn heading(self, text: &str) -> String {
        self.paint(text, "1")
    }
}

/// The whole answer, ending in a line end.
pub fn answer(record: &RunRecord, style: Style) -> String {
    let blocks = [
        searched(record, style),
        groups("Rejected", &record.rejected, style),
        groups("Illegal", &record.illegal, style),
        top_ten(record, style),
        recommendation(record, style),
        verified(record, style),
        calibration(record, style),
        list("Warnings", &record.warnings, style),
        definitions(record, style),
    ];
    let lines: Vec<String> = blocks.into_iter().filter(|b| !b.is_empty()).map(|b| b.join("\n") + "\n").collect();
    lines.join("\n")
}

/// What the simulation said of the best points.
pub fn verified(record: &RunRecord, style: Style) -> Vec<String> {
    record.verification.as_ref().map_or_else(Vec::new, |v| list("Simulated", &v.lines(), style))
}

/// What was searched and how many points there were.
pub fn searched(record: &RunRecord, style: Style) -> Vec<String> {
    let w = &record.workload;
    let c = &record.counts;
    let slos: Vec<String> = record.objective.slos.iter().map(ToString::to_string).collect();
    let limits = if slos.is_empty() { "no SLO".to_string() } else { slos.join(", ") };
    let aim = if record.objective.maximise { "maximise" } else { "minimise" };
    let mut lines = vec![style.heading("Searched")];
    let mut texts = vec![
        record.title(),
        format!("input {} and output {} tokens; {aim} {} under {limits}", w.isl, w.osl, record.objective.label),
        format!(
            "space {}: {} points, {} legal, {} feasible, in {:.2} s",
            record.space.name,
            count(c.points),
            count(c.legal),
            count(c.feasible),
            record.elapsed_s
        ),
    ];
    if c.unseen > 0 {
        texts.push(selective(record));
    }
    texts.extend(record.search.notes.iter().cloned());
    texts.iter().for_each(|t| indent(&mut lines, t));
    lines
}

/// `random, seed 1: 500 evaluations of a budget of 500; stopped by budget, 9,000 points not looked at`.
fn selective(record: &RunRecord) -> String {
    let s = &record.search;
    let seed = s.seed.map_or(String::new(), |seed| format!(", seed {seed}"));
    let budget = s.budget.map_or(String::new(), |b| format!(" of a budget of {}", count(b)));
    format!(
        "{}{seed}: {} evaluations{budget}; stop: {}; {} points were not looked at",
        s.backend,
        count(s.evaluations),
        s.stop,
        count(record.counts.unseen)
    )
}

/// Points by reason, each with an example.
pub fn groups(heading: &str, groups: &[Group], style: Style) -> Vec<String> {
    if groups.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&[("points", true), ("reason, and one of them", false)]);
    for group in groups {
        let text = if group.example.is_empty() {
            group.reason.clone()
        } else {
            format!("{}; e.g. {}", group.reason, group.example)
        };
        table.row(vec![count(group.count), text]);
    }
    std::iter::once(style.heading(heading)).chain(table.lines()).collect()
}

/// The ten best. What all of them share is said once; what does not fit into 100 columns is in the report.
pub fn top_ten(record: &RunRecord, style: Style) -> Vec<String> {
    let ten = &record.top[..record.top.len().min(10)];
    let Some(first) = ten.first() else { return Vec::new() };
    let mut columns: Vec<Column> = COLUMNS.to_vec();
    columns.retain(|c| c.name != PRICE || ten.iter().any(|t| t.metrics().usd_per_m_total.is_some()));
    let shared = |c: &Column| c.yields && ten.len() > 1 && ten.iter().all(|t| (c.cell)(t) == (c.cell)(first));
    let common: Vec<String> =
        columns.iter().filter(|c| shared(c)).map(|c| format!("{} {}", c.name, (c.cell)(first))).collect();
    columns.retain(|c| !shared(c));
    let table = loop {
        let mut table = Table::new(&columns.iter().map(|c| (c.name, c.right)).collect::<Vec<_>>());
        ten.iter().for_each(|t| table.row(columns.iter().map(|c| (c.cell)(t)).collect()));
        match columns.iter().rposition(|c| c.yields) {
            Some(at) if !table.fits() => drop(columns.remove(at)),
            _ => break table,
        }
    };
    let mut lines = vec![style.heading(&format!("Top {} by {}", ten.len(), record.objective.label))];
    if !common.is_empty() {
        indent(&mut lines, &format!("all: {}", common.join(", ")));
    }
    lines.extend(table.lines());
    lines
}

#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    right: bool,
    /// Left out where all rows agree or room is short.
    yields: bool,
    cell: fn(&Candidate) -> String,
}

const PRICE: &str = "$/M tok";

const COLUMNS: [Column; 12] = [
    Column { name: "#", right: true, yields: false, cell: |c| c.rank.to_string() },
    Column { name: "layout", right: false, yields: false, cell: |c| text::layout(&c.deployment) },
    Column { name: "GPUs", right: true, yields: true, cell: |c| c.gpus.to_string() },
    Column { name: "conc", right: true, yields: false, cell: |c| c.deployment.concurrency.to_string() },
    Column { name: "weights", right: false, yields: true, cell: |c| c.deployment.weight_dtype.clone() },
    Column { name: "KV", right: false, yields: true, cell: |c| c.deployment.kv_dtype.to_string() },
    Column { name: "tok/step", right: true, yields: true, cell: |c| c.deployment.max_num_batched_tokens.to_string() },
    Column { name: "TTFT ms", right: true, yields: false, cell: |c| number(c.metrics().ttft_ms) },
    Column { name: "TPOT ms", right: true, yields: false, cell: |c| number(c.metrics().tpot_ms) },
    Column { name: "tok/s/GPU", right: true, yields: false, cell: |c| number(c.metrics().tok_s_per_gpu) },
    Column { name: PRICE, right: true, yields: true, cell: |c| dollars(c.metrics().usd_per_m_total) },
    Column { name: "bound by", right: false, yields: false, cell: |c| c.evaluation.bound.to_string() },
];

/// The recommended deployment, why it won, what binds it, how to start it; or the nearest miss.
pub fn recommendation(record: &RunRecord, style: Style) -> Vec<String> {
    let Some(best) = &record.best else {
        let mut lines = vec![style.paint("Nothing is feasible", "1;31")];
        if let Some(closest) = &record.closest {
            indent(&mut lines, &format!("Closest: {}", describe(&closest.candidate)));
            indent(&mut lines, &closest.blocked_by);
        }
        if let Some(obstacle) = &record.obstacle {
            indent(&mut lines, &format!("No point of the space runs. Closest: {}.", obstacle.blocked_by));
        }
        return lines;
    };
    let mut lines = vec![style.heading("Recommended")];
    lines.push(format!("  {}", style.paint(&describe(best), "1;32")));
    let m = best.metrics();
    let cost = match (m.usd_per_m_output, m.usd_per_m_total) {
        (Some(_), Some(_)) => {
            format!(
                "; {} per million output tokens, {} in all",
                dollars(m.usd_per_m_output),
                dollars(m.usd_per_m_total)
            )
        }
        _ => String::new(),
    };
    indent(
        &mut lines,
        &format!(
            "TTFT {} ms, TPOT {} ms, {} output tok/s, {} tok/s/GPU, {} tok/s/user{cost}",
            number(m.ttft_ms),
            number(m.tpot_ms),
            number(m.output_tok_s),
            number(m.tok_s_per_gpu),
            number(m.tok_s_per_user)
        ),
    );
    record.why.iter().for_each(|t| labelled(&mut lines, "why", t));
    record.binds.iter().for_each(|t| labelled(&mut lines, "bound", t));
    match launch_of(record, best) {
        Ok(launch) => {
            command(&mut lines, "run", &launch.shell());
            launch.notes.iter().for_each(|t| labelled(&mut lines, "note", t));
        }
        Err(error) => labelled(&mut lines, "note", &error.to_string()),
    }
    lines
}

fn describe(candidate: &Candidate) -> String {
    let d = &candidate.deployment;
    format!(
        "{} on {} GPU{}, concurrency {}, {} weights, {} KV, {} tokens a step",
        text::layout(d),
        candidate.gpus,
        if candidate.gpus == 1 { "" } else { "s" },
        d.concurrency,
        d.weight_dtype,
        d.kv_dtype,
        d.max_num_batched_tokens
    )
}

/// How far to trust the figures.
pub fn calibration(record: &RunRecord, style: Style) -> Vec<String> {
    trust(&record.calibration, style)
}

/// Statements about the calibration.
fn trust(statements: &[CalibrationStatement], style: Style) -> Vec<String> {
    let mut lines = vec![style.heading("Calibration")];
    if statements.is_empty() {
        indent(&mut lines, "no statement: treat every figure as uncalibrated");
    }
    for statement in statements {
        let code = match statement.level {
            CalibrationLevel::Calibrated => "32",
            CalibrationLevel::Neighbour => "33",
            CalibrationLevel::Uncalibrated => "31",
        };
        let name = statement.level.to_string();
        for (i, part) in wrap(&statement.text, WIDTH - 21).iter().enumerate() {
            let label = if i == 0 { format!("{name:<17}") } else { " ".repeat(17) };
            lines.push(format!("  {}  {part}", style.paint(&label, code)));
        }
    }
    lines
}

/// What each term means.
pub fn definitions(record: &RunRecord, style: Style) -> Vec<String> {
    let texts: Vec<String> = record.definitions.iter().map(|d| format!("{}: {}", d.term, d.text)).collect();
    list("Definitions", &texts, style)
}

fn list(heading: &str, texts: &[String], style: Style) -> Vec<String> {
    if texts.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![style.heading(heading)];
    texts.iter().for_each(|t| indent(&mut lines, t));
    lines
}

fn indent(lines: &mut Vec<String>, text: &str) {
    lines.extend(wrap(text, WIDTH - 2).into_iter().map(|l| format!("  {l}")));
}

fn labelled(lines: &mut Vec<String>, label: &str, text: &str) {
    for (i, part) in wrap(text, WIDTH - 9).into_iter().enumerate() {
        let label = if i == 0 { label } else { "" };
        lines.push(format!("  {label:<5}  {part}"));
    }
}

/// A command that can be copied from the terminal: broken lines end in a backslash, never inside a quoted word.
fn command(lines: &mut Vec<String>, label: &str, text: &str) {
    let parts = wrap_shell(text, WIDTH - 11);
    let last = parts.len() - 1;
    for (i, part) in parts.into_iter().enumerate() {
        let (label, end) = (if i == 0 { label } else { "" }, if i < last { " \\" } else { "" });
        lines.push(format!("  {label:<5}  {part}{end}"));
    }
}
