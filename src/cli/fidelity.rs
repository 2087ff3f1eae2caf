//! `inferasim fidelity`: how far predictions are from a file of measurements.

use crate::anchor::case::Prediction;
use crate::anchor::fidelity::{Cases, Mode, predict, prepare};
use crate::anchor::measured;
use crate::anchor::open_loop::OpenLoop;
use crate::anchor::score::{Errors, Score, Scored, score};
use crate::anchor::transport::Rule;
use crate::anchor::trial::{Trial, trials};
use crate::cost::Calibration;
use crate::report::fidelity::{self as report, About, Scores};
use crate::report::open_loop as section;
use crate::{Error, Result};
use clap::Args;
use std::path::{Path, PathBuf};

/// Predict every row of a measured file and score the predictions.
#[derive(Debug, Args)]
pub struct FidelityArgs {
    /// CSV file of measured points.
    #[arg(long, required_unless_present = "open_loop")]
    measured: Option<PathBuf>,
    /// CSV files measured under open load: runs at a stated rate, or single requests; they are simulated
    #[arg(long, value_name = "FILE", num_args = 1..)]
    open_loop: Vec<PathBuf>,
    /// Calibration profile: a name or a file.
    #[arg(long, default_value = "public")]
    calibration: String,
    /// Refit without the row's group (GPU, engine, model) before predicting it, in this many folds.
    #[arg(long, value_name = "FOLDS")]
    holdout_groups: Option<usize>,
    /// Refit without the row's own configuration before predicting it, in this many folds; other rows of its group are
    /// known, as for a combination that was measured at other points
    #[arg(long, value_name = "FOLDS", conflicts_with_all = ["holdout_groups", "anchors"])]
    holdout_rows: Option<usize>,
    /// Score anchors too: this many random points of each group no constant has seen, and 0, 1 and 3 where fewer; groups
    /// are left out in 8 folds unless --holdout-groups says otherwise
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=100))]
    anchors: Option<u32>,
    /// Draws of anchors from each group
    #[arg(long, default_value_t = 5, requires = "anchors", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Write a page (fidelity.md) with tables and plots into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
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
    let open_loop = OpenLoop::score(&args.open_loop, &calibration)?;
    let Some(file) = &args.measured else { return open_loop_alone(args, &open_loop) };
    let points = measured::read(file)?;
    let prepared = prepare(&points, &calibration);
    let folds = args.holdout_groups.or(args.anchors.map(|_| FOLDS));
    let mode = match (folds, args.holdout_rows) {
        (Some(n), _) => Mode::GroupsLeftOut(n.max(2)),
        (None, Some(n)) => Mode::RowsLeftOut(n.max(2)),
        (None, None) => Mode::Profile,
    };
    let scored = predict(&points, &prepared, &calibration, mode);
    if let Some(path) = &args.out {
        write_predictions(path, &scored)?;
    }
    let result = score(&scored);
    let trials = args.anchors.map_or_else(Vec::new, |k| anchor_trials(&prepared, &scored, k as usize, args.seeds));
    if let Some(folder) = &args.report {
        let file = file_name(file);
        let about = About {
            command: command(args, &file),
            measured: file,
            calibration: args.calibration.clone(),
            mode: match mode {
                Mode::Profile => "as fitted (rows may be among those it was fitted on)".to_string(),
                Mode::GroupsLeftOut(n) => format!("refitted without each row's GPU, engine and model ({n} folds)"),
                Mode::RowsLeftOut(n) => format!("refitted without each row's configuration ({n} folds)"),
            },
        };
        // Beside whole groups left out: what the page's reader gets for combinations the calibration knows.
        let known = match mode {
            Mode::GroupsLeftOut(n) => {
                Some(score(&predict(&points, &prepared, &calibration, Mode::RowsLeftOut(n.max(2)))))
            }
            _ => None,
        };
        report::write(folder, &about, &Scores { main: &result, known: known.as_ref() }, &scored, &trials)?;
        if !args.open_loop.is_empty() {
            report::write_open_loop(folder, &open_loop, &open_loop_command(args))?;
        }
    }
    if args.json {
        let open_loop = (!args.open_loop.is_empty()).then_some(&open_loop);
        let document = Document { score: &result, anchors: &trials, open_loop };
        println!("{}", serde_json::to_string_pretty(&document).unwrap_or_default());
    } else {
        print!("{}{}{}", table(&result), trial_table(&trials), section::table(&open_loop));
        if let Some(folder) = &args.report {
            println!("page: {}", folder.join("fidelity.md").display());
        }
    }
    Ok(crate::error::exit::ANSWER)
}

