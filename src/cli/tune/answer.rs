//! From what a search found to the record every rendering reads.

use super::inputs::Inputs;
use super::{reasons, trust};
use crate::config::Deployment;
use crate::objective::Metric;
use crate::report::record::*;
use crate::report::summary::summary;
use crate::search::{Evaluator, Found, Group as Counted, Outcome, Reason, Search, Why};
use crate::serve::Evaluation;
use crate::source::Sourced;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The record of a run; its start, its command line and its times are the caller's.
pub fn record<E: Evaluator>(
    inputs: &Inputs,
    search: &Search<'_, E>,
    outcome: &Outcome,
    how: SearchSummary,
    top: u32,
    (started, arguments): (String, Vec<String>),
) -> RunRecord {
    let candidates = |found: &[Found]| -> Vec<Candidate> {
        (1..).zip(found).filter_map(|(rank, f)| candidate(inputs, rank, f.index, &f.evaluation)).collect()
    };
    let (illegal, rejected): (Vec<&Counted>, Vec<&Counted>) =
        outcome.groups.iter().partition(|g| matches!(g.reason, Reason::Illegal(_)));
    let groups = |counted: Vec<&Counted>| -> Vec<Group> {
        let group =
            |g: &Counted| Group { reason: search.reason_name(&g.reason), count: g.count, example: search.explain(g) };
        counted.into_iter().map(group).collect()
    };
    let best = outcome.layouts.first();
    let listed = &outcome.layouts[..outcome.layouts.len().min(top as usize)];
    RunRecord {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_string(),
        started,
        arguments,
        target: target(inputs),
        model: model(inputs),
        engine: engine(inputs),
        workload: inputs.workload.clone(),
        objective: objective(inputs),
        space: inputs.space_document.clone(),
        max_model_len: inputs.max_model_len(),
        counts: Counts {
            points: outcome.points,
            unseen: outcome.points.saturating_sub(outcome.looked),
            legal: outcome.legal,
            feasible: outcome.feasible,
            listed: outcome.kept.len() as u64,
        },
        search: how,
        verification: None,
        illegal: groups(illegal),
        rejected: groups(rejected),
        top: candidates(listed),
        shortlist: Vec::new(),
        best: best.and_then(|f| candidate(inputs, 1, f.index, &f.evaluation)),
        closest: if best.is_none() { closest(inputs, search, outcome) } else { None },
        obstacle: reasons::obstacle(inputs, search, outcome),
        why: reasons::why(search, outcome),
        binds: best.map_or_else(Vec::new, |f| reasons::binds(&f.evaluation)),
        front: candidates(&outcome.front),
        cost_front: candidates(&outcome.cost_front),
        sample: outcome.sample.iter().map(|s| SamplePoint::new(&s.evaluation.metrics, s.feasible)).collect(),
        calibration: trust_in(inputs, best.map(|f| inputs.space.deployment(f.index)).as_ref()),
        warnings: reasons::warnings(inputs, outcome),
        definitions: definitions(inputs),
        elapsed_s: 0.0,
        cpu_s: 0.0,
    }
}

/// What the recommended point's figures rest on.
fn trust_in(inputs: &Inputs, best: Option<&Deployment>) -> Vec<CalibrationStatement> {
    let (calibration, engine) = (&inputs.projector.calibration, &inputs.projector.engine.name);
    let model = &inputs.model.architecture.name;
    let mut statements = trust::statements(calibration, &inputs.target, engine, model);
    if let Some(best) = best {
        trust::limit_to_measured_loads(&mut statements, calibration, &inputs.target, engine, best);
    }
    statements
}

pub(super) fn candidate(inputs: &Inputs, rank: u64, index: u64, evaluation: &Evaluation) -> Option<Candidate> {
    let deployment = inputs.space.deployment(index);
    let compiled = inputs.projector.compile(&deployment).ok()?;
    let memory = compiled.plan(deployment.concurrency, deployment.max_num_batched_tokens);
    let objective = inputs.objective.metric.of(&evaluation.metrics)?;
    Some(Candidate { rank, objective, gpus: deployment.gpus(), deployment, evaluation: *evaluation, memory })
}

/// Among the nearest misses, one that runs before one that does not, then the least overshoot.
fn closest<E: Evaluator>(inputs: &Inputs, search: &Search<'_, E>, outcome: &Outcome) -> Option<Closest> {
    let nearest = outcome.groups.iter().filter(|g| !matches!(g.reason, Reason::Illegal(_))).min_by(|a, b| {
        let kind = |g: &Counted| !matches!(g.reason, Reason::Slo(_));
        kind(a).cmp(&kind(b)).then(a.nearest.distance.total_cmp(&b.nearest.distance))
    })?;
    let evaluation = match &nearest.nearest.why {
        Why::Missed(_, evaluation) => **evaluation,
        Why::Refused(_) | Why::Illegal(_) => return None,
    };
    let candidate = candidate(inputs, 1, nearest.nearest.index, &evaluation)?;
    Some(Closest { candidate, blocked_by: search.explain(nearest) })
}

