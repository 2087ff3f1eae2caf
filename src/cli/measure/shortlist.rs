//! `inferasim measure --shortlist`: a search's finalists, one after the other, with a journal.

use super::{Measure, options};
use crate::anchor::harvest::FinalistResult;
use crate::anchor::store::Store;
use crate::error::exit;
use crate::measure::engine::OWN_LAUNCH;
use crate::measure::finalist::{self, Finalist};
use crate::measure::finalists::{self, Campaign, MeasuredPoint, Outcome};
use crate::measure::prompt::Tokenizer;
use crate::report::terminal::table::Table;
use crate::{Error, Result};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where an engine on this machine listens unless told otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8000";

/// The flags of a campaign.
#[derive(Debug, Args)]
pub struct ShortlistArgs {
    /// Measure the deployments of a shortlist.json (inferasim-tune), each at its own shape and load; run again, it goes on
    #[arg(long, value_name = "FILE", requires = "out",
          conflicts_with_all = ["shape", "isl", "osl", "dataset", "write_dataset", "rate", "trace"])]
    shortlist: Option<PathBuf>,
    /// Ranks of the entries to measure [default: all]
    #[arg(long, value_delimiter = ',', requires = "shortlist", value_name = "RANK")]
    entry: Vec<u64>,
    /// Start each engine by its launch command, or by COMMAND (which finds it in $LAUNCH, the entry in $ENTRY)
    #[arg(long, requires = "shortlist", value_name = "COMMAND", num_args = 0..=1, require_equals = true,
          default_missing_value = OWN_LAUNCH)]
    launch: Option<String>,
    /// Path that answers 200 once the engine is up
    #[arg(long, requires = "launch", default_value = "/health")]
    health: String,
    /// Longest start of an engine in seconds
    #[arg(long, requires = "launch", default_value_t = 1800.0)]
    start_timeout: f64,
    /// The endpoint is one of an entry's equal instances: it gets its share of the load and is kept as one instance; what
    /// --launch starts by an entry's own line always is
    #[arg(long, requires = "shortlist")]
    one_instance: bool,
    /// Store that gets every whole point as an anchor [default: anchors in --out]
    #[arg(long, requires = "shortlist", value_name = "DIR")]
    anchors: Option<PathBuf>,
}

impl ShortlistArgs {
    /// A campaign is asked for.
    pub fn given(&self) -> bool {
        self.shortlist.is_some()
    }
}

/// Runs the campaign, or goes on with it.
pub fn run(args: &Measure, tokenizer: &Arc<Tokenizer>, seed: u64) -> Result<u8> {
    let (c, Some(out)) = (&args.campaign, &args.out) else {
        return Err(Error::input("--shortlist", "no --out", "Name the folder of the campaign"));
    };
    let file = c.shortlist.as_deref().unwrap_or(Path::new(""));
    let mut finalists = finalist::choose(finalist::read(file)?, &c.entry)?;
    if c.one_instance || c.launch.as_deref() == Some(OWN_LAUNCH) {
        finalists = finalists.into_iter().map(Finalist::one_instance).collect::<Result<_>>()?;
    }
    if finalists.len() > 1 && c.launch.is_none() {
        let found = format!("{} entries and one endpoint", finalists.len());
        return Err(Error::input("--shortlist", found, "Choose one with --entry RANK, or start each with --launch"));
    }
    if !c.health.starts_with('/') {
        return Err(Error::input(format!("--health {}", c.health), "not a path", "Write it as /health"));
    }
    let mut base = options(args, vec![], seed)?;
    base.burn_in = args.burn_in.unwrap_or(16);
    let campaign = Campaign {
        finalists,
        base,
        served_model: args.model.clone(),
        concurrency: args.concurrency.clone(),
        launch: c.launch.clone(),
        health: c.health.clone(),
        start_limit: Duration::from_secs_f64(c.start_timeout.clamp(0.1, 1e6)),
        out: out.clone(),
    };
    if args.dry_run {
        return dry_run(&campaign, args.json);
    }
    campaign.base.endpoint.allow_load(args.yes)?;
    if args.overwrite {
        remove_journal(out)?;
    }
    let store = Store::new(c.anchors.clone().unwrap_or_else(|| out.join("anchors")));
    let keep = |point: &MeasuredPoint<'_>| keep(point, &store);
    let outcome = finalists::run(&campaign, tokenizer, &|step| eprintln!("{step}"), keep)?;
    print(&campaign, file, &outcome, &store, args.json)
}

fn remove_journal(out: &Path) -> Result<()> {
    match std::fs::remove_file(out.join(finalists::JOURNAL)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::input(format!("--out {}", out.display()), e.to_string(), "Name another folder"))
        }
        _ => Ok(()),
    }
}

