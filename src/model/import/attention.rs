//! How each layer of a `config.json` mixes tokens.

use super::family::{Family, Kind, Windows};
use super::fields::Fields;
use super::hybrid;
use crate::Result;
use crate::model::{Gqa, Indexer, LinearAttention, Mixer, Mla, OutLora};

/// One mixer a layer.
pub(super) fn mixers(f: &Fields, family: &Family, layers: usize) -> Result<Vec<Mixer>> {
    match family.kind {
        Kind::Latent | Kind::LongCat => latent_layers(f, layers),
        Kind::KimiLinear => hybrid::kimi_linear(f, layers),
        Kind::Lightning => lightning(f, family, layers),
        Kind::Compressed => compressed(f, family, layers),
        Kind::MambaOrAttention => hybrid::mamba_or_attention(f, family, layers),
        Kind::Attention | Kind::Blocks | Kind::MambaAndAttention => attention_layers(f, family, layers),
    }
}

fn attention_layers(f: &Fields, family: &Family, layers: usize) -> Result<Vec<Mixer>> {
    let full = gqa(f, family)?;
    let windowed = windowed(f, family, &full)?;
    let linear = || -> Result<Mixer> { Ok(Mixer::Linear(delta_net(f)?)) };
    if let Some(pattern) = f.per_layer("hybrid_layer_pattern", layers)? {
        let local = local_heads(f, &windowed)?;
        return Ok(pattern.iter().map(|k| Mixer::Gqa(if *k == 0 { full.clone() } else { local.clone() })).collect());
    }
    if let Some(kinds) = f.words_per_layer("layer_types", layers)? {
        let wide = global_heads(f, &full)?;
        let one = |kind: &&str| match *kind {
            "full_attention" | "attention" | "global" => Ok(Mixer::Gqa(wide.clone())),
            "sliding_attention" | "chunked_attention" | "local" if windowed.window.is_some() => {
                Ok(Mixer::Gqa(windowed.clone()))
            }
            "sliding_attention" | "chunked_attention" => {
                Err(f.bad("layer_types", &format!("has `{kind}` but the file gives no window")))
            }
            "linear_attention" => linear(),
            other => Err(f.bad(
                "layer_types",
                &format!(
                    "has the attention kind `{other}`; known are full_attention, sliding_attention, \
                     chunked_attention and linear_attention"
                ),
            )),
        };
        return kinds.iter().map(one).collect();
    }
    if f.has("linear_num_value_heads") {
        let every = f.need(&["full_attention_interval"])? as usize;
        let one = |i: usize| if (i + 1).is_multiple_of(every) { Ok(Mixer::Gqa(full.clone())) } else { linear() };
        return (0..layers).map(one).collect();
    }
    let is_windowed = window_rule(f, family, layers, windowed.window.is_some())?;
    let wide = global_heads(f, &full)?;
    Ok(is_windowed.iter().map(|w| Mixer::Gqa(if *w { windowed.clone() } else { wide.clone() })).collect())
}

/// Which layers are windowed when the file lists no kinds.
fn window_rule(f: &Fields, family: &Family, layers: usize, has_window: bool) -> Result<Vec<bool>> {
    if !has_window {
        return Ok(vec![false; layers]);
    }
    // Llama 4: 1 marks a layer with rotary positions, which is chunked; an empty list means the default.
    if f.list("no_rope_layers").is_some_and(|l| !l.is_empty()) {
        let rope = f.per_layer("no_rope_layers", layers)?.unwrap_or_default();
        return Ok(rope.iter().map(|r| *r == 1).collect());
    }
    if let Some(pattern) = f.text("sliding_window_pattern").or_else(|| f.text("window_attn_pattern")) {
        let kinds: Vec<bool> = pattern.chars().map(|c| c == 'L').collect();
        return match kinds.is_empty() {
            true => Err(f.bad("sliding_window_pattern", "is empty")),
            false => Ok((0..layers).map(|i| kinds[i % kinds.len()]).collect()),
        };
    }
    let stated = f.above_zero(&["sliding_window_pattern", "_sliding_window_pattern", "no_rope_layer_interval"])?;
    Ok(match (family.windows, stated) {
        // These families know no window of their own; a file that switches one on is taken at its word.
        (Windows::Never, _) => vec![f.flag("use_sliding_window", false)?; layers],
        (Windows::All, _) => vec![true; layers],
        (Windows::UpperLayers, _) => {
            let from = f.number("max_window_layers")?.unwrap_or(0) as usize;
            let on = f.flag("use_sliding_window", false)?;
            (0..layers).map(|i| on && i >= from).collect()
        }
        (Windows::AllButEvery(n), stated) => {
            let n = stated.unwrap_or(n) as usize;
            (0..layers).map(|i| !(i + 1).is_multiple_of(n)).collect()
        }
    })
}

