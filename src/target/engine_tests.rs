//! Profiles under the names people use, and defaults by version and card.

use super::*;

#[test]
fn every_built_in_profile_loads_under_the_names_people_use() {
    for (spelling, name) in [
        ("vllm", "vllm"),
        ("vLLM", "vllm"),
        ("vllm (ROCm)", "vllm"),
        ("vllm + ATOM plugin", "vllm-atom"),
        ("ATOM-vLLM", "vllm-atom"),
        ("sglang + ATOM plugin", "sglang-atom"),
        ("moreh-vllm", "moreh-vllm"),
        ("trt", "trtllm"),
        ("TensorRT-LLM", "trtllm"),
        ("dynamo-trt", "trtllm"),
        ("dynamo-sglang", "sglang"),
        ("atom", "atom"),
        ("Aphrodite (vLLM fork)", "vllm"),
    ] {
        assert_eq!(EngineProfile::load(spelling).unwrap().name, name, "{spelling}");
    }
    assert!(EngineProfile::load("ollama").is_err());
}

#[test]
fn aiconfigurator_1396_vllm_fraction_is_092_from_022() {
    let vllm = EngineProfile::load("vllm").unwrap();
    assert_eq!(vllm.settings(Some("0.21.1")).memory_fraction, 0.9);
    assert_eq!(vllm.settings(Some("0.22")).memory_fraction, 0.92);
    assert_eq!(vllm.settings(None).memory_fraction, 0.92);
    assert!(!vllm.settings(Some("0.20.2rc1")).graphs_in_budget);
    assert!(vllm.settings(Some("0.21.0")).graphs_in_budget);
}

#[test]
fn vllm_step_limits_follow_the_cards_memory() {
    let now = EngineProfile::load("vllm").unwrap().settings(None);
    assert_eq!(now.step_limits(24.0).max_num_batched_tokens, 2048);
    assert_eq!(now.step_limits(79.2).max_num_batched_tokens, 8192);
    assert_eq!(now.step_limits(287.0).max_num_batched_tokens, 16384);
    assert_eq!(now.step_limits(287.0).max_num_seqs, 1024);
}

#[test]
fn a_version_without_a_number_is_refused_with_the_known_changes() {
    let vllm = EngineProfile::load("vllm").unwrap();
    for good in [None, Some("0.11"), Some("v0.22.1"), Some("V1"), Some("0.10.1.dev101")] {
        assert!(vllm.check_version(good).is_ok(), "{good:?}");
    }
    for bad in ["abc", "", "v", "main"] {
        let error = vllm.check_version(Some(bad)).unwrap_err().to_string();
        assert!(error.contains("not a version") && error.contains("0.8, 0.9, 0.14"), "{error}");
    }
}

#[test]
fn versions_compare_by_number() {
    assert_eq!(parse_version("0.10.1.dev101"), Some([0, 10, 1]));
    assert_eq!(parse_version("0.17.1 ROCm"), Some([0, 17, 1]));
    assert_eq!(parse_version("v0.22"), Some([0, 22, 0]));
    assert_eq!(parse_version("main"), None);
    assert!(parse_version("0.9") < parse_version("0.10"));
}
