//! `inferasim project` as a user runs it: the JSON contract, exit codes, and printed lines that add up.

use assert_cmd::Command;
use serde_json::Value;

fn project(arguments: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inferasim"));
    let output = command.arg("project").args(arguments.split_whitespace()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn json(arguments: &str, code: i32) -> Value {
    let (status, out, error) = project(&format!("{arguments} --json"));
    assert_eq!(status, Some(code), "{error}");
    serde_json::from_str(&out).unwrap()
}

const ASKED: &str = "--target mi355x --model gpt-oss-120b --engine vllm --tp 8 --concurrency 64 --isl 1024 --osl 1024";

fn sum(lines: &Value, key: &str) -> f64 {
    lines.as_array().unwrap().iter().map(|l| l[key].as_f64().unwrap()).sum()
}

fn near(a: f64, b: f64) {
    assert!((a / b - 1.0).abs() < 1e-9, "{a} against {b}");
}

#[test]
fn the_document_keeps_its_contract() {
    let p = json(ASKED, 0);
    for key in ["ttft_ms", "tpot_ms", "output_tok_s", "total_tok_s", "tok_s_per_gpu"] {
        assert!(p[key].as_f64().unwrap() > 0.0, "{key}");
    }
    let lines = ["total", "budget", "weights", "activation", "engine_reserve", "graphs", "state", "kv_available"];
    for key in lines.iter().chain(&["kv_tokens", "max_concurrency"]) {
        assert!(p["memory"][key].is_number(), "{key}");
    }
    assert!(p["calibration"]["statements"].is_array());
    assert!(p["bound"].is_string());
    // Equal lengths: half of all tokens are output; eight GPUs share them.
    near(p["total_tok_s"].as_f64().unwrap(), 2.0 * p["output_tok_s"].as_f64().unwrap());
    near(p["tok_s_per_gpu"].as_f64().unwrap(), p["total_tok_s"].as_f64().unwrap() / 8.0);
    let parts: f64 = p["breakdown"].as_object().unwrap().values().map(|v| v.as_f64().unwrap()).sum();
    near(parts, p["tpot_ms"].as_f64().unwrap());
    assert!(p.get("explain").is_none());
}

#[test]
fn explained_lines_add_up() {
    let p = json(&format!("{ASKED} --explain --speculation 3 --tokens-per-step 2.5"), 0);
    let e = &p["explain"];
    let step = &e["step"];
    let ops = sum(&step["ops"], "step_us");
    let whole = step["total_us"].as_f64().unwrap();
    near(ops + step["small_us"].as_f64().unwrap() + step["host_us"].as_f64().unwrap(), whole);
    near(sum(&e["assembly"]["tpot"], "ms"), p["tpot_ms"].as_f64().unwrap());
    near(sum(&e["prefill"]["lines"], "added_us") / 1e3, e["prefill"]["added_ms"].as_f64().unwrap());
    // vLLM: the fraction is for everything, so the lines below the budget fill it.
    let lines = e["memory_lines"].as_array().unwrap();
    let bytes = |name: &str| lines.iter().find(|l| l["name"] == name).unwrap()["value"].as_f64().unwrap();
    let below = ["weights", "engine reserve", "activation", "state", "KV cache"].iter().map(|n| bytes(n)).sum::<f64>();
    let gap = bytes("budget") - below;
    assert!(gap.abs() < 1.0 || (gap - bytes("graphs")).abs() < 1.0, "{gap}");
    assert!(e["constants"].as_array().unwrap().iter().all(|c| c["origin"].is_string()));
}

#[test]
fn printed_ops_add_up_and_fit_100_columns() {
    for more in ["", " --attention-dp 8 --ep 8", " --slo ttft_ms=1 tpot_ms=1"] {
        let (_, out, error) = project(&format!("{ASKED} --explain{more}"));
        assert!(error.is_empty(), "{error}");
        let widest = out.lines().max_by_key(|l| l.chars().count()).unwrap();
        assert!(widest.chars().count() <= 100, "{widest}");
        let block = out.split("Time of a decode step").nth(1).unwrap().split("\n\n").next().unwrap();
        let mut rows: Vec<f64> = Vec::new();
        let mut total = None;
        for line in block.lines().skip_while(|l| !l.contains("mem arm")).skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |back: usize| words[words.len() - back].replace(',', "").parse::<f64>();
            match words.first() {
                Some(&"step") => total = number(1).ok(),
                Some(&"host") | Some(&"small") if total.is_none() => rows.push(number(1).unwrap()),
                _ if total.is_none() => rows.push(number(2).unwrap()),
                _ => {}
            }
        }
        let (sum, total) = (rows.iter().sum::<f64>(), total.unwrap());
        assert!((sum - total).abs() <= 0.05 * (rows.len() + 1) as f64, "{sum} against {total}\n{block}");
    }
}

#[test]
fn an_illegal_deployment_lists_every_broken_rule() {
    let (code, out, error) = project("--model gpt-oss-120b --tp 6 --ep 5 --pp 40");
    assert_eq!((code, out.as_str()), (Some(2), ""), "{error}");
    for rule in
        ["needs 240 GPUs", "pp 40 exceeds 36 layers", "does not divide 64 attention heads", "ep 5 does not divide"]
    {
        assert!(error.contains(rule), "{rule}: {error}");
    }
}

#[test]
fn bad_input_is_named() {
    for (arguments, says) in [
        ("--kv-dtype fp7", "not a KV format"),
        ("--weight-dtype fp64", "no checkpoint in fp64"),
        ("--memory-fraction 1.5", "memory fraction 1.5"),
        ("--memory-fraction NaN", "memory fraction NaN"),
        ("--isl 0", "--isl"),
        ("--isl 200000 --osl 2", "200002 tokens"),
        ("--range-ratio 1.5", "--range-ratio"),
        ("--slo ttft=5", "ttft_ms"),
        ("--engine-version newest", "not a version"),
        ("--speculation 3 --tokens-per-step 9", "9 tokens per step"),
        ("--model gpt-oss-12b", "gpt-oss"),
        ("--concurrency 1 --replicas 2", "idle"),
    ] {
        let (code, out, error) = project(arguments);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{arguments}: {error}");
        assert!(error.contains(says), "{arguments}: {error}");
    }
}

#[test]
fn what_does_not_fit_says_which_line_binds_and_what_helps() {
    let (code, out, _) = project("--target h100 --model deepseek-r1 --tp 8 --isl 1000 --osl 1000");
    assert_eq!(code, Some(3));
    assert!(out.contains("Does not fit") && out.contains("weights in memory"), "{out}");
    let p = json("--target h100 --model deepseek-r1 --tp 8 --isl 1000 --osl 1000", 3);
    assert_eq!((p["feasible"].as_bool(), p.get("ttft_ms")), (Some(false), None));
    assert!(p["memory"]["weights"].as_f64() > p["memory"]["budget"].as_f64());
}

#[test]
fn the_change_offered_for_a_broken_limit_keeps_it() {
    let broken = format!("{ASKED} --slo tpot_ms=5");
    let p = json(&broken, 3);
    let change = p["broken"][0]["change"].as_str().unwrap();
    let concurrency = change.split("concurrency ").nth(1).expect(change);
    let given: u32 = concurrency.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
    json(&broken.replace("--concurrency 64", &format!("--concurrency {given}")), 0);
    json(&broken.replace("--concurrency 64", &format!("--concurrency {}", given + 1)), 3);
}
