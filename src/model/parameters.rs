//! How many parameters a model has, per tensor group, in total and per token.
//!
//! Closed forms over the shapes of [`Architecture`]; every count is a number of weights, not bytes. Sums and products
//! saturate, so an absurd shape gives an absurd count instead of a panic; [`super::import`] refuses such shapes.

use super::architecture::{Architecture, Ffn, Gqa, Indexer, LayerGroup, LinearAttention, Mamba2, Mixer, Mla};
use serde::{Deserialize, Serialize};

/// Parameters of a whole model, per tensor group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Parameters {
    /// Input embedding table.
    pub embedding: u64,
    /// LM head; 0 where it shares the embedding table.
    pub lm_head: u64,
    /// Attention and other mixers, sparse indexers included.
    pub attention: u64,
    /// Dense MLPs.
    pub dense: u64,
    /// Routers.
    pub router: u64,
    /// Routed experts, all of them.
    pub experts: u64,
    /// Routed experts that one token passes through.
    pub active_experts: u64,
    /// Shared experts, and the projections into and out of latent experts.
    pub shared: u64,
    /// Norms.
    pub norms: u64,
    /// Vision or audio encoder with its projector.
    pub encoder: u64,
    /// Multi-token-prediction layers (their embedding and head are the main stack's).
    pub mtp: u64,
    /// The matrix that yields the logits, shared with the embedding or not.
    pub output: u64,
}

impl Parameters {
    /// All parameters, multi-token-prediction layers apart, encoder included.
    pub fn total(&self) -> u64 {
        sum(&[self.embedding, self.lm_head, self.layers(), self.experts, self.encoder])
    }

    /// Parameters a token passes through when it is decoded: no input embedding, with the LM head, no encoder.
    pub fn active(&self) -> u64 {
        sum(&[self.output, self.layers(), self.active_experts])
    }

    fn layers(&self) -> u64 {
        sum(&[self.attention, self.dense, self.router, self.shared, self.norms])
    }
}

impl Architecture {
    /// Parameters per tensor group.
    pub fn parameters(&self) -> Parameters {
        let hidden = self.hidden;
        let table = mul(&[self.vocab, hidden]);
        let over = |f: &dyn Fn(&LayerGroup) -> u64| {
            self.layers.iter().fold(0, |all: u64, g| all.saturating_add(f(g).saturating_mul(g.count.into())))
        };
        let moe = |g: &LayerGroup| match &g.ffn {
            Ffn::Moe(moe) => (moe.experts, moe.top_k),
            _ => (0, 0),
        };
        Parameters {
            embedding: table,
            lm_head: if self.tied_embeddings { 0 } else { table },
            attention: over(&|g| g.attention_parameters(hidden)),
            dense: over(&|g| g.dense_parameters(hidden)),
            router: over(&|g| g.router_parameters(hidden)),
            experts: over(&|g| g.expert_parameters(hidden).saturating_mul(moe(g).0.into())),
            active_experts: over(&|g| g.expert_parameters(hidden).saturating_mul(moe(g).1.into())),
            shared: over(&|g| g.shared_parameters(hidden)),
            norms: over(&|g| g.norm_parameters(hidden)).saturating_add(hidden.into()),
            encoder: self.encoder_parameters,
            mtp: self.mtp_parameters(),
            output: table,
        }
    }

    /// One prediction layer is a layer of the main stack (full attention, its last feed-forward kind), a projection of
    /// two hidden vectors to one and three norms (DeepSeek-V3 report, section 2.2).
    fn mtp_parameters(&self) -> u64 {
        if self.mtp_layers == 0 {
            return 0;
        }
        let hidden = self.hidden;
        let attention = |g: &&LayerGroup| matches!(&g.mixer, Mixer::Mla(_) | Mixer::Gqa(Gqa { window: None, .. }));
        let mixer = self.layers.iter().rfind(attention).or(self.layers.last());
        let ffn = self.layers.iter().rfind(|g| !matches!(g.ffn, Ffn::None));
        let ffn = ffn.map_or(0, |g| {
            let experts = if let Ffn::Moe(m) = &g.ffn { m.experts } else { 0 };
            sum(&[
                g.dense_parameters(hidden),
                g.router_parameters(hidden),
                g.shared_parameters(hidden),
                g.expert_parameters(hidden).saturating_mul(experts.into()),
            ])
        });
        let one = sum(&[
            mixer.map_or(0, |g| g.attention_parameters(hidden)),
            ffn,
            mul(&[2, hidden, hidden]),
            mul(&[5, hidden]),
        ]);
        one.saturating_mul(self.mtp_layers.into())
    }
}

