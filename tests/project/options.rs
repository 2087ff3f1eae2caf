//! Decode context parallelism, a host tier behind the prefix cache, uneven experts: what each must change, and what not.

use inferasim::config::{Deployment, Legality};
use inferasim::cost::Calibration;
use inferasim::model::{KvFormat, Model};
use inferasim::serve::Projector;
use inferasim::target::{EngineProfile, Target};
use inferasim::workload::Workload;

fn projector(model: &str, engine: &str, workload: Workload) -> Projector {
    let calibration = Calibration::load("public").unwrap();
    let (target, model) = (Target::load("mi355x").unwrap(), Model::load(model).unwrap());
    let engine = EngineProfile::load(engine).unwrap();
    let mut projector = Projector::new(&model, &target, &engine, None, &calibration, &workload).unwrap();
    projector.calibration.residuals.clear();
    projector
}

fn deployment(weight_dtype: &str, context_parallel: u32, concurrency: u32) -> Deployment {
    Deployment {
        tp: 8,
        ep: 1,
        attention_dp: 1,
        context_parallel,
        pp: 1,
        replicas: 1,
        concurrency,
        weight_dtype: weight_dtype.into(),
        kv_dtype: KvFormat::Bf16,
        max_num_batched_tokens: 16384,
        max_num_seqs: 1024,
        memory_fraction: 0.9,
        speculation: None,
        prefill: None,
    }
}

#[test]
fn spreading_a_latent_cache_holds_more_tokens_and_pays_at_long_contexts_only() {
    let capacity = |p: &Projector, ranks| {
        let compiled = p.compile(&deployment("fp8", ranks, 8)).unwrap();
        compiled.plan(8, 16384).kv_tokens
    };
    let long = projector("deepseek-r1", "vllm", Workload::constant(120_000, 1000));
    // Every rank held a copy of the whole latent before.
    let ratio = capacity(&long, 8) / capacity(&long, 1);
    assert!((7.9..=8.1).contains(&ratio), "{ratio}");
    let tpot = |p: &Projector, ranks, load| {
        let compiled = p.compile(&deployment("fp8", ranks, load)).unwrap();
        compiled.work(&compiled.load(load, &compiled.plan(load, 16384)).load, 16384).0.time(&compiled.step.constants)
    };
    let (copies, spread) = (tpot(&long, 1, 8), tpot(&long, 8, 8));
    assert!(spread.attention < copies.attention && spread.total() < copies.total(), "{spread:?} {copies:?}");
    // Prompts are not exchanged.
    let prompt = |ranks| {
        let compiled = long.compile(&deployment("fp8", ranks, 8)).unwrap();
        compiled
            .work(&compiled.load(8, &compiled.plan(8, 16384)).load, 16384)
            .1
            .time(&compiled.step.constants)
            .increment
    };
    assert!((prompt(8) / prompt(1) - 1.0).abs() < 0.01, "{} {}", prompt(8), prompt(1));
    // With little context the exchange of queries and outputs costs more than the reads it saves.
    let short = projector("deepseek-r1", "vllm", Workload::constant(64, 64));
    let (copies, spread) = (tpot(&short, 1, 4), tpot(&short, 8, 4));
    assert!(spread.collectives > copies.collectives && spread.total() > copies.total(), "{spread:?} {copies:?}");
}

#[test]
fn only_copies_can_be_spread_and_only_by_an_engine_that_does_so() {
    let model = Model::load("llama-3.3-70b").unwrap();
    let legality = Legality::new(&model, &Target::load("mi355x").unwrap());
    // Eight KV heads over eight ranks: no two ranks hold the same.
    let error = legality.require(&deployment("bf16", 2, 8), 8).unwrap_err().to_string();
    assert!(error.contains("context_parallel 2, but no two ranks hold the same KV heads"), "{error}");
    let refusal = projector("deepseek-r1", "sglang", Workload::constant(1024, 1024)).evaluate(&deployment("fp8", 8, 8));
    assert!(format!("{refusal:?}").contains("vLLM only"), "{refusal:?}");
}

#[test]
fn a_hit_in_host_memory_delays_the_first_token_by_its_copy() {
    let hits = |host_hit_share| {
        let workload = Workload { prefix_hit_rate: 0.5, host_hit_share, ..Workload::constant(8000, 512) };
        projector("llama-3.3-70b", "vllm", workload).evaluate(&deployment("bf16", 1, 16)).unwrap().metrics
    };
    let (device, host) = (hits(0.0), hits(1.0));
    // 4000 tokens of 80 layers, one KV head a rank, keys and values of 128 in 16 bits, at 50 GB/s.
    let copy_ms = 4000.0 * 80.0 * 2.0 * 128.0 * 2.0 / 50e6;
    assert!((host.ttft_ms - device.ttft_ms - copy_ms).abs() < 1e-6 * copy_ms, "{host:?} {device:?}");
    assert!((host.tpot_ms - device.tpot_ms).abs() < 1e-12);
}

#[test]
fn uneven_experts_cost_time_where_they_are_spread_over_groups() {
    let tpot = |ep, expert_imbalance| {
        let workload = Workload { expert_imbalance, ..Workload::constant(1024, 1024) };
        let d = Deployment { ep, ..deployment("fp8", 1, 256) };
        projector("deepseek-r1", "vllm", workload).evaluate(&d).unwrap().metrics.tpot_ms
    };
    assert!(tpot(8, 2.0) > 1.05 * tpot(8, 1.0));
    assert!((tpot(1, 2.0) - tpot(1, 1.0)).abs() < 1e-12);
}
