//! Every point of a space, in parallel over layouts.
//!
//! Results do not depend on the number of threads: everything kept is ordered by figures and then by a point's number.

use super::Evaluator;
use super::tally::{Found, Outcome, Reason, Rejected, Sample, Tally, Why};
use crate::config::Legality;
use crate::objective::Objective;
use crate::serve::{Evaluation, Refusal};
use crate::space::{Neighbour, Space};
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// Points the even sample aims at.
pub const SAMPLE: u64 = 3000;

/// A space, what is legal, what is wanted, and who knows the figures.
pub struct Search<'a, E: Evaluator> {
    /// The points.
    pub space: &'a Space,
    /// Which of them an engine starts.
    pub legality: &'a Legality,
    /// What is wanted.
    pub objective: &'a Objective,
    /// Who knows the figures.
    pub evaluator: &'a E,
}

/// What is to be said of one point.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It runs and keeps every limit.
    Feasible(Found),
    /// It is out.
    Rejected(Reason, Rejected),
}

impl<E: Evaluator> Search<'_, E> {
    /// Looks at every point. `progress` is told how many more points are done, from any thread.
    pub fn run(&self, progress: &(dyn Fn(u64) + Sync)) -> Outcome {
        self.run_until(progress, &AtomicBool::new(false))
    }

    /// Looks at every point, or at those it came to before somebody set `interrupted`.
    pub fn run_until(&self, progress: &(dyn Fn(u64) + Sync), interrupted: &AtomicBool) -> Outcome {
        let layout = self.space.layout_len();
        let tally = (0..self.space.len() / layout)
            .into_par_iter()
            .map(|at| {
                if interrupted.load(Ordering::Relaxed) {
                    return Tally::default();
                }
                let tally = self.layout(at * layout);
                progress(layout);
                tally
            })
            .reduce(Tally::default, Tally::merge);
        tally.finish(self.space.len())
    }

    /// One point, from scratch.
    pub fn verdict(&self, index: u64) -> Verdict {
        let deployment = self.space.deployment(index);
        let broken = self.legality.violations(&deployment, self.space.gpus(index));
        if let Some(first) = broken.first() {
            let why = Why::Illegal(first.clone());
            return Verdict::Rejected(
                Reason::Illegal(first.reason()),
                Rejected { index, distance: broken.len() as f64, why },
            );
        }
        let evaluation = self.evaluator.compile(&deployment).and_then(|compiled| {
            self.evaluator.evaluate(&compiled, deployment.concurrency, deployment.max_num_batched_tokens)
        });
        self.judge(index, evaluation)
    }

    /// The feasible point one knob away that takes the smallest step; where there is none, the point one knob away
    /// that is out for the same reason but least far, if that is any nearer.
    pub fn nearest_change(&self, reason: &Reason, rejected: &Rejected) -> Option<(Neighbour, Verdict)> {
        let mut nearer: Option<(Neighbour, Verdict)> = None;
        let mut distance = rejected.distance;
        for neighbour in self.space.neighbours(rejected.index) {
            let verdict = self.verdict(neighbour.index);
            match &verdict {
                Verdict::Feasible(_) => return Some((neighbour, verdict)),
                Verdict::Rejected(why, other) if why == reason && other.distance < distance => {
                    distance = other.distance;
                    nearer = Some((neighbour, verdict));
                }
                Verdict::Rejected(..) => {}
            }
        }
        nearer
    }

    fn layout(&self, first: u64) -> Tally {
        let mut tally = Tally { looked: self.space.layout_len(), ..Tally::default() };
        let mut best: Option<Found> = None;
        let block = self.space.compiled_len();
        for start in (first..first + self.space.layout_len()).step_by(block as usize) {
            self.block(start, &mut tally, &mut best);
        }
        tally.layouts.extend(best);
        tally.prune();
        tally
    }

    /// The points that share everything but the load.
    fn block(&self, start: u64, tally: &mut Tally, best: &mut Option<Found>) {
        let deployment = self.space.deployment(start);
        let broken = self.legality.layout_violations(&deployment, self.space.gpus(start));
        if let Some(first) = broken.first() {
            let rejected = Rejected { index: start, distance: broken.len() as f64, why: Why::Illegal(first.clone()) };
            tally.reject(Reason::Illegal(first.reason()), self.space.compiled_len(), rejected);
            return;
        }
        let compiled = self.evaluator.compile(&deployment);
        let (budgets, loads) = self.space.loads();
        let mut index = start;
        let mut at = deployment;
        for &budget in budgets {
            at.max_num_batched_tokens = budget;
            for &concurrency in loads {
                at.concurrency = concurrency;
                if let Some(violation) = self.legality.load_violations(&at) {
                    let reason = Reason::Illegal(violation.reason());
                    tally.reject(reason, 1, Rejected { index, distance: 1.0, why: Why::Illegal(violation) });
                } else {
                    let evaluation = match &compiled {
                        Ok(compiled) => self.evaluator.evaluate(compiled, concurrency, budget),
                        Err(refusal) => Err(refusal.clone()),
                    };
                    self.note(index, evaluation, tally, best);
                }
                index += 1;
            }
        }
    }

    pub(super) fn note(
        &self,
        index: u64,
        evaluation: Result<Evaluation, Refusal>,
        tally: &mut Tally,
        best: &mut Option<Found>,
    ) {
        tally.legal += 1;
        let sampled = evaluation.as_ref().ok().copied().filter(|_| self.samples(index));
        let verdict = self.judge(index, evaluation);
        if let Some(evaluation) = sampled {
            tally.sample.push(Sample { index, evaluation, feasible: matches!(verdict, Verdict::Feasible(_)) });
        }
        match verdict {
            Verdict::Rejected(reason, rejected) => tally.reject(reason, 1, rejected),
            Verdict::Feasible(found) => {
                tally.feasible += 1;
                tally.front.push(found);
                tally.kept.push(found);
                if found.evaluation.metrics.usd_per_m_total.is_some() {
                    tally.cost_front.push(found);
                }
                if best.is_none_or(|b| Found::order(&found, &b).is_lt()) {
                    *best = Some(found);
                }
            }
        }
    }

    pub(super) fn judge(&self, index: u64, evaluation: Result<Evaluation, Refusal>) -> Verdict {
        match evaluation {
            Ok(evaluation) => match self.objective.judge(&evaluation.metrics) {
                Ok(score) => Verdict::Feasible(Found { index, score, evaluation }),
                Err(miss) => {
                    let why = Why::Missed(miss, Box::new(evaluation));
                    Verdict::Rejected(Reason::Slo(miss.slo), Rejected { index, distance: miss.overshoot, why })
                }
            },
            Err(refusal) => {
                let (reason, distance) = match &refusal {
                    Refusal::DoesNotFit(plan) => {
                        let short = plan.kv_bytes_per_request.0 - plan.kv_available.0;
                        (Reason::Memory, short / plan.total.0.max(1.0))
                    }
                    Refusal::NoModel(name) => (Reason::NoModel(name.clone()), f64::INFINITY),
                };
                Verdict::Rejected(reason, Rejected { index, distance, why: Why::Refused(refusal) })
            }
        }
    }

    /// An even choice that follows no pattern of the knobs: the number is scrambled first (SplitMix64, Steele et al. 2014).
    fn samples(&self, index: u64) -> bool {
        let mut z = index.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let share = SAMPLE as f64 / self.space.len() as f64;
        (z >> 11) as f64 / (1u64 << 53) as f64 <= share
    }
}

#[cfg(test)]
#[path = "exhaustive_tests.rs"]
mod tests;
