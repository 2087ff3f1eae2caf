//! Why did the recommendation win, and what binds it? Sentences from comparisons with its neighbours.

use super::inputs::Inputs;
use crate::objective::Metric;
use crate::report::record::Obstacle;
use crate::report::text::count;
use crate::search::{Evaluator, Found, Group, Outcome, Reason, Search, Verdict, Why};
use crate::serve::{Bound, Evaluation};
use crate::space::knob_value;

/// Why it won: against the best point of the next layout, and against the next load.
pub fn why<E: Evaluator>(search: &Search<'_, E>, outcome: &Outcome) -> Vec<String> {
    let Some(best) = outcome.layouts.first() else { return Vec::new() };
    let metric = search.objective.metric;
    let mut sentences = Vec::new();
    match outcome.layouts.get(1) {
        None => sentences.push("No other layout has a feasible point.".to_string()),
        Some(next) => sentences.push(against(search, metric, best, next)),
    }
    for (knob, up) in [("concurrency", true), ("tp", true), ("tp", false)] {
        sentences.extend(step(search, metric, best, knob, up));
    }
    sentences
}

fn value(metric: Metric, evaluation: &Evaluation) -> f64 {
    metric.of(&evaluation.metrics).unwrap_or(f64::NAN)
}

fn against<E: Evaluator>(search: &Search<'_, E>, metric: Metric, best: &Found, next: &Found) -> String {
    let other = search.space.deployment(next.index);
    let (a, b) = (value(metric, &best.evaluation), value(metric, &next.evaluation));
    let kv = if search.space.deployment(best.index).kv_dtype == other.kv_dtype {
        String::new()
    } else {
        format!(", {} KV", other.kv_dtype)
    };
    format!(
        "{} {} against {} of the best point of the next layout ({other}{kv}), {}.",
        metric.label(),
        metric.show(a),
        metric.show(b),
        gain(metric, a, b)
    )
}

/// `12 % more`, `3 % less`, `the same`.
fn gain(metric: Metric, best: f64, other: f64) -> String {
    let change = (best / other - 1.0) * 100.0;
    match change {
        c if c.abs() < 0.05 => "the same; the lower TPOT decides".to_string(),
        c if c > 0.0 => format!("{c:.1} % {}", if metric.maximise() { "more" } else { "more, which should be less" }),
        c => format!("{:.1} % less", -c),
    }
}

/// What one more step of a knob would do.
fn step<E: Evaluator>(search: &Search<'_, E>, metric: Metric, best: &Found, knob: &str, up: bool) -> Option<String> {
    let neighbour = search
        .space
        .neighbours(best.index)
        .into_iter()
        .find(|n| n.knob == knob && n.steps == 1 && (n.index > best.index) == up)?;
    let told = knob_value(&search.space.deployment(neighbour.index), knob);
    match search.verdict(neighbour.index) {
        Verdict::Feasible(found) => {
            let (a, b) = (value(metric, &best.evaluation), value(metric, &found.evaluation));
            let ttft = found.evaluation.metrics.ttft_ms;
            (a != b).then(|| {
                let change = (b / a - 1.0) * 100.0;
                format!(
                    "With {told} it would be {} {} ({change:+.1} %), TTFT {ttft:.0} ms.",
                    metric.label(),
                    metric.show(b)
                )
            })
        }
        Verdict::Rejected(_, rejected) => match &rejected.why {
            Why::Missed(miss, _) => {
                Some(format!("With {told} it would break a limit: {}.", search.objective.slos[miss.slo].describe(miss)))
            }
            Why::Refused(_) => Some(format!("With {told} it would not fit in memory.")),
            Why::Illegal(_) => None,
        },
    }
}

/// What binds it, how large its share of a token's time is, and the knob that follows.
pub fn binds(evaluation: &Evaluation) -> Vec<String> {
    let b = &evaluation.breakdown;
    let tpot = evaluation.metrics.tpot_ms;
    let (share, of) = match evaluation.bound {
        Bound::WeightReads | Bound::Compute => (b.gemm_ms + b.moe_ms, "GEMM and experts"),
        Bound::KvReads => (b.attention_ms, "attention"),
        Bound::Collectives => (b.collectives_ms, "collectives"),
        Bound::KernelFloors => (b.small_kernels_ms, "small kernels"),
        Bound::Host => (b.host_ms, "the host"),
        Bound::Prefill => (b.prefill_ms, "prefill of other requests"),
        Bound::PrefillPool | Bound::KvCapacity | Bound::SequenceLimit => (f64::NAN, ""),
    };
    let advice = match evaluation.bound {
        Bound::WeightReads => "more requests in flight or narrower weights spread the reads",
        Bound::KvReads => "fp8 KV, fewer requests in flight or shorter contexts read less",
        Bound::Compute => "wider tensor parallelism or narrower number formats compute faster",
        Bound::Collectives => "fewer ranks per replica, or attention-DP, exchange less",
        Bound::KernelFloors => "more requests in flight spread the fixed cost of kernels",
        Bound::Host => "the engine's own work per step; a newer engine or more requests in flight spread it",
        Bound::Prefill => "prefix caching, shorter prompts or separate prefill GPUs relieve it",
        Bound::PrefillPool => {
            "requests queue before prefill: more or wider prefill instances, or fewer decode instances"
        }
        Bound::KvCapacity => "fewer requests run than are in flight: fp8 KV, more ranks or fewer requests",
        Bound::SequenceLimit => "fewer requests run than are in flight: raise max_num_seqs",
    };
    let share =
        if share.is_nan() { String::new() } else { format!(" ({:.0} % of TPOT in {of})", share / tpot * 100.0) };
    vec![format!("Bound by {}{share}: {advice}.", evaluation.bound)]
}

