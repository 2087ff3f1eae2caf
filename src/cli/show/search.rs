//! `inferasim show space` and `inferasim show objective`: what is searched and what is asked for.

use crate::Result;
use crate::error::exit;
use crate::objective::Objective;
use crate::report::terminal::table::Table;
use crate::space::{SpaceFile, Values};
use clap::Args;
use serde_json::json;
use std::fmt::Display;

/// Arguments of `inferasim show space`.
#[derive(Debug, Args)]
pub struct SpaceArguments {
    /// A built-in space or a YAML file
    #[arg(value_name = "NAME_OR_FILE")]
    space: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Arguments of `inferasim show objective`.
#[derive(Debug, Args)]
pub struct ObjectiveArguments {
    /// A built-in objective or a YAML file
    #[arg(value_name = "NAME_OR_FILE")]
    objective: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Loads and prints a space.
pub fn space(arguments: SpaceArguments) -> Result<u8> {
    let (file, document) = SpaceFile::load(&arguments.space)?;
    if arguments.json {
        println!("{:#}", json!({ "name": file.name, "about": file.about, "knobs": file.knobs }));
        return Ok(exit::ANSWER);
    }
    println!("{}: {}\n{}\n", file.name, file.about, document.origin);
    let k = &file.knobs;
    let mut table = Table::new(&[("knob", false), ("values", true), ("", false)]);
    let mut add = |knob: &str, (count, text): (String, String)| table.row(vec![knob.to_string(), count, text]);
    add("nodes", spelt(&k.nodes, "those of the target"));
    add("weight_dtype", spelt(&k.weight_dtype, "every published checkpoint"));
    add("kv_dtype", spelt(&k.kv_dtype, "bf16"));
    add("tp", spelt(&k.tp, ""));
    add("pp", spelt(&k.pp, ""));
    add("ep", spelt(&k.ep, ""));
    add("attention_dp", spelt(&k.attention_dp, ""));
    add("context_parallel", spelt(&k.context_parallel, ""));
    add("replicas", spelt(&k.replicas, "as many as the GPUs allow"));
    add("draft_tokens", spelt(&k.draft_tokens, ""));
    add("memory_fraction", spelt(&k.memory_fraction, "the engine's default"));
    add("max_num_seqs", spelt(&k.max_num_seqs, "the engine's default"));
    add("max_num_batched_tokens", spelt(&k.max_num_batched_tokens, "the engine's default"));
    add("concurrency", spelt(&k.concurrency, ""));
    table.lines().iter().for_each(|line| println!("{}", line.trim_end()));
    Ok(exit::ANSWER)
}

/// How many values, and which; or what a word stands for.
fn spelt<T: Display>(values: &Values<T>, word_means: &str) -> (String, String) {
    match values {
        Values::Word(word) => (word.clone(), word_means.to_string()),
        Values::List(list) => {
            let texts: Vec<String> = list.iter().take(64).map(T::to_string).collect();
            let more = if list.len() > 64 { ", …" } else { "" };
            (list.len().to_string(), texts.join(", ") + more)
        }
    }
}

/// Loads and prints an objective.
pub fn objective(arguments: ObjectiveArguments) -> Result<u8> {
    let (objective, document) = Objective::load(&arguments.objective)?;
    if arguments.json {
        let slos: serde_json::Map<_, _> =
            objective.slos.iter().map(|s| (s.metric.key().to_string(), json!(s.limit))).collect();
        let document = json!({
            "name": objective.name,
            "about": objective.about,
            "metric": objective.metric,
            "maximise": objective.metric.maximise(),
            "slo": slos,
        });
        println!("{document:#}");
        return Ok(exit::ANSWER);
    }
    println!("{}: {}\n{}\n", objective.name, objective.about, document.origin);
    println!("{}", objective.sentence());
    println!("  {}: {}", objective.metric, objective.metric.meaning());
    for slo in &objective.slos {
        println!("  {slo}: {}", slo.metric.meaning());
    }
    Ok(exit::ANSWER)
}
