//! What does a Hugging Face `config.json` describe? Layers, parameters and weight formats, or a named refusal.
//!
//! `cargo run --example read_config -- path/to/config.json`; without a path it reads one written here.

use inferasim::Result;
use inferasim::model::{Model, import};

/// A small dense model in the layout of Llama-3.2-1B's published file.
const CONFIG: &str = r#"{
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
  "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
  "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "max_position_embeddings": 131072,
  "tie_word_embeddings": true
}"#;

fn main() -> Result<()> {
    let model = match std::env::args().nth(1) {
        Some(path) => Model::load(&path)?,
        None => import::config_json("config.json", "example/llama-1b", CONFIG, None)?,
    };
    let parameters = model.architecture.parameters();
    println!("{}", model.architecture.name);
    println!("{} layers, {:.2} B parameters", model.architecture.layer_count(), parameters.total() as f64 / 1e9);
    println!("{:.2} B active per token (no input embedding, LM head included)", parameters.active() as f64 / 1e9);
    for checkpoint in &model.checkpoints {
        println!("checkpoint in {}", checkpoint.dtype);
    }
    for note in &model.notes {
        println!("note: {note}");
    }
    Ok(())
}
