//! How far can the figures be trusted? What the calibration was fitted on, seen from one engine, GPU and model.

use crate::catalog::{self, Kind};
use crate::config::Deployment;
use crate::cost::Calibration;
use crate::cost::calibration::Support;
use crate::cost::residual::{Gain, Residual};
use crate::report::record::{CalibrationLevel, CalibrationStatement};
use crate::target::{GpuFamily, Target};

/// Which count of measured rows a figure rests on.
type Points = fn(&Support) -> u32;
/// Which models those rows measured.
type Models = fn(&Support) -> &[String];
/// What correcting the figure gains.
type Corrected = fn(&Residual) -> Option<&Gain>;

/// One statement for TPOT (and the throughput that follows from it), one for TTFT.
pub fn statements(calibration: &Calibration, target: &Target, engine: &str, model: &str) -> Vec<CalibrationStatement> {
    let figures: [(&str, Points, Models, Corrected); 2] = [
        ("TPOT and throughput", |s| s.tpot_points, |s| &s.models, |r| r.tpot.as_ref()),
        ("TTFT", |s| s.ttft_points, |s| &s.ttft_models, |r| r.ttft.as_ref()),
    ];
    figures
        .map(|(figure, points, models, corrected)| {
            let mut statement = statement(calibration, target, engine, model, (figure, points, models));
            if statement.level == CalibrationLevel::Calibrated {
                statement.text += &correction(calibration, target, engine, model, corrected);
            }
            statement
        })
        .to_vec()
}

/// What its own runs correct, with the error of leaving each out, or that they do not.
fn correction(calibration: &Calibration, target: &Target, engine: &str, model: &str, corrected: Corrected) -> String {
    let found = calibration.residuals.iter().find(|r| {
        let mut parts = r.key.split('/');
        parts.next().is_some_and(|gpu| same_gpu(gpu, &target.gpu.name))
            && parts.next() == Some(engine)
            && parts.next() == Some(model)
            && parts.next().is_none()
    });
    match found.and_then(corrected) {
        Some(gain) => format!(
            "; corrected by {} runs of this model, error {} % where each is left out ({} % uncorrected)",
            gain.points, gain.after_pct, gain.before_pct
        ),
        None => "; no correction by runs of this model: none helps".to_string(),
    }
}

fn statement(
    calibration: &Calibration,
    target: &Target,
    engine: &str,
    model: &str,
    (figure, points, models): (&str, Points, Models),
) -> CalibrationStatement {
    let gpu = &target.gpu.name;
    let measured: Vec<&Support> = calibration.support.iter().filter(|s| points(s) > 0).collect();
    let here: Vec<&Support> = measured.iter().copied().filter(|s| same_gpu(&s.gpu, gpu)).collect();
    if let Some(own) = here.iter().find(|s| s.engine == engine) {
        let known = models(own).iter().any(|m| m.eq_ignore_ascii_case(model));
        let listed = models(own).join(", ");
        let others: Vec<&Support> = here.iter().copied().filter(|s| s.engine != engine).collect();
        let apart = match (known, others.is_empty()) {
            (true, _) => String::new(),
            (false, true) => format!("; none of {model}"),
            (false, false) => format!("; none of {model}, so it also rests on {}", runs(&others, points)),
        };
        let dates = match [own.dates[0].get(..7), own.dates[1].get(..7)] {
            [Some(first), Some(last)] if first == last => format!(" of {first}"),
            [Some(first), Some(last)] => format!(" of {first} to {last}"),
            _ => String::new(),
        };
        let level = if known { CalibrationLevel::Calibrated } else { CalibrationLevel::Neighbour };
        let text = format!("{figure}: fitted on {} runs{dates} of {engine} on {gpu} ({listed}){apart}", points(own));
        return CalibrationStatement { level, text };
    }
    if !here.is_empty() {
        let text = format!("{figure}: rests on {} on {gpu}; none of {engine} there", runs(&here, points));
        return CalibrationStatement { level: CalibrationLevel::Neighbour, text };
    }
    let kin: Vec<&Support> =
        measured.iter().copied().filter(|s| family_of(&s.gpu) == Some(target.gpu.family)).collect();
    if !kin.is_empty() {
        let text = format!("{figure}: nothing measured on {gpu}; rests on its family, {}", runs(&kin, points));
        return CalibrationStatement { level: CalibrationLevel::Neighbour, text };
    }
    let text = format!("{figure}: nothing measured on {gpu} or its family; data-sheet figures and assumptions");
    CalibrationStatement { level: CalibrationLevel::Uncalibrated, text }
}

