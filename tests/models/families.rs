//! Families beyond the presets: shapes of published models (their config.json, shortened to what counts) against the
//! counts their publishers state.

use inferasim::model::import;

/// Name, total and active billions as published (model cards and reports), shapes.
pub const FAMILIES: &[(&str, f64, Option<f64>, &str)] = &[
    (
        "Gemma 3 27B",
        27.4,
        None,
        r#"{"architectures":["Gemma3ForConditionalGeneration"],"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":5376,"intermediate_size":21504,"num_attention_heads":32,"num_key_value_heads":16,"head_dim":128,"num_hidden_layers":62,"sliding_window":1024,"max_position_embeddings":131072},"vision_config":{"hidden_size":1152,"image_size":896,"intermediate_size":4304,"model_type":"siglip_vision_model","num_attention_heads":16,"num_hidden_layers":27,"patch_size":14}}"#,
    ),
    (
        "Gemma 2 9B",
        9.24,
        None,
        r#"{"architectures":["Gemma2ForCausalLM"],"hidden_size":3584,"intermediate_size":14336,"num_attention_heads":16,"num_key_value_heads":8,"head_dim":256,"num_hidden_layers":42,"sliding_window":4096,"vocab_size":256000,"max_position_embeddings":8192}"#,
    ),
    (
        "Gemma 4 26B-A4B",
        25.8,
        Some(3.8),
        r#"{"architectures":["Gemma4ForConditionalGeneration"],"model_type":"gemma4","text_config":{"model_type":"gemma4_text","hidden_size":2816,"intermediate_size":2112,"moe_intermediate_size":704,"num_experts":128,"top_k_experts":8,"enable_moe_block":true,"num_attention_heads":16,"num_key_value_heads":8,"num_global_key_value_heads":2,"head_dim":256,"global_head_dim":512,"attention_k_eq_v":true,"num_hidden_layers":30,"sliding_window":1024,"vocab_size":262144,"max_position_embeddings":262144},"vision_config":{"model_type":"gemma4_vision","hidden_size":1152,"intermediate_size":4304,"num_hidden_layers":27,"patch_size":16,"position_embedding_size":10240}}"#,
    ),
    (
        "Qwen2.5-VL-7B",
        8.29,
        None,
        r#"{"architectures":["Qwen2_5_VLForConditionalGeneration"],"model_type":"qwen2_5_vl","hidden_size":3584,"intermediate_size":18944,"num_attention_heads":28,"num_key_value_heads":4,"num_hidden_layers":28,"vocab_size":152064,"max_position_embeddings":128000,"use_sliding_window":false,"sliding_window":32768,"max_window_layers":28,"tie_word_embeddings":false,"vision_config":{"model_type":"qwen2_5_vl","depth":32,"hidden_size":1280,"intermediate_size":3420,"num_heads":16,"in_chans":3,"out_hidden_size":3584,"patch_size":14,"spatial_merge_size":2,"temporal_patch_size":2}}"#,
    ),
    (
        "Qwen1.5-MoE-A2.7B",
        14.3,
        Some(2.7),
        r#"{"architectures":["Qwen2MoeForCausalLM"],"hidden_size":2048,"intermediate_size":5632,"moe_intermediate_size":1408,"shared_expert_intermediate_size":5632,"num_experts":60,"num_experts_per_tok":4,"decoder_sparse_step":1,"num_attention_heads":16,"num_key_value_heads":16,"num_hidden_layers":24,"vocab_size":151936,"max_position_embeddings":8192}"#,
    ),
    (
        "Phi-4",
        14.7,
        None,
        r#"{"architectures":["Phi3ForCausalLM"],"hidden_size":5120,"intermediate_size":17920,"num_attention_heads":40,"num_key_value_heads":10,"num_hidden_layers":40,"vocab_size":100352,"max_position_embeddings":16384,"sliding_window":null}"#,
    ),
    (
        "Phi-3.5-MoE",
        41.9,
        Some(6.6),
        r#"{"architectures":["PhiMoEForCausalLM"],"hidden_size":4096,"intermediate_size":6400,"num_local_experts":16,"num_experts_per_tok":2,"num_attention_heads":32,"num_key_value_heads":8,"num_hidden_layers":32,"vocab_size":32064,"max_position_embeddings":131072,"attention_bias":true,"sliding_window":131072}"#,
    ),
    (
        "DeepSeek-V2",
        236.0,
        Some(21.0),
        r#"{"architectures":["DeepseekV2ForCausalLM"],"hidden_size":5120,"intermediate_size":12288,"moe_intermediate_size":1536,"n_routed_experts":160,"n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1,"moe_layer_freq":1,"num_attention_heads":128,"num_key_value_heads":128,"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"num_hidden_layers":60,"vocab_size":102400,"max_position_embeddings":163840}"#,
    ),
    (
        "DeepSeek-V2-Lite",
        15.7,
        Some(2.4),
        r#"{"architectures":["DeepseekV2ForCausalLM"],"hidden_size":2048,"intermediate_size":10944,"moe_intermediate_size":1408,"n_routed_experts":64,"n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1,"moe_layer_freq":1,"num_attention_heads":16,"num_key_value_heads":16,"q_lora_rank":null,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"num_hidden_layers":27,"vocab_size":102400,"max_position_embeddings":163840}"#,
    ),
    (
        "DeepSeek-V4-Flash",
        284.0,
        Some(13.0),
        r#"{"architectures":["DeepseekV4ForCausalLM"],"hidden_size":4096,"moe_intermediate_size":2048,"n_routed_experts":256,"n_shared_experts":1,"num_experts_per_tok":6,"num_attention_heads":64,"num_key_value_heads":1,"head_dim":512,"q_lora_rank":1024,"o_lora_rank":1024,"o_groups":8,"qk_rope_head_dim":64,"index_head_dim":128,"index_n_heads":64,"index_topk":512,"sliding_window":128,"num_hidden_layers":43,"vocab_size":129280,"max_position_embeddings":1048576,"compress_ratios":[0,0,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4]}"#,
    ),
    (
        "Kimi-Linear-48B-A3B",
        48.0,
        Some(3.0),
        r#"{"architectures":["KimiLinearForCausalLM"],"model_type":"kimi_linear","hidden_size":2304,"intermediate_size":9216,"moe_intermediate_size":1024,"num_experts":256,"num_experts_per_token":8,"num_shared_experts":1,"first_k_dense_replace":1,"moe_layer_freq":1,"num_attention_heads":32,"num_key_value_heads":32,"head_dim":72,"kv_lora_rank":512,"q_lora_rank":null,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"num_hidden_layers":27,"vocab_size":163840,"model_max_length":1048576,"linear_attn_config":{"full_attn_layers":[4,8,12,16,20,24,27],"kda_layers":[1,2,3],"head_dim":128,"num_heads":32,"short_conv_kernel_size":4}}"#,
    ),
    (
        "MiniMax-M1",
        456.0,
        Some(45.9),
        r#"{"architectures":["MiniMaxM1ForCausalLM"],"hidden_size":6144,"intermediate_size":9216,"num_local_experts":32,"num_experts_per_tok":2,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":128,"num_hidden_layers":80,"vocab_size":200064,"max_position_embeddings":10240000,"attn_type_list":[0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1]}"#,
    ),
    (
        "GLM-4.5-Air",
        106.0,
        Some(12.0),
        r#"{"architectures":["Glm4MoeForCausalLM"],"hidden_size":4096,"intermediate_size":10944,"moe_intermediate_size":1408,"n_routed_experts":128,"n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":1,"attention_bias":true,"num_attention_heads":96,"num_key_value_heads":8,"head_dim":128,"num_hidden_layers":46,"num_nextn_predict_layers":1,"use_qk_norm":false,"vocab_size":151552,"max_position_embeddings":131072}"#,
    ),
    (
        "MiMo-V2-Flash",
        309.0,
        Some(15.0),
        r#"{"architectures":["MiMoV2FlashForCausalLM"],"hidden_size":4096,"intermediate_size":16384,"moe_intermediate_size":2048,"n_routed_experts":256,"num_experts_per_tok":8,"num_attention_heads":64,"num_key_value_heads":4,"head_dim":192,"v_head_dim":128,"swa_num_attention_heads":64,"swa_num_key_value_heads":8,"swa_head_dim":192,"swa_v_head_dim":128,"add_swa_attention_sink_bias":true,"sliding_window":128,"num_hidden_layers":48,"vocab_size":152576,"max_position_embeddings":262144,"hybrid_layer_pattern":[0,1,1,1,1,0,1,1,1,1,1,0,1,1,1,1,1,0,1,1,1,1,1,0,1,1,1,1,1,0,1,1,1,1,1,0,1,1,1,1,1,0,1,1,1,1,1,0],"moe_layer_freq":[0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}"#,
    ),
    (
        "Granite-4.0-H-Small",
        32.0,
        Some(9.0),
        r#"{"architectures":["GraniteMoeHybridForCausalLM"],"hidden_size":4096,"intermediate_size":768,"shared_intermediate_size":1536,"num_local_experts":72,"num_experts_per_tok":10,"num_attention_heads":32,"num_key_value_heads":8,"num_hidden_layers":40,"vocab_size":100352,"max_position_embeddings":131072,"tie_word_embeddings":true,"mamba_n_heads":128,"mamba_d_head":64,"mamba_d_state":128,"mamba_n_groups":1,"mamba_d_conv":4,"mamba_expand":2,"layer_types":["mamba","mamba","mamba","mamba","mamba","attention","mamba","mamba","mamba","mamba","mamba","mamba","mamba","mamba","mamba","attention","mamba","mamba","mamba","mamba","mamba","mamba","mamba","mamba","mamba","attention","mamba","mamba","mamba","mamba","mamba","mamba","mamba","mamba","mamba","attention","mamba","mamba","mamba","mamba"]}"#,
    ),
    (
        "Falcon-H1-34B",
        33.6,
        None,
        r#"{"architectures":["FalconH1ForCausalLM"],"hidden_size":5120,"intermediate_size":21504,"num_attention_heads":20,"num_key_value_heads":4,"head_dim":128,"num_hidden_layers":72,"vocab_size":261120,"max_position_embeddings":262144,"tie_word_embeddings":false,"mamba_d_ssm":4096,"mamba_n_heads":32,"mamba_d_head":128,"mamba_d_state":256,"mamba_n_groups":2,"mamba_d_conv":4,"mamba_expand":2}"#,
    ),
    (
        "OLMo-2-32B",
        32.2,
        None,
        r#"{"architectures":["Olmo2ForCausalLM"],"hidden_size":5120,"intermediate_size":27648,"num_attention_heads":40,"num_key_value_heads":8,"num_hidden_layers":64,"vocab_size":100352,"max_position_embeddings":4096,"tie_word_embeddings":false}"#,
    ),
    (
        "OLMoE-1B-7B",
        6.92,
        Some(1.3),
        r#"{"architectures":["OlmoeForCausalLM"],"hidden_size":2048,"intermediate_size":1024,"num_experts":64,"num_experts_per_tok":8,"num_attention_heads":16,"num_key_value_heads":16,"num_hidden_layers":16,"vocab_size":50304,"max_position_embeddings":4096}"#,
    ),
    (
        "Command-R",
        35.0,
        None,
        r#"{"architectures":["CohereForCausalLM"],"hidden_size":8192,"intermediate_size":22528,"num_attention_heads":64,"num_key_value_heads":64,"num_hidden_layers":40,"vocab_size":256000,"max_position_embeddings":131072}"#,
    ),
    (
        "Command-A",
        111.0,
        None,
        r#"{"architectures":["Cohere2ForCausalLM"],"hidden_size":12288,"intermediate_size":36864,"num_attention_heads":96,"num_key_value_heads":8,"head_dim":128,"num_hidden_layers":64,"vocab_size":256000,"max_position_embeddings":131072,"sliding_window":4096,"sliding_window_pattern":4}"#,
    ),
    (
        "ERNIE-4.5-300B-A47B",
        300.0,
        Some(47.0),
        r#"{"architectures":["Ernie4_5_MoeForCausalLM"],"hidden_size":8192,"intermediate_size":28672,"moe_intermediate_size":3584,"moe_num_experts":64,"moe_k":8,"moe_layer_start_index":3,"moe_layer_end_index":53,"moe_layer_interval":1,"num_attention_heads":64,"num_key_value_heads":8,"num_hidden_layers":54,"vocab_size":103424,"max_position_embeddings":131072,"tie_word_embeddings":false}"#,
    ),
    (
        "Hunyuan-A13B",
        80.0,
        Some(13.0),
        r#"{"architectures":["HunYuanMoEV1ForCausalLM"],"hidden_size":4096,"intermediate_size":3072,"moe_intermediate_size":[3072,3072],"num_experts":64,"moe_topk":[8,8],"num_shared_expert":[1,1],"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"num_hidden_layers":32,"vocab_size":128167,"max_position_embeddings":32768,"tie_word_embeddings":true,"use_cla":false,"use_mixed_mlp_moe":true}"#,
    ),
    (
        "Seed-OSS-36B",
        36.0,
        None,
        r#"{"architectures":["SeedOssForCausalLM"],"hidden_size":5120,"intermediate_size":27648,"num_attention_heads":80,"num_key_value_heads":8,"head_dim":128,"num_hidden_layers":64,"vocab_size":155136,"max_position_embeddings":524288,"attention_bias":true,"attention_out_bias":false}"#,
    ),
    (
        "LongCat-Flash",
        560.0,
        Some(27.0),
        r#"{"architectures":["LongcatFlashForCausalLM"],"hidden_size":6144,"ffn_hidden_size":12288,"expert_ffn_hidden_size":2048,"n_routed_experts":512,"zero_expert_num":256,"moe_topk":12,"num_attention_heads":64,"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"num_layers":28,"vocab_size":131072,"max_position_embeddings":131072}"#,
    ),
    (
        "dots.llm1",
        142.0,
        Some(14.0),
        r#"{"architectures":["Dots1ForCausalLM"],"hidden_size":4096,"intermediate_size":10944,"moe_intermediate_size":1408,"n_routed_experts":128,"n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1,"num_attention_heads":32,"num_key_value_heads":32,"num_hidden_layers":62,"vocab_size":152064,"max_position_embeddings":32768}"#,
    ),
    (
        "Ling-1T",
        1000.0,
        Some(50.0),
        r#"{"architectures":["BailingMoeV2ForCausalLM"],"hidden_size":8192,"intermediate_size":18432,"moe_intermediate_size":2048,"num_experts":256,"num_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":4,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":128,"num_hidden_layers":80,"vocab_size":157184,"max_position_embeddings":32768,"use_qk_norm":true}"#,
    ),
];

#[test]
fn counts_agree_with_the_publisher() {
    let mut wrong = Vec::new();
    for (name, total, active, config) in FAMILIES {
        let model = match import::config_json("config.json", name, config, None) {
            Ok(model) => model,
            Err(e) => {
                wrong.push(format!("{name}: {e}"));
                continue;
            }
        };
        wrong.extend(crate::published::check(name, &model.architecture.parameters(), *total, *active));
        wrong.extend(model.notes.iter().map(|n| format!("{name}: {n}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
