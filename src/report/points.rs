//! The feasible points as CSV, streamed while the search hands them over, and bounded.

use crate::config::Deployment;
use crate::serve::Evaluation;
use crate::{Error, Result};
use std::fs::File;
use std::path::Path;

/// Most rows written; what comes after is counted and left out.
pub const POINTS_LIMIT: u64 = 100_000;

const COLUMNS: [&str; 26] = [
    "tp",
    "ep",
    "attention_dp",
    "context_parallel",
    "pp",
    "replicas",
    "gpus",
    "concurrency",
    "weight_dtype",
    "kv_dtype",
    "max_num_batched_tokens",
    "max_num_seqs",
    "memory_fraction",
    "draft_tokens",
    "ttft_ms",
    "ttft_p50_ms",
    "tpot_ms",
    "e2e_ms",
    "output_tok_s",
    "total_tok_s",
    "tok_s_per_gpu",
    "tok_s_per_user",
    "running",
    "usd_per_m_output",
    "usd_per_m_total",
    "bound",
];

/// Writes `points.csv`.
#[derive(Debug)]
pub struct PointsWriter {
    writer: csv::Writer<File>,
    written: u64,
    left_out: u64,
}

impl PointsWriter {
    /// A new file with its header.
    pub fn create(path: &Path) -> Result<Self> {
        let mut writer = csv::Writer::from_path(path).map_err(failed)?;
        writer.write_record(COLUMNS).map_err(failed)?;
        Ok(Self { writer, written: 0, left_out: 0 })
    }

    /// One feasible point; hand over the best first, since rows after [`POINTS_LIMIT`] are only counted.
    pub fn push(&mut self, d: &Deployment, e: &Evaluation) -> Result<()> {
        if self.written >= POINTS_LIMIT {
            self.left_out += 1;
            return Ok(());
        }
        let m = &e.metrics;
        let money = |usd: Option<f64>| usd.map_or_else(String::new, |v| format!("{v:.6}"));
        let row = [
            d.tp.to_string(),
            d.ep.to_string(),
            d.attention_dp.to_string(),
            d.context_parallel.to_string(),
            d.pp.to_string(),
            d.replicas.to_string(),
            d.gpus().to_string(),
            d.concurrency.to_string(),
            d.weight_dtype.clone(),
            d.kv_dtype.to_string(),
            d.max_num_batched_tokens.to_string(),
            d.max_num_seqs.to_string(),
            d.memory_fraction.to_string(),
            d.speculation.as_ref().map_or(0, |s| s.draft_tokens).to_string(),
            format!("{:.4}", m.ttft_ms),
            format!("{:.4}", m.ttft_p50_ms),
            format!("{:.4}", m.tpot_ms),
            format!("{:.3}", m.e2e_ms),
            format!("{:.3}", m.output_tok_s),
            format!("{:.3}", m.total_tok_s),
            format!("{:.3}", m.tok_s_per_gpu),
            format!("{:.4}", m.tok_s_per_user),
            format!("{:.2}", m.running),
            money(m.usd_per_m_output),
            money(m.usd_per_m_total),
            e.bound.to_string(),
        ];
        self.writer.write_record(&row).map_err(failed)?;
        self.written += 1;
        Ok(())
    }

    /// Flushes; returns the rows written and the points left out.
    pub fn finish(mut self) -> Result<(u64, u64)> {
        self.writer.flush().map_err(failed)?;
        Ok((self.written, self.left_out))
    }
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::input("writing points.csv", error.to_string(), "Check free space and permissions, or use `--no-report`")
}
