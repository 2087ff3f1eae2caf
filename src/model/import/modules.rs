//! Names of a layer's weight matrices, and whether a pattern of a quantisation config means one of them.
//!
//! Dialects: plain names and prefixes (`model.layers.3.mlp.gate`), shell wildcards (`model.layers.0*`), regular
//! expressions after `re:` (`re:.*self_attn.*`), bare parts (`gate`). Names are compared from `layers.` on, since what
//! stands before differs between a model and its multimodal wrapper.

use crate::model::{Ffn, LayerGroup, Mixer};

/// The tensor groups of [`crate::model::Formats`] that have layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Attention,
    Dense,
    Experts,
    Shared,
}

/// One weight matrix of a layer, under each name it is published by, from `layers.N.` on.
pub(super) struct Module {
    pub group: Group,
    pub names: Vec<String>,
    pub weights: u64,
}

/// The matrices of one layer.
pub(super) fn of_layer(hidden: u32, group: &LayerGroup) -> Vec<Module> {
    let h = u64::from(hidden);
    let mut modules = Vec::new();
    let mut add = |g: Group, parents: &[&str], leaves: &[&str], weights: u64| {
        let names = parents.iter().flat_map(|p| leaves.iter().map(move |l| format!("{p}.{l}"))).collect();
        modules.push(Module { group: g, names, weights });
    };
    let attention = ["self_attn", "attn", "mixer", "attention"];
    match &group.mixer {
        Mixer::Gqa(a) => {
            let value = u64::from(a.v_head_dim.unwrap_or(a.head_dim));
            let (heads, kv) = (u64::from(a.heads), u64::from(a.kv_heads));
            add(Group::Attention, &attention, &["q_proj", "wq_b"], h * heads * u64::from(a.head_dim));
            add(Group::Attention, &attention, &["k_proj", "wkv"], h * kv * u64::from(a.head_dim));
            add(Group::Attention, &attention, &["v_proj"], h * kv * value);
            add(Group::Attention, &attention, &["o_proj", "wo_b"], h * heads * value);
        }
        Mixer::Mla(a) => {
            let query = u64::from(a.heads) * (u64::from(a.nope) + u64::from(a.rope));
            let latent = u64::from(a.kv_lora);
            match a.q_lora {
                Some(rank) => {
                    add(Group::Attention, &attention, &["q_a_proj"], h * u64::from(rank));
                    add(Group::Attention, &attention, &["q_b_proj"], u64::from(rank) * query);
                }
                None => add(Group::Attention, &attention, &["q_proj"], h * query),
            }
            add(Group::Attention, &attention, &["kv_a_proj_with_mqa"], h * (latent + u64::from(a.rope)));
            let heads_out = u64::from(a.heads) * (u64::from(a.nope) + u64::from(a.v_dim));
            add(Group::Attention, &attention, &["kv_b_proj"], latent * heads_out);
            add(Group::Attention, &attention, &["o_proj"], h * u64::from(a.heads) * u64::from(a.v_dim));
        }
        Mixer::Linear(a) => {
            let value = u64::from(a.value_heads) * u64::from(a.value_dim);
            let key = u64::from(a.key_heads) * u64::from(a.key_dim);
            let parents = ["linear_attn", "self_attn"];
            add(Group::Attention, &parents, &["in_proj_qkv", "in_proj_qkvz", "q_proj"], h * (2 * key + value));
            add(Group::Attention, &parents, &["in_proj_z", "in_proj_qkvz", "g_a_proj"], h * value);
            add(Group::Attention, &parents, &["out_proj", "o_proj"], h * value);
        }
        Mixer::Mamba2(a) => {
            let inner = u64::from(a.heads) * u64::from(a.head_dim);
            add(Group::Attention, &["mixer", "mamba"], &["in_proj"], 2 * h * inner);
            add(Group::Attention, &["mixer", "mamba"], &["out_proj"], h * inner);
        }
        Mixer::None => {}
    }
    let gate_up_down = ["gate_proj", "up_proj", "w1", "w3"];
    match &group.ffn {
        Ffn::Dense { .. } => {
            let parents = ["mlp", "mixer", "feed_forward", "ffn"];
            let weights = group.dense_parameters(hidden);
            add(Group::Dense, &parents, &gate_up_down, weights / 3 * 2);
            add(Group::Dense, &parents, &["down_proj", "w2"], weights / 3);
        }
        Ffn::Moe(moe) => {
            let parents = [
                "mlp.experts.0",
                "block_sparse_moe.experts.0",
                "mixer.experts.0",
                "ffn.experts.0",
                "feed_forward.experts.0",
                "moe.experts.0",
            ];
            let all = group.expert_parameters(hidden).saturating_mul(u64::from(moe.experts));
            add(Group::Experts, &parents, &gate_up_down, all / 3 * 2);
            add(Group::Experts, &parents, &["down_proj", "w2"], all / 3);
            if moe.shared_inter > 0 {
                let parents = [
                    "mlp.shared_experts",
                    "mlp.shared_expert",
                    "mixer.shared_experts",
                    "ffn.shared_experts",
                    "feed_forward.shared_expert",
                    "block_sparse_moe.shared_experts",
                ];
                let all = group.shared_parameters(hidden);
                add(Group::Shared, &parents, &gate_up_down, all / 3 * 2);
                add(Group::Shared, &parents, &["down_proj", "w2"], all / 3);
            }
        }
        Ffn::None => {}
    }
    modules
}

