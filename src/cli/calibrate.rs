//! `inferasim calibrate`: fit serving constants on a file of measurements.

use crate::anchor::case::Case;
use crate::anchor::fidelity::{Cases, fits, prepare, sound};
use crate::anchor::fit::{Knowledge, Weights, fit};
use crate::anchor::measured::{self, MeasuredPoint};
use crate::anchor::profile::finished;
use crate::anchor::residual_fit::residuals;
use crate::anchor::store::Store;
use crate::cost::Calibration;
use crate::{Error, Result};
use clap::Args;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Fit serving constants on measured points and write a calibration profile.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// CSV files of measured points, or folders of anchors.
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    measured: Vec<PathBuf>,
    /// Profile that the fit starts from and keeps where the rows say nothing: a name or a file.
    #[arg(long, default_value = "public")]
    base: String,
    /// Forget what the base was fitted to: its priors and scopes alone count, and the rows.
    #[arg(long)]
    fresh: bool,
    /// Only rows of this GPU.
    #[arg(long)]
    target: Option<String>,
    /// Only rows of this engine.
    #[arg(long)]
    engine: Option<String>,
    /// Where to write the profile.
    #[arg(long)]
    out: PathBuf,
}

/// Measured rows that a fit needs at least.
pub const FEWEST_ROWS: usize = 4;

/// What a reader of a written profile should know first.
const HEADER: &str = "\
# Serving constants, written by `inferasim calibrate`. Times in µs unless a name says ms. A factor multiplies the value in
# its scope; no parameter depends on a model. `residuals`: what the physics leaves over for combinations of GPU, engine and
# model that were measured, kept where leave-one-out says that it helps (after < before). A node is a measured place: clients,
# ranks, expert ranks, prompt and answer tokens, weight bits, way of serving, epoch, and its weight for TPOT and TTFT.
";

/// Runs the command.
pub fn run(args: &CalibrateArgs) -> Result<u8> {
    let base = Calibration::load(&args.base)?;
    let mut points = Vec::new();
    for path in &args.measured {
        points.extend(if path.is_dir() { of_anchors(path)? } else { measured::read(path)? });
    }
    let prepared = prepare(&points, &base);
    left_out(&points, &prepared);
    let wanted = |value: &str, filter: &Option<String>| filter.as_ref().is_none_or(|f| value.eq_ignore_ascii_case(f));
    let here = |c: &&Case| wanted(&c.regime.gpu, &args.target) && wanted(&c.regime.engine, &args.engine);
    let corrected: Vec<_> = prepared.cases.iter().filter(|c| sound(c)).filter(here).collect();
    let rows: Vec<_> = corrected.iter().copied().filter(|c| fits(c)).collect();
    if rows.len() < FEWEST_ROWS {
        return Err(Error::input(
            args.measured.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(" "),
            format!("{} usable rows", rows.len()),
            "A fit needs at least four rows with a TPOT of a known model on a known GPU",
        ));
    }
    let knowledge = if args.fresh { Knowledge::Priors } else { Knowledge::Profile };
    let fitted = fit(&base, &rows, Weights::default(), knowledge);
    println!("{} rows", rows.len());
    if fitted.unknowns.is_empty() {
        println!("the constants are those of {}: it has a factor for every engine and GPU of these rows", base.name);
    }
    for u in &fitted.unknowns {
        let mark = if u.identified() { "" } else { "  not identified: the prior's" };
        println!("{:<24} {:<28} {:9.4}  ±{:3.0} % {:4}{mark}", u.name, u.scope, u.value, 100.0 * u.spread, u.points);
    }
    let names = args.measured.iter().filter_map(|p| p.file_name()).map(|n| n.to_string_lossy());
    let source = names.collect::<Vec<_>>().join(" and ");
    let before = (!args.fresh).then_some(&base);
    let mut profile = finished(&fitted, &rows, &source, before);
    profile.residuals = residuals(&profile, &corrected, before.map_or(&[], |b| &b.residuals));
    println!("{} combinations of GPU, engine and model keep a correction", profile.residuals.len());
    let text = serde_yaml::to_string(&profile).map_err(|e| Error::input("calibration profile", e.to_string(), ""))?;
    std::fs::write(&args.out, format!("{HEADER}{text}"))
        .map_err(|e| Error::input(args.out.display().to_string(), format!("cannot be written: {e}"), ""))?;
    Ok(crate::error::exit::ANSWER)
}

/// Says which rows no fit can use, and why: one by one where they are few, else by reason.
fn left_out(points: &[MeasuredPoint], prepared: &Cases) {
    let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (point, outcome) in points.iter().zip(&prepared.of_row) {
        let reason = match outcome {
            Err(why) => why.clone(),
            Ok(at) if prepared.cases[*at].point.tpot_ms.is_none() => "no TPOT".into(),
            Ok(at) if !sound(&prepared.cases[*at]) => {
                "its figures contradict each other, or it reached no steady state".into()
            }
            Ok(_) => continue,
        };
        reasons.entry(reason).or_default().push(&point.id);
    }
    for (reason, ids) in reasons {
        let some = ids.iter().take(3).copied().collect::<Vec<_>>().join(", ");
        let more = if ids.len() > 3 { ", …" } else { "" };
        eprintln!("left out: {} rows ({some}{more}): {reason}", ids.len());
    }
}

/// The runs of a store as rows; a run that constants cannot be fitted on is left out aloud.
fn of_anchors(folder: &Path) -> Result<Vec<MeasuredPoint>> {
    let mut rows = Vec::new();
    for anchor in Store::new(folder).read()? {
        match anchor.to_row() {
            Ok(row) => rows.push(row),
            Err(why) => eprintln!("anchor {} is left out: {why}", anchor.id),
        }
    }
    Ok(rows)
}
