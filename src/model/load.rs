//! Finds a model: a `config.json`, a folder that holds one, a model YAML, or a built-in preset by name or alias.

use super::import;
use super::{Architecture, Ffn, Mixer, Model};
use crate::catalog::{self, Kind};
use crate::{Error, Result, yaml};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// More parameters than any model will have for a while; above it a figure in the file is wrong.
const MOST_PARAMETERS: u64 = 1_000_000_000_000_000;

impl Model {
    /// Loads a model by path or by name.
    ///
    /// A path wins over a name. Names are compared in lower case: first as given, then without the organisation
    /// (`openai/gpt-oss-120b`), then without what marks precision, tuning or date (`-FP8`, `-MXFP4`, `-Instruct`, `-0528`
    /// …; see `plain_name`).
    pub fn load(name_or_path: &str) -> Result<Self> {
        let path = Path::new(name_or_path);
        if path.is_dir() {
            let config = path.join("config.json");
            if !config.is_file() {
                return Err(Error::input(name_or_path, "the folder holds no config.json", ""));
            }
            return from_config(&config);
        }
        if path.is_file() {
            if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json")) {
                return from_config(path);
            }
            let document = catalog::open(Kind::Model, name_or_path)?;
            return from_yaml(&document);
        }
        match find(name_or_path) {
            Some(name) => from_yaml(&catalog::open(Kind::Model, name)?),
            None => Err(catalog::open(Kind::Model, name_or_path).err().unwrap_or_else(|| {
                Error::input(format!("model `{name_or_path}`"), "no file and no built-in of that name", "")
            })),
        }
    }

    /// The built-in preset that goes by a name, if any.
    pub fn preset_name(name: &str) -> Option<&'static str> {
        find(name)
    }

    /// Refuses shapes that cannot be: zero sizes, no layers, more parameters than any model.
    pub(super) fn check(&self, origin: &str) -> Result<()> {
        if self.checkpoints.is_empty() {
            return Err(Error::input(origin, "no checkpoint is listed", "List at least one under `checkpoints`"));
        }
        self.check_shapes(origin)
    }

    /// The part of [`Self::check`] about the architecture.
    pub(super) fn check_shapes(&self, origin: &str) -> Result<()> {
        let a = &self.architecture;
        let bad = |found: String| Err(Error::input(origin, found, "Correct the shapes"));
        if let Some(zero) = zero_shape(a) {
            return bad(format!("{zero} is 0; it must be at least 1"));
        }
        if a.layers.is_empty() {
            return bad("the model has no layers".into());
        }
        for group in &a.layers {
            if let Ffn::Moe(moe) = &group.ffn
                && moe.top_k > moe.experts
            {
                return bad(format!("a token takes {} experts of {}", moe.top_k, moe.experts));
            }
            if let Mixer::Gqa(a) = &group.mixer
                && !a.heads.is_multiple_of(a.kv_heads)
            {
                return bad(format!("{} key-value heads do not divide {} heads", a.kv_heads, a.heads));
            }
        }
        let total = a.parameters().total();
        if total > MOST_PARAMETERS {
            return bad(format!("the shapes give {total:e} parameters, more than any model has"));
        }
        Ok(())
    }
}

fn zero_shape(a: &Architecture) -> Option<&'static str> {
    let mut sizes = vec![("hidden", a.hidden), ("vocab", a.vocab), ("max_context", a.max_context)];
    for group in &a.layers {
        sizes.push(("a layer count", group.count));
        match &group.mixer {
            Mixer::Gqa(m) => sizes.extend([("heads", m.heads), ("kv_heads", m.kv_heads), ("head_dim", m.head_dim)]),
            Mixer::Mla(m) => sizes.extend([("heads", m.heads), ("kv_lora", m.kv_lora), ("v_dim", m.v_dim)]),
            Mixer::Linear(m) => sizes.extend([("key_heads", m.key_heads), ("value_heads", m.value_heads)]),
            Mixer::Mamba2(m) => sizes.extend([("heads", m.heads), ("head_dim", m.head_dim), ("groups", m.groups)]),
            Mixer::None => {}
        }
        match &group.ffn {
            Ffn::Dense { inter, .. } => sizes.push(("inter", *inter)),
            Ffn::Moe(m) => sizes.extend([("experts", m.experts), ("top_k", m.top_k), ("inter", m.inter)]),
            Ffn::None => {}
        }
    }
    sizes.into_iter().find(|(_, n)| *n == 0).map(|(name, _)| name)
}

fn from_yaml(document: &catalog::Document) -> Result<Model> {
    let model: Model = yaml::parse(document)?;
    model.check(&document.origin)?;
    Ok(model)
}

fn from_config(path: &Path) -> Result<Model> {
    let origin = path.display().to_string();
    let config = text_of(path)?;
    let beside = quantisation_beside(path);
    let quantisation = match &beside {
        Some(p) => Some((p.display().to_string(), text_of(p)?)),
        None => None,
    };
    let quantisation = quantisation.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
    import::config_json(&origin, &id_of(path), &config, quantisation)
}

