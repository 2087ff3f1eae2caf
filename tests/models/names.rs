//! Names users and records use find their preset.

use crate::common::data;
use inferasim::model::Model;

#[test]
fn organisation_precision_and_case_do_not_matter() {
    for (asked, preset) in [
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("DeepSeek-R1-0528-MXFP4-MTP-MoEFP4", "deepseek-r1"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-r1"),
        ("Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct-FP8", "qwen3-next-80b-a3b"),
        ("Kimi-K2-Thinking-MXFP4", "kimi-k2-thinking"),
        ("Qwen3.8-27B NVFP4 (unsloth)", "qwen3.5-27b"),
        ("nvidia/Llama-3.3-70B-Instruct-NVFP4", "llama-3.3-70b"),
    ] {
        assert_eq!(Model::preset_name(asked), Some(preset), "{asked}");
    }
    assert_eq!(Model::preset_name("gpt-4"), None);
}

#[test]
fn every_measured_model_has_a_preset() {
    let Some(file) = data("measured_serving.csv") else { return };
    let mut reader = csv::Reader::from_path(file).unwrap();
    let at = reader.headers().unwrap().iter().position(|h| h == "model").unwrap();
    let mut missing = std::collections::BTreeSet::new();
    for row in reader.records() {
        let row = row.unwrap();
        if Model::preset_name(&row[at]).is_none() {
            missing.insert(row[at].to_string());
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_scored_memory_log_has_a_preset() {
    let Some(file) = data("engine_memory_logs.csv") else { return };
    let mut reader = csv::Reader::from_path(file).unwrap();
    let header = reader.headers().unwrap().clone();
    let at = |name: &str| header.iter().position(|h| h == name).unwrap();
    let (model, kv, weights) = (at("model"), at("score_kv"), at("score_weights"));
    let mut missing = std::collections::BTreeSet::new();
    for row in reader.records() {
        let row = row.unwrap();
        let scored = &row[kv] == "yes" || &row[weights] == "yes";
        if scored && Model::preset_name(&row[model]).is_none() {
            missing.insert(row[model].to_string());
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}
