//! `inferasim show model`: what a model is made of, how many parameters it has and how it is stored.

use crate::model::{Ffn, LayerGroup, Mixer, Model};
use crate::report::terminal::table::{WIDTH, width, wrap};
use crate::{Result, error::exit};
use clap::Args;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use serde_json::{Value, json};

/// Arguments of `inferasim show model`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A built-in model, a config.json, a folder that holds one, or a model YAML.
    #[arg(value_name = "NAME_OR_FILE_OR_FOLDER")]
    model: String,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Loads and prints the model.
pub fn run(arguments: Arguments) -> Result<u8> {
    let model = Model::load(&arguments.model)?;
    if arguments.json {
        println!("{:#}", document(&model));
    } else {
        print!("{}", page(&model));
    }
    Ok(exit::ANSWER)
}

/// Everything, with `parameters` and `active_parameters` as numbers.
fn document(model: &Model) -> Value {
    let parameters = model.architecture.parameters();
    json!({
        "name": model.architecture.name,
        "parameters": parameters.total(),
        "active_parameters": parameters.active(),
        "mtp_parameters": parameters.mtp,
        "parameters_by_group": parameters,
        "architecture": model.architecture,
        "checkpoints": model.checkpoints,
        "published": model.published,
        "aliases": model.aliases,
        "source": model.source,
        "notes": model.notes,
    })
}

/// The page a person reads, within 100 columns.
fn page(model: &Model) -> String {
    let a = &model.architecture;
    let p = a.parameters();
    let mut out = format!("{} ({})\n", a.name, a.family);
    out += &format!("  {} parameters, {} active per token", billions(p.total()), billions(p.active()));
    if let Some(published) = &model.published {
        out += &format!("; published {} B", published.parameters_b);
        if let Some(active) = published.active_parameters_b {
            out += &format!(" and {active} B");
        }
    }
    out += &format!(
        "\n  hidden {}, vocabulary {}{}, context {} tokens, {} layers\n\n",
        a.hidden,
        a.vocab,
        if a.tied_embeddings { " (LM head tied)" } else { "" },
        a.max_context,
        a.layer_count()
    );
    let mut layers = table(&["Layers", "Mixer", "Feed-forward", "Parameters each"]);
    for group in &a.layers {
        layers.add_row([
            group.count.to_string(),
            mixer(&group.mixer),
            ffn(&group.ffn),
            millions(each(group, a.hidden)),
        ]);
    }
    out += &format!("{layers}\n\n");
    let mut groups = table(&["Parameters", "", "Share"]);
    let rows = [
        ("embedding", p.embedding),
        ("LM head", p.lm_head),
        ("attention and other mixers", p.attention),
        ("dense MLPs", p.dense),
        ("routers", p.router),
        ("routed experts", p.experts),
        ("shared experts", p.shared),
        ("norms", p.norms),
        ("encoder", p.encoder),
    ];
    for (name, n) in rows.into_iter().filter(|(_, n)| *n > 0) {
        groups.add_row([name.to_string(), billions(n), format!("{:.1} %", 100.0 * n as f64 / p.total() as f64)]);
    }
    if p.mtp > 0 {
        groups.add_row(["multi-token prediction (apart)".to_string(), billions(p.mtp), String::new()]);
    }
    out += &format!("{groups}\n\n");
    let mut stored = table(&["Checkpoint", "dtype", "Attention", "Dense", "Experts", "Shared", "LM head"]);
    for c in &model.checkpoints {
        let f = &c.formats;
        let cells = [f.attention, f.dense, f.experts, f.shared, f.lm_head].map(|f| f.to_string());
        stored.add_row([c.id.clone(), c.dtype.clone()].into_iter().chain(cells));
    }
    out += &format!("{stored}\n\nSource: {}\n", model.source);
    if let Some(published) = &model.published {
        out += &format!("Published figures: {}\n", published.source);
    }
    for note in &model.notes {
        out += &format!("Note: {note}\n");
    }
    out.lines().flat_map(within).map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A line as it is, or broken at spaces where it exceeds [`WIDTH`], the rest indented.
fn within(line: &str) -> Vec<String> {
    if width(line) <= WIDTH {
        return vec![line.to_string()];
    }
    let indent = line.len() - line.trim_start().len();
    let parts = wrap(line, WIDTH - indent - 2);
    let at = |i: usize| " ".repeat(if i == 0 { indent } else { indent + 2 });
    parts.iter().enumerate().map(|(i, part)| at(i) + part).collect()
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(100);
    table.set_header(header);
    if let Some(first) = table.column_mut(0) {
        first.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(44)));
    }
    table
}

fn each(group: &LayerGroup, hidden: u32) -> u64 {
    let experts = if let Ffn::Moe(moe) = &group.ffn { u64::from(moe.experts) } else { 0 };
    group.attention_parameters(hidden)
        + group.dense_parameters(hidden)
        + group.shared_parameters(hidden)
        + group.router_parameters(hidden)
        + group.norm_parameters(hidden)
        + group.expert_parameters(hidden) * experts
}

fn mixer(mixer: &Mixer) -> String {
    match mixer {
        Mixer::Gqa(a) => {
            let mut text = format!("attention {}/{} heads of {}", a.heads, a.kv_heads, a.head_dim);
            if let Some(window) = a.window {
                text += &format!(", window {window}");
            }
            if let Some(ratio) = a.compression {
                text += &format!(", context compressed {ratio}:1");
            }
            if let Some(i) = &a.indexer {
                text += &format!(", index top {}", i.top_k);
            }
            text
        }
        Mixer::Mla(a) => {
            let mut text = format!("latent attention {} heads, latent {} + {}", a.heads, a.kv_lora, a.rope);
            if let Some(i) = &a.indexer {
                text += &format!(", index top {}{}", i.top_k, if i.owns_index { "" } else { " (a neighbour's)" });
            }
            text
        }
        Mixer::Linear(a) => {
            format!("linear attention {}/{} heads of {}/{}", a.value_heads, a.key_heads, a.value_dim, a.key_dim)
        }
        Mixer::Mamba2(a) => format!("Mamba-2 {} heads of {}, state {}", a.heads, a.head_dim, a.state),
        Mixer::None => "-".into(),
    }
}

fn ffn(ffn: &Ffn) -> String {
    match ffn {
        Ffn::Dense { inter, gated } => format!("dense {inter}{}", if *gated { "" } else { ", no gate" }),
        Ffn::Moe(m) => {
            let mut text = format!("{} of {} experts of {}", m.top_k, m.experts, m.inter);
            if m.shared_inter > 0 {
                text += &format!(", shared {}", m.shared_inter);
            }
            if let Some(latent) = m.latent {
                text += &format!(", latent {latent}");
            }
            text
        }
        Ffn::None => "-".into(),
    }
}

fn billions(n: u64) -> String {
    format!("{:.2} B", n as f64 / 1e9)
}

fn millions(n: u64) -> String {
    format!("{:.1} M", n as f64 / 1e6)
}
