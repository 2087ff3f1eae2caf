//! `inferasim-tune` as a user runs it: the answer, its contracts, and every kind of bad input.

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::Path;

fn tune(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inferasim-tune"));
    command.args(arguments);
    command
}

/// Standard output of a run that must end with `code`.
fn printed(arguments: &[&str], code: i32) -> String {
    let output = tune(arguments).assert().code(code).get_output().clone();
    String::from_utf8(output.stdout).unwrap()
}

/// The error line of a run that must end with exit code 2 and print nothing else.
fn refused(arguments: &[&str]) -> String {
    let output = tune(arguments).assert().code(2).get_output().clone();
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn json(arguments: &[&str], code: i32) -> Value {
    let mut all = arguments.to_vec();
    all.extend(["--json", "--no-report"]);
    serde_json::from_str(&printed(&all, code)).unwrap()
}

#[test]
fn the_answer_fits_a_terminal_and_says_what_it_should() {
    let text = printed(&["--target", "mi355x", "--slo", "ttft_ms=500", "--no-report"], 0);
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        assert!(!line.contains('\u{1b}'), "escape when piped: {line}");
    }
    for part in
        ["Searched", "points", "Illegal", "Top 10", "Recommended", "Calibration", "Definitions", "ttft_ms over 500"]
    {
        assert!(text.contains(part), "{part} not in\n{text}");
    }
}

#[test]
fn the_json_contract_holds_and_counts_add_up() {
    let answer = json(&["--target", "mi355x", "--slo", "ttft_ms=500", "tpot_ms=20"], 0);
    let count = |key: &str| answer[key].as_u64().unwrap();
    let rejected: u64 = answer["rejected"].as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum();
    assert_eq!(count("points"), count("feasible") + rejected);
    let best = &answer["best"];
    assert_eq!(best["metrics"]["tok_s_per_gpu"], best["objective"]);
    assert!(best["metrics"]["ttft_ms"].as_f64().unwrap() <= 500.0);
    assert!(best["metrics"]["tpot_ms"].as_f64().unwrap() <= 20.0);
    let figure = |p: &Value, key: &str| p["metrics"][key].as_f64().unwrap();
    let front: Vec<(f64, f64)> = answer["front"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (figure(p, "tok_s_per_user"), figure(p, "tok_s_per_gpu")))
        .collect();
    assert!(front.len() > 3 && front.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 > w[1].1), "{front:?}");
    assert!(front.iter().all(|p| p.1 <= best["objective"].as_f64().unwrap()));
    assert!(answer["elapsed_s"].is_f64() && answer["cpu_s"].is_f64() && answer["report"].is_null());
}

#[test]
fn a_tighter_limit_never_finds_more() {
    let feasible = |limit: &str| json(&["--target", "h100", "--slo", limit], 0)["feasible"].as_u64().unwrap();
    let (tight, loose) = (feasible("tpot_ms=10"), feasible("tpot_ms=30"));
    assert!(tight < loose, "{tight} {loose}");
}

#[test]
fn flags_replace_the_targets_defaults() {
    let flags = ["--concurrency", "64,32", "--isl", "512", "--osl", "128", "--space", "quick", "--gpus", "4"];
    let answer = json(&[&["--target", "mi355x"], &flags[..]].concat(), 0);
    assert_eq!((answer["workload"]["isl"].as_u64(), answer["workload"]["osl"].as_u64()), (Some(512), Some(128)));
    let best = &answer["best"];
    assert!([32, 64].contains(&best["deployment"]["concurrency"].as_u64().unwrap()));
    assert!(best["gpus"].as_u64().unwrap() <= 4);
}

#[test]
fn minimising_objectives_rank_low_first() {
    let answer = json(&["--target", "mi355x", "--objective", "cheapest"], 0);
    let best = answer["best"]["objective"].as_f64().unwrap();
    let top = answer["top"].as_array().unwrap();
    assert!(top.iter().all(|c| c["objective"].as_f64().unwrap() >= best));
    assert_eq!(answer["best"]["metrics"]["usd_per_m_output"].as_f64(), Some(best));
}

#[test]
fn an_infeasible_search_names_the_closest_point_and_what_blocks_it() {
    let arguments = ["--target", "mi355x", "--slo", "tpot_ms=0.01", "--no-report"];
    let text = printed(&arguments, 3);
    assert!(text.contains("Nothing is feasible") && text.contains("Closest") && text.contains("tpot_ms"), "{text}");
    let answer = json(&arguments[..4], 3);
    assert!(answer["best"].is_null());
    assert_eq!(answer["feasible"], 0);
    assert!(answer["closest"]["blocked_by"].as_str().unwrap().contains("over the budget of 0.01"));
}

