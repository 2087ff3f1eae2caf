//! From a deployment to what is said about it: figures, what binds, broken budgets, warnings.

use super::details::details;
use super::inputs::Inputs;
use super::remedy::nearest_change;
use crate::anchor::confidence::Confidence;
use crate::cli::anchor::flags;
use crate::cli::tune::{anchored, reasons, trust};
use crate::memory::MemoryPlan;
use crate::objective::{Metric, Miss, Slo};
use crate::report::projection::{Broken, Memory, Projection, Subject, Trust};
use crate::report::record::{CalibrationLevel, Definition};
use crate::serve::{CompiledDeployment, Evaluation, Explanation, Refusal};
use crate::{Error, Result};

/// Projects and judges; `explain` adds every line behind the figures.
pub fn projection(inputs: &Inputs, explain: bool) -> Result<Projection> {
    let (projector, d) = (&inputs.projector, &inputs.deployment);
    let compiled = projector.compile(d).map_err(|refusal| no_model(inputs, refusal))?;
    let plan = compiled.plan(d.concurrency, d.max_num_batched_tokens);
    let evaluation = match inputs.evaluate(d) {
        Ok(evaluation) => Some(evaluation),
        Err(Refusal::DoesNotFit(_)) => None,
        Err(refusal) => return Err(no_model(inputs, refusal)),
    };
    let details = details(inputs, &compiled, &plan)?;
    let broken = match (&evaluation, &details.arithmetic) {
        (Some(evaluation), Some(arithmetic)) => broken_limits(inputs, evaluation, arithmetic),
        _ => vec![no_room(inputs, &plan)],
    };
    let model = &projector.model.architecture.name;
    let mut statements = trust::statements(&projector.calibration, &projector.target, &projector.engine.name, model);
    trust::limit_to_measured_loads(
        &mut statements,
        &projector.calibration,
        &projector.target,
        &projector.engine.name,
        d,
    );
    if let Some(set) = &inputs.anchors {
        statements.splice(0..0, anchored::statements(&set.basis(d, d.concurrency)));
    }
    let level = statements.iter().map(|s| s.level).max().unwrap_or(CalibrationLevel::Uncalibrated);
    Ok(Projection {
        feasible: broken.is_empty(),
        metrics: evaluation.map(|e| e.metrics),
        bound: evaluation.map(|e| e.bound),
        breakdown: evaluation.map(|e| e.breakdown),
        binds: evaluation.as_ref().map_or_else(Vec::new, reasons::binds),
        memory: Memory { fits: plan.fits(), binds: largest_line(&plan).to_string(), plan },
        calibration: Trust { profile: projector.calibration.name.clone(), level, statements },
        broken,
        slo: inputs.objective.slos.iter().map(Slo::to_string).collect(),
        subject: subject(inputs)?,
        deployment: d.clone(),
        workload: projector.workload.clone(),
        warnings: warnings(inputs, &compiled, evaluation.as_ref()),
        definitions: definitions(inputs),
        explain: explain.then_some(details),
    })
}

fn no_model(inputs: &Inputs, refusal: Refusal) -> Error {
    let found = match refusal {
        Refusal::NoModel(name) => name,
        Refusal::DoesNotFit(_) => "does not fit".to_string(),
    };
    Error::input(inputs.deployment.to_string(), found, "")
}

fn subject(inputs: &Inputs) -> Result<Subject> {
    let projector = &inputs.projector;
    let newest =
        || projector.engine.versions.last().map_or("(any version)".to_string(), |v| format!("{} or later", v.since));
    Ok(Subject {
        target: projector.target.name.clone(),
        gpu: projector.target.gpu.name.clone(),
        gpus: inputs.deployment.gpus(),
        model: projector.model.architecture.name.clone(),
        checkpoint: projector.checkpoint(&inputs.deployment)?.id.clone(),
        engine: projector.engine.name.clone(),
        engine_version: projector.engine_version.clone().unwrap_or_else(newest),
    })
}

/// The largest line of the budget.
fn largest_line(plan: &MemoryPlan) -> &'static str {
    let lines = [
        ("weights", plan.weights.0),
        ("activation", plan.activation.0),
        ("engine reserve", plan.engine_reserve.0),
        ("graphs", plan.graphs.0),
        ("state", plan.state.0),
        ("KV cache", plan.kv_available.0),
    ];
    lines.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("weights", |l| l.0)
}

fn no_room(inputs: &Inputs, plan: &MemoryPlan) -> Broken {
    let what = if plan.kv_available.0 <= 0.0 {
        let over = plan.kv_available * -1.0;
        format!(
            "weights {}, activation {}, reserve {} leave nothing of the budget of {} ({over} over)",
            plan.weights, plan.activation, plan.engine_reserve, plan.budget
        )
    } else {
        format!(
            "one request of the longest length needs {} of KV, {} are left",
            plan.kv_bytes_per_request, plan.kv_available
        )
    };
    let binds = format!("{} in memory", largest_line(plan));
    Broken { what, binds, change: nearest_change(inputs) }
}

