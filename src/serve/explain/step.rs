//! Where does the time of one decode step go, op by op?

use crate::cost::step::small_kernels;
use crate::cost::{Arms, AttentionPart, Constants, DecodeWork, OpTime, StepCost};
use crate::serve::closed_loop::Load;
use serde::Serialize;

/// Which part of a step an op belongs to; each has a constant of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Dense products.
    Gemm,
    /// Routed experts.
    Experts,
    /// Attention over the context and recurrent mixers.
    Attention,
    /// The scan of a sparse-attention index.
    Index,
    /// Latents read again for further groups of heads.
    Reread,
    /// All-reduces and the hand-over between stages.
    Collectives,
}

impl Part {
    fn of(part: AttentionPart) -> Self {
        match part {
            AttentionPart::Context => Part::Attention,
            AttentionPart::Index => Part::Index,
            AttentionPart::Reread => Part::Reread,
        }
    }

    /// Factor on the variable part in decode.
    pub fn scale(self, c: &Constants) -> f64 {
        match self {
            Part::Gemm => c.gemm_scale,
            Part::Experts => c.moe_scale,
            Part::Attention => c.attention_scale,
            Part::Index => c.index_scale,
            Part::Reread => c.latent_reread,
            Part::Collectives => c.collective_scale,
        }
    }
}

/// What an op's time is made of most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Binds {
    /// Launch and ramp exceed both arms.
    Floor,
    /// Bytes over bandwidth.
    Memory,
    /// Flops over the peak.
    Compute,
    /// Bytes over the links.
    Link,
}

impl std::fmt::Display for Binds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Binds::Floor => "floor",
            Binds::Memory => "memory",
            Binds::Compute => "compute",
            Binds::Link => "link",
        })
    }
}

/// One op of a decode step; times are of all its repetitions together, µs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpLine {
    /// What it computes.
    pub name: String,
    /// Its part of the step.
    pub part: Part,
    /// How often per step.
    pub per_step: f64,
    /// Shape on one rank.
    pub shape: String,
    /// Kernel table it was priced by.
    pub table: String,
    /// The table is this GPU's, engine's and format's own; otherwise a neighbour's.
    pub exact: bool,
    /// Launch and ramp.
    pub floor_us: f64,
    /// What grows with the work.
    pub variable_us: f64,
    /// Memory (or link) arm at the rate the kernels reach.
    pub memory_us: f64,
    /// Compute arm at the rate the kernels reach.
    pub compute_us: f64,
    /// Bytes over the datasheet's bandwidth.
    pub memory_roof_us: f64,
    /// Flops over the datasheet's dense peak.
    pub compute_roof_us: f64,
    /// What its time is made of most.
    pub binds: Binds,
    /// Its time in the step, constants applied.
    pub step_us: f64,
}

/// One decode step of one instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepExplanation {
    /// Sequences that decode in a step (per pipeline stage).
    pub sequences: f64,
    /// Mean context of each, tokens.
    pub context: f64,
    /// Tokens per sequence and step: one, and the drafts.
    pub queries: f64,
    /// The ops.
    pub ops: Vec<OpLine>,
    /// Small kernels per step.
    pub small_kernels: f64,
    /// Time of one of them before the maturity factors, µs.
    pub small_kernel_us: f64,
    /// All of them in the step, µs.
    pub small_us: f64,
    /// The engine's own work in the step, µs.
    pub host_us: f64,
    /// `release_scale · step_scale`, on everything.
    pub maturity: f64,
    /// Factor that raises the step to the datasheet's roofline; 1 where it is above it anyway.
    pub raised: f64,
    /// The datasheet's least time of the step, µs.
    pub roof_us: f64,
    /// The step, µs: ops, small kernels and host.
    pub total_us: f64,
}

