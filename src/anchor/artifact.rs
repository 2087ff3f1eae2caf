//! One measured run as an anchor: which software and layout ran, under which load, what was measured. A JSON file each.

use super::measured::{MeasuredPoint, ServingKind};
use super::regime::RegimeSignature;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Layout version of an artifact file; raised when a field changes its meaning.
pub const SCHEMA: u32 = 1;

/// One measured run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// [`SCHEMA`] at the time of writing.
    pub schema: u32,
    /// Name of the artifact, also of its file: letters, digits, `-`, `_` and `.`.
    pub id: String,
    /// The program whose result file this was: `csv`, `inferasim-measure`, `vllm-bench-serve`, `sglang-bench-serving`, `aiperf`, `guidellm`
    /// or `by-hand`.
    pub tool: String,
    /// Where the figures were read.
    pub source: String,
    /// Date of the run, YYYY-MM-DD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// What decides whether the run says anything about another one.
    pub regime: RegimeSignature,
    /// How the model was spread over GPUs.
    pub layout: Layout,
    /// What was asked of it.
    pub load: LoadPoint,
    /// The engine reused cached prefixes; absent where nobody said so. Only `false` makes TTFT an anchor: a prompt that
    /// was a cache hit did not measure a prefill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_caching: Option<bool>,
    /// Command that started the engine, with every flag; absent where nobody recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<String>,
    /// What came out.
    pub measured: Figures,
}

/// Layout of a run: the transport axes of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// Ranks of one pipeline stage.
    pub tp: u32,
    /// Expert-parallel groups inside the stage.
    #[serde(default = "one")]
    pub ep: u32,
    /// Pipeline stages.
    #[serde(default = "one")]
    pub pp: u32,
    /// Attention-data-parallel groups inside the stage.
    #[serde(default = "one")]
    pub attention_dp: u32,
    /// Ranks over which a sequence's KV cache is spread in decode.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub context_parallel: u32,
    /// Independent copies.
    #[serde(default = "one")]
    pub replicas: u32,
}

fn is_one(ranks: &u32) -> bool {
    *ranks == 1
}

fn one() -> u32 {
    1
}

impl Layout {
    /// GPUs of the whole run.
    pub fn gpus(&self) -> u32 {
        self.tp.saturating_mul(self.pp).saturating_mul(self.replicas)
    }
}

/// Load of a run: the transport axes of the workload. Lengths in tokens, nominal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPoint {
    /// Requests in flight.
    pub concurrency: u32,
    /// Prompt length.
    pub isl: u32,
    /// Answer length.
    pub osl: u32,
    /// Lengths are uniform on [ratio · nominal, nominal].
    #[serde(default = "constant")]
    pub range_ratio: f64,
}

fn constant() -> f64 {
    1.0
}

/// Measured figures; absent where the run did not report one.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Mean TTFT, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
    /// Median TTFT, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_p50_ms: Option<f64>,
    /// Mean time per output token after the first, (E2E − TTFT)/(tokens − 1), ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot_ms: Option<f64>,
    /// Output tokens per second of the whole deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tok_s: Option<f64>,
}

