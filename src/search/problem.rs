//! A space of deployments as a backend sees it: dimensions, scores and limits.

use super::Evaluator;
use super::backend::{Dimension, Domain, Observation};
use super::driver::{Problem, Searched};
use super::exhaustive::{Search, Verdict};
use super::tally::{Found, Group, Outcome, Reason, Tally};
use crate::objective::Slo;
use crate::serve::{Evaluation, Refusal};
use crate::space::KNOBS;
use std::collections::BTreeMap;

/// What an evaluator says of a deployment.
pub type Figures = Result<Evaluation, Refusal>;

/// Knobs whose values are names.
const NAMES: [&str; 3] = ["weight_dtype", "kv_dtype", "prefill"];

/// A [`Search`] as a [`Problem`].
pub struct SpaceProblem<'a, E: Evaluator> {
    search: &'a Search<'a, E>,
    dimensions: Vec<Dimension>,
}

impl<'a, E: Evaluator> SpaceProblem<'a, E> {
    /// Every knob becomes a dimension, those with one value too, so that a point keeps its number.
    pub fn new(search: &'a Search<'a, E>) -> Self {
        let dimension = |(name, values): (&str, Vec<String>)| Dimension {
            name: name.to_string(),
            values,
            ordered: !NAMES.contains(&name),
            parts: if name == "prefill" { search.space.prefill_parts() } else { Vec::new() },
        };
        Self { search, dimensions: KNOBS.into_iter().zip(search.space.value_texts()).map(dimension).collect() }
    }

    /// What was found, in the form an exhaustive search gives it. Points nobody looked at are in `points` alone.
    pub fn outcome(&self, searched: &Searched<Figures>) -> Outcome {
        let looked = searched.history.observations().len() as u64;
        let mut tally = Tally { looked, ..Tally::default() };
        let mut layouts: BTreeMap<u64, Option<Found>> = BTreeMap::new();
        for observation in searched.history.observations() {
            let point = observation.point;
            match searched.figures.get(&point) {
                Some(figures) => {
                    let best = layouts.entry(point / self.search.space.layout_len()).or_default();
                    self.search.note(point, figures.clone(), &mut tally, best);
                }
                None => {
                    if let Verdict::Rejected(reason, rejected) = self.search.verdict(point) {
                        tally.reject(reason, 1, rejected);
                    }
                }
            }
        }
        tally.layouts = layouts.into_values().flatten().collect();
        tally.finish(self.search.space.len())
    }

    fn observation(&self, point: u64, verdict: &Verdict, evaluation: Option<&Evaluation>) -> Observation {
        let objective = self.search.objective;
        let (rejection, legal) = match verdict {
            Verdict::Feasible(_) => (None, true),
            Verdict::Rejected(reason, _) => {
                (Some(self.search.reason_name(reason)), !matches!(reason, Reason::Illegal(_)))
            }
        };
        Observation {
            point,
            score: evaluation.map(|e| objective.score(&e.metrics)).filter(|s| s.is_finite()),
            front: evaluation.map(|e| [e.metrics.tok_s_per_user, e.metrics.tok_s_per_gpu]),
            limits: evaluation.map_or_else(Vec::new, |e| objective.slos.iter().map(|s| excess(s, e)).collect()),
            rejection,
            legal,
        }
    }
}

/// By what share a limit is crossed; negative where it is kept with room to spare.
fn excess(slo: &Slo, evaluation: &Evaluation) -> f64 {
    let value = slo.metric.of(&evaluation.metrics).unwrap_or(f64::NAN);
    let ratio = if slo.metric.maximise() { slo.limit / value } else { value / slo.limit };
    if ratio.is_nan() { f64::INFINITY } else { ratio - 1.0 }
}

impl<E: Evaluator> Domain for SpaceProblem<'_, E> {
    fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    fn limits(&self) -> usize {
        self.search.objective.slos.len()
    }

    fn figures(&self) -> usize {
        2
    }

    fn allows(&self, point: u64) -> bool {
        let deployment = self.search.space.deployment(point);
        self.search.legality.load_violations(&deployment).is_none()
            && self.search.legality.layout_violations(&deployment, self.search.space.gpus(point)).is_empty()
    }

    fn explain(&self, point: u64) -> Option<String> {
        match self.search.verdict(point) {
            Verdict::Feasible(_) => None,
            Verdict::Rejected(reason, nearest) => Some(self.search.explain(&Group { reason, count: 1, nearest })),
        }
    }
}

impl<E: Evaluator> Problem for SpaceProblem<'_, E> {
    type Figures = Figures;

    fn evaluate(&self, point: u64) -> Figures {
        let deployment = self.search.space.deployment(point);
        let compiled = self.search.evaluator.compile(&deployment)?;
        self.search.evaluator.evaluate(&compiled, deployment.concurrency, deployment.max_num_batched_tokens)
    }

    fn observe(&self, point: u64, figures: &Figures) -> Observation {
        let verdict = self.search.judge(point, figures.clone());
        self.observation(point, &verdict, figures.as_ref().ok())
    }

    fn refuse(&self, point: u64) -> Observation {
        self.observation(point, &self.search.verdict(point), None)
    }
}
