//! Time of attention over the context: decode over K/V or a latent, prefill, and recurrent-state mixers. What sparse
//! attention adds is in `sparse`.

use super::op::{Arms, OpTime, Silicon, join};
use super::tables::{Curve, Found, OpTables, WORKLOAD, first, gpu_key};
use crate::model::KvFormat;
use crate::target::{EngineFamily, Gpu, GpuFamily};

/// Context tokens one split of a decode kernel works on.
const SPLIT_TOKENS: f64 = 512.0;
/// Query heads that fill a matrix instruction.
const MIN_HEAD_GROUP: f64 = 16.0;
/// Share of HBM bandwidth a recurrent-state update reaches; assumed.
const STATE_SHARE: f64 = 0.7;
/// Floor of a recurrent-state mixer's kernels, µs; assumed, about two small kernels beside its projections.
const STATE_FLOOR: f64 = 10.0;

/// Decode attention of `count` layers on one rank.
///
/// GQA: `t_mem = 2·B·h_kv·d·ctx·b / (share·bandwidth) · (1 + split·units·512/(B·h_kv·ctx))`,
/// `t_flop = 4·B·h_kv·max(h/h_kv, 16)·d·ctx / (share·peak)`. MLA: 576 values per token instead of `2·h_kv·d`,
/// `t_flop = 2·B·max(h, 16)·ctx·(2·rank + rope)`. Window layers read `min(ctx, window + 1)` tokens, layers with an
/// index `min(ctx, top_k)`.
#[derive(Debug, Clone)]
pub struct DecodeAttention {
    /// What it is: full, window, latent, linear.
    pub name: &'static str,
    /// The constant that scales it.
    pub part: AttentionPart,
    /// Layers with this shape on this rank.
    pub count: f64,
    /// Table entry it was priced by.
    pub table: String,
    /// The entry is the GPU's, engine's and format's own.
    pub exact: bool,
    /// Values read per sequence and context token on this rank; 0 for a recurrent state.
    pub values_per_token: f64,
    pub(super) sequences_divisor: f64,
    /// Ranks that hold a part of each sequence's context.
    pub(super) context_divisor: f64,
    pub(super) floor: f64,
    /// µs per sequence and context token read, and the same at peak bandwidth.
    pub(super) per_token: (f64, f64),
    pub(super) split: f64,
    pub(super) flop: (f64, f64),
    pub(super) overlap: f64,
    pub(super) longest: f64,
    /// µs per sequence, whatever the context (recurrent state), achieved and at peak.
    pub(super) state: (f64, f64),
}

/// What an attention op belongs to; each part has a constant of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionPart {
    /// Attention to the context, and recurrent mixers.
    Context,
    /// The index of sparse attention, and gathering what it chose.
    Index,
    /// Reading a latent again for further groups of heads.
    Reread,
}

/// Shape of one decode-attention op on a rank.
#[derive(Debug, Clone, Copy)]
pub struct DecodeShape {
    /// Values cached per token on this rank.
    pub values_per_token: f64,
    /// Flops per sequence and context token on this rank.
    pub flops_per_token: f64,
    /// Independent streams per sequence a kernel can split over (KV heads on this rank, 1 for a latent).
    pub streams: f64,
    /// Tokens a layer reads at most (window or sparse selection); infinite for full attention.
    pub longest: f64,
}

impl DecodeShape {
    /// Grouped-query attention with the rank's heads.
    pub fn gqa(heads: f64, kv_heads: f64, head_dim: f64, v_head_dim: f64, longest: f64) -> Self {
        let group = (heads / kv_heads).max(MIN_HEAD_GROUP);
        Self {
            values_per_token: kv_heads * (head_dim + v_head_dim),
            flops_per_token: 2.0 * kv_heads * group * (head_dim + v_head_dim),
            streams: kv_heads,
            longest,
        }
    }

    /// Latent attention with the rank's heads.
    pub fn mla(heads: f64, latent: f64, rope: f64, longest: f64) -> Self {
        Self {
            values_per_token: latent + rope,
            flops_per_token: 2.0 * heads.max(MIN_HEAD_GROUP) * (2.0 * latent + rope),
            streams: 1.0,
            longest,
        }
    }
}