/// Full attention with the common keys.
pub(super) fn gqa(f: &Fields, family: &Family) -> Result<Gqa> {
    let heads = f.need(&["num_attention_heads", "n_heads"])?;
    let kv_heads = match f.above_zero(&["num_key_value_heads", "num_attention_groups", "n_kv_heads"])? {
        Some(kv) => kv,
        None => heads,
    };
    if !heads.is_multiple_of(kv_heads) {
        return Err(f.bad("num_key_value_heads", &format!("is {kv_heads}, which does not divide {heads} heads")));
    }
    let head_dim = match f.above_zero(&["head_dim", "attention_head_dim"])? {
        Some(d) => d,
        None => {
            let hidden = f.need(&["hidden_size"])?;
            if !hidden.is_multiple_of(heads) {
                return Err(f.bad("num_attention_heads", &format!("is {heads}, which does not divide {hidden}")));
            }
            hidden / heads
        }
    };
    let default_bias = f.flag("use_bias", family.qkv_bias)? || f.flag("qkv_bias", false)?;
    let bias = f.flag("attention_bias", default_bias)? || f.flag("use_qkv_bias", false)?;
    Ok(Gqa {
        heads,
        kv_heads,
        head_dim,
        v_head_dim: f.above_zero(&["v_head_dim"])?.filter(|v| *v != head_dim),
        window: None,
        qkv_bias: bias,
        out_bias: f.flag("attention_out_bias", family.bias_covers_output && bias)?,
        qk_norm: f.flag("use_qk_norm", family.qk_norm)?,
        sinks: family.sinks,
        output_gate: f.flag("attn_output_gate", family.output_gate)?,
        q_lora: f.above_zero(&["share_q_dim"])?,
        out_lora: None,
        compression: None,
        shared_kv: false,
        indexer: None,
    })
}

/// The same heads behind a window or chunk, where the file has one.
fn windowed(f: &Fields, family: &Family, full: &Gqa) -> Result<Gqa> {
    let off = family.windows == Windows::UpperLayers && !f.flag("use_sliding_window", false)?;
    let window = f.above_zero(&["sliding_window", "sliding_window_size", "attention_chunk_size"])?;
    Ok(Gqa { window: window.filter(|_| !off), ..full.clone() })
}

/// Gemma 4: full layers have heads of their own and reuse keys as values.
fn global_heads(f: &Fields, full: &Gqa) -> Result<Gqa> {
    Ok(Gqa {
        kv_heads: f.above_zero(&["num_global_key_value_heads"])?.unwrap_or(full.kv_heads),
        head_dim: f.above_zero(&["global_head_dim"])?.unwrap_or(full.head_dim),
        shared_kv: f.flag("attention_k_eq_v", false)?,
        ..full.clone()
    })
}

/// MiMo-V2: windowed layers have heads of their own.
fn local_heads(f: &Fields, windowed: &Gqa) -> Result<Gqa> {
    let head_dim = f.above_zero(&["swa_head_dim"])?.unwrap_or(windowed.head_dim);
    Ok(Gqa {
        heads: f.above_zero(&["swa_num_attention_heads"])?.unwrap_or(windowed.heads),
        kv_heads: f.above_zero(&["swa_num_key_value_heads"])?.unwrap_or(windowed.kv_heads),
        head_dim,
        v_head_dim: f.above_zero(&["swa_v_head_dim"])?.or(windowed.v_head_dim).filter(|v| *v != head_dim),
        sinks: f.flag("add_swa_attention_sink_bias", false)?,
        ..windowed.clone()
    })
}

