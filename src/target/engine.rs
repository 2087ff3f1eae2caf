//! Which defaults and memory habits has an engine, at which version?
//!
//! A profile is a YAML document in `targets/engines/`; [`EngineProfile::settings`] resolves it for one version into a
//! plain copyable struct. Sizes in the documents are GiB.

use crate::catalog::{self, Kind};
use crate::model::KvFormat;
use crate::source::Sourced;
use crate::target::{Gpu, GpuFamily};
use crate::{Error, Result, yaml};
use serde::{Deserialize, Serialize};

/// Engines that budget memory alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineFamily {
    /// vLLM and what is built on it.
    Vllm,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM.
    Trtllm,
}

/// What the engine's memory fraction is a fraction of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FractionOf {
    /// Of the GPU's memory, for everything the engine holds (vLLM).
    Total,
    /// Of the GPU's memory, for weights and KV cache only; activations and graphs live in the rest (SGLang).
    TotalForWeightsAndKv,
    /// Of what is free after the weights and a profiled step, for the KV cache (TensorRT-LLM).
    FreeAfterWeights,
}

/// KV format an engine picks where no flag says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KvDefaults {
    /// CDNA3.
    pub gfx942: KvFormat,
    /// CDNA4.
    pub gfx950: KvFormat,
    /// H100, H200.
    pub hopper: KvFormat,
    /// B200 and its siblings.
    pub blackwell: KvFormat,
    /// A device that was probed.
    #[serde(default = "sixteen_bits")]
    pub local: KvFormat,
}

fn sixteen_bits() -> KvFormat {
    KvFormat::Bf16
}

impl KvDefaults {
    /// The format on a GPU family.
    pub fn on(self, family: GpuFamily) -> KvFormat {
        match family {
            GpuFamily::Gfx942 => self.gfx942,
            GpuFamily::Gfx950 => self.gfx950,
            GpuFamily::Hopper => self.hopper,
            GpuFamily::Blackwell => self.blackwell,
            GpuFamily::Local => self.local,
        }
    }
}

/// To which multiples the expert matrices of an MXFP4 checkpoint are padded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpertPadding {
    /// Hidden size is padded to a multiple of this.
    pub hidden: u32,
    /// A rank's share of the intermediate size is padded to a multiple of this.
    pub inter: u32,
    /// Only the input dimension of each matrix is padded (Triton's Hopper layout), not both.
    #[serde(default)]
    pub input_dim_only: bool,
}

/// Padding on every GPU family.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilyPadding {
    /// CDNA3.
    pub gfx942: ExpertPadding,
    /// CDNA4.
    pub gfx950: ExpertPadding,
    /// H100, H200.
    pub hopper: ExpertPadding,
    /// B200 and its siblings.
    pub blackwell: ExpertPadding,
}

impl FamilyPadding {
    /// The padding on a GPU family.
    pub fn on(self, family: GpuFamily) -> ExpertPadding {
        match family {
            GpuFamily::Gfx942 => self.gfx942,
            GpuFamily::Gfx950 => self.gfx950,
            GpuFamily::Hopper => self.hopper,
            GpuFamily::Blackwell => self.blackwell,
            GpuFamily::Local => ExpertPadding { hidden: 1, inter: 1, input_dim_only: false },
        }
    }
}

/// Scheduler limits on GPUs of at least some memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepLimits {
    /// Smallest GPU memory in GiB this holds for.
    pub from_gib: f64,
    /// Default token budget of one step.
    pub max_num_batched_tokens: u32,
    /// Default limit on running sequences.
    pub max_num_seqs: u32,
}

/// How the engine prints the KV capacity of a model whose layers hold different amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HybridPrint {
    /// Concurrency times the longest length.
    ConcurrencyTimesLength,
    /// Blocks of the pool divided by the number of layer groups, times the block size.
    BlocksOverGroups,
}