fn engine_sources(engine: EngineFamily, gpu: GpuFamily) -> &'static [&'static str] {
    match (gpu.is_amd(), engine) {
        (true, _) => &["aiter"],
        (false, _) if gpu == GpuFamily::Local => &[WORKLOAD, "vllm"],
        (false, EngineFamily::Trtllm) => &["trtllm", "vllm", "sglang"],
        (false, EngineFamily::Sglang) => &["sglang", "vllm", "trtllm"],
        (false, _) => &["vllm", "trtllm", "sglang"],
    }
}

fn curve<'a>(entries: &'a [Curve], gpu: &Gpu, engine: EngineFamily, kv: KvFormat) -> Found<'a, Curve> {
    let (key, own) = gpu_key(&gpu.name, gpu.family);
    let mut wanted = Vec::new();
    let neighbour = if key == "h100" { "h200" } else { key };
    for source in engine_sources(engine, gpu.family) {
        wanted.push(format!("{key}|{source}|{kv}"));
        wanted.push(format!("{neighbour}|{source}|{kv}"));
    }
    wanted.push(format!("{key}|aiter|bf16"));
    first(entries, |c| &c.key, &wanted, own).unwrap_or(Found { curve: &entries[0], exact: false })
}

impl DecodeAttention {
    /// Prices attention over K and V, or over a latent (`latent`), once per layout.
    #[allow(clippy::too_many_arguments)]
    pub fn compile(
        tables: &OpTables,
        gpu: &Gpu,
        silicon: &Silicon,
        engine: EngineFamily,
        name: &'static str,
        count: f64,
        latent: bool,
        shape: DecodeShape,
        kv: KvFormat,
        groups: f64,
    ) -> Self {
        let entries = if latent { &tables.decode_mla } else { &tables.decode_attention };
        let found = curve(entries, gpu, engine, kv);
        let c = found.curve;
        let bytes = shape.values_per_token * kv.bytes();
        Self {
            name,
            part: AttentionPart::Context,
            count,
            table: c.key.clone(),
            exact: found.exact && !c.borrowed,
            values_per_token: shape.values_per_token,
            sequences_divisor: groups,
            context_divisor: 1.0,
            floor: c.floor_us,
            per_token: (bytes / (c.hbm_share * silicon.bandwidth), bytes / silicon.bandwidth),
            split: c.split * silicon.units * SPLIT_TOKENS / shape.streams,
            flop: (
                shape.flops_per_token / (c.peak_share * silicon.bf16),
                // The roof counts the flops asked for, at the fastest peak a kernel could use.
                shape.flops_per_token / silicon.fp8,
            ),
            overlap: c.overlap,
            longest: shape.longest,
            state: (0.0, 0.0),
        }
    }

    /// A mixer with a fixed state of `state_bytes` per sequence, read and written every step.
    pub fn recurrent(silicon: &Silicon, name: &'static str, count: f64, state_bytes: f64, groups: f64) -> Self {
        let traffic = 2.0 * state_bytes;
        Self {
            name,
            part: AttentionPart::Context,
            count,
            table: "state traffic".into(),
            exact: false,
            values_per_token: 0.0,
            sequences_divisor: groups,
            context_divisor: 1.0,
            floor: STATE_FLOOR,
            per_token: (0.0, 0.0),
            split: 0.0,
            flop: (0.0, 0.0),
            overlap: 1.0,
            longest: 0.0,
            state: (traffic / (STATE_SHARE * silicon.bandwidth), traffic / silicon.bandwidth),
        }
    }

    /// The same where `ranks` ranks hold a part of the context each (decode context parallelism), or the cache holds one
    /// entry for so many tokens.
    pub fn spread_over(self, ranks: f64) -> Self {
        Self { context_divisor: self.context_divisor * ranks, ..self }
    }

    /// The same over the whole context, however few tokens the layer attends to.
    pub(super) fn over_whole_context(self) -> Self {
        Self { longest: f64::INFINITY, ..self }
    }

    /// Sequences of an instance with `sequences` that this rank works on, and the tokens of each it reads.
    pub fn share(&self, sequences: f64, context: f64) -> (f64, f64) {
        ((sequences / self.sequences_divisor).max(1.0), context.min(self.longest) / self.context_divisor)
    }

    /// Both arms of all layers, µs; state traffic is beside them.
    pub fn arms(&self, sequences: f64, context: f64, queries: f64) -> Arms {
        let (b, read) = self.share(sequences, context);
        let tokens = b * read;
        Arms {
            memory: if tokens > 0.0 { self.per_token.0 * (tokens + self.split) } else { 0.0 },
            compute: self.flop.0 * tokens * queries,
            beside: self.state.0 * b,
            overlap: self.overlap,
        }
        .of(self.count)
    }

