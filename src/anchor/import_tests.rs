//! Hand-made files in the layouts of the four programs, and files that must be refused.

use super::*;

fn facts() -> Facts {
    let layout = Layout { tp: 2, ep: 1, pp: 1, attention_dp: 1, context_parallel: 1, replicas: 1 };
    Facts {
        regime: RegimeSignature { gpu: "mi355x".into(), engine: "vllm".into(), ..RegimeSignature::default() },
        layout,
        concurrency: None,
        range_ratio: None,
        prefix_caching: None,
        date: None,
        id: "run".into(),
        source: "result.json".into(),
    }
}

const VLLM: &str = r#"{"date": "20260501-101530", "backend": "vllm", "model_id": "openai/gpt-oss-120b",
    "max_concurrency": 64, "duration": 100.0, "completed": 640, "total_input_tokens": 589824,
    "total_output_tokens": 294912, "output_throughput": 2949.12, "mean_ttft_ms": 120.5, "median_ttft_ms": 90.25,
    "mean_tpot_ms": 11.5, "median_tpot_ms": 11.25}"#;

#[test]
fn a_vllm_result_is_read_by_its_own_names() {
    let a = &runs(VLLM, &facts()).unwrap()[0];
    assert_eq!((a.tool.as_str(), a.date.as_deref()), ("vllm-bench-serve", Some("2026-05-01")));
    // 589824/640 = 921.6 and 294912/640 = 460.8 tokens.
    assert_eq!((a.load.concurrency, a.load.isl, a.load.osl), (64, 922, 461));
    assert_eq!((a.measured.tpot_ms, a.measured.ttft_p50_ms), (Some(11.5), Some(90.25)));
    assert_eq!(a.regime.model, "openai/gpt-oss-120b");
    // The client's lengths are uniform on [0.8 L, L]: L = 921.6/0.9 = 1024.
    let spread = &runs(VLLM, &Facts { range_ratio: Some(0.8), ..facts() }).unwrap()[0];
    assert_eq!((spread.load.isl, spread.load.osl), (1024, 512));
}

#[test]
fn a_run_that_does_not_say_has_its_prefill_discarded() {
    let a = &runs(VLLM, &facts()).unwrap()[0];
    assert_eq!(a.usable_ttft(), (None, None));
    assert!(a.discarded_prefill().unwrap().contains("does not say"));
    let on = &runs(VLLM, &Facts { prefix_caching: Some(true), ..facts() }).unwrap()[0];
    assert_eq!(on.usable_ttft(), (None, None));
    let off = &runs(VLLM, &Facts { prefix_caching: Some(false), ..facts() }).unwrap()[0];
    assert_eq!(off.usable_ttft(), (Some(120.5), Some(90.25)));
    assert!(off.discarded_prefill().is_none());
}

#[test]
fn sglang_writes_a_line_a_run() {
    let line = |c: u32, tpot: f64| {
        format!(
            r#"{{"backend": "sglang", "dataset_name": "random", "max_concurrency": {c}, "random_input_len": 1024,
               "random_output_len": 512, "random_range_ratio": 1.0, "completed": 40, "total_input_tokens": 40960,
               "total_output_tokens": 20480, "output_throughput": 800.0, "mean_ttft_ms": 50.0,
               "median_ttft_ms": 45.0, "mean_tpot_ms": {tpot}}}"#
        )
        .replace('\n', " ")
    };
    let text = format!("{}\n{}\n", line(4, 7.0), line(16, 9.0));
    let named = Facts { regime: RegimeSignature { model: "m".into(), ..facts().regime }, ..facts() };
    let found = runs(&text, &named).unwrap();
    assert_eq!(
        found.iter().map(|a| (a.id.as_str(), a.load.concurrency)).collect::<Vec<_>>(),
        [("run-1", 4), ("run-2", 16)]
    );
    assert_eq!((found[1].load.isl, found[1].load.osl, found[1].measured.tpot_ms), (1024, 512, Some(9.0)));
    let broken = format!("{}\n{{\"mean_tpot_ms\": \n", line(4, 7.0));
    assert!(runs(&broken, &named).unwrap_err().to_string().contains("result.json:2: not JSON"));
}

