//! May one run say anything about another? Runs share a regime where GPU, model, software and number formats agree.

use serde::{Deserialize, Serialize};

/// What must agree. An unknown entry is neutral, except speculation: a run that does not mention it had none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegimeSignature {
    /// GPU name.
    pub gpu: String,
    /// Model name.
    pub model: String,
    /// Engine name.
    pub engine: String,
    /// Engine version; a difference widens the band but does not leave the regime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_version: Option<String>,
    /// Precision of the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_dtype: Option<String>,
    /// KV cache format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_dtype: Option<String>,
    /// Precision of the routed experts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expert_dtype: Option<String>,
    /// Attention kernels, e.g. `aiter` or `triton`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_backend: Option<String>,
    /// `full`, `piecewise` or `eager`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph_mode: Option<String>,
    /// Speculative decoding: `none`, or method and drafts, e.g. `mtp3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculation: Option<String>,
}

impl RegimeSignature {
    /// The axes in which two runs are known to differ; empty where they share a regime.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let mut axes = Vec::new();
        let mut note = |axis, same: bool| {
            if !same {
                axes.push(axis);
            }
        };
        note("gpu", gpu(&self.gpu) == gpu(&other.gpu));
        note("model", letters(&self.model) == letters(&other.model));
        note("engine", letters(&self.engine) == letters(&other.engine));
        note("weight dtype", neutral(&self.weight_dtype, &other.weight_dtype, same_dtype));
        note("KV dtype", neutral(&self.kv_dtype, &other.kv_dtype, same_dtype));
        note("expert dtype", neutral(&self.expert_dtype, &other.expert_dtype, same_dtype));
        let same = |a: &str, b: &str| letters(a) == letters(b);
        note("attention backend", neutral(&self.attention_backend, &other.attention_backend, same));
        note("graph mode", neutral(&self.graph_mode, &other.graph_mode, same));
        note("speculation", speculation(&self.speculation) == speculation(&other.speculation));
        axes
    }

    /// Both versions are known and differ.
    pub fn other_version(&self, other: &Self) -> bool {
        !neutral(&self.engine_version, &other.engine_version, |a, b| a == b)
    }
}

fn neutral(a: &Option<String>, b: &Option<String>, same: impl Fn(&str, &str) -> bool) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => same(a, b),
        _ => true,
    }
}

/// `H200 SXM` and `h200` are one GPU.
fn gpu(name: &str) -> String {
    name.split_whitespace().next().unwrap_or("").to_ascii_lowercase()
}

/// Letters and digits of the last part of a name: `openai/gpt-oss-120b` and `GPT-OSS-120B` are one model.
fn letters(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or("");
    last.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// `fp4` covers both four-bit block formats, `fp8` its variants.
fn same_dtype(a: &str, b: &str) -> bool {
    let family = |name: &str| {
        let name = letters(name);
        match name.as_str() {
            "fp4" | "mxfp4" | "nvfp4" => "fp4".to_string(),
            n if n.starts_with("fp8") || n == "mxfp8" => "fp8".to_string(),
            "fp16" | "auto" | "bfloat16" => "bf16".to_string(),
            _ => name,
        }
    };
    family(a) == family(b)
}

/// Methods that the model's own extra layer drafts for are one; the number of drafts stays.
fn speculation(label: &Option<String>) -> String {
    match label.as_deref().map(letters) {
        None => "none".into(),
        Some(l) if l.is_empty() || l == "none" || l == "off" => "none".into(),
        Some(l) => l,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> RegimeSignature {
        RegimeSignature {
            gpu: "MI355X".into(),
            model: "openai/gpt-oss-120b".into(),
            engine: "vllm".into(),
            weight_dtype: Some("mxfp4".into()),
            ..RegimeSignature::default()
        }
    }

    #[test]
    fn unknown_is_neutral_except_for_speculation() {
        let target = base();
        let mut run = base();
        run.weight_dtype = None;
        run.kv_dtype = Some("fp8".into());
        run.model = "GPT-OSS-120B".into();
        assert_eq!(target.differences(&run), Vec::<&str>::new());
        run.speculation = Some("mtp3".into());
        assert_eq!(target.differences(&run), ["speculation"]);
        run.speculation = Some("none".into());
        assert!(target.differences(&run).is_empty());
    }

    #[test]
    fn every_known_difference_is_named() {
        let mut run = base();
        run.gpu = "MI300X".into();
        run.engine = "sglang".into();
        run.weight_dtype = Some("fp8".into());
        run.graph_mode = Some("eager".into());
        let mut target = base();
        target.graph_mode = Some("full".into());
        target.attention_backend = Some("aiter".into());
        assert_eq!(target.differences(&run), ["gpu", "engine", "weight dtype", "graph mode"]);
        run.attention_backend = Some("triton".into());
        assert!(target.differences(&run).contains(&"attention backend"));
    }

    #[test]
    fn a_published_fp4_label_covers_both_block_formats() {
        let mut run = base();
        run.weight_dtype = Some("fp4".into());
        assert!(base().differences(&run).is_empty());
        run.weight_dtype = Some("bf16".into());
        assert_eq!(base().differences(&run), ["weight dtype"]);
    }

    #[test]
    fn another_version_stays_in_the_regime() {
        let (mut a, mut b) = (base(), base());
        a.engine_version = Some("0.10".into());
        b.engine_version = Some("0.11".into());
        assert!(a.differences(&b).is_empty() && a.other_version(&b));
        b.engine_version = None;
        assert!(!a.other_version(&b));
    }
}