/// Gated delta net (Qwen 3-Next, 3.5).
fn delta_net(f: &Fields) -> Result<LinearAttention> {
    Ok(LinearAttention {
        key_heads: f.need(&["linear_num_key_heads"])?,
        value_heads: f.need(&["linear_num_value_heads"])?,
        key_dim: f.need(&["linear_key_head_dim"])?,
        value_dim: f.need(&["linear_value_head_dim"])?,
        conv_width: f.need(&["linear_conv_kernel_dim"])?,
        gate_rank: None,
    })
}

/// MiniMax-01 and -M1: 1 is full attention, 0 lightning attention with a full-rank output gate.
fn lightning(f: &Fields, family: &Family, layers: usize) -> Result<Vec<Mixer>> {
    let full = gqa(f, family)?;
    let Some(kinds) = f.per_layer("attn_type_list", layers)? else {
        return Err(f.bad("attn_type_list", "is missing"));
    };
    let linear = LinearAttention {
        key_heads: full.heads,
        value_heads: full.heads,
        key_dim: full.head_dim,
        value_dim: full.head_dim,
        conv_width: 0,
        gate_rank: None,
    };
    let one = |k: &u32| if *k == 1 { Mixer::Gqa(full.clone()) } else { Mixer::Linear(linear.clone()) };
    Ok(kinds.iter().map(one).collect())
}

/// Latent attention with the common keys.
pub(super) fn mla(f: &Fields) -> Result<Mla> {
    Ok(Mla {
        heads: f.need(&["num_attention_heads"])?,
        q_lora: f.above_zero(&["q_lora_rank"])?,
        kv_lora: f.need(&["kv_lora_rank"])?,
        nope: f.need(&["qk_nope_head_dim"])?,
        rope: f.need(&["qk_rope_head_dim"])?,
        v_dim: f.need(&["v_head_dim"])?,
        indexer: indexer(f)?,
    })
}

fn indexer(f: &Fields) -> Result<Option<Indexer>> {
    let Some(top_k) = f.above_zero(&["index_topk"])? else { return Ok(None) };
    Ok(Some(Indexer {
        heads: f.need(&["index_n_heads"])?,
        head_dim: f.need(&["index_head_dim"])?,
        top_k,
        owns_index: true,
    }))
}

/// Latent layers; `indexer_types` says which own an index and which use their neighbour's (GLM-5.2).
fn latent_layers(f: &Fields, layers: usize) -> Result<Vec<Mixer>> {
    let base = mla(f)?;
    let Some(kinds) = f.words_per_layer("indexer_types", layers)? else {
        return Ok(vec![Mixer::Mla(base); layers]);
    };
    let one = |kind: &&str| {
        let owns_index = match *kind {
            "full" => true,
            "shared" => false,
            other => return Err(f.bad("indexer_types", &format!("has `{other}`; known are full and shared"))),
        };
        let indexer = base.indexer.clone().map(|i| Indexer { owns_index, ..i });
        Ok(Mixer::Mla(Mla { indexer, ..base.clone() }))
    };
    kinds.iter().map(one).collect()
}

/// DeepSeek-V4: a window everywhere; a compressed context beside it at the layer's ratio, chosen by an index at ratio 4.
fn compressed(f: &Fields, family: &Family, layers: usize) -> Result<Vec<Mixer>> {
    let Some(ratios) = f.per_layer("compress_ratios", layers)? else {
        return Err(f.bad("compress_ratios", "is missing"));
    };
    let base = Gqa {
        q_lora: Some(f.need(&["q_lora_rank"])?),
        out_lora: Some(OutLora { groups: f.need(&["o_groups"])?, rank: f.need(&["o_lora_rank"])? }),
        window: Some(f.need(&["sliding_window"])?),
        shared_kv: true,
        ..gqa(f, family)?
    };
    let indexer = indexer(f)?;
    let one = |ratio: &u32| {
        let mut a = base.clone();
        match ratio {
            0 => {}
            4 => (a.compression, a.indexer) = (Some(4), indexer.clone()),
            n => a.compression = Some(*n),
        }
        Mixer::Gqa(a)
    };
    Ok(ratios.iter().map(one).collect())
}
