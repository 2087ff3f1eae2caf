//! Prediction beside measurement: what moved, whether the winner changed, and anchors that the next projection uses.

use crate::aid::*;
use crate::stream_server::{StreamServer, steady};
use assert_cmd::Command;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Measures both entries: the first server is slow, the second as predicted.
fn measured(folder: &Path, entries: &[Value; 2]) -> std::path::PathBuf {
    let out = folder.join("measured");
    for (i, gap) in [20u64, 5].into_iter().enumerate() {
        let server =
            StreamServer::start(move |_| steady(Duration::from_millis(30), Duration::from_millis(gap), 8, 100));
        let file = write_shortlist(folder, entries);
        let rank = i + 1;
        let words = format!(
            "measure --shortlist {} --entry {rank} --url {} --out {} --requests 12 {QUICK}",
            file.display(),
            server.url(),
            out.join(format!("result-{rank}")).display()
        );
        inferasim(&words).assert().code(0);
    }
    out
}

#[test]
fn a_slow_finalist_loses_and_the_next_search_stands_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut entries = [entry(1, ""), entry(2, "")];
    // 30 ms + 7 x 5 ms for 108 tokens of two clients: about 3,300 tokens/s; the first server takes 30 + 7 x 20 ms.
    entries[1]["gpus"] = json!(1);
    entries[1]["predicted_tok_s_per_gpu"] = json!(3000.0);
    let out = measured(folder.path(), &entries);
    let (store, verdict) = (folder.path().join("anchors"), folder.path().join("verdict.md"));
    let words = format!(
        "compare {} --shortlist {} --band 0.4 --anchors {} --markdown {} --json",
        out.display(),
        folder.path().join("shortlist.json").display(),
        store.display(),
        verdict.display()
    );
    let output = inferasim(&words).assert().code(1).get_output().stdout.clone();
    let found: Value = serde_json::from_slice(&output).unwrap();
    let finalists = &found["comparison"]["finalists"];
    assert_eq!(
        (finalists[0]["moved"].as_str(), finalists[1]["moved"].as_str()),
        (Some("worse"), Some("as_predicted")),
        "{found:#}"
    );
    assert_eq!(finalists[1]["measured_rank"], 1);
    assert_eq!(found["comparison"]["winner"]["changed"], true);
    assert!(found["next"].as_str().unwrap().starts_with("inferasim-tune ... --anchors "));
    let verdict = std::fs::read_to_string(verdict).unwrap();
    assert!(verdict.contains("The winner changed: m vllm TP2 c2 instead of m vllm TP1 c2"), "{verdict}");

    // The same figures by the next projection at that very point.
    let words = format!(
        "project --target mi355x --model gpt-oss-120b --engine vllm --tp 1 --concurrency 2 --isl 100 --osl 8 --kv-dtype bf16 \
         --anchors {} --json",
        store.display()
    );
    let projected: Value = serde_json::from_slice(&inferasim(&words).assert().code(0).get_output().stdout).unwrap();
    let anchor = read_json(&store.join("01-m-vllm-tp1-c2-c2.json"));
    assert_eq!(projected["tpot_ms"], anchor["measured"]["tpot_ms"]);
    assert_eq!(projected["ttft_ms"], anchor["measured"]["ttft_ms"]);

    let text = String::from_utf8(inferasim(&words_of_text(&out)).assert().code(1).get_output().stdout.clone()).unwrap();
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
}

