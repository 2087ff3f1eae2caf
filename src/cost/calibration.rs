//! Serving constants: what kernel tables do not say about an engine on a GPU, fitted on measured serving points.
//!
//! A profile is a list of parameters; each has a value and factors for scopes it depends on (GPU family, engine, …),
//! never for a model. Resolving it for one engine on one GPU gives plain [`Constants`].

use super::residual::{Corrections, ResidualPoint};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

macro_rules! constants {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// Resolved constants of one engine on one GPU. Times in µs unless the name says otherwise.
        #[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
        pub struct Constants { $($(#[$doc])* pub $field: f64),+ }

        impl Constants {
            /// Names of all constants, as a profile spells them.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];

            /// Sets one by name; false for an unknown name.
            pub fn set(&mut self, name: &str, value: f64) -> bool {
                match name { $(stringify!($field) => { self.$field = value; true })+ _ => false }
            }

            /// Reads one by name.
            pub fn get(&self, name: &str) -> Option<f64> {
                match name { $(stringify!($field) => Some(self.$field),)+ _ => None }
            }
        }
    };
}

constants! {
    /// Engine work per step, µs.
    host_step,
    /// Engine work per step and running sequence, µs.
    host_sequence,
    /// Time of one small kernel (norm, rotary, activation, copy) in a decode step, µs.
    small_kernel,
    /// Small kernels of a layer with grouped-query attention.
    kernels_gqa,
    /// Small kernels of a layer with latent attention.
    kernels_mla,
    /// Small kernels of a layer with a recurrent state.
    kernels_linear,
    /// Small kernels of a dense MLP.
    kernels_dense,
    /// Small kernels of a mixture of experts.
    kernels_moe,
    /// Small kernels of a shared expert.
    kernels_shared,
    /// Small kernels of a sparse-attention index.
    kernels_index,
    /// Small kernels that compressed attention brings: the compressor's and those of the widened residual stream.
    kernels_compressed,
    /// Factor on all kernel floors.
    floor_scale,
    /// Factor on the variable part of dense products in decode.
    gemm_scale,
    /// Factor on the variable part of experts in decode.
    moe_scale,
    /// Factor on the variable part of decode attention.
    attention_scale,
    /// Factor on the scan of a sparse-attention index in decode.
    index_scale,
    /// Times a latent is read again for each further group of heads, where no kernel takes them all.
    latent_reread,
    /// Factor on the variable part of collectives in decode.
    collective_scale,
    /// Maturity of an engine's decode step: factor on everything but what the roofline forbids.
    step_scale,
    /// Factor of software before the profile's reference date.
    release_scale,
    /// Factor on dense products in prefill.
    prefill_gemm_scale,
    /// Factor on experts in prefill.
    prefill_moe_scale,
    /// Factor on attention in prefill.
    prefill_attention_scale,
    /// Factor on a sparse-attention index, and on gathering what it chose, in prefill.
    prefill_index_scale,
    /// Factor on collectives in prefill.
    prefill_collective_scale,
    /// Work per prompt token outside the kernels (tokenise, copy), µs.
    prompt_token,
    /// Activation passes of a layer in prefill, each 2 bytes × hidden size.
    elementwise_passes,
    /// Fixed time of a step with prefill, ms.
    prefill_fixed_ms,
    /// Share of the decode step's floors that a prefill step pays again.
    prefill_floor_share,
    /// Share of prefill work that delays running sequences.
    interference,
    /// Share of a prefill step's fixed time that delays running sequences.
    interference_fixed,
    /// Share of a decode step per draft token and three draft tokens that drafting costs.
    draft_cost,
    /// Mean emitted tokens per step with three draft tokens, where none is stated.
    accepted_tokens,
    /// Time before a request reaches the scheduler and after its first token leaves it, ms.
    front_end_ms,
    /// Decode steps a new request waits before its prefill starts and its first token is seen.
    admission_steps,
    /// Prompts a request of the first wave waits for, as a factor on half the wave.
    first_wave_scale,
    /// Front-end time per concurrent request of the first wave, ms.
    first_wave_request_ms,
    /// Queueing of prompts that arrive together: mean, in prompts.
    queue_mean,
    /// Queueing of prompts that arrive together: median, in prompts.
    queue_median,
    /// Whole-run throughput over the steady state's: ramp and drain.
    run_share,
    /// Start-up time the first wave pays (kernel compilation), ms.
    cold_ms,
}

/// What a profile is resolved for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Regime {
    /// GPU, e.g. `MI355X`.
    pub gpu: String,
    /// GPU family, e.g. `gfx950`.
    pub family: String,
    /// Engine, e.g. `vllm-atom`.
    pub engine: String,
    /// Attention kind: `gqa`, `window`, `mla`, `linear`.
    pub attention: String,
    /// Width of the expert (or dense) weights: `16`, `8`, `4`.
    pub bits: String,
    /// `current`, or `2025` for software before the profile's reference date.
    pub epoch: String,
    /// Model, for what the physics leaves over; no parameter depends on it.
    pub model: String,
    /// `plain`, `speculative`, `attention-dp`, or both joined by `+`.
    pub variant: String,
}

impl Regime {
    fn dimension(&self, name: &str) -> Option<&str> {
        Some(match name {
            "gpu" => &self.gpu,
            "family" => &self.family,
            "engine" => &self.engine,
            "attention" => &self.attention,
            "bits" => &self.bits,
            // Only superseded software has a key: a factor for it never touches a current prediction.
            "epoch" if self.epoch == "current" => return None,
            "epoch" => &self.epoch,
            _ => return None,
        })
    }

    /// The combination a residual correction belongs to. Two pools are another than one: a decode pool waits for a network
    /// and a router that the same engine alone does not know.
    pub fn combination(&self) -> String {
        let pools = if self.variant.starts_with("disaggregated") { "/disaggregated" } else { "" };
        format!("{}/{}/{}{pools}", self.gpu, self.engine, self.model)
    }

    /// The key of a scope such as `gpu/engine`; `None` where the scope does not apply.
    pub fn key(&self, scope: &str) -> Option<String> {
        let parts: Option<Vec<&str>> = scope.split('/').map(|d| self.dimension(d)).collect();
        Some(parts?.join("/"))
    }
}

/// A fitted factor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// Multiplies the parameter's value.
    pub factor: f64,
    /// Standard deviation of its logarithm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// Measured rows in the scope.
    #[serde(default)]
    pub points: u32,
}

