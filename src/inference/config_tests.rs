//! Configurations that are read, and those that are refused with their reason.

use super::config::{Config, Device, Dtype, Mode, ModelKind, ModelShape};
use crate::catalog::Document;

fn read(text: &str) -> crate::Result<Config> {
    Config::from_document(&Document { origin: "mine.yaml".into(), text: text.into() })
}

#[test]
fn nested_sections_and_spellings_are_read() {
    let config =
        read("dtype: bf16\ndevice: cpu\nmodel: { kind: mlp, hidden_size: 32 }\nrequest: { prompt_len: 7 }\n").unwrap();
    assert_eq!((config.dtype, config.device, config.model.kind), (Dtype::Bfloat16, Device::Cpu, ModelKind::Mlp));
    assert_eq!((config.model.hidden_size, config.request.prompt_len, config.steps), (32, 7, 4));
    assert_eq!(read("dtype: fp16").unwrap().dtype, Dtype::Float16);
    assert_eq!(read("dtype: float32").unwrap().dtype, Dtype::Float32);
}

#[test]
fn a_switched_on_continuous_batch_sets_the_mode() {
    let config = read("serving: { continuous_batch: { enabled: true } }").unwrap();
    assert_eq!(config.mode, Mode::ContinuousBatch);
    assert!(read("mode: continuous_batch").unwrap().serving.continuous_batch.enabled);
}

#[test]
fn the_text_of_a_configuration_reads_back() {
    let config = read("seed: 7\nserving: { kv_cache: false }").unwrap();
    let text = super::triage::document::text_of(&config).unwrap();
    assert_eq!(read(&text).unwrap(), config);
}

#[test]
fn each_defect_has_its_reason() {
    let cases = [
        ("mode: speculative", "unknown variant `speculative`"),
        ("dtype: int8", "unknown variant `int8`"),
        ("device: tpu", "unknown variant `tpu`"),
        ("steps: 0", "`steps` is 0"),
        ("steps: 1.5", "invalid type"),
        ("warmup_steps: -1", "invalid type: integer"),
        ("model: { kind: rnn }", "unknown variant `rnn`"),
        ("model: { num_layers: 0 }", "`model.num_layers` is 0"),
        ("model: { hidden_size: 100, num_heads: 3 }", "3 heads do not divide a hidden size of 100"),
        ("model: { num_heads: 0 }", "`model.num_heads` is 0"),
        ("model: { kind: mlp, num_experts: 4 }", "an mlp has no experts"),
        ("request: { batch_size: 0 }", "`request.batch_size` is 0"),
        ("request: { prompt_len: 0 }", "`request.prompt_len` is 0"),
        ("request: { generate_tokens: -1 }", "invalid type: integer"),
        ("serving: { continuous_batch: { max_active_requests: 0 } }", "max_active_requests` is 0"),
        ("serving: { continuous_batch: { arrival_pattern: poisson } }", "unknown variant `poisson`"),
        ("mode: continuous_batch\nrequest: { generate_tokens: 0 }", "`request.generate_tokens` is 0"),
        ("mode: continuous_batch\nmodel: { kind: encoder_transformer }", "an encoder generates nothing"),
        ("serving: { kv_cache: \"false\" }", "invalid type: string"),
        ("checks: { fail_on_nan_logits: 1 }", "invalid type: integer"),
        ("model: { hiden_size: 64 }", "Did you mean `hidden_size`?"),
        ("chekcs: {}", "Did you mean `checks`?"),
    ];
    for (text, reason) in cases {
        let error = read(text).unwrap_err();
        assert!(error.to_string().contains(reason), "{text}: {error}");
        assert!(error.to_string().starts_with("mine.yaml"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
    assert_eq!(read("request: { generate_tokens: 0 }").unwrap().request.generate_tokens, 0);
}

#[test]
fn parameter_counts_of_published_runs() {
    // The default, and two runs whose counts are known: 33,170,432, 115,328 and 10,291,712.
    let count = |h, l, f, v| {
        let shape = ModelShape { hidden_size: h, num_layers: l, ffn_size: f, vocab_size: v, ..Default::default() };
        shape.parameter_count()
    };
    assert_eq!(ModelShape::default().parameter_count(), 33_170_432);
    assert_eq!(count(64, 2, 128, 512), 115_328);
    assert_eq!(count(256, 2, 1024, 32000), 10_291_712);
}
