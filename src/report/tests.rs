//! Renderings of a hand-made run: nothing lost, nothing unescaped, nothing half-written.

use super::html::{Beside, page};
use super::plots::{breakdown, fronts, svg};
use super::terminal::{Style, answer, table::WIDTH};
use super::{ReportFolder, RunRecord, fixture, folder, shortlist::shortlist, text};
use insta::assert_snapshot;
use std::fs;

const BESIDE: Beside = Beside { points_written: 10, points_left_out: 0 };

#[test]
fn the_record_survives_a_round_trip() {
    let record = fixture::record();
    let json = serde_json::to_string(&record).expect("serialises");
    assert_eq!(serde_json::from_str::<RunRecord>(&json).expect("reads back"), record);
}

#[test]
fn the_terminal_stays_plain_and_within_100_columns() {
    for record in [fixture::record(), fixture::hostile(), fixture::infeasible()] {
        let plain = answer(&record, Style::PLAIN);
        for line in plain.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
            assert!(!line.contains('\u{1b}') && line == line.trim_end(), "{line:?}");
        }
        let colored = answer(&record, Style { color: true });
        assert!(colored.contains("\u{1b}["));
        assert_eq!(strip(&colored), plain);
    }
}

fn strip(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |all, part| all + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[test]
fn the_terminal_answer_reads_well() {
    let mut record = fixture::record();
    record.top.truncate(3);
    assert_snapshot!(answer(&record, Style::PLAIN), @r#"
    Searched
      gpt-oss-120b on 8 × MI355X, vllm 0.11.0
      input 1024 and output 1024 tokens; maximise tok/s/GPU under ttft_ms <= 500, tpot_ms <= 20
      space moe: 12,345 points, 9,876 legal, 73 feasible, in 0.12 s

    Rejected
      points  reason, and one of them
       5,000  ttft_ms above its limit; e.g. TP8, c2048: ttft_ms 3112 is above 500 by 522 %. Use
              concurrency 256
          12  does not fit; e.g. TP1 bf16: weights 217.6 GiB leave -3.1 GiB for KV. Use tp 2

    Illegal
      points  reason, and one of them
       2,469  ep does not divide tp; e.g. tp 4, ep 8: 8 does not divide 4. Use ep 1, 2 or 4

    Top 3 by tok/s/GPU
      all: GPUs 8, weights mxfp4, KV fp8, tok/step 8192
      #  layout       conc  TTFT ms  TPOT ms  tok/s/GPU  $/M tok  bound by
      1  8 × TP1       768      184     18.2     10,526   $0.066  prefill interference
      2  8 × TP1       512      136     15.1      8,505   $0.082  prefill interference
      3  4 × TP2 EP2   512      232     16.3      7,842   $0.089  prefill interference

    Recommended
      8 × TP1 on 8 GPUs, concurrency 768, mxfp4 weights, fp8 KV, 8192 tokens a step
      TTFT 184 ms, TPOT 18.2 ms, 42,104 output tok/s, 10,526 tok/s/GPU, 54.8 tok/s/user; $0.132 per
      million output tokens, $0.066 in all
      why    It serves 12 % more tokens per GPU than the best point of the next layout.
      bound  Weight reads take 41 % of TPOT: a larger batch spreads them, but TTFT stands at its limit.
      run    vllm serve openai/gpt-oss-120b --tensor-parallel-size 1 --max-model-len 2048 \
             --max-num-seqs 1024 --max-num-batched-tokens 8192 --kv-cache-dtype fp8 \
             --gpu-memory-utilization 0.9 --no-enable-prefix-caching
      note   The command starts one of 8 equal instances; put a router on the benchmark's port in front
             of them.

    Calibration
      calibrated         TPOT: fitted on 84 public runs of vLLM on MI355X, median error 7 %.
      neighbouring data  TTFT: rests on SGLang's runs on MI355X; none of vLLM is public.

    Warnings
      Two nodes were not searched: the target states one.

    Definitions
      tpot_ms: mean over requests of (E2E - TTFT) / (output tokens - 1), ms
    "#);
}

#[test]
fn an_infeasible_run_names_the_nearest_miss() {
    let text = answer(&fixture::infeasible(), Style::PLAIN);
    assert!(text.contains("Nothing is feasible\n  Closest: ") && text.contains("  ttft_ms 640 is above 500 by 28 %"));
    let html = page(&fixture::infeasible(), BESIDE).expect("renders");
    assert!(html.contains("Nothing is feasible") && html.contains("ttft_ms 640 is above 500"));
}

#[test]
fn the_page_asks_nobody_for_anything_and_is_well_formed() {
    for record in [fixture::record(), fixture::hostile(), fixture::infeasible()] {
        let html = page(&record, BESIDE).expect("renders");
        for forbidden in ["<script", "<link", "src=", "href", "@import", "url(", "http:", "https:"] {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
        let body = html.replacen("<!DOCTYPE html>", "", 1).replace("<meta charset=\"utf-8\">", "");
        let body = remove_between(&body, "<meta ", ">");
        assert_well_formed(&body);
        let answer = if record.best.is_some() { "Run " } else { "Nothing is feasible" };
        assert!(html.contains(answer));
    }
}

#[test]
fn the_page_holds_every_figure_a_reader_needs() {
    let record = fixture::record();
    let best = record.best.as_ref().expect("feasible");
    let html = page(&record, BESIDE).expect("renders");
    let expected = [
        text::number(best.objective),
        text::number(best.metrics().tpot_ms),
        text::dollars(best.metrics().usd_per_m_total),
        "neighbouring data".to_string(),
        "left for the KV cache".to_string(),
        "12,345 points".to_string(),
        "inferasim-tune --target targets/mi355x.yaml --slo ttft_ms=500".to_string(),
        "AMD Instinct MI355X data sheet".to_string(),
    ];
    for text in expected {
        assert!(html.contains(&text), "{text}");
    }
}

#[test]
fn plots_are_well_formed_and_never_hold_raw_markup() {
    for record in [fixture::record(), fixture::hostile(), fixture::infeasible()] {
        let mut plots =
            vec![svg(&fronts::pareto(&record)).expect("draws"), svg(&breakdown::breakdown(&record)).expect("draws")];
        plots.extend(fronts::cost(&record).map(|c| svg(&c).expect("draws")));
        for plot in plots {
            assert!(plot.contains("<text") && !plot.contains("<script"));
            assert_well_formed(&plot);
        }
    }
}

/// Every tag is closed by its like, every attribute is quoted: checked by a parser written for this test.
fn assert_well_formed(text: &str) {
    let text = remove_between(text, "<?", "?>");
    let text = remove_between(&text, "<!--", "-->");
    let text = remove_between(&text, "<style>", "</style>");
    let mut open: Vec<String> = Vec::new();
    for piece in text.split('<').skip(1) {
        let tag = piece.split('>').next().unwrap_or_default();
        assert!(piece.contains('>'), "unclosed tag <{piece}");
        assert!(tag.matches('"').count() % 2 == 0, "odd quotes in <{tag}>");
        let name: String = tag.trim_start_matches('/').chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name.as_str()), "at </{name}>");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}

fn remove_between(text: &str, from: &str, to: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, after)) = rest.split_once(from) {
        kept.push_str(before);
        rest = after.split_once(to).map_or("", |(_, tail)| tail);
    }
    kept + rest
}

