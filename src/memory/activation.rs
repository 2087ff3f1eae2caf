//! What is the largest activation of a full step?
//!
//! Two peaks that do not meet: the widest layer over all tokens of the step, and the sampler over all sequences.
//! The layer part is a count of the live tensors: 6·hidden + 6·intermediate bytes a token in bf16. It gives 110,592
//! bytes for Llama-3.1-8B, and two public starts that differ by 9000 tokens differ by 109,758 a token
//! (vllm-project/vllm#10517).

use crate::memory::weights::Shards;
use crate::model::{Architecture, Ffn};
use crate::target::engine::EngineSettings;

/// The two peaks as coefficients.
#[derive(Debug, Clone, Copy)]
pub struct Activation {
    /// Bytes per token of the step in the widest layer.
    pub per_token: f64,
    /// Bytes per sequence at the sampler.
    pub per_sequence: f64,
}

impl Activation {
    /// Coefficients of a layout.
    pub fn new(arch: &Architecture, engine: &EngineSettings, shards: Shards) -> Self {
        let h = f64::from(arch.hidden);
        let widest = arch.layers.iter().map(|g| match &g.ffn {
            Ffn::Dense { inter, gated } => {
                let inter = f64::from(*inter) / shards.dense;
                2.0 * inter * if *gated { 3.0 } else { 2.0 }
            }
            Ffn::Moe(m) => {
                // Every routed copy of a token: input and output of the expert share one buffer with the gate and up.
                let inter = f64::from(m.inter) / shards.expert_inner;
                2.0 * f64::from(m.top_k) * ((2.0 * inter).max(h) + inter)
            }
            Ffn::None => 0.0,
        });
        Self {
            per_token: 6.0 * h + widest.fold(0.0, f64::max),
            per_sequence: engine.sampler_copies * 4.0 * f64::from(arch.vocab),
        }
    }

    /// Peak bytes of a step.
    pub fn peak(&self, tokens: f64, sequences: f64) -> f64 {
        (self.per_token * tokens).max(self.per_sequence * sequences.min(tokens))
    }
}
