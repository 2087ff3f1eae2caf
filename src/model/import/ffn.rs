//! What follows the mixer in each layer of a `config.json`: a dense MLP or experts.

use super::family::Family;
use super::fields::Fields;
use crate::Result;
use crate::model::{Ffn, Moe};

const EXPERTS: &[&str] = &["n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"];
const TOP_K: &[&str] = &[
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_topk",
    "moe_top_k",
    "moe_k",
    "top_k_experts",
];
const EXPERT_INTER: &[&str] =
    &["moe_intermediate_size", "expert_intermediate_size", "expert_ffn_hidden_size", "intermediate_size"];

/// Families whose published models all have routed experts; 0 of them is a slip.
const ALWAYS_SPARSE: &[&str] = &[
    "Mixtral",
    "Llama 4",
    "Phi-3.5-MoE",
    "DeepSeek-MoE",
    "DeepSeek-V2",
    "DeepSeek-V3, R1",
    "DeepSeek-V3.2",
    "DeepSeek-V4",
    "Kimi K2, K2.5",
    "Kimi-Linear",
    "GLM-4.5, 4.6, 4.7",
    "GLM-4.7-Flash",
    "GLM-5",
    "MiniMax-M2",
    "gpt-oss",
    "ERNIE 4.5 MoE",
    "dots.llm1",
    "Ling, Ring",
];

/// One feed-forward part a layer.
pub(super) fn ffns(f: &Fields, family: &Family, layers: usize) -> Result<Vec<Ffn>> {
    let dense = |f: &Fields| -> Result<Ffn> {
        let inter =
            f.need(&["intermediate_size_mlp", "intermediate_size", "ffn_hidden_size", "shared_intermediate_size"])?;
        Ok(Ffn::Dense { inter, gated: family.gated })
    };
    let on = f.flag("enable_moe_block", true)?;
    if ALWAYS_SPARSE.contains(&family.label) {
        for key in EXPERTS {
            if f.number(key)? == Some(0) {
                return Err(f.bad(key, &format!("is 0; a model of the family {} has at least 1", family.label)));
            }
        }
    }
    if !on || f.above_zero(EXPERTS)?.is_none() {
        return Ok(vec![dense(f)?; layers]);
    }
    let sparse = Ffn::Moe(moe(f, family)?);
    let which = sparse_layers(f, layers)?;
    which.iter().map(|s| if *s { Ok(sparse.clone()) } else { dense(f) }).collect()
}

/// The experts of a file that has them.
pub(super) fn moe(f: &Fields, family: &Family) -> Result<Moe> {
    let experts = f.need(EXPERTS)?;
    let top_k = f.need(TOP_K)?;
    if top_k > experts {
        return Err(f.bad("num_experts_per_tok", &format!("is {top_k}, more than the {experts} experts")));
    }
    let inter = f.need(EXPERT_INTER)?;
    let gate = f.above_zero(&["shared_expert_intermediate_size"])?;
    let shared_inter = match gate {
        Some(inter) => inter,
        None => shared(f, family, inter)?,
    };
    Ok(Moe {
        experts,
        top_k,
        inter,
        shared_inter,
        gated: family.gated,
        bias: family.expert_bias,
        latent: f.above_zero(&["moe_latent_size"])?,
        shared_gate: gate.is_some(),
    })
}

/// Width of the shared experts together.
fn shared(f: &Fields, family: &Family, inter: u32) -> Result<u32> {
    if let Some(width) = f.above_zero(&["share_expert_dim", "shared_intermediate_size"])? {
        return Ok(width);
    }
    let one = f.above_zero(&["moe_shared_expert_intermediate_size"])?.unwrap_or(inter);
    if let Some(n) =
        f.first(&["n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"])?
    {
        return Ok(n.saturating_mul(one));
    }
    // Llama 4 has one shared expert of the routed ones' width; Gemma 4 runs its dense MLP beside the experts.
    Ok(match family.label {
        "Llama 4" => inter,
        "Gemma 4" => f.need(&["intermediate_size"])?,
        _ => 0,
    })
}

/// Which layers have experts.
fn sparse_layers(f: &Fields, layers: usize) -> Result<Vec<bool>> {
    if let Some(kinds) = f.words_per_layer("mlp_layer_types", layers)? {
        return kinds
            .iter()
            .map(|k| match *k {
                "sparse" | "moe" => Ok(true),
                "dense" => Ok(false),
                other => Err(f.bad("mlp_layer_types", &format!("has `{other}`; known are dense and sparse"))),
            })
            .collect();
    }
    for key in ["moe_layer_freq", "is_moe_layer"] {
        if f.list(key).is_some() {
            let list = f.per_layer(key, layers)?.unwrap_or_default();
            return Ok(list.iter().map(|n| *n > 0).collect());
        }
    }
    // Step-3: the sparse layers, in one string; Llama 4: in a list.
    if let Some(text) = f.text("moe_layers_enum") {
        let at: Vec<usize> = text.split(',').filter_map(|n| n.trim().parse().ok()).collect();
        return Ok((0..layers).map(|i| at.contains(&i)).collect());
    }
    if let Some(list) = f.list("moe_layers").filter(|l| !l.is_empty()) {
        return Ok((0..layers).map(|i| list.iter().any(|v| v.as_u64() == Some(i as u64))).collect());
    }
    let first = f.first(&["first_k_dense_replace", "moe_layer_start_index"])?.unwrap_or(0) as usize;
    let last = f.value("moe_layer_end_index").and_then(|v| v.as_u64()).unwrap_or(u64::MAX);
    let step = f.above_zero(&["interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_interval"])?.unwrap_or(1)
        as usize;
    let every = f.above_zero(&["moe_layer_freq"])?.unwrap_or(1) as usize;
    let dense: Vec<u64> = f.list("mlp_only_layers").into_iter().flatten().filter_map(|v| v.as_u64()).collect();
    let sparse = |i: usize| {
        i >= first
            && i as u64 <= last
            && (i + 1).is_multiple_of(step)
            && i.is_multiple_of(every)
            && !dense.contains(&(i as u64))
    };
    Ok((0..layers).map(sparse).collect())
}

/// LongCat-Flash: experts beside two dense MLPs in each layer. Some routing slots go to experts that compute nothing;
/// the mean of the others is what a token passes through.
pub(super) fn longcat(f: &Fields, family: &Family) -> Result<(Ffn, Ffn)> {
    let dense = Ffn::Dense { inter: f.need(&["ffn_hidden_size"])?, gated: true };
    let mut moe = moe(f, family)?;
    let idle = f.number("zero_expert_num")?.unwrap_or(0);
    f.value("zero_expert_type");
    let all = u64::from(moe.experts) + u64::from(idle);
    moe.top_k = ((u64::from(moe.top_k) * u64::from(moe.experts) + all / 2) / all).max(1) as u32;
    Ok((dense, Ffn::Moe(moe)))
}
