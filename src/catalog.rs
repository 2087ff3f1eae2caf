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

/// Larger files are no documents of this kind.
const MOST_BYTES: u64 = 16 << 20;

/// Opens a file where `name_or_path` is one, else the built-in document of that name.
///
/// # Errors
/// A folder, a file that cannot be read, is too large or is not UTF-8; a name that is neither file nor built-in.
pub fn open(kind: Kind, name_or_path: &str) -> Result<Document> {
    let path = Path::new(name_or_path);
    if path.is_file() {
        return read(kind, name_or_path);
    }
    if let Some(document) = built_in(kind, name_or_path) {
        return Ok(document);
    }
    if path.is_dir() {
        return Err(Error::input(name_or_path, "is a folder", format!("Give the YAML file of a {}", kind.word())));
    }
    Err(not_found(kind, name_or_path))
}

fn read(kind: Kind, path: &str) -> Result<Document> {
    let unreadable = |e: std::io::Error| Error::input(path, format!("cannot be read: {e}"), "");
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    if size > MOST_BYTES {
        return Err(Error::input(
            path,
            format!("holds {size} bytes"),
            format!("Give the YAML file of a {}", kind.word()),
        ));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|e| {
        let line = 1 + e.as_bytes()[..e.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
        Error::input(format!("{path}:{line}"), "is not UTF-8 text", format!("Give the YAML file of a {}", kind.word()))
    })?;
    Ok(Document { origin: path.to_string(), text })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn open_bytes(bytes: &[u8]) -> Result<Document> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.yaml");
        std::fs::write(&path, bytes).unwrap();
        open(Kind::Target, path.to_str().unwrap())
    }

    #[test]
    fn a_file_wins_over_a_built_in_and_bytes_must_be_text() {
        assert_eq!(open_bytes(b"name: x\n").unwrap().text, "name: x\n");
        let text = open_bytes(b"name: x\nabout: \xff\xfe\n").unwrap_err().to_string();
        assert!(text.contains("mine.yaml:2: is not UTF-8 text. Give the YAML file of a target"), "{text}");
    }

    #[test]
    fn a_folder_and_an_unknown_name_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let text = open(Kind::Space, folder.path().to_str().unwrap()).unwrap_err().to_string();
        assert!(text.ends_with("is a folder. Give the YAML file of a space"), "{text}");
        let text = open(Kind::Target, "mi355").unwrap_err().to_string();
        assert!(
            text.starts_with("target `mi355`: no file and no built-in of that name. Did you mean the built-in `mi35"),
            "{text}"
        );
        let text = open(Kind::Target, "no/such.yaml").unwrap_err().to_string();
        assert!(text.starts_with("target `no/such.yaml`: no such file"), "{text}");
    }

    #[test]
    fn every_kind_has_built_ins_sorted() {
        for kind in [Kind::Target, Kind::Engine, Kind::Space, Kind::Objective, Kind::Calibration] {
            let names = names(kind);
            assert!(!names.is_empty() && names.is_sorted(), "{kind:?}: {names:?}");
        }
    }
}
