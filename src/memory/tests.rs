//! Checks against hand arithmetic and against figures engines logged; a test is named after the report it came from.

use super::cases::{Case, score};
use super::weights::tensor;
use super::*;
use crate::model::{KvFormat, Model, WeightFormat};
use crate::source::{Origin, Sourced};
use crate::target::{EngineProfile, GpuFamily};
use proptest::prelude::*;

const MIB: f64 = 1_048_576.0;

fn gpu(gib: f64, family: GpuFamily) -> Gpu {
    let figure = |value: f64| Sourced { value, origin: Origin::Assumed, source: "test".into() };
    Gpu {
        name: "test".into(),
        family,
        bf16_tflops: figure(1.0),
        fp8_tflops: figure(1.0),
        fp4_tflops: None,
        hbm_gib: figure(gib),
        hbm_tb_s: figure(1.0),
        compute_units: Sourced { value: 1, origin: Origin::Assumed, source: "test".into() },
    }
}

fn deployment(tp: u32) -> Deployment {
    Deployment {
        tp,
        ep: 1,
        attention_dp: 1,
        context_parallel: 1,
        pp: 1,
        replicas: 1,
        concurrency: 1,
        weight_dtype: "bf16".into(),
        kv_dtype: KvFormat::Bf16,
        max_num_batched_tokens: 2048,
        max_num_seqs: 256,
        memory_fraction: 0.9,
        speculation: None,
        prefill: None,
    }
}

fn compile(model: &str, version: &str, family: GpuFamily, d: &Deployment) -> MemoryModel {
    let model = Model::load(model).unwrap();
    let engine = EngineProfile::load("vllm").unwrap().settings(Some(version));
    MemoryModel::compile(&model.architecture, &model.checkpoints[0].formats, &gpu(139.8, family), &engine, d)
}

fn within(predicted: f64, expected: f64, share: f64) {
    assert!((predicted / expected - 1.0).abs() <= share, "{predicted} against {expected}");
}

#[test]
fn a_large_tensor_takes_whole_two_mebibyte_segments_unless_a_mebibyte_can_be_split_off() {
    assert_eq!(tensor(35.0 * MIB, 1.0), 36.0 * MIB);
    assert_eq!(tensor(24.0 * MIB, 1.0), 24.0 * MIB);
    assert_eq!(tensor(42.5 * MIB, 1.0), 42.5 * MIB);
    assert_eq!(tensor(9.5 * MIB, 1.0), 9.5 * MIB);
}

#[test]
fn vllm_15815_qwen_32b_on_two_cards_loads_the_allocators_remainders() {
    // 64 layers hold three tensors of an odd number of MiB: 192 MiB on top of half of 65.5 GB.
    let plan = compile("qwen2.5-32b", "0.8.2", GpuFamily::Hopper, &deployment(2));
    within(plan.weights().as_gib(), 30.7098, 0.001);
}

#[test]
fn vllm_10517_llama_8b_counts_the_rotary_table() {
    let model = compile("llama-3.1-8b", "0.6.4", GpuFamily::Hopper, &deployment(1));
    within(model.weights().as_gib(), 14.9888, 0.0005);
    // 3.81 GiB over 2 MiB blocks (32 layers x 8 heads x 128 x 2 x 2 bytes x 16 tokens).
    let (tokens, concurrency) = model.capacity(3.81 * GIB, 20_000.0, 20_000.0);
    assert_eq!(tokens, 1950.0 * 16.0);
    within(concurrency, 1950.0 / 1250.0, 1e-9);
}

#[test]
fn vllm_23278_marlin_pads_gpt_oss_experts() {
    let old = compile("gpt-oss-120b", "0.10.1", GpuFamily::Hopper, &deployment(1));
    within(old.weights().as_gib(), 65.9651, 0.01);
    let triton = compile("gpt-oss-120b", "0.14.1", GpuFamily::Hopper, &deployment(1));
    within(triton.weights().as_gib(), 64.38, 0.01);
}