impl StepExplanation {
    /// Takes a step apart.
    pub(super) fn of(cost: &StepCost, load: &Load, work: &DecodeWork) -> Self {
        let c = &cost.constants;
        let (sequences, context) = (load.running / load.stages, load.isl + load.osl / 2.0);
        let queries = 1.0 + load.draft_tokens;
        let time = work.time(c);
        let maturity = c.release_scale * c.step_scale;
        let small_kernels = small_kernels(&work.kinds, c);
        let small = maturity * c.small_kernel * small_kernels;
        let host = maturity * (c.host_step + c.host_sequence * work.sequences);
        let mut ops = lines(cost, sequences, context, queries);
        for op in &mut ops {
            op.step_us = maturity * (c.floor_scale * op.floor_us + op.part.scale(c) * op.variable_us);
            if c.floor_scale * op.floor_us > op.part.scale(c) * op.variable_us {
                op.binds = Binds::Floor;
            }
        }
        let total_us = time.total() * 1e3;
        let priced = small + host + ops.iter().map(|op| op.step_us).sum::<f64>();
        let raised = (work.roof() * 1e3 / priced).max(1.0);
        ops.iter_mut().for_each(|op| op.step_us *= raised);
        Self {
            sequences,
            context,
            queries,
            ops,
            small_kernels,
            small_kernel_us: c.small_kernel,
            small_us: small * raised,
            host_us: host * raised,
            maturity,
            raised,
            roof_us: work.roof() * 1e3,
            total_us,
        }
    }
}

fn line(name: &str, part: Part, per_step: f64, shape: String, (table, exact): (&str, bool), time: OpTime) -> OpLine {
    OpLine {
        name: name.to_string(),
        part,
        per_step,
        shape,
        table: table.to_string(),
        exact,
        floor_us: time.floor,
        variable_us: time.variable,
        memory_us: time.variable,
        compute_us: 0.0,
        memory_roof_us: time.memory_roof,
        compute_roof_us: time.compute_roof,
        binds: Binds::Link,
        step_us: 0.0,
    }
}

fn with(mut line: OpLine, arms: Arms) -> OpLine {
    line.memory_us = arms.memory + arms.beside;
    line.compute_us = arms.compute;
    line.binds = if line.memory_us >= line.compute_us { Binds::Memory } else { Binds::Compute };
    line
}

/// The ops of a step, in the order of the parts; `step_us` is still 0.
fn lines(cost: &StepCost, sequences: f64, context: f64, queries: f64) -> Vec<OpLine> {
    let tokens = sequences * queries;
    let ops = &cost.ops;
    let mut lines = Vec::new();
    for g in &ops.gemms {
        let shape = format!("{}x{}x{}", short(g.rows(tokens)), short(g.k), short(g.n));
        let named = line(g.name, Part::Gemm, g.count, shape, (&g.table, g.exact), g.time(tokens));
        lines.push(with(named, g.arms(tokens)));
    }
    for m in &ops.moes {
        let shape = format!(
            "{} rows on {} of {} experts, size {}",
            short(m.rows(tokens)),
            short(m.active(tokens)),
            short(m.experts / m.groups),
            short(m.inter)
        );
        let named = line("routed experts", Part::Experts, m.count, shape, (&m.table, m.exact), m.time(tokens));
        lines.push(with(named, m.arms(tokens)));
    }
    for d in &ops.decode {
        let (b, read) = d.share(sequences, context);
        let shape = if d.values_per_token > 0.0 {
            format!("{} seqs x {} ctx x {} values", short(b), short(read), short(d.values_per_token))
        } else {
            format!("{} seqs", short(b))
        };
        let time = d.time(sequences, context, queries);
        let named = line(d.name, Part::of(d.part), d.count, shape, (&d.table, d.exact), time);
        lines.push(with(named, d.arms(sequences, context, queries)));
    }
    for r in &ops.collectives {
        let shape = format!("{}x{} over {} ranks", short(r.rows(tokens)), short(r.width), short(r.ranks));
        lines.push(line("all-reduce", Part::Collectives, r.count, shape, (&r.table, r.exact), r.time(tokens)));
    }
    for e in &ops.exchanges {
        let shape = format!("{}x{} over {} ranks", short(e.rows(tokens)), short(e.width), short(e.ranks));
        lines.push(line("context exchange", Part::Collectives, e.count, shape, (&e.table, e.exact), e.time(tokens)));
    }
    if cost.stages > 1.0 {
        let h = &ops.hand_over;
        let shape = format!("{}x{}", short(tokens), short(h.width));
        let priced = ("datasheet link, assumed floor", false);
        lines.push(line("stage hand-over", Part::Collectives, h.hops, shape, priced, h.time(tokens)));
    }
    lines
}

/// Whole numbers plain, others with one digit.
pub(super) fn short(value: f64) -> String {
    if (value - value.round()).abs() < 1e-9 { format!("{value:.0}") } else { format!("{value:.1}") }
}