/// Factors of a parameter over one scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scoped {
    /// Dimensions joined by `/`: `family`, `gpu/engine`, `engine/attention` …
    pub scope: String,
    /// How far a factor may move from 1 in a fit: standard deviation of its logarithm.
    pub prior_spread: f64,
    /// Factors by key.
    #[serde(default)]
    pub factors: BTreeMap<String, Factor>,
}

/// One parameter of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Which constant.
    pub name: String,
    /// Its value before scoped factors.
    pub value: f64,
    /// How it is known.
    pub origin: crate::source::Origin,
    /// What a fit starts from and is pulled towards.
    pub prior: f64,
    /// Standard deviation of the prior's logarithm; 0 keeps the value fixed.
    pub prior_spread: f64,
    /// Standard deviation of the fitted value's logarithm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// Scoped factors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<Scoped>,
}

/// A constant of one regime and where it came from: `value = base · Π factors`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Traced {
    /// Which constant.
    pub name: String,
    /// Its value in the regime; unit as in [`Constants`].
    pub value: f64,
    /// Its value before factors.
    pub base: f64,
    /// How the base is known.
    pub origin: crate::source::Origin,
    /// The factors of the scopes that apply.
    pub factors: Vec<AppliedFactor>,
}

/// A factor of a scope that applies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AppliedFactor {
    /// Dimensions, e.g. `gpu/engine`.
    pub scope: String,
    /// The regime's key there, e.g. `MI355X/vllm`.
    pub key: String,
    /// Multiplies the base.
    pub factor: f64,
}

/// Measured rows behind an engine on a GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Support {
    /// GPU.
    pub gpu: String,
    /// Engine.
    pub engine: String,
    /// Models whose TPOT was measured there.
    pub models: Vec<String>,
    /// Models whose mean TTFT was measured there.
    #[serde(default)]
    pub ttft_models: Vec<String>,
    /// Most requests in flight per instance that were measured there.
    #[serde(default)]
    pub most_requests: f64,
    /// First and last date of the rows, YYYY-MM-DD; empty where none was recorded.
    #[serde(default)]
    pub dates: [String; 2],
    /// Rows with a TPOT.
    pub tpot_points: u32,
    /// Rows with a mean TTFT.
    pub ttft_points: u32,
}

/// A calibration profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Name.
    pub name: String,
    /// What it was fitted on, when and how.
    pub description: String,
    /// Software dated before this (YYYY-MM-DD) is another epoch.
    pub reference_date: String,
    /// Parameters.
    pub parameters: Vec<Parameter>,
    /// Rows behind each engine on each GPU.
    #[serde(default)]
    pub support: Vec<Support>,
    /// What the physics leaves over for combinations that were measured.
    #[serde(default)]
    pub residuals: Vec<super::residual::Residual>,
}

impl Calibration {
    /// Constants of a regime: each value times the factors of the scopes that have a key for it.
    pub fn resolve(&self, regime: &Regime) -> Constants {
        let mut constants = Constants::default();
        for p in &self.parameters {
            let factor: f64 = p.by.iter().filter_map(|s| Some(s.factors.get(&regime.key(&s.scope)?)?.factor)).product();
            constants.set(&p.name, p.value * factor);
        }
        constants
    }

