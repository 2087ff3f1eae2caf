use super::*;
use crate::measure::run_document::Summary;
use serde_json::json;

/// A finalist of 8 GPUs at 64 clients, predicted at this many tokens per second and GPU.
fn entry(rank: u64, tok_s_per_gpu: f64) -> Finalist {
    let fields = json!({"name": format!("f{rank}"), "rank": rank, "model": "m", "concurrency": 64, "isl": 1000, "osl": 100,
        "gpus": 8, "predicted_tok_s_per_gpu": tok_s_per_gpu, "predicted_total_tok_s": 8.0 * tok_s_per_gpu,
        "predicted_tpot_ms": 10.0, "predicted_ttft_ms": 100.0, "predicted_usd_per_m_total": 0.5});
    let serde_json::Value::Object(fields) = fields else { unreachable!() };
    Finalist::from_fields(fields, "test").unwrap()
}

fn distribution(mean: f64) -> Value {
    let mut d = json!({"unit": "ms", "mean": mean, "min": mean, "max": mean, "std": 0.0, "count": 640, "sum": mean});
    for p in ["p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99"] {
        d[p] = json!(mean);
    }
    d
}

/// The finalist measured at these rates; `c` clients.
fn result(of: &Finalist, c: usize, total_tok_s: f64, tpot_ms: f64) -> FinalistResult {
    let point = crate::measure::summary::summarise(
        "p",
        &of.shape,
        &crate::measure::load::Load::Closed { concurrency: c, ramp_s: 0.0 },
        &[],
        0,
        &Default::default(),
        serde_json::from_value(json!({"cores": 2, "cores_busy": 0.1, "cpu_s": 1.0, "max_in_flight": c,
            "wake_late_ms": null, "clock_step_ms": 0.0, "saturated": false}))
        .unwrap(),
    );
    let mut point = serde_json::to_value(&point).unwrap();
    point["system"]["total_tok_s"] = json!(total_tok_s);
    point["metrics"]["tpot_ms"] = distribution(tpot_ms);
    point["metrics"]["ttft_ms"] = distribution(100.0);
    let summary: Summary =
        serde_json::from_value(json!({"schema": "inferasim.measure/1", "inferasim": "0", "complete": true,
        "url": "http://127.0.0.1:1/", "model": "m", "api_key_env": null, "request": {}, "output_length": "exact",
        "prompts": "synthetic", "seed": 1, "command": "", "tokenizer": "o200k_base", "definitions": {}, "timeline": [],
        "points": [point]}))
        .unwrap();
    FinalistResult {
        schema: super::super::harvest::RESULT_SCHEMA.into(),
        entry: of.fields.clone(),
        engine_version: None,
        launched: false,
        summary,
        anchor: None,
        no_anchor: None,
    }
}

fn rules() -> Rules {
    Rules { objective: Metric::TokSPerGpu, slos: vec![], band: Some(0.1) }
}

fn figure(row: &Row, metric: Metric) -> FigurePair {
    *row.figures.iter().find(|f| f.metric == metric).unwrap()
}

#[test]
fn a_band_decides_what_moved_and_on_which_side() {
    let (a, b, c) = (entry(1, 1000.0), entry(2, 950.0), entry(3, 900.0));
    // 8,400 tok/s over 8 GPUs are 1,050: +5 %. 6,000 are 750: -21 %. 9,600 are 1,200: +33 %.
    let results = [result(&a, 64, 8400.0, 10.5), result(&b, 64, 6000.0, 12.0), result(&c, 64, 9600.0, 8.0)];
    let found = compare(&[a, b, c], &results, &rules());
    let moved: Vec<Moved> = found.finalists.iter().map(|f| f.moved).collect();
    assert_eq!(moved, [Moved::AsPredicted, Moved::Worse, Moved::Better]);
    let ranks: Vec<Option<u64>> = found.finalists.iter().map(|f| f.measured_rank).collect();
    assert_eq!(ranks, [Some(2), Some(3), Some(1)]);
    // A latency is better low: 12 ms for 10 is worse, 8 is better, though one ratio is above 1 and the other below.
    assert_eq!(figure(&found.finalists[1], Metric::TpotMs).moved, Moved::Worse);
    assert_eq!(figure(&found.finalists[2], Metric::TpotMs).moved, Moved::Better);
    // $0.5 at 8,000 tok/s is $0.4762 at 8,400.
    assert!((figure(&found.finalists[0], Metric::UsdPerMTotal).measured - 0.5 * 8000.0 / 8400.0).abs() < 1e-12);
    assert!(found.winner.changed && found.winner.verdict.contains("f3 instead of f1, by 14.3 %"), "{:?}", found.winner);
    assert!(found.differs());
}

