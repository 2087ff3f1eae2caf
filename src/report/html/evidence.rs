//! The lower half of the page: the ranking, the memory budget, what was searched, the inputs, how to repeat it.

use super::Beside;
use super::tables::{candidates, table};
use crate::export::shell;
use crate::memory::MemoryPlan;
use crate::report::record::{Group, NamedDocument, RunRecord};
use crate::report::text::{self, count, html as esc, number, percent};
use crate::units::Bytes;

/// The best points.
pub fn top(record: &RunRecord) -> String {
    if record.top.is_empty() {
        return String::new();
    }
    let note = if record.top.len() > 10 { ", the whole list is in run.json" } else { "" };
    format!(
        "<section class=\"long\"><h2>Top {}</h2><p class=\"muted small\">By {}{note}.</p>{}</section>\n",
        record.top.len().min(10),
        esc(&record.objective.label),
        candidates(&record.top[..record.top.len().min(10)], record)
    )
}

/// The winner's memory, line by line.
pub fn memory(record: &RunRecord) -> String {
    let Some(candidate) = record.best.as_ref().or(record.closest.as_ref().map(|c| &c.candidate)) else {
        return String::new();
    };
    let plan = &candidate.memory;
    let rows: Vec<String> = budget_lines(plan).iter().map(|line| budget_row(line, plan.total)).collect();
    format!(
        "<section><h2>Memory of the fullest rank</h2><p class=\"muted small\">{}, concurrency {}</p><div \
         class=\"scroll\"><table><thead><tr><th>line</th><th class=\"n\">GiB</th><th class=\"n\">of the GPU</th><th>\
         </th></tr></thead><tbody>{}</tbody></table></div><p>KV capacity {} tokens; {} requests of the longest \
         admitted length fit at once, {} of the workload's mean resident length. One request of the longest length \
         holds {}, one more token {:.1} KiB.</p></section>\n",
        esc(&text::layout(&candidate.deployment)),
        candidate.deployment.concurrency,
        rows.concat(),
        text::grouped(plan.kv_tokens.floor()),
        number(plan.max_concurrency),
        number(plan.resident_requests),
        plan.kv_bytes_per_request,
        plan.kv_bytes_per_token.0 / 1024.0,
    )
}

/// Name, bytes, and whether the line is a sum.
fn budget_lines(plan: &MemoryPlan) -> Vec<(&'static str, Bytes, bool)> {
    let mut lines = vec![
        ("GPU memory", plan.total, true),
        ("the engine may use", plan.budget, true),
        ("weights", plan.weights, false),
        ("activation peak", plan.activation, false),
        ("engine reserve", plan.engine_reserve, false),
        ("graphs", plan.graphs, false),
    ];
    if plan.state.0 > 0.0 {
        lines.push(("state of running sequences", plan.state, false));
    }
    lines.push(("left for the KV cache", plan.kv_available, true));
    lines
}

fn budget_row((name, bytes, is_sum): &(&str, Bytes, bool), total: Bytes) -> String {
    let share = if total.0 > 0.0 { (*bytes / total).clamp(0.0, 1.0) } else { 0.0 };
    format!(
        "<tr class=\"{}\"><td>{}</td><td class=\"n\">{:.2}</td><td class=\"n\">{}</td><td style=\"width:40%\"><span \
         class=\"bar\" style=\"width:{:.1}%\"></span></td></tr>",
        if *is_sum { "sum" } else { "" },
        esc(name),
        bytes.as_gib(),
        percent(bytes.0, total.0),
        100.0 * share
    )
}

