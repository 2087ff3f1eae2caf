//! What may vary: one deployment of a model on a target.

use crate::model::KvFormat;
use serde::{Deserialize, Serialize};

/// One deployment. GPUs: `tp · pp · replicas`, and those of the prefill pool where there is one.
///
/// `tp` is the width of one pipeline stage. Attention-DP splits that width: `attention_dp` groups of
/// `tp / attention_dp` ranks hold their own sequences, and attention weights are sharded `tp / attention_dp` ways.
/// `ep` divides `tp`: `ep` groups of `tp / ep` ranks hold disjoint experts; a rank holds `experts / ep` experts, each
/// sharded `tp / ep` ways.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    /// Ranks of one pipeline stage.
    pub tp: u32,
    /// Expert-parallel groups inside the stage; 1 without expert parallelism.
    pub ep: u32,
    /// Attention-data-parallel groups inside the stage; 1 without.
    pub attention_dp: u32,
    /// Ranks of an attention group over which each sequence's KV cache is spread in decode; 1 without. It divides the
    /// ranks that would hold copies of the same KV heads otherwise.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub context_parallel: u32,
    /// Pipeline stages.
    pub pp: u32,
    /// Independent copies behind a router.
    pub replicas: u32,
    /// Requests in flight over all replicas.
    pub concurrency: u32,
    /// Precision of the checkpoint, as its preset names it.
    pub weight_dtype: String,
    /// KV cache format.
    pub kv_dtype: KvFormat,
    /// Token budget of one engine step.
    pub max_num_batched_tokens: u32,
    /// Most sequences an engine runs at once (per attention-DP group where there are several).
    pub max_num_seqs: u32,
    /// The engine's memory fraction; its meaning is the engine's own.
    pub memory_fraction: f64,
    /// Speculative decoding, where it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculation: Option<Speculation>,
    /// Prompts are prefilled on a pool of their own; everything above describes the decode pool then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill: Option<PrefillPool>,
}

fn one() -> u32 {
    1
}

fn is_one(ranks: &u32) -> bool {
    *ranks == 1
}

/// Instances that only prefill; the KV cache then moves to a decode instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefillPool {
    /// Instances.
    pub instances: u32,
    /// Ranks of one instance.
    pub tp: u32,
    /// Expert-parallel groups of one instance.
    pub ep: u32,
    /// Attention-data-parallel groups of one instance.
    pub attention_dp: u32,
}

impl PrefillPool {
    /// GPUs of the pool.
    pub fn gpus(&self) -> u32 {
        self.instances.saturating_mul(self.tp)
    }
}

/// Speculative decoding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speculation {
    /// Draft tokens per step.
    pub draft_tokens: u32,
    /// Mean tokens emitted per step and sequence, the sampled one included.
    pub tokens_per_step: f64,
}

impl Speculation {
    /// So many drafts where three would emit `with_three` tokens a step: every draft is accepted with one probability
    /// a, which emits `1 + a + … + a^k`.
    pub fn of(draft_tokens: u32, with_three: f64) -> Self {
        let tokens_per_step = emitted(acceptance(3, with_three), draft_tokens);
        Self { draft_tokens, tokens_per_step }
    }
}

/// Mean tokens of a step with `drafts` drafts, each accepted with probability `rate` where those before it were.
pub fn emitted(rate: f64, drafts: u32) -> f64 {
    (0..=drafts).map(|k| rate.powi(k as i32)).sum()
}

/// The chance of each draft, given those before it were accepted, that emits `tokens_per_step` on average.
pub fn acceptance(drafts: u32, tokens_per_step: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if emitted(middle, drafts) < tokens_per_step { low = middle } else { high = middle }
    }
    low
}

impl Deployment {
    /// GPUs of the whole deployment.
    pub fn gpus(&self) -> u32 {
        self.tp * self.pp * self.replicas + self.prefill.map_or(0, |pool| pool.gpus())
    }

    /// The prefill pool as a deployment of its own, with the formats and limits of the decode pool.
    pub fn prefill_deployment(&self) -> Option<Deployment> {
        let pool = self.prefill?;
        Some(Deployment {
            tp: pool.tp,
            ep: pool.ep,
            attention_dp: pool.attention_dp,
            context_parallel: 1,
            pp: 1,
            replicas: pool.instances,
            speculation: None,
            prefill: None,
            ..self.clone()
        })
    }

    /// Ranks that share one sequence's attention.
    pub fn attention_tp(&self) -> u32 {
        self.tp / self.attention_dp.max(1)
    }
}

/// `tp 8, ep 8, concurrency 64`: the knobs that say something, in the order of the layout.
impl std::fmt::Display for Deployment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tp {}", self.tp)?;
        let beside_tp = [
            ("ep", self.ep),
            ("attention_dp", self.attention_dp),
            ("context_parallel", self.context_parallel),
            ("pp", self.pp),
        ];
        for (name, value) in beside_tp {
            if value > 1 {
                write!(f, ", {name} {value}")?;
            }
        }
        if self.replicas > 1 {
            write!(f, ", {} replicas", self.replicas)?;
        }
        if let Some(pool) = self.prefill {
            write!(f, ", prefill {} x tp {}", pool.instances, pool.tp)?;
            for (name, value) in [("ep", pool.ep), ("attention_dp", pool.attention_dp)] {
                if value > 1 {
                    write!(f, " {name} {value}")?;
                }
            }
        }
        if let Some(speculation) = &self.speculation {
            write!(f, ", {} draft tokens", speculation.draft_tokens)?;
        }
        write!(f, ", concurrency {}", self.concurrency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_drafts_add_up_to_the_tokens_of_a_step() {
        // One draft: 1 + a. Three drafts at a = 1/2: 1 + 1/2 + 1/4 + 1/8.
        assert!((acceptance(1, 1.7) - 0.7).abs() < 1e-9);
        assert!((acceptance(3, 1.875) - 0.5).abs() < 1e-9);
        assert!(acceptance(2, 1.0) < 1e-9);
        assert!((acceptance(2, 3.0) - 1.0).abs() < 1e-9);
        assert!((Speculation::of(1, 1.875).tokens_per_step - 1.5).abs() < 1e-9);
        assert!((Speculation::of(3, 2.4).tokens_per_step - 2.4).abs() < 1e-9);
    }
}