/// Everything another part needs to know about an engine at one version. Plain and copyable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineSettings {
    /// Memory habits.
    pub family: EngineFamily,
    /// Default memory fraction.
    pub memory_fraction: f64,
    /// Its meaning.
    pub fraction_of: FractionOf,
    /// Captured graphs count against the fraction.
    pub graphs_in_budget: bool,
    /// Memory of captured graphs, GiB.
    pub graph_gib: f64,
    /// Memory the engine holds outside the tensor library on one rank, GiB.
    pub reserve_gib: f64,
    /// What each doubling of the ranks adds to it, GiB.
    pub reserve_per_doubling_gib: f64,
    /// fp32 copies of the logits alive at the sampler's peak.
    pub sampler_copies: f64,
    /// Tokens in a KV block.
    pub block_size: u32,
    /// Tokens in a KV block of a latent-attention model.
    pub mla_block_size: u32,
    /// State blocks held per sequence and group of linear layers.
    pub state_blocks: u32,
    /// Steps scheduled ahead; a window layer is charged for the tokens of all of them.
    pub steps_in_flight: u32,
    /// Share of the full layers' tokens that window layers get, where the engine keeps two pools.
    pub window_pool_ratio: f64,
    /// How capacity is printed for hybrids.
    pub hybrid_print: HybridPrint,
    /// The start-up check compares the KV of all pipeline stages with the smallest stage.
    pub pipeline_need_over_all_layers: bool,
    /// Default KV formats.
    pub kv_dtype: KvDefaults,
    /// Padding of MXFP4 experts.
    pub mxfp4_padding: FamilyPadding,
    limits: [StepLimits; 4],
}

impl EngineSettings {
    /// Default scheduler limits on a GPU of this memory in GiB.
    pub fn step_limits(&self, gpu_gib: f64) -> StepLimits {
        let fits = self.limits.iter().filter(|l| l.from_gib <= gpu_gib);
        *fits.max_by(|a, b| a.from_gib.total_cmp(&b.from_gib)).unwrap_or(&self.limits[0])
    }

    /// Default token budget of one step.
    pub fn max_num_batched_tokens(&self, gpu: &Gpu) -> u32 {
        self.step_limits(gpu.hbm_gib.value).max_num_batched_tokens
    }

    /// Default limit on running sequences.
    pub fn max_num_seqs(&self, gpu: &Gpu) -> u32 {
        self.step_limits(gpu.hbm_gib.value).max_num_seqs
    }

    /// KV format the engine picks on a GPU.
    pub fn default_kv_dtype(&self, family: GpuFamily) -> KvFormat {
        self.kv_dtype.on(family)
    }
}

/// Settings of a profile or of one version of it; a version states only what it changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SettingsDoc {
    /// Default memory fraction.
    pub memory_fraction: Option<Sourced<f64>>,
    /// Its meaning.
    pub fraction_of: Option<Sourced<FractionOf>>,
    /// Captured graphs count against the fraction.
    pub graphs_in_budget: Option<Sourced<bool>>,
    /// Memory of captured graphs, GiB.
    pub graph_gib: Option<Sourced<f64>>,
    /// Memory outside the tensor library on one rank, GiB.
    pub reserve_gib: Option<Sourced<f64>>,
    /// Added by each doubling of the ranks, GiB.
    pub reserve_per_doubling_gib: Option<Sourced<f64>>,
    /// fp32 copies of the logits at the sampler's peak.
    pub sampler_copies: Option<Sourced<f64>>,
    /// Tokens in a KV block.
    pub block_size: Option<Sourced<u32>>,
    /// Tokens in a KV block of a latent-attention model.
    pub mla_block_size: Option<Sourced<u32>>,
    /// State blocks per sequence and group of linear layers.
    pub state_blocks: Option<Sourced<u32>>,
    /// Steps scheduled ahead.
    pub steps_in_flight: Option<Sourced<u32>>,
    /// Window layers' share of the full layers' tokens.
    pub window_pool_ratio: Option<Sourced<f64>>,
    /// How capacity is printed for hybrids.
    pub hybrid_print: Option<Sourced<HybridPrint>>,
    /// The start-up check compares all stages with the smallest.
    pub pipeline_need_over_all_layers: Option<Sourced<bool>>,
    /// Default KV formats.
    pub kv_dtype: Option<Sourced<KvDefaults>>,
    /// Padding of MXFP4 experts.
    pub mxfp4_padding: Option<Sourced<FamilyPadding>>,
    /// Scheduler limits by GPU memory, smallest first; at most four.
    pub limits: Option<Sourced<Vec<StepLimits>>>,
}

