//! A probe's timings as a target that the projector reads.

use super::config::Dtype;
use super::samples::{Samples, SmallKernels};
use crate::source::{Origin, Sourced};
use crate::target::{Defaults, Gpu, GpuFamily, Kernels, Node, Target, Topology};
use crate::workload::Workload;
use crate::{Error, Result};
use std::collections::BTreeMap;

/// The workload's loop as an engine profile: a file of its own, for no server can be started by it.
const ENGINE: &str = include_str!("engine.yaml");

/// That profile with a cache in the format a device holds.
pub fn engine_profile(held: Dtype) -> String {
    ENGINE.replace("local: bf16", &format!("local: {}", held.kv_format()))
}

/// What a probe cannot time.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Name of the target.
    pub name: String,
    /// Memory of the device, GiB, with how it is known.
    pub memory_gib: Sourced<f64>,
    /// Engine of the target's defaults: the path of a file with [`engine_profile`].
    pub engine: String,
    /// Model of the target's defaults: a path or a name.
    pub model: String,
    /// Day of the probe, YYYY-MM-DD.
    pub date: String,
}

/// Builds the target.
///
/// # Errors
/// Too few timings for a closed form.
pub fn target_of(samples: &Samples, facts: &Facts) -> Result<Target> {
    let lacking =
        |what: &str| Error::input("probe", format!("no closed form fits the timings of {what}"), "Run it again");
    let threads = samples.threads.map_or(String::new(), |t| format!(", {t} threads"));
    let computed = match samples.held == samples.dtype {
        true => String::new(),
        false => format!(" computed in {}", samples.held.word()),
    };
    let probed = format!(
        "`inferasim workload probe` on {}{threads}, {}{computed}, {} clock, {}",
        samples.device,
        samples.dtype.word(),
        samples.clock,
        facts.date
    );
    let measured = |value: f64, what: &str| sourced(significant(value), Origin::Measured, &format!("{what}, {probed}"));
    let assumed = |value: f64, what: &str| sourced(value, Origin::Assumed, what);
    let peak = measured(samples.peak() / 1e6, "fastest matrix product");
    let rounded =
        |curve: Option<crate::target::Curve>, what: &str| curve.map(significant_curve).ok_or_else(|| lacking(what));
    let small = samples.small_kernels().ok_or_else(|| lacking("small kernels"))?;
    let units = samples.threads.and_then(|t| u32::try_from(t).ok());
    Ok(Target {
        name: facts.name.clone(),
        gpu: Gpu {
            name: format!("{} ({})", facts.name, samples.device),
            family: GpuFamily::Local,
            bf16_tflops: peak.clone(),
            fp8_tflops: Sourced {
                origin: Origin::Derived,
                source: "the 16-bit peak: 8-bit products were not timed".into(),
                ..peak
            },
            fp4_tflops: None,
            hbm_gib: facts.memory_gib.clone(),
            hbm_tb_s: measured(
                samples.bandwidth() / 1e6,
                "fastest of a sum of two large arrays and what cold weights and caches are read at",
            ),
            compute_units: Sourced {
                value: units.unwrap_or(1),
                origin: if units.is_some() { Origin::Measured } else { Origin::Assumed },
                source: if units.is_some() {
                    format!("threads, {probed}")
                } else {
                    "one device; no formula uses it".into()
                },
            },
        },
        node: Node {
            gpus: 1,
            nodes: 1,
            scaleup_world: 1,
            scaleup_gb_s: assumed(1.0, "one device: nothing is sent"),
            topology: Topology::Switched,
            scaleout_gb_s: assumed(1.0, "one device: nothing is sent"),
        },
        price: None,
        kernels: Some(Kernels {
            gemm: rounded(samples.gemm_curve(), "matrix products")?,
            moe: samples.expert_curve().map(significant_curve),
            decode_attention: rounded(samples.decode_curve(), "decode attention")?,
            prefill_attention: rounded(samples.prefill_curve(), "prefill attention")?,
            constants: constants(&small, &probed),
            device: samples.device.clone(),
            threads: units,
            clock: samples.clock.clone(),
            dtype: samples.dtype.word().into(),
            format: samples.held.weight_format(),
            probed,
        }),
        defaults: Defaults {
            engine: facts.engine.clone(),
            model: facts.model.clone(),
            workload: Workload { prompts_per_client: 1, ..Workload::constant(128, 32) },
            space: "default".into(),
            objective: "default".into(),
        },
    })
}

