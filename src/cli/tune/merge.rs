//! `inferasim-tune merge`: joins the parts of a search into the answer one process gives.

use super::arguments::Arguments as SearchArguments;
use super::searching;
use crate::export::shell;
use crate::report::record::SearchSummary;
use crate::search::shard::{SCHEMA, Shard};
use crate::search::{Evaluator, Outcome, Search, Stop};
use crate::{Error, Result};
use clap::Parser;
use std::fs;
use std::path::{Path, PathBuf};

/// Join the parts of a search that `inferasim-tune --shard I/N` wrote into the answer one process gives.
///
/// Exit codes: 0 an answer, 2 a part is missing or does not belong to the others, 3 nothing feasible.
#[derive(Debug, Parser)]
#[command(name = "inferasim-tune merge", version)]
pub struct Arguments {
    /// The files of all parts
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder for reports
    #[arg(long, default_value = "reports")]
    out: PathBuf,
    /// Write no report
    #[arg(long)]
    no_report: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Reads the parts, makes sure that they are all there, and answers.
pub fn run(arguments: &Arguments) -> Result<u8> {
    let mut parts: Vec<(PathBuf, Shard)> = Vec::new();
    for file in &arguments.files {
        let shard = read(file)?;
        if let Some((first, known)) = parts.first() {
            agree(first, known, file, &shard)?;
        }
        match parts.iter().find(|(_, p)| p.part == shard.part) {
            None => parts.push((file.clone(), shard)),
            Some((_, same)) if same.agrees(&shard) => {}
            Some((other, _)) => {
                let found = format!("differs from {}, which is the same part", other.display());
                return Err(Error::input(file.display().to_string(), found, "Run the part again"));
            }
        }
    }
    parts.sort_by_key(|(_, shard)| shard.part.index);
    let shards: Vec<Shard> = parts.into_iter().map(|(_, shard)| shard).collect();
    complete(&shards)?;
    let first = &shards[0];
    let mut told = SearchArguments::try_parse_from(&first.arguments).map_err(|e| {
        let found = e.to_string().lines().next().unwrap_or_default().to_string();
        Error::input(format!("the parts' own command line {}", words(&first.arguments)), found, "Run the parts again")
    })?;
    told.json = arguments.json;
    told.no_report = arguments.no_report;
    told.out.clone_from(&arguments.out);
    super::answer_with(told, None, Some(shards))
}

/// Joins parts that belong together.
///
/// # Errors
/// The inputs are no longer those of the parts.
pub fn join<E: Evaluator>(
    search: &Search<'_, E>,
    arguments: &SearchArguments,
    parts: &[Shard],
    fingerprint: &str,
) -> Result<(Outcome, SearchSummary)> {
    if parts.iter().any(|p| p.inputs != fingerprint) {
        let found =
            "the target, model, engine, calibration, space or objective has changed since the parts were written";
        return Err(Error::input("merge", found, "Restore them, or run the parts again"));
    }
    let outcome = search.join(parts)?;
    let how = searching::of_all(&outcome, arguments, Stop::Exhausted);
    Ok((outcome, how))
}

fn read(file: &Path) -> Result<Shard> {
    let shown = file.display().to_string();
    let repair = "Give the files that `inferasim-tune --shard I/N` wrote";
    let text = fs::read_to_string(file).map_err(|e| Error::input(&shown, e.to_string(), repair))?;
    let shard: Shard = serde_json::from_str(&text).map_err(|e| Error::input(&shown, e.to_string(), repair))?;
    if shard.schema != SCHEMA || shard.part.index >= shard.part.of {
        return Err(Error::input(shown, "is of another layout", "Run the part again with this version"));
    }
    Ok(shard)
}

fn agree(first: &Path, known: &Shard, file: &Path, shard: &Shard) -> Result<()> {
    let same = (known.part.of, &known.inputs, &known.version, &known.arguments)
        == (shard.part.of, &shard.inputs, &shard.version, &shard.arguments);
    if same {
        return Ok(());
    }
    let found = if known.part.of != shard.part.of {
        format!("is one of {} parts, {} one of {}", shard.part.of, first.display(), known.part.of)
    } else {
        format!("belongs to another search than {}: {}", first.display(), words(&shard.arguments))
    };
    Err(Error::input(file.display().to_string(), found, "Merge the parts of one search at a time"))
}

/// Every part is there; else the missing ones are named with the command that makes the first.
fn complete(shards: &[Shard]) -> Result<()> {
    let of = shards[0].part.of;
    let missing: Vec<u64> = (0..of).filter(|i| !shards.iter().any(|s| s.part.index == *i)).collect();
    let Some(first) = missing.first() else { return Ok(()) };
    let named: Vec<String> = missing.iter().take(20).map(u64::to_string).collect();
    let more = if missing.len() > 20 { format!(" and {} more", missing.len() - 20) } else { String::new() };
    Err(Error::input(
        format!("merge of {} parts", shards.len()),
        format!("of {of} parts {} are missing: {}{more}", missing.len(), named.join(", ")),
        format!("Run them, e.g. {} --shard {first}/{of}", words(&shards[0].arguments)),
    ))
}

fn words(arguments: &[String]) -> String {
    arguments.iter().map(|w| shell(w)).collect::<Vec<_>>().join(" ")
}
