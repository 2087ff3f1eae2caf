//! Result files of benchmark programs as artifacts: what each program calls a figure, and what that figure is here.
//!
//! TPOT here is (E2E − TTFT)/(tokens − 1): `mean_tpot_ms` of vLLM and SGLang, `inter_token_latency` of AIPerf and
//! guidellm (guidellm's own TPOT starts at the request and so contains TTFT; it is not used).

use super::artifact::{Artifact, Figures, Layout, LoadPoint, SCHEMA};
use super::harvest::MOST_FAILED;
use super::regime::RegimeSignature;
use crate::{Error, Result};
use serde_json::Value;

/// What result files do not say about a deployment.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Software and formats; an empty model name is filled from the file.
    pub regime: RegimeSignature,
    /// Layout.
    pub layout: Layout,
    /// Requests in flight, where the file does not say.
    pub concurrency: Option<u32>,
    /// Length spread of the run.
    pub range_ratio: Option<f64>,
    /// Prefix caching was on or off.
    pub prefix_caching: Option<bool>,
    /// Date of the run.
    pub date: Option<String>,
    /// Name of the artifact; numbered where a file holds several runs.
    pub id: String,
    /// Where the file lies.
    pub source: String,
}

/// One run of a result file before the facts are joined.
struct Run {
    tool: &'static str,
    model: Option<String>,
    concurrency: Option<f64>,
    isl: Option<f64>,
    osl: Option<f64>,
    /// Lengths above are nominal with this spread; absent where they are means.
    range_ratio: Option<f64>,
    date: Option<String>,
    figures: Figures,
}

/// Programs whose files are known.
const KNOWN: &str = "Known: summary.json of inferasim measure, vllm bench serve (JSON), SGLang bench_serving (JSONL), AIPerf \
                     (profile_export_aiperf.json), guidellm (JSON), and CSV files of measured points";

/// The runs of a result file.
///
/// # Errors
/// Not JSON, an unknown program's file, a figure that is missing or cannot be.
pub fn runs(text: &str, facts: &Facts) -> Result<Vec<Artifact>> {
    let shown = &facts.source;
    let runs = match serde_json::from_str::<Value>(text) {
        Ok(document) => document_runs(shown, &document)?,
        Err(whole) => {
            let mut runs = Vec::new();
            let lines: Vec<(usize, &str)> = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()).collect();
            if lines.len() < 2 {
                return Err(not_json(shown, whole.line(), &whole));
            }
            for (number, line) in lines {
                let value = serde_json::from_str::<Value>(line).map_err(|e| not_json(shown, number + 1, &e))?;
                runs.extend(document_runs(&format!("{shown}:{}", number + 1), &value)?);
            }
            runs
        }
    };
    let several = runs.len() > 1;
    let named = |i: usize| if several { format!("{}-{}", facts.id, i + 1) } else { facts.id.clone() };
    runs.into_iter().enumerate().map(|(i, run)| join(run, facts, named(i))).collect()
}

fn not_json(shown: &str, line: usize, error: &serde_json::Error) -> Error {
    Error::input(format!("{shown}:{line}"), format!("not JSON: {error}"), KNOWN)
}

