//! One clear error for each kind of bad file.

use inferasim::model::{Model, import};
use serde_json::{Value, json};

fn llama() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
        "max_position_embeddings": 8192,
    })
}

fn with(key: &str, value: Value) -> String {
    let mut config = llama();
    config[key] = value;
    config.to_string()
}

fn error(text: &str) -> String {
    import::config_json("config.json", "org/model", text, None).expect_err("must be refused").to_string()
}

fn says(text: &str, fragments: &[&str]) {
    let message = error(text);
    for fragment in fragments {
        assert!(message.contains(fragment), "`{fragment}` is not in: {message}");
    }
    assert!(!message.contains('\n'), "more than one line: {message}");
}

#[test]
fn files_of_something_else() {
    says(r#"{"architectures":["BertForMaskedLM"],"hidden_size":768}"#, &["BertForMaskedLM", "generates no tokens"]);
    says(r#"{"model_type":"t5","d_model":512}"#, &["encoder-decoder"]);
    says(r#"{"_class_name":"UNet2DConditionModel","sample_size":64}"#, &["architectures", "Supported"]);
    says(r#"{"architectures":["JambaForCausalLM"]}"#, &["Jamba", "Mamba-1"]);
    says(r#"{"architectures":["FooForCausalLM"]}"#, &["FooForCausalLM", "Supported", "Llama", "gpt-oss"]);
    says(r#"{"name":"left-pad","version":"1.0.0"}"#, &["architectures"]);
    says("[1, 2, 3]", &["not an object"]);
    says("", &["not valid JSON", "cut off"]);
    says(&llama().to_string()[..100], &["not valid JSON", "cut off"]);
    says("hello: yaml", &["not valid JSON"]);
}

#[test]
fn figures_that_cannot_be() {
    says(&with("hidden_size", json!(-4096)), &["hidden_size", "-4096"]);
    says(&with("hidden_size", json!("4096")), &["hidden_size", "whole number"]);
    says(&with("hidden_size", json!(40.96)), &["hidden_size", "40.96"]);
    says(&with("hidden_size", json!(null)), &["hidden_size", "missing"]);
    says(&with("hidden_size", json!(1e300)), &["hidden_size"]);
    says(&with("num_attention_heads", json!(0)), &["num_attention_heads", "0"]);
    says(&with("num_key_value_heads", json!(5)), &["num_key_value_heads", "does not divide"]);
    says(&with("num_hidden_layers", json!(1_000_000)), &["num_hidden_layers", "1000000"]);
    says(&with("vocab_size", json!(u64::MAX)), &["vocab_size"]);
    says(&with("tie_word_embeddings", json!("maybe")), &["tie_word_embeddings"]);
    says(&with("layer_types", json!(["full_attention"])), &["layer_types", "32 layers"]);
    says(&with("layer_types", json!(vec!["retention"; 32])), &["layer_types", "retention", "known are"]);
    says(&with("block_configs", json!([{"ffn": 1}])), &["block_configs", "not modelled"]);
    let mut huge = llama();
    huge["hidden_size"] = json!(1 << 29);
    huge["intermediate_size"] = json!(1 << 29);
    says(&huge.to_string(), &["parameters"]);
    let mut moe = llama();
    moe["num_local_experts"] = json!(4);
    moe["num_experts_per_tok"] = json!(8);
    says(&moe.to_string(), &["num_experts_per_tok", "4 experts"]);
}

#[test]
fn unknown_quantisation_and_unknown_keys_are_named() {
    says(&with("quantization_config", json!({"quant_method": "exl3", "bits": 3})), &["exl3", "Supported"]);
    says(&with("quantization_config", json!({"quant_method": "gptq", "bits": 3})), &["gptq", "4 and 8 bits"]);
    let model = import::config_json("c", "m", &with("latent_attention_rank", json!(64)), None).unwrap();
    assert!(model.notes[0].contains("latent_attention_rank"), "{:?}", model.notes);
}

#[test]
fn paths_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let load = |p: &str| Model::load(p).expect_err("must be refused").to_string();
    assert!(load(&folder.path().display().to_string()).contains("no config.json"));
    assert!(load(&path("absent.json")).contains("no such file"));
    std::fs::write(path("config.json"), [0xff, 0xfe, 0x00]).unwrap();
    assert!(load(&path("config.json")).contains("not text"));
    std::fs::write(path("model.yaml"), "architecture:\n  nam: x\n").unwrap();
    let message = load(&path("model.yaml"));
    assert!(message.contains("model.yaml:2") && message.contains("`name`"), "{message}");
}

#[test]
fn the_command_ends_with_code_2_and_one_line() {
    let mut command = assert_cmd::Command::cargo_bin("inferasim").unwrap();
    let run = command.args(["show", "model", "gpt-oss-120", "--json"]).assert().code(2);
    let output = run.get_output();
    assert!(output.stdout.is_empty());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("Did you mean the built-in `gpt-oss-120b`"), "{message}");
}

#[test]
fn the_command_prints_counts_as_numbers() {
    let mut command = assert_cmd::Command::cargo_bin("inferasim").unwrap();
    let run = command.args(["show", "model", "gpt-oss-120b", "--json"]).assert().success();
    let printed: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    // The model card's 116.83 B and 5.13 B.
    assert_eq!((printed["parameters"].as_f64().unwrap() / 1e7).round(), 11683.0);
    assert_eq!((printed["active_parameters"].as_f64().unwrap() / 1e7).round(), 513.0);
}
