//! Which one knob, turned least, brings a deployment inside its budgets?

use super::inputs::Inputs;
use crate::config::Deployment;
use crate::model::KvFormat;
use crate::serve::Refusal;

/// How far a deployment is out: 0 where it is feasible, the worst overshoot above 1 where it breaks a limit, beyond
/// [`NO_ROOM`] where it does not fit; `None` where it is illegal.
fn distance(inputs: &Inputs, deployment: &Deployment) -> Option<f64> {
    if !inputs.legality.violations(deployment, inputs.gpus()).is_empty() {
        return None;
    }
    Some(match inputs.evaluate(deployment) {
        Ok(evaluation) => {
            let over = inputs.objective.slos.iter().filter_map(|slo| slo.overshoot(&evaluation.metrics));
            over.map(|(_, factor)| factor).fold(0.0, f64::max)
        }
        Err(Refusal::DoesNotFit(plan)) => NO_ROOM + (plan.kv_bytes_per_request.0 - plan.kv_available.0) / plan.total.0,
        Err(Refusal::NoModel(_)) => return None,
    })
}

const NO_ROOM: f64 = 1e12;

/// One knob turned.
struct Change {
    text: String,
    knob: &'static str,
    /// Doublings, or what a change of format weighs against them.
    effort: f64,
    deployment: Deployment,
}

/// The nearest change that helps, in words.
pub fn nearest_change(inputs: &Inputs) -> String {
    let mut changes = changes(inputs);
    changes.sort_by(|a, b| a.effort.total_cmp(&b.effort));
    let judged: Vec<(Change, f64)> =
        changes.into_iter().filter_map(|c| distance(inputs, &c.deployment).map(|d| (c, d))).collect();
    let helps: Vec<&Change> = judged.iter().filter(|(_, d)| *d == 0.0).map(|(c, _)| c).collect();
    if let Some(first) = helps.first() {
        let second = helps.iter().find(|c| c.knob != first.knob);
        let also = second.map_or(String::new(), |c| format!("; so does {}", refined(inputs, c)));
        return format!("{} is enough{also}", refined(inputs, first));
    }
    let now = distance(inputs, &inputs.deployment).unwrap_or(f64::INFINITY);
    match judged.iter().filter(|(_, d)| *d < now).min_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((change, d)) if *d < NO_ROOM && now < NO_ROOM => {
            format!("no single change is enough; {} brings it to {d:.2}x", change.text)
        }
        Some((change, d)) if *d < NO_ROOM => format!("{} fits, but breaks a limit ({d:.2}x)", change.text),
        Some((change, _)) => format!("no single change is enough; {} comes nearest", change.text),
        None => "no single change helps".to_string(),
    }
}

/// For a concurrency that is enough, the one closest to what was asked that is enough too.
fn refined(inputs: &Inputs, change: &Change) -> String {
    if change.knob != "concurrency" {
        return change.text.clone();
    }
    let (mut good, mut bad) = (change.deployment.concurrency, inputs.deployment.concurrency);
    while good.abs_diff(bad) > 1 {
        let middle = good.midpoint(bad);
        let deployment = Deployment { concurrency: middle, ..inputs.deployment.clone() };
        if distance(inputs, &deployment) == Some(0.0) { good = middle } else { bad = middle }
    }
    format!("concurrency {good}")
}

fn changes(inputs: &Inputs) -> Vec<Change> {
    let d = &inputs.deployment;
    let mut changes = Vec::new();
    let mut add = |knob: &'static str, value: String, effort: f64, deployment: Deployment| {
        changes.push(Change { text: format!("{knob} {value}"), knob, effort, deployment });
    };
    let scaled = |value: u32, doublings: i32| -> Option<u32> {
        let scaled = f64::from(value) * f64::from(doublings).exp2();
        (scaled >= 1.0 && scaled.fract() == 0.0 && scaled <= 1e7).then_some(scaled as u32)
    };
    for doublings in (-10..=6).filter(|n| *n != 0) {
        // Where two knobs are equally far, the one that costs no hardware comes first.
        let effort = f64::from(doublings).abs();
        let with = |value: u32, set: fn(&mut Deployment, u32)| {
            let new = scaled(value, doublings)?;
            let mut deployment = d.clone();
            set(&mut deployment, new);
            Some((new.to_string(), deployment))
        };
        type Knob = (&'static str, u32, f64, fn(&mut Deployment, u32));
        let knobs: [Knob; 8] = [
            ("concurrency", d.concurrency, 0.0, |d, v| d.concurrency = v),
            ("max_num_batched_tokens", d.max_num_batched_tokens, 0.1, |d, v| d.max_num_batched_tokens = v),
            ("max_num_seqs", d.max_num_seqs, 0.1, |d, v| d.max_num_seqs = v),
            ("tp", d.tp, 0.2, |d, v| {
                // Groups that span the whole stage keep doing so.
                if d.ep == d.tp && d.ep > 1 {
                    d.ep = v;
                }
                if d.attention_dp == d.tp && d.attention_dp > 1 {
                    d.attention_dp = v;
                }
                d.tp = v;
            }),
            ("ep", d.ep, 0.3, |d, v| d.ep = v),
            ("attention_dp", d.attention_dp, 0.4, |d, v| d.attention_dp = v),
            ("replicas", d.replicas, 0.5, |d, v| d.replicas = v),
            ("pp", d.pp, 0.6, |d, v| d.pp = v),
        ];
        for (knob, value, tie, set) in knobs {
            if let Some((shown, deployment)) = with(value, set) {
                add(knob, shown, effort + tie, deployment);
            }
        }
    }
    for kv_dtype in [KvFormat::Fp8, KvFormat::Bf16] {
        if kv_dtype != d.kv_dtype {
            add("kv_dtype", kv_dtype.to_string(), 1.05, Deployment { kv_dtype, ..d.clone() });
        }
    }
    for checkpoint in &inputs.projector.model.checkpoints {
        if checkpoint.dtype != d.weight_dtype {
            let deployment = Deployment { weight_dtype: checkpoint.dtype.clone(), ..d.clone() };
            add("weight_dtype", checkpoint.dtype.clone(), 1.7, deployment);
        }
    }
    if d.memory_fraction < 0.95 {
        add("memory_fraction", "0.95".to_string(), 0.9, Deployment { memory_fraction: 0.95, ..d.clone() });
    }
    changes
}