/// Takes the calibrated level from figures at a load beyond every measured one, and says so.
pub fn limit_to_measured_loads(
    statements: &mut Vec<CalibrationStatement>,
    calibration: &Calibration,
    target: &Target,
    engine: &str,
    deployment: &Deployment,
) {
    let own = calibration.support.iter().find(|s| same_gpu(&s.gpu, &target.gpu.name) && s.engine == engine);
    let Some(most) = own.map(|s| s.most_requests).filter(|m| *m > 0.0) else { return };
    let asked = f64::from(deployment.concurrency) / f64::from(deployment.replicas);
    if asked <= most {
        return;
    }
    for statement in statements.iter_mut().filter(|s| s.level == CalibrationLevel::Calibrated) {
        statement.level = CalibrationLevel::Neighbour;
    }
    let text = format!(
        "{asked:.0} requests per instance lie beyond the {most:.0} that runs of {engine} on {} reached: extrapolated",
        target.gpu.name
    );
    statements.push(CalibrationStatement { level: CalibrationLevel::Neighbour, text });
}

/// `84 runs of vllm-atom, 12 of sglang`.
fn runs(rows: &[&Support], points: Points) -> String {
    let mut by_engine: Vec<(&str, u32)> = Vec::new();
    for row in rows {
        match by_engine.iter_mut().find(|(engine, _)| *engine == row.engine) {
            Some((_, count)) => *count += points(row),
            None => by_engine.push((&row.engine, points(row))),
        }
    }
    by_engine.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let texts: Vec<String> = by_engine.iter().map(|(engine, count)| format!("{count} of {engine}")).collect();
    format!("runs of other engines or GPUs ({})", texts.join(", "))
}

/// `H200` and `H200 SXM` are one GPU.
fn same_gpu(a: &str, b: &str) -> bool {
    let first = |name: &str| name.split_whitespace().next().unwrap_or("").to_ascii_lowercase();
    first(a) == first(b)
}

fn family_of(gpu: &str) -> Option<GpuFamily> {
    let name = gpu.split_whitespace().next()?.to_ascii_lowercase();
    let document = catalog::built_in(Kind::Target, &name)?;
    Target::from_document(&document).ok().map(|t| t.gpu.family)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(rows: &[(&str, &str, &str, u32, u32)]) -> Calibration {
        let mut calibration = Calibration::load("public").unwrap();
        calibration.support = rows
            .iter()
            .map(|&(gpu, engine, model, tpot_points, ttft_points)| Support {
                gpu: gpu.into(),
                engine: engine.into(),
                models: vec![model.into()],
                ttft_models: vec![model.into()],
                most_requests: 0.0,
                dates: Default::default(),
                tpot_points,
                ttft_points,
            })
            .collect();
        calibration
    }

    fn levels(rows: &[(&str, &str, &str, u32, u32)]) -> Vec<CalibrationLevel> {
        let target = Target::load("mi355x").unwrap();
        let found = statements(&calibration(rows), &target, "vllm", "gpt-oss-120b");
        found.iter().map(|s| s.level).collect()
    }

    #[test]
    fn another_engines_ttft_is_said_to_be_anothers() {
        let rows = [("MI355X", "vllm", "gpt-oss-120b", 40, 0), ("MI355X", "sglang", "deepseek-r1", 0, 12)];
        assert_eq!(levels(&rows), [CalibrationLevel::Calibrated, CalibrationLevel::Neighbour]);
        let target = Target::load("mi355x").unwrap();
        let text = &statements(&calibration(&rows), &target, "vllm", "gpt-oss-120b")[1].text;
        assert!(text.contains("12 of sglang") && text.contains("none of vllm there"), "{text}");
    }

    #[test]
    fn family_then_nothing() {
        use CalibrationLevel::{Neighbour, Uncalibrated};
        assert_eq!(levels(&[("MI350X", "vllm", "gpt-oss-120b", 5, 5)]), [Neighbour, Neighbour]);
        assert_eq!(levels(&[("H200", "vllm", "gpt-oss-120b", 5, 5)]), [Uncalibrated, Uncalibrated]);
        assert_eq!(levels(&[]), [Uncalibrated, Uncalibrated]);
        assert_eq!(levels(&[("MI355X", "vllm", "deepseek-r1", 5, 5)]), [Neighbour, Neighbour]);
    }
}