#[test]
fn the_shortlist_is_a_flat_matrix() {
    let record = fixture::record();
    let list = shortlist(&record);
    assert_eq!(list.as_object().map(|o| o.keys().collect::<Vec<_>>()), Some(vec![&"include".to_string()]));
    let entries = list["include"].as_array().expect("an array");
    assert_eq!(entries.len(), record.shortlist.len());
    for entry in entries {
        let fields = entry.as_object().expect("an object");
        assert!(fields.values().all(|v| v.is_string() || v.is_number() || v.is_boolean()), "{entry}");
    }
    assert_snapshot!(serde_json::to_string_pretty(&entries[0]).expect("serialises"), @r#"
    {
      "name": "gpt-oss-120b vllm 8xTP1 c768",
      "id": "mxfp4-fp8kv-tp1-ep1-adp1-pp1-r8-b8192-s1024-m0.9-c768",
      "rank": 1,
      "model": "gpt-oss-120b",
      "checkpoint": "openai/gpt-oss-120b",
      "engine": "vllm",
      "engine_version": "0.11.0",
      "gpu": "MI355X",
      "gpus": 8,
      "tp": 1,
      "ep": 1,
      "attention_dp": 1,
      "context_parallel": 1,
      "pp": 1,
      "replicas": 8,
      "concurrency": 768,
      "weight_dtype": "mxfp4",
      "kv_dtype": "fp8",
      "max_num_batched_tokens": 8192,
      "max_num_seqs": 1024,
      "memory_fraction": 0.9,
      "max_model_len": 2048,
      "isl": 1024,
      "osl": 1024,
      "range_ratio": 1.0,
      "prefix_hit_rate": 0.0,
      "num_prompts": 7680,
      "predicted_ttft_ms": 184.0,
      "predicted_tpot_ms": 18.24,
      "predicted_e2e_ms": 18700.0,
      "predicted_output_tok_s": 42104.0,
      "predicted_total_tok_s": 84208.0,
      "predicted_tok_s_per_gpu": 10526.0,
      "predicted_tok_s_per_user": 54.823,
      "predicted_bound": "prefill interference",
      "calibration": "neighbouring data",
      "predicted_usd_per_m_total": 0.065974,
      "role": "best",
      "reason": "The best of its kind.",
      "on_front": true,
      "win_probability": 0.2,
      "information_bits": 0.25,
      "predicted_ttft_ms_low": 167.27,
      "predicted_ttft_ms_high": 202.4,
      "predicted_tpot_ms_low": 16.582,
      "predicted_tpot_ms_high": 20.065,
      "predicted_tok_s_per_gpu_low": 9569.1,
      "predicted_tok_s_per_gpu_high": 11579.0,
      "predicted_objective": 10526.0,
      "predicted_objective_low": 9569.1,
      "predicted_objective_high": 11579.0,
      "band_coverage": 0.8,
      "band_origin": "public runs of this engine, GPU and model",
      "objective_metric": "tok_s_per_gpu",
      "objective_maximise": true,
      "objective_to_beat": 8504.6,
      "slo_ttft_ms": 500.0,
      "slo_tpot_ms": 20.0,
      "launch": "vllm serve openai/gpt-oss-120b --tensor-parallel-size 1 --max-model-len 2048 --max-num-seqs 1024 --max-num-batched-tokens 8192 --kv-cache-dtype fp8 --gpu-memory-utilization 0.9 --no-enable-prefix-caching",
      "benchmark": "vllm bench serve --model openai/gpt-oss-120b --dataset-name random --random-input-len 1024 --random-output-len 1024 --random-range-ratio 0 --num-prompts 7680 --max-concurrency 768 --request-rate inf --ignore-eos --percentile-metrics ttft,tpot,itl,e2el",
      "notes": "The command starts one of 8 equal instances; put a router on the benchmark's port in front of them."
    }
    "#);
}

#[test]
fn a_report_appears_whole_under_its_name_and_the_next_beside_it() {
    let root = tempfile::tempdir().expect("a folder");
    let reports = root.path().join("reports");
    let record = fixture::record();
    let name = folder::run_name(&record.started, &record.target.document.name, &record.model.name);
    assert_eq!(name, "20260301-123000-mi355x-gpt-oss-120b");
    for expected in [name.clone(), format!("{name}-2")] {
        let mut folder = ReportFolder::prepare(&reports, &name).expect("writable");
        for candidate in &record.top {
            folder.push_point(&candidate.deployment, &candidate.evaluation).expect("writes");
        }
        let place = folder.finish(&record).expect("finishes");
        assert_eq!(place, reports.join(expected));
        let mut files: Vec<String> = fs::read_dir(&place)
            .expect("readable")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        files.sort();
        let expected = [
            "breakdown.png",
            "breakdown.svg",
            "cost.png",
            "cost.svg",
            "pareto.png",
            "pareto.svg",
            "points.csv",
            "report.html",
            "run.json",
            "shortlist.json",
        ];
        assert_eq!(files, expected);
        let read: RunRecord =
            serde_json::from_str(&fs::read_to_string(place.join("run.json")).expect("readable")).expect("reads back");
        assert_eq!(read, record);
        let rows = csv::Reader::from_path(place.join("points.csv")).expect("opens").into_records().count();
        assert_eq!(rows, record.top.len());
        let png = fs::read(place.join("pareto.png")).expect("readable");
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    }
    assert_eq!(fs::read_dir(&reports).expect("readable").count(), 2, "no draft is left");
}

#[test]
fn an_abandoned_report_leaves_nothing() {
    let root = tempfile::tempdir().expect("a folder");
    let reports = root.path().join("reports");
    drop(ReportFolder::prepare(&reports, "run").expect("writable"));
    assert!(!reports.exists());
}

#[test]
fn an_unwritable_folder_is_found_before_the_search() {
    let root = tempfile::tempdir().expect("a folder");
    let file = root.path().join("taken");
    fs::write(&file, "a file").expect("writes");
    let error = ReportFolder::prepare(&file, "run").expect_err("a file is no folder");
    assert_eq!(error.exit_code(), 2);
    assert!(
        error.to_string().starts_with(&format!("report folder {}: cannot be written: ", file.display())),
        "{error}"
    );
}

#[test]
fn the_csv_is_bounded_and_says_what_it_leaves_out() {
    let root = tempfile::tempdir().expect("a folder");
    let mut points = super::points::PointsWriter::create(&root.path().join("points.csv")).expect("writable");
    let candidate = fixture::candidate(1, 8, 8, 1, 64);
    for _ in 0..super::points::POINTS_LIMIT + 5 {
        points.push(&candidate.deployment, &candidate.evaluation).expect("writes");
    }
    assert_eq!(points.finish().expect("finishes"), (100_000, 5));
    let html = page(&fixture::record(), Beside { points_written: 100_000, points_left_out: 5 }).expect("renders");
    assert!(html.contains("holds the best 100,000 feasible points") && html.contains("leaves out 5"));
}

#[test]
fn a_wide_ranking_still_fits() {
    let mut record = fixture::record();
    for (i, candidate) in record.top.iter_mut().enumerate() {
        let d = &mut candidate.deployment;
        (d.replicas, d.tp, d.ep, d.attention_dp, d.pp) = (16, 16, 16, 16, 1 + i as u32);
        d.concurrency = 16_384;
        d.weight_dtype = format!("compressed{i}");
        d.max_num_batched_tokens += i as u32;
        candidate.gpus = d.gpus();
    }
    let text = answer(&record, Style::PLAIN);
    assert!(text.contains("16 × TP16 EP16 DPA16 PP10"));
    assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
}

#[test]
fn the_summary_keeps_its_keys() {
    let record = fixture::record();
    let value = super::summary::summary(&record, Some(std::path::Path::new("reports/run")));
    assert_eq!(value["points"], 12_345);
    assert_eq!(value["feasible"], 73);
    assert_eq!(value["rejected"]["ttft_ms above its limit"], 5_000);
    assert_eq!(value["best"]["objective"].as_f64(), record.best.as_ref().map(|b| b.objective));
    assert_eq!(value["front"].as_array().map(Vec::len), Some(record.front.len()));
    assert_eq!((value["elapsed_s"].as_f64(), value["cpu_s"].as_f64()), (Some(0.125), Some(0.21)));
    assert_eq!(value["report"], "reports/run");
    let none = super::summary::summary(&fixture::infeasible(), None);
    assert!(none["best"].is_null() && none["report"].is_null());
    assert_eq!(none["closest"]["blocked_by"], "ttft_ms 640 is above 500 by 28 %");
}