/// The anchor first: a result that is on disk has its anchor.
fn keep(point: &MeasuredPoint<'_>, store: &Store) -> Result<()> {
    let result = FinalistResult::new(point);
    match (&result.anchor, &result.no_anchor) {
        (Some(anchor), _) => store.add(std::slice::from_ref(anchor), true)?,
        (None, why) => eprintln!("{}: no anchor: {}", point.finalist.name, why.as_deref().unwrap_or_default()),
    }
    result.write(point.folder)
}

fn dry_run(campaign: &Campaign, as_json: bool) -> Result<u8> {
    let starts = |f: &Finalist| campaign.launch.as_ref().map(|l| l.replace(OWN_LAUNCH, &f.launch));
    let finalists: Vec<_> = campaign
        .finalists
        .iter()
        .map(|f| json!({"name": f.name, "rank": f.rank, "start": starts(f), "model": campaign.served_model.as_ref().unwrap_or(&f.served_model)}))
        .collect();
    let points: Vec<_> =
        campaign.plan().into_iter().map(|(name, requests)| json!({"point": name, "requests": requests})).collect();
    let url = campaign.base.endpoint.to_string();
    if as_json {
        let plan = json!({"dry_run": true, "url": url, "finalists": finalists, "points": points});
        println!("{}", serde_json::to_string_pretty(&plan).unwrap_or_default());
        return Ok(exit::ANSWER);
    }
    println!("POST {url}   (nothing is started or sent)");
    for f in &campaign.finalists {
        match starts(f) {
            Some(command) => println!("{}: {command}", f.name),
            None => println!("{}: measured as it runs", f.name),
        }
    }
    for (name, requests) in campaign.plan() {
        println!("point {name}: {requests} requests");
    }
    Ok(exit::ANSWER)
}

fn print(campaign: &Campaign, file: &Path, outcome: &Outcome, store: &Store, as_json: bool) -> Result<u8> {
    let out = &campaign.out;
    let code = if outcome.failed.is_empty() { exit::ANSWER } else { exit::DIFFERS };
    let results: Vec<FinalistResult> = campaign
        .plan()
        .iter()
        .filter_map(|(point, _)| std::fs::read(out.join(point).join(crate::anchor::harvest::RESULT)).ok())
        .filter_map(|text| serde_json::from_slice(&text).ok())
        .collect();
    if as_json {
        let failed: Vec<_> = outcome.failed.iter().map(|(point, why)| json!({"point": point, "why": why})).collect();
        let summary = json!({"schema": "inferasim.campaign/1", "measured": outcome.measured, "measured_before": outcome.before,
            "failed": failed, "interrupted": outcome.interrupted, "results": results, "anchors": store.folder()});
        let text = serde_json::to_string_pretty(&summary).map_err(|e| Error::input("--json", e.to_string(), ""))?;
        println!("{text}");
    } else {
        let columns = [
            ("TTFT ms", true),
            ("TPOT ms", true),
            ("tok/s", true),
            ("ok", true),
            ("bad", true),
            ("C", true),
            ("finalist", false),
        ];
        let mut table = Table::new(&columns);
        for result in &results {
            let Some(p) = result.point() else { continue };
            let mean = |d: &Option<crate::measure::stats::Distribution>| {
                d.as_ref().map_or("-".into(), |d| format!("{:.2}", d.mean))
            };
            table.row(vec![
                mean(&p.metrics.ttft_ms),
                mean(&p.metrics.tpot_ms),
                format!("{:.1}", p.system.output_tok_s),
                p.requests.ok.to_string(),
                (p.requests.sent - p.requests.ok).to_string(),
                p.load.concurrency().unwrap_or(0).to_string(),
                result.entry.get("name").and_then(|n| n.as_str()).unwrap_or_default().to_string(),
            ]);
        }
        table.lines().iter().for_each(|line| println!("{line}"));
        for (point, why) in &outcome.failed {
            println!("{point}: failed: {why}");
        }
        println!("results in {}, anchors in {}", out.display(), store.folder().display());
        if results.is_empty() {
            println!("next: nothing was measured; run it again once the causes above are gone");
        } else {
            let shown = |path: &Path| crate::export::shell(&path.display().to_string());
            println!("next: inferasim compare {} --shortlist {}", shown(out), shown(file));
        }
    }
    if outcome.interrupted {
        let found = format!("interrupted; {} points are whole in {}", outcome.before + outcome.measured, out.display());
        return Err(Error::input("measure --shortlist", found, "Run it again to go on"));
    }
    Ok(code)
}
