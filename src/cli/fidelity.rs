//! `inferasim fidelity`: how far predictions are from a file of measurements.

use crate::anchor::fidelity::{Mode, predict, prepare};
use crate::anchor::measured;
use crate::anchor::score::{Score, Scored, score};
use crate::cost::Calibration;
use crate::{Error, Result};
use clap::Args;
use std::path::{Path, PathBuf};

/// Predict every row of a measured file and score the predictions.
#[derive(Debug, Args)]
pub struct FidelityArgs {
    /// CSV file of measured points.
    #[arg(long)]
    measured: PathBuf,
    /// Calibration profile: a name or a file.
    #[arg(long, default_value = "public")]
    calibration: String,
    /// Refit without the row's group (GPU, engine, model) before predicting it, in this many folds.
    #[arg(long, value_name = "FOLDS")]
    holdout_groups: Option<usize>,
    /// Write the predictions as CSV.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &FidelityArgs) -> Result<u8> {
    let calibration = Calibration::load(&args.calibration)?;
    let points = measured::read(&args.measured)?;
    let prepared = prepare(&points, &calibration);
    let mode = args.holdout_groups.map_or(Mode::Profile, |n| Mode::GroupsLeftOut(n.max(2)));
    let scored = predict(&points, &prepared, &calibration, mode);
    if let Some(path) = &args.out {
        write_predictions(path, &scored)?;
    }
    let result = score(&scored);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&result).unwrap_or_default());
    } else {
        print!("{}", table(&result));
    }
    Ok(crate::error::exit::ANSWER)
}

fn write_predictions(path: &Path, rows: &[Scored<'_>]) -> Result<()> {
    let fail =
        |e: &dyn std::fmt::Display| Error::input(path.display().to_string(), format!("cannot be written: {e}"), "");
    let mut out = csv::Writer::from_path(path).map_err(|e| fail(&e))?;
    let header = ["id", "status", "reason", "ttft_mean_ms", "tpot_mean_ms", "output_tok_s", "total_tok_s"];
    out.write_record(header).map_err(|e| fail(&e))?;
    for row in rows {
        let record = match &row.outcome {
            Ok(p) => {
                let f = |v: f64| format!("{v:.6}");
                let [ttft, tpot, output, total] = [p.ttft_ms, p.tpot_ms, p.output_tok_s, p.total_tok_s].map(f);
                [row.point.id.clone(), "ok".into(), String::new(), ttft, tpot, output, total]
            }
            Err(reason) => {
                let empty = String::new;
                [row.point.id.clone(), "refused".into(), reason.clone(), empty(), empty(), empty(), empty()]
            }
        };
        out.write_record(&record).map_err(|e| fail(&e))?;
    }
    out.flush().map_err(|e| fail(&e))
}

fn table(result: &Score) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    let coverage = 100.0 * result.answered as f64 / result.rows.max(1) as f64;
    let _ = writeln!(out, "rows {}  answered {}  coverage {coverage:.1} %", result.rows, result.answered);
    for (reason, count) in &result.refused {
        let _ = writeln!(out, "  refused {count:5}  {}", reason.chars().take(80).collect::<String>());
    }
    let _ = writeln!(
        out,
        "{:<44} {:7} {:>5} {:>6} {:>6} {:>6} {:>6} {:>6}",
        "slice", "figure", "rows", "MAPE", "median", "bias", "<=10%", "<=20%"
    );
    for (name, slice) in &result.slices {
        for (figure, errors) in [("TPOT", slice.tpot), ("TTFT", slice.ttft), ("output", slice.output)] {
            let Some(e) = errors.filter(|e| e.n >= 5 || name == "all") else { continue };
            let _ = writeln!(
                out,
                "{:<44} {figure:7} {:5} {:6.1} {:6.1} {:+6.1} {:6.0} {:6.0}",
                name.chars().take(44).collect::<String>(),
                e.n,
                e.mape,
                e.median,
                e.bias,
                e.within_10,
                e.within_20
            );
        }
    }
    let _ = writeln!(out, "decision: most tok/s per GPU with TPOT under a limit");
    for d in &result.decisions {
        let _ = writeln!(
            out,
            "  {:3} ms  cases {:4}  broken {:5.1} %  optimum {:5.1} %  silent {:5.1} %  regret {:.1} %",
            d.limit_ms, d.cases, d.broken, d.optimum, d.silent, d.regret
        );
    }
    out
}