#[test]
fn a_model_larger_than_the_cluster_is_said_not_to_fit() {
    let text = printed(&["--target", "h100", "--model", "deepseek-r1", "--gpus", "1", "--no-report"], 3);
    assert!(text.contains("does not fit in memory") && text.contains("Closest"), "{text}");
}

#[test]
fn a_report_is_written_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("reports");
    let text = printed(&["--target", "mi355x", "--space", "quick", "--out", out.to_str().unwrap()], 0);
    assert!(text.contains("Report: "));
    let run = fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
    for file in ["report.html", "pareto.svg", "pareto.png", "points.csv", "run.json", "shortlist.json"] {
        assert!(run.join(file).metadata().unwrap().len() > 0, "{file}");
    }
    let rows = fs::read_to_string(run.join("points.csv")).unwrap().lines().count() as u64;
    let record: Value = serde_json::from_str(&fs::read_to_string(run.join("run.json")).unwrap()).unwrap();
    assert_eq!(rows, 1 + record["counts"]["feasible"].as_u64().unwrap());
    let taken = folder.path().join("file");
    fs::write(&taken, "").unwrap();
    let error = refused(&["--target", "mi355x", "--out", taken.to_str().unwrap()]);
    assert!(error.contains("cannot be written"), "{error}");
}

#[test]
fn bad_flags_are_one_clear_error() {
    let has = |arguments: &[&str], parts: &[&str]| {
        let error = refused(&[&["--no-report"], arguments].concat());
        for part in parts {
            assert!(error.contains(part), "{part:?} not in {error}");
        }
        assert!(!error.contains("panicked"));
    };
    let on_mi355x = |arguments: &[&str], parts: &[&str]| has(&[&["--target", "mi355x"], arguments].concat(), parts);
    has(&["--target", "mi35x"], &["target `mi35x`", "Did you mean"]);
    has(&["--target", "mi350x", "--objective", "cheapest"], &["needs a price", "mi350x"]);
    on_mi355x(&["--model", "gpt-os-120b"], &["gpt-oss-120b"]);
    on_mi355x(&["--engine", "engine9"], &["engine9"]);
    on_mi355x(&["--space", "defualt"], &["Did you mean the built-in `default`?"]);
    on_mi355x(&["--objective", "chta"], &["`chat`"]);
    on_mi355x(&["--slo", "tftt_ms=5"], &["Did you mean `ttft_ms`?"]);
    on_mi355x(&["--slo", "ttft_ms=-5"], &["-5"]);
    on_mi355x(&["--slo", "ttft_ms=nan"], &["NaN"]);
    on_mi355x(&["--isl", "0"], &["--isl: 0"]);
    on_mi355x(&["--isl", "4000000000"], &["--isl"]);
    on_mi355x(&["--isl", "200000"], &["takes 131072"]);
    on_mi355x(&["--range-ratio", "nan"], &["--range-ratio: NaN"]);
    on_mi355x(&["--prefix-hit-rate", "1"], &["--prefix-hit-rate: 1"]);
    on_mi355x(&["--concurrency", "0"], &["--concurrency"]);
    on_mi355x(&["--gpus", "0"], &["--gpus"]);
    on_mi355x(&["--calibration", "no/such.yaml"], &["no such file"]);
}

#[test]
fn bad_files_are_one_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_string()
    };
    let mi355x = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("targets/mi355x.yaml")).unwrap();
    let target = |name: &str, bytes: &[u8]| refused(&["--no-report", "--target", &file(name, bytes)]);
    assert!(target("empty.yaml", b"").contains("is empty"));
    assert!(target("bytes.yaml", &[0xff, 0xfe, 0x00]).contains("is not UTF-8 text"));
    assert!(target("cut.yaml", &mi355x.as_bytes()[..mi355x.len() / 2]).contains("cut.yaml:"));
    let renamed = target("key.yaml", mi355x.replace("hbm_tb_s", "hbm_tbs").as_bytes());
    assert!(renamed.contains("key.yaml:10:3: ") && renamed.contains("Did you mean `hbm_tb_s`?"), "{renamed}");
    let error = refused(&["--no-report", "--target", folder.path().to_str().unwrap()]);
    assert!(error.contains("is a folder"), "{error}");
    let space = file("space.yaml", b"name: x\nabout: y\nknobs:\n  tp: [3]\n  concurrency: [4]\n");
    let none = printed(&["--no-report", "--target", "mi355x", "--space", &space], 3);
    assert!(none.contains("tp 3 does not divide 64 attention heads"), "{none}");
    let empty = file("none.yaml", b"name: x\nabout: y\nknobs:\n  tp: []\n  concurrency: [1]\n");
    let error = refused(&["--no-report", "--target", "mi355x", "--space", &empty]);
    assert!(error.contains("none.yaml:4:") && error.contains("empty list"), "{error}");
}

