//! Separate prefill and decode pools: limits the closed form must meet.

use inferasim::config::{Deployment, PrefillPool};
use inferasim::cost::Calibration;
use inferasim::model::{KvFormat, Model};
use inferasim::serve::{Bound, Projector};
use inferasim::target::{EngineProfile, Target};
use inferasim::workload::Workload;

fn projector(isl: u32, osl: u32) -> Projector {
    let workload = Workload::constant(isl, osl);
    let calibration = Calibration::load("public").unwrap();
    let mut target = Target::load("mi355x").unwrap();
    target.node.nodes = 4;
    let (model, engine) = (Model::load("deepseek-r1").unwrap(), EngineProfile::load("sglang").unwrap());
    let mut projector = Projector::new(&model, &target, &engine, None, &calibration, &workload).unwrap();
    // What is left over per combination is about measured runs, not about the form.
    projector.calibration.residuals.clear();
    projector
}

fn deployment(prefill: u32, decode: u32, concurrency: u32) -> Deployment {
    Deployment {
        tp: 8,
        ep: 1,
        attention_dp: 1,
        context_parallel: 1,
        pp: 1,
        replicas: decode,
        concurrency,
        weight_dtype: "fp8".into(),
        kv_dtype: KvFormat::Bf16,
        max_num_batched_tokens: 16384,
        max_num_seqs: 1024,
        memory_fraction: 0.88,
        speculation: None,
        prefill: Some(PrefillPool { instances: prefill, tp: 8, ep: 1, attention_dp: 1 }),
    }
}

#[test]
fn decode_alone_is_faster_than_decode_beside_prefill_and_both_pools_are_billed() {
    let projector = projector(8192, 1024);
    let apart = projector.evaluate(&deployment(1, 1, 64)).unwrap();
    let together = projector.evaluate(&Deployment { prefill: None, ..deployment(1, 1, 64) }).unwrap();
    assert!(apart.metrics.tpot_ms < together.metrics.tpot_ms, "{apart:?} {together:?}");
    let per_gpu = apart.metrics.total_tok_s / 16.0;
    assert!((apart.metrics.tok_s_per_gpu - per_gpu).abs() < 1e-9 * per_gpu);
    assert_eq!(deployment(1, 1, 64).gpus(), 16);
}

#[test]
fn the_rate_is_that_of_the_narrower_pool() {
    let projector = projector(8192, 256);
    // Short answers to long prompts: one prefill instance is the limit, and a second doubles the rate.
    let rate = |prefill: u32| projector.evaluate(&deployment(prefill, 4, 2048)).unwrap();
    let (one, two) = (rate(1), rate(2));
    assert_eq!(one.bound, Bound::PrefillPool);
    let ratio = two.metrics.output_tok_s / one.metrics.output_tok_s;
    assert!((1.8..=2.05).contains(&ratio), "{ratio}");
    // More clients wait longer and get no more.
    let more = projector.evaluate(&deployment(1, 4, 4096)).unwrap();
    assert!((more.metrics.output_tok_s / one.metrics.output_tok_s - 1.0).abs() < 0.05);
    assert!(more.metrics.ttft_ms > 1.5 * one.metrics.ttft_ms);
}

#[test]
fn clients_answers_and_latencies_agree_by_littles_law() {
    let projector = projector(1024, 1024);
    for concurrency in [4, 64, 512] {
        let d = deployment(1, 2, concurrency);
        let m = projector.evaluate(&d).unwrap().metrics;
        let in_flight = m.output_tok_s / 1024.0 * m.e2e_ms / 1e3;
        // The whole-run rate is 0.975 of the steady one (ramp and drain).
        assert!((in_flight / f64::from(concurrency) - 0.975).abs() < 0.02, "{concurrency}: {in_flight}");
    }
}

#[test]
fn the_explanation_of_separate_pools_adds_up() {
    let projector = projector(1024, 1024);
    let d = deployment(1, 2, 256);
    let compiled = projector.compile(&d).unwrap();
    let evaluation = compiled.evaluate(256, d.max_num_batched_tokens).unwrap();
    let explained = compiled.explain(256, d.max_num_batched_tokens).unwrap();
    let a = &explained.assembly;
    let sum = |terms: &[inferasim::serve::explain::Term]| terms.iter().map(|t| t.ms).sum::<f64>();
    assert!((sum(&a.tpot) - a.tpot_ms).abs() < 1e-9 * a.tpot_ms);
    assert!((a.tpot_ms - evaluation.metrics.tpot_ms).abs() < 1e-9 * a.tpot_ms);
    assert!((sum(&a.steady) - a.steady_ms).abs() < 1e-6 * a.steady_ms);
    assert!((sum(&a.first_wave) - a.first_wave_ms).abs() < 1e-6 * a.first_wave_ms);
    assert!(explained.pools.is_some());
}
