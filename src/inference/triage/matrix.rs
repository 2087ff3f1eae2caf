//! What do the trials of a triage say, cell by cell, against the baseline?

use super::environment::Resolved;
use super::recipe::{Cell, Recipe};
use super::trial::{ExitStatus, Trial};
use crate::inference::latency::{mean, percentile};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Version of the document [`Matrix`] serialises to.
pub const SCHEMA: &str = "inferasim.workload_matrix/1";

/// Step times of a cell, ms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepTimes {
    /// Steps of all trials.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
    /// Least.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Most.
    pub max: f64,
}

/// One cell's trials together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name.
    pub cell: String,
    /// Mitigations.
    pub mitigations: Vec<String>,
    /// Where it ran.
    pub environment: Resolved,
    /// Variables set.
    pub variables: BTreeMap<String, String>,
    /// Trials that passed.
    pub passed: usize,
    /// Trials whose checks failed, or whose checksum differs from the cell's first.
    pub failed: usize,
    /// Trials without a verdict.
    pub errors: usize,
    /// Failed over those with a verdict; null where none has one.
    pub failure_rate: Option<f64>,
    /// Trials by how they ended.
    pub exit_status_counts: BTreeMap<String, usize>,
    /// Checks that failed, with how often.
    pub problems: BTreeMap<String, usize>,
    /// Checksums of the trials' logits; more than one means that equal runs differ.
    pub logits_checksums: BTreeSet<i64>,
    /// The checksum is the baseline's; null where the configurations differ or one has none.
    pub same_logits_as_baseline: Option<bool>,
    /// Step times of all trials; null where no step ran.
    pub step_times: Option<StepTimes>,
    /// Mean wall time of a trial, seconds.
    pub mean_wall_clock_sec: Option<f64>,
    /// `(baseline)`, `speed (+N %)`, `no effect`, `error`, `n/a`, `-`.
    pub confound: String,
    /// Files of the trials.
    pub trial_paths: Vec<String>,
}

/// Every cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// [`SCHEMA`].
    pub schema_version: String,
    /// What the recipe is about.
    pub ticket: Option<String>,
    /// The cell the others are compared with.
    pub baseline: String,
    /// Mean step time over the baseline's above which a cell is slower.
    pub threshold: f64,
    /// One row per cell, in the recipe's order.
    pub rows: Vec<Row>,
}

impl Matrix {
    /// Sums up the trials of each cell (`trials[i]` are those of `recipe.cells[i]`, with their files).
    pub fn of(recipe: &Recipe, trials: &[Vec<(Trial, String)>]) -> Self {
        let mut rows: Vec<Row> = recipe.cells.iter().zip(trials).map(|(cell, trials)| row(cell, trials)).collect();
        let base = rows[recipe.baseline].clone();
        let base_config = &recipe.cells[recipe.baseline].config;
        for (at, row) in rows.iter_mut().enumerate() {
            row.confound =
                if at == recipe.baseline { "(baseline)".into() } else { confound(row, &base, recipe.threshold) };
            let comparable = recipe.cells[at].config == *base_config;
            let known = !row.logits_checksums.is_empty() && !base.logits_checksums.is_empty();
            row.same_logits_as_baseline = (comparable && known).then(|| row.logits_checksums == base.logits_checksums);
        }
        Self {
            schema_version: SCHEMA.into(),
            ticket: recipe.ticket.clone(),
            baseline: base.cell,
            threshold: recipe.threshold,
            rows,
        }
    }

    /// Every trial passed.
    pub fn passed(&self) -> bool {
        self.rows.iter().all(|row| row.failed == 0 && row.errors == 0)
    }

