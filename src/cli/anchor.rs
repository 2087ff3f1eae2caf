//! `inferasim anchor`: the store of measured runs that projections may stand on.

mod facts;
pub mod flags;

use crate::anchor::artifact::{Artifact, Figures, LoadPoint, SCHEMA};
use crate::anchor::store::{Store, VARIABLE};
use crate::anchor::{import, measured};
use crate::error::exit;
use crate::report::terminal::table::Table;
use crate::{Error, Result};
use clap::{Args, Subcommand};
use facts::FactArgs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Keep measured runs and let projections stand on them.
#[derive(Debug, Args)]
pub struct Anchor {
    /// Folder of the store
    #[arg(long, global = true, env = VARIABLE, default_value = "anchors", value_name = "DIR")]
    anchors: PathBuf,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Record one run by hand.
    Add(Box<Add>),
    /// List the runs of the store.
    List(List),
    /// Print one run.
    Show(ShowOne),
    /// Read runs from a benchmark's result file, or from a CSV file of measured points.
    Import(Box<Import>),
}

#[derive(Debug, Args)]
struct Add {
    #[command(flatten)]
    facts: FactArgs,
    /// Prompt length, tokens
    #[arg(long)]
    isl: u32,
    /// Answer length, tokens
    #[arg(long)]
    osl: u32,
    /// Mean time per output token after the first, ms
    #[arg(long, allow_negative_numbers = true)]
    tpot_ms: f64,
    /// Mean TTFT, ms
    #[arg(long, allow_negative_numbers = true)]
    ttft_ms: Option<f64>,
    /// Median TTFT, ms
    #[arg(long, allow_negative_numbers = true)]
    ttft_p50_ms: Option<f64>,
    /// Output tokens per second of the deployment
    #[arg(long, allow_negative_numbers = true)]
    output_tok_s: Option<f64>,
}

#[derive(Debug, Args)]
struct List {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ShowOne {
    /// Name of the run
    id: String,
}

#[derive(Debug, Args)]
struct Import {
    /// Result file of vllm bench serve, SGLang bench_serving, AIPerf or guidellm; or a CSV file of measured points, of
    /// which --gpu, --model and --engine choose rows
    file: PathBuf,
    #[command(flatten)]
    facts: FactArgs,
}

/// Runs the command.
pub fn run(args: Anchor) -> Result<u8> {
    let store = Store::new(&args.anchors);
    match args.what {
        What::Add(add) => add_one(&store, &add),
        What::List(list) => print_list(&store, list.json),
        What::Show(one) => {
            println!("{}", pretty(&store.find(&one.id)?)?);
            Ok(exit::ANSWER)
        }
        What::Import(import) => import_file(&store, &import),
    }
}

fn pretty<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string_pretty(value).map_err(|e| Error::input("--json", format!("cannot be written: {e}"), ""))
}

fn add_one(store: &Store, add: &Add) -> Result<u8> {
    let facts = add.facts.facts("by hand", None)?;
    let Some(concurrency) = facts.concurrency else {
        return Err(Error::input(
            "anchor add",
            "no --concurrency",
            "An anchor is a closed-loop run: say how many clients",
        ));
    };
    let artifact = Artifact {
        schema: SCHEMA,
        id: facts.id,
        tool: "by-hand".into(),
        source: facts.source,
        date: facts.date,
        regime: facts.regime,
        layout: facts.layout,
        load: LoadPoint { concurrency, isl: add.isl, osl: add.osl, range_ratio: facts.range_ratio.unwrap_or(1.0) },
        prefix_caching: facts.prefix_caching,
        launch: None,
        measured: Figures {
            ttft_ms: add.ttft_ms,
            ttft_p50_ms: add.ttft_p50_ms,
            tpot_ms: Some(add.tpot_ms),
            output_tok_s: add.output_tok_s,
        },
    };
    keep(store, vec![artifact], add.facts.replace)
}

