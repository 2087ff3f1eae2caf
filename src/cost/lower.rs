//! From shapes to ops: the work of one engine step on one rank, all layers of the stack.

use super::attention::{DecodeAttention, DecodeShape, PrefillAttention};
use super::collective::{AllReduce, HandOver};
use super::gemm::Gemm;
use super::moe::{ExpertShards, MoeOp};
use super::op::Silicon;
use super::sparse::latent_reads;
use super::tables::OpTables;
use crate::config::Deployment;
use crate::model::{Architecture, Ffn, Formats, Gqa, Indexer, LinearAttention, Mamba2, Mixer, Mla, WeightFormat};
use crate::target::{EngineFamily, Target};

/// Layers of each kind; small kernels are counted by them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LayerKinds {
    /// Grouped-query attention.
    pub gqa: f64,
    /// Latent attention.
    pub mla: f64,
    /// Recurrent state.
    pub linear: f64,
    /// Dense MLP.
    pub dense: f64,
    /// Experts.
    pub moe: f64,
    /// Experts with a shared one.
    pub shared: f64,
    /// Sparse-attention index.
    pub index: f64,
    /// Compressed attention (DeepSeek-V4).
    pub compressed: f64,
}

/// The ops of a step, priced for one layout; time still depends on tokens, sequences and context.
#[derive(Debug, Clone)]
pub struct Ops {
    /// Dense products.
    pub gemms: Vec<Gemm>,
    /// Experts.
    pub moes: Vec<MoeOp>,
    /// Decode attention and recurrent mixers.
    pub decode: Vec<DecodeAttention>,
    /// Prefill attention.
    pub prefill: Vec<PrefillAttention>,
    /// All-reduces.
    pub collectives: Vec<AllReduce>,
    /// Exchanges of decode context parallelism; prefill has none.
    pub exchanges: Vec<AllReduce>,
    /// Pipeline hand-over.
    pub hand_over: HandOver,
    /// Layer counts.
    pub kinds: LayerKinds,
    /// Layers of the stack.
    pub layers: f64,
    /// Hidden size.
    pub hidden: f64,
}

/// What a layer with compressed attention passes over its activations more than another, in layers: four streams of the
/// residual are read twice and written twice, with a fourth of that for the mixed one (DeepSeek-V4's published inference
/// code), 28 passes where [`Constants::elementwise_passes`](super::Constants::elementwise_passes) is about 15.
const STREAM_LAYERS: f64 = 1.9;

impl Ops {
    /// Layers that pass over the activations; wider residual streams count as more.
    pub fn passed_layers(&self) -> f64 {
        self.layers + STREAM_LAYERS * self.kinds.compressed
    }
}

struct Lowering<'a> {
    tables: &'a OpTables,
    target: &'a Target,
    engine: EngineFamily,
    formats: &'a Formats,
    silicon: Silicon,
    deployment: &'a Deployment,
    expert_imbalance: f64,
    hidden: f64,
    /// Ranks of a stage.
    width: f64,
    /// Ranks that share a sequence's attention.
    attention_width: f64,
    /// Attention-data-parallel groups.
    groups: f64,
    /// Ranks a sequence's context is spread over in decode.
    context: f64,
    /// Ranks that share a dense MLP, a shared expert or the LM head, and the groups that each do so for their own
    /// tokens: vLLM keeps them inside an attention group, the others spread them over the stage.
    dense_width: f64,
    dense_groups: f64,
    ops: Ops,
}