impl Artifact {
    /// Checks every field; `place` says where the artifact was read.
    ///
    /// # Errors
    /// The first field that cannot be, with its path.
    pub fn check(&self, place: &str) -> Result<()> {
        let bad =
            |field: &str, found: String, repair: &str| Err(Error::input(place, format!("{field} {found}"), repair));
        if self.schema != SCHEMA {
            return bad("schema", format!("is {}", self.schema), &format!("This version reads schema {SCHEMA}"));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.id.is_empty() || self.id.starts_with('.') || !self.id.chars().all(plain) || self.id.len() > 120 {
            return bad("id", format!("`{}` cannot name a file", self.id), "Use letters, digits, `-`, `_` and `.`");
        }
        let r = &self.regime;
        for (field, text) in [("regime.gpu", &r.gpu), ("regime.model", &r.model), ("regime.engine", &r.engine)] {
            if text.trim().is_empty() {
                return bad(field, "is empty".into(), "Name it as the command line does");
            }
        }
        let (l, q) = (&self.layout, &self.load);
        let counts = [
            ("layout.tp", l.tp),
            ("layout.ep", l.ep),
            ("layout.pp", l.pp),
            ("layout.attention_dp", l.attention_dp),
            ("layout.replicas", l.replicas),
            ("load.concurrency", q.concurrency),
            ("load.isl", q.isl),
            ("load.osl", q.osl),
        ];
        if let Some((field, value)) = counts.into_iter().find(|(_, v)| !(1..=10_000_000).contains(v)) {
            return bad(field, format!("is {value}"), "Give a whole number from 1 to 10000000");
        }
        for (field, part) in [("layout.ep", l.ep), ("layout.attention_dp", l.attention_dp)] {
            if l.tp % part != 0 {
                return bad(field, format!("{part} does not divide tp {}", l.tp), "Give a divisor of tp");
            }
        }
        if !(q.range_ratio > 0.0 && q.range_ratio <= 1.0) {
            return bad("load.range_ratio", format!("is {}", q.range_ratio), "Give a number above 0, at most 1");
        }
        let m = &self.measured;
        let figures = [
            ("measured.ttft_ms", m.ttft_ms),
            ("measured.ttft_p50_ms", m.ttft_p50_ms),
            ("measured.tpot_ms", m.tpot_ms),
            ("measured.output_tok_s", m.output_tok_s),
        ];
        if let Some((field, Some(value))) =
            figures.into_iter().find(|(_, v)| v.is_some_and(|v| !(v.is_finite() && v > 0.0)))
        {
            return bad(field, format!("is {value}"), "Give a number above 0, or leave it out");
        }
        if m.tpot_ms.is_none() {
            return bad("measured.tpot_ms", "is missing".into(), "An anchor rests on TPOT: record it");
        }
        Ok(())
    }

    /// The prefill figures that may be used: none unless the run asserts that prefix caching was off.
    pub fn usable_ttft(&self) -> (Option<f64>, Option<f64>) {
        match self.prefix_caching {
            Some(false) => (self.measured.ttft_ms, self.measured.ttft_p50_ms),
            _ => (None, None),
        }
    }

    /// The warning that goes with a discarded prefill.
    pub fn discarded_prefill(&self) -> Option<String> {
        let m = &self.measured;
        if self.prefix_caching == Some(false) || (m.ttft_ms.is_none() && m.ttft_p50_ms.is_none()) {
            return None;
        }
        let said = if self.prefix_caching == Some(true) {
            "had prefix caching on"
        } else {
            "does not say that prefix caching was off"
        };
        Some(format!("anchor {}: its TTFT is discarded, the run {said}; decode figures are used", self.id))
    }

    /// The run as a row to fit constants on: that of one replica, its share of the load, with TTFT where it counts.
    ///
    /// # Errors
    /// A layout that rows cannot state.
    pub fn to_row(&self) -> std::result::Result<MeasuredPoint, String> {
        let (layout, load, regime) = (&self.layout, &self.load, &self.regime);
        let whole_dp = layout.attention_dp == layout.tp && layout.tp > 1;
        if layout.pp > 1 || layout.context_parallel > 1 || !(layout.attention_dp == 1 || whole_dp) {
            return Err("constants are not fitted on pipeline, context or partly data-parallel layouts".into());
        }
        let replicas = f64::from(layout.replicas);
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let prefill = self.prefix_caching == Some(false);
        Ok(MeasuredPoint {
            id: self.id.clone(),
            hardware: regime.gpu.clone(),
            gpus: f64::from(layout.tp),
            model: regime.model.clone(),
            engine: regime.engine.clone(),
            engine_version: text(&regime.engine_version),
            precision: text(&regime.weight_dtype).to_lowercase(),
            kv_dtype: text(&regime.kv_dtype).to_lowercase(),
            date: text(&self.date),
            tp: Some(layout.tp),
            ep: Some(layout.ep),
            dp_attention: whole_dp,
            speculation: text(&regime.speculation),
            isl: f64::from(load.isl),
            osl: f64::from(load.osl),
            range_ratio: load.range_ratio,
            concurrency: (f64::from(load.concurrency) / replicas).round().max(1.0) as u32,
            ttft_ms: self.measured.ttft_ms.filter(|_| prefill),
            ttft_p50_ms: self.measured.ttft_p50_ms.filter(|_| prefill),
            tpot_ms: self.measured.tpot_ms,
            output_tok_s: self.measured.output_tok_s.map(|rate| rate / replicas),
            ..MeasuredPoint::default()
        })
    }

    /// A row of a measured file.
    ///
    /// # Errors
    /// A row that cannot be an anchor: disaggregated, without TPOT, without a layout.
    pub fn from_row(row: &MeasuredPoint, source: &str) -> std::result::Result<Self, String> {
        if row.kind() == ServingKind::Disaggregated {
            return Err("disaggregated serving".into());
        }
        if row.tpot_ms.is_none() {
            return Err("no TPOT".into());
        }
        let gpus = row.gpus as u32;
        let (tp, whole_dp) = match row.tp {
            Some(1) if gpus > 1 => (gpus, true),
            Some(tp) => (tp, false),
            None => (gpus, false),
        };
        let some = |text: &str| (!text.is_empty()).then(|| text.to_string());
        let artifact = Self {
            schema: SCHEMA,
            id: row.id.clone(),
            tool: "csv".into(),
            source: format!("{source}:{}", row.line),
            date: some(&row.date),
            regime: RegimeSignature {
                gpu: row.hardware.clone(),
                model: row.model.clone(),
                engine: row.engine.clone(),
                engine_version: some(&row.engine_version),
                weight_dtype: some(&row.precision),
                kv_dtype: some(&row.kv_dtype),
                speculation: some(&row.speculation),
                ..RegimeSignature::default()
            },
            layout: Layout {
                tp,
                ep: row.ep.unwrap_or(1).min(tp),
                pp: 1,
                attention_dp: if row.dp_attention || whole_dp { tp } else { 1 },
                context_parallel: 1,
                replicas: (gpus / tp.max(1)).max(1),
            },
            load: LoadPoint {
                concurrency: row.concurrency,
                isl: row.isl.round() as u32,
                osl: row.osl.round() as u32,
                range_ratio: row.range_ratio,
            },
            prefix_caching: None,
            launch: None,
            measured: Figures {
                ttft_ms: row.ttft_ms.filter(|v| *v > 0.0),
                ttft_p50_ms: row.ttft_p50_ms.filter(|v| *v > 0.0),
                tpot_ms: row.tpot_ms,
                output_tok_s: row.output_tok_s.filter(|v| *v > 0.0),
            },
        };
        artifact.check(&artifact.source).map_err(|e| e.to_string())?;
        Ok(artifact)
    }
}
