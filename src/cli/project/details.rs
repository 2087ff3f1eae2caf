//! Every budget line, capacity and limit of one deployment, for `--explain`.

use super::inputs::Inputs;
use crate::memory::MemoryPlan;
use crate::report::projection::{Details, Figure};
use crate::serve::CompiledDeployment;
use crate::target::engine::FractionOf;
use crate::{Error, Result};

/// Everything behind the figures.
pub fn details(inputs: &Inputs, compiled: &CompiledDeployment, plan: &MemoryPlan) -> Result<Details> {
    let d = &inputs.deployment;
    let checkpoint = inputs.projector.checkpoint(d)?;
    let arithmetic = if plan.fits() {
        let explanation = compiled.explain(d.concurrency, d.max_num_batched_tokens);
        Some(explanation.map_err(|r| Error::input("--explain", format!("{r:?}"), ""))?)
    } else {
        None
    };
    Ok(Details {
        arithmetic,
        memory_lines: budget(inputs, plan),
        capacity: capacity(inputs, plan),
        running: running(inputs, compiled, plan),
        constants: inputs.projector.calibration.trace(&inputs.projector.regime(d, checkpoint)),
    })
}

fn figure(name: &str, value: f64, how: impl Into<String>) -> Figure {
    Figure { name: name.to_string(), value, how: how.into() }
}

fn budget(inputs: &Inputs, plan: &MemoryPlan) -> Vec<Figure> {
    let d = &inputs.deployment;
    let settings = &inputs.projector.settings;
    let gpu = &inputs.projector.target.gpu;
    let fraction = d.memory_fraction;
    let (meaning, rest) = match settings.fraction_of {
        FractionOf::Total => {
            (format!("{fraction} of the GPU, for all the engine holds"), "budget less the lines above")
        }
        FractionOf::TotalForWeightsAndKv => (
            format!("{fraction} of the GPU, for weights and KV; activation and graphs live in the rest"),
            "the budget, or what activation and graphs leave, less weights, reserve and state",
        ),
        FractionOf::FreeAfterWeights => (
            format!("KV takes {fraction} of what is free after weights and a full step"),
            "that share of the free memory",
        ),
    };
    let graphs = match (settings.fraction_of, settings.graphs_in_budget) {
        (FractionOf::Total, true) => "captured graphs, counted in the budget",
        (FractionOf::Total, false) => "captured graphs, outside the budget",
        _ => "captured graphs",
    };
    let steps = format!("peak of a step of {} tokens, {} sequences", d.max_num_batched_tokens, d.max_num_seqs);
    vec![
        figure("memory of the GPU", plan.total.0, format!("{}, {}", gpu.hbm_gib.origin, gpu.name)),
        figure("budget", plan.budget.0, meaning),
        figure("weights", plan.weights.0, "the fullest rank, the engine's padding included"),
        figure("engine reserve", plan.engine_reserve.0, "runtime, communication buffers, workspaces"),
        figure("activation", plan.activation.0, steps),
        figure("graphs", plan.graphs.0, graphs),
        figure("state", plan.state.0, "recurrent states kept apart from the KV pool"),
        figure("KV cache", plan.kv_available.0, rest),
    ]
}

fn capacity(inputs: &Inputs, plan: &MemoryPlan) -> Vec<Figure> {
    let w = &inputs.projector.workload;
    let longest = f64::from(w.isl) + f64::from(w.osl);
    let resident = w.mean_isl() + w.mean_osl() / 2.0;
    vec![
        figure("KV bytes per token", plan.kv_bytes_per_token.0, "one more token of context on this rank, windows full"),
        figure(
            "KV bytes per request",
            plan.kv_bytes_per_request.0,
            format!("the longest request, {longest:.0} tokens, in whole blocks"),
        ),
        figure("KV tokens", plan.kv_tokens, "capacity as the engine prints it, per attention-DP group"),
        figure("maximum concurrency", plan.max_concurrency, "requests of the longest length, as the engine prints it"),
        figure(
            "resident requests",
            plan.resident_requests,
            format!("requests of {resident:.0} tokens (prompt and half the answer), per instance"),
        ),
    ]
}

fn running(inputs: &Inputs, compiled: &CompiledDeployment, plan: &MemoryPlan) -> Vec<Figure> {
    let d = &inputs.deployment;
    let load = compiled.load(d.concurrency, plan);
    let sequences = f64::from(d.max_num_seqs) * f64::from(d.attention_dp);
    let why = load.capped.map_or("all that are in flight".to_string(), |bound| format!("capped by {bound}"));
    vec![
        figure("in flight", load.load.clients, format!("{} over {} replicas", d.concurrency, d.replicas)),
        figure("sequence limit", sequences, format!("{} x {} attention-DP groups", d.max_num_seqs, d.attention_dp)),
        figure("memory limit", plan.resident_requests.max(1.0), "resident requests, at least one"),
        figure("running", load.load.running, why),
    ]
}
