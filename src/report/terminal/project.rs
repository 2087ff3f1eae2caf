//! One deployment as a terminal shows it.

use super::table::Table;
use super::{Style, explain, indent, labelled, list, trust};
use crate::report::projection::Projection;
use crate::report::text::{dollars, layout, number, percent};

/// The whole answer, ending in a line end.
pub fn projection(p: &Projection, style: Style) -> String {
    let mut blocks = vec![head(p, style), verdict(p, style), figures(p, style), breakdown(p, style)];
    match &p.explain {
        Some(details) => blocks.extend(explain::blocks(p, details, style)),
        None => blocks.push(memory(p, style)),
    }
    blocks.push(trust(&p.calibration.statements, style));
    blocks.push(list("Warnings", &p.warnings, style));
    let definitions: Vec<String> = p.definitions.iter().map(|d| format!("{}: {}", d.term, d.text)).collect();
    blocks.push(list("Definitions", &definitions, style));
    let blocks: Vec<String> = blocks.into_iter().filter(|b| !b.is_empty()).map(|b| b.join("\n") + "\n").collect();
    blocks.join("\n")
}

fn head(p: &Projection, style: Style) -> Vec<String> {
    let (s, d, w) = (&p.subject, &p.deployment, &p.workload);
    let mut lines = vec![style.heading("Deployment")];
    indent(
        &mut lines,
        &format!(
            "{} ({}) on {} × {} ({}), {} {}",
            s.model, s.checkpoint, s.gpus, s.gpu, s.target, s.engine, s.engine_version
        ),
    );
    let drafts = d.speculation.as_ref().map_or(String::new(), |s| {
        format!(", {} draft tokens ({:.2} tokens a step)", s.draft_tokens, s.tokens_per_step)
    });
    indent(
        &mut lines,
        &format!(
            "{}, concurrency {}, {} weights, {} KV, {} tokens a step, {} sequences, memory fraction {}{drafts}",
            layout(d),
            d.concurrency,
            d.weight_dtype,
            d.kv_dtype,
            d.max_num_batched_tokens,
            d.max_num_seqs,
            d.memory_fraction
        ),
    );
    indent(
        &mut lines,
        &format!(
            "input {} and output {} tokens, range ratio {}, prefix hit rate {}",
            w.isl, w.osl, w.range_ratio, w.prefix_hit_rate
        ),
    );
    lines
}

fn verdict(p: &Projection, style: Style) -> Vec<String> {
    if p.broken.is_empty() {
        return if p.slo.is_empty() {
            Vec::new()
        } else {
            vec![style.paint(&format!("Keeps every limit: {}", p.slo.join(", ")), "1;32")]
        };
    }
    let title = if p.memory.fits { "Breaks a limit" } else { "Does not fit" };
    let mut lines = vec![style.paint(title, "1;31")];
    for broken in &p.broken {
        indent(&mut lines, &broken.what);
        labelled(&mut lines, "binds", &broken.binds);
        labelled(&mut lines, "try", &broken.change);
    }
    lines
}

fn figures(p: &Projection, style: Style) -> Vec<String> {
    let Some(m) = &p.metrics else { return Vec::new() };
    let mut table = Table::new(&[("figure", false), ("value", true), ("unit", false)]);
    let mut row = |name: &str, value: String, unit: &str| table.row(vec![name.into(), value, unit.into()]);
    row("TTFT mean", number(m.ttft_ms), "ms");
    row("TTFT median", number(m.ttft_p50_ms), "ms");
    row("TPOT mean", number(m.tpot_ms), "ms");
    row("E2E mean", number(m.e2e_ms), "ms");
    row("output throughput", number(m.output_tok_s), "tok/s");
    row("total throughput", number(m.total_tok_s), "tok/s");
    row("per GPU", number(m.tok_s_per_gpu), "tok/s/GPU, input and output");
    row("per user", number(m.tok_s_per_user), "tok/s/user");
    row("running requests", number(m.running), "at once, over all replicas");
    if m.usd_per_m_output.is_some() {
        row("cost of output", dollars(m.usd_per_m_output), "per million output tokens");
        row("cost of all tokens", dollars(m.usd_per_m_total), "per million input and output tokens");
    }
    std::iter::once(style.heading("Figures")).chain(table.lines()).collect()
}

fn breakdown(p: &Projection, style: Style) -> Vec<String> {
    let (Some(b), Some(m)) = (&p.breakdown, &p.metrics) else { return Vec::new() };
    let mut table = Table::new(&[("part of TPOT", false), ("ms", true), ("share", true)]);
    for (name, ms) in b.parts() {
        table.row(vec![name.to_string(), format!("{ms:.3}"), percent(ms, m.tpot_ms)]);
    }
    table.row(vec!["TPOT".to_string(), format!("{:.3}", m.tpot_ms), percent(m.tpot_ms, m.tpot_ms)]);
    let mut lines = vec![style.heading("Where a token's time goes")];
    lines.extend(table.lines());
    p.binds.iter().for_each(|t| indent(&mut lines, t));
    lines
}

fn memory(p: &Projection, style: Style) -> Vec<String> {
    let m = &p.memory.plan;
    let mut table = Table::new(&[("memory of the fullest rank", false), ("GiB", true)]);
    let lines = [
        ("memory of the GPU", m.total),
        ("budget", m.budget),
        ("weights", m.weights),
        ("engine reserve", m.engine_reserve),
        ("activation", m.activation),
        ("graphs", m.graphs),
        ("state", m.state),
        ("KV cache", m.kv_available),
    ];
    for (name, bytes) in lines {
        table.row(vec![name.to_string(), format!("{:.2}", bytes.as_gib())]);
    }
    let mut lines = vec![style.heading("Memory")];
    lines.extend(table.lines());
    indent(
        &mut lines,
        &format!(
            "KV of {} tokens; {} requests of the longest length at once; the largest line is {}.",
            number(m.kv_tokens),
            number(m.max_concurrency),
            p.memory.binds
        ),
    );
    lines
}