/// A pattern of a quantisation config, ready to be compared.
pub(super) struct Pattern {
    globs: Vec<String>,
    /// A bare part (`gate`, `self_attn`) means any name that holds it as a part.
    loose: bool,
    /// The one layer it speaks of, where it does; most of the hundreds of entries of a published list do.
    layer: Option<usize>,
}

impl Pattern {
    /// `None` for a regular expression beyond wildcards and alternatives.
    pub fn new(text: &str) -> Option<Self> {
        let globs = match text.strip_prefix("re:") {
            Some(regex) => globs_of_regex(regex)?,
            None => vec![text.to_string()],
        };
        let loose = globs.iter().all(|g| !g.contains('*') && !g.contains("layers."));
        let globs: Vec<String> = globs.iter().map(|g| from_layers(g)).collect();
        let layer = match globs.as_slice() {
            [one] => one.strip_prefix("layers.").and_then(|g| g.split_once('.')?.0.parse().ok()),
            _ => None,
        };
        Some(Self { globs, loose, layer })
    }

    /// Could mean a matrix of this layer.
    pub fn concerns(&self, layer: usize) -> bool {
        self.layer.is_none_or(|l| l == layer)
    }

    /// Means this matrix, or a part of the tree that holds it.
    pub fn means(&self, name: &str) -> bool {
        self.globs.iter().any(|glob| {
            if self.loose {
                return has_part(name, glob);
            }
            // The whole name or any of its parents.
            let mut ends = name.match_indices('.').map(|(i, _)| &name[..i]).chain([name]);
            ends.any(|part| matches(glob.as_bytes(), part.as_bytes()))
        })
    }
}

/// `glob` stands in `name` as whole dotted parts.
fn has_part(name: &str, part: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_none_or(|b| *b == b'.');
    let bytes = name.as_bytes();
    name.match_indices(part).any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|i| bytes.get(i));
        edge(before) && edge(bytes.get(at + part.len()))
    })
}

/// Drops what stands before `layers.`, unless it is a wildcard.
fn from_layers(glob: &str) -> String {
    match glob.find("layers.") {
        Some(at) if !glob[..at].contains('*') => glob[at..].to_string(),
        _ => glob.to_string(),
    }
}

/// Shell wildcards: `*` is any run of characters. Linear in both lengths but for backtracking to the last star.
fn matches(glob: &[u8], name: &[u8]) -> bool {
    let (mut g, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if g < glob.len() && glob[g] == b'*' {
            star = Some((g, n));
            g += 1;
        } else if g < glob.len() && (glob[g] == name[n] || glob[g] == b'?') {
            g += 1;
            n += 1;
        } else if let Some((sg, sn)) = star {
            star = Some((sg, sn + 1));
            g = sg + 1;
            n = sn + 1;
        } else {
            return false;
        }
    }
    glob[g..].iter().all(|c| *c == b'*')
}

/// `.*self_attn.*`, `.*mlp\.(gate|up)_proj.*`, `model\.layers\.\d+\..*`: wildcards, escapes, one level of alternatives.
fn globs_of_regex(regex: &str) -> Option<Vec<String>> {
    let mut globs = vec![String::new()];
    let mut rest = regex.trim_start_matches('^').trim_end_matches('$');
    while let Some(c) = rest.chars().next() {
        let mut push = |text: &str| globs.iter_mut().for_each(|g| g.push_str(text));
        let run = [".*", ".+", r"\d+", r"\d*", "[0-9]+", r"\w+", r"[^.]+"].iter().find(|t| rest.starts_with(**t));
        if let Some(run) = run {
            push("*");
            rest = &rest[run.len()..];
        } else if let Some(after) = rest.strip_prefix('\\') {
            let c = after.chars().next()?;
            push(&c.to_string());
            rest = &after[c.len_utf8()..];
        } else if let Some(inside) = rest.strip_prefix('(') {
            let end = inside.find(')')?;
            let options: Vec<&str> = inside[..end].trim_start_matches("?:").split('|').collect();
            if globs.len() * options.len() > 64 || inside[..end].contains(['(', '*', '[']) {
                return None;
            }
            globs =
                globs.iter().flat_map(|g| options.iter().map(move |o| format!("{g}{}", o.replace('\\', "")))).collect();
            rest = &inside[end + 1..];
        } else if "[]{}+?|)*".contains(c) {
            return None;
        } else {
            push(&c.to_string());
            rest = &rest[c.len_utf8()..];
        }
    }
    Some(globs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern).unwrap().means(name)
    }

    #[test]
    fn every_dialect_finds_its_matrix_and_no_other() {
        assert!(means("model.layers.*.self_attn", "layers.3.self_attn.q_proj"));
        assert!(means("model.language_model.layers.3.self_attn*", "layers.3.self_attn.q_proj"));
        assert!(!means("model.layers.1*", "layers.3.self_attn.q_proj"));
        assert!(means("*.mlp.shared_expert.*", "layers.3.mlp.shared_expert.up_proj"));
        assert!(!means("gate", "layers.3.mlp.gate_proj"));
        assert!(means("gate", "layers.3.mlp.gate"));
        assert!(means("lm_head", "lm_head"));
        let mlp = r"re:.*mlp\.(gate|up|gate_up|down)_proj.*";
        assert!(means(mlp, "layers.0.mlp.down_proj"));
        assert!(!means(mlp, "layers.4.mlp.experts.0.down_proj"));
    }
}
