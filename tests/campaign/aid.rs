//! What the campaign tests share: a shortlist, a server that an engine's launch command can start, a free port.

use assert_cmd::Command;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// An entry as `inferasim-tune` writes it, with figures near what the test server does.
pub fn entry(rank: u64, launch: &str) -> Value {
    json!({"name": format!("m vllm TP{rank} c2"), "rank": rank, "model": "gpt-oss-120b", "checkpoint": "org/m",
        "engine": "vllm", "engine_version": "0.26 or later", "gpu": "MI355X", "gpus": rank, "tp": rank, "ep": 1,
        "attention_dp": 1, "pp": 1, "replicas": 1, "concurrency": 2, "weight_dtype": "mxfp4", "kv_dtype": "bf16",
        "isl": 100, "osl": 8, "range_ratio": 1.0, "num_prompts": 6, "predicted_ttft_ms": 30.0, "predicted_tpot_ms": 5.0,
        "predicted_output_tok_s": 240.0, "predicted_total_tok_s": 3240.0, "predicted_tok_s_per_gpu": 3240.0 / rank as f64,
        "objective_metric": "tok_s_per_gpu", "launch": launch})
}

pub fn write_shortlist(folder: &Path, entries: &[Value]) -> PathBuf {
    let file = folder.join("shortlist.json");
    std::fs::write(&file, json!({"include": entries}).to_string()).unwrap();
    file
}

/// `inferasim` with these words; spaces separate them.
pub fn inferasim(words: &str) -> Command {
    let mut command = Command::cargo_bin("inferasim").unwrap();
    command.args(words.split_whitespace()).timeout(std::time::Duration::from_secs(120));
    command
}

pub const QUICK: &str = "--settle 0 --burn-in 0 --metrics off";

/// The test server as a program. `cargo test` builds it with the other examples, `cargo test --test campaign` does not.
pub fn server_program() -> PathBuf {
    let program = assert_cmd::cargo::cargo_bin("inferasim").parent().unwrap().join("examples/stream_server");
    if !program.exists() {
        let mut cargo = std::process::Command::new(env!("CARGO"));
        cargo
            .args(["build", "--quiet", "--locked", "--example", "stream_server"])
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        // What cargo tells a test would make it build the dependencies anew.
        for (key, _) in
            std::env::vars().filter(|(k, _)| k.starts_with("CARGO_PKG_") || k.starts_with("CARGO_MANIFEST_"))
        {
            cargo.env_remove(key);
        }
        assert!(cargo.status().unwrap().success());
    }
    program
}

pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}
