//! What must hold for every legal deployment, whatever the constants: a projection is finite, never beats the
//! datasheet, and more work never takes less time.

use inferasim::catalog::{Kind, names};
use inferasim::config::{Deployment, Legality, Speculation};
use inferasim::cost::Calibration;
use inferasim::model::{KvFormat, Model};
use inferasim::serve::{CompiledDeployment, Projector, Refusal};
use inferasim::target::{EngineProfile, Target};
use inferasim::workload::Workload;
use proptest::prelude::*;
use std::sync::OnceLock;

struct World {
    models: Vec<Model>,
    targets: Vec<Target>,
    engines: Vec<EngineProfile>,
    calibration: Calibration,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let mut targets: Vec<Target> =
            names(Kind::Target).into_iter().map(|name| Target::load(name).expect(name)).collect();
        targets.iter_mut().for_each(|t| t.node.nodes = 8);
        World {
            models: names(Kind::Model).into_iter().map(|name| Model::load(name).expect(name)).collect(),
            targets,
            engines: names(Kind::Engine).into_iter().map(|name| EngineProfile::load(name).expect(name)).collect(),
            calibration: Calibration::load("public").expect("public"),
        }
    })
}

/// Numbers spread evenly over their orders of magnitude.
fn decades(low: u32, high: u32) -> impl Strategy<Value = u32> {
    (f64::from(low).ln()..f64::from(high).ln()).prop_map(|log| log.exp() as u32)
}

#[derive(Debug, Clone)]
struct Case {
    picks: (prop::sample::Index, prop::sample::Index, prop::sample::Index, prop::sample::Index),
    workload: Workload,
    deployment: Deployment,
}

fn case() -> impl Strategy<Value = Case> {
    let picks = any::<(prop::sample::Index, prop::sample::Index, prop::sample::Index, prop::sample::Index)>();
    let lengths = (decades(1, 60_000), decades(1, 6000), 0.0..=1.0, 0.0..0.99, 1u32..20);
    let split = (0u32..=3, 0u32..=3, 0u32..=3, 1u32..=4, 1u32..=4);
    let limits = (decades(1, 8000), decades(16, 65_536), decades(1, 4096), 0.5..1.0, any::<bool>());
    let drafts = prop::option::of((1u32..=8, 0.0..=1.0));
    (picks, lengths, split, limits, drafts).prop_map(|(picks, lengths, split, limits, drafts)| {
        let (isl, osl, range_ratio, prefix_hit_rate, prompts_per_client) = lengths;
        let (tp, ep, groups, pp, replicas) = split;
        let (concurrency, max_num_batched_tokens, max_num_seqs, memory_fraction, fp8) = limits;
        Case {
            picks,
            workload: Workload { range_ratio, prefix_hit_rate, prompts_per_client, ..Workload::constant(isl, osl) },
            deployment: Deployment {
                tp: 1 << tp,
                ep: 1 << ep.min(tp),
                attention_dp: 1 << groups.min(tp),
                context_parallel: 1,
                pp,
                replicas,
                concurrency: concurrency.max(replicas),
                weight_dtype: String::new(),
                kv_dtype: if fp8 { KvFormat::Fp8 } else { KvFormat::Bf16 },
                max_num_batched_tokens,
                max_num_seqs,
                memory_fraction,
                speculation: drafts.map(|(draft_tokens, share)| Speculation {
                    draft_tokens,
                    tokens_per_step: 1.0 + share * f64::from(draft_tokens),
                }),
                prefill: None,
            },
        }
    })
}

/// The projector and the deployment of a case, where an engine would start it.
fn legal(case: &Case) -> Option<(Projector, Deployment)> {
    let world = world();
    let model = case.picks.0.get(&world.models);
    let target = case.picks.1.get(&world.targets);
    let engine = case.picks.2.get(&world.engines);
    let mut deployment = case.deployment.clone();
    deployment.weight_dtype = case.picks.3.get(&model.checkpoints).dtype.clone();
    if !model.architecture.is_moe() {
        deployment.ep = 1;
    }
    if !Legality::new(model, target).violations(&deployment, target.gpus()).is_empty() {
        return None;
    }
    let projector = Projector::new(model, target, engine, None, &world.calibration, &case.workload);
    Some((projector.expect("projector"), deployment))
}

/// Decode step of a compiled deployment at a concurrency, ms, and its least by the datasheet.
fn step(compiled: &CompiledDeployment, concurrency: u32, budget: u32) -> Option<(f64, f64)> {
    let plan = compiled.plan(concurrency, budget);
    plan.fits().then(|| {
        let load = compiled.load(concurrency, &plan).load;
        let (decode, _) = compiled.work(&load, budget);
        (decode.time(&compiled.step.constants).total(), decode.roof())
    })
}

