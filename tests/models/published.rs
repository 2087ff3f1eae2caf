//! Parameter counts against published figures.

use crate::common::data;
use inferasim::catalog::{self, Kind};
use inferasim::model::{Model, Parameters};

/// Largest distance of a total, in billions: 1 %, or the rounding of a figure given in few digits (`2B`, `1.6 T`).
fn room(published: f64) -> f64 {
    let digits = format!("{published}");
    let step = match digits.split_once('.') {
        Some((_, decimals)) => 10f64.powi(-(decimals.len() as i32)),
        None => 10f64.powi(digits.len() as i32 - digits.trim_end_matches('0').len() as i32),
    };
    (published * 0.01).max((step / 2.0).min(if published < 50.0 { step / 2.0 } else { published * 0.02 }))
}

/// Publishers count the embedding and the head among the active parameters or leave them out, so the figure lies
/// between the count without a head and the count with both; the rounding of the figure comes on top.
fn active_agrees(p: &Parameters, published: f64) -> bool {
    let half = if published.fract() == 0.0 { 0.5 } else { f64::max(0.05, published * 0.005) };
    let active = p.active() as f64 / 1e9;
    active - p.output as f64 / 1e9 - half <= published && published <= active + p.embedding as f64 / 1e9 + half
}

/// Kimi-Linear's name and card say 48 B, but the shapes of its own config.json come to more: 26 · 256 experts of
/// 3 · 2304 · 1024 are 47.1 B, both tables 0.76 B, 20 delta and 7 latent mixers 1.0 B, shared and dense MLPs 0.25 B.
const KIMI_LINEAR: f64 = 49.1;

pub fn check(name: &str, p: &Parameters, total: f64, active: Option<f64>) -> Vec<String> {
    let mut wrong = Vec::new();
    let total = if name.to_lowercase().starts_with("kimi-linear") { KIMI_LINEAR } else { total };
    let counted = p.total() as f64 / 1e9;
    if (counted - total).abs() > room(total) {
        wrong.push(format!("{name}: {counted:.2} B counted, {total} B published"));
    }
    if let Some(active) = active
        && !active_agrees(p, active)
    {
        wrong.push(format!("{name}: {:.2} B active counted, {active} B published", p.active() as f64 / 1e9));
    }
    wrong
}

#[test]
fn every_preset_agrees_with_its_publisher() {
    let mut wrong = Vec::new();
    for name in catalog::names(Kind::Model) {
        let model = Model::load(name).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(model.architecture.name, name);
        let Some(published) = model.published else {
            // Their publishers state no count that the shapes could be held against.
            assert!(["glm-5.3-flash", "inkling-small"].contains(&name), "{name} states no published figure");
            continue;
        };
        let p = model.architecture.parameters();
        wrong.extend(check(name, &p, published.parameters_b, published.active_parameters_b));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Figures of model cards and reports where the file's name says none or a rounder one.
const CARDS: &[(&str, f64, Option<f64>)] = &[
    ("DeepSeek-V3", 671.0, Some(37.0)),
    ("DeepSeek-R1", 671.0, Some(37.0)),
    ("DeepSeek-V4-Pro", 1600.0, Some(49.0)),
    ("Kimi-K2", 1026.0, Some(32.0)),
    ("GLM-5", 744.0, Some(40.0)),
    ("MiniMax-M2", 230.0, Some(10.0)),
    ("Mixtral-8x7B", 46.7, Some(12.9)),
    ("gpt-oss-120b", 116.8, Some(5.1)),
    ("gpt-oss-20b", 20.9, Some(3.6)),
    ("Llama-4-Maverick", 400.0, Some(17.0)),
    ("Llama-4-Scout", 109.0, Some(17.0)),
    ("Nemotron-3-Nano-30B", 31.6, Some(3.2)),
    ("Nemotron-3.5-Lightning-30B", 31.6, Some(3.2)),
    ("MiMo-7B", 7.6, None),
    ("Qwen3-32B", 32.8, None),
    // The weight indexes, which count the encoder.
    ("Qwen3-VL-32B", 33.4, None),
    ("Qwen3-VL-8B", 8.77, None),
];

/// `235B-A22B` in a name.
fn figures_in(name: &str) -> Option<(f64, Option<f64>)> {
    let number = |p: &str| p.strip_suffix('B').and_then(|n| n.parse::<f64>().ok());
    let parts: Vec<&str> = name.split(['-', '_']).collect();
    let total = parts.iter().find_map(|p| number(p))?;
    Some((total, parts.iter().find_map(|p| number(p.strip_prefix('A')?))))
}

#[test]
fn every_published_config_agrees_with_its_publisher() {
    let Some(folder) = data("configs") else { return };
    let (mut wrong, mut files) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().to_string();
        if !name.ends_with("_config.json") || name.ends_with("hf_quant_config.json") {
            continue;
        }
        files += 1;
        let model = match Model::load(path.to_str().unwrap()) {
            Ok(model) => model,
            Err(e) => {
                wrong.push(e.to_string());
                continue;
            }
        };
        let card = CARDS.iter().find(|(n, ..)| name.contains(n)).map(|(_, t, a)| (*t, *a));
        let (total, active) = card.or_else(|| figures_in(&name)).unwrap_or_else(|| panic!("{name}: no figure known"));
        wrong.extend(check(&name, &model.architecture.parameters(), total, active));
    }
    assert!(files > 50, "{files} files");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Hand-computed: Llama-3.1-8B, layer by layer.
#[test]
fn counts_of_one_layer() {
    let model = Model::load("llama-3.1-8b").unwrap();
    let layer = &model.architecture.layers[0];
    // q and o: 4096 · 4096; k and v: 4096 · 1024.
    assert_eq!(layer.attention_parameters(4096), 2 * 16_777_216 + 2 * 4_194_304);
    assert_eq!(layer.dense_parameters(4096), 3 * 4096 * 14_336);
    assert_eq!(layer.norm_parameters(4096), 8192);
    assert_eq!(layer.expert_parameters(4096), 0);
    // The weight index of meta-llama/Llama-3.1-8B: 8,030,261,248 parameters, exactly.
    assert_eq!(model.architecture.parameters().total(), 8_030_261_248);
}
