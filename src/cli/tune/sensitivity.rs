//! `--sensitivity`: one step of each knob from the recommendation, and the assumptions that would change it.
//!
//! Steps are evaluated as the search evaluates. A changed assumption is a changed projector, or a space whose drafts are
//! accepted otherwise; the recommendation is compared under it with the best point of every layout and the best points
//! of all that the search kept.

use super::inputs::Inputs;
use crate::config::{acceptance, emitted};
use crate::report::sensitivity::{KnobStep, Sensitivity, Shift};
use crate::search::{Evaluator, Found, Outcome, Search, Verdict, Why};
use crate::serve::Projector;
use crate::space::{Space, knob_value};
use rayon::prelude::*;

/// Best points of all that compete beside the best of each layout.
const RIVALS: usize = 2000;
/// How far the chance that a draft is accepted may be off.
const ACCEPTANCE: f64 = 0.15;

/// Both answers for the recommendation; `None` where there is none.
pub fn of<E: Evaluator>(inputs: &Inputs, search: &Search<'_, E>, outcome: &Outcome) -> Option<Sensitivity> {
    let best = outcome.layouts.first()?;
    let mut points: Vec<u64> =
        outcome.layouts.iter().chain(outcome.kept.iter().take(RIVALS)).map(|f| f.index).collect();
    points.sort_unstable();
    points.dedup();
    let shift = |change: Change| shifted(inputs, best.index, &points, change);
    let assumptions = changes(inputs).into_iter().filter_map(shift).collect();
    Some(Sensitivity { knobs: steps(search, best), assumptions })
}

fn steps<E: Evaluator>(search: &Search<'_, E>, best: &Found) -> Vec<KnobStep> {
    let metric = search.objective.metric;
    let base = metric.of(&best.evaluation.metrics).unwrap_or(f64::NAN);
    let step = |index: u64, knob: &str| {
        let to = knob_value(&search.space.deployment(index), knob);
        match search.verdict(index) {
            Verdict::Feasible(found) => {
                let objective = metric.of(&found.evaluation.metrics);
                KnobStep { to, objective, change: objective.map(|o| o / base - 1.0), blocked_by: None }
            }
            Verdict::Rejected(reason, rejected) => {
                let why = match &rejected.why {
                    Why::Missed(miss, _) => search.objective.slos[miss.slo].describe(miss),
                    _ => search.reason_name(&reason),
                };
                KnobStep { to, objective: None, change: None, blocked_by: Some(why) }
            }
        }
    };
    let near = search.space.neighbours(best.index).into_iter().filter(|n| n.steps == 1);
    near.map(|n| step(n.index, n.knob)).collect()
}

/// Another assumption.
struct Change {
    /// What was assumed.
    assumed: String,
    /// What it becomes.
    to: String,
    /// The projector that believes it.
    projector: Projector,
    /// The space, where its deployments change with it.
    space: Option<Space>,
}

impl Change {
    fn new(assumed: String, to: String, projector: Projector) -> Self {
        Self { assumed, to, projector, space: None }
    }
}

fn changes(inputs: &Inputs) -> Vec<Change> {
    let base = &inputs.projector;
    let mut changes = Vec::new();
    let bandwidth = base.target.gpu.hbm_tb_s.value;
    for factor in [0.8, 1.2] {
        let mut other = base.clone();
        other.target.gpu.hbm_tb_s.value = bandwidth * factor;
        let (assumed, to) = (format!("memory bandwidth {bandwidth} TB/s"), format!("{:.2}", bandwidth * factor));
        changes.push(Change::new(assumed, to, other));
    }
    let hits = base.workload.prefix_hit_rate;
    for to in [hits - 0.3, hits + 0.3].map(|h| (h.clamp(0.0, 0.95) * 100.0).round() / 100.0) {
        if (to - hits).abs() > 1e-9 {
            let mut other = base.clone();
            other.workload.prefix_hit_rate = to;
            changes.push(Change::new(format!("prefix hit rate {hits}"), to.to_string(), other));
        }
    }
    if let Some(price) = &base.target.price {
        let usd = price.usd_per_gpu_hour.value;
        for factor in [0.5, 2.0] {
            let mut other = base.clone();
            if let Some(price) = &mut other.target.price {
                price.usd_per_gpu_hour.value = usd * factor;
            }
            changes.push(Change::new(format!("price ${usd} per GPU hour"), format!("${}", usd * factor), other));
        }
    }
    if inputs.space.drafts() {
        let rate = acceptance(3, base.accepted_tokens());
        for other in [(rate - ACCEPTANCE).max(0.0), (rate + ACCEPTANCE).min(1.0)] {
            let space = Some(inputs.space.with_accepted_tokens(emitted(other, 3)));
            let (assumed, to) = (format!("draft acceptance rate {rate:.2}"), format!("{other:.2}"));
            changes.push(Change { space, ..Change::new(assumed, to, base.clone()) });
        }
    }
    changes
}

fn shifted(inputs: &Inputs, best: u64, points: &[u64], change: Change) -> Option<Shift> {
    let Change { assumed, to, projector, space } = change;
    let space = space.as_ref().unwrap_or(&inputs.space);
    let search = Search { space, legality: &inputs.legality, objective: &inputs.objective, evaluator: &projector };
    let unchanged = Search { space: &inputs.space, evaluator: &inputs.projector, ..search };
    let metric = inputs.objective.metric;
    let found = |verdict: Verdict| match verdict {
        Verdict::Feasible(found) => Some(found),
        Verdict::Rejected(..) => None,
    };
    let all: Vec<Found> = points.par_iter().filter_map(|p| found(search.verdict(*p))).collect();
    let winner = all.iter().min_by(|a, b| Found::order(a, b));
    let own = found(search.verdict(best));
    let before = found(unchanged.verdict(best)).and_then(|f| metric.of(&f.evaluation.metrics))?;
    let objective = own.as_ref().and_then(|f| metric.of(&f.evaluation.metrics));
    // What is better by less than a thousandth changes nothing.
    let better =
        |w: &&Found| w.index != best && own.as_ref().is_none_or(|o| (w.score - o.score) > 1e-3 * o.score.abs());
    let instead = winner.filter(better);
    Some(Shift {
        assumed,
        to,
        objective,
        change: objective.map(|o| o / before - 1.0),
        instead: instead.map(|w| inputs.space.deployment(w.index).to_string()),
        gain: instead.zip(own.as_ref()).map(|(w, o)| (w.score - o.score) / o.score.abs()),
    })
}