    /// Time with `sequences` in the instance, each with `context` tokens and `queries` new tokens a step.
    pub fn time(&self, sequences: f64, context: f64, queries: f64) -> OpTime {
        let (b, read) = self.share(sequences, context);
        let tokens = b * read;
        let memory = self.per_token.0 * (tokens + self.split) * f64::from(u8::from(tokens > 0.0));
        let flop = self.flop.0 * tokens * queries;
        OpTime {
            floor: self.floor,
            variable: join(memory, flop, self.overlap) + self.state.0 * b,
            memory_roof: self.per_token.1 * tokens + self.state.1 * b,
            compute_roof: 0.0,
        }
        .above_roof()
            * self.count
    }
}

/// Prefill attention of `count` layers on one rank: causal, over a cached prefix where there is one.
///
/// `flops = 2·h·(d_qk + d_v)·(S·prefix + S²/2)`, `t = floor + flops / (share · bf16 peak) · (1 + half/S)`; window layers
/// attend to `min(w, ·)` tokens, indexed ones to `min(top_k, ·)`.
#[derive(Debug, Clone)]
pub struct PrefillAttention {
    /// What it is.
    pub name: &'static str,
    /// The constant that scales it.
    pub part: AttentionPart,
    /// Layers with this shape on this rank.
    pub count: f64,
    /// Heads on this rank.
    pub heads: f64,
    /// Dimensions of a key and a value together.
    pub dims: f64,
    /// Table entry it was priced by.
    pub table: String,
    /// The entry is the GPU's own.
    pub exact: bool,
    /// µs per pair of a query and a token it attends to, and the same at the peak.
    pub(super) flop: f64,
    pub(super) roof: f64,
    pub(super) half_length: f64,
    pub(super) longest: f64,
}

impl PrefillAttention {
    /// Prices prefill attention with the rank's heads once per layout.
    pub fn compile(
        tables: &OpTables,
        gpu: &Gpu,
        silicon: &Silicon,
        count: f64,
        heads: f64,
        dims: f64,
        longest: f64,
    ) -> Self {
        let (key, own) = gpu_key(&gpu.name, gpu.family);
        let curve = tables.prefill_attention.iter().find(|c| c.key == key).unwrap_or(&tables.prefill_attention[0]);
        Self {
            name: "prompt attention",
            part: AttentionPart::Context,
            count,
            heads,
            dims,
            table: curve.key.clone(),
            exact: own && curve.key == key && !curve.borrowed,
            flop: 2.0 * heads * dims / (curve.peak_share * silicon.bf16),
            roof: 2.0 * heads * dims / silicon.fp8,
            half_length: curve.half_length,
            longest,
        }
    }

    /// Variable time of prefilling `new` tokens behind `prefix` cached ones.
    pub fn time(&self, new: f64, prefix: f64) -> OpTime {
        if new <= 0.0 {
            return OpTime::default();
        }
        // Mean tokens a query attends to, capped by the window or the selection.
        let full = prefix + new / 2.0;
        let pairs = new
            * if full <= self.longest && prefix + new <= self.longest {
                full
            } else {
                capped_mean(prefix, new, self.longest)
            };
        let variable = self.flop * pairs * (1.0 + self.half_length / new);
        OpTime { floor: 0.0, variable, memory_roof: 0.0, compute_roof: self.roof * pairs }.above_roof() * self.count
    }
}

/// Mean over queries at positions prefix … prefix + new of min(position, cap).
fn capped_mean(prefix: f64, new: f64, cap: f64) -> f64 {
    if prefix >= cap {
        return cap;
    }
    let ramp = (cap - prefix).min(new);
    (ramp * (prefix + ramp / 2.0) + (new - ramp) * cap) / new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_limits_the_mean_context_of_a_prefill() {
        // 4 queries at 0..4 with a window of 2: areas 1 (ramp to 2) + 2 queries at 2.
        assert!((capped_mean(0.0, 4.0, 2.0) - (2.0 + 4.0) / 4.0).abs() < 1e-12);
        assert_eq!(capped_mean(10.0, 4.0, 2.0), 2.0);
        assert!((capped_mean(0.0, 4.0, 8.0) - 2.0).abs() < 1e-12);
    }
}