/// Counts of one layer of the group.
impl LayerGroup {
    /// Mixer projections, biases and convolutions included, norms apart.
    pub fn attention_parameters(&self, hidden: u32) -> u64 {
        match &self.mixer {
            Mixer::Gqa(a) => gqa(a, hidden),
            Mixer::Mla(a) => mla(a, hidden),
            Mixer::Linear(a) => linear(a, hidden),
            Mixer::Mamba2(a) => mamba2(a, hidden),
            Mixer::None => 0,
        }
    }

    /// The dense MLP; 0 in an expert layer.
    pub fn dense_parameters(&self, hidden: u32) -> u64 {
        match self.ffn {
            Ffn::Dense { inter, gated } => mul(&[matrices(gated), hidden, inter]),
            _ => 0,
        }
    }

    /// One routed expert; 0 in a dense layer.
    pub fn expert_parameters(&self, hidden: u32) -> u64 {
        let Ffn::Moe(moe) = &self.ffn else { return 0 };
        let width = moe.latent.unwrap_or(hidden);
        let biases = if moe.bias { mul(&[matrices(moe.gated) - 1, moe.inter]).saturating_add(width.into()) } else { 0 };
        mul(&[matrices(moe.gated), width, moe.inter]).saturating_add(biases)
    }

    /// Shared experts together, with their gate and with the projections into and out of latent experts.
    pub fn shared_parameters(&self, hidden: u32) -> u64 {
        let Ffn::Moe(moe) = &self.ffn else { return 0 };
        sum(&[
            mul(&[matrices(moe.gated), hidden, moe.shared_inter]),
            if moe.shared_gate { hidden.into() } else { 0 },
            moe.latent.map_or(0, |latent| mul(&[2, hidden, latent])),
        ])
    }

    /// The router.
    pub fn router_parameters(&self, hidden: u32) -> u64 {
        match &self.ffn {
            Ffn::Moe(moe) => mul(&[hidden.saturating_add(1), moe.experts]),
            _ => 0,
        }
    }

    /// One norm before each part, and those inside the mixer.
    pub fn norm_parameters(&self, hidden: u32) -> u64 {
        let inside = match &self.mixer {
            Mixer::Gqa(a) if a.qk_norm => mul(&[2, a.head_dim]),
            Mixer::Mla(a) => u64::from(a.q_lora.unwrap_or(0)) + u64::from(a.kv_lora),
            Mixer::Linear(a) => a.value_dim.into(),
            Mixer::Mamba2(a) => mul(&[a.heads, a.head_dim]),
            _ => 0,
        };
        let parts = u64::from(!matches!(self.mixer, Mixer::None)) + u64::from(!matches!(self.ffn, Ffn::None));
        parts.saturating_mul(hidden.into()).saturating_add(inside)
    }
}

fn gqa(a: &Gqa, hidden: u32) -> u64 {
    let value = a.v_head_dim.unwrap_or(a.head_dim);
    let query = mul(&[if a.output_gate { 2 } else { 1 }, a.heads, a.head_dim]);
    let keys = mul(&[a.kv_heads, a.head_dim]);
    let values = if a.shared_kv { 0 } else { mul(&[a.kv_heads, value]) };
    let out = mul(&[a.heads, value]);
    let h = u64::from(hidden);
    sum(&[
        match a.q_lora {
            Some(rank) => sum(&[h, query]).saturating_mul(rank.into()),
            None => h.saturating_mul(query),
        },
        h.saturating_mul(sum(&[keys, values])),
        match &a.out_lora {
            Some(o) => sum(&[out.saturating_mul(o.rank.into()), mul(&[o.groups, o.rank, hidden])]),
            None => h.saturating_mul(out),
        },
        if a.qkv_bias { sum(&[query, keys, values]) } else { 0 },
        if a.out_bias { h } else { 0 },
        if a.sinks { a.heads.into() } else { 0 },
        compressor(a, hidden),
        a.indexer.as_ref().map_or(0, |i| indexer(i, a.q_lora.unwrap_or(hidden), hidden, a.compression)),
    ])
}

