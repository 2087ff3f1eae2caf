//! How many bytes of weights does the fullest rank hold?
//!
//! Written from the shapes, tensor by tensor as the engines fuse them (QKV in one matrix, gate and up in one), since
//! the allocator's rounding goes by tensor. Sharding: attention over `tp / attention_dp` ranks, KV heads replicated
//! once there are fewer than ranks; experts once over the `ep` groups and once over the `tp / ep` ranks inside one.

use crate::config::Deployment;
use crate::model::{
    Architecture, Ffn, Formats, Gqa, Indexer, LayerGroup, LinearAttention, Mamba2, Mixer, Mla, Moe, WeightFormat,
};
use crate::target::EngineFamily;
use crate::target::engine::{EngineSettings, ExpertPadding};
use crate::units::Bytes;

const BF16: f64 = 2.0;
const MIB: f64 = 1_048_576.0;

/// Ways the tensors of one layer are split.
#[derive(Debug, Clone, Copy)]
pub struct Shards {
    /// Ranks that share attention (and, in vLLM, whatever else is not an expert).
    pub attention: f64,
    /// Ranks that share a dense MLP or a shared expert.
    pub dense: f64,
    /// Expert groups with different experts.
    pub expert_groups: f64,
    /// Ranks that share one expert.
    pub expert_inner: f64,
}

impl Shards {
    /// The splits of a deployment under an engine.
    pub fn new(deployment: &Deployment, family: EngineFamily) -> Self {
        let tp = f64::from(deployment.tp.max(1));
        let attention = f64::from(deployment.attention_tp().max(1));
        let ep = f64::from(deployment.ep.max(1)).min(tp);
        // vLLM's attention-DP ranks are separate engines that meet in the experts only.
        let dense = if family == EngineFamily::Vllm { attention } else { tp };
        Self { attention, dense, expert_groups: ep, expert_inner: tp / ep }
    }
}

/// Weights of the fullest rank, padding and allocator rounding included.
pub fn weights(
    arch: &Architecture,
    formats: &Formats,
    engine: &EngineSettings,
    padding: ExpertPadding,
    deployment: &Deployment,
) -> Bytes {
    let shards = Shards::new(deployment, engine.family);
    let h = f64::from(arch.hidden);
    let pp = deployment.pp.max(1);
    let share = f64::from(arch.layer_count().div_ceil(pp)) / f64::from(arch.layer_count().max(1));
    let stack: f64 = arch.layers.iter().map(|g| f64::from(g.count) * layer(arch, g, formats, padding, shards)).sum();
    let vocab = (f64::from(arch.vocab) / 64.0).ceil() * 64.0 / shards.attention;
    let table = |format: WeightFormat| tensor(vocab * h, format.bytes());
    let embedding = table(formats.embedding);
    let head = if arch.tied_embeddings { 0.0 } else { table(formats.lm_head) };
    let ends = if pp > 1 { embedding.max(head) } else { embedding + head };
    let draft = if deployment.speculation.is_some() { draft_layers(arch, formats, padding, shards) } else { 0.0 };
    // vLLM splits vision towers like attention (Qwen3.8-27B-FP8 on two cards loads at 14.28 GiB, 14.7 were it whole).
    let encoder = arch.encoder_parameters as f64 * BF16 / shards.attention;
    Bytes(stack * share + ends + draft + encoder + h * BF16 + rotary_table(arch))
}

/// Multi-token-prediction layers: a decoder layer like the last one, and the projection that joins its two inputs.
fn draft_layers(arch: &Architecture, formats: &Formats, padding: ExpertPadding, shards: Shards) -> f64 {
    let h = f64::from(arch.hidden);
    let like = arch.layers.iter().rev().find(|g| matches!(g.mixer, Mixer::Gqa(_) | Mixer::Mla(_)));
    let one = like.map_or(0.0, |g| layer(arch, g, formats, padding, shards));
    f64::from(arch.mtp_layers) * (one + 2.0 * h * h * BF16)
}

/// The cosine and sine table engines keep for all positions; one per model.
fn rotary_table(arch: &Architecture) -> f64 {
    let dims = arch.layers.iter().map(|g| match &g.mixer {
        Mixer::Gqa(a) => f64::from(a.head_dim) * rotary_share(&arch.family),
        Mixer::Mla(a) => f64::from(a.rope),
        _ => 0.0,
    });
    f64::from(arch.max_context) * dims.fold(0.0, f64::max) * BF16
}

