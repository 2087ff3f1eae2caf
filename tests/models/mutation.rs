//! The reader of `config.json` never panics: mutated real files, random JSON, random text.

use crate::common::data;
use inferasim::model::import;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::OnceLock;

/// Published files where the data folder is there, else three of the repository's own making.
fn seeds() -> &'static Vec<Value> {
    static SEEDS: OnceLock<Vec<Value>> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let mut seeds: Vec<Value> =
            crate::families::FAMILIES.iter().map(|(_, _, _, c)| serde_json::from_str(c).unwrap()).collect();
        if let Some(folder) = data("configs") {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                // Long exclusion lists make a case slow and add nothing to the shapes.
                let short = std::fs::metadata(&path).is_ok_and(|m| m.len() < 6000);
                let text = if short { std::fs::read_to_string(&path).unwrap() } else { String::new() };
                seeds.extend(serde_json::from_str::<Value>(&text).ok());
            }
        }
        seeds
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0u64..9).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z_*.]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(("[a-z_]{1,20}", inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Every place of a value that can be replaced, as a JSON pointer.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    out.push(at.to_string());
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(k, v)| places(v, &format!("{at}/{}", k.replace('~', "~0").replace('/', "~1")), out))
        }
        Value::Array(list) => list.iter().take(4).enumerate().for_each(|(i, v)| places(v, &format!("{at}/{i}"), out)),
        _ => {}
    }
}

/// Outcome and message only matter in that they come back.
fn read(text: &str) {
    if let Err(e) = import::config_json("config.json", "org/model", text, None) {
        assert!(!e.to_string().is_empty());
    }
    let _ =
        import::config_json("config.json", "org/model", &json!({"model_type": "llama"}).to_string(), Some(("q", text)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_files(seed in any::<prop::sample::Index>(), at in prop::collection::vec((any::<prop::sample::Index>(), value()), 1..4)) {
        let mut config = seeds()[seed.index(seeds().len())].clone();
        for (place, new) in at {
            let mut all = Vec::new();
            places(&config, "", &mut all);
            let pointer = place.get(&all);
            if let Some(slot) = config.pointer_mut(pointer) {
                *slot = new;
            }
        }
        read(&config.to_string());
    }

    #[test]
    fn cut_files(seed in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let text = seeds()[seed.index(seeds().len())].to_string();
        let mut end = at.index(text.len());
        while !text.is_char_boundary(end) { end -= 1; }
        read(&text[..end]);
    }

    #[test]
    fn random_json(v in value()) { read(&v.to_string()); }

    #[test]
    fn random_text(text in ".{0,80}") { read(&text); }
}
