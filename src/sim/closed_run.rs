//! A deployment under its own closed-loop workload, simulated: the figures of the closed form, and percentiles beside.

use super::deployment::Instance;
use super::distribution::{Gaps, Lengths};
use super::fleet::Unobserved;
use super::load::{Arrivals, LengthSource, LoadSpec, PrefixPool};
use super::report::Report;
use super::scenario::Scenario;
use super::simulate;
use crate::Result;
use crate::config::Deployment;
use crate::serve::{Projector, Refusal, ServingMetrics};

/// A simulated deployment.
#[derive(Debug, Clone)]
pub struct ClosedRun {
    /// One instance's run.
    pub report: Report,
    /// The same figures as the closed form gives, of the whole deployment.
    pub metrics: ServingMetrics,
}

/// Requests that make a 99th percentile: a hundred beyond it would need ten thousand, twenty need two thousand.
const REQUESTS: u64 = 2000;
/// Waves that show the steady state.
const LEAST_WAVES: u64 = 3;

/// Simulates one of the deployment's equal instances with its share of the clients. The run has as many waves as the
/// workload says where that is at least 2,000 requests; longer ones are cut to that, but not below three waves.
///
/// # Errors
/// See [`Instance::new`] for the inner one; scenarios no engine starts with for the outer.
pub fn closed_run(
    projector: &Projector,
    deployment: &Deployment,
    seed: u64,
) -> Result<std::result::Result<ClosedRun, Refusal>> {
    let w = &projector.workload;
    let instance = match Instance::new(projector, deployment, w.isl.saturating_add(w.osl).saturating_add(1)) {
        Ok(instance) => instance,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let clients = deployment.concurrency.div_ceil(deployment.replicas).max(1);
    let waves = u64::from(w.prompts_per_client).max(1);
    let requests = (u64::from(clients) * waves).min(REQUESTS.max(u64::from(clients) * LEAST_WAVES));
    let cached = (f64::from(w.isl) * w.prefix_hit_rate).round() as u32;
    let own = w.isl.saturating_sub(cached).max(1);
    let load = LoadSpec {
        arrivals: Arrivals::Closed { clients, think_s: 0.0, think: Gaps::Constant },
        lengths: LengthSource::Laws(Lengths::ratio(own, w.range_ratio), Lengths::ratio(w.osl, w.range_ratio)),
        requests,
        prefix: (cached > 0).then_some(PrefixPool { prefixes: 1, tokens: cached, exponent: 0.0 }),
        sessions: None,
        priorities: Vec::new(),
        seed,
    };
    let mut scenario = Scenario::new(instance.engine.clone(), load);
    scenario.draft_acceptance = instance.draft_acceptance;
    let report = simulate(&scenario, instance.step_time(Some(f64::from(clients))), &mut Unobserved)?;
    let metrics = metrics(&report, deployment, instance.compiled().price);
    Ok(Ok(ClosedRun { report, metrics }))
}

fn metrics(report: &Report, deployment: &Deployment, price: Option<f64>) -> ServingMetrics {
    let replicas = f64::from(deployment.replicas);
    let gpus = f64::from(deployment.gpus());
    let (output, total) = (report.output_tok_s * replicas, report.total_tok_s * replicas);
    let cost = |rate: f64| price.map(|usd| usd * gpus / 3600.0 / rate * 1e6);
    ServingMetrics {
        ttft_ms: report.ttft_ms.mean,
        ttft_p50_ms: report.ttft_ms.p50,
        tpot_ms: report.tpot_ms.mean,
        e2e_ms: report.e2e_ms.mean,
        output_tok_s: output,
        total_tok_s: total,
        tok_s_per_gpu: total / gpus,
        tok_s_per_user: 1e3 / report.tpot_ms.mean,
        running: report.engines.iter().map(|e| e.mean_sequences).sum::<f64>() * replicas,
        usd_per_m_output: cost(output),
        usd_per_m_total: cost(total),
    }
}