/// Rotated share of a head, by architecture (`partial_rotary_factor` of their configurations).
fn rotary_share(family: &str) -> f64 {
    if family.starts_with("Qwen3_5") || family.starts_with("Qwen3Next") {
        0.25
    } else if family.starts_with("Glm4") || family.starts_with("MiniMaxM2") {
        0.5
    } else {
        1.0
    }
}

/// Bytes one tensor takes from PyTorch's caching allocator.
///
/// Above 10 MiB a request gets a segment of whole 2 MiB; what is left over is split off for others only when it is
/// larger than 1 MiB, so up to 1 MiB stays with the tensor (`c10/cuda/CUDACachingAllocator`: kRoundLarge, kSmallSize).
pub fn tensor(elements: f64, bytes_per_element: f64) -> f64 {
    // 4, 8 or 16 bits of payload; scales are a tensor of their own.
    let payload = [2.0, 1.0, 0.5].into_iter().find(|p| *p <= bytes_per_element).unwrap_or(bytes_per_element);
    let (size, scales) = (elements * payload, elements * (bytes_per_element - payload));
    if size <= 10.0 * MIB {
        return size + scales;
    }
    let segment = (size / (2.0 * MIB)).ceil() * 2.0 * MIB;
    scales + if segment - size <= MIB { segment } else { size }
}

/// One layer's weights on a rank.
fn layer(arch: &Architecture, group: &LayerGroup, formats: &Formats, padding: ExpertPadding, s: Shards) -> f64 {
    let h = f64::from(arch.hidden);
    let mixer = match &group.mixer {
        Mixer::Gqa(a) => gqa(h, a, formats.attention, s),
        Mixer::Mla(a) => mla(h, a, formats.attention, s),
        Mixer::Linear(a) => linear(h, a, formats, s),
        Mixer::Mamba2(a) => mamba2(h, a, formats.attention, s),
        Mixer::None => 0.0,
    };
    let ffn = match &group.ffn {
        Ffn::Dense { inter, gated } => mlp(h, f64::from(*inter) / s.dense, *gated, formats.dense),
        Ffn::Moe(m) => moe(h, m, formats, padding, s),
        Ffn::None => 0.0,
    };
    mixer + ffn + 2.0 * h * BF16
}

/// KV heads of one rank: split while there are enough, then replicated.
pub fn kv_heads_per_rank(kv_heads: u32, ranks: f64) -> f64 {
    (f64::from(kv_heads) / ranks).ceil().max(1.0)
}

fn gqa(h: f64, a: &Gqa, format: WeightFormat, s: Shards) -> f64 {
    let q_heads = (f64::from(a.heads) / s.attention).ceil();
    let kv_heads = kv_heads_per_rank(a.kv_heads, s.attention);
    let d = f64::from(a.head_dim);
    let dv = f64::from(a.v_head_dim.unwrap_or(a.head_dim));
    let q = q_heads * d * if a.output_gate { 2.0 } else { 1.0 };
    let kv = kv_heads * (d + if a.shared_kv { 0.0 } else { dv });
    let bias = if a.qkv_bias { (q + kv) * BF16 } else { 0.0 } + if a.out_bias { h * BF16 } else { 0.0 };
    let norms = if a.qk_norm { 2.0 * d * BF16 } else { 0.0 } + if a.sinks { q_heads * BF16 } else { 0.0 };
    let index = a.indexer.as_ref().map_or(0.0, |i| indexer(h, h, i, format));
    let b = format.bytes();
    let input = match a.q_lora.map(f64::from) {
        Some(rank) => tensor(h * (rank + kv), b) + tensor(rank * q, b),
        None => tensor(h * (q + kv), b),
    };
    let output = match &a.out_lora {
        Some(lora) => {
            let (groups, rank) = (f64::from(lora.groups), f64::from(lora.rank));
            tensor(q_heads * dv * rank, b) + tensor(groups * rank * h / s.attention, b)
        }
        None => tensor(q_heads * dv * h, b),
    };
    input + output + bias + norms + index
}

fn mla(h: f64, a: &Mla, format: WeightFormat, s: Shards) -> f64 {
    let heads = (f64::from(a.heads) / s.attention).ceil();
    let (latent, rope) = (f64::from(a.kv_lora), f64::from(a.rope));
    let q_dim = heads * f64::from(a.nope + a.rope);
    let b = format.bytes();
    let down_and_q = match a.q_lora {
        Some(rank) => {
            let rank = f64::from(rank);
            tensor(h * (rank + latent + rope), b) + tensor(rank * q_dim, b)
        }
        None => tensor(h * (latent + rope), b) + tensor(h * q_dim, b),
    };
    let up = latent * heads * f64::from(a.nope + a.v_dim);
    // The absorbed up-projections are kept in bf16 beside a quantised original.
    let absorbed = if format == WeightFormat::Bf16 { 0.0 } else { up * BF16 };
    let q_in = a.q_lora.map_or(h, f64::from);
    let index = a.indexer.as_ref().map_or(0.0, |i| indexer(h, q_in, i, format));
    down_and_q + tensor(up, b) + absorbed + tensor(heads * f64::from(a.v_dim) * h, b) + index
}