fn target(inputs: &Inputs) -> TargetSummary {
    let (gpu, node) = (&inputs.target.gpu, &inputs.target.node);
    let figure = |name: &str, unit: &str, f: &Sourced<f64>| Figure {
        name: name.to_string(),
        value: format!("{} {unit}", f.value),
        origin: f.origin,
        source: f.source.clone(),
    };
    let mut figures = vec![
        figure("bf16 peak, dense", "TFLOP/s", &gpu.bf16_tflops),
        figure("fp8 peak, dense", "TFLOP/s", &gpu.fp8_tflops),
    ];
    figures.extend(gpu.fp4_tflops.as_ref().map(|f| figure("fp4 peak, dense", "TFLOP/s", f)));
    figures.push(figure("memory", "GiB", &gpu.hbm_gib));
    figures.push(figure("memory bandwidth", "TB/s", &gpu.hbm_tb_s));
    figures.push(figure("scale-up bandwidth per direction", "GB/s", &node.scaleup_gb_s));
    figures.push(figure("scale-out bandwidth per direction", "GB/s", &node.scaleout_gb_s));
    figures.extend(inputs.target.price.as_ref().map(|p| figure("price of a GPU hour", "USD", &p.usd_per_gpu_hour)));
    TargetSummary {
        document: inputs.target_document.clone(),
        gpu: gpu.name.clone(),
        gpus_per_node: node.gpus.min(inputs.space.most_gpus()),
        nodes: inputs.space.most_gpus().div_ceil(node.gpus.max(1)),
        usd_per_gpu_hour: inputs.target.price.as_ref().map(|p| p.usd_per_gpu_hour.value),
        figures,
    }
}

fn model(inputs: &Inputs) -> ModelSummary {
    let parameters = inputs.model.architecture.parameters();
    ModelSummary {
        name: inputs.model.architecture.name.clone(),
        parameters: parameters.total() as f64,
        active_parameters: parameters.active() as f64,
        checkpoints: inputs
            .model
            .checkpoints
            .iter()
            .map(|c| CheckpointName { dtype: c.dtype.clone(), id: c.id.clone() })
            .collect(),
        source: inputs.model.source.clone(),
    }
}

fn engine(inputs: &Inputs) -> EngineSummary {
    let profile = &inputs.projector.engine;
    let newest = || profile.versions.last().map_or("any version".to_string(), |v| format!("{} or later", v.since));
    let place = Path::new(&inputs.engine_name);
    EngineSummary {
        name: profile.name.clone(),
        version: inputs.projector.engine_version.clone().unwrap_or_else(newest),
        origin: if place.is_file() {
            inputs.engine_name.clone()
        } else {
            format!("built-in targets/engines/{}.yaml", profile.name)
        },
    }
}

fn objective(inputs: &Inputs) -> ObjectiveSummary {
    let metric = inputs.objective.metric;
    let limit = |slo: &crate::objective::Slo| SloLimit {
        key: slo.metric.key().to_string(),
        limit: slo.limit,
        at_most: !slo.metric.maximise(),
    };
    ObjectiveSummary {
        document: inputs.objective_document.clone(),
        metric: metric.key().to_string(),
        label: metric.label().to_string(),
        maximise: metric.maximise(),
        slos: inputs.objective.slos.iter().map(limit).collect(),
    }
}

fn definitions(inputs: &Inputs) -> Vec<Definition> {
    let define = |term: &str, text: String| Definition { term: term.to_string(), text };
    let prompts = inputs.workload.prompts_per_client;
    let mut definitions = vec![define(
        "ttft_ms, tpot_ms",
        format!(
            "means a closed-loop benchmark of {prompts} x concurrency prompts reports, first wave included; tpot_ms is \
             (E2E - TTFT)/(output tokens - 1)"
        ),
    )];
    definitions.push(define("tok_s_per_gpu", Metric::TokSPerGpu.meaning().to_string()));
    definitions.push(define("tok_s_per_user", Metric::TokSPerUser.meaning().to_string()));
    if let Some(price) = &inputs.target.price {
        let p = &price.usd_per_gpu_hour;
        let text = format!(
            "per million output tokens and per million total tokens at ${} per GPU hour: {}",
            p.value, p.source
        );
        definitions.push(define("cost", text));
    }
    definitions
}

/// The document of `--json`. Its `rejected` counts every point that is not feasible, those no engine starts and those
/// nobody looked at included, so that `points` is `feasible` plus all of `rejected`.
pub fn json(record: &RunRecord, report: Option<&Path>) -> Value {
    let mut document = summary(record, report);
    let out = record.illegal.iter().chain(&record.rejected);
    let mut rejected: Map<_, _> = out.map(|group| (group.reason.clone(), json!(group.count))).collect();
    if record.counts.unseen > 0 {
        rejected.insert("not looked at".to_string(), json!(record.counts.unseen));
    }
    document["rejected"] = rejected.into();
    if let Some(verification) = &record.verification {
        document["verification"] = json!(verification);
    }
    document
}