/// Lowers a model on a layout. The layout must be legal. `expert_imbalance`: routed tokens of the busiest expert group
/// over the mean group's.
#[allow(clippy::too_many_arguments)]
pub fn lower(
    architecture: &Architecture,
    formats: &Formats,
    target: &Target,
    engine: EngineFamily,
    tables: &OpTables,
    deployment: &Deployment,
    expert_imbalance: f64,
) -> Ops {
    let hidden = f64::from(architecture.hidden);
    let mut l = Lowering {
        tables,
        target,
        engine,
        formats,
        silicon: Silicon::of(&target.gpu),
        deployment,
        expert_imbalance,
        hidden,
        width: f64::from(deployment.tp),
        attention_width: f64::from(deployment.attention_tp()),
        groups: f64::from(deployment.attention_dp),
        context: f64::from(deployment.context_parallel),
        dense_width: f64::from(if engine == EngineFamily::Vllm { deployment.attention_tp() } else { deployment.tp }),
        dense_groups: f64::from(if engine == EngineFamily::Vllm { deployment.attention_dp } else { 1 }),
        ops: Ops {
            gemms: Vec::new(),
            moes: Vec::new(),
            decode: Vec::new(),
            prefill: Vec::new(),
            collectives: Vec::new(),
            exchanges: Vec::new(),
            hand_over: HandOver::compile(&target.node, deployment.pp, deployment.tp, hidden),
            kinds: LayerKinds::default(),
            layers: f64::from(architecture.layer_count()),
            hidden,
        },
    };
    let mut mixers = 0.0;
    let mut dense = 0.0;
    let mut moes = 0.0;
    for group in &architecture.layers {
        let count = f64::from(group.count);
        mixers += if group.mixer == Mixer::None { 0.0 } else { count };
        match group.ffn {
            Ffn::Dense { .. } => dense += count,
            Ffn::Moe(_) => moes += count,
            Ffn::None => {}
        }
        match &group.mixer {
            Mixer::Gqa(a) => l.gqa(a, count),
            Mixer::Mla(a) => l.mla(a, count),
            Mixer::Linear(a) => l.linear(a, count),
            Mixer::Mamba2(a) => l.mamba(a, count),
            Mixer::None => {}
        }
        l.ffn(&group.ffn, count);
    }
    l.dense_gemm("LM head", 1.0, (f64::from(architecture.vocab) / l.dense_width, hidden), formats.lm_head);
    l.all_reduce(mixers, deployment.attention_tp(), l.groups);
    l.all_reduce(dense, l.dense_width as u32, l.dense_groups);
    match wide_exchange(architecture, deployment) {
        Some(top_k) if moes > 0.0 => {
            let exchange = AllReduce::exchange(&target.gpu, &target.node, moes, deployment.tp, hidden, top_k);
            l.ops.collectives.push(exchange);
        }
        _ => l.all_reduce(moes, deployment.tp, 1.0),
    }
    l.ops
}

/// Ranks from which engines exchange tokens between experts rather than gather and reduce them all: a node's eight.
const WIDE: u32 = 8;

/// Experts per token where a wide group exchanges tokens: attention data-parallel over every rank, experts spread over
/// every rank, more ranks than a node's.
fn wide_exchange(architecture: &Architecture, deployment: &Deployment) -> Option<f64> {
    let wide = deployment.tp > WIDE && deployment.attention_dp == deployment.tp && deployment.ep == deployment.tp;
    let top_k = |ffn: &Ffn| match ffn {
        Ffn::Moe(moe) => Some(f64::from(moe.top_k)),
        _ => None,
    };
    architecture.layers.iter().find_map(|g| top_k(&g.ffn)).filter(|_| wide)
}

