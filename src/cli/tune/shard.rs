//! `--shard I/N`: one part of an exhaustive search, written to a file.

use super::anchored::AnchoredProjector;
use super::arguments::{Arguments, BackendName};
use super::inputs::Inputs;
use super::interrupt;
use super::progress::Progress;
use crate::error::exit;
use crate::search::Search;
use crate::search::shard::Part;
use crate::{Error, Result};
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Looks at the part and writes `shard-I-of-N.json`.
///
/// # Errors
/// Another backend than `exhaustive`, a folder that cannot be written, an interruption.
pub fn write(
    inputs: &Inputs,
    evaluator: &AnchoredProjector<'_>,
    arguments: &Arguments,
    part: Part,
    fingerprint: String,
) -> Result<u8> {
    let flag = format!("--shard {}/{}", part.index, part.of);
    if arguments.backend != BackendName::Exhaustive {
        let repair = "Leave --backend out, or run the backend in one process";
        return Err(Error::input(flag, "only an exhaustive search can be cut into parts", repair));
    }
    let started = Instant::now();
    let place = arguments.out.join(format!("shard-{}-of-{}.json", part.index, part.of));
    let unwritable = |e: std::io::Error| {
        Error::input(place.display().to_string(), format!("cannot be written: {e}"), "Choose another folder with --out")
    };
    fs::create_dir_all(&arguments.out).map_err(unwritable)?;
    let draft = place.with_extension(format!("{}.partial", std::process::id()));
    fs::write(&draft, "").map_err(unwritable)?;
    let search = Search { space: &inputs.space, legality: &inputs.legality, objective: &inputs.objective, evaluator };
    let progress = Progress::new(inputs.space.len() / part.of);
    let interrupted = interrupt::flag();
    let mut shard = search.shard(part, &|points| progress.add(points), interrupted);
    progress.finish();
    if interrupted.load(Ordering::Relaxed) {
        // The part is worth nothing unless it is whole.
        let _ = fs::remove_file(&draft);
        return Err(Error::input(flag, "was interrupted", "Run it again"));
    }
    shard.inputs = fingerprint;
    shard.arguments = whole(std::env::args().skip(1));
    shard.elapsed_s = started.elapsed().as_secs_f64();
    let text = serde_json::to_string(&shard).map_err(|e| Error::input(flag, e.to_string(), ""))?;
    fs::write(&draft, text + "\n").map_err(unwritable)?;
    fs::rename(&draft, &place).map_err(unwritable)?;
    println!("{}", shown(&place));
    Ok(exit::ANSWER)
}

fn shown(place: &Path) -> String {
    place.display().to_string()
}

/// The command line of the whole search: that of a part without what makes it a part.
fn whole(words: impl Iterator<Item = String>) -> Vec<String> {
    const OWN: [&str; 2] = ["--shard", "--out"];
    let mut kept = vec!["inferasim-tune".to_string()];
    let mut skip = false;
    for word in words {
        if std::mem::take(&mut skip) {
            continue;
        }
        skip = OWN.contains(&word.as_str());
        if !skip && !OWN.iter().any(|flag| word.starts_with(&format!("{flag}="))) && word != "--json" {
            kept.push(word);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_knows_the_command_of_the_whole() {
        let words = ["--target", "mi355x", "--shard", "0/4", "--out=parts", "--json", "--top", "5"];
        let found = whole(words.iter().map(|w| w.to_string()));
        assert_eq!(found, ["inferasim-tune", "--target", "mi355x", "--top", "5"]);
    }
}