/// What changed from a version on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionChange {
    /// First version with the change, e.g. `"0.22"`.
    pub since: String,
    /// Month of that version, e.g. `"2026-05"`; dates a log that names no version.
    pub released: String,
    /// What changed and when, in words.
    pub change: String,
    /// The settings it changed.
    pub settings: SettingsDoc,
}

/// An engine: its names, defaults and quirks by version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineProfile {
    /// Name on the command line, e.g. `vllm`.
    pub name: String,
    /// Memory habits.
    pub family: EngineFamily,
    /// Name as people write it.
    pub title: String,
    /// Other spellings, in lower case without spaces or punctuation.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// What the figures rest on where they are another engine's.
    #[serde(default)]
    pub note: String,
    /// Settings of the oldest version described.
    pub settings: SettingsDoc,
    /// Later changes, oldest first.
    #[serde(default)]
    pub versions: Vec<VersionChange>,
}

impl EngineProfile {
    /// Loads a profile by path, by name, or by any common spelling: `vllm (ROCm)`, `trt`, `dynamo-sglang` …
    pub fn load(name: &str) -> Result<Self> {
        let document = match catalog::open(Kind::Engine, name) {
            Ok(document) => document,
            Err(unknown) => {
                let known = match_name(name).ok_or(unknown)?;
                catalog::open(Kind::Engine, known)?
            }
        };
        let profile: Self = yaml::parse(&document)?;
        profile.resolve(None).map_err(|found| Error::input(document.origin.clone(), found, ""))?;
        Ok(profile)
    }

    /// Accepts a version that can be compared with the known changes, and none.
    ///
    /// # Errors
    /// A text that starts with no number; the message names the versions at which something changed.
    pub fn check_version(&self, version: Option<&str>) -> Result<()> {
        let Some(text) = version.filter(|v| parse_version(v).is_none()) else { return Ok(()) };
        let known: Vec<&str> = self.versions.iter().map(|v| v.since.as_str()).collect();
        let known = match known.as_slice() {
            [] => format!("{} has the same settings at every version", self.name),
            list => format!("{} changes at {}", self.name, list.join(", ")),
        };
        Err(Error::input(
            format!("--engine-version \"{text}\""),
            "not a version",
            format!("Write it as 0.11 or v0.22.1, or leave it out for the newest known; {known}"),
        ))
    }

    /// The settings at a version; the newest described where none is given or it cannot be read.
    pub fn settings(&self, version: Option<&str>) -> EngineSettings {
        self.resolve(version).expect("checked when the profile was loaded")
    }

    /// The settings on a day (`2026-06-05`), for logs that name no version.
    pub fn settings_on(&self, date: &str) -> EngineSettings {
        let last = self.versions.iter().rev().find(|v| v.released.as_str() <= date);
        self.settings(Some(last.map_or("0", |v| v.since.as_str())))
    }

    fn resolve(&self, version: Option<&str>) -> std::result::Result<EngineSettings, String> {
        let at = version.and_then(parse_version);
        let active = self.versions.iter().filter(|v| match (&at, parse_version(&v.since)) {
            (Some(at), Some(since)) => *at >= since,
            _ => true,
        });
        let mut doc = self.settings.clone();
        for change in active {
            overlay(&mut doc, &change.settings);
        }
        build(self.family, doc)
    }
}

