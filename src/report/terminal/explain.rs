//! Every line behind the figures of one deployment, as tables that add up.

use super::table::Table;
use super::{Style, indent};
use crate::report::projection::{Details, Figure, Projection};
use crate::report::text::{grouped, number};
use crate::serve::explain::{Assembly, PrefillExplanation, StepExplanation, Term};
use crate::units::GIB;

/// Step, prefill, assembly, memory, constants.
pub fn blocks(p: &Projection, details: &Details, style: Style) -> Vec<Vec<String>> {
    let mut blocks = Vec::new();
    if let Some(a) = &details.arithmetic {
        blocks.push(shapes(&a.step, style));
        blocks.push(step(&a.step, style));
        blocks.push(prefill(&a.prefill, style));
        blocks.push(assembly(&a.assembly, style));
    }
    blocks.push(memory(p, details, style));
    blocks.push(constants(details, style));
    blocks
}

/// A neighbour's table is marked.
fn table_name(table: &str, exact: bool) -> String {
    if exact { table.to_string() } else { format!("~{table}") }
}

/// Counts plain, other figures with their digits.
fn plain(value: f64) -> String {
    if (value - value.round()).abs() < 1e-9 { grouped(value) } else { number(value) }
}

const MARK: &str = "`~` marks the table of a neighbouring GPU, engine or format";

fn shapes(s: &StepExplanation, style: Style) -> Vec<String> {
    let mut table = Table::new(&[("op", false), ("per step", true), ("table", false), ("shape", false)]);
    for op in &s.ops {
        let count = format!("{:.0}", op.per_step);
        table.row(vec![op.name.clone(), count, table_name(&op.table, op.exact), op.shape.clone()]);
    }
    let mut lines = vec![style.heading("Ops of a decode step, on one rank")];
    indent(
        &mut lines,
        &format!(
            "{} sequences of {} tokens of context, {} token(s) each a step; products are rows x reduction x columns; \
             {MARK}",
            plain(s.sequences),
            plain(s.context),
            s.queries
        ),
    );
    lines.extend(table.lines());
    lines
}

fn step(s: &StepExplanation, style: Style) -> Vec<String> {
    let mut table = Table::new(&[
        ("op", false),
        ("floor", true),
        ("variable", true),
        ("mem arm", true),
        ("flop arm", true),
        ("mem roof", true),
        ("flop roof", true),
        ("in step", true),
        ("binds", false),
    ]);
    let us = |v: f64| format!("{v:.1}");
    for op in &s.ops {
        table.row(vec![
            op.name.clone(),
            us(op.floor_us),
            us(op.variable_us),
            us(op.memory_us),
            us(op.compute_us),
            us(op.memory_roof_us),
            us(op.compute_roof_us),
            us(op.step_us),
            op.binds.to_string(),
        ]);
    }
    let mut other = |name: String, value: f64| {
        let mut cells = vec![String::new(); 9];
        cells[0] = name;
        cells[7] = us(value);
        table.row(cells);
    };
    other(format!("small kernels ({:.0})", s.small_kernels), s.small_us);
    other("host".to_string(), s.host_us);
    other("step".to_string(), s.total_us);
    let mut lines = vec![style.heading("Time of a decode step, µs")];
    indent(
        &mut lines,
        "arms are bytes and flops at the rates the kernels reach, roofs at the datasheet's; floor and variable part \
         are those of the table, `in step` applies the calibration's factors",
    );
    lines.extend(table.lines());
    let raised = if s.raised > 1.0 { format!("; raised {:.3}x to it", s.raised) } else { String::new() };
    indent(
        &mut lines,
        &format!(
            "maturity factor {:.4} on everything; a small kernel takes {:.2} µs; datasheet roofline of the step {:.1} \
             µs{raised}",
            s.maturity, s.small_kernel_us, s.roof_us
        ),
    );
    lines
}

