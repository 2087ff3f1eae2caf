//! The JSON documents that scripts read: the keys the README promises, with the types it promises.

use crate::command::{inferasim, tune};
use serde_json::Value;

const QUICK: &str = "--target mi355x --slo ttft_ms=500 --space quick --no-report --json";

#[test]
fn tune_answers_with_one_document() {
    let run = tune(QUICK);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let answer = run.json();
    // tp 1, 2, 4, 8 at seven loads.
    assert_eq!(answer["points"], 28);
    let feasible = answer["feasible"].as_u64().unwrap();
    let out: u64 = answer["rejected"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(feasible + out, 28);
    let best = answer["best"]["objective"].as_f64().unwrap();
    let front = answer["front"].as_array().unwrap();
    assert!(!front.is_empty());
    assert!(best > 0.0);
    assert!(answer["elapsed_s"].as_f64().unwrap() > 0.0);
    assert!(answer["cpu_s"].as_f64().unwrap() >= 0.0);
    assert!(answer["report"].is_null());
}

#[test]
fn equal_questions_get_equal_answers() {
    let strip = |mut answer: Value| {
        answer["elapsed_s"].take();
        answer["cpu_s"].take();
        answer
    };
    assert_eq!(strip(tune(QUICK).json()), strip(tune(QUICK).json()));
}

#[test]
fn the_report_is_named_and_complete() {
    let folder = tempfile::TempDir::new().unwrap();
    let run = crate::command::tune_in(folder.path(), "--target mi355x --space quick --json");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let answer = run.json();
    let report = folder.path().join(answer["report"].as_str().unwrap());
    for file in ["report.html", "pareto.svg", "pareto.png", "points.csv", "run.json", "shortlist.json"] {
        let size = std::fs::metadata(report.join(file)).unwrap_or_else(|e| panic!("{file}: {e}")).len();
        assert!(size > 0, "{file}");
    }
    let page = std::fs::read_to_string(report.join("report.html")).unwrap();
    for outside in ["<script src", "<link ", "@import", "url(http"] {
        assert!(!page.contains(outside), "the page asks for something outside: {outside}");
    }
    let run: Value = serde_json::from_str(&std::fs::read_to_string(report.join("run.json")).unwrap()).unwrap();
    assert_eq!(run["arguments"][0], "inferasim-tune", "no path of this machine");
    let points = std::fs::read_to_string(report.join("points.csv")).unwrap();
    assert_eq!(points.lines().count() as u64, 1 + answer["feasible"].as_u64().unwrap());
}

#[test]
fn memory_gives_every_line_in_bytes() {
    let run = inferasim("memory --target mi355x --model gpt-oss-120b --tp 8 --json");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let answer = run.json().to_string();
    for key in ["weights", "activation", "engine_reserve", "graphs", "kv_available", "kv_tokens", "max_concurrency"] {
        assert!(answer.contains(&format!("\"{key}\":")), "{key} is not in {answer}");
    }
}

#[test]
fn project_gives_its_contract() {
    let run = inferasim(
        "project --target mi355x --model gpt-oss-120b --engine vllm --tp 8 --concurrency 64 --isl 1024 --osl 1024 --json",
    );
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let answer = run.json();
    for key in ["ttft_ms", "tpot_ms", "output_tok_s", "total_tok_s", "tok_s_per_gpu"] {
        assert!(answer[key].as_f64().is_some_and(|v| v > 0.0), "{key} in {answer}");
    }
    // Input as long as output: in all twice the output; eight GPUs share it.
    let output = answer["output_tok_s"].as_f64().unwrap();
    assert!((answer["total_tok_s"].as_f64().unwrap() / output - 2.0).abs() < 1e-9);
    assert!((answer["tok_s_per_gpu"].as_f64().unwrap() * 4.0 / output - 1.0).abs() < 1e-9);
    assert!(answer["memory"]["kv_tokens"].as_f64().unwrap() > 0.0);
    assert!(answer["memory"]["max_concurrency"].as_f64().unwrap() > 0.0);
    assert!(!answer["calibration"].is_null() && !answer["bound"].is_null());
}
