//! Which architectures are understood, and what each implies that its `config.json` does not say.
//!
//! A row holds only what differs between families: how heads are normalised, which projections carry a bias, which
//! layers are windowed when the file lists none, what an absent `tie_word_embeddings` means. Read from the reference
//! implementations of the families (Hugging Face transformers, configuration and modelling files, 2024 to 2026).

/// How the tokens of a family's layers are mixed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Attention, or attention and linear attention by `layer_types`.
    Attention,
    /// DeepSeek's latent attention.
    Latent,
    /// Kimi-Linear: latent attention and Kimi delta attention.
    KimiLinear,
    /// MiniMax-01 and -M1: full and lightning attention by `attn_type_list`.
    Lightning,
    /// Blocks of one kind each (Nemotron-H): Mamba-2, attention, MLP or experts.
    Blocks,
    /// Mamba-2 or attention in a layer with a feed-forward part (Granite 4, Bamba).
    MambaOrAttention,
    /// Mamba-2 and attention side by side in every layer (Falcon-H1).
    MambaAndAttention,
    /// Two latent attentions, two dense MLPs and one expert block in a layer (LongCat-Flash).
    LongCat,
    /// Window and compressed context (DeepSeek-V4).
    Compressed,
}

/// Which layers are windowed where the file has a window and no list of layer kinds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Windows {
    /// None.
    Never,
    /// All.
    All,
    /// From `max_window_layers` on, and only with `use_sliding_window` (Qwen).
    UpperLayers,
    /// All but every n-th.
    AllButEvery(u32),
}

/// One family.
#[derive(Debug, Clone, Copy)]
pub(super) struct Family {
    /// Its name in messages.
    pub label: &'static str,
    /// Values of `architectures` (and their `model_type`, where the list is absent).
    pub names: &'static [&'static str],
    pub kind: Kind,
    pub windows: Windows,
    /// Bias on query, key and value when `attention_bias` is absent.
    pub qkv_bias: bool,
    /// `attention_bias` also covers the output projection.
    pub bias_covers_output: bool,
    /// Norm on query and key heads.
    pub qk_norm: bool,
    /// Learned sink logits.
    pub sinks: bool,
    /// Query projection doubled to gate the output.
    pub output_gate: bool,
    /// MLPs have a gate.
    pub gated: bool,
    /// Expert projections carry biases.
    pub expert_bias: bool,
    /// Meaning of an absent `tie_word_embeddings`.
    pub tied: bool,
}

const PLAIN: Family = Family {
    label: "",
    names: &[],
    kind: Kind::Attention,
    windows: Windows::Never,
    qkv_bias: false,
    bias_covers_output: true,
    qk_norm: false,
    sinks: false,
    output_gate: false,
    gated: true,
    expert_bias: false,
    tied: false,
};
const LATENT: Family = Family { kind: Kind::Latent, bias_covers_output: false, ..PLAIN };
const QWEN3: Family = Family { qk_norm: true, windows: Windows::UpperLayers, ..PLAIN };
const GEMMA: Family = Family { tied: true, ..PLAIN };

