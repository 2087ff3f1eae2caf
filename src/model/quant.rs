//! Number formats of weights and of the KV cache, and which tensor group a checkpoint stores in which.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a weight matrix is stored, scales included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightFormat {
    /// 32-bit float: what a processor without 16-bit units computes in. Priced on probed devices only.
    F32,
    /// 16-bit brain float (or half).
    Bf16,
    /// 8-bit float, one scale per tensor or channel.
    Fp8,
    /// 8-bit float, one scale per 128 × 128 block (DeepSeek).
    Fp8Block,
    /// 4-bit float, an 8-bit scale per 32 weights (OCP MX).
    Mxfp4,
    /// 8-bit float, an 8-bit scale per 32 weights (OCP MX).
    Mxfp8,
    /// 4-bit float, an fp8 scale per 16 weights (NVIDIA).
    Nvfp4,
    /// 8-bit integer.
    Int8,
    /// 4-bit integer with a 16-bit scale per 32 to 128 weights (GPTQ, AWQ, compressed-tensors).
    Int4,
}

impl WeightFormat {
    /// Bytes per weight, scales included.
    ///
    /// MX formats: 4 or 8 bits and one 8-bit scale per 32 (OCP MX v1.0); NVFP4: one fp8 scale per 16;
    /// int4: a 16-bit scale per 64 on average; block fp8: a 32-bit scale per 16,384.
    pub fn bytes(self) -> f64 {
        match self {
            WeightFormat::F32 => 4.0,
            WeightFormat::Bf16 => 2.0,
            WeightFormat::Fp8 | WeightFormat::Int8 => 1.0,
            WeightFormat::Fp8Block => 1.0 + 4.0 / 16384.0,
            WeightFormat::Mxfp4 => 17.0 / 32.0,
            WeightFormat::Mxfp8 => 33.0 / 32.0,
            WeightFormat::Nvfp4 => 9.0 / 16.0,
            WeightFormat::Int4 => 0.5 + 2.0 / 64.0,
        }
    }
}

impl fmt::Display for WeightFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WeightFormat::F32 => "f32",
            WeightFormat::Bf16 => "bf16",
            WeightFormat::Fp8 => "fp8",
            WeightFormat::Fp8Block => "fp8_block",
            WeightFormat::Mxfp4 => "mxfp4",
            WeightFormat::Mxfp8 => "mxfp8",
            WeightFormat::Nvfp4 => "nvfp4",
            WeightFormat::Int8 => "int8",
            WeightFormat::Int4 => "int4",
        })
    }
}

/// How the KV cache is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvFormat {
    /// 32-bit, on a device that computes in it.
    F32,
    /// 16-bit.
    Bf16,
    /// 8-bit float.
    Fp8,
}

impl KvFormat {
    /// Bytes per cached value.
    pub fn bytes(self) -> f64 {
        match self {
            KvFormat::F32 => 4.0,
            KvFormat::Bf16 => 2.0,
            KvFormat::Fp8 => 1.0,
        }
    }
}

impl fmt::Display for KvFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KvFormat::F32 => "f32",
            KvFormat::Bf16 => "bf16",
            KvFormat::Fp8 => "fp8",
        })
    }
}

/// Which tensor group is stored in which format. Norms, routers' biases and the like are always 16-bit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Formats {
    /// Attention projections (and other mixers').
    pub attention: WeightFormat,
    /// Input projections of linear-attention layers, where they differ from the other mixers'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear_input: Option<WeightFormat>,
    /// Dense MLPs.
    pub dense: WeightFormat,
    /// Routed experts.
    pub experts: WeightFormat,
    /// Shared experts.
    pub shared: WeightFormat,
    /// Embedding table.
    #[serde(default = "bf16")]
    pub embedding: WeightFormat,
    /// LM head.
    #[serde(default = "bf16")]
    pub lm_head: WeightFormat,
}

fn bf16() -> WeightFormat {
    WeightFormat::Bf16
}

impl Formats {
    /// Every matrix in one format, embedding and head in bf16.
    pub fn uniform(format: WeightFormat) -> Self {
        Self {
            attention: format,
            linear_input: None,
            dense: format,
            experts: format,
            shared: format,
            embedding: WeightFormat::Bf16,
            lm_head: WeightFormat::Bf16,
        }
    }
}

/// One published checkpoint of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The precision as users name it: `bf16`, `fp8`, `mxfp4`, `nvfp4`, `int4` …
    pub dtype: String,
    /// Where it is published, e.g. `openai/gpt-oss-120b`.
    pub id: String,
    /// Format of each tensor group.
    pub formats: Formats,
}
