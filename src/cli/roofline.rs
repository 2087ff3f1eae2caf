//! `inferasim roofline`: how near to the silicon's roof did a measured sweep come?

use crate::anchor::harvest::{FinalistResult, read_results};
use crate::anchor::roofline::roofline;
use crate::error::exit;
use crate::report::roofline as page;
use crate::report::terminal::table::Table;
use crate::target::Target;
use crate::{Error, Result};
use clap::Args;
use std::path::PathBuf;

/// Place a measured sweep on the roofline: best concurrency, bandwidth, sharding
#[derive(Debug, Args)]
pub struct RooflineArgs {
    /// Folders of `inferasim measure --shortlist`, best with several --concurrency and shardings
    #[arg(required = true, value_name = "DIR")]
    measured: Vec<PathBuf>,
    /// Machine: a built-in name or a YAML file
    #[arg(long)]
    target: String,
    /// Folder for roofline.html, its plots and roofline.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &RooflineArgs) -> Result<u8> {
    let target = Target::load(&args.target)?;
    let results: Vec<FinalistResult> = read_results(&args.measured)?.into_iter().map(|(_, result)| result).collect();
    let roofline = roofline(&results, &target);
    if roofline.points.is_empty() {
        let found = format!("no run can be placed: {}", roofline.left_out.join("; "));
        return Err(Error::input("roofline", found, "Measure whole runs of deployments that this target holds"));
    }
    if let Some(folder) = &args.out {
        page::write(folder, &roofline)?;
    }
    if args.json {
        let text = serde_json::to_string_pretty(&roofline).map_err(|e| Error::input("--json", e.to_string(), ""))?;
        println!("{text}");
        return Ok(exit::ANSWER);
    }
    roofline.answers.iter().for_each(|answer| println!("{answer}"));
    let columns = [
        ("sharding", false),
        ("clients", true),
        ("tok/s/GPU", true),
        ("decode TFLOP/s", true),
        ("FLOP/byte", true),
        ("of HBM", true),
        ("prefill TFLOP/s", true),
    ];
    let mut table = Table::new(&columns);
    for p in &roofline.points {
        table.row(vec![
            p.sharding.clone(),
            p.concurrency.to_string(),
            format!("{:.1}", p.tok_s_per_gpu),
            format!("{:.3}", p.decode_tflops),
            format!("{:.1}", p.decode_intensity),
            format!("{:.1} %", 100.0 * p.hbm_share),
            p.prefill.map_or("-".into(), |f| format!("{:.2}", f.tflops)),
        ]);
    }
    table.lines().iter().for_each(|line| println!("{line}"));
    roofline.left_out.iter().for_each(|why| println!("not placed: {why}"));
    if let Some(folder) = &args.out {
        println!("Page: {}", folder.join("roofline.html").display());
    }
    Ok(exit::ANSWER)
}
