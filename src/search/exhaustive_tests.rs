//! The search on a toy whose best point, fronts and counts are known by hand.

use super::*;
use crate::catalog::Document;
use crate::config::Deployment;
use crate::memory::MemoryPlan;
use crate::objective::Slo;
use crate::serve::{Bound, Breakdown, ServingMetrics};
use crate::space::{Context, EngineLimits, SpaceFile};
use crate::target::Target;
use crate::units::Bytes;

/// TPOT is concurrency / tp ms, tok/s/GPU is concurrency; widths below 2 do not fit; budgets do nothing.
struct Toy;

fn plan(tp: u32) -> MemoryPlan {
    let gib = Bytes::gib;
    MemoryPlan {
        total: gib(100.0),
        budget: gib(90.0),
        weights: gib(120.0 / f64::from(tp)),
        activation: gib(0.0),
        engine_reserve: gib(0.0),
        graphs: gib(0.0),
        state: gib(0.0),
        kv_available: gib(90.0 - 120.0 / f64::from(tp)),
        kv_bytes_per_token: Bytes(1.0),
        kv_bytes_per_request: gib(1.0),
        kv_tokens: 1.0,
        max_concurrency: 1.0,
        resident_requests: 1.0,
    }
}

impl Evaluator for Toy {
    type Compiled = u32;

    fn compile(&self, d: &Deployment) -> Result<u32, Refusal> {
        if d.tp < 2 { Err(Refusal::DoesNotFit(Box::new(plan(d.tp)))) } else { Ok(d.tp) }
    }

    fn evaluate(&self, tp: &u32, concurrency: u32, _budget: u32) -> Result<Evaluation, Refusal> {
        let tpot_ms = f64::from(concurrency) / f64::from(*tp);
        let gpu = f64::from(concurrency);
        Ok(Evaluation {
            metrics: ServingMetrics {
                ttft_ms: 10.0,
                ttft_p50_ms: 10.0,
                tpot_ms,
                e2e_ms: 100.0,
                output_tok_s: gpu,
                total_tok_s: gpu,
                tok_s_per_gpu: gpu,
                tok_s_per_user: 1000.0 / tpot_ms,
                running: gpu,
                usd_per_m_output: None,
                usd_per_m_total: Some(10.0 / gpu),
            },
            bound: Bound::WeightReads,
            breakdown: Breakdown::default(),
        })
    }
}

const KNOBS: &str = "  weight_dtype: [fp8]\n  tp: [1, 2, 3, 4]\n  max_num_batched_tokens: [512, 1024]\n  concurrency: [1, 8, 16, 32, 48, 64]\n";