/// Where no point of the space runs: the one nearest to running, those that are legal first.
pub fn obstacle<E: Evaluator>(inputs: &Inputs, search: &Search<'_, E>, outcome: &Outcome) -> Option<Obstacle> {
    let runs = !outcome.layouts.is_empty() || outcome.groups.iter().any(|g| matches!(g.reason, Reason::Slo(_)));
    if runs {
        return None;
    }
    let refused = |g: &&Group| !matches!(g.reason, Reason::Illegal(_));
    let nearest =
        outcome.groups.iter().filter(refused).min_by(|a, b| {
            a.nearest.distance.total_cmp(&b.nearest.distance).then(a.nearest.index.cmp(&b.nearest.index))
        });
    let group = nearest.or(outcome.groups.first())?;
    Some(Obstacle {
        deployment: inputs.space.deployment(group.nearest.index),
        blocked_by: search.explain(group).trim_end_matches('.').to_string(),
    })
}

/// Longest mean TTFT that passes without remark where no limit was asked for, ms.
const INTERACTIVE_TTFT_MS: f64 = 10_000.0;

/// A remark on a recommendation no interactive user would bear, where no limit on TTFT forbids it.
fn offline(inputs: &Inputs, best: &Evaluation, concurrency: u32) -> Option<String> {
    let limited = |m: Metric| matches!(m, Metric::TtftMs | Metric::TtftP50Ms);
    if inputs.objective.slos.iter().any(|s| limited(s.metric)) {
        return None;
    }
    let m = &best.metrics;
    let waits = m.running + 0.5 < f64::from(concurrency);
    (m.ttft_ms > INTERACTIVE_TTFT_MS || waits).then(|| {
        format!(
            "This is an offline operating point: no SLO limits TTFT, and its mean is {:.1} s with {:.0} of \
             {concurrency} requests running; for interactive use add --slo ttft_ms=2000 or the like.",
            m.ttft_ms / 1000.0,
            m.running
        )
    })
}

/// What a reader must know beside the figures.
pub fn warnings(inputs: &Inputs, outcome: &Outcome) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(best) = outcome.layouts.first() {
        let d = inputs.space.deployment(best.index);
        let running = best.evaluation.metrics.running;
        if running + 0.5 < f64::from(d.concurrency) {
            warnings
                .push(format!("Of {} requests in flight {running:.0} run at once; the others wait.", d.concurrency));
        }
        warnings.extend(offline(inputs, &best.evaluation, d.concurrency));
        if let Some(s) = &d.speculation {
            warnings.push(format!(
                "{:.2} tokens a step with {} drafts is the calibration's figure, not this traffic's; --sensitivity says what \
                 another acceptance would change.",
                s.tokens_per_step, s.draft_tokens
            ));
        }
        let loads = inputs.space.loads().1;
        if loads.len() > 1 && loads.iter().max() == Some(&d.concurrency) {
            warnings.push("The best concurrency is the highest searched; a higher one may be better.".to_string());
        }
    }
    let (stated, node) = (inputs.target.gpus(), inputs.target.node.gpus.max(1));
    let most = inputs.space.most_gpus();
    if most > stated {
        warnings.push(format!(
            "Target `{}` states {stated} GPUs; {most} were asked for, so {} nodes like its own are assumed.",
            inputs.target.name,
            most.div_ceil(node)
        ));
    }
    let left_out = outcome.feasible.saturating_sub(outcome.kept.len() as u64);
    if left_out > 0 {
        warnings.push(format!(
            "{} points are feasible; points.csv lists the best {} of them and leaves out {}.",
            count(outcome.feasible),
            count(outcome.kept.len() as u64),
            count(left_out)
        ));
    }
    let calibration = &inputs.projector.calibration;
    if calibration.support.is_empty() {
        warnings.push(format!("Calibration `{}` lists no measured rows.", calibration.name));
    }
    warnings
}
