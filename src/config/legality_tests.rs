//! Rules checked on published shapes; the expected answers are the engines' own refusals.

use super::*;
use crate::model::{Architecture, Checkpoint, Formats, Gqa, KvFormat, LayerGroup, Moe};
use proptest::prelude::*;

fn gqa(heads: u32, kv_heads: u32) -> Mixer {
    Mixer::Gqa(Gqa {
        heads,
        kv_heads,
        head_dim: 128,
        v_head_dim: None,
        window: None,
        qkv_bias: false,
        out_bias: false,
        qk_norm: false,
        sinks: false,
        output_gate: false,
        q_lora: None,
        out_lora: None,
        compression: None,
        shared_kv: false,
        indexer: None,
    })
}

fn model(name: &str, layers: u32, mixer: Mixer, ffn: Ffn, dtype: &str, format: WeightFormat) -> Model {
    Model {
        architecture: Architecture {
            name: name.into(),
            family: "Test".into(),
            hidden: 4096,
            vocab: 128_000,
            tied_embeddings: false,
            max_context: 131_072,
            layers: vec![LayerGroup { count: layers, mixer, ffn }],
            mtp_layers: 0,
            encoder_parameters: 0,
        },
        checkpoints: vec![Checkpoint { dtype: dtype.into(), id: name.into(), formats: Formats::uniform(format) }],
        published: None,
        aliases: vec![],
        source: "test".into(),
        notes: vec![],
    }
}

fn experts(experts: u32, inter: u32) -> Ffn {
    Ffn::Moe(Moe {
        experts,
        top_k: 8,
        inter,
        shared_inter: 0,
        gated: true,
        bias: false,
        latent: None,
        shared_gate: false,
    })
}

fn llama() -> Model {
    // Llama-3.3-70B: 80 layers, 64 heads, 8 KV heads, 28,672 intermediate.
    let ffn = Ffn::Dense { inter: 28_672, gated: true };
    model("llama-3.3-70b", 80, gqa(64, 8), ffn, "bf16", WeightFormat::Bf16)
}

fn qwen() -> Model {
    // Qwen3-235B-A22B-FP8: 94 layers, 64 heads, 4 KV heads, 128 experts of 1,536 in 128 × 128 blocks.
    model("qwen3-235b", 94, gqa(64, 4), experts(128, 1536), "fp8", WeightFormat::Fp8Block)
}

fn deployment(tp: u32, ep: u32, dtype: &str) -> Deployment {
    Deployment {
        tp,
        ep,
        attention_dp: 1,
        context_parallel: 1,
        pp: 1,
        replicas: 1,
        concurrency: 16,
        weight_dtype: dtype.into(),
        kv_dtype: KvFormat::Bf16,
        max_num_batched_tokens: 8192,
        max_num_seqs: 256,
        memory_fraction: 0.9,
        speculation: None,
        prefill: None,
    }
}

fn rules(model: &Model) -> Legality {
    Legality::new(model, &Target::load("mi355x").unwrap())
}

#[test]
fn names_machine_found_model_and_repair() {
    let error = rules(&llama()).require(&deployment(6, 1, "bf16"), 8).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(
        error.to_string().starts_with(
            "mi355x, 8 GPUs: tp 6 does not divide 64 attention heads (llama-3.3-70b); 6 attention ranks can neither"
        ),
        "{error}"
    );
    let broken = rules(&llama()).violations(&deployment(6, 1, "bf16"), 8);
    assert_eq!(
        rules(&llama()).message(&broken[0], 8),
        "mi355x, 8 GPUs: tp 6 does not divide 64 attention heads (llama-3.3-70b). Use 1, 2, 4 or 8."
    );
}

#[test]
fn lists_every_violation() {
    let mut d = deployment(8, 2, "fp8");
    (d.pp, d.replicas, d.concurrency) = (100, 3, 2);
    let reasons: Vec<_> = rules(&llama()).violations(&d, 8).iter().map(Violation::reason).collect();
    assert_eq!(
        reasons,
        [
            "more GPUs than there are",
            "more pipeline stages than layers",
            "no checkpoint in this precision",
            "fewer requests than replicas"
        ]
    );
}

#[test]
fn kv_heads_may_be_replicated() {
    // 4 KV heads on 8 ranks: each held twice, as vLLM does.
    assert!(rules(&qwen()).violations(&deployment(8, 8, "fp8"), 8).is_empty());
}

#[test]
fn block_fp8_shards_hold_whole_blocks() {
    // vLLM refuses Qwen3-235B-A22B-FP8 at tp 8 without expert parallelism: 1536 / 8 = 192 is no multiple of 128.
    let broken = rules(&qwen()).violations(&deployment(8, 1, "fp8"), 8);
    assert_eq!(broken, [Violation::Inter { of: "expert", ranks: 8, inter: 1536, block: 128 }]);
    assert!(broken[0].repair().contains("1, 2, 3, 4 or 6"), "{}", broken[0].repair());
    assert!(rules(&qwen()).violations(&deployment(4, 1, "fp8"), 8).is_empty());
}

#[test]
fn expert_parallelism_needs_experts_and_divides() {
    assert_eq!(rules(&llama()).violations(&deployment(8, 2, "bf16"), 8), [Violation::NoExperts { ep: 2 }]);
    assert_eq!(rules(&qwen()).violations(&deployment(4, 8, "fp8"), 8), [Violation::ExpertRanks { ep: 8, tp: 4 }]);
}

#[test]
fn attention_dp_divides_tp() {
    let mut d = deployment(4, 4, "fp8");
    d.attention_dp = 3;
    assert_eq!(rules(&qwen()).violations(&d, 8), [Violation::AttentionDp { attention_dp: 3, tp: 4 }]);
    d.attention_dp = 4;
    assert!(rules(&qwen()).violations(&d, 8).is_empty());
}

proptest! {
    #[test]
    fn never_panics(tp in 0u32..40, ep in 0u32..40, adp in 0u32..40, pp in 0u32..u32::MAX, replicas in 0u32..u32::MAX,
                    concurrency in 0u32..9, fraction in proptest::num::f64::ANY) {
        let mut d = deployment(tp, ep, "fp8");
        (d.attention_dp, d.pp, d.replicas, d.concurrency, d.memory_fraction) = (adp, pp, replicas, concurrency, fraction);
        for v in rules(&qwen()).violations(&d, 8) {
            prop_assert!(!v.to_string().is_empty() && !v.repair().is_empty() && !v.reason().is_empty());
        }
    }
}
