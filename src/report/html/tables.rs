//! Tables of deployments and of name-value pairs.

use crate::report::record::{Candidate, RunRecord};
use crate::report::text::{self, count, dollars, html as esc, number};

/// A column of deployments.
struct Column {
    name: &'static str,
    numeric: bool,
    /// Said once above the table where all rows agree.
    knob: bool,
    cell: fn(&Candidate) -> String,
}

const fn knob(name: &'static str, numeric: bool, cell: fn(&Candidate) -> String) -> Column {
    Column { name, numeric, knob: true, cell }
}

const fn figure(name: &'static str, numeric: bool, cell: fn(&Candidate) -> String) -> Column {
    Column { name, numeric, knob: false, cell }
}

const DRAFT: &str = "draft tokens";

const COLUMNS: [Column; 16] = [
    figure("#", true, |c| count(c.rank)),
    figure("layout", false, |c| text::layout(&c.deployment)),
    knob("GPUs", true, |c| c.gpus.to_string()),
    figure("concurrency", true, |c| count(u64::from(c.deployment.concurrency))),
    knob("weights", false, |c| c.deployment.weight_dtype.clone()),
    knob("KV cache", false, |c| c.deployment.kv_dtype.to_string()),
    knob("tokens/step", true, |c| count(u64::from(c.deployment.max_num_batched_tokens))),
    knob("sequences", true, |c| count(u64::from(c.deployment.max_num_seqs))),
    knob("memory fraction", true, |c| c.deployment.memory_fraction.to_string()),
    knob(DRAFT, true, |c| c.deployment.speculation.as_ref().map_or(0, |s| s.draft_tokens).to_string()),
    figure("TTFT ms", true, |c| number(c.metrics().ttft_ms)),
    figure("TPOT ms", true, |c| number(c.metrics().tpot_ms)),
    figure("tok/s/GPU", true, |c| number(c.metrics().tok_s_per_gpu)),
    figure("tok/s/user", true, |c| number(c.metrics().tok_s_per_user)),
    figure("$/M tokens", true, |c| dollars(c.metrics().usd_per_m_total)),
    figure("bound by", false, |c| c.evaluation.bound.to_string()),
];

/// One row a candidate, the recommended one marked; knobs on which all agree are said once.
pub fn candidates(candidates: &[Candidate], record: &RunRecord) -> String {
    let Some(first) = candidates.first() else { return "<p>None.</p>".to_string() };
    let agree = |c: &Column| candidates.iter().all(|x| (c.cell)(x) == (c.cell)(first));
    let speculative = candidates.iter().any(|c| c.deployment.speculation.is_some());
    let used = COLUMNS.iter().filter(|c| speculative || c.name != DRAFT);
    let (shared, columns): (Vec<&Column>, Vec<&Column>) = used.partition(|c| c.knob && agree(c));
    let common: Vec<String> = shared.iter().map(|c| format!("{} {}", c.name, (c.cell)(first))).collect();
    let note = if common.is_empty() {
        String::new()
    } else {
        format!("<p class=\"muted small\">All: {}.</p>", esc(&common.join(", ")))
    };
    let head: Vec<(&str, bool)> = columns.iter().map(|c| (c.name, c.numeric)).collect();
    let rows = candidates.iter().map(|candidate| {
        let is_best = record.best.as_ref().is_some_and(|b| b.deployment == candidate.deployment);
        (columns.iter().map(|c| (c.cell)(candidate)).collect(), if is_best { "best" } else { "" })
    });
    note + &table(&head, rows)
}

/// A table; a head entry is a name and whether its column holds numbers, a row its cells and its class.
pub fn table<'a>(head: &[(&str, bool)], rows: impl Iterator<Item = (Vec<String>, &'a str)>) -> String {
    let class = |numeric: bool| if numeric { " class=\"n\"" } else { "" };
    let head_cells: Vec<String> =
        head.iter().map(|(name, numeric)| format!("<th{}>{}</th>", class(*numeric), esc(name))).collect();
    let body: Vec<String> = rows
        .map(|(cells, row_class)| {
            let cells: Vec<String> = cells
                .iter()
                .zip(head)
                .map(|(cell, (_, numeric))| {
                    let class = if *numeric {
                        "n"
                    } else if cell.len() < 24 {
                        "w"
                    } else {
                        ""
                    };
                    format!("<td class=\"{class}\">{}</td>", esc(cell))
                })
                .collect();
            format!("<tr class=\"{row_class}\">{}</tr>", cells.concat())
        })
        .collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        head_cells.concat(),
        body.concat()
    )
}
