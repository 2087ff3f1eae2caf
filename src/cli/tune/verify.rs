//! `--verify simulate`: the best points of the closed form are simulated, best first, until one keeps every limit; what
//! stands in the answer besides is simulated too where it lies near a limit or on a front.

use super::Arguments;
use super::inputs::Inputs;
use crate::Result;
use crate::config::Deployment;
use crate::report::verification::{FailedPoint, Latencies, Verification};
use crate::search::{Found, Outcome};
use crate::serve::ServingMetrics;
use crate::sim::closed_run::{ClosedRun, closed_run};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A figure within this share of its limit is near it.
const NEAR: f64 = 0.15;
/// Points simulated at once while the best is sought.
const BATCH: usize = 8;

/// The points simulated so far.
struct Verifier<'a> {
    inputs: &'a Inputs,
    seed: u64,
    passed: BTreeMap<u64, ClosedRun>,
    failed: BTreeMap<u64, String>,
}

/// Simulates, takes from `outcome` what fails, and says what was seen.
///
/// # Errors
/// A scenario that no engine starts with.
pub fn verify(inputs: &Inputs, outcome: &mut Outcome, arguments: &Arguments) -> Result<Verification> {
    let (top, budget, seed) = (arguments.top as usize, arguments.verify_budget as usize, arguments.seed);
    let mut verifier = Verifier { inputs, seed, passed: BTreeMap::new(), failed: BTreeMap::new() };
    let best = verifier.seek(&outcome.kept, budget)?;
    let left = budget.saturating_sub(verifier.simulated());
    if best.is_some() {
        let near = |found: &&Found| verifier.is_near(&found.evaluation.metrics);
        let listed = outcome.layouts.iter().take(top).filter(near).chain(&outcome.front).chain(&outcome.cost_front);
        let mut indices: Vec<u64> = Vec::new();
        for found in listed {
            if !verifier.knows(found.index) && !indices.contains(&found.index) {
                indices.push(found.index);
            }
        }
        indices.truncate(left);
        verifier.simulate(&indices)?;
    }
    verifier.prune(outcome, best);
    Ok(verifier.report(outcome, best))
}