#[test]
fn inferencex_profiling_window_layers_are_charged_for_a_prefill_chunk() {
    let model = compile("gpt-oss-120b", "0.22", GpuFamily::Hopper, &deployment(1));
    for (kv, longest, tokens, concurrency) in
        [(57.24, 2068.0, 825_607.0, 399.23), (57.24, 9472.0, 886_768.0, 93.62), (57.22, 9472.0, 886_521.0, 93.59)]
    {
        let (predicted, requests) = model.capacity(kv * GIB, longest, 8192.0);
        within(predicted, tokens, 0.0003);
        within(requests, concurrency, 0.0003);
    }
}

#[test]
fn talos_1995_states_and_attention_share_pages() {
    // Pages of 1568 tokens; 84 attention blocks and two states in each of three groups: 208 blocks / 90.
    let d = Deployment { kv_dtype: KvFormat::Fp8, ..deployment(2) };
    let model = compile("qwen3.8-27b", "0.26", GpuFamily::Hopper, &d);
    let (tokens, concurrency) = model.capacity(4.99 * GIB, 131_072.0, 8192.0);
    assert_eq!(model.block_tokens(), 1568.0);
    assert_eq!(tokens, 302_921.0);
    within(concurrency, 208.0 / 90.0, 1e-9);
}

#[test]
fn recipes_kimi_k2_latents_are_not_divided_by_tp() {
    // 46.8 GiB / (61 layers x 576 x 2 bytes) in pages of 64 tokens.
    let model = compile("kimi-k2-thinking", "0.11.1", GpuFamily::Hopper, &deployment(8));
    assert_eq!(model.capacity(46.8 * GIB, 131_072.0, 8192.0).0, 715_072.0);
}

#[test]
fn aiconfigurator_1390_experts_are_divided_once_whatever_the_split() {
    let experts_of = |ep: u32| {
        let d = Deployment { ep, ..deployment(8) };
        compile("deepseek-r1", "0.11", GpuFamily::Hopper, &d).weights().as_gib()
    };
    // 671 GB in eight parts, and what is replicated, either way.
    within(experts_of(8), experts_of(1), 0.01);
    within(experts_of(1), 671.0 / 8.0 / 1.0737, 0.06);
}

#[test]
fn tensorrt_llm_6294_prints_tokens_in_blocks_of_32() {
    let model = Model::load("llama-3.1-8b").unwrap();
    let engine = EngineProfile::load("trtllm").unwrap().settings(None);
    let formats = Formats::uniform(WeightFormat::Fp8);
    let d = Deployment { kv_dtype: KvFormat::Fp8, ..deployment(1) };
    let compiled = MemoryModel::compile(&model.architecture, &formats, &gpu(79.1, GpuFamily::Hopper), &engine, &d);
    let (tokens, _) = compiled.capacity(52.51 * GIB, 131_072.0, 8192.0);
    assert_eq!(tokens, 860_320.0);
}

#[test]
fn vllm_10517_activation_grows_by_110_kb_a_token() {
    let model = compile("llama-3.1-8b", "0.6.4", GpuFamily::Hopper, &deployment(1));
    let peak = |tokens: f64| model.plan(tokens, tokens, tokens, 1.0).activation.as_gib();
    within(peak(29_000.0) - peak(20_000.0), 17.98 - 17.06, 0.01);
}

#[test]
fn vllm_34076_a_refused_pipeline_is_judged_with_all_layers() {
    let case = Case {
        engine: "vLLM".into(),
        version: Some("0.15.2rc1".into()),
        model: "Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8".into(),
        gpus: Some(2.0),
        pp: Some(2.0),
        max_model_len: Some(262_144.0),
        kv_avail_gib: Some(3.18),
        est_max_model_len: Some(34_736.0),
        ..Case::default()
    };
    let tokens = score(&case).kv_tokens.unwrap();
    assert_eq!(tokens.within, Some(true), "{tokens:?}");
}

