//! Tensor groups end in the format their published config gives them.

use inferasim::model::{Checkpoint, WeightFormat, import};
use serde_json::{Value, json};

fn moe(quantisation: Value) -> Value {
    json!({
        "architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 7168, "num_hidden_layers": 61,
        "num_attention_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8,
        "n_shared_experts": 1, "moe_intermediate_size": 2048, "intermediate_size": 18432, "first_k_dense_replace": 3,
        "vocab_size": 129280, "max_position_embeddings": 163840, "quantization_config": quantisation,
    })
}

fn stored(quantisation: Value) -> Checkpoint {
    let text = moe(quantisation).to_string();
    import::config_json("c", "org/m", &text, None).unwrap().checkpoints.remove(0)
}

/// dtype, then attention, dense, experts, shared.
fn is(c: &Checkpoint, dtype: &str, formats: [WeightFormat; 4]) {
    assert_eq!(c.dtype, dtype);
    assert_eq!([c.formats.attention, c.formats.dense, c.formats.experts, c.formats.shared], formats);
    assert_eq!(c.formats.lm_head, WeightFormat::Bf16);
}

use WeightFormat::{Bf16, Fp8, Fp8Block, Int4, Mxfp4, Nvfp4};

#[test]
fn each_dialect_is_read() {
    is(&stored(json!({"quant_method": "fp8", "weight_block_size": [128, 128]})), "fp8", [Fp8Block; 4]);
    is(&stored(json!({"quant_method": "mxfp4"})), "mxfp4", [Bf16, Bf16, Mxfp4, Bf16]);
    is(&stored(json!({"quant_method": "awq", "bits": 4})), "int4", [Int4; 4]);
    let kimi = json!({
        "quant_method": "compressed-tensors", "format": "pack-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
        "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"],
    });
    is(&stored(kimi), "int4", [Bf16, Bf16, Int4, Bf16]);
    let quark = json!({
        "quant_method": "quark",
        "global_quant_config": {"weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32}},
        "layer_quant_config": {"*self_attn*": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_channel"}}},
        "exclude": ["lm_head"],
    });
    is(&stored(quark), "mxfp4", [Fp8, Mxfp4, Mxfp4, Mxfp4]);
    let modelopt = json!({
        "quant_method": "modelopt", "quant_algo": "NVFP4",
        "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}, "targets": ["Linear"]}},
        "ignore": (0..61).map(|i| format!("model.layers.{i}.self_attn*")).collect::<Vec<_>>(),
    });
    is(&stored(modelopt), "nvfp4", [Bf16, Nvfp4, Nvfp4, Nvfp4]);
}

#[test]
fn the_file_beside_counts_where_the_config_is_silent() {
    let mut config = moe(json!(null));
    config.as_object_mut().unwrap().remove("quantization_config");
    let beside =
        json!({"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head", "*self_attn*"]}}).to_string();
    let model = import::config_json("c", "m", &config.to_string(), Some(("hf_quant_config.json", &beside))).unwrap();
    is(&model.checkpoints[0], "fp8", [Bf16, Fp8, Fp8, Fp8]);
}