fn sourced(value: f64, origin: Origin, source: &str) -> Sourced<f64> {
    Sourced { value, origin, source: source.to_string() }
}

/// Five significant digits: more would pretend.
fn significant(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

fn significant_curve(mut curve: crate::target::Curve) -> crate::target::Curve {
    for figure in [
        &mut curve.floor_us,
        &mut curve.hbm_share,
        &mut curve.peak_share,
        &mut curve.half_length,
        &mut curve.per_expert_ns,
    ] {
        *figure = significant(*figure);
    }
    for timing in &mut curve.by_rows {
        for figure in [&mut timing.floor_us, &mut timing.per_mweight_us, &mut timing.per_kcolumn_us] {
            *figure = significant(*figure);
        }
    }
    curve
}

/// Serving constants of a loop that calls the model and does nothing else.
fn constants(small: &SmallKernels, probed: &str) -> BTreeMap<String, Sourced<f64>> {
    // Two kernels in the attention part (norm, residual sum), three in the MLP (norm, gate, residual sum).
    let kernel = (small.attention_us + small.ffn_us) / 5.0;
    let timed = [
        ("small_kernel", kernel),
        ("kernels_gqa", small.attention_us / kernel),
        ("kernels_dense", small.ffn_us / kernel),
        // The gate of an expert is part of its own timing.
        ("kernels_moe", small.attention_us / kernel),
        ("host_step", small.step_us),
        ("elementwise_passes", small.passes),
        ("prompt_token", small.token_us),
    ];
    let one = [
        "floor_scale",
        "gemm_scale",
        "moe_scale",
        "attention_scale",
        "index_scale",
        "latent_reread",
        "collective_scale",
        "step_scale",
        "release_scale",
        "prefill_gemm_scale",
        "prefill_moe_scale",
        "prefill_attention_scale",
        "prefill_index_scale",
        "prefill_collective_scale",
        "prefill_floor_share",
        "interference",
        "interference_fixed",
        "first_wave_scale",
        "queue_mean",
        "queue_median",
        "run_share",
        "accepted_tokens",
    ];
    let none = [
        "host_sequence",
        "kernels_mla",
        "kernels_linear",
        "kernels_shared",
        "kernels_index",
        "kernels_compressed",
        "prefill_fixed_ms",
        "draft_cost",
        "front_end_ms",
        "admission_steps",
        "first_wave_request_ms",
        "cold_ms",
    ];
    let timed = timed.into_iter().map(|(name, value)| (name, sourced(significant(value), Origin::Measured, probed)));
    let neutral =
        |value: f64, why: &'static str| move |name: &'static str| (name, sourced(value, Origin::Assumed, why));
    timed
        .chain(one.into_iter().map(neutral(1.0, "neutral: kernels are timed on the device itself")))
        .chain(none.into_iter().map(neutral(0.0, "the workload has no front end, no queue and no such kernel")))
        .map(|(name, constant)| (name.to_string(), constant))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Document;
    use crate::cost::Constants;
    use crate::inference::Dtype;
    use crate::inference::samples::{AttentionSample, ExpertSample, GemmSample, SmallSample};

    /// Timings of a device of 10 GFLOP/s and 1 GB/s with 5 µs per kernel, by the closed forms themselves.
    fn samples() -> Samples {
        let product = |rows: usize, n: usize, k: usize| {
            let bytes = 2 * (n * k + rows * k + rows * n);
            GemmSample { rows, n, k, us: 5.0 + bytes as f64 / 1e3 + (2 * rows * n * k) as f64 / 1e4 }
        };
        let decode = |rows: usize, context: usize| AttentionSample {
            rows,
            count: 1,
            context,
            heads: 4,
            d: 64,
            us: 20.0 + (4 * 256 * rows * (context + 1)) as f64 / 500.0,
        };
        let prefill = |count: usize| AttentionSample {
            rows: 1,
            count,
            context: 0,
            heads: 4,
            d: 64,
            us: (2 * 256 * count * count) as f64 / 1e3 * (1.0 + 32.0 / count as f64),
        };
        let expert =
            |tokens: usize| ExpertSample { tokens, experts: 4, hidden: 64, inter: 128, us: 50.0 + tokens as f64 };
        let small = |tokens: usize| SmallSample {
            tokens,
            hidden: 64,
            attention_us: 4.0 + tokens as f64,
            ffn_us: 6.0 + tokens as f64,
            step_us: 2.0 + 0.5 * tokens as f64,
        };
        Samples {
            device: "cpu".into(),
            threads: Some(1),
            clock: "cpu".into(),
            dtype: Dtype::Bfloat16,
            held: Dtype::Bfloat16,
            cold_bytes: 1 << 20,
            copy_bytes_us: 1e3,
            gemm: [(1, 64, 64), (8, 256, 64), (64, 64, 256), (128, 512, 128)].map(|(m, n, k)| product(m, n, k)).into(),
            decode: [(1, 15), (4, 63), (2, 127)].map(|(b, c)| decode(b, c)).into(),
            prefill: [16, 64, 128].map(prefill).into(),
            experts: [1, 16, 128].map(expert).into(),
            small: [4, 64, 256].map(small).into(),
        }
    }

    fn facts() -> Facts {
        let memory_gib = sourced(4.0, Origin::Measured, "a test");
        let engine = "engine.yaml".into();
        Facts { name: "mine".into(), memory_gib, engine, model: "llama-3-8b".into(), date: "2026-01-02".into() }
    }

    #[test]
    fn the_curves_are_the_laws_the_timings_follow() {
        let kernels = target_of(&samples(), &facts()).unwrap().kernels.unwrap();
        let peak = samples().peak();
        assert!((kernels.gemm.floor_us - 5.0).abs() < 1e-3);
        assert!((kernels.gemm.hbm_share - 1.0).abs() < 1e-3);
        assert!((kernels.gemm.peak_share - 1e4 / peak).abs() < 1e-3);
        assert!((kernels.decode_attention.floor_us - 20.0).abs() < 1e-3);
        assert!((kernels.decode_attention.hbm_share - 0.5).abs() < 1e-3);
        assert!((kernels.prefill_attention.half_length - 32.0).abs() < 1e-2);
        assert!((kernels.prefill_attention.peak_share - 1e3 / peak).abs() < 1e-3);
        // 2 µs per token over 64 values of 2 bytes at 1000 bytes/µs: 2 / (128 / 1000) passes.
        assert!((kernels.constants["elementwise_passes"].value - 15.625).abs() < 1e-2);
        let at_four = &kernels.constants;
        assert!((at_four["small_kernel"].value * at_four["kernels_gqa"].value - 8.0).abs() < 1e-3);
        assert!((at_four["small_kernel"].value * at_four["kernels_dense"].value - 10.0).abs() < 1e-3);
    }

    #[test]
    fn the_file_reads_back_as_the_target_and_names_every_constant() {
        let target = target_of(&samples(), &facts()).unwrap();
        let text = serde_yaml::to_string(&target).unwrap();
        let read = Target::from_document(&Document { origin: "target.yaml".into(), text }).unwrap();
        assert_eq!(read, target);
        let names: Vec<&str> = target.kernels.as_ref().unwrap().constants.keys().map(String::as_str).collect();
        let mut known = Constants::NAMES.to_vec();
        known.sort_unstable();
        assert_eq!(names, known);
    }
}