fn overlay(base: &mut SettingsDoc, over: &SettingsDoc) {
    macro_rules! take {
        ($($field:ident),*) => { $( if over.$field.is_some() { base.$field.clone_from(&over.$field); } )* };
    }
    take!(
        memory_fraction,
        fraction_of,
        graphs_in_budget,
        graph_gib,
        reserve_gib,
        reserve_per_doubling_gib,
        sampler_copies,
        block_size,
        mla_block_size,
        state_blocks,
        steps_in_flight,
        window_pool_ratio,
        hybrid_print,
        pipeline_need_over_all_layers,
        kv_dtype,
        mxfp4_padding,
        limits
    );
}

fn build(family: EngineFamily, doc: SettingsDoc) -> std::result::Result<EngineSettings, String> {
    macro_rules! need {
        ($field:ident) => {
            doc.$field.ok_or(concat!("settings lack `", stringify!($field), "`"))?.value
        };
    }
    let list = need!(limits);
    if list.is_empty() || list.len() > 4 {
        return Err(format!("`limits` has {} entries; one to four are supported", list.len()));
    }
    let mut limits = [list[0]; 4];
    limits[..list.len()].copy_from_slice(&list);
    let memory_fraction = need!(memory_fraction);
    if !(0.0..=1.0).contains(&memory_fraction) {
        return Err(format!("`memory_fraction` is {memory_fraction}; it lies between 0 and 1"));
    }
    Ok(EngineSettings {
        family,
        memory_fraction,
        fraction_of: need!(fraction_of),
        graphs_in_budget: need!(graphs_in_budget),
        graph_gib: need!(graph_gib),
        reserve_gib: need!(reserve_gib),
        reserve_per_doubling_gib: need!(reserve_per_doubling_gib),
        sampler_copies: need!(sampler_copies),
        block_size: need!(block_size).max(1),
        mla_block_size: need!(mla_block_size).max(1),
        state_blocks: need!(state_blocks),
        steps_in_flight: need!(steps_in_flight),
        window_pool_ratio: need!(window_pool_ratio),
        hybrid_print: need!(hybrid_print),
        pipeline_need_over_all_layers: need!(pipeline_need_over_all_layers),
        kv_dtype: need!(kv_dtype),
        mxfp4_padding: need!(mxfp4_padding),
        limits,
    })
}

/// The numbers a version starts with: `0.15.2rc1` is `[0, 15, 2]`; `V1`, vLLM's second engine, is 0.8.
fn parse_version(text: &str) -> Option<[u32; 3]> {
    let text = text.trim();
    match text {
        "V0" | "v0" => return Some([0, 7, 0]),
        "V1" | "v1" => return Some([0, 8, 0]),
        _ => {}
    }
    let text = text.trim_start_matches(['v', 'V']);
    let mut parts = [0; 3];
    let mut any = false;
    for (slot, part) in parts.iter_mut().zip(text.split('.')) {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        match digits.parse() {
            Ok(number) => *slot = number,
            Err(_) => break,
        }
        any = true;
        if digits.len() < part.len() {
            break;
        }
    }
    any.then_some(parts)
}

/// The built-in profile a free spelling means.
fn match_name(asked: &str) -> Option<&'static str> {
    let word: String = asked.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let has = |part: &str| word.contains(part);
    let name = if has("atom") && has("vllm") {
        "vllm-atom"
    } else if has("atom") && has("sglang") {
        "sglang-atom"
    } else if has("moreh") || has("moai") {
        "moreh-vllm"
    } else if has("vllm") {
        "vllm"
    } else if has("sglang") || word == "sgl" {
        "sglang"
    } else if has("trt") || has("tensorrt") {
        "trtllm"
    } else if has("atom") {
        "atom"
    } else {
        return catalog::names(Kind::Engine).into_iter().find(|name| {
            catalog::built_in(Kind::Engine, name)
                .and_then(|document| yaml::parse::<EngineProfile>(&document).ok())
                .is_some_and(|profile| profile.aliases.contains(&word))
        });
    };
    Some(name)
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