/// Every family that can be imported.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        label: "Llama 2, 3",
        names: &["LlamaForCausalLM", "llama", "YiForCausalLM", "AquilaForCausalLM"],
        ..PLAIN
    },
    Family {
        label: "Llama 4",
        names: &["Llama4ForConditionalGeneration", "Llama4ForCausalLM", "llama4", "llama4_text"],
        windows: Windows::AllButEvery(4),
        ..PLAIN
    },
    Family {
        label: "Mistral",
        names: &[
            "MistralForCausalLM",
            "mistral",
            "Mistral3ForConditionalGeneration",
            "mistral3",
            "ministral3",
            "Ministral3ForCausalLM",
            "LlavaForConditionalGeneration",
            "llava",
            "PixtralForConditionalGeneration",
        ],
        windows: Windows::All,
        ..PLAIN
    },
    Family { label: "Mixtral", names: &["MixtralForCausalLM", "mixtral"], windows: Windows::All, ..PLAIN },
    Family { label: "Mistral 4", names: &["Mistral4ForCausalLM", "mistral4"], ..LATENT },
    Family {
        label: "Qwen 2, 2.5",
        names: &[
            "Qwen2ForCausalLM",
            "qwen2",
            "Qwen2MoeForCausalLM",
            "qwen2_moe",
            "Qwen2VLForConditionalGeneration",
            "qwen2_vl",
            "Qwen2_5_VLForConditionalGeneration",
            "qwen2_5_vl",
            "qwen2_5_vl_text",
            "qwen2_vl_text",
        ],
        qkv_bias: true,
        bias_covers_output: false,
        windows: Windows::UpperLayers,
        ..PLAIN
    },
    Family {
        label: "Qwen 3",
        names: &[
            "Qwen3ForCausalLM",
            "qwen3",
            "Qwen3MoeForCausalLM",
            "qwen3_moe",
            "Qwen3VLForConditionalGeneration",
            "qwen3_vl",
            "qwen3_vl_text",
            "Qwen3VLMoeForConditionalGeneration",
            "qwen3_vl_moe",
            "qwen3_vl_moe_text",
        ],
        ..QWEN3
    },
    Family {
        label: "Qwen 3-Next, 3.5",
        names: &[
            "Qwen3NextForCausalLM",
            "qwen3_next",
            "Qwen3_5ForConditionalGeneration",
            "Qwen3_5ForCausalLM",
            "qwen3_5",
            "qwen3_5_text",
            "Qwen3_5MoeForConditionalGeneration",
            "Qwen3_5MoeForCausalLM",
            "qwen3_5_moe",
            "qwen3_5_moe_text",
        ],
        output_gate: true,
        ..QWEN3
    },
    Family { label: "Gemma 2", names: &["Gemma2ForCausalLM", "gemma2"], windows: Windows::AllButEvery(2), ..GEMMA },
    Family { label: "Gemma", names: &["GemmaForCausalLM", "gemma"], ..GEMMA },
    Family {
        label: "Gemma 3",
        names: &["Gemma3ForConditionalGeneration", "Gemma3ForCausalLM", "gemma3", "gemma3_text"],
        windows: Windows::AllButEvery(6),
        qk_norm: true,
        ..GEMMA
    },
    Family {
        label: "Gemma 4",
        names: &[
            "Gemma4ForConditionalGeneration",
            "Gemma4ForCausalLM",
            "gemma4",
            "gemma4_text",
            "Gemma4UnifiedForConditionalGeneration",
            "gemma4_unified",
            "gemma4_unified_text",
        ],
        windows: Windows::AllButEvery(6),
        qk_norm: true,
        ..GEMMA
    },
    Family { label: "Phi-3, Phi-4", names: &["Phi3ForCausalLM", "phi3"], windows: Windows::All, ..PLAIN },
    Family { label: "Phi-3.5-MoE", names: &["PhiMoEForCausalLM", "phimoe"], windows: Windows::All, ..PLAIN },
    Family { label: "DeepSeek-MoE", names: &["DeepseekForCausalLM", "deepseek"], ..PLAIN },
    Family { label: "DeepSeek-V2", names: &["DeepseekV2ForCausalLM", "deepseek_v2"], ..LATENT },
    Family { label: "DeepSeek-V3, R1", names: &["DeepseekV3ForCausalLM", "deepseek_v3"], ..LATENT },
    Family { label: "DeepSeek-V3.2", names: &["DeepseekV32ForCausalLM", "deepseek_v32"], ..LATENT },
    Family {
        label: "DeepSeek-V4",
        names: &["DeepseekV4ForCausalLM", "deepseek_v4"],
        kind: Kind::Compressed,
        sinks: true,
        ..PLAIN
    },
    Family {
        label: "Kimi K2, K2.5",
        names: &[
            "KimiK2ForCausalLM",
            "kimi_k2",
            "KimiK25ForConditionalGeneration",
            "kimi_k25",
            "KimiVLForConditionalGeneration",
            "kimi_vl",
        ],
        ..LATENT
    },
    Family { label: "Kimi-Linear", names: &["KimiLinearForCausalLM", "kimi_linear"], kind: Kind::KimiLinear, ..PLAIN },
    Family {
        label: "GLM-4",
        names: &[
            "GlmForCausalLM",
            "glm",
            "Glm4ForCausalLM",
            "glm4",
            "Glm4vForConditionalGeneration",
            "glm4v",
            "glm4v_text",
        ],
        bias_covers_output: false,
        ..PLAIN
    },
    Family {
        label: "GLM-4.5, 4.6, 4.7",
        names: &["Glm4MoeForCausalLM", "glm4_moe", "Glm4vMoeForConditionalGeneration", "glm4v_moe", "glm4v_moe_text"],
        bias_covers_output: false,
        ..PLAIN
    },
    Family { label: "GLM-4.7-Flash", names: &["Glm4MoeLiteForCausalLM", "glm4_moe_lite"], ..LATENT },
    Family { label: "GLM-5", names: &["GlmMoeDsaForCausalLM", "glm_moe_dsa"], ..LATENT },
    Family {
        label: "MiniMax-M1",
        names: &["MiniMaxM1ForCausalLM", "minimax_m1", "MiniMaxText01ForCausalLM", "minimax_text_01"],
        kind: Kind::Lightning,
        ..PLAIN
    },
    Family { label: "MiniMax-M2", names: &["MiniMaxM2ForCausalLM", "minimax_m2", "minimax"], qk_norm: true, ..PLAIN },
    Family {
        label: "MiMo",
        names: &["MiMoForCausalLM", "mimo"],
        qkv_bias: true,
        bias_covers_output: false,
        windows: Windows::UpperLayers,
        ..PLAIN
    },
    Family {
        label: "MiMo-V2",
        names: &["MiMoV2FlashForCausalLM", "mimo_v2_flash"],
        bias_covers_output: false,
        ..PLAIN
    },
    Family {
        label: "gpt-oss",
        names: &["GptOssForCausalLM", "gpt_oss"],
        windows: Windows::AllButEvery(2),
        qkv_bias: true,
        sinks: true,
        expert_bias: true,
        ..PLAIN
    },
    Family {
        label: "Nemotron-H, Nemotron 3",
        names: &["NemotronHForCausalLM", "nemotron_h"],
        kind: Kind::Blocks,
        gated: false,
        ..PLAIN
    },
    Family { label: "Nemotron", names: &["NemotronForCausalLM", "nemotron"], gated: false, ..PLAIN },
    Family {
        label: "Granite",
        names: &["GraniteForCausalLM", "granite", "GraniteMoeForCausalLM", "granitemoe"],
        ..PLAIN
    },
    Family {
        label: "Granite 4",
        names: &["GraniteMoeHybridForCausalLM", "granitemoehybrid", "BambaForCausalLM", "bamba"],
        kind: Kind::MambaOrAttention,
        ..PLAIN
    },
    Family { label: "Falcon-H1", names: &["FalconH1ForCausalLM", "falcon_h1"], kind: Kind::MambaAndAttention, ..PLAIN },
    Family { label: "OLMo", names: &["OlmoForCausalLM", "olmo"], ..PLAIN },
    Family {
        label: "OLMo 2, OLMoE",
        names: &["Olmo2ForCausalLM", "olmo2", "OlmoeForCausalLM", "olmoe"],
        qk_norm: true,
        ..PLAIN
    },
    Family {
        label: "OLMo 3",
        names: &["Olmo3ForCausalLM", "olmo3"],
        qk_norm: true,
        windows: Windows::AllButEvery(4),
        ..PLAIN
    },
    Family { label: "Command-R", names: &["CohereForCausalLM", "cohere"], tied: true, ..PLAIN },
    Family {
        label: "Command-A",
        names: &["Cohere2ForCausalLM", "cohere2"],
        tied: true,
        windows: Windows::AllButEvery(4),
        ..PLAIN
    },
    Family {
        label: "EXAONE 4",
        names: &["Exaone4ForCausalLM", "exaone4", "ExaoneMoEForCausalLM", "exaone_moe"],
        qk_norm: true,
        windows: Windows::AllButEvery(4),
        ..PLAIN
    },
    Family { label: "ERNIE 4.5", names: &["Ernie4_5ForCausalLM", "ernie4_5"], tied: true, ..PLAIN },
    Family {
        label: "ERNIE 4.5 MoE",
        names: &["Ernie4_5_MoeForCausalLM", "Ernie4_5_MoEForCausalLM", "ernie4_5_moe"],
        tied: true,
        ..PLAIN
    },
    Family {
        label: "Hunyuan",
        names: &[
            "HunYuanMoEV1ForCausalLM",
            "hunyuan_v1_moe",
            "HunYuanDenseV1ForCausalLM",
            "hunyuan_v1_dense",
            "HunYuanForCausalLM",
            "hunyuan",
        ],
        qk_norm: true,
        tied: true,
        ..PLAIN
    },
    Family {
        label: "Seed-OSS",
        names: &["SeedOssForCausalLM", "seed_oss"],
        qkv_bias: true,
        bias_covers_output: false,
        ..PLAIN
    },
    Family {
        label: "LongCat-Flash",
        names: &["LongcatFlashForCausalLM", "longcat_flash"],
        kind: Kind::LongCat,
        ..LATENT
    },
    Family {
        label: "Step-3",
        names: &["Step3VLForConditionalGeneration", "Step3TextForCausalLM", "step3_vl", "step3_text"],
        ..PLAIN
    },
    Family {
        label: "dots.llm1",
        names: &["Dots1ForCausalLM", "dots1"],
        qk_norm: true,
        windows: Windows::UpperLayers,
        ..PLAIN
    },
    Family {
        label: "Ling, Ring",
        names: &["BailingMoeV2ForCausalLM", "bailing_moe_v2", "BailingMoeForCausalLM", "bailing_moe"],
        ..PLAIN
    },
    Family { label: "SmolLM3", names: &["SmolLM3ForCausalLM", "smollm3"], tied: true, ..PLAIN },
    Family { label: "Arcee", names: &["ArceeForCausalLM", "arcee"], gated: false, ..PLAIN },
    Family { label: "Apertus", names: &["ApertusForCausalLM", "apertus"], gated: false, qk_norm: true, ..PLAIN },
    Family {
        label: "StarCoder 2",
        names: &["Starcoder2ForCausalLM", "starcoder2"],
        gated: false,
        qkv_bias: true,
        tied: true,
        windows: Windows::All,
        ..PLAIN
    },
    Family { label: "StableLM", names: &["StableLmForCausalLM", "stablelm"], ..PLAIN },
    Family {
        label: "InternLM 2, 3",
        names: &["InternLM2ForCausalLM", "internlm2", "InternLM3ForCausalLM", "internlm3"],
        ..PLAIN
    },
    Family { label: "Baichuan", names: &["BaichuanForCausalLM", "BaiChuanForCausalLM", "baichuan"], ..PLAIN },
];

