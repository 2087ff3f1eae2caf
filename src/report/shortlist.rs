//! The deployments worth measuring as a CI matrix: `{"include": [...]}` with flat fields, as GitHub Actions'
//! `strategy.matrix` takes it, each entry a whole deployment with its launch command and the figures to hold a
//! measurement against. docs/shortlist.md describes the keys.

use super::record::{Candidate, Finalist, RunRecord};
use super::text;
use crate::Result;
use crate::export::{Launch, LaunchRequest, launch};
use serde_json::{Map, Value, json};

/// Most jobs GitHub Actions starts from one matrix.
pub const MATRIX_LIMIT: usize = 256;

/// The matrix document.
pub fn shortlist(record: &RunRecord) -> Value {
    let list: Vec<&Finalist> = record.shortlist.iter().take(MATRIX_LIMIT).collect();
    let objective = |f: &Finalist| f.candidate.objective;
    let entries: Vec<Value> = list
        .iter()
        .map(|finalist| {
            let rival = if finalist.candidate.rank == 1 { list.get(1) } else { list.first() };
            entry(record, finalist, rival.map(|r| objective(r)))
        })
        .collect();
    json!({ "include": entries })
}

/// Launch and benchmark commands of a candidate of this run.
pub fn launch_of(record: &RunRecord, candidate: &Candidate) -> Result<Launch> {
    launch(&LaunchRequest {
        engine: &record.engine.name,
        deployment: &candidate.deployment,
        checkpoint: record.checkpoint_of(candidate),
        max_model_len: record.max_model_len,
        workload: &record.workload,
        gpus_per_node: record.target.gpus_per_node,
    })
}

fn entry(record: &RunRecord, finalist: &Finalist, to_beat: Option<f64>) -> Value {
    let candidate = &finalist.candidate;
    let (d, m) = (&candidate.deployment, candidate.metrics());
    let w = &record.workload;
    let name = format!("{} {} {} c{}", record.model.name, record.engine.name, text::layout(d), d.concurrency);
    let Value::Object(mut fields) = json!({
        "name": name.replace(" × ", "x"),
        "id": id(candidate),
        "rank": candidate.rank,
        "model": record.model.name,
        "checkpoint": record.checkpoint_of(candidate),
        "engine": record.engine.name,
        "engine_version": record.engine.version,
        "gpu": record.target.gpu,
        "gpus": candidate.gpus,
        "tp": d.tp,
        "ep": d.ep,
        "attention_dp": d.attention_dp,
        "context_parallel": d.context_parallel,
        "pp": d.pp,
        "replicas": d.replicas,
        "concurrency": d.concurrency,
        "weight_dtype": d.weight_dtype,
        "kv_dtype": d.kv_dtype,
        "max_num_batched_tokens": d.max_num_batched_tokens,
        "max_num_seqs": d.max_num_seqs,
        "memory_fraction": d.memory_fraction,
        "max_model_len": record.max_model_len,
        "isl": w.isl,
        "osl": w.osl,
        "range_ratio": w.range_ratio,
        "prefix_hit_rate": w.prefix_hit_rate,
        "num_prompts": u64::from(w.prompts_per_client) * u64::from(d.concurrency),
        "predicted_ttft_ms": rounded(m.ttft_ms),
        "predicted_tpot_ms": rounded(m.tpot_ms),
        "predicted_e2e_ms": rounded(m.e2e_ms),
        "predicted_output_tok_s": rounded(m.output_tok_s),
        "predicted_total_tok_s": rounded(m.total_tok_s),
        "predicted_tok_s_per_gpu": rounded(m.tok_s_per_gpu),
        "predicted_tok_s_per_user": rounded(m.tok_s_per_user),
        "predicted_bound": candidate.evaluation.bound.to_string(),
        "calibration": record.calibration_level().to_string(),
    }) else {
        return Value::Null;
    };
    if let Some(usd) = m.usd_per_m_total {
        fields.insert("predicted_usd_per_m_total".to_string(), json!(rounded(usd)));
    }
    if let Some(speculation) = &d.speculation {
        fields.insert("draft_tokens".to_string(), json!(speculation.draft_tokens));
    }
    if let Some(prefill) = &d.prefill {
        fields.insert(
            "prefill".to_string(),
            json!(format!("{}xTP{} EP{} DPA{}", prefill.instances, prefill.tp, prefill.ep, prefill.attention_dp)),
        );
    }
    judgement(&mut fields, record, finalist, to_beat);
    commands(&mut fields, launch_of(record, candidate));
    Value::Object(fields)
}

/// The deployment in one word.
fn id(candidate: &Candidate) -> String {
    let d = &candidate.deployment;
    let weights = text::file_name(&d.weight_dtype);
    let layout = format!("tp{}-ep{}-adp{}-pp{}-r{}", d.tp, d.ep, d.attention_dp, d.pp, d.replicas);
    let spread = if d.context_parallel > 1 { format!("-dcp{}", d.context_parallel) } else { String::new() };
    let limits = format!("b{}-s{}-m{}", d.max_num_batched_tokens, d.max_num_seqs, d.memory_fraction);
    let drafts = d.speculation.as_ref().map_or(String::new(), |s| format!("-k{}", s.draft_tokens));
    format!("{weights}-{}kv-{layout}{spread}-{limits}{drafts}-c{}", d.kv_dtype, d.concurrency)
}

/// Why it is listed, the bands, and what decides.
fn judgement(fields: &mut Map<String, Value>, record: &RunRecord, finalist: &Finalist, to_beat: Option<f64>) {
    let mut put = |key: String, value: Value| fields.insert(key, value);
    put("role".into(), json!(finalist.role));
    put("reason".into(), json!(finalist.reason));
    put("on_front".into(), json!(finalist.on_front));
    put("win_probability".into(), json!(rounded(finalist.win_probability)));
    put("information_bits".into(), json!(rounded(finalist.information_bits)));
    for range in &finalist.ranges {
        let own = range.key == record.objective.metric;
        let listed = !matches!(range.key.as_str(), "ttft_p50_ms" | "usd_per_m_output");
        if listed {
            put(format!("predicted_{}_low", range.key), json!(rounded(range.low)));
            put(format!("predicted_{}_high", range.key), json!(rounded(range.high)));
        }
        if own {
            put("predicted_objective".into(), json!(rounded(range.value)));
            put("predicted_objective_low".into(), json!(rounded(range.low)));
            put("predicted_objective_high".into(), json!(rounded(range.high)));
        }
    }
    put("band_coverage".into(), json!(finalist.band_coverage));
    put("band_origin".into(), json!(finalist.band_origin));
    put("objective_metric".into(), json!(record.objective.metric));
    put("objective_maximise".into(), json!(record.objective.maximise));
    if let Some(value) = to_beat {
        put("objective_to_beat".into(), json!(rounded(value)));
    }
    for slo in &record.objective.slos {
        put(format!("slo_{}", slo.key), json!(slo.limit));
    }
}

fn commands(fields: &mut Map<String, Value>, launch: Result<Launch>) {
    let (launch, benchmark, notes) = match launch {
        Ok(launch) => (launch.shell(), launch.benchmark_shell(), launch.notes.join(" ")),
        Err(error) => (String::new(), String::new(), error.to_string()),
    };
    fields.insert("launch".to_string(), json!(launch));
    fields.insert("benchmark".to_string(), json!(benchmark));
    fields.insert("notes".to_string(), json!(notes));
}

/// Five significant digits: more would feign precision and make the file differ in noise.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(4 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}