fn prefill(p: &PrefillExplanation, style: Style) -> Vec<String> {
    let mut table = Table::new(&[
        ("op", false),
        ("scale", true),
        ("added µs", true),
        ("alone µs", true),
        ("table", false),
        ("shape", false),
    ]);
    for l in &p.lines {
        table.row(vec![
            l.name.clone(),
            number(l.scale),
            format!("{:.1}", l.added_us),
            l.alone_us.map_or(String::new(), |us| format!("{us:.1}")),
            table_name(&l.table, l.exact),
            l.shape.clone(),
        ]);
    }
    let mut total = vec![String::new(); 6];
    total[0] = "prompt".to_string();
    total[2] = format!("{:.1}", p.added_ms * 1e3);
    total[3] = format!("{:.1}", p.products_alone_ms * 1e3);
    table.row(total);
    let mut lines = vec![style.heading("Prefill of one prompt")];
    indent(
        &mut lines,
        &format!(
            "{} new and {} cached tokens in {:.0} chunk(s) of {}, on a step of {} tokens",
            plain(p.new_tokens),
            plain(p.cached_tokens),
            p.chunks,
            plain(p.chunk_tokens),
            plain(p.running_tokens)
        ),
    );
    lines.extend(table.lines());
    let texts = [
        format!("added   {:.4} ms, on top of a step that runs anyway", p.added_ms),
        format!(
            "alone   {:.4} ms, the largest of products alone {:.4}, added {:.4}, datasheet {:.4}",
            p.alone_ms, p.products_alone_ms, p.added_ms, p.roof_ms
        ),
        format!(
            "fixed   {:.4} ms = {:.0} x ({:.4} ms + {:.4} x {:.4} ms of floors and small kernels)",
            p.fixed_ms,
            p.chunks,
            p.fixed_each_ms,
            p.floor_share,
            p.step_floors_us / 1e3
        ),
    ];
    texts.iter().for_each(|t| indent(&mut lines, t));
    lines
}

fn assembly(a: &Assembly, style: Style) -> Vec<String> {
    let mut lines = vec![style.heading("From step and prefill to TPOT and TTFT, ms")];
    indent(
        &mut lines,
        &format!(
            "one instance: {} clients, {} running; {} prompts a client; {:.1} % of prompts arrive in lock-step",
            plain(a.clients),
            plain(a.running),
            plain(a.waves),
            a.lock * 100.0
        ),
    );
    let mut sum = |title: &str, terms: &[Term], total: f64| {
        let mut table = Table::new(&[(title, false), ("ms", true), ("how", false)]);
        for t in terms {
            table.row(vec![t.name.clone(), format!("{:.4}", t.ms), t.how.clone()]);
        }
        table.row(vec!["sum".to_string(), format!("{total:.4}"), String::new()]);
        lines.extend(table.lines());
    };
    sum("TPOT", &a.tpot, a.tpot_ms);
    sum("TTFT, first wave", &a.first_wave, a.first_wave_ms);
    sum("TTFT, afterwards", &a.steady, a.steady_ms);
    indent(
        &mut lines,
        &format!(
            "TTFT = ({:.4} + {} x {:.4})/{} x {:.4} (measured runs leave over) + {:.4} held back = {:.4} ms",
            a.first_wave_ms,
            plain(a.waves - 1.0),
            a.steady_ms,
            plain(a.waves),
            a.ttft_correction,
            a.held_back_ms,
            a.ttft_ms
        ),
    );
    lines
}

fn memory(p: &Projection, details: &Details, style: Style) -> Vec<String> {
    let mut lines = vec![style.heading("Memory of the fullest rank")];
    let mut table = Table::new(&[("line", false), ("GiB", true), ("how", false)]);
    for l in &details.memory_lines {
        table.row(vec![l.name.clone(), format!("{:.3}", l.value / GIB), l.how.clone()]);
    }
    lines.extend(table.lines());
    indent(&mut lines, &format!("The largest line is {}.", p.memory.binds));
    lines.extend(counted("capacity", &details.capacity));
    lines.extend(counted("requests of an instance", &details.running));
    lines
}

fn counted(title: &str, figures: &[Figure]) -> Vec<String> {
    let mut table = Table::new(&[(title, false), ("value", true), ("how", false)]);
    for f in figures {
        table.row(vec![f.name.clone(), plain(f.value), f.how.clone()]);
    }
    table.lines()
}

fn constants(details: &Details, style: Style) -> Vec<String> {
    let mut table = Table::new(&[("constant", false), ("value", true), ("origin", false), ("from", false)]);
    for c in &details.constants {
        let factors: Vec<String> =
            c.factors.iter().map(|f| format!(" x {} ({} {})", f.factor, f.scope, f.key)).collect();
        let from = if factors.is_empty() { String::new() } else { format!("{}{}", c.base, factors.concat()) };
        table.row(vec![c.name.clone(), number(c.value), c.origin.to_string(), from]);
    }
    std::iter::once(style.heading("Constants of the calibration (µs unless the name says ms)"))
        .chain(table.lines())
        .collect()
}