fn broken_limits(inputs: &Inputs, evaluation: &Evaluation, arithmetic: &Explanation) -> Vec<Broken> {
    let slos = &inputs.objective.slos;
    let missed = slos.iter().enumerate().filter_map(|(at, slo)| {
        let (value, overshoot) = slo.overshoot(&evaluation.metrics)?;
        Some((slo, Miss { slo: at, value, overshoot }))
    });
    let mut change: Option<String> = None;
    missed
        .map(|(slo, miss)| Broken {
            what: slo.describe(&miss),
            binds: binding_line(slo.metric, evaluation, arithmetic),
            change: change.get_or_insert_with(|| nearest_change(inputs)).clone(),
        })
        .collect()
}

/// The largest summand of the figure that is limited.
fn binding_line(metric: Metric, evaluation: &Evaluation, arithmetic: &Explanation) -> String {
    let a = &arithmetic.assembly;
    let mut parts: Vec<(String, f64)> = Vec::new();
    let whole = match metric {
        Metric::TtftMs | Metric::TtftP50Ms => {
            let mut add = |name: &str, ms: f64| match parts.iter_mut().find(|(n, _)| n == name) {
                Some((_, sum)) => *sum += ms,
                None => parts.push((name.to_string(), ms)),
            };
            a.first_wave.iter().for_each(|t| add(&t.name, t.ms / a.waves));
            a.steady.iter().for_each(|t| add(&t.name, t.ms * (a.waves - 1.0) / a.waves));
            add("waiting for a place among the running requests", a.held_back_ms);
            ("mean TTFT", a.ttft_ms)
        }
        _ => {
            parts = evaluation.breakdown.parts().iter().map(|(name, ms)| (name.to_string(), *ms)).collect();
            ("TPOT", a.tpot_ms)
        }
    };
    let largest = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
    let bound = evaluation.bound;
    format!("{}, {:.1} of {:.1} ms {}; the deployment is bound by {bound}", largest.0, largest.1, whole.1, whole.0)
}

fn warnings(inputs: &Inputs, compiled: &CompiledDeployment, evaluation: Option<&Evaluation>) -> Vec<String> {
    let mut warnings = Vec::new();
    let d = &inputs.deployment;
    if let Some(evaluation) = evaluation {
        let running = evaluation.metrics.running;
        if running + 0.5 < f64::from(d.concurrency) {
            warnings.push(format!(
                "Of {} requests in flight {running:.0} run at once ({}); the others wait.",
                d.concurrency, evaluation.bound
            ));
        }
    }
    if let Some(set) = &inputs.anchors {
        warnings.extend(flags::warnings(set));
        let basis = set.basis(d, d.concurrency);
        if basis.decode != Confidence::OutOfRegime {
            warnings.push("Figures stand on anchors; --explain shows the projection before them.".to_string());
        }
    }
    let ops = &compiled.step.ops;
    let mut foreign: Vec<String> = Vec::new();
    let mut note = |name: &str, table: &str, exact: bool| {
        let line = format!("{name}: {table}");
        if !exact && !foreign.contains(&line) {
            foreign.push(line);
        }
    };
    ops.gemms.iter().for_each(|g| note("dense products", &g.table, g.exact));
    ops.moes.iter().for_each(|m| note("experts", &m.table, m.exact));
    ops.decode.iter().for_each(|a| note(a.name, &a.table, a.exact));
    ops.prefill.iter().for_each(|a| note("prompt attention", &a.table, a.exact));
    ops.collectives.iter().for_each(|c| note("all-reduce", &c.table, c.exact));
    if !foreign.is_empty() {
        warnings.push(format!(
            "Priced by the kernel table of a neighbouring GPU, engine or format: {}.",
            foreign.join("; ")
        ));
    }
    if inputs.assumed_acceptance
        && let Some(s) = &d.speculation
    {
        warnings.push(format!(
            "{:.2} tokens a step with {} drafts is the calibration's figure; give --tokens-per-step where it is measured.",
            s.tokens_per_step, s.draft_tokens
        ));
    }
    let note = &inputs.projector.engine.note;
    if !note.is_empty() {
        warnings.push(format!("Memory: {note}"));
    }
    warnings.extend(inputs.projector.model.notes.iter().map(|n| format!("Model: {n}")));
    warnings
}

fn definitions(inputs: &Inputs) -> Vec<Definition> {
    let define = |term: &str, text: String| Definition { term: term.to_string(), text };
    let prompts = inputs.projector.workload.prompts_per_client;
    let mut definitions = vec![
        define(
            "ttft_ms, tpot_ms",
            format!(
                "means a closed-loop benchmark of {prompts} x concurrency prompts reports, first wave included; tpot_ms \
                 is (E2E - TTFT)/(output tokens - 1)"
            ),
        ),
        define("tok_s_per_gpu", Metric::TokSPerGpu.meaning().to_string()),
        define("tok_s_per_user", Metric::TokSPerUser.meaning().to_string()),
    ];
    if let Some(price) = &inputs.projector.target.price {
        let p = &price.usd_per_gpu_hour;
        definitions.push(define("cost", format!("at ${} per GPU hour: {}", p.value, p.source)));
    }
    definitions
}
