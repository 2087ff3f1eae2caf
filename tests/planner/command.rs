//! `inferasim-tune --backend llm` as a user runs it.

use crate::server::{Answer, Server, plan};
use assert_cmd::Command;
use serde_json::{Value, json};
use std::path::Path;

const BASE: [&str; 8] = ["--target", "mi355x", "--space", "quick", "--slo", "ttft_ms=500", "--budget", "40"];

fn tune(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inferasim-tune"));
    command.args(BASE).args(arguments);
    command
}

fn json_of(arguments: &[&str]) -> Value {
    let output =
        tune(arguments).arg("--json").env("PLANNER_KEY", "hunter2-secret").assert().code(0).get_output().clone();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn notes(answer: &Value) -> String {
    answer["search_notes"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

fn only_run(out: &Path) -> std::path::PathBuf {
    std::fs::read_dir(out).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn a_run_keeps_a_transcript_that_repeats_it_without_a_network() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("first");
    let server = Server::scripted(vec![
        plan(json!([{ "settings": { "tp": 1, "concurrency": 512 }, "why": "more load", "expects": 12000 }])),
        Answer::Text("{\"candidates\": [], \"done\": true}".into()),
    ]);
    let endpoint = ["--planner-url", &server.url, "--planner-model", "scripted", "--planner-key-env", "PLANNER_KEY"];
    let llm = ["--backend", "llm", "--out", out.to_str().unwrap()];
    let first = json_of(&[&llm[..], &endpoint].concat());
    assert_eq!((&first["backend"], &first["stop"]), (&json!("llm"), &json!("converged")));
    assert!(notes(&first).contains("Planner scripted: 2 calls, 220 tokens; "), "{}", notes(&first));
    assert!(notes(&first).contains("llm stopped: the model has nothing left to try."), "{}", notes(&first));
    let run = only_run(&out);
    for file in std::fs::read_dir(&run).unwrap() {
        let text = String::from_utf8_lossy(&std::fs::read(file.unwrap().path()).unwrap()).into_owned();
        assert!(!text.contains("hunter2"));
    }
    let transcript = run.join("planner.jsonl");
    let again = json_of(&["--backend", "llm", "--no-report", "--planner-replay", transcript.to_str().unwrap()]);
    for key in ["best", "evaluations", "feasible", "stop", "search_notes"] {
        assert_eq!(first[key], again[key], "{key}");
    }
    let other = ["--backend", "llm", "--no-report", "--seed", "9", "--planner-replay", transcript.to_str().unwrap()];
    assert!(notes(&json_of(&other)).contains("request 1 differs from the recorded one"));
}

#[test]
fn an_endpoint_that_is_down_is_said_and_another_backend_goes_on() {
    let down = ["--backend", "llm", "--no-report", "--planner-url", "http://127.0.0.1:9/v1", "--planner-model", "m"];
    let answer = json_of(&down);
    assert!(answer["evaluations"].as_u64().unwrap() > 20 && answer["best"].is_object(), "{answer}");
    let notes = notes(&answer);
    assert!(notes.contains("Planner given up: the endpoint does not answer") && notes.contains("ego chose"), "{notes}");
}

#[test]
fn a_pair_takes_turns() {
    let server = Server::scripted(vec![plan(json!([{ "settings": { "tp": 4, "concurrency": 4 } }]))]);
    let pair =
        ["--backend", "llm+random", "--no-report", "--planner-url", &server.url, "--planner-model", "m", "--seed", "3"];
    let answer = json_of(&pair);
    assert_eq!(answer["backend"], "llm+random");
    assert!(answer["evaluations"].as_u64().unwrap() > 20, "{answer}");
}

#[test]
fn flags_that_cannot_be_are_one_clear_error() {
    let refused = |arguments: &[&str], parts: &[&str]| {
        let output = tune(&[&["--no-report"], arguments].concat()).assert().code(2).get_output().clone();
        assert!(output.stdout.is_empty());
        let error = String::from_utf8(output.stderr).unwrap();
        for part in parts {
            assert!(error.contains(part), "{part} not in {error}");
        }
    };
    let url = ["--planner-url", "http://127.0.0.1:9/v1"];
    refused(&["--backend", "llm"], &["--planner-url is missing"]);
    refused(&[&["--backend", "llm"], &url[..]].concat(), &["--planner-model is missing"]);
    refused(&[&["--backend", "random"], &url[..]].concat(), &["--planner-url", "no planner is asked", "--backend llm"]);
    refused(&url, &["--planner-url", "no planner is asked"]);
    let named = ["--backend", "llm", "--planner-model", "m", "--planner-url"];
    refused(&[&named[..], &["not an address"]].concat(), &["--planner-url not an address"]);
    refused(&[&named[..], &["http://me:pw@h/v1"]].concat(), &["--planner-key-env"]);
    let keyed = ["http://127.0.0.1:9/v1", "--planner-key-env", "NO_SUCH_VARIABLE_HERE"];
    refused(&[&named[..], &keyed].concat(), &["--planner-key-env NO_SUCH_VARIABLE_HERE", "no such variable"]);
    refused(&["--backend", "llm", "--planner-replay", "absent.jsonl"], &["--planner-replay absent.jsonl"]);
    refused(&["--backend", "llm", "--planner-usd", "1"], &["--planner-price"]);
    refused(&["--backend", "llm", "--planner-price", "1"], &["two prices"]);
}