/// Search, measure a finalist, compare, search again with the command that the comparison prints.
#[test]
fn the_next_search_it_prints_stands_on_the_runs() {
    let folder = tempfile::tempdir().unwrap();
    let tune = |words: &str| {
        let mut command = Command::cargo_bin("inferasim-tune").unwrap();
        let run = command.args(words.split_whitespace()).current_dir(folder.path()).assert().code(0);
        String::from_utf8(run.get_output().stdout.clone()).unwrap()
    };
    let first = tune("--target mi355x --space quick --slo ttft_ms=500 --isl 100 --osl 8 --shortlist 3 --out reports");
    assert!(!first.contains("anchor"), "{first}");
    let report = std::fs::read_dir(folder.path().join("reports")).unwrap().next().unwrap().unwrap().path();
    let shortlist = report.join("shortlist.json");
    let server = StreamServer::start(|_| steady(Duration::from_millis(30), Duration::from_millis(5), 8, 100));
    let out = folder.path().join("measured");
    let words = format!(
        "measure --shortlist {} --entry 3 --url {} --out {} --requests 32 {QUICK}",
        shortlist.display(),
        server.url(),
        out.display()
    );
    inferasim(&words).assert().code(0);
    let words = format!(
        "compare {} --shortlist {} --anchors {} --json",
        out.display(),
        shortlist.display(),
        folder.path().join("anchors").display()
    );
    let found: Value = serde_json::from_slice(&inferasim(&words).assert().code(1).get_output().stdout).unwrap();
    assert_eq!(found["anchors"], 1);
    assert_eq!(found["calibrate"], Value::Null, "one run is too few for a fit");
    let next = found["next"].as_str().unwrap().strip_prefix("inferasim-tune ").unwrap().to_string();
    let second = tune(&next);
    assert!(second.contains("anchors: TPOT and throughput") && second.contains("anchors: TTFT"), "{next}\n{second}");

    // With runs at more loads the comparison offers a fit, and a search takes its profile.
    let store = folder.path().join("anchors");
    more_loads(&store);
    let found: Value = serde_json::from_slice(&inferasim(&words).assert().code(1).get_output().stdout).unwrap();
    let offered = found["calibrate"].as_str().unwrap().strip_prefix("inferasim ").unwrap().to_string();
    assert!(offered.starts_with("calibrate --measured ") && offered.ends_with("--out calibration.yaml"), "{offered}");
    let mut fit = inferasim(&offered);
    let fit = fit.current_dir(folder.path()).assert().code(0);
    let said = String::from_utf8(fit.get_output().stdout.clone()).unwrap();
    assert!(said.starts_with("4 rows"), "{said}");
    let third = tune("--target mi355x --space quick --isl 100 --osl 8 --calibration calibration.yaml --no-report");
    // 143 public runs of vLLM on MI355X, and these.
    assert!(third.contains("fitted on 147 runs"), "{third}");
}

/// The one anchor of a store at three higher loads, its figures in agreement with each other.
fn more_loads(store: &Path) {
    let file = std::fs::read_dir(store).unwrap().next().unwrap().unwrap().path();
    let anchor = read_json(&file);
    let clients = anchor["load"]["concurrency"].as_u64().unwrap();
    for factor in [2, 4, 8] {
        let mut other = anchor.clone();
        let tpot = anchor["measured"]["tpot_ms"].as_f64().unwrap() * (1.0 + 0.05 * factor as f64);
        let latency = anchor["measured"]["ttft_ms"].as_f64().unwrap() + 7.0 * tpot;
        other["id"] = json!(format!("more-{factor}"));
        other["load"]["concurrency"] = json!(factor * clients);
        other["measured"]["tpot_ms"] = json!(tpot);
        other["measured"]["output_tok_s"] = json!((factor * clients * 8) as f64 / latency * 1e3);
        std::fs::write(store.join(format!("more-{factor}.json")), other.to_string()).unwrap();
    }
}

fn words_of_text(out: &Path) -> String {
    format!("compare {}", out.display())
}

#[test]
fn results_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let refused =
        |words: &str| String::from_utf8(inferasim(words).assert().code(2).get_output().stderr.clone()).unwrap();
    let here = folder.path().display();
    assert!(refused(&format!("compare {here}")).contains("no result.json below it"));
    assert!(refused(&format!("compare {here}/nowhere")).contains("nowhere"));
    std::fs::write(folder.path().join("result.json"), "{}").unwrap();
    assert!(refused(&format!("compare {here}")).contains("not a result"));
    assert!(refused(&format!("compare {here} --band 0")).contains("--band"));
}
