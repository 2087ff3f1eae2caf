//! Do the arrows between the folders of `src/` hold? Every `crate::…` and `super::…` path of a folder, in `use` trees
//! and inline, is compared with the list below. CONTRIBUTING.md explains the order.
//!
//! Tests may look anywhere: `tests.rs`, `*_tests.rs` and what follows `#[cfg(test)] mod` are left out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Usable everywhere: units, origins of figures, errors, waits that a server asks for.
const COMMON: &[&str] = &["units", "source", "error", "retry_after", "Error", "Result"];

/// What a folder, or a module inside one, may use beside [`COMMON`] and itself; the longest matching name decides.
/// An entry with `::` opens that item alone. A root file is a folder of one file.
const ARROWS: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("source", &[]),
    ("error", &[]),
    ("retry_after", &[]),
    ("catalog", &[]),
    ("yaml", &["catalog"]),
    // What is given.
    ("model", &["catalog", "yaml"]),
    ("workload", &["catalog", "yaml"]),
    ("target", &["catalog", "yaml", "model", "workload"]),
    // What may vary.
    ("config", &["model", "target"]),
    // The work of a step and what it takes; memory opens no document, cost the kernel tables and fitted constants.
    ("cost", &["catalog", "yaml", "model", "target", "config"]),
    ("memory", &["model", "target", "config"]),
    // Latency and throughput, closed form or simulated.
    ("serve", &["cost", "memory", "model", "target", "config", "workload"]),
    ("sim", &["catalog", "yaml", "serve", "cost", "memory", "model", "target", "config", "workload"]),
    // What is wanted and where to look; no physics below this line.
    ("objective", &["catalog", "yaml", "serve::ServingMetrics"]),
    ("objective::pareto", &[]),
    ("space", &["catalog", "yaml", "model", "config"]),
    ("search", &["objective", "space", "config", "serve::Evaluation", "serve::Refusal"]),
    ("planner", &["search", "objective", "space", "config", "catalog", "yaml"]),
    // Measured figures; they meet projected ones in `anchor` alone.
    ("measure", &["catalog", "yaml", "model", "target", "config", "workload"]),
    // What this machine's own device does; the projector's model and target formats are written, nothing is projected.
    ("inference", &["catalog", "yaml", "model", "target", "workload"]),
    (
        "anchor",
        &[
            "catalog",
            "yaml",
            "measure",
            "objective",
            "sim",
            "serve",
            "cost",
            "memory",
            "model",
            "target",
            "config",
            "workload",
        ],
    ),
    ("anchor::import", &["report::time"]),
    ("anchor::harvest", &["catalog", "yaml", "measure", "report::time"]),
    // Renderings: they read the structs of an answer and compute nothing.
    ("export", &["catalog::nearest", "model", "config", "workload"]),
    (
        "report",
        &[
            "catalog",
            "export",
            "config",
            "workload",
            "cost::calibration::Traced",
            "memory::MemoryPlan",
            "model::KvFormat",
            "serve::Bound",
            "serve::Breakdown",
            "serve::Evaluation",
            "serve::Explanation",
            "serve::explain",
            "serve::ServingMetrics",
        ],
    ),
    ("report::roofline", &["anchor::roofline"]),
    ("report::fidelity", &["anchor::score", "anchor::shares", "anchor::trial", "anchor::open_loop"]),
    ("report::open_loop", &["anchor::open_loop"]),
    // The command line ties everything together, and nothing uses it.
    (
        "cli",
        &[
            "anchor",
            "catalog",
            "config",
            "cost",
            "export",
            "inference",
            "measure",
            "memory",
            "model",
            "objective",
            "planner",
            "report",
            "search",
            "serve",
            "sim",
            "space",
            "target",
            "workload",
            "yaml",
        ],
    ),
];