fn document_runs(shown: &str, document: &Value) -> Result<Vec<Run>> {
    if document["schema"].as_str().is_some_and(|s| s.starts_with("inferasim.measure/")) {
        let points = document["points"].as_array().map(Vec::as_slice).unwrap_or_default();
        if points.is_empty() || document["complete"] != true {
            return Err(Error::input(
                shown,
                "a run that is not complete",
                "Measure again; nothing partial is an anchor",
            ));
        }
        for point in points {
            let count = |key: &str| point["requests"][key].as_f64().unwrap_or_default();
            let (sent, failed) = (count("sent"), count("sent") - count("ok"));
            if failed > MOST_FAILED * sent {
                let name = point["name"].as_str().unwrap_or("a point");
                return Err(Error::input(
                    shown,
                    format!(
                        "{name}: {failed} of {sent} requests had no success, and the rest had the engine to themselves"
                    ),
                    "Measure again at a load the engine serves",
                ));
            }
        }
        return Ok(points.iter().map(|point| measured(document, point)).collect());
    }
    if !document["aiperf_version"].is_null() {
        return Ok(vec![aiperf(document)]);
    }
    if !document["metadata"]["guidellm_version"].is_null() {
        let benchmarks = document["benchmarks"].as_array().map(Vec::as_slice).unwrap_or_default();
        if benchmarks.is_empty() {
            return Err(Error::input(shown, "a guidellm file without benchmarks", "Give a finished run"));
        }
        return Ok(benchmarks.iter().map(guidellm).collect());
    }
    if !document["mean_tpot_ms"].is_null() || !document["median_tpot_ms"].is_null() {
        return Ok(vec![bench_serve(document)]);
    }
    Err(Error::input(shown, "the file of no known benchmark program", KNOWN))
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|v| v.is_finite())
}

/// vLLM's and SGLang's clients share their names; SGLang adds the random lengths and writes one line a run.
fn bench_serve(d: &Value) -> Run {
    let sglang = !d["random_input_len"].is_null() || !d["dataset_name"].is_null();
    let per_request = |total: &str| Some(number(&d[total])? / number(&d["completed"]).filter(|n| *n > 0.0)?);
    // A ratio of 0 means lengths down to one token: only the means describe that.
    let ratio = number(&d["random_range_ratio"]).filter(|r| *r > 0.0 && *r <= 1.0);
    let random = d["dataset_name"].as_str().is_some_and(|n| n.starts_with("random"));
    let nominal = ratio
        .filter(|_| random)
        .and_then(|r| Some((number(&d["random_input_len"])?, number(&d["random_output_len"])?, r)));
    let (isl, osl, range_ratio) = match nominal {
        Some((isl, osl, r)) => (Some(isl), Some(osl), Some(r)),
        None => (per_request("total_input_tokens"), per_request("total_output_tokens"), None),
    };
    Run {
        tool: if sglang { "sglang-bench-serving" } else { "vllm-bench-serve" },
        model: d["model_id"].as_str().or(d["server_info"]["model_path"].as_str()).map(str::to_string),
        concurrency: number(&d["max_concurrency"]),
        isl,
        osl,
        range_ratio,
        date: d["date"].as_str().map(str::to_string),
        figures: Figures {
            ttft_ms: number(&d["mean_ttft_ms"]),
            ttft_p50_ms: number(&d["median_ttft_ms"]),
            tpot_ms: number(&d["mean_tpot_ms"]).or(number(&d["median_tpot_ms"])),
            output_tok_s: number(&d["output_throughput"]),
        },
    }
}

/// A point of this program's own `summary.json`.
fn measured(d: &Value, p: &Value) -> Run {
    let mean = |name: &str| number(&p["metrics"][name]["mean"]);
    // The wait for an engine that turns requests away is none of its prefill.
    let ttft = if p["metrics"]["ttft_admitted_ms"].is_object() { "ttft_admitted_ms" } else { "ttft_ms" };
    let started = number(&p["started_unix_s"]).filter(|s| *s > 0.0);
    Run {
        tool: "inferasim-measure",
        model: d["model"].as_str().map(str::to_string),
        concurrency: number(&p["load"]["concurrency"]),
        isl: mean("isl"),
        osl: mean("osl"),
        range_ratio: None,
        date: started.map(|s| crate::report::time::utc(s as u64)),
        figures: Figures {
            ttft_ms: mean(ttft),
            ttft_p50_ms: number(&p["metrics"][ttft]["p50"]),
            tpot_ms: mean("tpot_ms"),
            output_tok_s: number(&p["system"]["output_tok_s"]),
        },
    }
}

