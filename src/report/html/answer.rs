//! The upper half of the page: what to run, why, what binds it, how far to trust it.

use super::badge;
use crate::report::record::{Candidate, RunRecord};
use crate::report::shortlist::launch_of;
use crate::report::text::{self, dollars, html as esc, number};

/// The recommendation with its key figures and commands, or why there is none.
pub fn hero(record: &RunRecord) -> String {
    match (&record.best, &record.closest) {
        (Some(best), _) => {
            let d = &best.deployment;
            let gpus = format!("{} GPU{}", best.gpus, if best.gpus == 1 { "" } else { "s" });
            format!(
                "<section class=\"hero\"><h2>Run {} at concurrency {}</h2><p class=\"muted\">{gpus}, {} weights, {} \
                 KV cache, {} tokens a step, at most {} sequences, memory fraction {}</p>{}{}</section>\n",
                esc(&text::layout(d)),
                d.concurrency,
                esc(&d.weight_dtype),
                d.kv_dtype,
                text::count(u64::from(d.max_num_batched_tokens)),
                text::count(u64::from(d.max_num_seqs)),
                d.memory_fraction,
                figures(record, best),
                commands(record, best),
            )
        }
        (None, Some(closest)) => format!(
            "<section class=\"hero\"><h2>Nothing is feasible</h2><p>Closest: {} at concurrency {}.</p><p>{}</p>{}\
             </section>\n",
            esc(&text::layout(&closest.candidate.deployment)),
            closest.candidate.deployment.concurrency,
            esc(&closest.blocked_by),
            figures(record, &closest.candidate),
        ),
        (None, None) => {
            let closest =
                record.obstacle.as_ref().map_or(String::new(), |o| format!(" Closest: {}.", esc(&o.blocked_by)));
            format!(
                "<section class=\"hero\"><h2>Nothing is feasible</h2><p>No point of the space runs; the reasons are \
                 listed below.{closest}</p></section>\n"
            )
        }
    }
}

fn figures(record: &RunRecord, candidate: &Candidate) -> String {
    let m = candidate.metrics();
    let mut cells = vec![
        (number(candidate.objective), format!("{} (objective)", record.objective.label)),
        (format!("{} ms", number(m.ttft_ms)), "TTFT, mean".to_string()),
        (format!("{} ms", number(m.tpot_ms)), "TPOT, mean".to_string()),
        (number(m.tok_s_per_user), "tok/s/user".to_string()),
        (number(m.output_tok_s), "output tok/s".to_string()),
        (number(m.running), "requests running".to_string()),
    ];
    if record.objective.metric != "tok_s_per_gpu" {
        cells.push((number(m.tok_s_per_gpu), "tok/s/GPU".to_string()));
    }
    if m.usd_per_m_total.is_some() {
        cells.push((dollars(m.usd_per_m_output), "per million output tokens".to_string()));
        cells.push((dollars(m.usd_per_m_total), "per million tokens".to_string()));
    }
    let body: Vec<String> = cells
        .iter()
        .enumerate()
        .map(|(i, (value, name))| {
            let class = if i == 0 { "figure main" } else { "figure" };
            format!("<div class=\"{class}\"><b>{}</b><span>{}</span></div>", esc(value), esc(name))
        })
        .collect();
    format!("<div class=\"figures\">{}</div>", body.concat())
}

fn commands(record: &RunRecord, candidate: &Candidate) -> String {
    match launch_of(record, candidate) {
        Err(error) => format!("<p class=\"muted\">{}</p>", esc(&error.to_string())),
        Ok(launch) => format!(
            "<h3>Start it</h3><pre>{}</pre><h3>Measure it</h3><pre>{}</pre>{}",
            esc(&launch.shell()),
            esc(&launch.benchmark_shell()),
            list(&launch.notes),
        ),
    }
}

/// Why it won and what binds it, side by side.
pub fn reasons(record: &RunRecord) -> String {
    if record.best.is_none() || record.why.is_empty() && record.binds.is_empty() {
        return String::new();
    }
    format!(
        "<section><div class=\"columns\"><div><h2>Why this one</h2>{}</div><div><h2>What binds it</h2>{}</div></div>\
         </section>\n",
        list(&record.why),
        list(&record.binds)
    )
}

/// Each statement with its level.
pub fn calibration(record: &RunRecord) -> String {
    let items: Vec<String> = record
        .calibration
        .iter()
        .map(|s| format!("<li>{} {}</li>", badge(s.level, &s.level.to_string()), esc(&s.text)))
        .collect();
    let body = if items.is_empty() {
        format!("<p>{}</p>", badge(record.calibration_level(), "no statement: treat every figure as uncalibrated"))
    } else {
        format!("<ul class=\"plain\">{}</ul>", items.concat())
    };
    format!("<section><h2>How far to trust the figures</h2>{body}</section>\n")
}

/// Warnings, if any.
pub fn warnings(record: &RunRecord) -> String {
    if record.warnings.is_empty() {
        return String::new();
    }
    format!("<section><h2>Warnings</h2>{}</section>\n", list(&record.warnings))
}

fn list(items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let body: Vec<String> = items.iter().map(|i| format!("<li>{}</li>", esc(i))).collect();
    format!("<ul>{}</ul>", body.concat())
}
