//! Stacks that mix Mamba-2 or linear attention with attention.

use super::attention::{gqa, mla};
use super::family::Family;
use super::ffn;
use super::fields::Fields;
use crate::Result;
use crate::model::{Ffn, LinearAttention, Mamba2, Mixer};
use serde_json::Value;

/// Kimi-Linear: `linear_attn_config` lists the layers of each kind, counted from 1.
pub(super) fn kimi_linear(f: &Fields, layers: usize) -> Result<Vec<Mixer>> {
    let Some(linear) = f.object("linear_attn_config") else {
        return Err(f.bad("linear_attn_config", "is missing or not an object"));
    };
    let heads = linear.need(&["num_heads"])?;
    let head_dim = linear.need(&["head_dim"])?;
    let delta = Mixer::Linear(LinearAttention {
        key_heads: heads,
        value_heads: heads,
        key_dim: head_dim,
        value_dim: head_dim,
        conv_width: linear.need(&["short_conv_kernel_size"])?,
        gate_rank: Some(head_dim),
    });
    let latent = Mixer::Mla(mla(f)?);
    let Some(full) = linear.list("full_attn_layers") else {
        return Err(linear.bad("full_attn_layers", "is missing or not a list"));
    };
    linear.value("kda_layers");
    let is_full = |i: usize| full.iter().any(|v| v.as_u64() == Some(i as u64 + 1));
    Ok((0..layers).map(|i| if is_full(i) { latent.clone() } else { delta.clone() }).collect())
}

/// Mamba-2 in the keys of Granite 4, Bamba and Falcon-H1.
fn mamba(f: &Fields) -> Result<Mamba2> {
    let heads = f.need(&["mamba_n_heads"])?;
    let head_dim = match f.above_zero(&["mamba_d_head"])? {
        Some(d) => d,
        None => f.need(&["hidden_size"])?.saturating_mul(f.need(&["mamba_expand"])?) / heads,
    };
    Ok(Mamba2 {
        heads,
        head_dim,
        state: f.need(&["mamba_d_state"])?,
        groups: f.need(&["mamba_n_groups"])?,
        conv_width: f.need(&["mamba_d_conv"])?,
    })
}

/// Granite 4 lists kinds in `layer_types`, Bamba the attention layers in `attn_layer_indices`.
pub(super) fn mamba_or_attention(f: &Fields, family: &Family, layers: usize) -> Result<Vec<Mixer>> {
    let attention = Mixer::Gqa(gqa(f, family)?);
    if let Some(kinds) = f.words_per_layer("layer_types", layers)? {
        let one = |kind: &&str| match *kind {
            "mamba" => Ok(Mixer::Mamba2(mamba(f)?)),
            "attention" | "full_attention" => Ok(attention.clone()),
            other => Err(f.bad("layer_types", &format!("has `{other}`; known are mamba and attention"))),
        };
        return kinds.iter().map(one).collect();
    }
    let Some(at) = f.list("attn_layer_indices") else {
        return Err(f.bad("layer_types", "is missing; it lists mamba and attention layers"));
    };
    let mamba = Mixer::Mamba2(mamba(f)?);
    let is_attention = |i: usize| at.iter().any(|v| v.as_u64() == Some(i as u64));
    Ok((0..layers).map(|i| if is_attention(i) { attention.clone() } else { mamba.clone() }).collect())
}

/// Falcon-H1: attention and Mamba-2 side by side, then the MLP. Counted as an attention block and a Mamba-2 block with
/// the MLP, which holds the same weights, states and caches.
pub(super) fn falcon_h1(f: &Fields, family: &Family, layers: usize) -> Result<Vec<(Mixer, Ffn)>> {
    let attention = (Mixer::Gqa(gqa(f, family)?), Ffn::None);
    f.value("mamba_d_ssm");
    let other = (Mixer::Mamba2(mamba(f)?), Ffn::Dense { inter: f.need(&["intermediate_size"])?, gated: true });
    Ok((0..layers).flat_map(|_| [attention.clone(), other.clone()]).collect())
}

/// Nemotron-H: every block is one thing: `M` Mamba-2, `*` attention, `-` MLP, `E` experts.
pub(super) fn blocks(f: &Fields, family: &Family) -> Result<Vec<(Mixer, Ffn)>> {
    let kinds = block_kinds(f)?;
    if let Some(stated) = f.number("num_hidden_layers")?
        && stated as usize != kinds.len()
    {
        return Err(f.bad("num_hidden_layers", &format!("is {stated}, but the block list has {} entries", kinds.len())));
    }
    let one = |kind: &char| {
        Ok(match kind {
            'M' => (Mixer::Mamba2(nemotron_mamba(f)?), Ffn::None),
            '*' => (Mixer::Gqa(gqa(f, family)?), Ffn::None),
            'E' => (Mixer::None, Ffn::Moe(ffn::moe(f, family)?)),
            _ => (Mixer::None, Ffn::Dense { inter: f.need(&["intermediate_size"])?, gated: family.gated }),
        })
    };
    kinds.iter().map(one).collect()
}

fn block_kinds(f: &Fields) -> Result<Vec<char>> {
    let key = "hybrid_override_pattern";
    if let Some(pattern) = f.text(key) {
        if let Some(bad) = pattern.chars().find(|c| !"M*E-".contains(*c)) {
            return Err(f.bad(key, &format!("has the block kind `{bad}`; known are M, *, E and -")));
        }
        if pattern.is_empty() {
            return Err(f.bad(key, "is empty"));
        }
        return Ok(pattern.chars().collect());
    }
    let key = "layers_block_type";
    let Some(list) = f.list(key).filter(|l| !l.is_empty()) else {
        return Err(f.bad("hybrid_override_pattern", "is missing; it lists the kind of every block"));
    };
    let one = |v: &Value| match v.as_str() {
        Some("mamba") => Ok('M'),
        Some("attention") => Ok('*'),
        Some("moe") => Ok('E'),
        Some("mlp") => Ok('-'),
        _ => Err(f.bad(key, &format!("has the block kind {v}; known are mamba, attention, moe and mlp"))),
    };
    list.iter().map(one).collect()
}

fn nemotron_mamba(f: &Fields) -> Result<Mamba2> {
    Ok(Mamba2 {
        heads: f.need(&["mamba_num_heads"])?,
        head_dim: f.need(&["mamba_head_dim"])?,
        state: f.need(&["ssm_state_size"])?,
        groups: f.need(&["n_groups"])?,
        conv_width: f.need(&["conv_kernel"])?,
    })
}