/// DeepSeek-V4: key-value and gate projections of the compressor and its position bias; a ratio of 4 overlaps two
/// windows, which doubles its width.
fn compressor(a: &Gqa, hidden: u32) -> u64 {
    a.compression.map_or(0, |ratio| compressor_of_width(a.head_dim, ratio, hidden))
}

fn compressor_of_width(head_dim: u32, ratio: u32, hidden: u32) -> u64 {
    let width = if ratio == 4 { u64::from(head_dim) * 2 } else { head_dim.into() };
    sum(&[2 * u64::from(hidden), ratio.into()]).saturating_mul(width)
}

fn mla(a: &Mla, hidden: u32) -> u64 {
    let query = mul(&[a.heads, a.nope.saturating_add(a.rope)]);
    let h = u64::from(hidden);
    sum(&[
        match a.q_lora {
            Some(rank) => sum(&[h, query]).saturating_mul(rank.into()),
            None => h.saturating_mul(query),
        },
        h.saturating_mul(u64::from(a.kv_lora) + u64::from(a.rope)),
        mul(&[a.kv_lora, a.heads, a.nope.saturating_add(a.v_dim)]),
        mul(&[a.heads, a.v_dim, hidden]),
        a.indexer.as_ref().map_or(0, |i| indexer(i, a.q_lora.unwrap_or(hidden), hidden, None)),
    ])
}

/// Query and key projections of the index, its head weights and the key norm (DeepSeek-V3.2); in DeepSeek-V4 a
/// compressor takes the place of the key projection.
fn indexer(i: &Indexer, query_in: u32, hidden: u32, compression: Option<u32>) -> u64 {
    if !i.owns_index {
        return 0;
    }
    let key = match compression {
        Some(ratio) => compressor_of_width(i.head_dim, ratio, hidden),
        None => mul(&[hidden, i.head_dim]).saturating_add(mul(&[2, i.head_dim])),
    };
    sum(&[mul(&[query_in, i.heads, i.head_dim]), mul(&[hidden, i.heads]), key])
}

/// Gated delta net: q, k, v and the output gate, two scalars a value head, the convolution over q, k and v, the output.
/// Kimi delta attention: decay and output gate of low rank, one scalar a head.
fn linear(a: &LinearAttention, hidden: u32) -> u64 {
    let h = u64::from(hidden);
    let (keys, values) = (mul(&[a.key_heads, a.key_dim]), mul(&[a.value_heads, a.value_dim]));
    let qkv = sum(&[keys, keys, values]);
    let gates = match a.gate_rank {
        Some(rank) => sum(&[
            sum(&[h, keys]).saturating_mul(rank.into()),
            sum(&[h, values]).saturating_mul(rank.into()),
            h.saturating_mul(a.value_heads.into()),
            keys,
        ]),
        None => h.saturating_mul(sum(&[values, mul(&[2, a.value_heads])])),
    };
    sum(&[
        h.saturating_mul(qkv),
        gates,
        qkv.saturating_mul(a.conv_width.into()),
        values.saturating_mul(h),
        mul(&[2, a.value_heads]),
    ])
}

/// Mamba-2: one input projection to gate, x, B, C and the step; the convolution over x, B and C with bias; A, D and the
/// step's bias per head; the output.
fn mamba2(a: &Mamba2, hidden: u32) -> u64 {
    let h = u64::from(hidden);
    let inner = mul(&[a.heads, a.head_dim]);
    let convolved = sum(&[inner, mul(&[2, a.groups, a.state])]);
    sum(&[
        h.saturating_mul(sum(&[inner, convolved, a.heads.into()])),
        convolved.saturating_mul(u64::from(a.conv_width) + 1),
        mul(&[3, a.heads]),
        inner.saturating_mul(h),
    ])
}

fn matrices(gated: bool) -> u32 {
    if gated { 3 } else { 2 }
}

fn mul(factors: &[u32]) -> u64 {
    factors.iter().fold(1, |all: u64, f| all.saturating_mul((*f).into()))
}

fn sum(terms: &[u64]) -> u64 {
    terms.iter().fold(0, |all: u64, t| all.saturating_add(*t))
}
