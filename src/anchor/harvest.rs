//! What does a measured finalist become? Its result file, and an anchor where the run is whole and says enough.

use super::artifact::{Artifact, Figures, Layout, LoadPoint, SCHEMA};
use super::regime::RegimeSignature;
use crate::measure::finalists::MeasuredPoint;
use crate::measure::output;
use crate::measure::run_document::Summary;
use crate::measure::summary::Point;
use crate::measure::warnings::BUFFERED;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Layout of a result file.
pub const RESULT_SCHEMA: &str = "inferasim.result/1";
/// Its name in a point's folder.
pub const RESULT: &str = "result.json";

/// A finalist beside what was measured of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FinalistResult {
    /// [`RESULT_SCHEMA`].
    pub schema: String,
    /// The shortlist's entry.
    pub entry: Map<String, Value>,
    /// Version the engine reported.
    pub engine_version: Option<String>,
    /// The engine was started by the entry's launch line.
    pub launched: bool,
    /// The run; one point.
    pub summary: Summary,
    /// The run as an anchor.
    pub anchor: Option<Artifact>,
    /// Why it is none.
    pub no_anchor: Option<String>,
}

impl FinalistResult {
    /// Of a point that was just measured.
    pub fn new(measured: &MeasuredPoint<'_>) -> Self {
        let anchor = artifact(measured);
        Self {
            schema: RESULT_SCHEMA.into(),
            entry: measured.finalist.fields.clone(),
            engine_version: measured.engine_version.clone(),
            launched: measured.launched,
            summary: measured.summary.clone(),
            no_anchor: anchor.as_ref().err().cloned(),
            anchor: anchor.ok(),
        }
    }

    /// Writes the result into its point's folder.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        output::write_json(&folder.join(RESULT), self)
    }

    /// The one point of its run.
    pub fn point(&self) -> Option<&Point> {
        self.summary.points.first()
    }
}

/// Every result below these folders, in the order of their paths.
///
/// # Errors
/// No such folder; a result that cannot be read; none at all.
pub fn read_results(roots: &[PathBuf]) -> Result<Vec<(PathBuf, FinalistResult)>> {
    let mut files = Vec::new();
    for root in roots {
        collect(root, 0, &mut files)?;
    }
    files.sort();
    files.dedup();
    if files.is_empty() {
        let shown: Vec<String> = roots.iter().map(|r| r.display().to_string()).collect();
        let repair = "Give the --out folder of `inferasim measure --shortlist`";
        return Err(Error::input(shown.join(" "), format!("no {RESULT} below it"), repair));
    }
    files.into_iter().map(|path| Ok((path.clone(), read_result(&path)?))).collect()
}

fn read_result(path: &Path) -> Result<FinalistResult> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| Error::input(&shown, format!("cannot be read: {e}"), ""))?;
    let result: FinalistResult = serde_json::from_str(&text).map_err(|e| {
        Error::input(format!("{shown}:{}", e.line()), format!("not a result: {e}"), "Measure this finalist again")
    })?;
    if result.schema != RESULT_SCHEMA || result.point().is_none() {
        let found = format!("schema {} with {} points", result.schema, result.summary.points.len());
        return Err(Error::input(shown, found, format!("This version reads {RESULT_SCHEMA}")));
    }
    Ok(result)
}

/// Deeper folders hold no campaign.
const DEPTH: usize = 6;

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    let wrong = |e: std::io::Error| {
        let repair = "Give the --out folder of `inferasim measure --shortlist`";
        Error::input(folder.display().to_string(), e.to_string(), repair)
    };
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.is_dir() && depth < DEPTH {
            collect(&path, depth + 1, files)?;
        } else if path.file_name().is_some_and(|name| name == RESULT) {
            files.push(path);
        }
    }
    Ok(())
}

/// Most requests without success among all that were sent, where a run is to be an anchor.
pub(super) const MOST_FAILED: f64 = 0.01;
/// A prompt length further than this from the nominal one is recorded as the server counted it.
const SAME_LENGTH: f64 = 0.05;
/// Above this share of cached prompt tokens the run measured no prefill.
const FRESH: f64 = 0.01;