#[test]
fn aiperf_and_guidellm_call_tpot_inter_token_latency() {
    let aiperf = r#"{"aiperf_version": "0.13.0", "start_time": "2026-11-30T17:33:35",
        "input_config": {"models": {"items": [{"name": "m"}]}, "phases": [{"kind": "profiling", "concurrency": 4}]},
        "input_sequence_length": {"avg": 209.0}, "output_sequence_length": {"avg": 30.0},
        "time_to_first_token": {"avg": 1291.6, "p50": 812.7}, "inter_token_latency": {"avg": 314.1},
        "output_token_throughput": {"avg": 11.45}}"#;
    let a = &runs(aiperf, &facts()).unwrap()[0];
    assert_eq!((a.load.concurrency, a.load.isl, a.measured.tpot_ms), (4, 209, Some(314.1)));
    let guidellm = r#"{"metadata": {"guidellm_version": "0.8.1"}, "benchmarks": [{"duration": 10.0,
        "config": {"backend": {"model": "m"}, "strategy": {"streams": 2}}, "metrics": {
        "prompt_token_count": {"successful": {"mean": 50.0}},
        "output_token_count": {"successful": {"mean": 20.0, "total_sum": 80.0}},
        "time_to_first_token_ms": {"successful": {"mean": 40.0, "median": 35.0}},
        "time_per_output_token_ms": {"successful": {"mean": 99.0}},
        "inter_token_latency_ms": {"successful": {"mean": 12.0}}}}]}"#;
    let g = &runs(guidellm, &facts()).unwrap()[0];
    assert_eq!((g.load.concurrency, g.measured.tpot_ms, g.measured.output_tok_s), (2, Some(12.0), Some(8.0)));
}

#[test]
fn bad_files_name_what_is_wrong() {
    let fail = |text: &str| runs(text, &facts()).unwrap_err().to_string();
    assert!(fail("{\"mean_tpot_ms\": ").contains("not JSON"));
    assert!(fail("").contains("not JSON"));
    assert!(fail(r#"{"requests": 3}"#).contains("no known benchmark program"));
    assert!(fail("[1, 2]").contains("no known benchmark program"));
    assert!(fail(&VLLM.replace("11.5", "-3.0")).contains("measured.tpot_ms is -3"));
    assert!(
        fail(&VLLM.replace("\"max_concurrency\": 64", "\"max_concurrency\": null")).contains("without a concurrency")
    );
    assert!(fail(&VLLM.replace("640", "0")).contains("without prompt lengths"));
    assert!(
        fail(&VLLM.replace("\"model_id\": \"openai/gpt-oss-120b\"", "\"model_id\": \"\"")).contains("regime.model")
    );
    let wide = Facts { layout: Layout { ep: 3, ..facts().layout }, ..facts() };
    assert!(runs(VLLM, &wide).unwrap_err().to_string().contains("3 does not divide tp 2"));
}

#[test]
fn a_run_of_which_much_failed_is_no_anchor() {
    let run = |ok: u32| {
        let document = serde_json::json!({"schema": "inferasim.measure/1", "complete": true, "model": "m", "points": [{
            "name": "64x24-c4", "load": {"concurrency": 4}, "requests": {"sent": 200, "ok": ok},
            "metrics": {"isl": {"mean": 64.0}, "osl": {"mean": 24.0}, "ttft_ms": {"mean": 9.0, "p50": 9.0},
                "tpot_ms": {"mean": 3.0}}, "system": {"output_tok_s": 800.0}}]});
        let asserted = Facts { prefix_caching: Some(false), ..facts() };
        runs(&document.to_string(), &asserted)
    };
    assert_eq!(run(198).unwrap()[0].measured.tpot_ms, Some(3.0));
    let refused = run(190).unwrap_err().to_string();
    assert!(refused.contains("64x24-c4: 10 of 200 requests had no success"), "{refused}");
}
