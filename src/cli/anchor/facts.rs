//! What a result file does not say about a deployment, as flags.

use crate::anchor::artifact::Layout;
use crate::anchor::import::Facts;
use crate::anchor::measured::MeasuredPoint;
use crate::anchor::regime::RegimeSignature;
use crate::{Error, Result};
use clap::Args;

/// Software, formats and layout of a run.
#[derive(Debug, Args)]
pub struct FactArgs {
    /// Name of the run [default: the file's name]
    #[arg(long)]
    id: Option<String>,
    /// GPU, as targets name it
    #[arg(long)]
    gpu: Option<String>,
    /// Model [default: the file's]
    #[arg(long)]
    model: Option<String>,
    /// Engine
    #[arg(long)]
    engine: Option<String>,
    /// Engine version
    #[arg(long)]
    engine_version: Option<String>,
    /// Precision of the checkpoint
    #[arg(long)]
    weight_dtype: Option<String>,
    /// KV cache format
    #[arg(long)]
    kv_dtype: Option<String>,
    /// Precision of the routed experts
    #[arg(long)]
    expert_dtype: Option<String>,
    /// Attention kernels, e.g. aiter or triton
    #[arg(long)]
    attention_backend: Option<String>,
    /// full, piecewise or eager
    #[arg(long)]
    graph_mode: Option<String>,
    /// Speculative decoding: none, or method and drafts, e.g. mtp3 [default: none]
    #[arg(long)]
    speculation: Option<String>,
    /// Ranks of one pipeline stage [default: 1]
    #[arg(long)]
    tp: Option<u32>,
    /// Expert-parallel groups [default: 1]
    #[arg(long)]
    ep: Option<u32>,
    /// Pipeline stages [default: 1]
    #[arg(long)]
    pp: Option<u32>,
    /// Attention-data-parallel groups [default: 1]
    #[arg(long)]
    attention_dp: Option<u32>,
    /// Ranks over which a sequence's KV cache is spread in decode [default: 1]
    #[arg(long)]
    context_parallel: Option<u32>,
    /// Independent copies [default: 1]
    #[arg(long)]
    replicas: Option<u32>,
    /// Requests in flight [default: the file's]
    #[arg(long)]
    concurrency: Option<u32>,
    /// Lengths were uniform on [ratio x nominal, nominal] [default: the file's, else 1]
    #[arg(long)]
    range_ratio: Option<f64>,
    /// Date of the run, YYYY-MM-DD [default: the file's]
    #[arg(long)]
    date: Option<String>,
    /// The engine did not reuse prefixes: TTFT may be used
    #[arg(long, conflicts_with = "prefix_caching")]
    no_prefix_caching: bool,
    /// The engine reused prefixes: TTFT is discarded
    #[arg(long)]
    prefix_caching: bool,
    /// Replace runs of the same name
    #[arg(long)]
    pub replace: bool,
}

impl FactArgs {
    /// What was said about prefix caching.
    pub fn prefix_caching(&self) -> Option<bool> {
        if self.no_prefix_caching { Some(false) } else { self.prefix_caching.then_some(true) }
    }

    /// The facts of a run; `id` is its name where none is given.
    pub fn facts(&self, source: &str, id: Option<String>) -> Result<Facts> {
        let needed = |flag: &str, value: &Option<String>| {
            value.clone().ok_or_else(|| Error::input(source, format!("no {flag}"), "The figures alone do not say it"))
        };
        if let Some(date) = &self.date {
            let digits =
                |range: std::ops::Range<usize>| date.get(range).is_some_and(|t| t.bytes().all(|b| b.is_ascii_digit()));
            if date.len() != 10 || !(digits(0..4) && digits(5..7) && digits(8..10)) {
                return Err(Error::input(format!("--date {date}"), "not a date", "Write it as 2026-05-01"));
            }
        }
        Ok(Facts {
            regime: RegimeSignature {
                gpu: needed("--gpu", &self.gpu)?,
                model: self.model.clone().unwrap_or_default(),
                engine: needed("--engine", &self.engine)?,
                engine_version: self.engine_version.clone(),
                weight_dtype: self.weight_dtype.clone(),
                kv_dtype: self.kv_dtype.clone(),
                expert_dtype: self.expert_dtype.clone(),
                attention_backend: self.attention_backend.clone(),
                graph_mode: self.graph_mode.clone(),
                speculation: self.speculation.clone(),
            },
            layout: Layout {
                tp: self.tp.unwrap_or(1),
                ep: self.ep.unwrap_or(1),
                pp: self.pp.unwrap_or(1),
                attention_dp: self.attention_dp.unwrap_or(1),
                context_parallel: self.context_parallel.unwrap_or(1),
                replicas: self.replicas.unwrap_or(1),
            },
            concurrency: self.concurrency,
            range_ratio: self.range_ratio,
            prefix_caching: self.prefix_caching(),
            date: self.date.clone(),
            id: self
                .id
                .clone()
                .or(id)
                .ok_or_else(|| Error::input(source, "no --id", "Give the run a name such as h200-tp2-c64"))?,
            source: source.to_string(),
        })
    }

    /// Rows of a CSV file describe themselves: only filters and the prefix assertion may be given with one.
    pub fn only_choose(&self, source: &str) -> Result<()> {
        let text = [
            ("--id", &self.id),
            ("--engine-version", &self.engine_version),
            ("--weight-dtype", &self.weight_dtype),
            ("--kv-dtype", &self.kv_dtype),
            ("--expert-dtype", &self.expert_dtype),
            ("--attention-backend", &self.attention_backend),
            ("--graph-mode", &self.graph_mode),
            ("--speculation", &self.speculation),
            ("--date", &self.date),
        ];
        let numbers = [
            ("--tp", self.tp),
            ("--ep", self.ep),
            ("--pp", self.pp),
            ("--attention-dp", self.attention_dp),
            ("--replicas", self.replicas),
            ("--concurrency", self.concurrency),
        ];
        let given = text.iter().find(|(_, v)| v.is_some()).map(|(f, _)| *f);
        let given = given.or(numbers.iter().find(|(_, v)| v.is_some()).map(|(f, _)| *f));
        match given.or(self.range_ratio.map(|_| "--range-ratio")) {
            None => Ok(()),
            Some(flag) => Err(Error::input(
                source,
                format!("{flag} with a CSV file, whose rows say it themselves"),
                "--gpu, --model and --engine choose rows",
            )),
        }
    }

    /// A row of a CSV file is wanted.
    pub fn chooses(&self, row: &MeasuredPoint) -> bool {
        let wanted =
            |filter: &Option<String>, value: &str| filter.as_ref().is_none_or(|f| f.eq_ignore_ascii_case(value));
        wanted(&self.gpu, &row.hardware) && wanted(&self.model, &row.model) && wanted(&self.engine, &row.engine)
    }
}
