//! What a transformer is made of: layers, attention kinds, expert shapes. No times, no bytes on a GPU.

use serde::{Deserialize, Serialize};

/// A decoder as the cost and memory models see it.
///
/// Shapes are whole-model figures before any sharding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// Short name, as used on the command line.
    pub name: String,
    /// The architecture string of its `config.json`, e.g. `GptOssForCausalLM`.
    pub family: String,
    /// Hidden size.
    pub hidden: u32,
    /// Vocabulary size.
    pub vocab: u32,
    /// The LM head shares the embedding table.
    #[serde(default)]
    pub tied_embeddings: bool,
    /// Longest supported context in tokens.
    pub max_context: u32,
    /// Runs of equal layers; the order inside the stack does not matter to cost or memory.
    pub layers: Vec<LayerGroup>,
    /// Layers for multi-token prediction that the checkpoint carries beside the main stack.
    #[serde(default)]
    pub mtp_layers: u32,
    /// Parameters outside the decoder (vision tower, audio encoder), resident on every rank.
    #[serde(default)]
    pub encoder_parameters: u64,
}

/// `count` equal layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerGroup {
    /// How many layers have this shape.
    pub count: u32,
    /// How tokens are mixed.
    #[serde(with = "serde_yaml::with::singleton_map")]
    pub mixer: Mixer,
    /// The feed-forward part.
    #[serde(with = "serde_yaml::with::singleton_map")]
    pub ffn: Ffn,
}

/// How a layer mixes tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Mixer {
    /// Multi-head or grouped-query attention, full or windowed.
    Gqa(Gqa),
    /// Multi-head latent attention (DeepSeek): one latent vector a token instead of K and V.
    Mla(Mla),
    /// Linear attention with a fixed state per sequence (gated delta net, Kimi delta attention).
    Linear(LinearAttention),
    /// Mamba-2 state-space mixer.
    Mamba2(Mamba2),
    /// No token mixing (a feed-forward-only block of a hybrid).
    None,
}

/// Grouped-query attention.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gqa {
    /// Query heads.
    pub heads: u32,
    /// Key-value heads.
    pub kv_heads: u32,
    /// Size of a query or key head.
    pub head_dim: u32,
    /// Size of a value head, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v_head_dim: Option<u32>,
    /// Sliding window or attention chunk in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// Query, key and value projections carry a bias.
    #[serde(default)]
    pub qkv_bias: bool,
    /// The output projection carries a bias.
    #[serde(default)]
    pub out_bias: bool,
    /// RMS norm on queries and keys.
    #[serde(default)]
    pub qk_norm: bool,
    /// A learned sink logit per head.
    #[serde(default)]
    pub sinks: bool,
    /// The query projection is doubled to gate the output (Qwen3-Next, Qwen3.5).
    #[serde(default)]
    pub output_gate: bool,
    /// Rank of the query compression, where queries pass through one (Step-3, DeepSeek-V4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q_lora: Option<u32>,
    /// The output projection in two grouped steps, where it is (DeepSeek-V4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_lora: Option<OutLora>,
    /// Beside the window, one compressed KV entry for this many tokens of the whole context (DeepSeek-V4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<u32>,
    /// Keys are reused as values: one projection, and the cache holds it once where the engine does.
    #[serde(default)]
    pub shared_kv: bool,
    /// Sparse selection of the context, where the model has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexer: Option<Indexer>,
}

/// A grouped low-rank output projection: `groups` blocks of `heads · v_head_dim / groups` to `rank`, then all to hidden.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutLora {
    /// Blocks of heads.
    pub groups: u32,
    /// Rank of a block.
    pub rank: u32,
}

/// Multi-head latent attention.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mla {
    /// Query heads.
    pub heads: u32,
    /// Rank of the query compression; absent where queries are projected directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q_lora: Option<u32>,
    /// Rank of the cached latent.
    pub kv_lora: u32,
    /// Head size without position.
    pub nope: u32,
    /// Head size of the rotary part, cached once for all heads.
    pub rope: u32,
    /// Value head size.
    pub v_dim: u32,
    /// DeepSeek sparse attention, where the model has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexer: Option<Indexer>,
}

/// The index that chooses which context tokens are attended to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Indexer {
    /// Index heads.
    pub heads: u32,
    /// Index head size.
    pub head_dim: u32,
    /// Context tokens kept.
    pub top_k: u32,
    /// This group's layers own index weights and an index cache (some models share them between layers).
    #[serde(default = "yes")]
    pub owns_index: bool,
}

fn yes() -> bool {
    true
}

/// Linear attention with a recurrent state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearAttention {
    /// Key (and query) heads.
    pub key_heads: u32,
    /// Value heads.
    pub value_heads: u32,
    /// Key head size.
    pub key_dim: u32,
    /// Value head size.
    pub value_dim: u32,
    /// Width of the causal convolution; 0 without one.
    pub conv_width: u32,
    /// Decay and output gate are projected through this rank (Kimi delta attention); absent where a full-rank output
    /// gate and a scalar decay per head are (gated delta net).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_rank: Option<u32>,
}

/// Mamba-2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mamba2 {
    /// Heads.
    pub heads: u32,
    /// Head size.
    pub head_dim: u32,
    /// State size per head.
    pub state: u32,
    /// Groups that share B and C.
    pub groups: u32,
    /// Width of the causal convolution.
    pub conv_width: u32,
}

/// The feed-forward part of a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ffn {
    /// A dense MLP.
    Dense {
        /// Intermediate size.
        inter: u32,
        /// Gate, up and down (three matrices) rather than up and down.
        #[serde(default = "yes")]
        gated: bool,
    },
    /// Routed experts, with or without shared ones.
    Moe(Moe),
    /// None (a mixer-only block of a hybrid).
    None,
}

/// Mixture of experts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moe {
    /// Routed experts.
    pub experts: u32,
    /// Experts per token.
    pub top_k: u32,
    /// Intermediate size of one routed expert.
    pub inter: u32,
    /// Intermediate size of the shared experts together; 0 where there are none.
    #[serde(default)]
    pub shared_inter: u32,
    /// Gate, up and down rather than up and down.
    #[serde(default = "yes")]
    pub gated: bool,
    /// Expert projections carry biases (gpt-oss).
    #[serde(default)]
    pub bias: bool,
    /// Input size of the experts where it is not the hidden size (latent experts).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latent: Option<u32>,
    /// The shared expert's output is gated by a learned vector (Qwen).
    #[serde(default)]
    pub shared_gate: bool,
}

impl Architecture {
    /// Decoder layers in the main stack.
    pub fn layer_count(&self) -> u32 {
        self.layers.iter().map(|g| g.count).sum()
    }

    /// Any layer routes to experts.
    pub fn is_moe(&self) -> bool {
        self.layers.iter().any(|g| matches!(g.ffn, Ffn::Moe(_)))
    }
}
