//! `inferasim memory` as a user runs it: answers, exit codes and error lines.

use assert_cmd::Command;
use std::io::Write;

const HEADER: &str = "case_id,date,engine,version,model,weight_quant,gpu,gpus,tp,pp,dp,ep,kv_dtype,max_model_len,\
mem_util,max_num_batched_tokens,max_num_seqs,total_gib,weights_gib,kv_avail_gib,blocks,kv_tokens,max_concurrency_x,\
est_max_model_len,score_kv,score_weights\n";

fn memory() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inferasim"));
    command.arg("memory");
    command
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn fails(text: &str, says: &str) {
    let file = file(text);
    let output = memory().arg("--cases").arg(file.path()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(says), "{error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_cases_file_is_scored_as_json() {
    let row = "X1,2024-12-02,vLLM,,Llama-3.1-8B,,RTX 3090,1,,,,,,20000,0.9,,,23.58,14.9888,3.81,1952,,1.56,,yes,yes\n";
    let file = file(&format!("{HEADER}{row}"));
    let output = memory().arg("--cases").arg(file.path()).arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["summary"]["kv_tokens"]["within"], 1);
    assert_eq!(answer["summary"]["weights"]["within"], 1);
    assert_eq!(answer["cases"][0]["kv_from"], "logged");
}

#[test]
fn a_missing_column_is_named() {
    fails(&HEADER.replace("kv_avail_gib,", ""), "column `kv_avail_gib` is missing");
}

#[test]
fn a_word_where_a_number_belongs_is_named_with_its_line() {
    let row = "X1,,vLLM,,Llama-3.1-8B,,H100,one,,,,,,,,,,,,,,,,,,\n";
    fails(&format!("{HEADER}{row}"), ":2: `gpus` is `one`");
}

#[test]
fn a_short_row_is_an_error() {
    fails(&format!("{HEADER}X1,2024\n"), ":2");
}

#[test]
fn one_deployment_prints_its_budget() {
    let output = memory()
        .args(["--target", "mi355x", "--model", "gpt-oss-120b", "--engine", "vllm", "--tp", "8"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    for line in ["weights", "engine reserve", "activation", "graphs", "KV cache", "maximum concurrency"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
}

#[test]
fn a_model_that_does_not_fit_exits_3_with_the_nearest_change() {
    let output = memory()
        .args(["--target", "mi300x", "--model", "deepseek-r1", "--engine", "vllm", "--tp", "1"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("does not fit"), "{text}");
}

#[test]
fn a_rank_count_that_divides_nothing_is_refused() {
    let output = memory().args(["--target", "mi355x", "--model", "gpt-oss-120b", "--tp", "6"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("tp 6 does not divide 64 attention heads"));
}
