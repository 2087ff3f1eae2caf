//! What does the prefill of one prompt cost, on top of a running step and alone?

use super::step::short;
use crate::cost::step::small_kernels;
use crate::cost::{AttentionPart, DecodeWork, PrefillWork, StepCost};
use crate::serve::closed_loop::Load;
use serde::Serialize;

/// One line of a prompt's prefill, all chunks together, constants applied, µs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrefillLine {
    /// What it is.
    pub name: String,
    /// Shape on one rank.
    pub shape: String,
    /// Kernel table it was priced by; empty where it is no op.
    pub table: String,
    /// The table is this GPU's own.
    pub exact: bool,
    /// Constant that scales it.
    pub scale: f64,
    /// Work added to a step that runs anyway.
    pub added_us: f64,
    /// Work of a step with the prompt alone; products only.
    pub alone_us: Option<f64>,
}

/// The prefill of one prompt on one instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrefillExplanation {
    /// Uncached tokens.
    pub new_tokens: f64,
    /// Tokens from the prefix cache.
    pub cached_tokens: f64,
    /// Steps the prompt is cut into.
    pub chunks: f64,
    /// Tokens of each chunk.
    pub chunk_tokens: f64,
    /// Tokens of the running step it joins.
    pub running_tokens: f64,
    /// The lines.
    pub lines: Vec<PrefillLine>,
    /// Added work, ms: the sum of the lines.
    pub added_ms: f64,
    /// Products of the prompt alone, ms.
    pub products_alone_ms: f64,
    /// The datasheet's least time, ms.
    pub roof_ms: f64,
    /// Work of the prompt in steps of its own, ms: the largest of the three above.
    pub alone_ms: f64,
    /// Fixed time of a step with prefill, ms (`prefill_fixed_ms`).
    pub fixed_each_ms: f64,
    /// Floors and small kernels of the step, µs.
    pub step_floors_us: f64,
    /// Share of them a prefill step pays again (`prefill_floor_share`).
    pub floor_share: f64,
    /// Fixed part, ms: `chunks · (fixed_each_ms + floor_share · step_floors)`.
    pub fixed_ms: f64,
}

impl PrefillExplanation {
    /// Takes the prefill of one prompt apart.
    pub(super) fn of(cost: &StepCost, load: &Load, decode: &DecodeWork, work: &PrefillWork) -> Self {
        let c = &cost.constants;
        let time = work.time(c);
        let running = load.running / load.stages * (1.0 + load.draft_tokens);
        let (chunks, chunk) = (work.chunks, work.new / work.chunks);
        let prefix = (load.isl - work.new).max(0.0);
        let mut lines = Vec::new();
        let mut products = |name: &str, scale: f64, shape: String, (table, exact): (&str, bool), added: f64, alone| {
            lines.push(PrefillLine {
                name: name.to_string(),
                shape,
                table: table.to_string(),
                exact,
                scale,
                added_us: scale * chunks * added,
                alone_us: Some(scale * chunks * alone),
            });
        };
        for g in &cost.ops.gemms {
            let shape = format!("{}x{}x{}", short(g.rows(chunk)), short(g.k), short(g.n));
            let added = g.time(chunk + running).variable - g.time(running).variable;
            products(g.name, c.prefill_gemm_scale, shape, (&g.table, g.exact), added, g.time(chunk).variable);
        }
        for m in &cost.ops.moes {
            let shape = format!("{} rows of {}", short(m.rows(chunk)), short(m.inter));
            let added = m.time(chunk + running).variable - m.time(running).variable;
            let alone = m.time(chunk).variable;
            products("routed experts", c.prefill_moe_scale, shape, (&m.table, m.exact), added, alone);
        }
        let mut other = |name: &str, shape: String, (table, exact): (&str, bool), scale: f64, us: f64| {
            let line = PrefillLine {
                name: name.to_string(),
                shape,
                table: table.to_string(),
                exact,
                scale,
                added_us: scale * us,
                alone_us: None,
            };
            lines.push(line);
        };
        for p in &cost.ops.prefill {
            let shape = format!("{} heads x {} dims", short(p.heads), short(p.dims));
            let us = p.time(work.new, prefix).variable;
            let scale = match p.part {
                AttentionPart::Index => c.prefill_index_scale,
                AttentionPart::Context | AttentionPart::Reread => c.prefill_attention_scale,
            };
            other(p.name, shape, (&p.table, p.exact), scale, us);
        }
        for r in &cost.ops.collectives {
            let shape = format!("{}x{} over {} ranks", short(r.rows(chunk)), short(r.width), short(r.ranks));
            let us = chunks * r.time(chunk).variable;
            other("all-reduce", shape, (&r.table, r.exact), c.prefill_collective_scale, us);
        }
        if cost.stages > 1.0 {
            let shape = format!("{}x{}", short(chunk), short(cost.ops.hand_over.width));
            let us = chunks * cost.ops.hand_over.time(chunk).variable;
            other("stage hand-over", shape, ("datasheet link", false), c.prefill_collective_scale, us);
        }
        let tokens = format!("{} tokens", short(work.new));
        other("work outside the kernels", tokens.clone(), ("", true), c.prompt_token, work.new);
        other("passes over the activations", tokens, ("", true), c.elementwise_passes, work.pass);
        // A larger step can cost less where the tile grows; the formula does not count that as a gain.
        let rest = time.increment * 1e3 - lines.iter().map(|l| l.added_us).sum::<f64>();
        if rest.abs() > 1e-6 {
            lines.push(PrefillLine {
                name: "products cheaper in the larger step, not credited".to_string(),
                shape: String::new(),
                table: String::new(),
                exact: true,
                scale: 1.0,
                added_us: rest,
                alone_us: None,
            });
        }
        let step_floors_us = c.small_kernel * small_kernels(&work.kinds, c) + c.floor_scale * decode.floors();
        Self {
            new_tokens: work.new,
            cached_tokens: prefix,
            chunks,
            chunk_tokens: chunk,
            running_tokens: running,
            added_ms: time.increment,
            products_alone_ms: lines.iter().filter_map(|l| l.alone_us).sum::<f64>() / 1e3,
            lines,
            roof_ms: work.roof,
            alone_ms: time.alone,
            fixed_each_ms: c.prefill_fixed_ms,
            step_floors_us,
            floor_share: c.prefill_floor_share,
            fixed_ms: time.fixed,
        }
    }
}
