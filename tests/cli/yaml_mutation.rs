//! Whatever is done to a shipped YAML file, its reader answers or refuses in one line; it never panics.

use inferasim::catalog::{self, Document, Kind};
use inferasim::cost::Calibration;
use inferasim::model::Model;
use inferasim::objective::Objective;
use inferasim::space::{Context, EngineLimits, Space, SpaceFile};
use inferasim::target::{EngineProfile, Target};
use proptest::prelude::*;
use std::sync::OnceLock;

/// Every shipped file of the kinds a user writes.
fn shipped() -> &'static [(Kind, String)] {
    static FILES: OnceLock<Vec<(Kind, String)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let kinds = [Kind::Target, Kind::Space, Kind::Objective, Kind::Engine, Kind::Model, Kind::Calibration];
        let files = |kind| catalog::names(kind).into_iter().filter_map(move |name| catalog::built_in(kind, name));
        kinds.into_iter().flat_map(|kind| files(kind).map(move |file| (kind, file.text))).collect()
    })
}

fn one_line(message: String) {
    assert!(!message.is_empty() && !message.contains('\n'), "{message:?}");
}

/// Reads a text as a user's file of that kind.
fn read(kind: Kind, text: String) {
    match kind {
        Kind::Target => drop(Target::from_document(&document(text)).map_err(|e| one_line(e.to_string()))),
        Kind::Objective => drop(Objective::from_document(&document(text)).map_err(|e| one_line(e.to_string()))),
        Kind::Space => match SpaceFile::from_document(&document(text)) {
            Ok(file) => build(&file),
            Err(error) => one_line(error.to_string()),
        },
        _ => {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("mine.yaml");
            std::fs::write(&path, text).unwrap();
            let path = path.display().to_string();
            let outcome = match kind {
                Kind::Engine => EngineProfile::load(&path).map(drop),
                Kind::Model => Model::load(&path).map(drop),
                _ => Calibration::load(&path).map(drop),
            };
            outcome.unwrap_or_else(|error| one_line(error.to_string()));
        }
    }
}

fn document(text: String) -> Document {
    Document { origin: "mine.yaml".into(), text }
}

/// A space that reads is counted, and its first and last points can be built.
fn build(file: &SpaceFile) {
    static MODEL: OnceLock<Model> = OnceLock::new();
    let model = MODEL.get_or_init(|| Model::load("gpt-oss-120b").unwrap());
    let engine =
        EngineLimits { max_num_batched_tokens: 8192, max_num_seqs: 1024, memory_fraction: 0.9, accepted_tokens: 2.0 };
    match Space::new(file, &Context { model, gpus_per_node: 8, gpus: 8, engine }) {
        Ok(space) => [0, space.len() - 1].into_iter().for_each(|at| drop(space.deployment(at))),
        Err(error) => one_line(error.to_string()),
    }
}

/// Values that have broken readers before: of another type, out of range, or half a document.
fn odd_value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        prop::sample::select(vec![
            "-1",
            "0",
            "1e300",
            "-1e-300",
            ".nan",
            ".inf",
            "~",
            "true",
            "[]",
            "{}",
            "[1, [2, {a: b}]]",
            "'",
            "\"\\u0000\"",
            "18446744073709551616",
            "4294967296",
            "!tag x",
            "*nowhere",
            "{ pow2: [0, 0] }",
            "{ range: [1, 2], step: 0 }",
            "{ pow2: [1, 4294967295] }",
            "é",
            "- a",
            "? b",
        ])
        .prop_map(str::to_string),
        "[ -~]{0,12}",
    ]
}

proptest! {
    #[test]
    fn changed_values(file in any::<prop::sample::Index>(), line in any::<prop::sample::Index>(), value in odd_value()) {
        let (kind, text) = file.get(shipped());
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        let at = line.index(lines.len());
        let key = lines[at].split_once(':').map_or(String::new(), |(key, _)| key.to_string());
        lines[at] = format!("{key}: {value}");
        read(*kind, lines.join("\n"));
    }

    #[test]
    fn changed_numbers(file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), value in odd_value()) {
        let (kind, text) = file.get(shipped());
        let places: Vec<usize> = text.match_indices(|c: char| c.is_ascii_digit()).map(|(at, _)| at).collect();
        prop_assume!(!places.is_empty());
        let at = places[at.index(places.len())];
        read(*kind, format!("{}{value}{}", &text[..at], &text[at + 1..]));
    }

    #[test]
    fn lost_and_doubled_lines(file in any::<prop::sample::Index>(), line in any::<prop::sample::Index>(), twice: bool) {
        let (kind, text) = file.get(shipped());
        let mut lines: Vec<&str> = text.lines().collect();
        let at = line.index(lines.len());
        let copies = if twice { 2 } else { 0 };
        lines.splice(at..=at, vec![lines[at]; copies]);
        read(*kind, lines.join("\n"));
    }

    #[test]
    fn cut_files(file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let (kind, text) = file.get(shipped());
        let mut end = at.index(text.len());
        while !text.is_char_boundary(end) { end -= 1; }
        read(*kind, text[..end].to_string());
    }

    #[test]
    fn any_text(kind in prop::sample::select(vec![Kind::Target, Kind::Space, Kind::Objective, Kind::Engine]), text in "(?s).{0,200}") {
        read(kind, text);
    }
}
