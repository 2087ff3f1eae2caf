//! `inferasim calibrate`: fit serving constants on a file of measurements.

use crate::anchor::fidelity::{fits, prepare};
use crate::anchor::fit::{Weights, fit};
use crate::anchor::measured;
use crate::cost::Calibration;
use crate::{Error, Result};
use clap::Args;
use std::path::PathBuf;

/// Fit serving constants on measured points and write a calibration profile.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// CSV file of measured points.
    #[arg(long)]
    measured: PathBuf,
    /// Profile whose priors and scopes the fit starts from: a name or a file.
    #[arg(long, default_value = "public")]
    base: String,
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

/// Runs the command.
pub fn run(args: &CalibrateArgs) -> Result<u8> {
    let base = Calibration::load(&args.base)?;
    let points = measured::read(&args.measured)?;
    let prepared = prepare(&points, &base);
    let wanted = |value: &str, filter: &Option<String>| filter.as_ref().is_none_or(|f| value.eq_ignore_ascii_case(f));
    let rows: Vec<_> = prepared
        .cases
        .iter()
        .filter(|c| fits(c) && wanted(&c.regime.gpu, &args.target) && wanted(&c.regime.engine, &args.engine))
        .collect();
    if rows.len() < 4 {
        return Err(Error::input(
            args.measured.display().to_string(),
            format!("{} usable rows", rows.len()),
            "A fit needs at least four rows with a TPOT of a known model on a known GPU",
        ));
    }
    let fitted = fit(&base, &rows, Weights::default());
    println!("{} rows", rows.len());
    for u in &fitted.unknowns {
        let mark = if u.identified() { "" } else { "  not identified: the prior's" };
        println!("{:<28} {:<32} {:10.4}  ±{:4.0} %  {:5}{mark}", u.name, u.scope, u.value, 100.0 * u.spread, u.points);
    }
    let text = serde_yaml::to_string(&fitted.calibration)
        .map_err(|e| Error::input("calibration profile", e.to_string(), ""))?;
    std::fs::write(&args.out, text)
        .map_err(|e| Error::input(args.out.display().to_string(), format!("cannot be written: {e}"), ""))?;
    Ok(crate::error::exit::ANSWER)
}