fn artifact(measured: &MeasuredPoint<'_>) -> std::result::Result<Artifact, String> {
    let fields = &measured.finalist.fields;
    let point = measured.summary.points.first().ok_or("no point")?;
    let r = &point.requests;
    if !point.complete {
        return Err("the run was cut short".into());
    }
    if (r.sent - r.ok) as f64 > MOST_FAILED * r.sent as f64 {
        return Err(format!("{} of {} requests had no success", r.sent - r.ok, r.sent));
    }
    if let Some(warning) = point.warnings.iter().find(|w| w.starts_with(BUFFERED)) {
        return Err(warning.clone());
    }
    if fields.contains_key("prefill") {
        return Err("runs of two pools are no anchors".into());
    }
    let text = |key: &str| fields.get(key).and_then(Value::as_str).filter(|t| !t.trim().is_empty()).map(str::to_string);
    let needed = |key: &str| text(key).ok_or_else(|| format!("the entry has no `{key}`"));
    let count = |key: &str| fields.get(key).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
    let drafts = fields.get("draft_tokens").and_then(Value::as_u64).unwrap_or(0);
    let concurrency = point.load.concurrency().and_then(|c| u32::try_from(c).ok()).ok_or("an open loop")?;
    let shape = &measured.finalist.shape;
    let nominal = |length: f64, ratio: f64, mean: Option<f64>| {
        // Uniform on [r·L, L] has the mean (1 + r)/2·L.
        let expected = length * (1.0 + ratio) / 2.0;
        match mean {
            Some(mean) if (mean / expected - 1.0).abs() > SAME_LENGTH => (mean * 2.0 / (1.0 + ratio)).round(),
            _ => length.round(),
        }
        .max(1.0) as u32
    };
    let (ratio, m) = (shape.isl.range_ratio, &point.metrics);
    let version = measured.engine_version.clone().or_else(|| {
        // `0.26 or later` describes the profile that was projected, not what ran.
        text("engine_version").filter(|v| v.chars().all(|c| c.is_ascii_digit() || c == '.'))
    });
    let reused = point.server.as_ref().and_then(|s| s.prefix_cache_hit_rate).is_some_and(|rate| rate >= FRESH);
    let artifact = Artifact {
        schema: SCHEMA,
        id: format!("{}-c{concurrency}", measured.finalist.folder()),
        tool: "inferasim-measure".into(),
        source: measured.summary.url.clone(),
        date: crate::report::time::utc(point.started_unix_s.max(0.0) as u64).get(..10).map(str::to_string),
        regime: RegimeSignature {
            gpu: needed("gpu")?,
            model: needed("model")?,
            engine: needed("engine")?,
            engine_version: version,
            weight_dtype: text("weight_dtype"),
            kv_dtype: text("kv_dtype"),
            speculation: (drafts > 0).then(|| format!("mtp{drafts}")),
            ..RegimeSignature::default()
        },
        layout: Layout {
            tp: count("tp"),
            ep: count("ep"),
            pp: count("pp"),
            attention_dp: count("attention_dp"),
            context_parallel: count("context_parallel"),
            replicas: count("replicas"),
        },
        load: LoadPoint {
            concurrency,
            isl: nominal(shape.isl.tokens, ratio, m.isl.as_ref().map(|d| d.mean)),
            osl: nominal(shape.osl.tokens, ratio, m.osl.as_ref().map(|d| d.mean)),
            range_ratio: ratio,
        },
        prefix_caching: Some(reused),
        launch: text("launch"),
        measured: figures(point),
    };
    artifact.check("result").map_err(|e| format!("{} ({})", e.found, e.repair))?;
    Ok(artifact)
}

/// The figures an anchor keeps.
pub fn figures(point: &Point) -> Figures {
    let m = &point.metrics;
    // The wait for an engine that turns requests away is none of its prefill.
    let ttft = m.ttft_admitted_ms.as_ref().or(m.ttft_ms.as_ref());
    Figures {
        ttft_ms: ttft.map(|d| d.mean),
        ttft_p50_ms: ttft.map(|d| d.p50),
        tpot_ms: m.tpot_ms.as_ref().map(|d| d.mean),
        output_tok_s: Some(point.system.output_tok_s).filter(|v| *v > 0.0),
    }
}