/// Folds of groups left out for anchors where none are asked for.
const FOLDS: usize = 8;

/// The printed document: the score, and the anchors' where they were asked for.
#[derive(serde::Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    score: &'a Score,
    #[serde(skip_serializing_if = "<[Trial]>::is_empty")]
    anchors: &'a [Trial],
    #[serde(skip_serializing_if = "Option::is_none")]
    open_loop: Option<&'a OpenLoop>,
}

/// Scores of runs under open load alone.
fn open_loop_alone(args: &FidelityArgs, scores: &OpenLoop) -> Result<u8> {
    if let Some(folder) = &args.report {
        report::write_open_loop(folder, scores, &open_loop_command(args))?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(scores).unwrap_or_default());
    } else {
        print!("{}", section::table(scores));
        if let Some(folder) = &args.report {
            println!("page: {}", folder.join("fidelity.md").display());
        }
    }
    Ok(crate::error::exit::ANSWER)
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or(String::new(), |n| n.to_string_lossy().into_owned())
}

fn open_loop_command(args: &FidelityArgs) -> String {
    let files: Vec<String> = args.open_loop.iter().map(|f| file_name(f)).collect();
    let calibration =
        if args.calibration == "public" { String::new() } else { format!(" --calibration {}", args.calibration) };
    format!("inferasim fidelity --open-loop {}{calibration} --report DIR", files.join(" "))
}

fn command(args: &FidelityArgs, file: &str) -> String {
    let mut text = format!("inferasim fidelity --measured {file}");
    if args.calibration != "public" {
        text += &format!(" --calibration {}", args.calibration);
    }
    if let Some(folds) = args.holdout_groups {
        text += &format!(" --holdout-groups {folds}");
    }
    if let Some(folds) = args.holdout_rows {
        text += &format!(" --holdout-rows {folds}");
    }
    if let Some(k) = args.anchors {
        text += &format!(" --anchors {k} --seeds {}", args.seeds);
    }
    text + " --report DIR"
}

/// Scores 0, 1, 3 and `most` anchors; every group counts as unseen, for its constants were fitted without it.
fn anchor_trials(prepared: &Cases, scored: &[Scored<'_>], most: usize, draws: u64) -> Vec<Trial> {
    let mut counts: Vec<usize> = [0, 1, 3].into_iter().filter(|k| *k < most).collect();
    counts.push(most);
    let predictions: Vec<Prediction> = scored.iter().filter_map(|r| r.outcome.as_ref().ok().copied()).collect();
    trials(&prepared.cases, &predictions, |_| true, &counts, draws)
}

fn trial_table(trials: &[Trial]) -> String {
    use std::fmt::Write;
    let Some(first) = trials.first() else { return String::new() };
    let mut out = String::new();
    let _ = writeln!(
        out,
        "anchors: {} groups no constant has seen, {} draws, drawn points not scored",
        first.groups, first.draws
    );
    for t in trials {
        let rule = if t.anchors == 0 { "-" } else { t.rule.word() };
        let shown =
            |e: Option<Errors>| e.map_or("-".into(), |e| format!("MAPE {:5.1} median {:4.1}", e.mape, e.median));
        let used = if t.anchors > 0 && t.rule == Rule::default() { "  (used)" } else { "" };
        let _ = writeln!(
            out,
            "  {:3} anchors  {rule:<10}  TPOT {}  output {}{used}",
            t.anchors,
            shown(t.tpot),
            shown(t.output)
        );
    }
    out
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
