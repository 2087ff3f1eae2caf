//! From shapes to ops: the work of one engine step on one rank, all layers of the stack.

use super::attention::{DecodeAttention, PrefillAttention};
use super::collective::{AllReduce, HandOver};
use super::gemm::Gemm;
use super::moe::{ExpertShards, MoeOp};
use super::op::Silicon;
use super::tables::OpTables;
use crate::config::Deployment;
use crate::model::{Architecture, Ffn, Formats, Mixer, WeightFormat};
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

/// What a layer with compressed attention passes over its activations more than another, in layers; assumed: four streams
/// of the residual are read twice and written twice, with the mixed one beside them (DeepSeek-V4), some 28 passes where [`Constants::elementwise_passes`](super::Constants::elementwise_passes) is about 15.
const STREAM_LAYERS: f64 = 1.9;

impl Ops {
    /// Layers that pass over the activations; wider residual streams count as more.
    pub fn passed_layers(&self) -> f64 {
        self.layers + STREAM_LAYERS * self.kinds.compressed
    }
}

/// What lowering knows of the layout, and the ops so far.
pub(super) struct Lowering<'a> {
    pub(super) tables: &'a OpTables,
    pub(super) target: &'a Target,
    pub(super) engine: EngineFamily,
    pub(super) formats: &'a Formats,
    pub(super) silicon: Silicon,
    pub(super) deployment: &'a Deployment,
    expert_imbalance: f64,
    pub(super) hidden: f64,
    /// Ranks of a stage.
    pub(super) width: f64,
    /// Ranks that share a sequence's attention.
    pub(super) attention_width: f64,
    /// Attention-data-parallel groups.
    pub(super) groups: f64,
    /// Ranks a sequence's context is spread over in decode.
    pub(super) context: f64,
    /// Ranks that share a dense MLP, a shared expert or the LM head, and the groups that each do so for their own
    /// tokens: vLLM keeps them inside an attention group, the others spread them over the stage.
    dense_width: f64,
    dense_groups: f64,
    pub(super) ops: Ops,
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
    pub(super) fn attention_gemm(&mut self, name: &'static str, count: f64, shape: (f64, f64)) {
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