#[test]
fn a_row_without_shapes_is_refused_by_name() {
    let case =
        Case { engine: "vLLM".into(), model: "Qwen3-VL-Instruct (size not in passage)".into(), ..Case::default() };
    assert!(score(&case).reason.unwrap().contains("no preset"));
    let case = Case { engine: "ollama".into(), model: "llama-3.1-8b".into(), ..Case::default() };
    assert!(score(&case).reason.unwrap().contains("engine"));
}

/// The collection itself, where it is at hand: what is inside the bars stays inside.
#[test]
fn marked_start_up_logs_stay_inside_their_bars() {
    let folder = std::env::var("INFERASIM_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data").into());
    let file = std::path::Path::new(&folder).join("engine_memory_logs.csv");
    if !file.is_file() {
        eprintln!("skipped: {} is not there (set INFERASIM_DATA)", file.display());
        return;
    }
    let scored: Vec<_> = crate::cli::memory::read_cases(&file).unwrap().iter().map(score).collect();
    let marked: Vec<_> = scored.iter().filter(|s| s.score_kv || s.score_weights).collect();
    assert!(marked.iter().all(|s| s.reason.is_none()), "a marked row is refused");
    // GLM-5.3-Flash ran with a drafter and a cache format its row does not name; Inkling-Small's MXFP4 build keeps
    // more in bf16 than its row says; the unsloth build of Qwen3.8-27B mixes formats layer by layer (1.2 % off).
    for row in marked.iter().filter(|s| !["V083", "V090", "V105"].contains(&s.case_id.as_str())) {
        let outside = |p: &Option<super::cases::Pair>| p.and_then(|p| p.within) == Some(false);
        assert!(!(row.score_weights && outside(&row.weights_gib)), "{row:?}");
        assert!(!(row.score_kv && (outside(&row.kv_tokens) || outside(&row.max_concurrency))), "{row:?}");
    }
}

const MODELS: [&str; 6] =
    ["gpt-oss-120b", "llama-3.1-70b", "deepseek-r1", "qwen3-235b-a22b", "qwen3.5-27b", "gemma-4-31b"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn more_ranks_never_hold_more_weights_each(which in 0..MODELS.len(), power in 0..3_u32) {
        let family = GpuFamily::Gfx950;
        let narrow = compile(MODELS[which], "0.22", family, &deployment(1 << power)).weights().0;
        let wide = compile(MODELS[which], "0.22", family, &deployment(2 << power)).weights().0;
        prop_assert!(wide <= narrow);
    }

    #[test]
    fn a_larger_token_budget_never_leaves_more_room(which in 0..MODELS.len(), batch in 512..32_768_u32, more in 1..8_u32) {
        let model = compile(MODELS[which], "0.22", GpuFamily::Gfx950, &deployment(8));
        let at = |b: u32| model.plan(f64::from(b), 16_384.0, 4096.0, 32.0);
        let (small, large) = (at(batch), at(batch * more));
        prop_assert!(large.kv_tokens <= small.kv_tokens);
        prop_assert!(large.kv_available.0 <= small.kv_available.0);
    }

    #[test]
    fn no_line_but_the_kv_cache_is_negative(which in 0..MODELS.len(), tp in 0..4_u32, gib in 8.0..300.0_f64, len in 1.0..1e6_f64) {
        let shapes = Model::load(MODELS[which]).unwrap();
        for engine in ["vllm", "sglang", "trtllm", "atom"] {
            let settings = EngineProfile::load(engine).unwrap().settings(None);
            let d = deployment(1 << tp);
            let card = gpu(gib, GpuFamily::Gfx950);
            let model = MemoryModel::compile(&shapes.architecture, &shapes.checkpoints[0].formats, &card, &settings, &d);
            let plan = model.plan(8192.0, len, len, 16.0);
            let lines = [plan.total, plan.budget, plan.weights, plan.activation, plan.engine_reserve, plan.graphs, plan.state];
            prop_assert!(lines.iter().all(|l| l.0 >= 0.0 && l.0.is_finite()));
            prop_assert!(plan.kv_tokens >= 0.0 && plan.max_concurrency >= 0.0 && plan.resident_requests >= 0.0);
            prop_assert!(plan.kv_bytes_per_token.0 > 0.0);
        }
    }
}