impl Lowering<'_> {
    fn gemm(&mut self, name: &'static str, count: f64, shape: (f64, f64), format: WeightFormat) {
        let gemm = Gemm::compile(self.tables, &self.target.gpu, &self.silicon, name, count, shape, format);
        self.push(gemm);
    }

    /// A product of a dense MLP, a shared expert or the LM head.
    fn dense_gemm(&mut self, name: &'static str, count: f64, shape: (f64, f64), format: WeightFormat) {
        let gemm = Gemm::compile(self.tables, &self.target.gpu, &self.silicon, name, count, shape, format);
        self.push(gemm.per_group(self.dense_groups));
    }

    /// A product of the attention part: a group's ranks see the group's tokens only.
    fn attention_gemm(&mut self, name: &'static str, count: f64, shape: (f64, f64)) {
        let format = self.formats.attention;
        let gemm = Gemm::compile(self.tables, &self.target.gpu, &self.silicon, name, count, shape, format);
        self.push(gemm.per_group(self.groups));
    }

    /// Merges products of equal name and shape (window and full layers share theirs).
    fn push(&mut self, gemm: Gemm) {
        let same = |g: &&mut Gemm| g.name == gemm.name && g.n == gemm.n && g.k == gemm.k && g.table == gemm.table;
        match self.ops.gemms.iter_mut().find(same) {
            Some(known) => known.count += gemm.count,
            None => self.ops.gemms.push(gemm),
        }
    }

    fn all_reduce(&mut self, count: f64, ranks: u32, groups: f64) {
        let op = AllReduce::compile(
            self.tables,
            &self.target.gpu,
            &self.target.node,
            self.engine,
            count,
            ranks,
            self.hidden,
            groups,
        );
        if let Some(op) = op {
            match self.ops.collectives.iter_mut().find(|c| c.ranks == op.ranks && c.groups() == groups) {
                Some(known) => known.count += op.count,
                None => self.ops.collectives.push(op),
            }
        }
    }

    fn decode(&self, name: &'static str, count: f64, latent: bool, shape: DecodeShape) -> DecodeAttention {
        let kv = self.deployment.kv_dtype;
        let (gpu, silicon) = (&self.target.gpu, &self.silicon);
        DecodeAttention::compile(self.tables, gpu, silicon, self.engine, name, count, latent, shape, kv, self.groups)
    }

    /// Decode context parallelism: each rank attends with the heads of its whole group to its part of the context. The
    /// queries are gathered and the outputs reduced (`values` per token of one rank's heads, in and out together); each
    /// moves what half an all-reduce of the group's values would.
    fn context_exchange(&mut self, count: f64, values: f64) {
        let ranks = self.deployment.context_parallel;
        if ranks == 1 {
            return;
        }
        let width = values * self.context / 4.0;
        let (gpu, node) = (&self.target.gpu, &self.target.node);
        let op = AllReduce::compile(self.tables, gpu, node, self.engine, 2.0 * count, ranks, width, self.groups);
        self.ops.exchanges.extend(op);
    }

    fn prefill(&self, count: f64, heads: f64, dims: f64, longest: f64) -> PrefillAttention {
        PrefillAttention::compile(self.tables, &self.target.gpu, &self.silicon, count, heads, dims, longest)
    }

    fn gqa(&mut self, a: &Gqa, count: f64) {
        let heads = f64::from(a.heads) / self.attention_width;
        let kv_heads = (f64::from(a.kv_heads) / self.attention_width).max(1.0);
        let d = f64::from(a.head_dim);
        let dv = f64::from(a.v_head_dim.unwrap_or(a.head_dim));
        let query = heads * d * if a.output_gate { 2.0 } else { 1.0 };
        let key_value = kv_heads * if a.shared_kv { d } else { d + dv };
        match a.q_lora {
            Some(rank) => {
                let rank = f64::from(rank);
                self.attention_gemm("query and key-value down", count, (rank + key_value, self.hidden));
                self.attention_gemm("query up", count, (query, rank));
            }
            None => self.attention_gemm("QKV projection", count, (query + key_value, self.hidden)),
        }
        match &a.out_lora {
            Some(out) => {
                // Each block of heads has a product of its own; a rank has the blocks of its heads.
                let rows = f64::from(out.groups) / self.attention_width * f64::from(out.rank);
                self.attention_gemm("grouped output", count, (rows, f64::from(a.heads) * dv / f64::from(out.groups)));
                self.attention_gemm("attention output", count, (self.hidden, rows));
            }
            None => self.attention_gemm("attention output", count, (self.hidden, heads * dv)),
        }
        self.ops.kinds.gqa += count;
        let chosen = a.indexer.as_ref().map_or(f64::INFINITY, |index| f64::from(index.top_k));
        let attended = if a.compression.is_some() { f64::INFINITY } else { chosen };
        let (name, longest) = match a.window {
            Some(w) => ("window attention", f64::from(w) + 1.0),
            None => ("full attention", f64::INFINITY),
        };
        let spread = if a.window.is_some() { 1.0 } else { self.context };
        let shape = DecodeShape::gqa(heads * spread, kv_heads, d, dv, longest.min(attended));
        let decode = self.decode(name, count, false, shape).spread_over(spread);
        let longest = a.window.map_or(f64::INFINITY, f64::from).min(attended);
        let prefill = self.prefill(count, heads, d + dv, longest);
        if let Some(index) = a.indexer.as_ref().filter(|_| a.compression.is_none()) {
            self.index(index, count, &decode, &prefill, None);
        }
        self.ops.decode.push(decode);
        self.ops.prefill.push(prefill);
        if let Some(ratio) = a.compression {
            // Beside the window: one entry for `ratio` tokens, all of them or those the index chooses.
            let ratio = f64::from(ratio);
            let shape = DecodeShape::gqa(heads, kv_heads, d, dv, chosen * ratio);
            let decode = self.decode("compressed attention", count, false, shape).spread_over(ratio);
            let prefill = self.prefill(count, heads, (d + dv) / ratio, chosen * ratio);
            if let Some(index) = &a.indexer {
                self.index(index, count, &decode, &prefill, Some(d / ratio));
            }
            self.ops.decode.push(decode);
            self.ops.prefill.push(prefill);
            self.ops.kinds.compressed += count;
        }
        if a.window.is_none() {
            self.context_exchange(count, heads * (d + dv));
        }
    }

    /// The index beside the attention it chooses for; `gathered`: values gathered per pair of tokens in prefill, where
    /// kernels gather.
    fn index(
        &mut self,
        index: &Indexer,
        count: f64,
        decode: &DecodeAttention,
        prefill: &PrefillAttention,
        gathered: Option<f64>,
    ) {
        if let Some(values) = gathered {
            self.ops.prefill.push(prefill.gather(values, self.deployment.kv_dtype, &self.silicon));
        }
        if index.owns_index {
            self.ops.kinds.index += count;
            self.ops.decode.push(decode.index_scan(index, &self.silicon));
            self.ops.prefill.push(prefill.index_scores(index, &self.silicon));
        }
    }

    fn mla(&mut self, a: &Mla, count: f64) {
        let heads = f64::from(a.heads) / self.attention_width;
        let (latent, rope) = (f64::from(a.kv_lora), f64::from(a.rope));
        let (nope, v) = (f64::from(a.nope), f64::from(a.v_dim));
        let query = heads * (nope + rope);
        match a.q_lora {
            Some(rank) => {
                // The down-projections are replicated on every rank.
                let rank = f64::from(rank);
                self.attention_gemm("query and latent down", count, (rank + latent + rope, self.hidden));
                self.attention_gemm("query up", count, (query, rank));
            }
            None => self.attention_gemm("query and latent down", count, (query + latent + rope, self.hidden)),
        }
        self.attention_gemm("key absorption", count, (heads * nope, latent));
        self.attention_gemm("value absorption", count, (heads * v, latent));
        self.attention_gemm("attention output", count, (self.hidden, heads * v));
        let longest = a.indexer.as_ref().map_or(f64::INFINITY, |index| f64::from(index.top_k));
        let shape = DecodeShape::mla(heads * self.context, latent, rope, longest);
        let decode = self.decode("latent attention", count, true, shape).spread_over(self.context);
        // Sparse kernels attend to the latent itself, dense ones to the keys and values it stands for.
        let dims = if a.indexer.is_some() { 2.0 * latent + rope } else { nope + rope + v };
        let prefill = self.prefill(count, heads, dims, longest);
        if let Some(index) = a.indexer.as_ref() {
            if index.owns_index {
                let (h, d) = (f64::from(index.heads), f64::from(index.head_dim));
                let rank = a.q_lora.map_or(self.hidden, f64::from);
                self.attention_gemm("index query", count, (h * d, rank));
                self.attention_gemm("index key and weights", count, (d + h, self.hidden));
            }
            self.index(index, count, &decode, &prefill, Some(latent + rope));
        }
        let reads = latent_reads(heads * self.context, self.target.gpu.family);
        if reads > 1.0 {
            self.ops.decode.push(decode.reread(reads - 1.0));
        }
        self.ops.decode.push(decode);
        self.ops.prefill.push(prefill);
        self.context_exchange(count, heads * (2.0 * latent + rope));
        self.ops.kinds.mla += count;
    }

    fn linear(&mut self, a: &LinearAttention, count: f64) {
        let key = f64::from(a.key_heads * a.key_dim);
        let value = f64::from(a.value_heads * a.value_dim);
        let input = (2.0 * key + 2.0 * value + 2.0 * f64::from(a.value_heads)) / self.attention_width;
        self.attention_gemm("recurrent input", count, (input, self.hidden));
        self.attention_gemm("recurrent output", count, (self.hidden, value / self.attention_width));
        let state = value * f64::from(a.key_dim) + (2.0 * key + value) * f64::from(a.conv_width);
        self.recurrent(count, state);
    }

    fn mamba(&mut self, a: &Mamba2, count: f64) {
        let inner = f64::from(a.heads * a.head_dim);
        let groups = 2.0 * f64::from(a.groups * a.state);
        let input = (2.0 * inner + groups + f64::from(a.heads)) / self.attention_width;
        self.attention_gemm("recurrent input", count, (input, self.hidden));
        self.attention_gemm("recurrent output", count, (self.hidden, inner / self.attention_width));
        self.recurrent(count, inner * f64::from(a.state) + (inner + groups) * f64::from(a.conv_width));
    }

    /// A recurrent state of `values` values in 16 bits per sequence and layer.
    fn recurrent(&mut self, count: f64, values: f64) {
        let bytes = 2.0 * values / self.attention_width;
        self.ops.decode.push(DecodeAttention::recurrent(&self.silicon, "recurrent state", count, bytes, self.groups));
        self.ops.kinds.linear += count;
    }

    fn mlp(&mut self, names: [&'static str; 2], count: f64, inter: f64, gated: bool, format: WeightFormat) {
        let inter = inter / self.dense_width;
        let columns = if gated { 2.0 * inter } else { inter };
        self.dense_gemm(names[0], count, (columns, self.hidden), format);
        self.dense_gemm(names[1], count, (self.hidden, inter), format);
    }

    fn ffn(&mut self, ffn: &Ffn, count: f64) {
        match ffn {
            Ffn::Dense { inter, gated } => {
                self.mlp(["MLP gate and up", "MLP down"], count, f64::from(*inter), *gated, self.formats.dense);
                self.ops.kinds.dense += count;
            }
            Ffn::Moe(moe) => {
                let format = match self.formats.attention {
                    WeightFormat::F32 => WeightFormat::F32,
                    _ => WeightFormat::Bf16,
                };
                self.gemm("router", count, (f64::from(moe.experts), self.hidden), format);
                let shards = ExpertShards {
                    groups: f64::from(self.deployment.ep),
                    ranks_per_group: self.width / f64::from(self.deployment.ep),
                    imbalance: self.expert_imbalance,
                };
                let op = MoeOp::compile(
                    self.tables,
                    &self.target.gpu,
                    &self.silicon,
                    self.engine,
                    moe,
                    self.hidden,
                    self.formats.experts,
                    shards,
                    count,
                );
                // Window and full layers share their experts' shape.
                match self.ops.moes.iter_mut().find(|m| m.experts == op.experts && m.inter == op.inter) {
                    Some(known) => known.count += count,
                    None => self.ops.moes.push(op),
                }
                self.ops.kinds.moe += count;
                if moe.shared_inter > 0 {
                    let names = ["shared expert gate and up", "shared expert down"];
                    self.mlp(names, count, f64::from(moe.shared_inter), moe.gated, self.formats.shared);
                    self.ops.kinds.shared += count;
                }
            }
            Ffn::None => {}
        }
    }
}
