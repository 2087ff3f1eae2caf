//! Finds a YAML document by path or by built-in name; the built-in ones are embedded in the binary.

use crate::{Error, Result};
use include_dir::{Dir, include_dir};
use std::path::Path;

static TARGETS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/targets");
static SPACES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/spaces");
static OBJECTIVES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/objectives");

/// What a document describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A GPU, its node and defaults.
    Target,
    /// A model preset.
    Model,
    /// An engine's defaults and quirks.
    Engine,
    /// A search space.
    Space,
    /// An objective with its SLOs.
    Objective,
    /// Fitted serving constants.
    Calibration,
    /// Kernel timings as closed forms.
    Kernels,
}

impl Kind {
    /// The word a user reads.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Target => "target",
            Kind::Model => "model",
            Kind::Engine => "engine",
            Kind::Space => "space",
            Kind::Objective => "objective",
            Kind::Calibration => "calibration",
            Kind::Kernels => "kernel table",
        }
    }

    fn folder(self) -> (&'static Dir<'static>, &'static str, &'static str) {
        match self {
            Kind::Target => (&TARGETS, "", "targets/"),
            Kind::Model => (&TARGETS, "models", "targets/models/"),
            Kind::Engine => (&TARGETS, "engines", "targets/engines/"),
            Kind::Calibration => (&TARGETS, "calibration", "targets/calibration/"),
            Kind::Kernels => (&TARGETS, "kernels", "targets/kernels/"),
            Kind::Space => (&SPACES, "", "spaces/"),
            Kind::Objective => (&OBJECTIVES, "", "objectives/"),
        }
    }
}

/// A document's text and how to name it in a message.
#[derive(Debug, Clone)]
pub struct Document {
    /// A path, or `built-in targets/mi355x.yaml`.
    pub origin: String,
    /// The YAML text.
    pub text: String,
}

/// Built-in names of a kind, sorted.
pub fn names(kind: Kind) -> Vec<&'static str> {
    let (root, sub, _) = kind.folder();
    let dir = if sub.is_empty() { Some(root) } else { root.get_dir(sub) };
    let mut names: Vec<_> = dir
        .into_iter()
        .flat_map(|d| d.files())
        .filter(|f| f.path().extension().is_some_and(|e| e == "yaml"))
        .filter_map(|f| f.path().file_stem()?.to_str())
        .collect();
    names.sort_unstable();
    names
}

/// Opens a file where `name_or_path` is one, else the built-in document of that name.
pub fn open(kind: Kind, name_or_path: &str) -> Result<Document> {
    let path = Path::new(name_or_path);
    if path.is_file() {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::input(name_or_path, format!("cannot be read: {e}"), ""))?;
        return Ok(Document { origin: name_or_path.to_string(), text });
    }
    built_in(kind, name_or_path).ok_or_else(|| not_found(kind, name_or_path))
}

/// The built-in document of a name.
pub fn built_in(kind: Kind, name: &str) -> Option<Document> {
    let (root, sub, shown) = kind.folder();
    let file = format!("{name}.yaml");
    let inside = if sub.is_empty() { file.clone() } else { format!("{sub}/{file}") };
    let text = root.get_file(inside)?.contents_utf8()?;
    Some(Document { origin: format!("built-in {shown}{file}"), text: text.to_string() })
}

fn not_found(kind: Kind, asked: &str) -> Error {
    let names = names(kind);
    let looks_like_path = asked.contains('/') || asked.ends_with(".yaml") || asked.ends_with(".json");
    let found = if looks_like_path { "no such file" } else { "no file and no built-in of that name" };
    let stem = Path::new(asked).file_stem().and_then(|s| s.to_str()).unwrap_or(asked);
    let repair = match nearest(stem, &names) {
        Some(name) => format!("Did you mean the built-in `{name}`? Known: {}", names.join(", ")),
        None => format!("Known: {}", names.join(", ")),
    };
    Error::input(format!("{} `{asked}`", kind.word()), found, repair)
}

/// The known word closest to a misspelt one, if any is close.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|k| (strsim::jaro_winkler(&word.to_lowercase(), &k.to_lowercase()), *k))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}