    /// The matrix as a Markdown table.
    pub fn markdown(&self) -> String {
        let title = self.ticket.as_deref().unwrap_or("Triage");
        let mut out = format!("# {title}\n\nBaseline: {}. Step times in ms.\n\n", self.baseline);
        out +=
            "| cell | mitigations | environment | failure rate | failures | errors | mean step | logits | confound |\n";
        out += "|---|---|---|---|---|---|---|---|---|\n";
        for row in &self.rows {
            let rate = row.failure_rate.map_or("-".into(), |r| format!("{:.0} %", 100.0 * r));
            let problems: Vec<String> = row.problems.iter().map(|(name, count)| format!("{name} × {count}")).collect();
            let logits = match (row.logits_checksums.len(), row.same_logits_as_baseline) {
                (0, _) => "-",
                (1, Some(true)) => "as baseline",
                (1, Some(false)) => "differ from baseline",
                (1, None) => "one checksum",
                _ => "differ from trial to trial",
            };
            out += &format!(
                "| {} | {} | {} | {rate} | {} | {} | {} | {logits} | {} |\n",
                row.cell,
                row.mitigations.join(", "),
                row.environment.name,
                if problems.is_empty() { "-".to_string() } else { problems.join(", ") },
                row.errors,
                row.step_times.as_ref().map_or("-".into(), |s| format!("{:.2}", s.mean)),
                row.confound
            );
        }
        out
    }
}

fn row(cell: &Cell, trials: &[(Trial, String)]) -> Row {
    let mut counts = BTreeMap::new();
    let mut problems = BTreeMap::new();
    let mut checksums = BTreeSet::new();
    let mut first = None;
    let (mut passed, mut failed, mut errors) = (0, 0, 0);
    let mut times = Vec::new();
    for (trial, _) in trials {
        *counts.entry(trial.exit_status.word().to_string()).or_insert(0) += 1;
        let checksum = trial.result.as_ref().and_then(|r| r.metrics.logits_checksum);
        checksums.extend(checksum);
        let drifted = checksum.is_some() && *first.get_or_insert(checksum) != checksum;
        if drifted {
            *problems.entry("checksum_differs".to_string()).or_insert(0) += 1;
        }
        match trial.exit_status {
            ExitStatus::Ok if !drifted => passed += 1,
            status if status.is_error() => errors += 1,
            _ => failed += 1,
        }
        if let Some(result) = &trial.result {
            times.extend(&result.step_times_ms);
            for problem in result.failure_details.iter().flat_map(|f| &f.problems) {
                *problems.entry(problem.clone()).or_insert(0) += 1;
            }
        }
    }
    let walls: Vec<f64> = trials.iter().map(|(trial, _)| trial.wall_clock_sec).collect();
    let verdicts = passed + failed;
    Row {
        cell: cell.name.clone(),
        mitigations: cell.mitigations.clone(),
        environment: cell.environment.clone(),
        variables: cell.variables.clone(),
        passed,
        failed,
        errors,
        failure_rate: (verdicts > 0).then(|| failed as f64 / verdicts as f64),
        exit_status_counts: counts,
        problems,
        logits_checksums: checksums,
        same_logits_as_baseline: None,
        step_times: step_times(&times),
        mean_wall_clock_sec: mean(&walls),
        confound: String::new(),
        trial_paths: trials.iter().map(|(_, path)| path.clone()).collect(),
    }
}

fn step_times(times: &[f64]) -> Option<StepTimes> {
    let average = mean(times)?;
    let variance = times.iter().map(|t| (t - average).powi(2)).sum::<f64>() / times.len() as f64;
    let at = |p| percentile(times, p);
    Some(StepTimes {
        count: times.len(),
        mean: average,
        std: variance.sqrt(),
        min: at(0.0)?,
        p50: at(50.0)?,
        p90: at(90.0)?,
        p99: at(99.0)?,
        max: at(100.0)?,
    })
}

fn confound(row: &Row, base: &Row, threshold: f64) -> String {
    let (Some(rate), Some(base_rate)) = (row.failure_rate, base.failure_rate) else {
        return if row.errors > 0 { "error".into() } else { "n/a".into() };
    };
    let (Some(time), Some(base_time)) = (&row.step_times, &base.step_times) else { return "n/a".into() };
    let ratio = time.mean / base_time.mean;
    if ratio > threshold {
        format!("speed (+{:.0} %)", 100.0 * (ratio - 1.0))
    } else if rate >= base_rate && base_rate > 0.0 {
        "no effect".into()
    } else {
        "-".into()
    }
}
