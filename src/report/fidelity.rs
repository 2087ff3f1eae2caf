//! A page on how far predictions were from measurements: tables and plots of one run of `inferasim fidelity`.

use super::open_loop;
use super::plots::parity::Parity;
use super::plots::{png, svg};
use crate::anchor::open_loop::OpenLoop;
use crate::anchor::score::{Decision, Errors, Score, Scored, SliceErrors, errors};
use crate::anchor::shares::{kin, parts, shares};
use crate::anchor::trial::Trial;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// What the page says beside the figures.
#[derive(Debug, Clone)]
pub struct About {
    /// File of the measurements, without its folder.
    pub measured: String,
    /// Calibration profile.
    pub calibration: String,
    /// How the constants were fitted.
    pub mode: String,
    /// The command that writes the page again.
    pub command: String,
}

/// What was scored.
#[derive(Debug, Clone, Copy)]
pub struct Scores<'a> {
    /// The rows, as [`About::mode`] says.
    pub main: &'a Score,
    /// The same rows where only each row's own configuration was left out of the fit.
    pub known: Option<&'a Score>,
}

/// Writes `fidelity.md` and its plots into a folder, which is made where it is missing.
///
/// # Errors
/// A folder that cannot be written.
pub fn write(folder: &Path, about: &About, scores: &Scores<'_>, rows: &[Scored<'_>], trials: &[Trial]) -> Result<()> {
    let failed = |e: std::io::Error| {
        Error::input(folder.display().to_string(), format!("cannot be written: {e}"), "Give --report another folder")
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    for (name, chart) in plots(rows, &about.mode) {
        std::fs::write(folder.join(format!("fidelity-{name}.svg")), svg(&chart)?).map_err(failed)?;
        png(&chart, &folder.join(format!("fidelity-{name}.png")))?;
    }
    let place = folder.join("fidelity.md");
    let mut text = page(about, scores, rows, trials);
    // A run that scores no open load keeps what an earlier one found.
    if let Ok(old) = std::fs::read_to_string(&place)
        && let Some((from, to)) = open_loop::existing(&old)
    {
        text = open_loop::replace(&text, &old[from..to]);
    }
    std::fs::write(place, text).map_err(failed)
}

/// Writes the section on open load into the folder's `fidelity.md`, or a page of that section alone.
///
/// # Errors
/// A folder that cannot be written.
pub fn write_open_loop(folder: &Path, scores: &OpenLoop, command: &str) -> Result<()> {
    let failed = |e: std::io::Error| {
        Error::input(folder.display().to_string(), format!("cannot be written: {e}"), "Give --report another folder")
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let place = folder.join("fidelity.md");
    let page =
        std::fs::read_to_string(&place).unwrap_or_else(|_| "# How far are predictions from measurements?\n".into());
    std::fs::write(place, open_loop::replace(&page, &open_loop::section(scores, command))).map_err(failed)
}

/// The three plots, coloured by GPU.
fn plots(rows: &[Scored<'_>], mode: &str) -> Vec<(&'static str, Parity)> {
    type Pick = fn(&Scored<'_>) -> Option<(f64, f64)>;
    let figures: [(&str, &str, &str, Pick); 3] = [
        ("tpot", "TPOT", "TPOT, ms", |r| Some((r.point.tpot_ms?, r.outcome.as_ref().ok()?.tpot_ms))),
        ("ttft", "Mean TTFT", "mean TTFT, ms", |r| Some((r.point.ttft_ms?, r.outcome.as_ref().ok()?.ttft_ms))),
        ("output", "Output rate", "output tokens/s", |r| {
            Some((r.point.output_tok_s?, r.outcome.as_ref().ok()?.output_tok_s))
        }),
    ];
    figures
        .into_iter()
        .map(|(name, title, quantity, pick)| {
            let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
            for row in rows {
                if let Some(pair) = pick(row).filter(|p| p.0 > 0.0 && p.1 > 0.0) {
                    series.entry(row.point.hardware.clone()).or_default().push(pair);
                }
            }
            let all: Vec<f64> = series.values().flatten().map(|(m, p)| p / m - 1.0).collect();
            let said = errors(&all).map_or(String::new(), |e| {
                format!("{} rows, MAPE {:.1} %, median {:.1} %, bias {:+.1} %; {mode}", e.n, e.mape, e.median, e.bias)
            });
            let title = format!("{title}: predicted against measured");
            let quantity = quantity.to_string();
            (name, Parity { title, subtitle: said, quantity, series: series.into_iter().collect() })
        })
        .collect()
}

fn page(about: &About, scores: &Scores<'_>, rows: &[Scored<'_>], trials: &[Trial]) -> String {
    let score = scores.main;
    let mut out = String::new();
    let coverage = 100.0 * score.answered as f64 / score.rows.max(1) as f64;
    let _ = writeln!(
        out,
        "# How far are predictions from measurements?\n\n\
         Written by `{}`; do not edit.\n\n\
         Measurements: `{}` ({} rows that count, {} answered: {coverage:.1} %). Calibration `{}`, {}.\n\n\
         TPOT is (E2E − TTFT)/(output tokens − 1), mean over requests (the median where only that was recorded). TTFT is \
         the mean over all requests of a closed-loop run, its first wave included. The output rate counts the whole run. \
         Errors are |predicted/measured − 1|, in %: mean / median.\n",
        about.command, about.measured, score.rows, score.answered, about.calibration, about.mode
    );
    for (name, what) in [("tpot", "TPOT"), ("ttft", "Mean TTFT"), ("output", "Output rate")] {
        let _ = writeln!(out, "![{what}: predicted against measured](fidelity-{name}.svg)\n");
    }
    slices(&mut out, "By way of serving", score, |n| matches!(n, "all" | "agg" | "spec" | "disagg" | "dp attention"));
    slices(&mut out, "By GPU", score, |n| n.starts_with("agg ") && !n.starts_with("agg C ") && !n[4..].contains(' '));
    slices(&mut out, "By GPU and engine", score, |n| {
        n.starts_with("agg ") && !n.starts_with("agg C ") && n[4..].contains(' ')
    });
    slices(&mut out, "By model", score, |n| n.starts_with("model "));
    slices(&mut out, "By concurrency", score, |n| n.starts_with("agg C "));
    decisions(&mut out, "The decision", score);
    levels(&mut out, rows);
    known(&mut out, scores.known);
    refusals(&mut out, score);
    anchors(&mut out, trials);
    noise(&mut out, rows);
    out
}

fn cell(errors: Option<Errors>) -> String {
    errors.map_or("–".into(), |e| format!("{:.1} / {:.1}", e.mape, e.median))
}

fn slices(out: &mut String, title: &str, score: &Score, keep: impl Fn(&str) -> bool) {
    let kept: Vec<(&String, &SliceErrors)> =
        score.slices.iter().filter(|(name, s)| keep(name) && s.tpot.is_some_and(|e| e.n >= 5)).collect();
    if kept.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "## {title}\n\n| slice | rows | TPOT | bias | within 10 % | TTFT | output rate |\n|---|---|---|---|---|---|---|"
    );
    for (name, s) in kept {
        let tpot = s.tpot.unwrap_or(Errors { n: 0, mape: 0.0, median: 0.0, bias: 0.0, within_10: 0.0, within_20: 0.0 });
        let name = match name.as_str() {
            "agg" => "aggregated, no speculation",
            "spec" => "aggregated, speculative",
            "disagg" => "disaggregated",
            n => n.trim_start_matches("agg ").trim_start_matches("model "),
        };
        let _ = writeln!(
            out,
            "| {name} | {} | {} | {:+.1} | {:.0} % | {} | {} |",
            tpot.n,
            cell(s.tpot),
            tpot.bias,
            tpot.within_10,
            cell(s.ttft),
            cell(s.output)
        );
    }
    out.push('\n');
}

/// What a combination of GPU, engine and model that the calibration knows is predicted like.
fn known(out: &mut String, score: Option<&Score>) {
    let Some(score) = score else { return };
    let _ = writeln!(
        out,
        "## Combinations that were measured at other points\n\nEverything above leaves a whole combination of GPU, engine and \
         model out of the fit. This section leaves out single configurations only: constants and corrections come from the \
         rest of the row's combination, as where a user asks for another load, length or layout of a combination that the \
         calibration knows.\n"
    );
    slices(out, "Known combinations, by way of serving", score, |n| {
        matches!(n, "all" | "agg" | "spec" | "disagg" | "dp attention")
    });
    slices(out, "Known combinations, by GPU", score, |n| {
        n.starts_with("agg ") && !n.starts_with("agg C ") && !n[4..].contains(' ')
    });
    decisions(out, "Known combinations, the decision", score);
}

fn decisions(out: &mut String, title: &str, score: &Score) {
    let _ = writeln!(
        out,
        "## {title}\n\nIn each group of GPU, model, engine, precision and lengths with at least four measured points: \
         \"the most tok/s per GPU with TPOT under a limit\". Broken: the choice exceeds the limit by more than 5 %. Optimum: \
         within 2 % of the best measured one. Regret: what a kept promise falls short by. Silent: nothing offered though \
         something keeps the limit. Aggregated rows without speculation, then all rows.\n\n\
         | rows | limit | cases | broken | optimum | regret | silent |\n|---|---|---|---|---|---|---|"
    );
    let slices = score.aggregated_decisions.iter().filter(|(_, d)| d.iter().any(|d| d.cases >= DECISION_CASES));
    let named = slices.map(|(name, d)| (if name == "agg" { "all GPUs" } else { name.trim_start_matches("agg ") }, d));
    for (name, table) in named.chain([("all rows", &score.decisions)]) {
        for d in table {
            decision(out, name, d);
        }
    }
    out.push('\n');
}

/// A GPU with fewer cases has no decision table of its own.
const DECISION_CASES: usize = 20;

fn decision(out: &mut String, rows: &str, d: &Decision) {
    let _ = writeln!(
        out,
        "| {rows} | {} ms | {} | {:.1} % | {:.1} % | {:.1} % | {:.1} % |",
        d.limit_ms, d.cases, d.broken, d.optimum, d.regret, d.silent
    );
}

/// How much of the error a constant per combination could take away, and whether others know that constant.
fn levels(out: &mut String, rows: &[Scored<'_>]) {
    let found = shares(rows);
    if found.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "## Where the error sits\n\nTPOT of the rows above, of each GPU without speculation and pools, as predicted and with the mean \
         error of each combination of GPU, engine and model taken out: what a perfect constant per combination would leave. The rest is shape over \
         load, layout and precision, and versions. Between: standard deviation of the combinations' mean errors.\n\n\
         | rows | predicted | without each combination's mean | between |\n|---|---|---|---|"
    );
    for s in found.iter().filter(|s| s.predicted.n >= 20) {
        let name = if s.slice == "agg" { "all GPUs" } else { s.slice.trim_start_matches("agg ") };
        let (predicted, levelled) = (cell(Some(s.predicted)), cell(Some(s.levelled)));
        let _ = writeln!(out, "| {name} | {predicted} | {levelled} | {:.0} % |", 100.0 * s.between);
    }
    let _ = writeln!(
        out,
        "\nCould that mean be known from other combinations? TPOT of the rows whose combination shares two of GPU, engine and \
         model with others, as predicted and with the others' mean error, shrunken by n/(n + 1), taken out: where the second \
         is no smaller, a combination that was never measured says of itself what no other does.\n\n\
         | shared | combinations | rows | predicted | corrected by the others |\n|---|---|---|---|---|"
    );
    for k in kin(rows) {
        let (predicted, corrected) = (cell(Some(k.predicted)), cell(Some(k.corrected)));
        let _ = writeln!(out, "| {} | {} | {} | {predicted} | {corrected} |", k.shared, k.combinations, k.predicted.n);
    }
    let _ = writeln!(
        out,
        "\nThe combinations that hold most of the error; points of the mean error over all aggregated rows.\n\n\
         | combination | rows | TPOT | output rate | points of TPOT | points of output |\n|---|---|---|---|---|---|"
    );
    for p in parts(rows, MOST_PARTS) {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {:.1} | {:.1} |",
            p.combination,
            p.tpot.n,
            cell(Some(p.tpot)),
            cell(p.output),
            p.points[0],
            p.points[1]
        );
    }
    out.push('\n');
}

/// Combinations listed by their part of the error.
const MOST_PARTS: usize = 10;

fn refusals(out: &mut String, score: &Score) {
    if score.refused.is_empty() {
        return;
    }
    let _ = writeln!(out, "## Rows without an answer\n\n| rows | reason |\n|---|---|");
    for (reason, count) in &score.refused {
        let _ = writeln!(out, "| {count} | {} |", reason.replace('|', "/").replace('\n', " "));
    }
    out.push('\n');
}

fn anchors(out: &mut String, trials: &[Trial]) {
    let Some(first) = trials.first() else { return };
    let _ = writeln!(
        out,
        "## With anchors\n\n{} groups (GPU, engine, model) whose rows no constant has seen; random points of each group as \
         anchors, mean of {} draws, the drawn points never scored (all lines score the same rows). Only decode is carried: \
         the rows do not say that prefix caching was off.\n\n\
         | anchors | carried by | TPOT | within 10 % | output rate |\n|---|---|---|---|---|",
        first.groups, first.draws
    );
    for t in trials {
        let rule = if t.anchors == 0 { "–" } else { t.rule.word() };
        let within = t.tpot.map_or("–".into(), |e| format!("{:.0} %", e.within_10));
        let _ = writeln!(out, "| {} | {rule} | {} | {within} | {} |", t.anchors, cell(t.tpot), cell(t.output));
    }
    out.push('\n');
}

/// The spread of repeated runs: no prediction can be nearer than that.
fn noise(out: &mut String, rows: &[Scored<'_>]) {
    // Half the spread: the distance of each of two extreme runs from their middle.
    let half = |low: f64, high: f64| (high / low).sqrt() - 1.0;
    let mut kinds: BTreeMap<&str, (Vec<f64>, u32)> = BTreeMap::new();
    for point in rows.iter().map(|r| r.point) {
        let Some(repeats) = point.repeats else { continue };
        let dp = point.dp_attention.then_some("dp attention");
        for kind in ["all", point.kind().word()].into_iter().chain(dp) {
            let (spreads, runs) = kinds.entry(kind).or_default();
            spreads.push(half(repeats.low, repeats.high));
            *runs += repeats.runs;
        }
    }
    if kinds.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "## Noise floor\n\nConfigurations that were measured more than once, over dates and engine versions: how far their \
         lowest and highest tok/s per GPU lie from the middle between them. A model that does not know the version cannot \
         be nearer than that on these rows.\n\n\
         | rows | configurations | runs | mean / median | within 10 % |\n|---|---|---|---|---|"
    );
    for (kind, (spreads, runs)) in &kinds {
        if let Some(e) = errors(spreads) {
            let _ =
                writeln!(out, "| {kind} | {} | {runs} | {:.1} / {:.1} | {:.0} % |", e.n, e.mape, e.median, e.within_10);
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::case::Prediction;
    use crate::anchor::measured::{MeasuredPoint, Repeats};
    use crate::anchor::score::score;

    #[test]
    fn the_page_says_what_was_scored_and_refused() {
        let point = |id: &str, tpot| MeasuredPoint {
            id: id.into(),
            hardware: "MI355X".into(),
            model: "m".into(),
            engine: "vllm".into(),
            gpus: 1.0,
            isl: 1024.0,
            osl: 1024.0,
            concurrency: 8,
            tpot_ms: Some(tpot),
            output_tok_s: Some(100.0),
            repeats: Some(Repeats { runs: 2, low: 100.0, high: 120.0 }),
            ..MeasuredPoint::default()
        };
        let points: Vec<MeasuredPoint> = (0..6).map(|i| point(&i.to_string(), 10.0)).collect();
        let outcome = |i: usize| {
            let p =
                Prediction { ttft_ms: 1.0, ttft_p50_ms: 1.0, tpot_ms: 11.0, output_tok_s: 90.0, total_tok_s: 180.0 };
            if i == 5 { Err("no | figures".to_string()) } else { Ok(p) }
        };
        let rows: Vec<Scored<'_>> =
            points.iter().enumerate().map(|(i, point)| Scored { point, outcome: outcome(i) }).collect();
        let about = About {
            measured: "rows.csv".into(),
            calibration: "public".into(),
            mode: "as fitted".into(),
            command: "inferasim fidelity".into(),
        };
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("new");
        let main = score(&rows);
        write(&place, &about, &Scores { main: &main, known: Some(&main) }, &rows, &[]).unwrap();
        let text = std::fs::read_to_string(place.join("fidelity.md")).unwrap();
        assert!(text.contains("6 rows that count, 5 answered: 83.3 %"), "{text}");
        assert!(text.contains("| MI355X | 5 | 10.0 / 10.0 | +10.0 |"), "{text}");
        assert!(text.contains("| 1 | no / figures |"), "{text}");
        // √1.2 = 1.095: each of the two runs lies 9.5 % from the middle.
        assert!(text.contains("| agg | 6 | 12 | 9.5 / 9.5 | 100 % |"), "{text}");
        assert_eq!(text.matches("| MI355X | 5 | 10.0 / 10.0 | +10.0 |").count(), 2, "{text}");
        assert!(place.join("fidelity-tpot.svg").exists() && place.join("fidelity-output.png").exists());
    }
}