fn with_search<T>(knobs: &str, slos: &str, look: impl FnOnce(&Search<'_, Toy>) -> T) -> T {
    let model = crate::space::tests::stub(true);
    let text = format!("name: toy\nabout: toy\nknobs:\n{knobs}");
    let file = SpaceFile::from_document(&Document { origin: "toy.yaml".into(), text }).unwrap();
    let engine =
        EngineLimits { max_num_batched_tokens: 8192, max_num_seqs: 256, memory_fraction: 0.9, accepted_tokens: 2.0 };
    let space = Space::new(&file, &Context { model: &model, gpus_per_node: 8, gpus: 8, engine }).unwrap();
    let legality = Legality::new(&model, &Target::load("mi355x").unwrap());
    let (mut objective, _) = Objective::load("default").unwrap();
    if !slos.is_empty() {
        objective.override_slos(Slo::parse_list(slos).unwrap());
    }
    look(&Search { space: &space, legality: &legality, objective: &objective, evaluator: &Toy })
}

#[test]
fn counts_add_up_and_the_best_is_the_best() {
    with_search(KNOBS, "tpot_ms=10", |search| {
        let outcome = search.run(&|_| {});
        // tp 3 does not divide 128 heads: 12 points. Fill gives tp 1, 2, 4 eight, four, two replicas: concurrency 1 is
        // below them: 3 x 2 points.
        assert_eq!((outcome.points, outcome.legal), (48, 48 - 12 - 6));
        // tp 1: 10 points do not fit. TPOT over 10: tp 2 from 32 on (3 x 2), tp 4 from 48 on (2 x 2).
        assert_eq!(outcome.feasible, 30 - 10 - 6 - 4);
        let groups: Vec<_> = outcome.groups.iter().map(|g| (search.reason_name(&g.reason), g.count)).collect();
        let expected = [
            ("tp does not divide the attention heads", 12),
            ("tpot_ms over 10", 10),
            ("does not fit in memory", 10),
            ("fewer requests than replicas", 6),
        ];
        assert_eq!(groups, expected.map(|(name, count)| (name.to_string(), count)));
        assert_eq!(outcome.points - outcome.feasible, groups.iter().map(|g| g.1).sum::<u64>());
        let best: Vec<_> = outcome.layouts.iter().map(|f| search.space.deployment(f.index)).collect();
        assert_eq!(best.iter().map(|d| (d.tp, d.concurrency)).collect::<Vec<_>>(), [(4, 32), (2, 16)]);
        assert_eq!(best[0].max_num_batched_tokens, 512, "equal points: the smaller number");
    });
}

#[test]
fn the_front_is_that_of_the_formula() {
    with_search(KNOBS, "", |search| {
        let outcome = search.run(&|_| {});
        // tok/s/GPU = C and tok/s/user = 1000 tp / C: at equal C the widest wins, and every C is on the front.
        let front: Vec<_> =
            outcome.front.iter().map(|f| search.space.deployment(f.index)).map(|d| (d.tp, d.concurrency)).collect();
        assert_eq!(front, [(4, 64), (4, 48), (4, 32), (4, 16), (4, 8)]);
        assert_eq!(outcome.cost_front, outcome.front, "cost is 10 / C here");
    });
}

#[test]
fn a_rejection_names_budget_value_overshoot_bound_and_change() {
    with_search(KNOBS, "tpot_ms=10", |search| {
        let outcome = search.run(&|_| {});
        let line = |reason: &Reason| search.explain(outcome.groups.iter().find(|g| g.reason == *reason).unwrap());
        assert_eq!(
            line(&Reason::Slo(0)),
            "tpot_ms 12.0 over the budget of 10 (1.20x) at tp 4, 2 replicas, concurrency 48; bound by weight reads: \
             concurrency 32 meets it"
        );
        assert_eq!(
            line(&Reason::Memory),
            "weights 120.00 GiB and reserves need 120.00 GiB of a budget of 90.00 GiB (1.33x, 30.00 GiB over) at tp 1, \
             8 replicas, concurrency 8: tp 2 fits"
        );
        assert_eq!(
            line(&Reason::Illegal("tp does not divide the attention heads")),
            "mi355x, 8 GPUs: tp 3 does not divide 128 attention heads (stub). Use 1, 2, 4 or 8."
        );
    });
}

#[test]
fn without_a_feasible_point_the_nearest_is_still_named() {
    with_search("  weight_dtype: [fp8]\n  tp: [2, 4]\n  concurrency: [8, 16]\n", "tpot_ms=1", |search| {
        let outcome = search.run(&|_| {});
        assert_eq!((outcome.feasible, outcome.layouts.len()), (0, 0));
        assert_eq!(
            search.explain(&outcome.groups[0]),
            "tpot_ms 2.00 over the budget of 1 (2.00x) at tp 4, 2 replicas, concurrency 8; bound by weight reads: no \
             single change of this space helps"
        );
    });
}

#[test]
fn threads_do_not_matter() {
    with_search(KNOBS, "tpot_ms=10", |search| {
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| search.run(&|_| {}))
        };
        assert_eq!(on(1), on(5));
    });
}

#[test]
fn progress_adds_up_to_the_points() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let done = AtomicU64::new(0);
    with_search(KNOBS, "", |search| {
        search.run(&|more| {
            done.fetch_add(more, Ordering::Relaxed);
        })
    });
    assert_eq!(done.into_inner(), 48);
}
