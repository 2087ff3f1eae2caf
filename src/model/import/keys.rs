//! Which keys of a `config.json` were not understood although their name says that they change shapes.

use super::fields::Fields;
use crate::Result;
use serde_json::Value;

/// Words in a key that speak of shapes.
const SHAPE_WORDS: &[&str] = &[
    "_size", "_dim", "_rank", "num_", "_n_", "heads", "expert", "layer", "lora", "latent", "state", "conv", "kernel",
    "window", "chunk", "compress", "_groups", "topk", "top_k", "inter", "width", "depth", "block", "sparse", "mtp",
    "engram", "ngram",
];

/// Keys with such a word that change no shape: training, routing arithmetic, generation, positions, or a figure that
/// another key gives again.
const HARMLESS: &[&str] = &[
    "num_key_value_heads",
    "head_dim",
    "qk_head_dim",
    "intermediate_size",
    "ep_size",
    "n_group",
    "topk_group",
    "num_expert_group",
    "num_group",
    "n_groups",
    "topk_method",
    "norm_topk_prob",
    "moe_router_topk_scaling_factor",
    "routed_scaling_factor",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "rotary_dim",
    "max_window_layers",
    "chunk_size_feed_forward",
    "chunk_size",
    "initial_context_length",
    "num_logits_to_keep",
    "num_return_sequences",
    "num_beams",
    "num_beam_groups",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "output_hidden_states",
    "hidden_states",
    "top_k",
    "transformers_version",
    "moe_layer_freq",
    "model_type",
    "layer_norm_eps",
    "layernorm_epsilon",
    "layer_norm_epsilon",
    "num_experts_per_tok",
    "experts_per_token",
    "use_sliding_window",
    "sliding_window",
    "sliding_window_size",
    "layer_types",
    "n_shared_experts",
    "moe_router_dtype",
    "router_aux_loss_coef",
    "num_hidden_layers",
    "pretraining_tp",
    "mamba_hidden_act",
    "mamba_ssm_cache_dtype",
    "mamba_chunk_size",
    "use_conv_bias",
    "expand",
    "mtp_hybrid_override_pattern",
    "mtp_layers_block_type",
    "moe_shared_expert_overlap",
    "residual_in_fp32",
    "rescale_prenorm_residual",
    "index_topk_freq",
    "index_topk_pattern",
    "index_skip_topk_offset",
    "index_share_for_mtp_iteration",
    "indexer_rope_interleave",
    "num_hash_layers",
    "hc_sinkhorn_iters",
    "compress_rope_theta",
    "expert_dtype",
    "mtp_use_dedicated_embeddings",
    "mtp_transformer_layers",
    "num_mtp_modules",
    "full_attention_interval",
    "moe_renormalize",
    "use_grouped_topk",
    "moe_router_activation_func",
    "num_kv_shared_layers",
    "vocab_size_per_layer_input",
    "scale_depth",
    "max_length",
    "min_length",
    "interleaved_sliding_window",
    "global_batch_size",
    "layernorm_full_attention_alpha",
    "layernorm_full_attention_beta",
    "layernorm_linear_attention_alpha",
    "layernorm_linear_attention_beta",
    "layernorm_mlp_alpha",
    "layernorm_mlp_beta",
    "shared_moe_mode",
    "first_k_dense_replace",
    "decoder_sparse_step",
    "mlp_only_layers",
    "attn_type_list",
    "moe_layer_start_index",
    "moe_layer_end_index",
    "num_nextn_predict_layers",
    "mtp_num_hidden_layers",
    "mtp_num_layers",
    "mtp_loss_scaling_factor",
    "use_interleave",
    "rope_interleave",
    "interleave_moe_layer_step",
    "mlp_bias",
    "max_position_embeddings",
    "query_pre_attn_scalar",
    "hidden_dropout",
    "moe_group_topk",
    "moe_capacity",
    "moe_layer_interval",
    "use_mixed_mlp_moe",
    "cla_share_factor",
    "num_media_embeds",
    "route_scale",
    "router_jitter_noise",
    "input_jitter_noise",
    "moe_layers",
    "no_rope_layers",
    "no_rope_layer_interval",
    "quantization_config",
    "compression_config",
    "use_mtp",
    "qk_rope_head_dim",
    "num_experts",
    "intermediate_size_mlp",
    "use_mamba_kernels",
    "return_dict",
    "for_llm_class",
    "final_logit_softcapping",
    "attn_logit_softcapping",
    "attention_window",
    "max_window_size",
];

/// Keys that change the model in a way not modelled: their presence with a real value is an error.
const REFUSED: &[(&str, &str)] = &[
    ("hidden_size_per_layer_input", "per-layer input embeddings are not modelled"),
    ("block_configs", "layers that differ one by one are not modelled"),
    ("cross_attention_layers", "cross-attention layers are not modelled"),
    ("altup_num_inputs", "alternating updates are not modelled"),
    ("use_double_wide_mlp", "double-wide MLPs are not modelled"),
    ("use_cla", "cross-layer attention is not modelled"),
    ("use_alibi_moe", "this layout is not modelled"),
];

/// One note about the keys that were not understood; an error for those known to break the picture.
pub(super) fn notes(f: &Fields) -> Result<Vec<String>> {
    for (key, why) in REFUSED {
        if f.value(key).is_some_and(means_something) {
            return Err(f.bad(key, &format!("is set: {why}")));
        }
    }
    let strange: Vec<String> = f
        .unread()
        .into_iter()
        .filter(|(k, v)| speaks_of_shapes(k) && means_something(v))
        .map(|(k, _)| format!("`{}{k}`", f.prefix))
        .collect();
    if strange.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![format!("not understood, though the name speaks of shapes: {}", strange.join(", "))])
}

fn speaks_of_shapes(key: &str) -> bool {
    let ends = ["_id", "_ids", "_token", "_index", "_theta", "_eps", "_coef", "_init", "_act", "_func", "_std"];
    let ignored = HARMLESS.contains(&key) || ends.iter().any(|e| key.ends_with(e)) || key.starts_with('_');
    let key = format!("_{key}");
    !ignored && SHAPE_WORDS.iter().any(|w| key.contains(w))
}

/// A number above 0, a list with entries, or true.
fn means_something(value: &Value) -> bool {
    match value {
        Value::Number(n) => n.as_f64().is_some_and(|n| n > 0.0),
        Value::Bool(b) => *b,
        Value::Array(a) => !a.is_empty(),
        Value::Object(o) => !o.is_empty(),
        _ => false,
    }
}