/// Index weights, replicated on every rank: query up-projection, one key, a weight per head.
fn indexer(h: f64, q_in: f64, i: &Indexer, format: WeightFormat) -> f64 {
    if !i.owns_index {
        return 0.0;
    }
    let (heads, d) = (f64::from(i.heads), f64::from(i.head_dim));
    tensor(q_in * heads * d, format.bytes()) + h * d * format.bytes() + h * heads * BF16
}

fn linear(h: f64, a: &LinearAttention, formats: &Formats, s: Shards) -> f64 {
    let input = formats.linear_input.unwrap_or(formats.attention).bytes();
    let keys = f64::from(a.key_heads * a.key_dim) / s.attention;
    let values = f64::from(a.value_heads * a.value_dim) / s.attention;
    let v_heads = f64::from(a.value_heads) / s.attention;
    let conv = (2.0 * keys + values) * f64::from(a.conv_width) * BF16;
    let out = tensor(values * h, formats.attention.bytes());
    match a.gate_rank {
        // Kimi delta attention: Q, K, V, then decay and output gate through a bottleneck, beta a value a head.
        Some(rank) => {
            let rank = f64::from(rank);
            let bottlenecks = 2.0 * (h * rank + rank * values) + h * v_heads;
            tensor(h * (2.0 * keys + values), input) + bottlenecks * BF16 + conv + out
        }
        // Gated delta net: Q, K, V and the output gate in one matrix, beta and decay in a second, unquantised one.
        None => tensor(h * (2.0 * keys + 2.0 * values), input) + h * 2.0 * v_heads * BF16 + conv + out,
    }
}

fn mamba2(h: f64, a: &Mamba2, format: WeightFormat, s: Shards) -> f64 {
    let inner = f64::from(a.heads * a.head_dim) / s.attention;
    let shared = 2.0 * (f64::from(a.groups) / s.attention).max(1.0) * f64::from(a.state);
    let heads = f64::from(a.heads) / s.attention;
    let conv = (inner + shared) * f64::from(a.conv_width) * BF16;
    tensor(h * (2.0 * inner + shared + heads), format.bytes()) + conv + tensor(inner * h, format.bytes())
}

fn mlp(h: f64, inter: f64, gated: bool, format: WeightFormat) -> f64 {
    let up = if gated { 2.0 } else { 1.0 };
    tensor(h * up * inter, format.bytes()) + tensor(inter * h, format.bytes())
}

fn moe(h: f64, m: &Moe, formats: &Formats, padding: ExpertPadding, s: Shards) -> f64 {
    let experts = (f64::from(m.experts) / s.expert_groups).ceil();
    let router = f64::from(m.experts) * h * BF16;
    let shared =
        if m.shared_inter > 0 { mlp(h, f64::from(m.shared_inter) / s.dense, m.gated, formats.shared) } else { 0.0 };
    let gate = if m.shared_gate { h * BF16 } else { 0.0 };
    let latent = m.latent.map_or(0.0, |l| 2.0 * h * f64::from(l) * BF16);
    let input = m.latent.map_or(h, f64::from);
    router + shared + gate + latent + experts * expert(input, m, formats.experts, padding, s.expert_inner)
}

/// One routed expert's share on a rank: up (and gate) and down, as the kernel lays them out.
fn expert(h: f64, m: &Moe, format: WeightFormat, padding: ExpertPadding, ranks: f64) -> f64 {
    let up = if m.gated { 2.0 } else { 1.0 };
    let inter = f64::from(m.inter) / ranks;
    let padded = |x: f64, to: u32| (x / f64::from(to.max(1))).ceil() * f64::from(to.max(1));
    let pads = format == WeightFormat::Mxfp4;
    let (h_pad, i_pad) = if pads { (padded(h, padding.hidden), padded(inter, padding.inter)) } else { (h, inter) };
    let elements = if pads && padding.input_dim_only {
        up * i_pad * h_pad + h * padded(inter, padding.hidden)
    } else {
        (up + 1.0) * h_pad * i_pad
    };
    let bias = if m.bias { (up * i_pad + h_pad) * BF16 } else { 0.0 };
    elements * format.bytes() + bias
}