#[test]
fn the_shortlist_is_complete_enough_to_judge_a_measurement_by() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let flags = ["--target", "mi355x", "--space", "quick", "--slo", "ttft_ms=2000", "--shortlist", "5", "--out", out];
    printed(&flags, 0);
    let run = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let read = |name: &str| -> Value { serde_json::from_str(&fs::read_to_string(run.join(name)).unwrap()).unwrap() };
    let (list, record) = (read("shortlist.json"), read("run.json"));
    let entries = list["include"].as_array().unwrap();
    assert_eq!(entries.len(), 5);
    let figure = |entry: &Value, key: &str| entry[key].as_f64().unwrap_or_else(|| panic!("{key} in {entry}"));
    assert_eq!(entries[0]["role"], "best");
    let best = figure(&entries[0], "predicted_objective");
    assert!((best / record["best"]["objective"].as_f64().unwrap() - 1.0).abs() < 1e-4);
    let mut ids: Vec<&str> = entries.iter().map(|e| e["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), entries.len());
    for (at, entry) in entries.iter().enumerate() {
        assert_eq!(entry["rank"], at as u64 + 1);
        for key in ["ttft_ms", "tpot_ms", "e2e_ms", "output_tok_s", "total_tok_s", "tok_s_per_gpu", "tok_s_per_user"] {
            let value = figure(entry, &format!("predicted_{key}"));
            let (low, high) = (format!("predicted_{key}_low"), format!("predicted_{key}_high"));
            assert!(figure(entry, &low) < value && value < figure(entry, &high), "{key} of {entry}");
        }
        let rival = if at == 0 { &entries[1] } else { &entries[0] };
        assert_eq!(figure(entry, "objective_to_beat"), figure(rival, "predicted_objective"));
        assert_eq!((&entry["objective_metric"], figure(entry, "slo_ttft_ms")), (&"tok_s_per_gpu".into(), 2000.0));
        assert!(entry["launch"].as_str().unwrap().starts_with("vllm serve ") && entry["objective_maximise"] == true);
        assert!(!entry["band_origin"].as_str().unwrap().is_empty() && figure(entry, "band_coverage") == 0.8);
    }
    let wins: f64 = entries.iter().map(|e| figure(e, "win_probability")).sum();
    assert!((wins - 1.0).abs() < 1e-3, "{wins}");
}

#[test]
fn a_limit_on_a_percentile_is_checked_by_simulation() {
    let base = ["--target", "mi355x", "--model", "gpt-oss-120b", "--space", "quick", "--concurrency", "8,32,128"];
    let run = |slo: &[&str], code: i32| {
        let mut all = base.to_vec();
        all.extend_from_slice(slo);
        json(&all, code)
    };
    let loose = run(&["--slo", "ttft_p99_ms=60000"], 0);
    let seen = &loose["verification"];
    assert!(seen["passed"].as_u64().unwrap() > 0, "{seen}");
    let p99 = seen["best"]["ttft_ms"][3].as_f64().unwrap();
    // A limit just under what the recommendation shows excludes it, and the next one keeps the limit.
    let tight = run(&["--slo", &format!("ttft_p99_ms={:.1}", 0.95 * p99)], 0);
    let seen = &tight["verification"];
    assert!(seen["best"]["ttft_ms"][3].as_f64().unwrap() <= 0.95 * p99, "{seen}");
    let failed = seen["failed"].as_array().unwrap();
    assert!(failed.iter().any(|f| f["missed"].as_str().unwrap().starts_with("ttft_p99_ms ")), "{seen}");
    assert_ne!(tight["best"]["deployment"], loose["best"]["deployment"]);
    // Equal seeds, equal answers.
    assert_eq!(run(&["--slo", "ttft_p99_ms=60000"], 0)["verification"], loose["verification"]);
    let unmet = run(&["--slo", "ttft_p99_ms=0.5"], 3);
    assert!(unmet["best"].is_null());
    let error = refused(&["--target", "mi355x", "--slo", "ttft_p98_ms=5"]);
    assert!(error.contains("Did you mean"), "{error}");
}
