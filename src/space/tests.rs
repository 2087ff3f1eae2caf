//! Spaces on a stub model; counts checked by hand.

use super::*;
use crate::catalog::{self, Document, Kind};
use crate::model::{Architecture, Checkpoint, Ffn, Formats, LayerGroup, Mixer, Mla, Moe, WeightFormat};
use proptest::prelude::*;

pub(crate) fn stub(moe: bool) -> Model {
    let mla =
        Mixer::Mla(Mla { heads: 128, q_lora: None, kv_lora: 512, nope: 128, rope: 64, v_dim: 128, indexer: None });
    let ffn = if moe {
        Ffn::Moe(Moe {
            experts: 256,
            top_k: 8,
            inter: 2048,
            shared_inter: 0,
            gated: true,
            bias: false,
            latent: None,
            shared_gate: false,
        })
    } else {
        Ffn::Dense { inter: 8192, gated: true }
    };
    let checkpoint =
        |dtype: &str, format| Checkpoint { dtype: dtype.into(), id: dtype.into(), formats: Formats::uniform(format) };
    Model {
        architecture: Architecture {
            name: "stub".into(),
            family: "Stub".into(),
            hidden: 4096,
            vocab: 1000,
            tied_embeddings: false,
            max_context: 8192,
            layers: vec![LayerGroup { count: 61, mixer: mla, ffn }],
            mtp_layers: 0,
            encoder_parameters: 0,
        },
        checkpoints: vec![checkpoint("fp8", WeightFormat::Fp8), checkpoint("bf16", WeightFormat::Bf16)],
        published: None,
        aliases: vec![],
        source: "test".into(),
        notes: vec![],
    }
}

fn document(knobs: &str) -> Document {
    Document { origin: "mine.yaml".into(), text: format!("name: mine\nabout: test\nknobs:\n{knobs}") }
}

fn space(knobs: &str, moe: bool) -> Space {
    let file = SpaceFile::from_document(&document(knobs)).unwrap();
    let engine =
        EngineLimits { max_num_batched_tokens: 8192, max_num_seqs: 256, memory_fraction: 0.9, accepted_tokens: 2.0 };
    Space::new(&file, &Context { model: &stub(moe), gpus_per_node: 8, gpus: 8, engine }).unwrap()
}

fn refusal(knobs: &str) -> String {
    SpaceFile::from_document(&document(knobs)).unwrap_err().to_string()
}

#[test]
fn every_built_in_space_loads_under_its_file_name() {
    for name in catalog::names(Kind::Space) {
        assert_eq!(SpaceFile::load(name).unwrap().0.name, name);
    }
}

#[test]
fn concurrency_counts_fastest_and_replicas_fill() {
    let space = space("  tp: { pow2: [1, 8] }\n  concurrency: { range: [8, 24], step: 8 }\n", true);
    assert_eq!(space.len(), 2 * 4 * 3, "two checkpoints, four widths, three loads");
    let first = space.deployment(0);
    assert_eq!((first.tp, first.replicas, first.concurrency, first.weight_dtype.as_str()), (1, 8, 8, "fp8"));
    assert_eq!(space.deployment(1).concurrency, 16);
    assert_eq!((space.deployment(3).tp, space.deployment(3).replicas), (2, 4));
    assert_eq!(space.deployment(12).weight_dtype, "bf16");
    assert_eq!((first.max_num_batched_tokens, first.max_num_seqs, first.memory_fraction), (8192, 256, 0.9));
}

#[test]
fn ep_varies_only_where_there_are_experts() {
    let knobs = "  tp: 8\n  ep: [1, 8]\n  concurrency: 64\n  weight_dtype: [fp8]\n";
    assert_eq!(space(knobs, true).len(), 2);
    assert_eq!(space(knobs, false).len(), 1);
}

#[test]
fn drafts_vary_only_where_the_model_has_layers_for_them_and_none_is_the_switch() {
    let knobs = "  tp: 8\n  draft_tokens: [none, 1, 3]\n  concurrency: [64, 128]\n  weight_dtype: [fp8]\n";
    assert_eq!(space(knobs, true).len(), 2, "no such layers, so no such knob");
    let file = SpaceFile::from_document(&document(knobs)).unwrap();
    let mut model = stub(true);
    model.architecture.mtp_layers = 1;
    let engine =
        EngineLimits { max_num_batched_tokens: 8192, max_num_seqs: 256, memory_fraction: 0.9, accepted_tokens: 1.875 };
    let space = Space::new(&file, &Context { model: &model, gpus_per_node: 8, gpus: 8, engine }).unwrap();
    assert_eq!(space.len(), 6);
    let drafts = |at| space.deployment(at).speculation.map(|s| (s.draft_tokens, s.tokens_per_step));
    assert_eq!(drafts(0), None);
    let (one, three) = (drafts(2).unwrap(), drafts(4).unwrap());
    assert!(one.0 == 1 && (one.1 - 1.5).abs() < 1e-9, "{one:?}");
    assert!(three.0 == 3 && (three.1 - 1.875).abs() < 1e-9, "{three:?}");
    assert_eq!(space.layout_len(), 6, "one layout with and without drafts");
    let all = space.with_accepted_tokens(4.0).deployment(4).speculation.unwrap();
    assert!((all.tokens_per_step - 4.0).abs() < 1e-6, "{all:?}");
    for wrong in ["0", "17", "some", "[none, 0]"] {
        let text = refusal(&format!("  tp: 8\n  draft_tokens: {wrong}\n  concurrency: 64\n"));
        assert!(text.contains("draft_tokens"), "{text}");
    }
}