fn aiperf(d: &Value) -> Run {
    let average = |name: &str| number(&d[name]["avg"]);
    let phases = d["input_config"]["phases"].as_array().map(Vec::as_slice).unwrap_or_default();
    let profiling = phases.iter().find(|p| p["kind"] == "profiling" || p["name"] == "profiling").or(phases.first());
    let concurrency = profiling.and_then(|p| number(&p["concurrency"]));
    Run {
        tool: "aiperf",
        model: d["input_config"]["models"]["items"][0]["name"].as_str().map(str::to_string),
        concurrency: concurrency.or(number(&d["input_config"]["loadgen"]["concurrency"])),
        isl: average("input_sequence_length"),
        osl: average("output_sequence_length"),
        range_ratio: None,
        date: d["start_time"].as_str().map(str::to_string),
        figures: Figures {
            ttft_ms: average("time_to_first_token"),
            ttft_p50_ms: number(&d["time_to_first_token"]["p50"]),
            tpot_ms: average("inter_token_latency"),
            output_tok_s: average("output_token_throughput"),
        },
    }
}

fn guidellm(b: &Value) -> Run {
    let metric = |name: &str, statistic: &str| number(&b["metrics"][name]["successful"][statistic]);
    let strategy = &b["config"]["strategy"];
    let tokens = metric("output_token_count", "total_sum");
    Run {
        tool: "guidellm",
        model: b["config"]["backend"]["model"].as_str().map(str::to_string),
        concurrency: number(&strategy["streams"]).or(number(&strategy["max_concurrency"])),
        isl: metric("prompt_token_count", "mean"),
        osl: metric("output_token_count", "mean"),
        range_ratio: None,
        date: None,
        figures: Figures {
            ttft_ms: metric("time_to_first_token_ms", "mean"),
            ttft_p50_ms: metric("time_to_first_token_ms", "median"),
            tpot_ms: metric("inter_token_latency_ms", "mean"),
            output_tok_s: tokens.zip(number(&b["duration"]).filter(|d| *d > 0.0)).map(|(t, d)| t / d),
        },
    }
}

fn join(run: Run, facts: &Facts, id: String) -> Result<Artifact> {
    let missing =
        |what: &str, repair: &str| Error::input(&facts.source, format!("{} file without {what}", run.tool), repair);
    let concurrency = match facts.concurrency.map(f64::from).or(run.concurrency).filter(|c| *c >= 1.0) {
        Some(c) if c <= 1e7 => c as u32,
        Some(c) => return Err(missing(&format!("a usable concurrency ({c})"), "Give --concurrency")),
        None => return Err(missing("a concurrency", "Give --concurrency: an anchor is a closed-loop run")),
    };
    let ratio = run.range_ratio.or(facts.range_ratio).unwrap_or(1.0);
    // Means become nominal lengths: uniform on [r·L, L] has the mean (1 + r)/2·L.
    let nominal = |length: Option<f64>, what: &str| {
        let length = length.filter(|l| (1.0..1e7).contains(l)).ok_or_else(|| missing(what, "Give a finished run"))?;
        Ok(if run.range_ratio.is_some() { length } else { length * 2.0 / (1.0 + ratio) }.round() as u32)
    };
    let (isl, osl) = (nominal(run.isl, "prompt lengths")?, nominal(run.osl, "answer lengths")?);
    let mut regime = facts.regime.clone();
    if regime.model.is_empty() {
        regime.model = run.model.clone().unwrap_or_default();
    }
    let artifact = Artifact {
        schema: SCHEMA,
        id,
        tool: run.tool.into(),
        source: facts.source.clone(),
        date: facts.date.clone().or_else(|| run.date.as_deref().and_then(day)),
        regime,
        layout: facts.layout,
        load: LoadPoint { concurrency, isl, osl, range_ratio: ratio },
        prefix_caching: facts.prefix_caching,
        launch: None,
        measured: run.figures,
    };
    artifact.check(&facts.source)?;
    Ok(artifact)
}

/// `2026-05-01T…` and vLLM's `20260501-101530` as `2026-05-01`; nothing else.
fn day(text: &str) -> Option<String> {
    let compact: String = text.chars().filter(char::is_ascii_digit).take(8).collect();
    (compact.len() == 8).then(|| format!("{}-{}-{}", &compact[..4], &compact[4..6], &compact[6..]))
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