#[test]
fn as_predicted_throughout_differs_in_nothing() {
    let (a, b) = (entry(1, 1000.0), entry(2, 950.0));
    let results = [result(&a, 64, 8000.0, 10.0), result(&b, 64, 7600.0, 10.0)];
    let found = compare(&[a, b], &results, &rules());
    assert!(!found.differs() && !found.winner.changed);
    assert_eq!(found.winner.measured.as_deref(), Some("f1"));
}

#[test]
fn a_gap_within_repeated_runs_is_a_tie() {
    let (a, b) = (entry(1, 1000.0), entry(2, 990.0));
    let results = [result(&a, 64, 8000.0, 10.0), result(&b, 64, 8040.0, 10.0)];
    let found = compare(&[a, b], &results, &rules());
    assert!(!found.winner.changed && found.winner.verdict.contains("a tie"), "{:?}", found.winner);
}

#[test]
fn a_missing_or_broken_result_is_no_success() {
    let (a, b) = (entry(1, 1000.0), entry(2, 950.0));
    let found = compare(&[a.clone(), b.clone()], &[result(&b, 64, 7600.0, 10.0)], &rules());
    assert_eq!(found.finalists[0].moved, Moved::NotMeasured);
    assert!(found.differs() && found.winner.changed && found.winner.verdict.contains("has no result"));
    // At another load it is an anchor, not a comparison.
    let found = compare(std::slice::from_ref(&a), &[result(&a, 8, 4000.0, 5.0)], &rules());
    assert_eq!((found.finalists[0].moved, found.other_loads), (Moved::NotMeasured, 1));
    // An incomplete run decides nothing.
    let mut cut = result(&a, 64, 8000.0, 10.0);
    cut.no_anchor = Some("the run was cut short".into());
    assert_eq!(compare(&[a], &[cut], &rules()).finalists[0].moved, Moved::NotMeasured);
}

#[test]
fn a_winner_that_breaks_a_limit_is_none() {
    let (a, b) = (entry(1, 1000.0), entry(2, 950.0));
    let slos = Slo::parse_list("tpot_ms=11").unwrap();
    let results = [result(&a, 64, 8000.0, 12.0), result(&b, 64, 7600.0, 10.0)];
    let found = compare(&[a, b], &results, &Rules { slos, ..rules() });
    assert_eq!(found.finalists[0].breaks, ["tpot_ms over 11: 12.0"]);
    assert!(found.winner.verdict.contains("f1 breaks a limit, f2 leads"), "{:?}", found.winner);
}

#[test]
fn an_entry_states_its_own_band() {
    let mut a = entry(1, 1000.0);
    a.fields.insert("predicted_tok_s_per_gpu_low".into(), json!(980.0));
    a.fields.insert("predicted_tok_s_per_gpu_high".into(), json!(1040.0));
    let at = |of: &Finalist, rate: f64, rules: &Rules| {
        compare(std::slice::from_ref(of), &[result(of, 64, 8.0 * rate, 10.0)], rules).finalists[0].moved
    };
    let own = Rules { band: None, ..rules() };
    assert_eq!(at(&a, 1040.0, &own), Moved::AsPredicted);
    assert_eq!(at(&a, 1050.0, &own), Moved::Better);
    assert_eq!(at(&a, 975.0, &own), Moved::Worse);
    assert_eq!(at(&a, 1050.0, &rules()), Moved::AsPredicted, "--band replaces it");
    assert_eq!(at(&entry(1, 1000.0), 1180.0, &own), Moved::AsPredicted, "18 % without bands");
    assert_eq!(at(&entry(1, 1000.0), 1220.0, &own), Moved::Better);
}