/// How much was searched, and what was dropped why.
pub fn search(record: &RunRecord, beside: Beside) -> String {
    let c = &record.counts;
    let left_out = beside.points_left_out + c.feasible.saturating_sub(c.listed);
    let kept = if left_out > 0 {
        format!(
            "points.csv holds the best {} feasible points and leaves out {}.",
            count(beside.points_written),
            count(left_out)
        )
    } else {
        format!("points.csv holds {} feasible points.", count(beside.points_written))
    };
    format!(
        "<section class=\"long\"><h2>What was searched</h2><p>Space {} ({}): {} points, {} legal, {} feasible, in \
         {:.2} s ({:.2} CPU s). {kept}</p>{}{}{}</section>\n",
        esc(&record.space.name),
        esc(&record.space.origin),
        count(c.points),
        count(c.legal),
        count(c.feasible),
        record.elapsed_s,
        record.cpu_s,
        how(record),
        groups("Rejected: legal, but does not fit or breaks an SLO", &record.rejected),
        groups("Illegal: no engine accepts it", &record.illegal),
    )
}

/// Which backend chose the points and why it stopped; nothing where every point was looked at.
fn how(record: &RunRecord) -> String {
    let s = &record.search;
    let mut text = String::new();
    if record.counts.unseen > 0 {
        let seed = s.seed.map_or(String::new(), |seed| format!(" with seed {seed}"));
        text = format!(
            "Backend {}{seed} made {} evaluations and stopped: {}. {} points were not looked at.",
            s.backend,
            count(s.evaluations),
            s.stop,
            count(record.counts.unseen)
        );
    }
    let sentences: Vec<&str> = std::iter::once(text.as_str()).chain(s.notes.iter().map(String::as_str)).collect();
    match sentences.join(" ").trim() {
        "" => String::new(),
        text => format!("<p>{}</p>", esc(text)),
    }
}

fn groups(heading: &str, groups: &[Group]) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let rows = groups.iter().map(|g| (vec![count(g.count), g.reason.clone(), g.example.clone()], ""));
    format!("<h3>{}</h3>{}", esc(heading), table(&[("points", true), ("reason", false), ("for example", false)], rows))
}

/// Figures the answer rests on, each with its source.
pub fn inputs(record: &RunRecord) -> String {
    let m = &record.model;
    let rows = record
        .target
        .figures
        .iter()
        .map(|f| (vec![f.name.clone(), f.value.clone(), f.origin.to_string(), f.source.clone()], ""));
    let figures = table(&[("figure", false), ("value", false), ("known", false), ("source", false)], rows);
    format!(
        "<section class=\"long\"><h2>What the answer rests on</h2><p>{}: {:.1} B parameters, {:.1} B active ({}).</p>\
         <p>{} {} ({}).</p>{}</section>\n",
        esc(&m.name),
        m.parameters / 1e9,
        m.active_parameters / 1e9,
        esc(&m.source),
        esc(&record.engine.name),
        esc(&record.engine.version),
        esc(&record.engine.origin),
        if record.target.figures.is_empty() { String::new() } else { figures },
    )
}

/// Terms.
pub fn definitions(record: &RunRecord) -> String {
    if record.definitions.is_empty() {
        return String::new();
    }
    let items: Vec<String> =
        record.definitions.iter().map(|d| format!("<dt>{}</dt><dd>{}</dd>", esc(&d.term), esc(&d.text))).collect();
    format!("<section><h2>Definitions</h2><dl>{}</dl></section>\n", items.concat())
}

/// The command and the documents it read.
pub fn reproduce(record: &RunRecord) -> String {
    let command: Vec<String> = record.arguments.iter().map(|a| shell(a)).collect();
    let documents =
        [("Target", &record.target.document), ("Space", &record.space), ("Objective", &record.objective.document)];
    let details: Vec<String> = documents.iter().map(|(kind, d)| document(kind, d)).collect();
    format!(
        "<section class=\"long\"><h2>Reproduce</h2><pre>{}</pre>{}<p class=\"muted small\">run.json beside this page \
         holds the whole record.</p></section>\n",
        esc(&command.join(" ")),
        details.concat()
    )
}

fn document(kind: &str, document: &NamedDocument) -> String {
    format!(
        "<details><summary>{kind} {} ({})</summary><pre>{}</pre></details>",
        esc(&document.name),
        esc(&document.origin),
        esc(&document.text)
    )
}