fn text_of(path: &Path) -> Result<String> {
    let bytes =
        fs::read(path).map_err(|e| Error::input(path.display().to_string(), format!("cannot be read: {e}"), ""))?;
    String::from_utf8(bytes).map_err(|_| Error::input(path.display().to_string(), "is not text", "Give a config.json"))
}

/// `hf_quant_config.json` beside `config.json`, `X_hf_quant_config.json` beside `X_config.json`.
fn quantisation_beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix("config.json")?;
    let beside = path.with_file_name(format!("{stem}hf_quant_config.json"));
    (!stem.ends_with("hf_quant_") && beside.is_file()).then_some(beside)
}

/// `ORG--MODEL_config.json` is `ORG/MODEL`; a plain `config.json` goes by its folder.
fn id_of(path: &Path) -> String {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let stem = name.strip_suffix("config.json").unwrap_or(name.strip_suffix(".json").unwrap_or(name));
    let stem = stem.trim_end_matches(['_', '-', '.']);
    if !stem.is_empty() {
        return stem.replacen("--", "/", 1);
    }
    let absolute = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let folder = absolute.parent().and_then(Path::file_name).and_then(|n| n.to_str()).unwrap_or_default();
    if folder.is_empty() { "config".to_string() } else { folder.replacen("--", "/", 1) }
}

/// Names and aliases of the presets, in lower case, read once.
fn names() -> &'static Vec<(String, &'static str)> {
    static NAMES: OnceLock<Vec<(String, &'static str)>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut all = Vec::new();
        for name in catalog::names(Kind::Model) {
            all.push((name.to_string(), name));
            let document = catalog::built_in(Kind::Model, name);
            let aliases = document.map(|d| aliases(&d.text)).unwrap_or_default();
            all.extend(aliases.into_iter().map(|a| (a, name)));
        }
        all
    })
}

/// The `aliases:` list of a preset, without parsing the rest of it.
fn aliases(text: &str) -> Vec<String> {
    let after = text.lines().skip_while(|l| !l.starts_with("aliases:")).skip(1);
    after
        .map_while(|l| l.trim_start().strip_prefix("- "))
        .map(|a| a.trim().trim_matches(['"', '\'']).to_lowercase())
        .collect()
}

fn find(asked: &str) -> Option<&'static str> {
    let lower = asked.trim().to_lowercase();
    let bare = lower.rsplit('/').next().unwrap_or(&lower).to_string();
    let plain = plain_name(&bare);
    let known =
        |n: &str| names().iter().find(|(a, _)| a == n || a.rsplit('/').next() == Some(n)).map(|(_, name)| *name);
    names().iter().find(|(a, _)| *a == lower).map(|(_, n)| *n).or_else(|| known(&bare)).or_else(|| known(&plain))
}

/// A model's name without what marks a precision, a tuning, a packaging or a date.
///
/// `DeepSeek-R1-0528-MXFP4` is `deepseek-r1`, `Meta-Llama-3.1-8B-Instruct` is `llama-3.1-8b`.
pub(crate) fn plain_name(name: &str) -> String {
    let cut =
        name.split('(').next().unwrap_or(name).trim().to_lowercase().replace([' ', '_'], "-").replace("-bit", "bit");
    let mut parts: Vec<&str> = cut.split('-').filter(|p| !p.is_empty()).collect();
    if parts.first() == Some(&"meta") && parts.len() > 1 {
        parts.remove(0);
    }
    let mark = |p: &str| {
        let date = p.len() == 4 && p.bytes().all(|b| b.is_ascii_digit());
        date || [
            "fp8",
            "fp4",
            "mxfp4",
            "mxfp8",
            "nvfp4",
            "bf16",
            "fp16",
            "int4",
            "int8",
            "awq",
            "gptq",
            "w4a16",
            "w8a8",
            "4bit",
            "8bit",
            "dynamic",
            "instruct",
            "chat",
            "it",
            "hf",
            "mtp",
            "moefp4",
            "kv",
            "preview",
            "autoround",
            "exl3",
            "quantized",
        ]
        .contains(&p)
    };
    while parts.len() > 1 && parts.last().is_some_and(|p| mark(p)) {
        parts.pop();
    }
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_cut_and_names_stay() {
        for (given, plain) in [
            ("DeepSeek-R1-0528-MXFP4", "deepseek-r1"),
            ("DeepSeek-R1-0528-MXFP4-MTP-MoEFP4", "deepseek-r1"),
            ("Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
            ("Qwen3-Next-80B-A3B-Instruct-FP8", "qwen3-next-80b-a3b"),
            ("Llama-3.1-405B (fp4)", "llama-3.1-405b"),
            ("Kimi-K2-Thinking-MXFP4", "kimi-k2-thinking"),
        ] {
            assert_eq!(plain_name(given), plain);
        }
    }
}