fn import_file(store: &Store, args: &Import) -> Result<u8> {
    let shown = args.file.display().to_string();
    if args.file.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv")) {
        return import_rows(store, args, &shown);
    }
    let text = std::fs::read_to_string(&args.file)
        .map_err(|e| Error::input(&shown, format!("cannot be read: {e}"), "Give a result file"))?;
    let facts = args.facts.facts(&shown, stem(&args.file))?;
    keep(store, import::runs(&text, &facts)?, args.facts.replace)
}

/// A file's name without its ending, as an identifier.
fn stem(path: &Path) -> Option<String> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    path.file_stem().map(|s| s.to_string_lossy().chars().map(plain).collect())
}

fn import_rows(store: &Store, args: &Import, shown: &str) -> Result<u8> {
    args.facts.only_choose(shown)?;
    let rows = measured::read(&args.file)?;
    let chosen: Vec<_> = rows.iter().filter(|r| args.facts.chooses(r)).collect();
    if chosen.is_empty() {
        return Err(Error::input(
            shown,
            "no row of that GPU, model and engine",
            "Leave a filter out, or check its spelling",
        ));
    }
    let mut skipped: BTreeMap<String, usize> = BTreeMap::new();
    let mut artifacts = Vec::new();
    for row in chosen {
        match Artifact::from_row(row, shown) {
            Ok(artifact) => artifacts.push(Artifact { prefix_caching: args.facts.prefix_caching(), ..artifact }),
            Err(why) => *skipped.entry(why).or_default() += 1,
        }
    }
    for (why, count) in &skipped {
        eprintln!("skipped {count} rows: {why}");
    }
    if artifacts.is_empty() {
        return Err(Error::input(shown, "no row can be an anchor", "A row needs TPOT and one pool"));
    }
    keep(store, artifacts, args.facts.replace)
}

fn keep(store: &Store, artifacts: Vec<Artifact>, replace: bool) -> Result<u8> {
    store.add(&artifacts, replace)?;
    let warnings: Vec<String> = artifacts.iter().filter_map(Artifact::discarded_prefill).collect();
    for warning in warnings.iter().take(3) {
        eprintln!("warning: {warning}");
    }
    if warnings.len() > 3 {
        eprintln!("warning: the same of {} more; --no-prefix-caching says that caching was off", warnings.len() - 3);
    }
    let word = if artifacts.len() == 1 { "run" } else { "runs" };
    println!("{} {word} kept in {}", artifacts.len(), store.folder().display());
    Ok(exit::ANSWER)
}

fn print_list(store: &Store, json: bool) -> Result<u8> {
    let artifacts = store.read()?;
    if json {
        println!("{}", pretty(&artifacts)?);
        return Ok(exit::ANSWER);
    }
    if artifacts.is_empty() {
        println!("{} holds no runs", store.folder().display());
        return Ok(exit::ANSWER);
    }
    let columns = [
        ("id", false),
        ("GPU", false),
        ("engine", false),
        ("layout", false),
        ("C", true),
        ("ISL/OSL", true),
        ("TPOT ms", true),
        ("TTFT", false),
        ("model", false),
    ];
    let mut table = Table::new(&columns);
    for a in &artifacts {
        let l = &a.layout;
        let mut layout = format!("tp{}", l.tp);
        for (name, value) in [("ep", l.ep), ("dp", l.attention_dp), ("pp", l.pp), ("x", l.replicas)] {
            if value > 1 {
                layout += &format!(" {name}{value}");
            }
        }
        let ttft = match a.usable_ttft() {
            (None, None) if a.measured.ttft_ms.or(a.measured.ttft_p50_ms).is_some() => "discarded",
            (None, None) => "-",
            _ => "used",
        };
        table.row(vec![
            short(&a.id, 18),
            a.regime.gpu.clone(),
            short(&a.regime.engine, 12),
            layout,
            a.load.concurrency.to_string(),
            format!("{}/{}", a.load.isl, a.load.osl),
            format!("{:.2}", a.measured.tpot_ms.unwrap_or_default()),
            ttft.into(),
            a.regime.model.clone(),
        ]);
    }
    for line in table.lines() {
        println!("{line}");
    }
    Ok(exit::ANSWER)
}

fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.into() } else { text.chars().take(most - 1).chain(['…']).collect() }
}
