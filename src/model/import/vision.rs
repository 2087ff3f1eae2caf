//! How many parameters the encoder of a multimodal model has (vision tower and projector).
//!
//! A plain vision transformer by its config: four attention matrices and two (or three) MLP matrices a block, patch and
//! position embeddings, and the projector of the family. Encoders are under 3 % of the models they serve, so 10 % here is
//! 0.3 % of the total.

use super::fields::Fields;
use crate::Result;

/// Llama 4's tower and projector, which some copies of its config leave out: 34 blocks of 1408 / 5632, an adapter
/// 5632 → 4096 → 4096 and a projection to 5120 (Hugging Face transformers, Llama4VisionConfig of the published models).
const LLAMA4_TOWER: u64 = 34 * (4 * 1408 * 1408 + 2 * 1408 * 5632) + 5632 * 4096 + 4096 * 4096 + 4096 * 5120;

/// Parameters of the vision encoder and its projector into `hidden`; 0 where the file has none.
pub(super) fn parameters(top: &Fields, hidden: u32) -> Result<u64> {
    let Some(v) = top.object("vision_config") else {
        let llama4 = top.text("model_type") == Some("llama4") && top.has("text_config");
        return Ok(if llama4 { LLAMA4_TOWER } else { 0 });
    };
    let get = |keys: &[&str]| -> Result<f64> { Ok(f64::from(v.first(keys)?.unwrap_or(0))) };
    let or = |n: f64, default: f64| if n > 0.0 { n } else { default };
    let layers = get(&["depth", "num_hidden_layers", "vt_num_hidden_layers", "layers"])?;
    // Qwen2-VL calls the width embed_dim and the projector's output hidden_size.
    let width = get(&["embed_dim", "vt_hidden_size", "hidden_size", "width"])?;
    if layers == 0.0 || width == 0.0 {
        return Ok(0);
    }
    let kind = v.text("model_type").unwrap_or("");
    let ratio = v.value("mlp_ratio").and_then(|r| r.as_f64()).filter(|r| (0.1..100.0).contains(r)).unwrap_or(4.0);
    let inter = or(get(&["intermediate_size", "vt_intermediate_size"])?, ratio * width);
    let gated = matches!(kind, "pixtral" | "qwen2_5_vl" | "gemma4_vision" | "glm4v");
    let mlp = if gated { 3.0 } else { 2.0 };
    let block = 4.0 * width * width + mlp * width * inter + 9.0 * width + inter;
    let patch = or(get(&["patch_size"])?, 14.0);
    let frames = or(get(&["temporal_patch_size"])?, 1.0);
    let channels = or(get(&["in_channels", "num_channels", "in_chans"])?, 3.0);
    let pixels = get(&["image_size"])?;
    let positions = match get(&["num_position_embeddings"])? {
        n if n > 0.0 => n,
        _ if kind.contains("gemma4") => 2.0 * get(&["position_embedding_size"])?,
        _ if kind == "pixtral" => 0.0,
        _ if v.has("init_pos_emb_height") => get(&["init_pos_emb_height"])? * get(&["init_pos_emb_width"])?,
        _ => (pixels / patch).powi(2),
    };
    let embeddings = patch * patch * frames * channels * width + positions * width;
    let merge = get(&["spatial_merge_size"])?;
    let deepstack = v.list("deepstack_visual_indexes").map_or(0, Vec::len) as f64;
    let projector = if merge > 0.0 || v.has("merge_kernel_size") {
        let merged = or(merge, 2.0).powi(2) * width;
        (1.0 + deepstack) * (merged * merged + merged * f64::from(hidden) + merged + f64::from(hidden))
    } else if kind == "pixtral" {
        width * f64::from(hidden) + f64::from(hidden) * f64::from(hidden)
    } else if kind == "llama4_vision_model" {
        let (inner, out) = (get(&["projector_input_dim"])?, get(&["projector_output_dim", "vision_output_dim"])?);
        inter * inner + inner * out + out * f64::from(hidden)
    } else {
        width * f64::from(hidden)
    };
    let all = layers * block + embeddings + projector;
    if !all.is_finite() || all > 1e12 {
        return Err(top.bad("vision_config", "describes an encoder larger than any model's"));
    }
    Ok(all as u64)
}
