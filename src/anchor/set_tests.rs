//! Hand-made anchors applied to real projections.

use super::super::artifact::{Figures, SCHEMA};
use super::*;
use crate::cost::Calibration;
use crate::target::Target;

fn projector() -> Projector {
    let (model, target) = (Model::load("gpt-oss-120b").unwrap(), Target::load("mi355x").unwrap());
    let engine = EngineProfile::load("vllm").unwrap();
    let calibration = Calibration::load("public").unwrap();
    Projector::new(&model, &target, &engine, None, &calibration, &Workload::constant(1024, 1024)).unwrap()
}

fn artifact(id: &str, tp: u32, concurrency: u32, tpot_ms: f64) -> Artifact {
    Artifact {
        schema: SCHEMA,
        id: id.into(),
        tool: "by-hand".into(),
        source: "test".into(),
        date: None,
        regime: RegimeSignature {
            gpu: "MI355X".into(),
            model: "openai/gpt-oss-120b".into(),
            engine: "vllm".into(),
            ..RegimeSignature::default()
        },
        layout: Layout { tp, ep: 1, pp: 1, attention_dp: 1, context_parallel: 1, replicas: 1 },
        load: LoadPoint { concurrency, isl: 1024, osl: 1024, range_ratio: 1.0 },
        prefix_caching: None,
        launch: None,
        measured: Figures { tpot_ms: Some(tpot_ms), ttft_ms: Some(77.0), ..Figures::default() },
    }
}

fn deployment(projector: &Projector, tp: u32, concurrency: u32) -> Deployment {
    let (settings, gpu) = (&projector.settings, &projector.target.gpu);
    Deployment {
        tp,
        ep: 1,
        attention_dp: 1,
        context_parallel: 1,
        pp: 1,
        replicas: 1,
        concurrency,
        weight_dtype: projector.model.checkpoints[0].dtype.clone(),
        kv_dtype: settings.default_kv_dtype(gpu.family),
        max_num_batched_tokens: settings.max_num_batched_tokens(gpu),
        max_num_seqs: settings.max_num_seqs(gpu),
        memory_fraction: settings.memory_fraction,
        speculation: None,
        prefill: None,
    }
}

fn evaluate(projector: &Projector, set: &AnchorSet, tp: u32, concurrency: u32) -> (Evaluation, Evaluation) {
    let d = deployment(projector, tp, concurrency);
    let compiled = projector.compile(&d).unwrap();
    let plain = compiled.evaluate(concurrency, d.max_num_batched_tokens).unwrap();
    (plain, set.apply(&set.choose(&d), &compiled, concurrency, d.max_num_batched_tokens, &plain))
}

#[test]
fn an_anchor_comes_back_at_its_own_point_and_its_unasserted_prefill_does_not() {
    let projector = projector();
    let set = AnchorSet::new(&[artifact("own", 1, 64, 12.25)], &projector, Settings::default());
    assert!(set.warnings[0].contains("TTFT is discarded"), "{:?}", set.warnings);
    let (plain, anchored) = evaluate(&projector, &set, 1, 64);
    assert_eq!(anchored.metrics.tpot_ms, 12.25);
    assert_eq!(anchored.metrics.ttft_ms, plain.metrics.ttft_ms);
    let parts: f64 = anchored.breakdown.parts().iter().map(|p| p.1).sum();
    assert!((parts - 12.25).abs() < 1e-9, "the parts still add up to TPOT");
    let per_user = anchored.metrics.tok_s_per_user;
    assert!((per_user - 1e3 / 12.25).abs() < 1e-9);
    let basis = set.basis(&deployment(&projector, 1, 64), 64);
    assert_eq!((basis.decode, basis.prefill), (Confidence::Measured, Confidence::OutOfRegime));
}

#[test]
fn an_asserted_prefill_comes_back_too() {
    let projector = projector();
    let own = Artifact { prefix_caching: Some(false), ..artifact("own", 1, 64, 12.25) };
    let set = AnchorSet::new(&[own], &projector, Settings::default());
    assert!(set.warnings.is_empty());
    assert_eq!(evaluate(&projector, &set, 1, 64).1.metrics.ttft_ms, 77.0);
}

#[test]
fn the_difference_is_carried_in_milliseconds() {
    let projector = projector();
    let none = AnchorSet::new(&[], &projector, Settings::default());
    let (at_anchor, _) = evaluate(&projector, &none, 1, 64);
    let slow = artifact("slow", 1, 64, at_anchor.metrics.tpot_ms + 3.0);
    let settings = Settings { rule: Rule::Difference, ..Settings::default() };
    let set = AnchorSet::new(&[slow], &projector, settings);
    let (plain, anchored) = evaluate(&projector, &set, 4, 16);
    assert!((anchored.metrics.tpot_ms - plain.metrics.tpot_ms - 3.0).abs() < 1e-9);
    assert!(anchored.metrics.output_tok_s < plain.metrics.output_tok_s);
}

#[test]
fn another_regime_changes_nothing() {
    let projector = projector();
    let mut other = artifact("other", 1, 64, 99.0);
    other.regime.engine = "sglang".into();
    let mut drafted = artifact("drafted", 1, 64, 99.0);
    drafted.regime.speculation = Some("eagle3".into());
    let mut kv = artifact("kv", 1, 64, 99.0);
    kv.regime.kv_dtype = Some("int3".into());
    let set = AnchorSet::new(&[other, drafted, kv], &projector, Settings::default());
    assert_eq!(set.left_out.len(), 1);
    assert_eq!(set.left_out[0].why, "differs in engine");
    let (plain, anchored) = evaluate(&projector, &set, 1, 64);
    assert_eq!(plain, anchored);
    assert_eq!(set.basis(&deployment(&projector, 1, 64), 64).decode, Confidence::OutOfRegime);
}

#[test]
fn no_anchor_falls_below_the_roofline() {
    let projector = projector();
    let set = AnchorSet::new(&[artifact("impossible", 1, 64, 0.001)], &projector, Settings::default());
    let d = deployment(&projector, 1, 128);
    let floor = projector.compile(&d).unwrap().decode_floor_ms(128, d.max_num_batched_tokens);
    let (_, anchored) = evaluate(&projector, &set, 1, 128);
    assert!(floor > 0.0 && anchored.metrics.tpot_ms >= floor);
    assert!(set.is_empty() && set.left_out[0].why.contains("lies under the datasheet's floor"), "{:?}", set.left_out);
}