impl Verifier<'_> {
    fn simulated(&self) -> usize {
        self.passed.len() + self.failed.len()
    }

    fn knows(&self, index: u64) -> bool {
        self.passed.contains_key(&index) || self.failed.contains_key(&index)
    }

    /// The first of `ranked` that passes. A point whose layout and budget failed at a lower load is passed over.
    fn seek(&mut self, ranked: &[Found], budget: usize) -> Result<Option<u64>> {
        let mut hopeless: BTreeMap<String, u32> = BTreeMap::new();
        let mut queue = ranked.iter().map(|f| f.index);
        loop {
            let mut batch = Vec::new();
            for index in queue.by_ref() {
                let (layout, load) = self.layout(index);
                if hopeless.get(&layout).is_none_or(|failed| load < *failed) {
                    batch.push(index);
                }
                if batch.len() == BATCH {
                    break;
                }
            }
            batch.truncate(budget.saturating_sub(self.simulated()));
            if batch.is_empty() {
                return Ok(None);
            }
            self.simulate(&batch)?;
            if let Some(first) = batch.iter().find(|index| self.passed.contains_key(index)) {
                return Ok(Some(*first));
            }
            for index in batch {
                let (layout, load) = self.layout(index);
                hopeless.entry(layout).and_modify(|known| *known = load.min(*known)).or_insert(load);
            }
        }
    }

    /// Everything but the load, and the load.
    fn layout(&self, index: u64) -> (String, u32) {
        let deployment = self.inputs.space.deployment(index);
        let load = deployment.concurrency;
        (format!("{:?}", Deployment { concurrency: 0, ..deployment }), load)
    }

    fn simulate(&mut self, indices: &[u64]) -> Result<()> {
        let inputs = self.inputs;
        let runs: Vec<_> = indices
            .par_iter()
            .map(|index| closed_run(&inputs.projector, &inputs.space.deployment(*index), self.seed))
            .collect::<Result<_>>()?;
        for (index, run) in indices.iter().zip(runs) {
            match run {
                Err(_) => drop(self.failed.insert(*index, "it cannot be simulated: no room or no figures".into())),
                Ok(run) => match self.misses(&run) {
                    None => drop(self.passed.insert(*index, run)),
                    Some(why) => drop(self.failed.insert(*index, why)),
                },
            }
        }
        Ok(())
    }

    /// The limit that a simulated point misses, in words.
    fn misses(&self, run: &ClosedRun) -> Option<String> {
        if let Err(miss) = self.inputs.objective.judge(&run.metrics) {
            return Some(self.inputs.objective.slos[miss.slo].describe(&miss));
        }
        let refused = run.report.refused.total();
        if refused > 0 {
            return Some(format!("{refused} of {} requests got no answer", run.report.sent));
        }
        let missed = self.inputs.percentiles.verdicts(&run.report).into_iter().find(|v| !v.met)?;
        let factor = missed.value_ms / missed.limit_ms;
        Some(format!("{} {:.1} over the budget of {} ({factor:.2}x)", missed.slo, missed.value_ms, missed.limit_ms))
    }

    fn is_near(&self, metrics: &ServingMetrics) -> bool {
        self.inputs
            .objective
            .slos
            .iter()
            .any(|slo| slo.metric.of(metrics).is_some_and(|value| (value / slo.limit - 1.0).abs() < NEAR))
    }

    /// Takes failed points from the answer; the best of a layout becomes its best point that did not fail.
    fn prune(&self, outcome: &mut Outcome, best: Option<u64>) {
        let Some(best) = best else {
            outcome.layouts.clear();
            outcome.front.clear();
            outcome.cost_front.clear();
            outcome.kept.clear();
            return;
        };
        // What ranks above the best and was passed over at a higher load than one that failed goes with it.
        let at = outcome.kept.iter().position(|f| f.index == best).unwrap_or(0);
        let over: BTreeSet<u64> = outcome.kept[..at].iter().map(|f| f.index).collect();
        let out = |index: u64| self.failed.contains_key(&index) || over.contains(&index);
        outcome.kept.retain(|f| !out(f.index));
        outcome.front.retain(|f| !out(f.index));
        outcome.cost_front.retain(|f| !out(f.index));
        let size = self.inputs.space.layout_len();
        let lost: BTreeSet<u64> = outcome.layouts.iter().filter(|f| out(f.index)).map(|f| f.index / size).collect();
        outcome.layouts.retain(|f| !lost.contains(&(f.index / size)));
        for layout in lost {
            outcome.layouts.extend(outcome.kept.iter().find(|f| f.index / size == layout).copied());
        }
        outcome.layouts.sort_by(Found::order);
    }

    fn report(&self, outcome: &Outcome, best: Option<u64>) -> Verification {
        let rank = |index: &u64| outcome.kept.iter().position(|f| f.index == *index);
        let mut failed: Vec<(u64, &String)> = self.failed.iter().map(|(index, why)| (*index, why)).collect();
        failed.sort_by_key(|(index, _)| (rank(index), *index));
        let failed = failed
            .into_iter()
            .map(|(index, why)| FailedPoint { deployment: self.inputs.space.deployment(index), missed: why.clone() })
            .collect();
        let run = best.and_then(|index| self.passed.get(&index));
        let latency = |l: &crate::sim::report::Latency| [l.mean, l.p50, l.p90, l.p99];
        Verification {
            limits: self.inputs.percentiles.texts(),
            simulated: self.simulated() as u64,
            passed: self.passed.len() as u64,
            seed: self.seed,
            requests: run.map_or(0, |run| run.report.sent),
            failed,
            best: run.map(|run| Latencies {
                ttft_ms: latency(&run.report.ttft_ms),
                tpot_ms: latency(&run.report.tpot_ms),
                itl_ms: latency(&run.report.itl_ms),
                e2e_ms: latency(&run.report.e2e_ms),
                metrics: run.metrics,
            }),
        }
    }
}