#[test]
fn every_folder_uses_only_what_stands_above_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for file in rust_files(&root) {
        let shown = file.strip_prefix(&root).unwrap().display().to_string();
        if matches!(shown.as_str(), "lib.rs" | "bin/inferasim.rs" | "bin/inferasim-tune.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        wrong.extend(violations(&shown, &text));
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn a_forbidden_import_is_caught_in_every_spelling() {
    let caught = |file: &str, text: &str| !violations(file, text).is_empty();
    assert!(caught("cost/gemm.rs", "use crate::serve::Projector;"));
    assert!(caught("cost/gemm.rs", "use crate::{Error, serve::{self, Projector}};"));
    assert!(caught("cost/gemm.rs", "fn f(p: &crate::serve::Projector) {}"));
    assert!(caught("cost/mod.rs", "use super::serve::Projector;"));
    assert!(caught("model/import/ffn.rs", "use super::super::super::cost::Gemm;"));
    assert!(caught("measure/load.rs", "use crate::cost::StepCost;"));
    assert!(caught("search/driver.rs", "use crate::serve::{Evaluation, Projector};"));
    assert!(caught("objective/pareto.rs", "use crate::serve::ServingMetrics;"));
    assert!(caught("report/html.rs", "use crate::*;"));
    assert!(caught("units.rs", "use crate::model::Model;"));
}

#[test]
fn an_unlisted_folder_is_caught() {
    assert!(violations("helpers/mod.rs", "").iter().any(|v| v.contains("`helpers` is not in the list")));
}

#[test]
fn what_is_allowed_passes() {
    let clean = |file: &str, text: &str| assert_eq!(violations(file, text), Vec::<String>::new());
    clean(
        "cost/gemm.rs",
        "use crate::{Error, Result, model::{Moe, WeightFormat}, target::Gpu};\nuse super::op::OpTime;",
    );
    clean("search/mod.rs", "use crate::serve::{Evaluation, Refusal};");
    clean("objective/mod.rs", "use crate::serve::ServingMetrics;");
    clean("cost/gemm.rs", "// use crate::serve::Projector;\n/* crate::sim */ const S: &str = \"crate::sim::run\";");
    clean("cost/gemm.rs", "#[cfg(test)]\nmod tests { use crate::serve::Projector; }");
    clean("space/tests.rs", "use crate::target::Target;");
}

/// One line for each path of a file (named relative to `src/`) that no arrow allows.
fn violations(file: &str, text: &str) -> Vec<String> {
    let stem = file.trim_end_matches(".rs").trim_end_matches("/mod");
    let module: Vec<&str> = stem.split('/').collect();
    if module.last().is_some_and(|name| *name == "tests" || name.ends_with("_tests")) {
        return Vec::new();
    }
    let Some(allowed) = arrows_of(&module) else {
        return vec![format!("{file}: `{}` is not in the list of tests/layering.rs; give it its arrows", module[0])];
    };
    let own = vec![module[0].to_string()];
    paths(&code_of(text), module.len())
        .into_iter()
        .filter(|path| !starts_with(path, &own))
        .filter(|path| !COMMON.iter().chain(allowed).any(|a| starts_with(path, &split(a))))
        .map(|path| format!("{file}: uses crate::{}; `{}` may use {}", path.join("::"), module[0], allowed.join(", ")))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

fn arrows_of(module: &[&str]) -> Option<&'static [&'static str]> {
    let module: Vec<String> = module.iter().map(|s| s.to_string()).collect();
    let fitting = ARROWS.iter().filter(|(name, _)| starts_with(&module, &split(name)));
    fitting.max_by_key(|(name, _)| name.len()).map(|(_, allowed)| *allowed)
}

fn split(path: &str) -> Vec<String> {
    path.split("::").map(str::to_string).collect()
}

fn starts_with(path: &[String], head: &[String]) -> bool {
    path.len() >= head.len() && path[..head.len()] == *head
}

/// A file without comments, strings and its test module.
fn code_of(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut i = 0;
    while i < chars.len() {
        match chars[i] {
            '/' if at(i + 1) == '/' => i += chars[i..].iter().take_while(|c| **c != '\n').count(),
            '/' if at(i + 1) == '*' => {
                i += 2;
                while i < chars.len() && !(chars[i] == '*' && at(i + 1) == '/') {
                    i += 1;
                }
                i += 2;
            }
            'r' if at(i + 1) == '"' || (at(i + 1) == '#' && matches!(at(i + 2), '"' | '#')) => {
                let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
                i += hashes + 2;
                while i < chars.len() && !(chars[i] == '"' && (1..=hashes).all(|h| at(i + h) == '#')) {
                    i += 1;
                }
                i += hashes + 1;
            }
            '"' => {
                i += 1;
                while i < chars.len() && chars[i] != '"' {
                    i += if chars[i] == '\\' { 2 } else { 1 };
                }
                i += 1;
            }
            '\'' if at(i + 2) == '\'' => i += 3,
            '\'' if at(i + 1) == '\\' => i += 2 + chars[i + 2..].iter().take_while(|c| **c != '\'').count() + 1,
            ':' if at(i + 1) == ':' => {
                tokens.push("::".into());
                i += 2;
            }
            c if c.is_alphanumeric() || c == '_' => {
                let word: String = chars[i..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').collect();
                i += word.chars().count();
                tokens.push(word);
            }
            c if c.is_whitespace() => i += 1,
            c => {
                tokens.push(c.to_string());
                i += 1;
            }
        }
    }
    let test_module = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let end = tokens.windows(test_module.len()).position(|w| w == test_module).unwrap_or(tokens.len());
    tokens.truncate(end);
    tokens
}

/// Every path that starts at the crate root, spelt from `crate` or by enough `super`s; braces are multiplied out.
/// `depth` is the number of modules a file lies in, its own included.
fn paths(tokens: &[String], depth: usize) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let follows = |i: usize| tokens.get(i).is_some_and(|t| t == "::");
        let mut start = None;
        if tokens[i] == "crate" && follows(i + 1) {
            start = Some(i + 2);
        } else if tokens[i] == "super" && follows(i + 1) {
            let mut supers = 1;
            let mut at = i + 2;
            while tokens.get(at).is_some_and(|t| t == "super") && follows(at + 1) {
                supers += 1;
                at += 2;
            }
            start = (supers >= depth).then_some(at);
        }
        i = match start {
            Some(at) => tree(tokens, at, &[], &mut found),
            None => i + 1,
        };
    }
    found
}

/// Reads one use tree at `i` behind `head`; returns where it ends.
fn tree(tokens: &[String], mut i: usize, head: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut path = head.to_vec();
    loop {
        match tokens.get(i).map(String::as_str) {
            Some("{") => {
                i += 1;
                while i < tokens.len() && tokens[i] != "}" {
                    if tokens[i] == "," {
                        i += 1;
                    } else {
                        i = tree(tokens, i, &path, found);
                    }
                }
                return i + 1;
            }
            Some("self") => {}
            Some(word) => path.push(word.to_string()),
            None => break,
        }
        i += 1;
        if tokens.get(i).is_some_and(|t| t == "as") {
            i += 2;
        }
        if tokens.get(i).is_none_or(|t| t != "::") {
            break;
        }
        i += 1;
    }
    found.push(path);
    i
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}