/// Architectures known and refused, with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("Jamba", "its Mamba-1 layers are not modelled (Mamba-2 is)"),
    ("Zamba", "its shared attention blocks are not modelled"),
    ("DeciLM", "its layers differ one by one (`block_configs`), which is not modelled"),
    ("Gemma3n", "its per-layer embeddings and nested layers are not modelled"),
    ("Mllama", "its cross-attention layers are not modelled"),
    ("Mamba", "a stack of Mamba layers alone is not modelled"),
    ("RWKV", "its time mixing is not modelled"),
    ("RecurrentGemma", "its recurrent blocks are not modelled"),
    ("Phi3Small", "its block-sparse attention is not modelled"),
    ("Bert", "it is an encoder, not a decoder that serves tokens"),
    ("T5", "it is an encoder-decoder"),
    ("Bart", "it is an encoder-decoder"),
    ("Whisper", "it is an encoder-decoder"),
    ("CLIP", "it is an encoder, not a decoder that serves tokens"),
    ("ViT", "it is an encoder, not a decoder that serves tokens"),
    ("UNet", "it is a diffusion model"),
    ("Transformer2DModel", "it is a diffusion model"),
];

/// The family of an architecture string or model type.
pub(super) fn find(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|f| f.names.contains(&name))
}

/// Why a known architecture is refused.
pub(super) fn refusal(name: &str) -> Option<&'static str> {
    let lower = name.to_lowercase().replace('_', "");
    REFUSED.iter().find(|(n, _)| lower.contains(&n.to_lowercase())).map(|(_, why)| *why)
}

/// The families a user can import, for messages.
pub(super) fn supported() -> String {
    FAMILIES.iter().map(|f| f.label).collect::<Vec<_>>().join("; ")
}
