//! Tables of deployments and of name-value pairs.

use crate::report::record::{Candidate, RunRecord};
use crate::report::text::{self, count, dollars, html as esc, number};

/// One row a candidate; the recommended one stands out.
pub fn candidates(candidates: &[Candidate], record: &RunRecord) -> String {
    let priced = candidates.iter().any(|c| c.metrics().usd_per_m_total.is_some());
    let speculative = candidates.iter().any(|c| c.deployment.speculation.is_some());
    let mut head = vec![
        ("#", true),
        ("layout", false),
        ("GPUs", true),
        ("concurrency", true),
        ("weights", false),
        ("KV", false),
        ("tokens/step", true),
        ("sequences", true),
        ("memory", true),
    ];
    if speculative {
        head.push(("draft", true));
    }
    head.extend([("TTFT ms", true), ("TPOT ms", true), ("tok/s/GPU", true), ("tok/s/user", true)]);
    if priced {
        head.push(("$/M tokens", true));
    }
    head.push(("bound by", false));
    let rows = candidates.iter().map(|c| {
        let (d, m) = (&c.deployment, c.metrics());
        let mut cells = vec![
            count(c.rank),
            text::layout(d),
            c.gpus.to_string(),
            count(u64::from(d.concurrency)),
            d.weight_dtype.clone(),
            d.kv_dtype.to_string(),
            count(u64::from(d.max_num_batched_tokens)),
            count(u64::from(d.max_num_seqs)),
            d.memory_fraction.to_string(),
        ];
        if speculative {
            cells.push(d.speculation.as_ref().map_or("-".to_string(), |s| s.draft_tokens.to_string()));
        }
        cells.extend([m.ttft_ms, m.tpot_ms, m.tok_s_per_gpu, m.tok_s_per_user].map(number));
        if priced {
            cells.push(dollars(m.usd_per_m_total));
        }
        cells.push(c.evaluation.bound.to_string());
        let is_best = record.best.as_ref().is_some_and(|b| b.deployment == c.deployment);
        (cells, if is_best { "best" } else { "" })
    });
    table(&head, rows)
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