    /// How each constant of a regime came about.
    pub fn trace(&self, regime: &Regime) -> Vec<Traced> {
        let trace = |p: &Parameter| {
            let factors: Vec<AppliedFactor> =
                p.by.iter()
                    .filter_map(|s| {
                        let key = regime.key(&s.scope)?;
                        let found = s.factors.get(&key)?;
                        Some(AppliedFactor { scope: s.scope.clone(), key, factor: found.factor })
                    })
                    .collect();
            let value = p.value * factors.iter().map(|f| f.factor).product::<f64>();
            Traced { name: p.name.clone(), value, base: p.value, origin: p.origin, factors }
        };
        self.parameters.iter().map(trace).collect()
    }

    /// The profile for a target: itself, or where the target's own device was probed, the constants measured there in
    /// place of every fitted value and factor.
    ///
    /// # Errors
    /// A constant that does not exist, or one that is missing.
    pub fn measured_on(&self, target: &crate::target::Target) -> crate::Result<Self> {
        let Some(kernels) = &target.kernels else { return Ok(self.clone()) };
        for name in kernels.constants.keys() {
            if !Constants::NAMES.contains(&name.as_str()) {
                let near = crate::catalog::nearest(name, Constants::NAMES);
                return Err(crate::Error::input(
                    format!("target {}: kernels.constants", target.name),
                    format!("unknown constant `{name}`"),
                    near.map(|n| format!("Did you mean `{n}`?")).unwrap_or_default(),
                ));
            }
        }
        let replaced = |p: &Parameter| match kernels.constants.get(&p.name) {
            Some(own) => Ok(Parameter { value: own.value, origin: own.origin, by: Vec::new(), ..p.clone() }),
            None => Err(crate::Error::input(
                format!("target {}: kernels.constants", target.name),
                format!("`{}` is missing", p.name),
                "Let `inferasim workload probe` write the target again",
            )),
        };
        Ok(Self {
            name: format!("probe of {}", target.name),
            description: kernels.probed.clone(),
            parameters: self.parameters.iter().map(replaced).collect::<crate::Result<_>>()?,
            support: Vec::new(),
            residuals: Vec::new(),
            ..self.clone()
        })
    }

    /// The corrections of a combination that was measured, where they help, at every load of a layout and lengths.
    pub fn corrections(&self, regime: &Regime, at: &ResidualPoint) -> Option<Corrections> {
        let key = regime.combination();
        let found = self.residuals.iter().find(|r| r.key == key)?;
        Some(found.along(&regime.bits, &regime.variant, &regime.epoch, at))
    }

    /// Reads a profile and checks that it names every constant once, with finite positive figures.
    ///
    /// # Errors
    /// An unknown, missing or duplicate constant; a negative or non-finite figure.
    pub fn load(name_or_path: &str) -> crate::Result<Self> {
        use crate::catalog::{self, Kind};
        let document = catalog::open(Kind::Calibration, name_or_path)?;
        let profile: Self = crate::yaml::parse(&document)?;
        let complain = |found: String, repair: String| crate::Error::input(&document.origin, found, repair);
        for p in &profile.parameters {
            if !Constants::NAMES.contains(&p.name.as_str()) {
                let near = catalog::nearest(&p.name, Constants::NAMES);
                return Err(complain(
                    format!("unknown parameter `{}`", p.name),
                    near.map(|n| format!("Did you mean `{n}`?")).unwrap_or_default(),
                ));
            }
            let factors = p.by.iter().flat_map(|s| s.factors.values().map(|f| f.factor));
            if factors.chain([p.value]).any(|v| !v.is_finite() || v < 0.0) {
                return Err(complain(
                    format!("parameter `{}` has a negative or non-finite figure", p.name),
                    "Give finite values of at least 0".into(),
                ));
            }
        }
        for (i, residual) in profile.residuals.iter().enumerate() {
            let twice = profile.residuals[..i].iter().any(|r| r.key == residual.key);
            let fault =
                if twice { Some(format!("correction `{}` appears twice", residual.key)) } else { residual.fault() };
            if let Some(found) = fault {
                return Err(complain(found, "Fit the profile again with `inferasim calibrate`".into()));
            }
        }
        for name in Constants::NAMES {
            match profile.parameters.iter().filter(|p| p.name == *name).count() {
                1 => {}
                0 => return Err(complain(format!("parameter `{name}` is missing"), "Add it".into())),
                _ => return Err(complain(format!("parameter `{name}` appears twice"), "Keep one".into())),
            }
        }
        Ok(profile)
    }
}