#[test]
fn nodes_multiply_the_gpus_that_replicas_fill() {
    let space = space("  nodes: [1, 4]\n  tp: 8\n  concurrency: 64\n  weight_dtype: [fp8]\n", true);
    assert_eq!((space.deployment(0).replicas, space.deployment(1).replicas), (1, 4));
    assert_eq!((space.gpus(0), space.gpus(1), space.most_gpus()), (8, 32, 32));
}

#[test]
fn neighbours_differ_in_one_knob_nearest_first() {
    let space = space("  tp: [1, 2, 4]\n  weight_dtype: [fp8]\n  concurrency: [8, 16, 32]\n", true);
    let near = space.neighbours(4); // tp 2, concurrency 16
    let told: Vec<_> = near.iter().map(|n| (n.knob, knob_value(&space.deployment(n.index), n.knob))).collect();
    let expected =
        [("concurrency", "concurrency 8"), ("concurrency", "concurrency 32"), ("tp", "tp 1"), ("tp", "tp 4")];
    assert_eq!(told, expected.map(|(k, v)| (k, v.to_string())));
}

#[test]
fn the_million_space_holds_a_million_legal_shapes() {
    // Counted independently: widths that divide, instances that fit the nodes, loads that keep every replica busy.
    let (file, _) = SpaceFile::load("million").unwrap();
    let engine =
        EngineLimits { max_num_batched_tokens: 8192, max_num_seqs: 256, memory_fraction: 0.9, accepted_tokens: 2.0 };
    let mut model = stub(true);
    model.checkpoints.truncate(1);
    let space = Space::new(&file, &Context { model: &model, gpus_per_node: 8, gpus: 8, engine }).unwrap();
    let rules = crate::config::Legality::new(&model, &crate::target::Target::load("mi355x").unwrap());
    let mut legal = 0;
    for first in (0..space.len()).step_by(space.compiled_len() as usize) {
        if !rules.layout_violations(&space.deployment(first), space.gpus(first)).is_empty() {
            continue;
        }
        let (budgets, loads) = space.loads();
        let replicas = space.deployment(first).replicas;
        legal += budgets.len() * loads.iter().filter(|c| **c >= replicas).count();
    }
    assert_eq!(legal, 1_257_504);
}

#[test]
fn what_cannot_be_searched_is_refused_with_place_and_repair() {
    let at = |knobs: &str, parts: &[&str]| {
        let text = refusal(knobs);
        for part in parts {
            assert!(text.contains(part), "{part:?} not in {text:?}");
        }
    };
    at("  tp: []\n  concurrency: 1\n", &["mine.yaml:4:", "empty list"]);
    at("  tp: [1, 1]\n  concurrency: 1\n", &["1 is listed twice"]);
    at("  tp: [0]\n  concurrency: 1\n", &["0 is out of place", "whole numbers"]);
    at("  tp: [-2]\n  concurrency: 1\n", &["-2 is out of place"]);
    at("  tp: 1.5\n  concurrency: 1\n", &["1.5 is out of place"]);
    at("  tp: 1e30\n  concurrency: 1\n", &["out of place"]);
    at("  tp: { pow2: [1, 6] }\n  concurrency: 1\n", &["two powers of two"]);
    at("  tp: { pow3: [1, 6] }\n  concurrency: 1\n", &["unknown field `pow3`", "Did you mean `pow2`?"]);
    at("  tp: { range: [1, 9000000] }\n  concurrency: 1\n", &["more than 100000 values"]);
    at("  tp: 1\n  concurency: 1\n", &["mine.yaml:5:3", "Did you mean `concurrency`?"]);
    at("  tp: 1\n", &["missing field `concurrency`"]);
    at("  tp: auto\n  concurrency: 1\n", &["mine.yaml:4: `tp` does not know the word `auto`"]);
    at("  tp: 1\n  replicas: full\n  concurrency: 1\n", &["mine.yaml:5: `replicas` does not know", "or `fill`"]);
    at("  tp: 1\n  kv_dtype: [fp4]\n  concurrency: 1\n", &["`fp4` in a list", "`bf16`, `fp8`"]);
    at("  tp: 1\n  memory_fraction: [.nan]\n  concurrency: 1\n", &["NaN is out of place", "shares above 0"]);
    at("  tp: 1\n  tp: 2\n  concurrency: 1\n", &["duplicate field `tp`"]);
    at("  nodes: [1, 2]\n  replicas: [1]\n  tp: 1\n  concurrency: 1\n", &["mine.yaml:4", "need `replicas: fill`"]);
}

proptest! {
    #[test]
    fn a_mutated_file_is_read_or_refused(at in 0usize..2000, cut in 0usize..40, junk in "\\PC{0,12}") {
        let mut document = catalog::built_in(Kind::Space, "default").unwrap();
        let chars: Vec<char> = document.text.chars().collect();
        let at = at.min(chars.len());
        let end = (at + cut).min(chars.len());
        document.text = chars[..at].iter().collect::<String>() + &junk + &chars[end..].iter().collect::<String>();
        if let Ok(file) = SpaceFile::from_document(&document) {
            let engine = EngineLimits { max_num_batched_tokens: 8192, max_num_seqs: 256, memory_fraction: 0.9, accepted_tokens: 2.0 };
            let _ = Space::new(&file, &Context { model: &stub(true), gpus_per_node: 8, gpus: 8, engine });
        }
    }
}