/// Not less, rounding apart.
fn at_least(high: f64, low: f64) -> bool {
    high >= low * (1.0 - 1e-9)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_legal_deployment_has_finite_positive_figures_above_the_datasheet(case in case()) {
        let Some((projector, d)) = legal(&case) else { return Ok(()) };
        let compiled = projector.compile(&d).expect("legal");
        let evaluation = match compiled.evaluate(d.concurrency, d.max_num_batched_tokens) {
            Ok(evaluation) => evaluation,
            Err(Refusal::DoesNotFit(plan)) => {
                prop_assert!(!plan.fits());
                return Ok(());
            }
            Err(Refusal::NoModel(name)) => return Err(TestCaseError::fail(name)),
        };
        let m = &evaluation.metrics;
        let figures = [m.ttft_ms, m.ttft_p50_ms, m.tpot_ms, m.e2e_ms, m.output_tok_s, m.total_tok_s, m.tok_s_per_gpu,
            m.tok_s_per_user, m.running];
        prop_assert!(figures.iter().all(|f| f.is_finite() && *f > 0.0), "{m:?}");
        prop_assert!([m.usd_per_m_output, m.usd_per_m_total].iter().flatten().all(|f| f.is_finite() && *f > 0.0));
        prop_assert!(evaluation.breakdown.parts().iter().all(|(_, ms)| ms.is_finite() && *ms >= 0.0), "{evaluation:?}");
        prop_assert!(m.running <= f64::from(d.concurrency) * (1.0 + 1e-9), "{m:?}");

        let plan = compiled.plan(d.concurrency, d.max_num_batched_tokens);
        let load = compiled.load(d.concurrency, &plan).load;
        let (decode, prefill) = compiled.work(&load, d.max_num_batched_tokens);
        let step = decode.time(&compiled.step.constants).total();
        prop_assert!(at_least(step, decode.roof()), "step {step} ms below the datasheet's {}", decode.roof());
        // What measured runs leave over may shorten a step, never below the datasheet.
        let least = decode.roof().max(step * compiled.corrections(&load).0.min(1.0)) / load.tokens_per_step;
        prop_assert!(at_least(m.tpot_ms, least), "TPOT {} below its step {step}", m.tpot_ms);
        prop_assert!(at_least(m.ttft_ms, prefill.roof), "TTFT {} below the prefill floor {}", m.ttft_ms, prefill.roof);
        prop_assert!(m.e2e_ms >= m.ttft_ms);
    }

    #[test]
    fn more_concurrency_and_longer_context_never_take_less_time(
        case in case(),
        more in 1.0..8.0f64,
        batch in 1.0..4000.0f64,
        context in 1.0..100_000.0f64,
    ) {
        let Some((projector, d)) = legal(&case) else { return Ok(()) };
        let compiled = projector.compile(&d).expect("legal");
        let larger = (f64::from(d.concurrency) * more) as u32;
        let budget = d.max_num_batched_tokens;
        if let (Some(low), Some(high)) = (step(&compiled, d.concurrency, budget), step(&compiled, larger, budget)) {
            let (model, target) = (&projector.model.architecture.name, &projector.target.name);
            let engine = &projector.engine.name;
            let (fewer, low, high) = (d.concurrency, low.0, high.0);
            prop_assert!(
                at_least(high, low),
                "{model} on {target}, {engine}: concurrency {fewer} {low} ms, {larger} {high} ms"
            );
        }
        let time = |b: f64, c: f64| compiled.step.decode(b, c, 1.0).total();
        prop_assert!(at_least(time(batch * more, context), time(batch, context)), "batch {batch} x {more}");
        prop_assert!(at_least(time(batch, context * more), time(batch, context)), "context {context} x {more}");
        let prefill = |new: f64| {
            let running = compiled.step.decode_work(batch, context, 1.0);
            compiled.step.prefill_work(new, 0.0, &running, batch, 8192.0).time(&compiled.step.constants)
        };
        let (short, long) = (prefill(context), prefill(context * more));
        let whole = (short.alone + short.fixed, long.alone + long.fixed);
        prop_assert!(at_least(whole.1, whole.0), "prompt {context} x {more}: {short:?} {long:?}");
    }

    #[test]
    fn collectives_are_continuous_and_monotone_in_size(case in case(), tokens in 1.0..100_000.0f64) {
        let Some((projector, d)) = legal(&case) else { return Ok(()) };
        let step = projector.compile(&d).expect("legal").step;
        let time = |t: f64| step.collectives(t).total();
        prop_assert!(at_least(time(tokens * 1.5), time(tokens)));
        let (here, beside) = (time(tokens), time(tokens * (1.0 + 1e-6)));
        prop_assert!(beside - here <= here * 2e-6 + 1e-9, "a jump at {tokens} tokens: {here} {beside}");
    }
}

#[test]
fn most_random_cases_are_legal_enough_to_test_something() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut started, mut running) = (0, 0);
    for _ in 0..400 {
        let case = case().new_tree(&mut runner).expect("case").current();
        if let Some((projector, d)) = legal(&case) {
            started += 1;
            running += u32::from(projector.evaluate(&d).is_ok());
        }
    }
    assert!(started > 100 && running > 40, "{started} of 400 legal, {running} run");
}
